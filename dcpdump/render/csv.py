"""Write frames as CSV (RFC 4180): the same columns for every capture, lists and objects as JSON text."""

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dcpdump.escape import safe, safe_json
from dcpdump.record import Json, Record, as_json, columns


def header() -> str:
    """Return the row of column names."""
    return row_text(columns())


def text(record: Record, value_bytes: int | None) -> str:
    """Return the frame as one row."""
    flat = _flat(as_json(record, value_bytes=value_bytes))
    return row_text([flat.get(name, "") for name in columns()])


def _flat(row: Json) -> Json:
    fields = row.pop("fields", {})
    row["problems"] = "; ".join(problem["text"] for problem in row.get("problems", ()))
    row["hints"] = "; ".join(row.get("hints", ()))
    return {name: _cell(value) for name, value in {**fields, **row}.items()}


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "|".join(value)
    return safe_json(json.dumps(value, ensure_ascii=False)) if isinstance(value, (list, dict)) else value


def lines(names: Sequence[str], rows: Iterable[Json]) -> Iterator[str]:
    """Yield the names of columns as a line, and objects as lines that have what these columns name."""
    yield row_text(names) + "\r\n"
    for row in rows:
        yield row_text([_cell(row.get(name, "")) for name in names]) + "\r\n"


def row_text(cells: Sequence[Any]) -> str:
    """Return cells as one row, without its newline; text is made safe to show."""
    import csv  # here, as no other format needs it

    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([safe(cell) if isinstance(cell, str) else cell for cell in cells])
    return out.getvalue().removesuffix("\r\n")
