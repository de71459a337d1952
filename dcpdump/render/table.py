"""Write the specification's own table: ``Field (offset) (value)``, a line a field, every byte in one of them."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from dcpdump.escape import safe
from dcpdump.record import Record
from dcpdump.render.line import answers
from dcpdump.render.style import Line, LineKind
from dcpdump.spec.field import Blob, Field
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.spec.names import DATATYPE, JSON, SNAPPY, XATTR
from dcpdump.wire.decode import REST
from dcpdump.wire.frame import Fault, FieldValue, Section
from dcpdump.wire.json_text import MARKED_JSON
from dcpdump.wire.value import LEFT_OUT, Body

# -- places of bytes, as the specification has them ---------------------------------------------------

_PAIR: Final = 2  # a two-byte field of the header is "(2,3)", elsewhere "(52-53)"


def span(start: int, end: int, *, header: bool = False) -> str:
    """Return the place of bytes ``start`` … ``end``-1: (8-11), (54); two bytes of the header are (2,3)."""
    last = end - 1
    if start == last:
        return f"({last})"
    return f"({start},{last})" if header and end - start == _PAIR else f"({start}-{last})"


# -- what is said beside a value: JSON, valid or not and why; its size where it is compressed ---------

_TEXT = re.compile(rb"[\t\n\r -~]*\Z").match
_CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]").search
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]").search
_NAMES = ["|".join(DATATYPE.describe(value & ~XATTR)) for value in range(256)]


def value_note(datatype: int, whole: int, wire: int, state: str) -> str:
    """Return what stands in parentheses behind a value; nothing for plain text.

    ``whole``: its bytes, decompressed; ``wire``: as they were sent; ``state``: what ``state_of`` says.
    """
    words = [word for word in (_NAMES[datatype], state) if word]
    if datatype & SNAPPY:
        words += [f"{whole:,} bytes", f"{wire:,} on the wire"]
    return f"({', '.join(words)})" if words else ""


def state_of(datatype: int, head: bytes, fault: str, *, cut: bool, sure: bool) -> str:
    """Return whether a value is JSON, where it is marked so, or else whether it is binary.

    ``head``: its beginning; ``cut``: there is more of it; ``fault``: why it is not JSON; ``sure``: it was judged.
    """
    if datatype & JSON:
        if fault:
            return f"not valid: {fault.removeprefix(MARKED_JSON)}"
        return "valid" if sure else ""
    return "binary" if is_binary(head, cut=cut) else ""


def is_binary(head: bytes, *, cut: bool) -> bool:
    """Return whether the beginning of a value is no text in UTF-8, or has control characters."""
    if _TEXT(head):
        return False
    if _CONTROL_BYTE(head):  # no part of a character that is cut off
        return True
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if not (cut and len(head) - error.start < 4 and error.reason == "unexpected end of data"):
            return True
        text = head[: error.start].decode()
    return _CONTROL(text) is not None


FIRST_DECIMAL: Final = 10  #: the first number whose decimal digits differ from the hexadecimal ones
LABEL, OFFSET = 12, 7  # least widths: "Extra length" and "(12-15)"


def lines(record: Record, value_bytes: int | None) -> list[Line]:
    """Return the frame's table, and what is wrong or odd; ``value_bytes`` limits values (None: all)."""
    rows = table_rows(record, value_bytes)
    head, *texts = row_texts(rows)
    out = [Line(LineKind.TITLE, title(record)), Line(LineKind.COLUMNS, head)]
    out += [Line(LineKind.FIELD, text) for text in texts]
    out += [Line(LineKind.PROBLEM, f"! {safe(problem.text)}") for problem in record.problems]
    out += [Line(LineKind.HINT, f"note: {safe(hint)}") for hint in record.hints]
    return out


def title(record: Record) -> str:
    """Return the message and its kind: ``DCP_MUTATION command``."""
    frame = record.frame
    if len(frame.raw.data) < 2:
        return "the beginning of a header, without the opcode"
    name = frame.message.name
    if name == "UNKNOWN":
        name = f"UNKNOWN 0x{frame.header.opcode:02x}"
    return title_of(name, response=frame.magic.response)


def title_of(name: str, *, response: bool) -> str:
    """Return the title of a message with this name."""
    return f"{name} {'response' if response else 'command'}"


def origin_line(record: Record, when: str, *, file: bool = False) -> Line:
    """Return the line above a table: where the frame was captured, and ``when``. ``file``: name the capture too."""
    raw = record.frame.raw
    parts = [f"#{record.number}"]
    if when:
        parts.append(when)
    parts += [f"{record.src} → {record.dst}", f"connection {record.connection}", f"packet {raw.where.packet}"]
    if file:
        parts.append(f"file {safe(raw.where.file)}")
    if record.request is not None:
        parts.append(answers(record.request.frame, record.latency_ns))
    if raw.gap_before:
        parts.append(f"after {raw.gap_before:,} bytes lost or skipped")
    if raw.confidence:
        parts.append(f"confidence {raw.confidence}")
    return Line(LineKind.ORIGIN, "  ".join(parts))


class TableRow(NamedTuple):
    """A row of the table, and which bytes of the frame it is about; without bytes where it stands for none."""

    label: str
    offsets: str
    text: str
    start: int = 0
    end: int = 0
    field: FieldValue | None = None


def table_rows(record: Record, value_bytes: int | None) -> list[TableRow]:
    """Return the rows of a frame's table. ``value_bytes`` limits values (None: all)."""
    rows: list[TableRow] = []
    item = -1
    for field in record.frame.fields:
        if field.end == field.start:
            continue  # the empty value of a cached item
        if field.group == "items" and field.item != item:
            item = field.item
            rows.append(TableRow(f"Body (item {item}):", "", ""))
        whole = isinstance(field.field, Blob) and field.group in ("", "secret") and field.field.label[0].isupper()
        indent = "" if whole or field.section in (Section.HEADER, Section.KEY) else "  "
        rows.append(
            TableRow(
                indent + field.field.label,
                span(field.start, field.end, header=field.section is Section.HEADER),
                _text(record, field, value_bytes),
                field.start,
                field.end,
                field,
            )
        )
        if field.section is Section.VALUE and field.field.name == "value":
            rows += _xattrs(record, field, value_bytes)
    for default in record.frame.unsent:
        rows.append(TableRow(f"  {default.label}", " ", f"{number(default, 0)} (default, not sent)"))
    return rows


def row_texts(rows: Sequence[TableRow]) -> list[str]:
    """Return the head of the table, and its rows below one another."""
    label = max([LABEL, *(len(row.label) for row in rows)])
    offset = max([OFFSET, *(len(row.offsets) for row in rows)])
    out = [f"{'Field':<{label}} (offset) (value)"]
    for row in rows:
        there = row.offsets or row.text
        out.append(f"{row.label:<{label}} {row.offsets:<{offset}}: {row.text}".rstrip() if there else row.label)
    return out


def _text(record: Record, field: FieldValue, value_bytes: int | None) -> str:
    if field.value is None:
        return _lost(record, field)
    if isinstance(field.value, int) and isinstance(field.field, Field):
        return number(field.field, field.value)
    data = field.value if isinstance(field.value, bytes) else b""
    if field.group == "secret":
        return f"<secret {len(data)} B>"
    if field.section is Section.KEY:
        return _key(record, data)
    if field.section is Section.VALUE and field.field.name == "value" and not field.group:
        return _value(record, data, value_bytes)
    if field.group == "items" and field.field.name in ("key", "value"):
        return _item(record, field, data, value_bytes)
    if field.section is Section.VALUE and field.group == "flat":
        return safe(data)
    if field.section is Section.FRAMING and field.field.name in ("user", "privilege"):
        return safe(data)
    return _hex(data, value_bytes)


def number(field: Field, value: int) -> str:
    """Return a field's value as text: in hexadecimal, with all its digits, and what it means, or else in decimals."""
    if field.names is not None:
        words = "|".join(field.names.describe(value))
    else:
        words = str(value) if field.is_number and value >= FIRST_DECIMAL else ""
    digits = f"0x{value:0{2 * field.width}x}"
    return f"{digits} ({words})" if words else digits


def _lost(record: Record, field: FieldValue) -> str:
    there = record.frame.raw.data[field.start : field.end]
    if any(a < field.end and field.start < b for a, b in record.frame.raw.holes):
        return "(lost)"
    width = field.field.width if isinstance(field.field, Field) else record.frame.value_length
    return f"0x{there.hex()}… ({len(there)} of {width} bytes)"


def _key(record: Record, key: bytes) -> str:
    content = record.content
    if content.collection is not None and content.key is not None:
        guess = ", inferred" if content.collection_inferred else ""
        return f"{safe(content.key)} ({_collection(record, content.collection)}{guess})"
    if content.collection_name is not None:
        return f"{safe(key)} (collection {safe(content.collection_name)!r})"
    return safe(key)


def _value(record: Record, wire: bytes, value_bytes: int | None) -> str:
    body = record.content.body or Body(wire)
    text = _limited(body.value, value_bytes)
    if body.compressed or not record.frame.message.document:
        return text
    note = _value_note(record, body, len(wire), value_bytes)
    return f"{text} {note}" if text and note else text or note


def _value_note(record: Record, body: Body, wire: int, value_bytes: int | None) -> str:
    datatype, value = record.frame.header.datatype, body.value
    if LEFT_OUT in record.hints:
        datatype &= ~SNAPPY  # that is of the body that was left out
    shown = len(value) if value_bytes is None else value_bytes
    fault = next((text for code, text in body.faults if code is Fault.NOT_JSON), "")
    sure = bool(value) and LEFT_OUT not in record.hints and not body.faults and body.judged
    return value_note(
        datatype, len(value), wire, state_of(datatype, value[:shown], fault, cut=len(value) > shown, sure=sure)
    )


def _item(record: Record, field: FieldValue, data: bytes, value_bytes: int | None) -> str:
    if field.item >= len(record.content.items):
        return _hex(data, value_bytes)
    item = record.content.items[field.item]
    if field.field.name == "value":
        return _limited(item.body.value, value_bytes)
    collection = "" if item.collection is None else f" ({_collection(record, item.collection)})"
    return safe(item.key) + collection


def _collection(record: Record, number: int) -> str:
    """Return a collection as text, with its name where that is known."""
    path = record.collection_path(number)
    return f"collection 0x{number:x} {path}" if path else f"collection 0x{number:x}"


def _xattrs(record: Record, field: FieldValue, value_bytes: int | None) -> list[TableRow]:
    """Return the rows of the xattrs in a value, and of the bytes of them that cannot be read."""
    body = _body(record, field)
    if body is None:
        return []
    rows = [TableRow(f"  xattr {safe(key)}", " ", safe(text)) for key, text in body.xattrs or ()]
    if body.unread:
        start = None if body.unread_at is None else field.start + body.unread_at
        where = " " if start is None else span(start, start + len(body.unread))
        rows.append(TableRow(f"  {REST.label}", where, _hex(body.unread, value_bytes)))
    return rows


def _body(record: Record, field: FieldValue) -> Body | None:
    """Return what the value of a frame, or of one item of it, holds."""
    if field.group != "items":
        return record.content.body
    items = record.content.items
    return items[field.item].body if field.item < len(items) else None


def _limited(data: bytes, count: int | None) -> str:
    if count is None or len(data) <= count:
        return safe(data)
    return f"{safe(data[:count])}… +{len(data) - count:,} B"


def _hex(data: bytes, count: int | None) -> str:
    if count is None or len(data) <= count:
        return f"0x{data.hex()}"
    return f"0x{data[:count].hex()}… +{len(data) - count:,} B"


# -- the specification's byte grid ---------------------------------------------------------------------
# Four bytes a row, offsets at the left, printable bytes of text beside them.

HEAD = (
    "      Byte/     0       |       1       |       2       |       3       |",
    "         /              |               |               |               |",
    "        |0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|",
)
_RULE = "+---------------"
_DRAWN_AS_TEXT = (Section.KEY, Section.VALUE)


def grid_lines(record: Record, value_bytes: int | None) -> list[Line]:
    """Return the frame's bytes and then its table; ``value_bytes`` limits how much of the value is drawn."""
    return [*_grid(record, value_bytes), Line(LineKind.PLAIN, ""), *lines(record, value_bytes)]


def _grid(record: Record, value_bytes: int | None) -> list[Line]:
    data = record.frame.raw.data
    shown = len(data)
    value = next((field for field in record.frame.fields if field.section is Section.VALUE), None)
    if value is not None and value_bytes is not None and len(data) - value.start > value_bytes:
        shown = (value.start + value_bytes + 3) // 4 * 4
        shown = min(shown, len(data))
    texts = bytearray(len(data))  # 1 where a byte is of a text
    for field in record.frame.fields:
        if field.section in _DRAWN_AS_TEXT and isinstance(field.value, bytes):
            texts[field.start : field.end] = b"\1" * (field.end - field.start)
    out = [*HEAD, rule(4)]
    for start in range(0, shown, 4):
        row = data[start : min(start + 4, shown)]
        cells = "".join(f"| {_cell(byte, texts[start + i] == 1):<14}" for i, byte in enumerate(row))
        out += [f"{start:8d}{cells}|", rule(len(row))]
    if shown < len(data):
        out.append(f"        … {len(data) - shown:,} more bytes")
    return [*(Line(LineKind.GRID, text) for text in out), Line(LineKind.PLAIN, f"        {_total(record)}")]


def rule(cells: int) -> str:
    """Return the line under a row with a number of cells."""
    return " " * 8 + _RULE * cells + "+"


def _cell(byte: int, text: bool) -> str:
    return f"0x{byte:02x} ('{chr(byte)}')" if text and 0x20 <= byte < 0x7F else f"0x{byte:02x}"


def _total(record: Record) -> str:
    header = record.frame.header
    parts = [f"{min(HEADER_LENGTH, len(record.frame.raw.data))} byte header"]
    for size, name in (
        (header.framing_length, "framing extras"),
        (header.extras_length, "extras"),
        (header.key_length, "key"),
        (header.value_length, "value"),
    ):
        if size > 0:
            parts.append(f"{size} byte {name}")
    if record.problems:
        return f"Total {len(record.frame.raw.data)} bytes"
    return f"Total {len(record.frame.raw.data)} bytes ({' + '.join(parts)})"
