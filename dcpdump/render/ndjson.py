"""Write one JSON object a line. Keys that do not apply are left out; numbers that JSON would round are strings."""

import json

from dcpdump.escape import safe_json
from dcpdump.record import Json, Record, as_json


def text(record: Record, value_bytes: int | None, *, context: bool = False) -> str:
    """Return the frame as one line of JSON. ``context``: it was not chosen, but is near a frame that was."""
    row = as_json(record, value_bytes=value_bytes)
    return dump(row | {"context": True} if context else row)


def dump(row: Json) -> str:
    """Return an object as one line, UTF-8, without control characters."""
    return safe_json(json.dumps(row, ensure_ascii=False))


def without_none(row: Json) -> Json:
    """Return a row without the keys that do not apply."""
    return {name: value for name, value in row.items() if value is not None}
