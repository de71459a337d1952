"""Write the frames of a part in one format: plain ones one behind the other, all others one by one.

Plain frames, nearly all of a capture, have writers of their own here (and ``plain_table``); all others go through the
writers for one record. Both return the same text: the tests compare them.
"""

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring as quoted
from typing import Final

from dcpdump.batch.part import Part
from dcpdump.escape import safe
from dcpdump.record import Record, columns
from dcpdump.redact import Redactor
from dcpdump.render import OUTPUTS, View, line
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
from dcpdump.render.plain_table import PlainTable
from dcpdump.spec.field import Bits, EnumValue
from dcpdump.spec.names import DATATYPE
from dcpdump.wire.frame import Fault

# -- line ---------------------------------------------------------------------------------------------


class _Words(FieldTexts):
    """Fields side by side as words, each with a comma before it; those that say nothing are left out."""

    def __init__(self, message: str, slots: list[PlainField]) -> None:
        super().__init__(slots)
        self._message = message
        self._slots = slots
        self._begin = f", {line.field_name(message, slots[0].field)}=" if line.is_decimal(slots[0].field) else ""
        self._of_zero = line.word(message, slots[0].field, 0) != ""

    def made(self, frames: PlainRows) -> bytes:
        """Return the words of the frame that is loaded."""
        first = self._slots[0]
        number = frames.field(first)
        if self._begin and len(self._slots) == 1:
            return f"{self._begin}{number}".encode() if number or self._of_zero else b""
        words = [line.word(self._message, slot.field, frames.field(slot)) for slot in self._slots]
        return "".join([f", {word}" for word in words if word]).encode()


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
        begin = f"#{frames.number} {frames.time_text()} c{frames.places[frames.place].connection}{sentence.begin}"
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


# -- csv ----------------------------------------------------------------------------------------------

#: The cells that any frame may have, besides those of its fields.
_COMMON = """frame packet file time connection src dst offset length gap_before vbucket opaque cas datatype
    datatype_names collection collection_inferred collection_name key key_hex value_length stream_id value problems"""
_DATATYPES: Final = ["|".join(DATATYPE.describe(value)) for value in range(256)]


class _Named:
    """A field whose numbers have names, which stand in a column of their own."""

    def __init__(self, slot: PlainField) -> None:
        self.slot = slot
        self.column = f"{slot.field.key}_names" if isinstance(slot.field.names, Bits) else f"{slot.field.key}_name"
        self._known: dict[int, str] = {}

    def text(self, number: int) -> str:
        """Return what a number is called. There are few: a plan takes only numbers that have names."""
        known = self._known.get(number)
        if known is None:
            names = self.slot.field.names
            known = self._known[number] = "|".join(names.describe(number)) if names is not None else ""
        return known


class _Row:
    """What the rows of one layout have in common: the text before each of its cells, and behind the last."""

    def __init__(self, layout: PlainLayout) -> None:
        self.slots = layout.slots
        self.named = [_Named(slot) for slot in layout.slots if isinstance(slot.field.names, (Bits, EnumValue))]
        own = {slot.field.key: slot.field.name for slot in self.slots} | {
            each.column: each.column for each in self.named
        }
        fixed = {
            "magic": str(layout.magic),
            "kind": "request",
            "opcode": str(layout.message.opcode),
            "name": layout.message.name,
            "layout": layout.plan.layout.version,
        }
        common = set(_COMMON.split())
        self.cells: list[tuple[str, str]] = []
        before = ""
        for number, name in enumerate(columns()):
            before += "," if number else ""
            if name in own or name in common:
                self.cells.append((before, own.get(name, name)))
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
        row = self._rows.get(frames.layout)
        if row is None:
            row = self._rows[frames.layout] = _Row(frames.layout)
        cells = self._cells(frames)
        for slot in row.slots:
            field = slot.field
            cells[field.name] = f"0x{frames.hex_text(slot.at, slot.end)}" if field.identity else str(frames.field(slot))
        for named in row.named:
            cells[named.column] = named.text(frames.field(named.slot))
        text = ""
        for before, name in row.cells:
            text += before + cells[name]
        out.append(f"{text}{row.end}".encode())

    def _cells(self, frames: PlainRows) -> dict[str, str]:
        """Return what is in the cells that any frame may have."""
        ends, layout = frames.places[frames.place], frames.layout
        value = frames.value[: self._limit] if self._limit >= 0 else frames.value
        return {
            "frame": str(frames.number),
            "packet": str(frames.packet),
            "file": _cell(frames.file),
            "time": frames.time_text(),
            "connection": str(ends.connection),
            "src": ends.src,
            "dst": ends.dst,
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


# -- ndjson -------------------------------------------------------------------------------------------

_NOT_JSON: Final = quoted(Fault.NOT_JSON.value)


class _Names:
    """What the numbers of a field are called, as a member of an object."""

    def __init__(self, slot: PlainField) -> None:
        self.slot = slot
        self._known: dict[int, bytes] = {}

    def text(self, number: int) -> bytes:
        """Return the member, with a comma before it. There are few: a plan takes only numbers that have names."""
        known = self._known.get(number)
        if known is None:
            field = self.slot.field
            words = field.names.describe(number) if field.names else ()
            if isinstance(field.names, Bits):
                text = f', "{field.key}_names": [{", ".join(map(quoted, words))}]'
            else:
                text = f', "{field.key}_name": {quoted("".join(words))}'
            known = self._known[number] = text.encode()
        return known


class _Members(FieldTexts):
    """Fields side by side as members of an object."""

    def __init__(self, slots: list[PlainField], before: str) -> None:
        super().__init__(slots)
        self._before = before
        self._slots = slots

    def made(self, frames: PlainRows) -> bytes:
        """Return the members of the frame that is loaded, and what stands before them."""
        if len(self._slots) == 1:
            return f"{self._before}{_member(self._slots[0], frames)}".encode()
        return f"{self._before}{', '.join([_member(slot, frames) for slot in self._slots])}".encode()


def _member(slot: PlainField, frames: PlainRows) -> str:
    if slot.field.identity:
        return f'"{slot.field.key}": "0x{frames.hex_text(slot.at, slot.end)}"'
    return f'"{slot.field.key}": {frames.field(slot)}'


class _Object:
    """What the objects of one layout have in common."""

    def __init__(self, layout: PlainLayout) -> None:
        message = layout.message
        self.kind = (
            f'"magic": {layout.magic}, "kind": "request", "opcode": {message.opcode}, "name": {quoted(message.name)}, '
            f'"layout": {quoted(layout.plan.layout.version)}'
        )
        begin = ', "fields": {'
        self.members = [
            _Members(slots, ", " if number else begin) for number, slots in enumerate(side_by_side(layout.slots))
        ]
        self.names = [_Names(slot) for slot in layout.slots if isinstance(slot.field.names, (Bits, EnumValue))]


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
        self._packet = -1
        self._place = -1
        self._file = ""
        self._source = b""
        self._vbucket = -1
        self._opaque = -1
        self._stream = ""

    def begin(self, frames: PlainRows) -> None:
        """Prepare for the frames of a part."""
        self._ends = [
            f'"connection": {ends.connection}, "src": {quoted(ends.src)}, "dst": {quoted(ends.dst)}'
            for ends in frames.places
        ]
        self._packet = -1

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
            for names in shape.names:
                out.append(names.text(frames.field(names.slot)))
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
        if frames.packet != self._packet or frames.place != self._place or frames.file != self._file:
            self._packet, self._place, self._file = frames.packet, frames.place, frames.file
            self._source = (
                f'"packet": {frames.packet}, "file": {quoted(frames.file)}, '
                f'"time": "{frames.time_text()}", {self._ends[frames.place]}, '.encode()
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


# -- all of them --------------------------------------------------------------------------------------

#: The formats in which plain frames have writers of their own.
_WRITERS: dict[str, Callable[[View], PlainWriter]] = {
    "table": PlainTable,
    "line": PlainLine,
    "ndjson": PlainNdjson,
    "csv": PlainCsv,
}


class Bulk:
    """A writer of parts in one format. ``redactor``: hides names and texts."""

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

    def text(self, part: Part, wanted: Sequence[int]) -> bytes:
        """Return the text of some rows, in their order, as UTF-8."""
        if self._writer is None:
            return b"".join([self._single(part, row) for row in wanted])
        return self._writer.text(PlainRows(part, wanted), lambda row: self._single(part, row))

    def _single(self, part: Part, row: int) -> bytes:
        record: Record = part.record(row)
        shown = record if self._redactor is None else self._redactor.record(record)
        return self._write(shown, self._view).encode()
