"""Format the values of a result, and describe the rows of tables as a JSON Schema. Every text is safe to show."""

import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any

import pyarrow as pa

from dcpdump.arrow.folder import SCHEMAS
from dcpdump.arrow.other_tables import FILES
from dcpdump.escape import safe, safe_json
from dcpdump.render.column import KEYS, ColumnSet
from dcpdump.render.conns import GAPS
from dcpdump.render.findings import FINDINGS
from dcpdump.render.objects import DRAFT, FRAME, messages_of_fields
from dcpdump.render.streams import STREAMS
from dcpdump.sql.query import FRAMES

# -- values as cells of text, or as JSON --------------------------------------------------------------


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


# -- the JSON Schema (draft 2020-12) of the tables that a query may name ------------------------------

Schema = dict[str, Any]

_MOST = 4  #: names of messages that are listed
_TABLES = {
    FRAMES: "a row for each frame, in the order in which frames completed; dcpdump spec MESSAGE explains its fields",
    "gaps": "a row for each run of bytes of a connection that was not captured",
    "streams": "a row for each stream of a vbucket, with what became of it",
    "findings": "a row for each break of a rule, as check finds it",
    "files": "a row for each capture that was read",
}
#: Column of any table → its meaning, where ndjson has no such key.
_MEANINGS: dict[str, str] = {
    "time": "when, to the microsecond",
    "time_ns": "when, in nanoseconds since 1970",
    "first_ns": "the same in nanoseconds since 1970",
    "last_ns": "the same in nanoseconds since 1970",
}
#: Column of frames → the same.
_OF_FRAMES = {
    "direction": KEYS["direction"][1],
    "stream_id": "the DCP stream id; null: none",
    "key": "the key without its collection: bytes",
    "value": "the value, decompressed, without xattrs: bytes; shorter than value_length where it was cut",
}
_COLUMNS: dict[str, ColumnSet[Any]] = {"streams": STREAMS, "findings": FINDINGS, "gaps": GAPS, "files": FILES}
#: Type → its name in SQL and in JSON. Nested ones by their kind.
_TYPES: dict[pa.DataType, tuple[str, str]] = {
    pa.bool_(): ("BOOLEAN", "boolean"),
    pa.string(): ("VARCHAR", "string"),
    pa.binary(): ("BLOB", "string"),
    pa.uint8(): ("UTINYINT", "integer"),
    pa.uint16(): ("USMALLINT", "integer"),
    pa.uint32(): ("UINTEGER", "integer"),
    pa.uint64(): ("UBIGINT", "integer"),
    pa.int32(): ("INTEGER", "integer"),
    pa.int64(): ("BIGINT", "integer"),
}


def schema() -> Schema:
    """Return the schema of the rows of ``select *`` from each table."""
    return {
        "$schema": DRAFT,
        "title": "a row of: dcpdump sql 'select * from TABLE' CAPTURE… -f ndjson",
        "description": "A row has the columns that a query names; sqlType is the type of a column in SQL.",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in SCHEMAS],
        "$defs": {name: _table(name, make()) for name, make in SCHEMAS.items()},
    }


def _table(name: str, columns: pa.Schema) -> Schema:
    properties = {
        field.name: {"description": _meaning(name, field.name), "sqlType": sql, **json_schema}
        for field, (sql, json_schema) in ((each, _types_of(each.type)) for each in columns)
    }
    head = {"title": name, "description": _TABLES[name], "type": "object", "properties": properties}
    return {**head, "required": columns.names, "additionalProperties": False}


def _meaning(table: str, column: str) -> str:
    """Return the meaning of a column, from the commands' keys or the protocol table."""
    own = _MEANINGS.get(column)
    if own is not None:
        return own
    if table in _COLUMNS:
        return _COLUMNS[table].keyed[column].means
    if column in _OF_FRAMES:
        return _OF_FRAMES[column]
    if column in FRAME.keyed:
        return FRAME.keyed[column].means
    known, base = messages_of_fields(), column.removesuffix("_names").removesuffix("_name")
    messages = known.get(column) or known[base]
    names = ", ".join(messages[:_MOST]) + (" …" if len(messages) > _MOST else "")
    what = f"what {base} means" if base != column and base in known else f"the field {column.replace('_', ' ')}"
    return f"{what} ({names})"


def _types_of(kind: pa.DataType) -> tuple[str, Schema]:
    """Return the name of a type in SQL (of structures without their parts), and the schema of its values in ndjson."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP WITH TIME ZONE", {"type": ["string", "null"], "format": "date-time"}
    if pa.types.is_dictionary(kind):
        return _types_of(kind.value_type)
    if pa.types.is_list(kind):
        name, items = _types_of(kind.value_type)
        return f"{name}[]", {"type": ["array", "null"], "items": items}
    if pa.types.is_struct(kind):
        properties = {field.name: _types_of(field.type)[1] for field in kind}
        return "STRUCT", {"type": ["object", "null"], "properties": properties, "additionalProperties": False}
    if pa.types.is_map(kind):
        return "MAP", {"type": ["object", "null"], "additionalProperties": _types_of(kind.item_type)[1]}
    name, in_json = _TYPES[kind]
    return name, {"type": [in_json, "null"]}
