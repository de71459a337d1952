"""One JSON object a line. Keys that do not apply are left out; what JSON cannot hold exactly is no number."""

import json

from dcpdump.escape import safe_json
from dcpdump.record import Json, Record, as_json


def text(record: Record, value_bytes: int | None) -> str:
    """It writes the frame as one line of JSON."""
    return dump(as_json(record, value_bytes=value_bytes))


def dump(row: Json) -> str:
    """It writes an object as one line, UTF-8, without a control character in it."""
    return safe_json(json.dumps(row, ensure_ascii=False))
