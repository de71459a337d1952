"""Define the schemas of the tables: one column for each name of the flat record, typed by the protocol table.

Schemas are the same for every capture. 64-bit numbers and bytes keep their types; an enumeration has its number in one
column and its name in another.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa

from dcpdump.record import columns, protocol_parts
from dcpdump.render import column as types
from dcpdump.render.column import ColumnSet
from dcpdump.spec.field import Blob, Field, Repeat
from dcpdump.spec.header import REQUEST_INFOS, RESPONSE_INFOS

FRAMES = "dcpdump.frames/1"

Row = TypeVar("Row")
WORD = pa.dictionary(pa.int32(), pa.string())  #: text from a small vocabulary
WORDS = pa.list_(pa.string())
MOMENT = pa.timestamp("us", tz="UTC")

#: The type of a Column → its Arrow type.
_STORED: dict[str, pa.DataType] = {
    types.INT: pa.int64(),
    types.ID: pa.int64(),
    types.I32: pa.int32(),
    types.U8: pa.uint8(),
    types.U16: pa.uint16(),
    types.U32: pa.uint32(),
    types.U64: pa.uint64(),
    types.HEX: pa.uint64(),
    types.BOOL: pa.bool_(),
    types.TEXT: pa.string(),
    "[text]": WORDS,
    types.TIME: MOMENT,
    types.INSTANT: MOMENT,
}
_UNSIGNED = {1: pa.uint8(), 2: pa.uint16(), 4: pa.uint32(), 8: pa.uint64()}

_AS_PRINTED = """frame packet time connection direction offset length gap_before vbucket request_frame latency_us opaque
    cas stream_id collection_inferred key_hex value_length xattrs_unread_hex""".split()
_PROBLEM = {"text": pa.string(), "offset": pa.int64(), "length": pa.int64(), "code": pa.string()}
#: Columns that are not in the protocol table: context, header, key and value of the frame. Words are not named here.
_KNOWN: dict[str, pa.DataType] = {
    **{key: _STORED[types.KEYS[key][0]] for key in _AS_PRINTED},
    "time_ns": pa.int64(),
    "magic": pa.uint8(),
    "opcode": pa.uint8(),
    "status": pa.uint16(),
    "datatype": pa.uint8(),
    "collection": pa.uint32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "value_json": pa.string(),
    "xattrs": pa.map_(pa.binary(), pa.binary()),
    "problems": pa.list_(pa.struct([*_PROBLEM.items()])),
    "hints": WORDS,
}
#: Names in the flat record that differ here → the columns here.
_INSTEAD = {
    "time": ("time", "time_ns"),
    "connection": ("connection", "direction"),
    "stream_id": ("framing", "stream_id"),
    "value": ("value", "value_json"),
}


@cache
def frames() -> pa.Schema:
    """Return the schema of ``frames``: a row for each frame, in the order of completion."""
    types = {**_KNOWN, "framing": _framing(), **_parts()}
    names = [name for flat in columns() for name in _INSTEAD.get(flat, (flat,))]
    # Columns without a type hold words: where they are captured, and the names of flags and of an enumeration's values.
    words = {name: WORDS if name.endswith("_names") else WORD for name in names}
    return versioned(FRAMES, [pa.field(name, types.get(name, words[name])) for name in names])


def of_columns(columns: ColumnSet[Any]) -> list[pa.Field]:
    """Return the fields of declared columns."""
    fields = []
    for key, each in columns.keyed.items():
        if each.stored:
            kind = _STORED[each.kind] if each.columns is None else pa.struct(of_columns(each.columns))
            fields.append(pa.field(key, pa.list_(kind) if each.kind == types.ROWS else kind))
            fields += [pa.field(f"{key}_ns", pa.int64())] * (each.kind == types.INSTANT)
    return fields


def stored(columns: ColumnSet[Row], row: Row) -> dict[str, Any]:
    """Return a row for the fields of ``of_columns``."""
    out: dict[str, Any] = {}
    for key, each in columns.keyed.items():
        value = each.get(row) if each.get is not None and each.stored else None
        if value is None:
            continue
        if each.kind == types.INSTANT:
            out[f"{key}_ns"] = value
        if each.columns is not None:
            out[key] = each.rows(stored, value)
        else:
            out[key] = value // 1000 if each.kind in (types.TIME, types.INSTANT) else value
    return out


def text(schema: pa.Schema) -> str:
    """Return a schema as text: a line for each column."""
    width = max(len(field.name) for field in schema)
    lines = [f"{field.name.ljust(width)}  {field.type}" for field in schema]
    return f"{(schema.metadata or {})[b'schema'].decode()}\n" + "".join(f"  {line}\n" for line in lines)


def versioned(version: str, fields: Sequence[pa.Field | tuple[str, pa.DataType]]) -> pa.Schema:
    """Return a schema with its version in the metadata."""
    return pa.schema(fields, metadata={"schema": version, "creator": json.dumps({"tool": "dcpdump"})})


def _framing() -> pa.DataType:
    parts: dict[str, pa.DataType] = {"name": pa.string()}
    for kind in (*REQUEST_INFOS.values(), *RESPONSE_INFOS.values()):
        parts |= {part.name: _scalar(part) for part in kind.parts}
    parts["frame_info_data"] = pa.binary()
    return pa.list_(pa.struct([*parts.items()]))


def _parts() -> dict[str, pa.DataType]:
    """Return the type of every field and list in extras or values of the protocol table."""
    types: dict[str, pa.DataType] = {}
    for part in protocol_parts():
        kind = _type(part)
        name = part.key if isinstance(part, Field) else part.name
        # A name has one column: where widths differ, the wider type holds both.
        if name not in types or (pa.types.is_integer(kind) and kind.bit_width > types[name].bit_width):
            types[name] = kind
    return types


def _type(part: Field | Blob | Repeat) -> pa.DataType:
    if isinstance(part, Repeat):
        if len(part.fields) == 1:
            return pa.list_(_scalar(part.fields[0]))
        blob = pa.string()  # in hexadecimal
        fields = [
            pa.field(f"{each.name}_hex", blob) if isinstance(each, Blob) else pa.field(each.name, _scalar(each))
            for each in part.fields
        ]
        if any(isinstance(each, Blob) for each in part.fields):  # documents: with their decoded parts
            types = {**_KNOWN, "collection_name": pa.string()}
            understood = ("collection", "collection_name", "key", "value", "xattrs", "xattrs_unread_hex")
            fields += [pa.field(name, types[name]) for name in understood]
        return pa.list_(pa.struct(fields))
    return pa.string() if isinstance(part, Blob) else _scalar(part)  # a name


def _scalar(part: Field | Blob) -> pa.DataType:
    return _UNSIGNED[part.width] if isinstance(part, Field) else pa.binary()
