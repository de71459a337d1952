"""Templates: for one layout and one format, the texts of many frames from their columns.

They are compiled from the same fields as the writers for one record, and must give the same text.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from json.encoder import encode_basestring as quoted
from typing import Any, NamedTuple

from dcpdump.columnar.digits import filled
from dcpdump.columnar.part import Ends
from dcpdump.columnar.plan import FLEXIBLE, STREAM_ID_LENGTH, STREAM_ID_TAG, Array, Plan
from dcpdump.record import columns as csv_columns
from dcpdump.render import View, line, table
from dcpdump.spec.field import Bits, Choice, Field, u8, u16
from dcpdump.spec.header import MAGICS, header_fields
from dcpdump.spec.names import DATATYPE, SNAPPY


@dataclass(frozen=True, slots=True)
class Columns:
    """Frames of one plan, all with a stream id or all without: each list and array has one entry a frame."""

    row: list[int]
    number: list[int]
    packet: list[int]
    time: list[str]
    file: list[str]
    ends: list[Ends]
    offset: list[int]
    length: list[int]
    gap: list[int]
    key_length: Array
    datatype: Array
    vbucket: Array
    body: Array
    opaque: Array
    cas: Array
    stream_id: Array | None
    fields: list[Array]
    key: list[str]  #: safe to show, without the collection id
    wire_key: list[bytes]
    collection: list[int]  #: -1: none
    inferred: list[bool]
    value: list[str]  #: safe to show, as much of it as is wanted, decompressed
    plain_length: list[int]  #: of the whole value, decompressed
    value_length: list[int]


Template = Callable[[Plan, bool, Columns, View], list[str]]

_CLASSIC = 0x80
_TAG, _STREAM_ID = u8("frame_info", "DcpStreamId frame"), u16("stream_id", "stream id")
_DATATYPES = ["|".join(DATATYPE.speak(value)) for value in range(8)]


def _spoken(field: Field, column: Array, spell: Callable[[Field, int], str]) -> list[str]:
    """It spells a column's values, each only once."""
    numbers = column.tolist()
    known = {number: spell(field, number) for number in set(numbers)}
    return [known[number] for number in numbers]


# -- the table ------------------------------------------------------------------------------------------------


def _table(plan: Plan, framed: bool, columns: Columns, view: View) -> list[str]:
    rows, key_at = _rows(plan, framed, columns)
    label = max(12, *(len(row.label) for row in rows))
    narrow = max(7, *(len(row.place) for row in rows))
    values = [0] * len(columns.row) if plan.value is not None else columns.value_length
    ends = (columns.key_length + key_at).tolist()
    spans = {end: table.span(key_at, end) if end > key_at else "" for end in set(ends)}
    key_places = [spans[end] for end in ends]
    value_places = [
        "" if not value else f"({end}-{length - 1})" if value > 1 else f"({end})"
        for end, length, value in zip(ends, columns.length, values, strict=True)
    ]
    widths = [max(narrow, len(key), len(value)) for key, value in zip(key_places, value_places, strict=True)]
    heads = _heads(plan, rows, label, widths)
    json = [f" ({name})" if name else "" for name in _DATATYPES] if plan.message.document else [""] * 8
    known = {both: _spoken_collection(*both) for both in set(zip(columns.collection, columns.inferred, strict=True))}
    key_label, value_label, limit = f"{'Key':<{label}} ", f"{'Value':<{label}} ", view.value_bytes
    out: list[str] = []
    for place, head, width, key_place, value_place, key, owner, value, plain, length, datatype in zip(
        _places(columns, view),
        heads,
        widths,
        key_places,
        value_places,
        columns.key,
        [known[both] for both in zip(columns.collection, columns.inferred, strict=True)],
        columns.value,
        columns.plain_length,
        values,
        columns.datatype.tolist(),
        strict=True,
    ):
        key_line = value_line = ""
        if key_place:
            key_line = f"{key_label}{key_place:<{width}}: {key}{owner}".rstrip() + "\n"
        if length:
            if limit is not None and plain > limit:
                value = f"{value}… +{plain - limit:,} B"
            meant = json[datatype]
            if datatype & SNAPPY and meant:
                meant = f"{meant[:-1]}, {length:,} bytes on the wire)"
            value = value + meant if value else meant[1:]
            value_line = f"{value_label}{value_place:<{width}}: {value}".rstrip() + "\n"
        out.append(f"{place}{head}{key_line}{value_line}\n")
    return out


def _spoken_collection(number: int, inferred: bool) -> str:
    """It says which collection a key is in; nothing where it says none."""
    return f" (collection 0x{number:x}{', inferred' if inferred else ''})" if number >= 0 else ""


class _Row(NamedTuple):
    """A row of the table: its number, and what the number is called where that differs from frame to frame."""

    label: str
    place: str
    field: Field
    numbers: Array | int  #: the same for all frames, or one a frame


def _rows(plan: Plan, framed: bool, columns: Columns) -> tuple[list[_Row], int]:
    """It gives the rows up to the key, and where the key begins."""
    magic = MAGICS[FLEXIBLE if framed else _CLASSIC]
    known: dict[str, Array | int] = {
        "magic": magic.value,
        "opcode": plan.message.opcode,
        "framing_length": STREAM_ID_LENGTH,
        "extras_length": plan.layout.extras_length,
        "key_length": columns.key_length,
        "datatype": columns.datatype,
        "vbucket": columns.vbucket,
        "body_length": columns.body,
        "opaque": columns.opaque,
        "cas": columns.cas,
    }
    rows: list[_Row] = []
    at = 0
    for field in header_fields(magic):
        rows.append(_Row(field.label, table.span(at, at + field.width, header=True), field, known[field.name]))
        at += field.width
    if columns.stream_id is not None:
        rows.append(_Row("  DcpStreamId frame", table.span(at, at + 1), _TAG, STREAM_ID_TAG))
        rows.append(_Row("  stream id", table.span(at + 1, at + 3), _STREAM_ID, columns.stream_id))
        at += STREAM_ID_LENGTH
    for field, numbers in zip(plan.fields, columns.fields, strict=True):  # of the value too: then there is no key
        rows.append(_Row(f"  {field.label}", table.span(at, at + field.width), field, numbers))
        at += field.width
    return rows, at


def _heads(plan: Plan, rows: list[_Row], label: int, widths: list[int]) -> list[str]:
    """It writes everything up to the key. Frames that differ only in their numbers are written at once."""
    named = [row for row in rows if row.field.names is not None]
    variants: dict[tuple[int, ...], list[int]] = {}
    sorts = [row.numbers.tolist() for row in named if not isinstance(row.numbers, int)]
    for index, variant in enumerate(zip(widths, *sorts, strict=True)):
        variants.setdefault(variant, []).append(index)
    title = f"{plan.message.name} command\n{'Field':<{label}} (offset) (value)\n"
    heads = [""] * len(widths)
    for (width, *numbers), indices in variants.items():
        words = {row.label: number for row, number in zip(named, numbers, strict=True)}
        text, spots = title, []
        for row in rows:
            text += f"{row.label:<{label}} {row.place:<{width}}: "
            if row.label in words or isinstance(row.numbers, int):
                number = words.get(row.label, row.numbers)
                text += table.number(row.field, number if isinstance(number, int) else 0)
            else:
                spots.append((len(text) + 2, row.field.width, row.numbers[indices]))
                text += "0x" + "0" * (2 * row.field.width)
            text += "\n"
        for index, head in zip(indices, filled(text, spots, len(indices)), strict=True):
            heads[index] = head
    return heads


def _places(columns: Columns, view: View) -> list[str]:
    """It writes the lines that say where and when."""
    known = {ends: f"  {ends.src} → {ends.dst}  connection {ends.connection}  packet " for ends in set(columns.ends)}
    lines = [
        f"#{number}  {time}{known[ends]}{packet}\n"
        for number, time, ends, packet in zip(columns.number, columns.time, columns.ends, columns.packet, strict=True)
    ]
    if view.file:
        lines = [f"{text[:-1]}  file {file}\n" for text, file in zip(lines, columns.file, strict=True)]
    if any(columns.gap):
        lines = [
            f"{text[:-1]}  after {gap:,} bytes lost or skipped\n" if gap else text
            for text, gap in zip(lines, columns.gap, strict=True)
        ]
    return lines


# -- one line -------------------------------------------------------------------------------------------------


def _line(plan: Plan, framed: bool, columns: Columns, view: View) -> list[str]:
    message = plan.message
    count = len(columns.row)
    words: list[list[str]] = []
    if message.streamed or message.vbucket:
        words.append([f", vb={vbucket}" for vbucket in columns.vbucket.tolist()])
    if columns.stream_id is not None:
        words.append([f", sid={stream_id}" for stream_id in columns.stream_id.tolist()])
    for field, column in zip(plan.fields, columns.fields, strict=True):
        words.append(_spoken(field, column, partial(_line_word, message.name)))
    words.append([f", collection=0x{number:x}" if number >= 0 else "" for number in columns.collection])
    words.append([f", key={key}" if size else "" for key, size in zip(columns.key, columns.wire_key, strict=True)])
    if plan.value is None:
        values = columns.value if not message.document else [f"{length} B" for length in columns.value_length]
        shown = zip(values, columns.value_length, strict=True)
        words.append([f", value={value}" if length else "" for value, length in shown])
    gaps = [""] * count
    if any(columns.gap):
        gaps = [f" [after {gap:,} bytes lost or skipped]" if gap else "" for gap in columns.gap]
    name = line.spoken_name(message.name)
    known = {
        ends: f" c{ends.connection} {line.speaks(message, response=False, direction=ends.direction)} {name}{{"
        for ends in set(columns.ends)
    }
    bodies = map("".join, zip(*words, strict=True))
    rows = zip(columns.number, columns.time, columns.ends, bodies, gaps, strict=True)
    return [f"#{number} {time}{known[ends]}{body[2:]}}}{gap}\n" for number, time, ends, body, gap in rows]


def _line_word(message: str, field: Field, number: int) -> str:
    word = line.word(message, field, number)
    return f", {word}" if word else ""


# -- ndjson ---------------------------------------------------------------------------------------------------


def _ndjson(plan: Plan, framed: bool, columns: Columns, view: View) -> list[str]:
    message = plan.message
    magic = FLEXIBLE if framed else _CLASSIC
    known = {
        ends: f'"connection": {ends.connection}, "src": {quoted(ends.src)}, "dst": {quoted(ends.dst)}'
        for ends in set(columns.ends)
    }
    datatypes = [
        f'{value}, "datatype_names": [{", ".join(map(quoted, DATATYPE.speak(value)))}]' if value else "0"
        for value in range(8)
    ]
    members = [f'"{field.name}": {_json_placeholder(field)}' for field in plan.fields]
    named = [
        (field, column)
        for field, column in zip(plan.fields, columns.fields, strict=True)
        if isinstance(field.names, (Bits, Choice))
    ]
    members += ["%s"] * bool(named)
    siblings = [_spoken(field, column, _json_sibling) for field, column in named]
    framing = ', "framing": [{"name": "DcpStreamId", "stream_id": %d}], "stream_id": %d' if framed else ""
    fields = f', "fields": {{{", ".join(members)}}}' if members else ""
    head = (
        '{"frame": %d, "packet": %d, "file": %s, "time": "%s", %s, "offset": %d, "length": %d, "gap_before": %d, '
        f'"magic": {magic}, "kind": "request", "opcode": {message.opcode}, "name": {quoted(message.name)}, '
        f'"layout": {quoted(plan.layout.version)}, "vbucket": %d, "opaque": %d, "cas": "0x%016x", "datatype": %s'
        f"{framing}{fields}"
    )
    files = {file: quoted(file) for file in set(columns.file)}
    stream_ids = [columns.stream_id.tolist()] * 2 if columns.stream_id is not None else []
    heads = zip(
        columns.number,
        columns.packet,
        [files[file] for file in columns.file],
        columns.time,
        [known[ends] for ends in columns.ends],
        columns.offset,
        columns.length,
        columns.gap,
        columns.vbucket.tolist(),
        columns.opaque.tolist(),
        columns.cas.tolist(),
        [datatypes[value] for value in columns.datatype.tolist()],
        *stream_ids,
        *(column.tolist() for column in columns.fields),
        *([list(map(", ".join, zip(*siblings, strict=True)))] if siblings else []),
        strict=True,
    )
    shows_value = view.value_bytes != 0 and plan.value is None
    out: list[str] = []
    for start, collection, inferred, key, wire_key, value, length in zip(
        heads,
        columns.collection,
        columns.inferred,
        columns.key,
        columns.wire_key,
        columns.value,
        columns.value_length,
        strict=True,
    ):
        text = head % start
        if collection >= 0:
            text += f', "collection": {collection}, "collection_inferred": true' if inferred else (
                f', "collection": {collection}'
            )  # fmt: skip
        if wire_key:
            text += f', "key": {quoted(key)}, "key_hex": "{wire_key.hex()}"'
        if length:
            text += f', "value_length": {length}'
            if shows_value:
                text += f', "value": {quoted(value)}'
        out.append(text + "}\n")
    return out


def _json_placeholder(field: Field) -> str:
    return f'"0x%0{2 * field.width}x"' if field.identity else "%d"


def _json_sibling(field: Field, number: int) -> str:
    words = field.names.speak(number) if field.names else ()
    if isinstance(field.names, Bits):
        return f'"{field.name}_names": [{", ".join(map(quoted, words))}]'
    return f'"{field.name}_name": {quoted("".join(words))}'


# -- csv ------------------------------------------------------------------------------------------------------


def _csv(plan: Plan, framed: bool, columns: Columns, view: View) -> list[str]:
    shows_value = view.value_bytes != 0 and plan.value is None
    lengths = columns.value_length
    cells: dict[str, list[Any]] = {
        "frame": columns.number,
        "packet": columns.packet,
        "file": [_cell(file) for file in columns.file],
        "time": columns.time,
        "connection": [ends.connection for ends in columns.ends],
        "src": [ends.src for ends in columns.ends],
        "dst": [ends.dst for ends in columns.ends],
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
            "True" if number >= 0 and inferred else ""
            for number, inferred in zip(columns.collection, columns.inferred, strict=True)
        ],
        "key": [_cell(key) for key in columns.key],
        "key_hex": [key.hex() for key in columns.wire_key],
        "value_length": [length or "" for length in lengths],
    }
    if columns.stream_id is not None:
        cells["stream_id"] = columns.stream_id.tolist()
    if shows_value:
        cells["value"] = [_cell(value) for value in columns.value]
    for field, column in zip(plan.fields, columns.fields, strict=True):
        numbers = column.tolist()
        cells[field.name] = [f"0x{number:0{2 * field.width}x}" for number in numbers] if field.identity else numbers
        if isinstance(field.names, (Bits, Choice)):
            name = f"{field.name}_names" if isinstance(field.names, Bits) else f"{field.name}_name"
            cells[name] = _spoken(field, column, _csv_words)
    fixed = {
        "magic": str(FLEXIBLE if framed else _CLASSIC),
        "kind": "request",
        "opcode": str(plan.message.opcode),
        "name": plan.message.name,
        "layout": plan.layout.version,
    }
    names = csv_columns()
    template = ",".join("%s" if name in cells else fixed.get(name, "") for name in names) + "\r\n"
    return [template % row for row in zip(*(cells[name] for name in names if name in cells), strict=True)]


def _csv_words(field: Field, number: int) -> str:
    return "|".join(field.names.speak(number)) if field.names else ""


def _cell(text: str) -> str:
    if '"' in text or "," in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


TEMPLATES: dict[str, Template] = {"table": _table, "line": _line, "ndjson": _ndjson, "csv": _csv}
