"""Write rows for programs, as ndjson and as csv, and the JSON Schema of what they are.

Keys that do not apply are left out of objects; numbers that JSON would round are strings. Csv (RFC 4180) has the same
columns for every capture, lists and objects as JSON text.
"""

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from dcpdump.escape import safe, safe_json
from dcpdump.record import Json, Record, as_json, columns
from dcpdump.render.column import ANY, BOOL, HEX, INSTANT, INT, INTEGERS, NUMBER, TEXT, TIME, Column, ColumnSet, given
from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.field import Bits, Blob, EnumValue, Field, FlatTable, Part, Repeat

# -- the schema (draft 2020-12), from the table of keys, the columns and the protocol table -----------

_PROBLEM = ColumnSet[Json](*given("code text offset length"))
#: The keys of objects that ``as_json`` makes.
FRAME = ColumnSet[Any](
    *given(
        "frame? packet? file? time? connection? src? dst? offset? length? gap_before? confidence? magic? kind? opcode?"
    ),
    Column("name?", meaning="the name of the message"),
    *given(
        "layout? vbucket? status? status_name? request_frame? latency_us? opaque? cas? datatype? datatype_names? "
        "framing? stream_id? fields? collection? collection_inferred? collection_name? key? key_hex? value_length? "
        "value? xattrs? xattrs_unread_hex? value_json?"
    ),
    Column("problems?", columns=_PROBLEM),
    *given("hints?"),
)
SHOWN = ColumnSet[Any](*FRAME, *given("context?"))

Schema = dict[str, Any]
Rows = Sequence[ColumnSet[Any]]  #: kinds of rows, by their columns
DRAFT = "https://json-schema.org/draft/2020-12/schema"
#: What is understood of an item, as of a frame.
_OF_AN_ITEM = "collection collection_name key value xattrs xattrs_unread_hex".split()
_TYPES: dict[str, Schema] = {
    **{name: {"type": "integer"} for name in INTEGERS},
    NUMBER: {"type": "number"},
    TEXT: {"type": "string"},
    BOOL: {"type": "boolean"},
    TIME: {"type": "string", "format": "date-time"},
    INSTANT: {"type": "string", "format": "date-time"},
    HEX: {"type": "string", "pattern": "^0x[0-9a-f]+$"},
    ANY: {},
}


def schema(command: str, rows: Rows) -> Schema:
    """Return the schema of each row that a command prints with ``-f ndjson``."""
    found = [_columns(row) for row in rows]
    head = {"$schema": DRAFT, "title": f"a row of: dcpdump {command} -f ndjson"}
    return head | (found[0] if len(found) == 1 else {"oneOf": found})


def keys(rows: Rows) -> list[str]:
    """Return the keys of rows of these kinds, each once: the columns that they have as csv."""
    return list(dict.fromkeys(name for row in rows for name in (*["type"] * bool(row.type), *row.keyed)))


def _columns(columns: ColumnSet[Any]) -> Schema:
    """Return the schema of rows of a kind."""
    keyed = columns.keyed
    properties = {key: _property(each) for key, each in keyed.items()}
    required = [key for key, each in keyed.items() if not each.key.endswith("?")]
    if columns.type:
        properties = {"type": {**_property(Column("type")), "const": columns.type}, **properties}
        required = ["type", *required]
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | ({"required": required} if required else {})


def _property(column: Column[Any]) -> Schema:
    return {"description": column.means, **_type(column.kind, column.columns)}


def _type(kind: str, columns: ColumnSet[Any] | None = None) -> Schema:
    if kind[0] == "?":
        return {"anyOf": [_type(kind[1:], columns), {"type": "null"}]}
    if kind[0] == "[":
        return {"type": "array", "items": _type(kind[1:-1], columns)}
    if kind[0] == "{":
        return {"type": "object", "additionalProperties": _type(kind[1:-1])}
    if kind == "fields":
        return {"type": "object", "properties": _fields(), "additionalProperties": False}
    return dict(_TYPES[kind]) if columns is None else _columns(columns)


@cache
def _fields() -> Schema:
    """Return the properties of all fields of the protocol table; one name may have several types."""
    found: dict[str, list[Schema]] = {}
    for _, name, each in _all_properties():
        kinds = found.setdefault(name, [])
        if each not in kinds:
            kinds.append(each)
    return {name: kinds[0] if len(kinds) == 1 else {"anyOf": kinds} for name, kinds in found.items()}


@cache
def messages_of_fields() -> dict[str, list[str]]:
    """Return which messages have a field, by its name."""
    found: dict[str, dict[str, None]] = {}
    for message, name, _ in _all_properties():
        found.setdefault(name, {})[message] = None
    return {name: list(messages) for name, messages in found.items()}


def _all_properties() -> Iterator[tuple[str, str, Schema]]:
    """Yield the name of each message, and of each property that its layouts have, with its schema."""
    for message in (*MESSAGES.values(), *PUSHES.values()):
        for layout in message.layouts:
            for name, each in _properties((*layout.extras, *layout.parts)):
                yield message.name, name, each


def _properties(parts: tuple[Part, ...]) -> Iterator[tuple[str, Schema]]:
    for part in parts:
        if isinstance(part, FlatTable):
            yield from _properties(part.fields)
        elif isinstance(part, Repeat):
            yield part.name, {"type": "array", "items": _item(part)}
            if part.name == "features":
                yield "features_names", _type("[text]")
        else:
            key = part.key if isinstance(part, Field) else part.name
            yield key, _plain(part)
            if isinstance(part, Field) and isinstance(part.names, Bits):
                yield f"{key}_names", _type("[text]")
            elif isinstance(part, Field) and isinstance(part.names, EnumValue):
                yield f"{key}_name", _type(TEXT)


def _item(part: Repeat) -> Schema:
    if len(part.fields) == 1 and part.fields[0].name == part.name:
        return _plain(part.fields[0])
    properties = {f"{each.name}_hex" if isinstance(each, Blob) else each.name: _plain(each) for each in part.fields}
    if part.name == "items":
        properties |= {key: _property(FRAME.keyed[key]) for key in _OF_AN_ITEM}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _plain(part: Field | Blob) -> Schema:
    if isinstance(part, Blob):
        return _type(TEXT)
    return _type(HEX if part.identity else INT)


# -- rows and frames: one JSON object a line, or one line of csv --------------------------------------


def dump(row: Json) -> str:
    """Return an object as one line, UTF-8, without control characters."""
    return safe_json(json.dumps(row, ensure_ascii=False))


def without_none(row: Json) -> Json:
    """Return a row without the keys that do not apply."""
    return {name: value for name, value in row.items() if value is not None}


def csv_text(record: Record, value_bytes: int | None) -> str:
    """Return the frame as one row of the columns that all frames have."""
    flat = _flat(as_json(record, value_bytes=value_bytes))
    return csv_row([flat.get(name, "") for name in columns()]) + "\r\n"


def _flat(row: Json) -> Json:
    fields = row.pop("fields", {})
    row["problems"] = "; ".join(problem["text"] for problem in row.get("problems", ()))
    row["hints"] = "; ".join(row.get("hints", ()))
    return {name: _cell(value) for name, value in {**fields, **row}.items()}


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return "|".join(value)
    return safe_json(json.dumps(value, ensure_ascii=False)) if isinstance(value, (list, tuple, dict)) else value


def csv_lines(names: Sequence[str], rows: Iterable[Json]) -> Iterator[str]:
    """Yield the names of columns as a line, and objects as lines that have what these columns name."""
    yield csv_row(names) + "\r\n"
    for row in rows:
        yield csv_row([_cell(row.get(name, "")) for name in names]) + "\r\n"


def csv_row(cells: Sequence[Any]) -> str:
    """Return cells as one row, without its newline; text is made safe to show."""
    import csv  # here, as no other format needs it

    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([safe(cell) if isinstance(cell, str) else cell for cell in cells])
    return out.getvalue().removesuffix("\r\n")
