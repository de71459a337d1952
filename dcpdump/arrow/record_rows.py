"""Make a row of ``frames`` from one Record, for frames that no plan decodes: the flat record, typed."""

import json
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.arrow.arrays import encodable, fitted
from dcpdump.record import Record, as_json, framing, shown_body
from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.field import Field, FlatTable, Message, Part, Repeat

Row = dict[str, Any]
#: Columns that have values, which may be long.
VALUES = frozenset({"value", "items"})


def row(record: Record, value_bytes: int | None) -> Row:
    """Return the columns of one frame that are not null."""
    flat = as_json(record, value_bytes=0)  # values are bytes here, so that their text is not made
    fields = flat.pop("fields", {})
    out = {**fields, **flat}
    out = {name: value for name, value in out.items() if name in _NAMES}
    for name in out.keys() & _IDENTITIES:
        out[name] = _number(out[name])
    for name in out.keys() & _LISTS:
        out[name] = [_numbers(item) if isinstance(item, dict) else item for item in out[name]]
    frame, meaning = record.frame, record.meaning
    if "time" in out:
        ts_ns = frame.raw.where.ts_ns or 0
        out |= {"time": ts_ns // 1000, "time_ns": ts_ns}
    out["direction"] = record.direction
    if "key" in out:
        out["key"] = meaning.key
    if frame.masked:
        out["value"] = out["value"].encode()
    elif value_bytes != 0 and (body := shown_body(record)) is not None:
        out["value"] = body.value[:value_bytes]
    if meaning.body is not None and meaning.body.xattrs is not None:
        out["xattrs"] = list(dict(meaning.body.xattrs).items())
    if "value_json" in out:
        out["value_json"] = encodable(json.dumps(flat["value_json"], ensure_ascii=False))
    if "framing" in out:
        out["framing"] = framing(frame, attrgetter("value"))
    if meaning.items:
        for understood, item in zip(meaning.items, out["items"], strict=False):
            value = understood.body.value
            item |= {"key": understood.key, "value": value[:value_bytes]}
            item["value_hex"] = item.get("value_hex", "")[: None if value_bytes is None else 2 * value_bytes]
            if understood.body.xattrs is not None:
                item["xattrs"] = list(dict(understood.body.xattrs).items())
    return out


def is_cut(record: Record, value_bytes: int | None) -> bool:
    """Return whether a frame's value, or that of an item, is longer than ``value_bytes``; None cuts nothing."""
    if value_bytes is None:
        return False
    bodies = (shown_body(record), *(item.body for item in record.meaning.items))
    return any(body is not None and len(body.value) > value_bytes for body in bodies)


def batch_of_records(
    records: Sequence[Record], value_bytes: int | None, columns: Collection[str] | None = None
) -> pa.RecordBatch:
    """Return frames as a batch of ``frames``; ``columns``: those that are built."""
    rows = [{**row(each, value_bytes), "file": each.frame.raw.where.file} for each in records]
    fields = [field for field in schema.frames() if columns is None or field.name in columns]
    kept = {field.name for field in fields}
    for field in schema.frames() if "problems" in kept else ():
        for at in _column(rows, field)[1]:
            rows[at]["problems"] = [*rows[at].get("problems", ()), misfit(field.name)]
    arrays = [_column(rows, field)[0] for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, schema.frames().metadata))


def misfit(name: str) -> Row:
    """Return the problem of a frame of which a value does not fit its column."""
    return {"text": f"{name} does not fit its column", "offset": 0, "length": 0}


def _column(rows: Sequence[Row], field: pa.Field) -> tuple[pa.Array, list[int]]:
    values = [each.get(field.name) for each in rows]
    if pa.types.is_dictionary(field.type):
        words = pa.array([None if word is None else encodable(word) for word in values], pa.string())
        return words.dictionary_encode().cast(field.type), []
    return fitted(values, field.type)


def _identities() -> frozenset[str]:
    """Return the names of fields whose numbers the flat record spells as hexadecimal text."""
    parts = [part for message in (*MESSAGES.values(), *PUSHES.values()) for part in _parts(message)]
    flat = [slot.field for part in parts if isinstance(part, FlatTable) for slot in part.slots]
    items = [field for part in parts if isinstance(part, Repeat) for field in part.fields]
    named = {field.name for field in (*parts, *flat, *items) if isinstance(field, Field) and field.identity}
    return frozenset(named | {"cas"})


def _parts(message: Message) -> list[Part]:
    return [part for layout in message.layouts for part in (*layout.extras, *layout.parts)]


_IDENTITIES = _identities()
_NAMES = frozenset(schema.frames().names)
#: The names of lists of objects.
_LISTS = frozenset(
    part.name
    for message in (*MESSAGES.values(), *PUSHES.values())
    for part in _parts(message)
    if isinstance(part, Repeat) and len(part.fields) > 1
)


def _number(value: Any) -> Any:
    """Return the number of an identity that is spelled as text."""
    return int(value, 16) if isinstance(value, str) else value


def _numbers(item: Row) -> Row:
    return {name: _number(value) if name in _IDENTITIES else value for name, value in item.items()}
