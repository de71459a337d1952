"""Format the values of a result, as cells of text or as JSON. Every text is safe to show."""

import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any

import pyarrow as pa

from dcpdump.escape import safe, safe_json


def rows_of(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a batch with values for JSON; bytes are safe text, times ISO 8601."""
    if not batch.num_columns:
        return iter([()] * batch.num_rows)
    return zip(*(_values(column) for column in batch.columns), strict=True)


def cell(value: Any) -> str:
    """Return a value of a row as one cell of text; empty for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return safe_json(json.dumps(value, ensure_ascii=False))
    return safe(str(value))


def is_number(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def names_of(schema: pa.Schema) -> list[str]:
    """Return the names of a result's columns, each once."""
    names: list[str] = []
    for name in map(safe, schema.names):
        number, unique = 1, name
        while unique in names:
            unique, number = f"{name}_{number}", number + 1
        names.append(unique)
    return names


def _values(column: pa.Array) -> Sequence[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):  # Python has no ns
        return [None if text is None else text.replace(" ", "T") for text in column.cast(pa.string()).to_pylist()]
    values: list[Any] = column.to_pylist()
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values
    return [plain(value, mapping=pa.types.is_map(kind)) for value in values]


def _interval(value: pa.MonthDayNano) -> str:
    """Return an interval as DuckDB spells it: ``1 day 00:01:30.5``."""
    size, seconds = abs(value.months), abs(value.nanoseconds) // 1_000_000_000
    parts = [(size // 12, value.months < 0, "year"), (size % 12, value.months < 0, "month")]
    parts.append((abs(value.days), value.days < 0, "day"))
    words = [f"{'-' * minus}{count} {unit}{'s' * (count != 1)}" for count, minus, unit in parts if count]
    if value.nanoseconds or not words:
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        fraction = f".{abs(value.nanoseconds) % 1_000_000_000 // 1000:06d}".rstrip("0").rstrip(".")
        words.append(f"{'-' * (value.nanoseconds < 0)}{clock}{fraction}")
    return " ".join(words)


def plain(value: Any, *, mapping: bool = False) -> Any:
    """Return a value as JSON has it; ``mapping``: its pairs are those of a map."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return safe(value)
    if isinstance(value, pa.MonthDayNano):
        return _interval(value)
    if isinstance(value, (datetime, date, time)):
        text = value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value.isoformat()
        return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list) and mapping:
        return {str(plain(name)): plain(each) for name, each in value}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return str(value)
