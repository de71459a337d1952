"""Write the frames of a batch in one format: plain ones one behind the other, all others one by one.

Plain frames, nearly all of a capture, have writers of their own here; all others go through the writers for one record.
Both return the same text: the tests compare them. What frames of one layout have in common is put together once.
"""

from collections.abc import Callable, Iterable, Sequence
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Final

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.escape import safe
from dcpdump.record import Record, columns
from dcpdump.redact import Redactor
from dcpdump.render import OUTPUTS, View, line, table
from dcpdump.render.plain_rows import (
    FieldTexts,
    PlainField,
    PlainLayout,
    PlainRows,
    PlainWriter,
    shown,
    shown_text,
    side_by_side,
)
from dcpdump.render.table import span, state_of, value_note
from dcpdump.spec.field import Bits, EnumValue, Field, u16
from dcpdump.spec.header import MAGICS, header_fields
from dcpdump.spec.names import DATATYPE, JSON
from dcpdump.wire.frame import Fault

if TYPE_CHECKING:
    from mypy_extensions import i64

# -- the specification's table -------------------------------------------------------------------------

_MOST_OWNERS: Final = 4_096
_MOST_MARGINS: Final = 16_384
_VALID_JSON: Final = value_note(JSON, 1, 1, state_of(JSON, b"", "", cut=False, sure=True)).encode()
#: What follows the hexadecimal digits of small numbers, and the last three decimal digits of others.
_SMALL: Final = [b" (%d)\n" % number if number >= table.FIRST_DECIMAL else b"\n" for number in range(1000)]
_LAST_THREE: Final = [b"%03d)\n" % number for number in range(1000)]


class _Rows(FieldTexts):
    """Rows of the table."""

    def made(self, begin: str, field: Field, number: int) -> str:
        """Return a row."""
        return f"{begin}{table.number(field, number)}\n"


class _Number(_Rows):
    """The row of a number, as ``table.number`` writes it."""

    def __init__(self, slot: PlainField, begin: str) -> None:
        super().__init__([slot], [begin])
        self._slot = slot
        self._begin = f"{begin}0x".encode()
        self._number = -1  # of the frame before: it is often the same, or differs in its last digits alone
        self._thousands = -1
        self._first_digits = b""

    def text(self, frames: PlainRows) -> bytes:
        """Return the row of the frame that is loaded."""
        number = frames.field(self._slot)
        if number != self._number:
            self._number = number
            row = self._begin + frames.digits[2 * self._at : 2 * self._end]
            thousands = number // 1000
            if thousands != self._thousands:
                self._thousands, self._first_digits = thousands, f" ({thousands}".encode()
            last = _SMALL[number] if number < 1000 else self._first_digits + _LAST_THREE[number % 1000]
            self._text = row + last
        return self._text


class _Margin:
    """The rows of frames in which key and value have one place, and what stands before these: nothing without one."""

    def __init__(self, sheet: "_Sheet", key_at: int, key_end: int, end: int) -> None:
        key = span(key_at, key_end) if key_end > key_at else ""
        value = span(key_end, end) if sheet.has_value and end > key_end else ""
        width = max(sheet.narrow, len(key), len(value))
        self.rows = sheet.rows(width)
        self.key = f"{sheet.key}{key.ljust(width)}: ".encode() if key else b""
        self.value = f"{sheet.value}{value.ljust(width)}: ".encode() if value else b""


class _Sheet:
    """What the tables of one layout have in common."""

    def __init__(self, layout: PlainLayout) -> None:
        header: list[PlainField] = []
        at = 0
        for field in header_fields(MAGICS[layout.magic]):
            header.append(PlainField(field, at))
            at += field.width
        inner = list(layout.slots)
        if layout.framed:
            tag = Field("frame_info", "DcpStreamId frame", 1, code=True)
            inner = [PlainField(tag, at), PlainField(u16("stream_id", "stream id"), at + 1), *inner]
        # The fields before the vbucket are often the same together.
        self._groups = [header[:-4], *([slot] for slot in header[-4:]), *side_by_side(inner)]
        self._labels = {slot: slot.field.label for slot in header} | {slot: f"  {slot.field.label}" for slot in inner}
        self._spans = {slot: span(slot.at, slot.end, header=slot in header) for slot in self._labels}
        self._label = max(table.LABEL, *map(len, self._labels.values()))
        self.narrow = max(table.OFFSET, *map(len, self._spans.values()))
        self.has_value = layout.has_value
        self.key = f"{'Key':<{self._label}} "
        self.value = f"{'Value':<{self._label}} "
        self._title = (
            f"{table.title_of(layout.message.name, response=False)}\n{'Field':<{self._label}} (offset) (value)"
        )
        self._rows: dict[int, list[FieldTexts]] = {}
        self._margins: dict[int, _Margin] = {}

    def rows(self, width: int) -> list[FieldTexts]:
        """Return the title and the rows up to the key, whose places are written so wide."""
        known = self._rows.get(width)
        if known is None:
            begins = {
                slot: f"{label:<{self._label}} {self._spans[slot]:<{width}}: " for slot, label in self._labels.items()
            }
            first = self._groups[0][0]
            begins[first] = f"{self._title}\n{begins[first]}"
            known = self._rows[width] = [
                _Number(slots[0], begins[slots[0]])
                if len(slots) == 1 and slots[0].field.is_number
                else _Rows(slots, [begins[slot] for slot in slots])
                for slots in self._groups
            ]
        return known

    def margin(self, key_at: "i64", key_end: "i64", end: "i64") -> _Margin:
        """Return the rows, and what stands before key and value. ``end``: of the frame."""
        places = ((key_at << 16 | (key_end - key_at)) << 32) | end
        known = self._margins.get(places)
        if known is None:
            if len(self._margins) >= _MOST_MARGINS:
                self._margins.clear()
            known = self._margins[places] = _Margin(self, key_at, key_end, end)
        return known


class PlainTable(PlainWriter):
    """Writes tables, each below the line of its place and time, and with an empty line behind it."""

    def __init__(self, view: View) -> None:
        self._limit = -1 if view.value_bytes is None else view.value_bytes
        self._names_file = view.file
        self._sheets: dict[PlainLayout, _Sheet] = {}
        self._ends: list[str] = []
        # Of the frame before, which is often of the same packet:
        self._source_key = -1, -1, ""  # its packet, direction and file
        self._source = b""
        self._owners: dict[int, bytes] = {}  # of collections whose names are not known

    def begin(self, frames: PlainRows) -> None:
        """Prepare for the frames of a batch."""
        self._ends = [f"  {each.src} → {each.dst}  connection {each.connection}  packet " for each in frames.directions]
        self._source_key = -1, -1, ""

    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the table of the frame that is loaded."""
        layout = frames.layout
        sheet = self._sheets.get(layout)
        if sheet is None:
            sheet = self._sheets[layout] = _Sheet(layout)
        margin = sheet.margin(frames.key_at, frames.key_end, frames.length)
        out.append(f"#{frames.number}  ".encode())
        out.append(self._source_of(frames))
        for rows in margin.rows:
            out.append(rows.text(frames))
        if margin.key:
            out.append(margin.key)
            key = shown(frames.key)
            out.append(key + self._owner(frames) if frames.collection >= 0 else _stripped(key))
            out.append(b"\n")
        if margin.value:
            out.append(margin.value)
            self._write_value(frames, out)
            out.append(b"\n")
        if frames.fault:
            out.append(f"! {safe(frames.fault)}\n".encode())
        out.append(b"\n")

    def _source_of(self, frames: PlainRows) -> bytes:
        """Return the rest of the line of the place, the capture where there are several, and what was lost before."""
        source = frames.packet, frames.direction, frames.file
        if frames.gap or source != self._source_key:
            # A loss before it is said of one frame, and not of the next.
            self._source_key = (-1, -1, "") if frames.gap else source
            file = f"  file {frames.file}" if self._names_file else ""
            lost = f"  after {frames.gap:,} bytes lost or skipped" if frames.gap else ""
            self._source = f"{frames.time_text()}{self._ends[frames.direction]}{frames.packet}{file}{lost}\n".encode()
        return self._source

    def _owner(self, frames: PlainRows) -> bytes:
        """Return the collection of a key as text."""
        name = frames.collection_name()
        number = 2 * frames.collection + frames.inferred
        known = b"" if name else self._owners.get(number, b"")
        if not known:
            guess = ", inferred" if frames.inferred else ""
            known = f" (collection 0x{frames.collection:x}{f' {name}' if name else ''}{guess})".encode()
            if not name and len(self._owners) < _MOST_OWNERS:
                self._owners[number] = known
        return known

    def _write_value(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the value, how much of it is not shown, and what it is."""
        value, limit = frames.value, self._limit
        whole = len(value)
        is_cut = 0 <= limit < whole
        head = value[:limit] if is_cut else value
        text = frames.shown_of_value(head)
        note = b""
        if frames.layout.document:
            if frames.datatype == JSON and not frames.fault:
                note = _VALID_JSON
            elif frames.datatype or text is not head:
                state = state_of(frames.datatype, head, frames.fault, cut=is_cut, sure=whole > 0)
                note = value_note(frames.datatype, whole, frames.value_length, state).encode()
        if not is_cut and not note:
            out.append(_stripped(text))
            return
        out.append(text)
        if is_cut:
            left = whole - limit
            out.append(f"… +{left} B".encode() if left < 1_000 else f"… +{left:,} B".encode())
        if note:
            out.append(b" " + note if is_cut or text else note)


def _stripped(text: bytes) -> bytes:
    """Remove white space from the end; nearly all texts end in a letter or a digit."""
    return text if text[-1:].isalnum() else text.decode().rstrip().encode()


# -- line ---------------------------------------------------------------------------------------------


class _Words(FieldTexts):
    """Fields as words, each with a comma before it; those that say nothing are left out."""

    def __init__(self, message: str, slots: list[PlainField]) -> None:
        fields = [slot.field for slot in slots]
        super().__init__(
            slots, [f", {line.field_name(message, each)}=" if line.is_decimal(each) else "" for each in fields]
        )
        self._message = message

    def made(self, begin: str, field: Field, number: int) -> str:
        """Return a word."""
        if begin and number:
            return f"{begin}{number}"
        word = line.word(self._message, field, number)
        return f", {word}" if word else ""


class _Sentence:
    """What frames of one layout have in common."""

    def __init__(self, layout: PlainLayout) -> None:
        message = layout.message
        self.begin = f" {line.sending_side(message, response=False)} {line.dialogue_name(message.name)}{{"
        self.has_vbucket = message.streamed or message.vbucket
        self.words = [_Words(message.name, slots) for slots in side_by_side(layout.slots)]


class PlainLine(PlainWriter):
    """Writes lines, in the notation of the specification's dialogues."""

    def __init__(self, view: View) -> None:
        self._sentences: dict[PlainLayout, _Sentence] = {}

    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the line of the frame that is loaded."""
        layout = frames.layout
        sentence = self._sentences.get(layout)
        if sentence is None:
            sentence = self._sentences[layout] = _Sentence(layout)
        connection = frames.directions[frames.direction].connection
        begin = f"#{frames.number} {frames.time_text()} c{connection}{sentence.begin}"
        out.append(begin.encode())
        words = [f", vb={frames.vbucket}".encode() if sentence.has_vbucket else b""]
        if layout.framed:
            words.append(f", sid={frames.stream_id}".encode())
        for word in sentence.words:
            words.append(word.text(frames))
        if frames.collection >= 0:
            name = frames.collection_name()
            words.append(f", collection=0x{frames.collection:x}{f'({name})' if name else ''}".encode())
        if frames.key_end > frames.key_at:
            words.append(b", key=")
            words.append(shown(frames.key))
        if layout.has_value and frames.value_length:
            value = f"{frames.value_length} B".encode() if layout.document else shown(frames.value)
            words.append(b", value=" + value)
        out.append(b"".join(words)[2:])
        end = f"}} [after {frames.gap:,} bytes lost or skipped]" if frames.gap else "}"
        if frames.fault:
            end += f" ! {safe(frames.fault)}"
        out.append(f"{end}\n".encode())


# -- ndjson and csv -----------------------------------------------------------------------------------

_NOT_JSON: Final = quoted(Fault.NOT_JSON.value)


class _Members(FieldTexts):
    """Fields as members of an object."""

    def made(self, begin: str, field: Field, number: int) -> str:
        """Return a member, and what stands before it."""
        return f'{begin}"0x{number:0{2 * field.width}x}"' if field.identity else f"{begin}{number}"


class _Names(FieldTexts):
    """What the number of a field is called. There are few: a plan takes only numbers that have names."""

    def made(self, begin: str, field: Field, number: int) -> str:
        """Return the member, and what stands before it."""
        words = [quoted(word) for word in field.names.describe(number)] if field.names is not None else []
        return f'{begin}s": [{", ".join(words)}]' if isinstance(field.names, Bits) else f'{begin}": {"".join(words)}'


class _Object:
    """What the objects of one layout have in common."""

    def __init__(self, layout: PlainLayout) -> None:
        message = layout.message
        self.kind = (
            f'"magic": {layout.magic}, "kind": "request", "opcode": {message.opcode}, "name": {quoted(message.name)}, '
            f'"layout": {quoted(layout.plan.layout.version)}'
        )
        begins = {slot: f', "{slot.field.key}": ' for slot in layout.slots}
        if layout.slots:
            begins[layout.slots[0]] = f', "fields": {{{begins[layout.slots[0]][2:]}'
        self.members: list[FieldTexts] = [
            *(_Members(slots, [begins[slot] for slot in slots]) for slots in side_by_side(layout.slots)),
            *(
                _Names([slot], [f', "{slot.field.key}_name'])
                for slot in layout.slots
                if isinstance(slot.field.names, (Bits, EnumValue))
            ),
        ]


class PlainNdjson(PlainWriter):
    """Writes objects with the keys that records have, in their order."""

    def __init__(self, view: View) -> None:
        self._limit = -1 if view.value_bytes is None else view.value_bytes
        self._objects: dict[PlainLayout, _Object] = {}
        self._ends: list[str] = []
        self._datatypes = [
            f'{value}, "datatype_names": [{", ".join(map(quoted, DATATYPE.describe(value)))}]' if value else "0"
            for value in range(8)
        ]
        # Of the frame before, which is often of the same packet, and of the same stream:
        self._source_key = -1, -1, ""  # its packet, direction and file
        self._source = b""
        self._vbucket = -1
        self._opaque = -1
        self._stream = ""

    def begin(self, frames: PlainRows) -> None:
        """Prepare for the frames of a batch."""
        self._ends = [
            f'"connection": {direction.connection}, "src": {quoted(direction.src)}, "dst": {quoted(direction.dst)}'
            for direction in frames.directions
        ]
        self._source_key = -1, -1, ""

    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the object of the frame that is loaded."""
        layout = frames.layout
        shape = self._objects.get(layout)
        if shape is None:
            shape = self._objects[layout] = _Object(layout)
        out.append(f'{{"frame": {frames.number}, '.encode())
        out.append(self._source_of(frames))
        out.append(
            f'"offset": {frames.offset}, "length": {frames.length}, "gap_before": {frames.gap}, {shape.kind}, '
            f'{self._stream_of(frames)}"cas": "0x{frames.hex_text(16, 24)}", '
            f'"datatype": {self._datatypes[frames.datatype]}'.encode()
        )
        if layout.framed:
            out.append(
                f', "framing": [{{"name": "DcpStreamId", "stream_id": {frames.stream_id}}}]'
                f', "stream_id": {frames.stream_id}'.encode()
            )
        if shape.members:
            for members in shape.members:
                out.append(members.text(frames))
            out.append(b"}")
        if frames.collection >= 0:
            out.append(self._collection(frames))
        if frames.key_end > frames.key_at:
            out.append(b', "key": ')
            out.append(_quoted(shown(frames.key)))
            out.append(f', "key_hex": "{frames.wire_key.hex()}"'.encode())
        if frames.value_length:
            out.append(f', "value_length": {frames.whole_length}'.encode())
            if layout.has_value and self._limit:
                out.append(b', "value": ')
                value, limit = frames.value, self._limit
                head = value if limit < 0 or len(value) <= limit else value[:limit]
                out.append(_quoted(frames.shown_of_value(head)))
        if frames.fault:
            out.append(
                f', "problems": [{{"code": {_NOT_JSON}, "text": {quoted(frames.fault)}, '
                f'"offset": {frames.key_end}, "length": {frames.value_length}}}]'.encode()
            )
        out.append(b"}\n")

    def _source_of(self, frames: PlainRows) -> bytes:
        """Return the members for the packet and the direction."""
        source = frames.packet, frames.direction, frames.file
        if source != self._source_key:
            self._source_key = source
            self._source = (
                f'"packet": {frames.packet}, "file": {quoted(frames.file)}, '
                f'"time": "{frames.time_text()}", {self._ends[frames.direction]}, '.encode()
            )
        return self._source

    def _stream_of(self, frames: PlainRows) -> str:
        """Return the members for the vbucket and the opaque."""
        vbucket, opaque = frames.vbucket, frames.opaque
        if vbucket != self._vbucket or opaque != self._opaque:
            self._vbucket, self._opaque = vbucket, opaque
            self._stream = f'"vbucket": {vbucket}, "opaque": {opaque}, '
        return self._stream

    def _collection(self, frames: PlainRows) -> bytes:
        inferred = ', "collection_inferred": true' if frames.inferred else ""
        name = frames.collection_name()
        named = f', "collection_name": {quoted(name)}' if name else ""
        return f', "collection": {frames.collection}{inferred}{named}'.encode()


def _quoted(text: bytes) -> bytes:
    """Return text without control characters as a string of JSON."""
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


_DATATYPES: Final = ["|".join(DATATYPE.describe(value)) for value in range(256)]


class _Row:
    """What the rows of one layout have in common: the text before each of its cells."""

    def __init__(self, layout: PlainLayout, common: Iterable[str]) -> None:
        message = layout.message
        fixed = {
            "magic": str(layout.magic),
            "kind": "request",
            "opcode": str(message.opcode),
            "name": message.name,
            "layout": layout.plan.layout.version,
        }
        self.slots = [(slot.field.key, slot.field.identity, slot) for slot in layout.slots]
        self.named = [
            (f"{slot.field.key}_name{'s' * isinstance(slot.field.names, Bits)}", slot.field.names, slot)
            for slot in layout.slots
            if isinstance(slot.field.names, (Bits, EnumValue))
        ]
        there = {*common, *(name for name, *_ in self.slots), *(name for name, *_ in self.named)}
        self.cells: list[tuple[str, str]] = []
        before = ""
        for number, name in enumerate(columns()):
            before += "," if number else ""
            if name in there:
                self.cells.append((before, name))
                before = ""
            else:
                before += fixed.get(name, "")
        self.end = before + "\r\n"


class PlainCsv(PlainWriter):
    """Writes rows, which have the same columns for all layouts."""

    def __init__(self, view: View) -> None:
        self._limit = -1 if view.value_bytes is None else view.value_bytes
        self._rows: dict[PlainLayout, _Row] = {}

    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the row of the frame that is loaded."""
        cells = self._cells(frames)
        row = self._rows.get(frames.layout)
        if row is None:
            row = self._rows[frames.layout] = _Row(frames.layout, cells)
        for key, identity, slot in row.slots:
            cells[key] = f"0x{frames.hex_text(slot.at, slot.end)}" if identity else str(frames.field(slot))
        for key, names, slot in row.named:
            cells[key] = "|".join(names.describe(frames.field(slot)))
        text = ""
        for before, name in row.cells:
            text += before + cells[name]
        out.append(f"{text}{row.end}".encode())

    def _cells(self, frames: PlainRows) -> dict[str, str]:
        """Return what is in the cells that any frame may have."""
        direction, layout = frames.directions[frames.direction], frames.layout
        value = frames.value[: self._limit] if self._limit >= 0 else frames.value
        return {
            "frame": str(frames.number),
            "packet": str(frames.packet),
            "file": _cell(frames.file),
            "time": frames.time_text(),
            "connection": str(direction.connection),
            "src": direction.src,
            "dst": direction.dst,
            "offset": str(frames.offset),
            "length": str(frames.length),
            "gap_before": str(frames.gap),
            "vbucket": str(frames.vbucket),
            "opaque": str(frames.opaque),
            "cas": f"0x{frames.hex_text(16, 24)}",
            "datatype": str(frames.datatype),
            "datatype_names": _DATATYPES[frames.datatype],
            "collection": str(frames.collection) if frames.collection >= 0 else "",
            "collection_inferred": "true" if frames.collection >= 0 and frames.inferred else "",
            "collection_name": _cell(frames.collection_name()),
            "key": _cell(shown_text(frames.key)),
            "key_hex": frames.wire_key.hex(),
            "value_length": str(frames.whole_length) if frames.value_length else "",
            "stream_id": str(frames.stream_id) if layout.framed else "",
            "value": _cell(shown_text(value)) if layout.has_value else "",
            "problems": _cell(frames.fault),
        }


def _cell(text: str) -> str:
    if '"' in text or "," in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


# -- all of them --------------------------------------------------------------------------------------

#: The formats in which plain frames have writers of their own.
_WRITERS: dict[str, Callable[[View], PlainWriter]] = {
    "table": PlainTable,
    "line": PlainLine,
    "ndjson": PlainNdjson,
    "csv": PlainCsv,
}


class Bulk:
    """A writer of batches in one format. ``redactor``: hides names and texts."""

    def __init__(self, form: str, view: View, redactor: Redactor | None = None) -> None:
        self._write = OUTPUTS[form].write
        self._view = view
        self._redactor = redactor
        plain = not view.palette.paints and view.times.plain and redactor is None and form in _WRITERS
        self._writer = _WRITERS[form](view) if plain else None

    @property
    def at_once(self) -> bool:
        """Return whether most rows are written at once; not with colours, hashes, or other times."""
        return self._writer is not None

    def text(self, batch: FrameBatch, wanted: Sequence[int]) -> bytes:
        """Return the text of some rows, in their order, as UTF-8."""
        if self._writer is None:
            return b"".join([self._single(batch, row) for row in wanted])
        return self._writer.text(PlainRows(batch, wanted), lambda row: self._single(batch, row))

    def _single(self, batch: FrameBatch, row: int) -> bytes:
        record: Record = batch.record(row)
        shown = record if self._redactor is None else self._redactor.record(record)
        return self._write(shown, self._view).encode()
