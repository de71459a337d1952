"""Make the JSON Schema (draft 2020-12) of the tables that a query may name: columns, types, meanings."""

from typing import Any

import pyarrow as pa

from dcpdump.arrow.folder import SCHEMAS
from dcpdump.arrow.other_tables import FILES, GAPS
from dcpdump.render.column import KEYS, ColumnSet
from dcpdump.render.findings import FINDINGS
from dcpdump.render.objects import DRAFT, OTHERWISE, ROWS, messages_of_fields
from dcpdump.render.streams import STREAMS
from dcpdump.sql.query import FRAMES

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
        field.name: {"description": _meaning(name, field.name), "sqlType": _sql(field.type), **_json(field.type)}
        for field in columns
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
    if column in ROWS["frame"].split():
        return (OTHERWISE.get(("frame", column)) or KEYS[column])[1]
    known, base = messages_of_fields(), column.removesuffix("_names").removesuffix("_name")
    messages = known.get(column) or known[base]
    names = ", ".join(messages[:_MOST]) + (" …" if len(messages) > _MOST else "")
    what = f"what {base} means" if base != column and base in known else f"the field {column.replace('_', ' ')}"
    return f"{what} ({names})"


def _sql(kind: pa.DataType) -> str:
    """Return the name of a type in SQL; of structures without their parts."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP WITH TIME ZONE"
    if pa.types.is_dictionary(kind):
        return _sql(kind.value_type)
    if pa.types.is_list(kind):
        return f"{_sql(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return "STRUCT"
    return "MAP" if pa.types.is_map(kind) else _TYPES[kind][0]


def _json(kind: pa.DataType) -> Schema:
    """Return the schema of a type's values as ndjson has them."""
    if pa.types.is_timestamp(kind):
        return {"type": ["string", "null"], "format": "date-time"}
    if pa.types.is_dictionary(kind):
        return _json(kind.value_type)
    if pa.types.is_list(kind):
        return {"type": ["array", "null"], "items": _json(kind.value_type)}
    if pa.types.is_struct(kind):
        properties = {field.name: _json(field.type) for field in kind}
        return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}
    if pa.types.is_map(kind):
        return {"type": ["object", "null"], "additionalProperties": _json(kind.item_type)}
    return {"type": [_TYPES[kind][1], "null"]}
