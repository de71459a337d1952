"""Make, for one layout and one format, the texts of many frames from their columns.

They use the same fields as the writers for one record, and must return the same text.
"""

from collections.abc import Callable, Iterator
from functools import partial
from json.encoder import encode_basestring as quoted
from typing import Any

from dcpdump.batch.gather import Array
from dcpdump.batch.layouts import FLEXIBLE, Plan
from dcpdump.escape import safe
from dcpdump.record import columns as csv_columns
from dcpdump.render import View, line
from dcpdump.render.batch_columns import Template, TemplateColumns
from dcpdump.render.batch_table import sheets
from dcpdump.spec.field import Bits, EnumValue, Field
from dcpdump.spec.names import DATATYPE
from dcpdump.wire.frame import Fault

_CLASSIC = 0x80
_NOT_JSON = quoted(Fault.NOT_JSON.value)
_DATATYPES = ["|".join(DATATYPE.describe(value)) for value in range(8)]


def _texts(wire: list[bytes]) -> list[str]:
    return [text.decode() for text in wire]


def _named(field: Field, column: Array, spell: Callable[[Field, int], str]) -> list[str]:
    """Return the text of each value of a column; each distinct value is spelled only once."""
    numbers = column.tolist()
    known = {number: spell(field, number) for number in set(numbers)}
    return [known[number] for number in numbers]


# -- one line -------------------------------------------------------------------------------------------------


def _line(plan: Plan, framed: bool, columns: TemplateColumns, view: View) -> list[bytes]:
    message = plan.message
    count = len(columns.row)
    words: list[list[str]] = []
    if message.streamed or message.vbucket:
        words.append([f", vb={vbucket}" for vbucket in columns.vbucket.tolist()])
    if columns.stream_id is not None:
        words.append([f", sid={stream_id}" for stream_id in columns.stream_id.tolist()])
    for field, column in zip(plan.fields, columns.fields, strict=True):
        words.append(_named(field, column, partial(_line_word, message.name)))
    owners = zip(columns.collection, columns.collection_name, strict=True)
    words.append([_line_collection(number, name) for number, name in owners])
    keys = zip(_texts(columns.key), columns.wire_key, strict=True)
    words.append([f", key={key}" if size else "" for key, size in keys])
    if plan.value is None:
        values = _texts(columns.value) if not message.document else [f"{length} B" for length in columns.value_length]
        shown = zip(values, columns.value_length, strict=True)
        words.append([f", value={value}" if length else "" for value, length in shown])
    gaps = [""] * count
    if any(columns.gap):
        gaps = [f" [after {gap:,} bytes lost or skipped]" if gap else "" for gap in columns.gap]
    if any(columns.fault):
        gaps = [f"{gap} ! {safe(fault)}" if fault else gap for gap, fault in zip(gaps, columns.fault, strict=True)]
    name = line.dialogue_name(message.name)
    known = [f" c{ends.connection} {line.sending_side(message, response=False)} {name}{{" for ends in columns.places]
    bodies = map("".join, zip(*words, strict=True))
    rows = zip(columns.number, _texts(columns.time), columns.place, bodies, gaps, strict=True)
    return [f"#{number} {time}{known[place]}{body[2:]}}}{gap}\n".encode() for number, time, place, body, gap in rows]


def _line_collection(number: int, name: str) -> str:
    if number < 0:
        return ""
    return f", collection=0x{number:x}({name})" if name else f", collection=0x{number:x}"


def _line_word(message: str, field: Field, number: int) -> str:
    word = line.word(message, field, number)
    return f", {word}" if word else ""


# -- ndjson ---------------------------------------------------------------------------------------------------


def _ndjson(plan: Plan, framed: bool, columns: TemplateColumns, view: View) -> list[bytes]:
    shows_value = view.value_bytes != 0 and plan.value is None
    out: list[bytes] = []
    for text, collection, name, inferred, key, wire_key, value, value_at, length, fault in zip(
        _json_heads(plan, framed, columns),
        columns.collection,
        columns.collection_name,
        columns.inferred,
        _texts(columns.key),
        columns.wire_key,
        _texts(columns.value),
        columns.value_at,
        columns.value_length,
        columns.fault,
        strict=True,
    ):
        if collection >= 0:
            text += f', "collection": {collection}, "collection_inferred": true' if inferred else (
                f', "collection": {collection}'
            )  # fmt: skip
        if name:
            text += f', "collection_name": {quoted(name)}'
        if wire_key:
            text += f', "key": {quoted(key)}, "key_hex": "{wire_key.hex()}"'
        if length:
            text += f', "value_length": {length}'
            if shows_value:
                text += f', "value": {quoted(value)}'
        if fault:
            text += f', "problems": [{{"code": {_NOT_JSON}, "text": {quoted(fault)}, '
            text += f'"offset": {value_at}, "length": {length}}}]'
        out.append(f"{text}}}\n".encode())
    return out


def _json_heads(plan: Plan, framed: bool, columns: TemplateColumns) -> Iterator[str]:
    """Yield the beginning of each object: where the frame is, its header, and its extras."""
    message = plan.message
    magic = FLEXIBLE if framed else _CLASSIC
    members, numbers = _json_fields(plan, columns)
    framing = ', "framing": [{"name": "DcpStreamId", "stream_id": %d}], "stream_id": %d' if framed else ""
    fields = f', "fields": {{{", ".join(members)}}}' if members else ""
    head = (
        '{"frame": %d, "packet": %d, "file": %s, "time": "%s", %s, "offset": %d, "length": %d, "gap_before": %d, '
        f'"magic": {magic}, "kind": "request", "opcode": {message.opcode}, "name": {quoted(message.name)}, '
        f'"layout": {quoted(plan.layout.version)}, "vbucket": %d, "opaque": %d, "cas": "0x%016x", "datatype": %s'
        f"{framing}{fields}"
    )
    known = [
        f'"connection": {ends.connection}, "src": {quoted(ends.src)}, "dst": {quoted(ends.dst)}'
        for ends in columns.places
    ]
    datatypes = [
        f'{value}, "datatype_names": [{", ".join(map(quoted, DATATYPE.describe(value)))}]' if value else "0"
        for value in range(8)
    ]
    files = {file: quoted(file) for file in set(columns.file)}
    stream_ids = [columns.stream_id.tolist()] * 2 if columns.stream_id is not None else []
    heads = zip(
        columns.number,
        columns.packet,
        [files[file] for file in columns.file],
        _texts(columns.time),
        [known[place] for place in columns.place],
        columns.offset,
        columns.length,
        columns.gap,
        columns.vbucket.tolist(),
        columns.opaque.tolist(),
        columns.cas.tolist(),
        [datatypes[value] for value in columns.datatype.tolist()],
        *stream_ids,
        *numbers,
        strict=True,
    )
    return map(head.__mod__, heads)


def _json_fields(plan: Plan, columns: TemplateColumns) -> tuple[list[str], list[list[Any]]]:
    """Return a placeholder for each member of ``fields``, and what to put there: numbers first, then their names."""
    members = [f'"{field.name}": {_json_placeholder(field)}' for field in plan.fields]
    values: list[list[Any]] = [column.tolist() for column in columns.fields]
    siblings = [
        _named(field, column, _json_sibling)
        for field, column in zip(plan.fields, columns.fields, strict=True)
        if isinstance(field.names, (Bits, EnumValue))
    ]
    if siblings:
        members.append("%s")
        values.append(list(map(", ".join, zip(*siblings, strict=True))))
    return members, values


def _json_placeholder(field: Field) -> str:
    return f'"0x%0{2 * field.width}x"' if field.identity else "%d"


def _json_sibling(field: Field, number: int) -> str:
    words = field.names.describe(number) if field.names else ()
    if isinstance(field.names, Bits):
        return f'"{field.name}_names": [{", ".join(map(quoted, words))}]'
    return f'"{field.name}_name": {quoted("".join(words))}'


# -- csv ------------------------------------------------------------------------------------------------------


def _csv(plan: Plan, framed: bool, columns: TemplateColumns, view: View) -> list[bytes]:
    shows_value = view.value_bytes != 0 and plan.value is None
    lengths = columns.value_length
    cells: dict[str, list[Any]] = {
        "frame": columns.number,
        "packet": columns.packet,
        "file": [_cell(file) for file in columns.file],
        "time": _texts(columns.time),
        "connection": [columns.places[place].connection for place in columns.place],
        "src": [columns.places[place].src for place in columns.place],
        "dst": [columns.places[place].dst for place in columns.place],
        "offset": columns.offset,
        "length": columns.length,
        "gap_before": columns.gap,
        "vbucket": columns.vbucket.tolist(),
        "opaque": columns.opaque.tolist(),
        "cas": [f"0x{cas:016x}" for cas in columns.cas.tolist()],
        "datatype": columns.datatype.tolist(),
        "datatype_names": [_DATATYPES[value] for value in columns.datatype.tolist()],
        "collection": [number if number >= 0 else "" for number in columns.collection],
        "collection_inferred": [
            "true" if number >= 0 and inferred else ""
            for number, inferred in zip(columns.collection, columns.inferred, strict=True)
        ],
        "collection_name": [_cell(name) for name in columns.collection_name],
        "key": [_cell(key) for key in _texts(columns.key)],
        "key_hex": [key.hex() for key in columns.wire_key],
        "value_length": [length or "" for length in lengths],
    }
    if columns.stream_id is not None:
        cells["stream_id"] = columns.stream_id.tolist()
    if shows_value:
        cells["value"] = [_cell(value) for value in _texts(columns.value)]
    if any(columns.fault):
        cells["problems"] = [_cell(fault) for fault in columns.fault]
    for field, column in zip(plan.fields, columns.fields, strict=True):
        numbers = column.tolist()
        cells[field.name] = [f"0x{number:0{2 * field.width}x}" for number in numbers] if field.identity else numbers
        if isinstance(field.names, (Bits, EnumValue)):
            name = f"{field.name}_names" if isinstance(field.names, Bits) else f"{field.name}_name"
            cells[name] = _named(field, column, _csv_words)
    fixed = {
        "magic": str(FLEXIBLE if framed else _CLASSIC),
        "kind": "request",
        "opcode": str(plan.message.opcode),
        "name": plan.message.name,
        "layout": plan.layout.version,
    }
    names = csv_columns()
    template = ",".join("%s" if name in cells else fixed.get(name, "") for name in names) + "\r\n"
    return [(template % row).encode() for row in zip(*(cells[name] for name in names if name in cells), strict=True)]


def _csv_words(field: Field, number: int) -> str:
    return "|".join(field.names.describe(number)) if field.names else ""


def _cell(text: str) -> str:
    if '"' in text or "," in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


TEMPLATES: dict[str, Template] = {"table": sheets, "line": _line, "ndjson": _ndjson, "csv": _csv}
