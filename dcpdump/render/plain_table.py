"""Write the specification's table of plain frames. What frames of one layout have in common is put together once."""

from typing import TYPE_CHECKING, Final, NamedTuple

from dcpdump.escape import safe
from dcpdump.render import View, table
from dcpdump.render.plain_rows import PlainField, PlainLayout, PlainRows, PlainWriter, shown
from dcpdump.render.table import span, state_of, value_note
from dcpdump.spec.field import u8, u16
from dcpdump.spec.header import MAGICS, header_fields
from dcpdump.spec.names import JSON

if TYPE_CHECKING:
    from mypy_extensions import i64

_MOST_HEADS: Final = 4_096
_MOST_MARGINS: Final = 16_384
_VALID_JSON: Final = value_note(JSON, 1, 1, state_of(JSON, b"", "", cut=False, sure=True)).encode()
_DIGITS: Final = 128  #: that one translation writes
_TEXT: Final = bytes(range(256 - _DIGITS))  #: what is no digit stays as it is


class _Row(NamedTuple):
    """A row of a table."""

    label: str
    where: str
    slot: PlainField


class _Margin:
    """What stands before the key and the value of frames in which both have one place: nothing, where there is none."""

    def __init__(self, sheet: "_Sheet", key_at: int, key_end: int, end: int) -> None:
        key = span(key_at, key_end) if key_end > key_at else ""
        value = span(key_end, end) if sheet.has_value and end > key_end else ""
        width = max(sheet.narrow, len(key), len(value))
        self.width = str(width).encode()
        self.key = f"{sheet.key}{key.ljust(width)}: ".encode() if key else b""
        self.value = f"{sheet.value}{value.ljust(width)}: ".encode() if value else b""


class _Rows:
    """Rows of a layout whose digits are those of 64 bytes of a frame, from ``first`` on: their text as a template.

    In a template, a digit of the frame is a byte from 0x80 on, which says which digit it is: ``bytes.translate`` then
    writes all of them at once. Fields with names are text in it, so there are several, one for each set of names.
    """

    def __init__(self, rows: list[_Row], title: str, label: int) -> None:
        self._rows = rows
        self._title = title
        self._label = label
        self._first: i64 = 2 * rows[0].slot.at
        self._named = b"".join([self._digits(row.slot) for row in rows if row.slot.field.names is not None])
        self._templates: dict[bytes, tuple[bytes, bytes]] = {}

    def write(self, frames: PlainRows, width: bytes, out: list[bytes]) -> None:
        """Append the rows of the frame that is loaded. ``width``: of the places, as a number in digits."""
        characters = _TEXT + frames.digits[self._first : self._first + _DIGITS]
        if len(characters) < 256:
            characters = characters.ljust(256)
        names = width + self._named.translate(characters)
        template = self._templates.get(names)
        if template is None:
            if len(self._templates) >= _MOST_HEADS:
                self._templates.clear()
            template = self._templates[names] = self._made(frames, int(width))
        out.append(template[0])
        out.append(template[1].translate(characters))

    def _digits(self, slot: PlainField) -> bytes:
        """Return what stands for the digits of a field in a template."""
        first: int = 0x80 - self._first
        return bytes(range(first + 2 * slot.at, first + 2 * slot.end))

    def _made(self, frames: PlainRows, width: int) -> tuple[bytes, bytes]:
        """Return what stands before the first digit, and the template of the rest."""
        made = self._title.encode("ascii")
        for row in self._rows:
            made += f"{row.label:<{self._label}} {row.where:<{width}}: ".encode("ascii")
            field = row.slot.field
            if field.names is None:
                made += b"0x" + self._digits(row.slot) + b"\n"
            else:
                made += f"{table.number(field, frames.field(row.slot))}\n".encode("ascii")
        count = next((place for place, byte in enumerate(made) if byte >= 0x80), len(made))
        return made[:count], made[count:]


class _Sheet:
    """The rows of a layout up to the key, and what stands before the key and the value."""

    def __init__(self, layout: PlainLayout) -> None:
        rows: list[_Row] = []
        at = 0
        for field in header_fields(MAGICS[layout.magic]):
            rows.append(_Row(field.label, span(at, at + field.width, header=True), PlainField(field, at)))
            at += field.width
        inner = list(layout.slots)
        if layout.framed:
            inner = [
                PlainField(u8("frame_info", "DcpStreamId frame"), at),
                PlainField(u16("stream_id", "stream id"), at + 1),
                *inner,
            ]
        rows += [_Row(f"  {slot.field.label}", span(slot.at, slot.end), slot) for slot in inner]
        label = max(table.LABEL, *(len(row.label) for row in rows))
        self.narrow = max(table.OFFSET, *(len(row.where) for row in rows))
        self.has_value = layout.has_value
        self.key = f"{'Key':<{label}} "
        self.value = f"{'Value':<{label}} "
        title = f"{table.title_of(layout.message.name, response=False)}\n{'Field':<{label}} (offset) (value)\n"
        self.parts: list[_Rows] = []
        while rows:
            reach = rows[0].slot.at + _DIGITS // 2
            count = sum(row.slot.end <= reach for row in rows)
            self.parts.append(_Rows(rows[:count], title, label))
            rows, title = rows[count:], ""
        self._margins: dict[int, _Margin] = {}

    def margin(self, key_at: "i64", key_end: "i64", end: "i64") -> _Margin:
        """Return what stands before key and value. ``end``: of the frame."""
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
        for part in sheet.parts:
            part.write(frames, margin.width, out)
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
            if not name and len(self._owners) < _MOST_HEADS:
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
