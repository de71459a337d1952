"""The lines of a frame's fields: those of the table that ``read`` prints, each with the bytes that it is about."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dcpdump.escape import safe
from dcpdump.record import Record
from dcpdump.render.style import Line, LineKind
from dcpdump.render.table import TableRow, row_texts, table_rows
from dcpdump.spec.field import Field
from dcpdump.wire.frame import FieldValue, Section
from dcpdump.wire.json_text import parse_json


class FieldLine(NamedTuple):
    """A line, and which bytes of the frame it is about; none where it is about no byte."""

    kind: LineKind
    text: str
    start: int = 0
    end: int = 0
    field: FieldValue | None = None


def field_lines(record: Record, value_bytes: int | None) -> list[FieldLine]:
    """Return the lines of a frame: its fields, what is wrong with it, what is odd."""
    rows = table_rows(record, value_bytes)
    fields = _fields_of(record, rows)
    out = [
        FieldLine(LineKind.FIELD, text, row.start, row.end, field)
        for row, text, field in zip(rows, row_texts(rows)[1:], fields, strict=True)
    ]
    out += [FieldLine(LineKind.PROBLEM, f"! {safe(each.text)}", each.start, each.end) for each in record.problems]
    out += [FieldLine(LineKind.HINT, f"note: {safe(hint)}") for hint in record.hints]
    return out


def _fields_of(record: Record, rows: Sequence[TableRow]) -> Iterator[FieldValue | None]:
    """Yield the field of each row; None where a row is none."""
    fields = [field for field in record.frame.fields if field.end > field.start]
    at = 0
    for row in rows:
        if row.end > row.start and at < len(fields):
            yield fields[at]
            at += 1
        else:
            yield None


def line_at(lines: Sequence[FieldLine], byte: int) -> int | None:
    """Return which line is about a byte: the field that it is of."""
    for at, line in enumerate(lines):
        if line.field is not None and line.start <= byte < line.end:
            return at
    return None


def clause_of(record: Record, field: FieldValue) -> tuple[str, str] | None:
    """Return the option of ``read`` that chooses by a field, and its value for this frame; None where none does."""
    name = field.field.name
    if field.section is Section.HEADER and name == "magic":
        return "kind", record.frame.magic.kind
    if field.section is Section.HEADER and name == "opcode":
        return name, f"0x{record.frame.header.opcode:02x}"
    if field.section is Section.HEADER and name in ("vbucket", "status", "opaque"):
        if not isinstance(field.value, int):
            return None
        return name, str(field.value) if name == "vbucket" else f"0x{field.value:x}"
    if field.section is Section.KEY:
        key = record.meaning.key
        return None if key is None else ("key", _pattern(key))
    if isinstance(field.field, Field) and isinstance(field.value, int):
        if field.field.seqno:
            return "seqno", str(field.value)
        if name == "stream_id":
            return "stream-id", str(field.value)
        if name == "collection_id":
            return "collection", f"0x{field.value:x}"
    return None


def _pattern(key: bytes) -> str:
    """Return a pattern that matches one key alone."""
    text = key.decode("utf-8", "replace")
    plain = text.isprintable() and text.encode() == key and not text.startswith(("!", "/")) and text
    if plain and not set(text) & set("*?[]"):
        return text
    return "/^" + "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\x{byte:02x}" for byte in key) + "$/"


class BytesView(NamedTuple):
    """A view of what a frame holds: bytes, of which some were lost, or lines of text."""

    title: str
    data: bytes = b""
    holes: tuple[tuple[int, int], ...] = ()
    lines: tuple[Line, ...] = ()


def value_size(record: Record) -> int:
    """Return how many bytes of value can be viewed otherwise than on the wire; 0 where there is no other view."""
    body = record.meaning.body
    if body is None or record.frame.masked or body.compressed or not record.frame.value_length:
        return 0
    otherwise = body.xattrs is not None or record.frame.value != body.value or body.value[:1] in (b"{", b"[")
    return len(body.value) if otherwise else 0


def wire_view(record: Record) -> BytesView:
    """Return the bytes of a frame."""
    raw = record.frame.raw
    holes = (*raw.holes, *(((len(raw.data), raw.length),) if len(raw.data) < raw.length <= len(raw.data) + 64 else ()))
    return BytesView(_wire_title(record), raw.data, tuple((start, end) for start, end in holes))


def views(record: Record) -> list[BytesView]:
    """Return the views of a frame: its bytes, its value decompressed and without xattrs, its value as JSON."""
    out = [wire_view(record)]
    body = record.meaning.body
    if body is None or not value_size(record):
        return out
    if body.xattrs is not None or record.frame.value != body.value:
        out.append(BytesView(f"{len(body.value):,} bytes of value, as they are read", body.value))
    text = _json_lines(body.value)
    if text:
        out.append(BytesView("value as JSON", lines=tuple(Line(LineKind.PLAIN, line) for line in text)))
    return out


def _wire_title(record: Record) -> str:
    raw = record.frame.raw
    title = f"{len(raw.data):,} bytes"
    if len(raw.data) < raw.length:
        title += f" of {raw.length:,}"
    return f"{title} at {raw.offset:,} of {record.src} → {record.dst}"


def _json_lines(value: bytes) -> list[str]:
    try:
        parsed = parse_json(value)
    except (ValueError, RecursionError):
        return []
    if not isinstance(parsed, (dict, list)):
        return []
    return [safe(line) for line in json.dumps(parsed, indent=2, ensure_ascii=False).split("\n")]
