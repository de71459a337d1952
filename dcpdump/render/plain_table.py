"""Write the specification's table of plain frames. What frames of one layout have in common is put together once."""

from typing import TYPE_CHECKING, Final

from dcpdump.escape import safe
from dcpdump.render import View, table
from dcpdump.render.plain_rows import FieldTexts, PlainField, PlainLayout, PlainRows, PlainWriter, shown, side_by_side
from dcpdump.render.table import span, state_of, value_note
from dcpdump.spec.field import Field, u16
from dcpdump.spec.header import MAGICS, header_fields
from dcpdump.spec.names import JSON

if TYPE_CHECKING:
    from mypy_extensions import i64

_MOST_OWNERS: Final = 4_096
_MOST_MARGINS: Final = 16_384
_VALID_JSON: Final = value_note(JSON, 1, 1, state_of(JSON, b"", "", cut=False, sure=True)).encode()
#: What follows the hexadecimal digits of small numbers, and the last three decimal digits of others.
_SMALL: Final = [b" (%d)\n" % number if number >= table.FIRST_DECIMAL else b"\n" for number in range(1000)]
_LAST_THREE: Final = [b"%03d)\n" % number for number in range(1000)]


class _Rows(FieldTexts):
    """Rows of fields that stand side by side. ``begins``: what stands before the value of each."""

    def __init__(self, slots: list[PlainField], begins: list[str]) -> None:
        super().__init__(slots)
        self._slots = slots
        self._begins = begins

    def made(self, frames: PlainRows) -> bytes:
        """Return the rows of the frame that is loaded."""
        texts = [table.number(slot.field, frames.field(slot)) for slot in self._slots]
        return "".join([f"{begin}{text}\n" for begin, text in zip(self._begins, texts, strict=True)]).encode()


class _Number(FieldTexts):
    """The row of a number, as ``table.number`` writes it."""

    def __init__(self, slot: PlainField, begin: str) -> None:
        super().__init__([slot])
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
            self._text = self.made(frames)
        return self._text

    def made(self, frames: PlainRows) -> bytes:
        """Make the row of the number that was found."""
        number = self._number
        row = self._begin + frames.digits[2 * self._at : 2 * self._end]
        if number < 1000:
            return row + _SMALL[number]
        thousands = number // 1000
        if thousands != self._thousands:
            self._thousands, self._first_digits = thousands, f" ({thousands}".encode()
        return row + self._first_digits + _LAST_THREE[number % 1000]


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
        self._places = {slot: span(slot.at, slot.end, header=slot in header) for slot in self._labels}
        self._label = max(table.LABEL, *map(len, self._labels.values()))
        self.narrow = max(table.OFFSET, *map(len, self._places.values()))
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
                slot: f"{label:<{self._label}} {self._places[slot]:<{width}}: " for slot, label in self._labels.items()
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
        self._packet = -1
        self._place = -1
        self._file = ""
        self._source = b""
        self._owners: dict[int, bytes] = {}  # of collections whose names are not known

    def begin(self, frames: PlainRows) -> None:
        """Prepare for the frames of a part."""
        self._ends = [f"  {each.src} → {each.dst}  connection {each.connection}  packet " for each in frames.places]
        self._packet = -1

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
        if frames.packet != self._packet or frames.place != self._place or frames.gap or frames.file != self._file:
            # A loss before it is said of one frame, and not of the next.
            self._packet, self._place, self._file = -1 if frames.gap else frames.packet, frames.place, frames.file
            file = f"  file {frames.file}" if self._names_file else ""
            lost = f"  after {frames.gap:,} bytes lost or skipped" if frames.gap else ""
            self._source = f"{frames.time_text()}{self._ends[frames.place]}{frames.packet}{file}{lost}\n".encode()
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
