"""Make the JSON Schema (draft 2020-12) of a command's ndjson rows, from the table of keys and the protocol table."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from dcpdump.render import row_keys
from dcpdump.render.column import ColumnSet
from dcpdump.render.row_keys import KEYS, OTHERWISE, ROWS
from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.field import Bits, Blob, EnumValue, Field, FlatTable, Part, Repeat

Schema = dict[str, Any]
Rows = Sequence[str | ColumnSet[Any]]  #: kinds of rows: by their name, or their columns
DRAFT = "https://json-schema.org/draft/2020-12/schema"
#: What is understood of an item, as of a frame.
_OF_AN_ITEM = "collection collection_name key value xattrs xattrs_unread_hex".split()
_INTEGERS = (row_keys.INT, row_keys.ID, row_keys.I32, row_keys.U8, row_keys.U16, row_keys.U32, row_keys.U64)
_TYPES: dict[str, Schema] = {
    **{name: {"type": "integer"} for name in _INTEGERS},
    row_keys.NUMBER: {"type": "number"},
    row_keys.TEXT: {"type": "string"},
    row_keys.BOOL: {"type": "boolean"},
    row_keys.TIME: {"type": "string", "format": "date-time"},
    row_keys.INSTANT: {"type": "string", "format": "date-time"},
    row_keys.HEX: {"type": "string", "pattern": "^0x[0-9a-f]+$"},
    row_keys.ANY: {},
}


def schema(command: str, rows: Rows) -> Schema:
    """Return the schema of each row that a command prints with ``-f ndjson``."""
    found = [_columns(row) if isinstance(row, ColumnSet) else _row(row) for row in rows]
    head = {"$schema": DRAFT, "title": f"a row of: dcpdump {command} -f ndjson"}
    return head | (found[0] if len(found) == 1 else {"oneOf": found})


def keys(rows: Rows) -> list[str]:
    """Return the keys of rows of these kinds, each once: the columns that they have as csv."""
    names: list[str] = []
    for row in rows:
        if isinstance(row, ColumnSet):
            names += ["type"] * bool(row.type) + [*row.keyed]
        else:
            names += ROWS[row].replace("|", " ").split()
    return list(dict.fromkeys(names))


def _row(name: str) -> Schema:
    """Return the schema of a row that is named; what stands behind a dot in its name is its ``type``."""
    always, _, sometimes = ROWS[name].partition("|")
    properties = {key: _key(name, key) for key in (*always.split(), *sometimes.split())}
    if "." in name:
        properties["type"] |= {"const": name.partition(".")[2]}
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | ({"required": always.split()} if always.strip() else {})


def _columns(columns: ColumnSet[Any]) -> Schema:
    """Return the schema of rows of a kind."""
    keyed = columns.keyed
    properties = {key: {"description": each.means, **_type(each.kind)} for key, each in keyed.items()}
    required = [key for key, each in keyed.items() if not each.optional]
    if columns.type:
        properties = {"type": {**_key("", "type"), "const": columns.type}, **properties}
        required = ["type", *required]
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | ({"required": required} if required else {})


def _key(row: str, key: str) -> Schema:
    kind, meaning = OTHERWISE.get((row, key)) or KEYS[key]
    return {"description": meaning, **_type(kind)}


def _type(kind: str | ColumnSet[Any]) -> Schema:
    if isinstance(kind, ColumnSet):
        return {"type": "array", "items": _columns(kind)}
    if kind[0] == "?":
        return {"anyOf": [_type(kind[1:]), {"type": "null"}]}
    if kind[0] == "[":
        return {"type": "array", "items": _type(kind[1:-1])}
    if kind[0] == "{":
        return {"type": "object", "additionalProperties": _type(kind[1:-1])}
    if kind == "@fields":
        return {"type": "object", "properties": _fields(), "additionalProperties": False}
    return _row(kind[1:]) if kind[0] == "@" else dict(_TYPES[kind])


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
            yield from _properties(tuple(slot.field for slot in part.slots))
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
                yield f"{key}_name", _type(row_keys.TEXT)


def _item(part: Repeat) -> Schema:
    if len(part.fields) == 1 and part.fields[0].name == part.name:
        return _plain(part.fields[0])
    properties = {f"{each.name}_hex" if isinstance(each, Blob) else each.name: _plain(each) for each in part.fields}
    if part.name == "items":
        properties |= {key: _key("frame", key) for key in _OF_AN_ITEM}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _plain(part: Field | Blob) -> Schema:
    if isinstance(part, Blob):
        return _type(row_keys.TEXT)
    return _type(row_keys.HEX if part.identity else row_keys.INT)
