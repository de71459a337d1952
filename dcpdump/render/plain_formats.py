"""Write the frames of a batch in one format: plain ones one behind the other, all others one by one.

Plain frames, nearly all of a capture, have a template for each of their shapes; all others go through the writers for
one record. Both return the same text: the tests compare them. The rows of tables and the keys and columns for programs
are those that these writers give the first frame of a shape.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any, Final

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.escape import safe
from dcpdump.record import Json, Record, as_json
from dcpdump.redact import Redactor
from dcpdump.render import OUTPUTS, View, line, table
from dcpdump.render.objects import csv_frame, dump
from dcpdump.render.plain_rows import PlainField, PlainRows, PlainWriter, Slot, Template, shown
from dcpdump.render.table import TableRow, span, state_of, value_note
from dcpdump.spec.field import Bits, EnumValue, Field
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.spec.names import JSON

if TYPE_CHECKING:
    from mypy_extensions import i64


def _decimal(number: int) -> bytes:
    return str(number).encode()


def _origin(text: Callable[[PlainRows], str], escaped: Callable[[bytes], bytes]) -> Slot:
    return Slot(lambda frames: escaped(text(frames).encode()), origin=True)


def _slots(escaped: Callable[[bytes], bytes]) -> dict[str, Slot]:
    """Return the slots that all formats have. ``escaped`` returns a text as the format has it."""
    return {
        "frame": Slot(lambda frames: _decimal(frames.number)),
        "packet": _origin(lambda frames: str(frames.packet), escaped),
        "file": _origin(lambda frames: frames.file, escaped),
        "time": _origin(PlainRows.time_text, escaped),
        "connection": _origin(lambda frames: str(frames.direction.connection), escaped),
        "src": _origin(lambda frames: frames.direction.src, escaped),
        "dst": _origin(lambda frames: frames.direction.dst, escaped),
        "vbucket": Slot(lambda frames: _decimal(frames.vbucket), 6, 8),
        "stream_id": Slot(lambda frames: _decimal(frames.stream_id), HEADER_LENGTH + 1, HEADER_LENGTH + 3),
        "collection_name": Slot(lambda frames: escaped(frames.path.encode())),
        "key": Slot(lambda frames: escaped(shown(frames.key))),
        "fault": Slot(lambda frames: escaped(safe(frames.fault).encode())),
    }


def _thousands(number: int) -> bytes:
    return f"{number:,}".encode()


# -- the specification's table -------------------------------------------------------------------------

_MOST_SPANS: Final = 16_384
_VALID_JSON: Final = value_note(JSON, 1, 1, state_of(JSON, b"", "", cut=False, sure=True)).encode()
#: What follows the hexadecimal digits of small numbers, and the last three decimal digits of others.
_SMALL: Final = [b" (%d)" % number if number >= table.FIRST_DECIMAL else b"" for number in range(1000)]
_LAST_THREE: Final = [b"%03d)" % number for number in range(1000)]


class _Number:
    """The text of a number, as ``table.number`` writes it."""

    def __init__(self, slot: PlainField) -> None:
        self._slot = slot
        self._number = -1  # of the frame before: it is often the same, or differs in its last digits alone
        self._thousands = -1
        self._first_digits = b""
        self._text = b""

    def text(self, frames: PlainRows) -> bytes:
        """Return the number of the frame that is loaded."""
        number = frames.field(self._slot)
        if number != self._number:
            self._number = number
            thousands = number // 1000
            if thousands != self._thousands:
                self._thousands, self._first_digits = thousands, f" ({thousands}".encode()
            last = _SMALL[number] if number < 1000 else self._first_digits + _LAST_THREE[number % 1000]
            self._text = frames.digits[2 * self._slot.at : 2 * self._slot.end] + last
        return self._text


class _Spans:
    """Where key and value stand, as text of one width."""

    def __init__(self, key_at: int, key_end: int, end: int) -> None:
        key, value = (span(at, to) if to > at else "" for at, to in ((key_at, key_end), (key_end, end)))
        self.width = max(len(key), len(value))
        self.key = key.ljust(self.width).encode()
        self.value = value.ljust(self.width).encode()


class PlainTable(PlainWriter):
    """Writes tables, each below the line of its place and time, and with an empty line behind it."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self._limit = -1 if view.value_bytes is None else view.value_bytes
        self._file = "  file <file>" if view.file else ""
        self._known: dict[int, _Spans] = {}  # by their numbers
        self._spans = _Spans(0, 0, 0)  # of the frame that is loaded
        self._slots = _slots(lambda text: text) | {
            "lost": Slot(lambda frames: _thousands(frames.gap)),
            "collection": Slot(lambda frames: f"{frames.collection:x}".encode()),
            "stripped_key": Slot(lambda frames: _stripped(shown(frames.key))),
            "key_span": Slot(lambda frames: self._spans.key),
            "value_span": Slot(lambda frames: self._spans.value),
            "value": Slot(self._value),
        }

    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the table of the frame that is loaded."""
        key_at: i64 = frames.key_at
        key_end: i64 = frames.key_end
        places = ((key_at << 16 | (key_end - key_at)) << 32) | frames.length
        spans = self._known.get(places)
        if spans is None:
            if len(self._known) >= _MOST_SPANS:
                self._known.clear()
            spans = self._known[places] = _Spans(frames.key_at, frames.key_end, frames.length)
        self._spans = spans
        shape = frames.shape << 8 | spans.width
        template = self._templates.get(shape)
        if template is None:
            template = self._templates[shape] = self.template(frames)
        template.write(frames, out)

    def template(self, frames: PlainRows) -> Template:
        """Make the template of frames that have the shape of the one that is loaded, and spans of that width."""
        slots, marked, record = dict(self._slots), "~" * self._spans.width, frames.record()

        def row_of(row: TableRow) -> TableRow:
            """Return a row with the mark of its slot."""
            field = row.field.field if row.field is not None else None
            if not isinstance(field, Field):
                return row._replace(offsets=marked, text="<value>" if row.start == frames.key_end else key)
            slot = PlainField(field, row.start)
            text = _Number(slot).text if field.is_number else _number_text(slot, table.number)
            slots[f"at{row.start}"] = Slot(text, row.start, row.end)
            return row._replace(text=f"{'0x' * field.is_number}<at{row.start}>")

        named, guess = " <collection_name>" if frames.path else "", ", inferred" if frames.inferred else ""
        key = f"<key> (collection 0x<collection>{named}{guess})" if frames.collection >= 0 else "<stripped_key>"
        rows = "\n".join(table.row_texts([row_of(row) for row in table.table_rows(record, 0)]))
        for name in ["key_span"] * (frames.key_end > frames.key_at) + ["value_span"]:
            rows = rows.replace(marked, f"<{name}>", 1) if marked else rows
        lost = "  after <lost> bytes lost or skipped" if frames.gap else ""
        origin = f"#<frame>  <time>  <src> → <dst>  connection <connection>  packet <packet>{self._file}{lost}"
        fault = "! <fault>\n" if frames.fault else ""
        return Template(f"{origin}\n{table.title(record)}\n{rows}\n{fault}\n", slots)

    def _value(self, frames: PlainRows) -> bytes:
        """Return the value, how much of it is not shown, and what it is."""
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
            return _stripped(text)
        if is_cut:
            text += b"\xe2\x80\xa6 +" + _thousands(whole - limit) + b" B"
        return text + b" " + note if note and text else text + note


def _stripped(text: bytes) -> bytes:
    """Remove white space from the end; nearly all texts end in a letter or a digit."""
    return text if text[-1:].isalnum() else text.decode().rstrip().encode()


def _number_text(slot: PlainField, text: Callable[[Field, int], str]) -> Callable[[PlainRows], bytes]:
    """Return what makes the text of a field."""
    return lambda frames: text(slot.field, frames.field(slot)).encode()


# -- line ---------------------------------------------------------------------------------------------


class PlainLine(PlainWriter):
    """Writes lines, in the notation of the specification's dialogues."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self._slots = _slots(lambda text: text) | {
            "lost": Slot(lambda frames: _thousands(frames.gap)),
            "collection": Slot(lambda frames: f"{frames.collection:x}".encode()),
            "value_length": Slot(lambda frames: _decimal(frames.value_length)),
        }

    def template(self, frames: PlainRows) -> Template:
        """Make the template of frames that have the shape of the one that is loaded."""
        layout, slots = frames.layout, dict(self._slots)
        message = layout.message
        words = ", vb=<vbucket>" if message.streamed or message.vbucket else ""
        words += ", sid=<stream_id>" if layout.framed else ""
        first = not words  # a field's word is left out where it says nothing, and the comma with it

        def word(field: Field, number: int) -> str:
            found = line.word(message.name, field, number)
            return f"{'' if first else ', '}{found}" if found else ""

        for slot in layout.slots:
            slots[slot.field.name] = Slot(_number_text(slot, word), slot.at, slot.end)
            words += f"<{slot.field.name}>"
        if frames.collection >= 0:
            words += f", collection=0x<collection>{'(<collection_name>)' if frames.path else ''}"
        words += ", key=<key>" if frames.key_end > frames.key_at else ""
        words += ", value=<value_length> B" if layout.has_value and frames.value_length else ""
        side = line.sending_side(message, response=False)
        lost = " [after <lost> bytes lost or skipped]" if frames.gap else ""
        fault = " ! <fault>" if frames.fault else ""
        said = f"{side} {line.dialogue_name(message.name)}{{{words.removeprefix(', ')}}}"
        return Template(f"#<frame> <time> c<connection> {said}{lost}{fault}\n", slots)


# -- ndjson and csv -----------------------------------------------------------------------------------


class _PlainObjects(PlainWriter):
    """Writes what programs read: the keys that records have, in their order."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self._value_bytes = view.value_bytes
        self._slots = _slots(self.escaped) | {
            "offset": Slot(lambda frames: _decimal(frames.offset)),
            "length": Slot(lambda frames: _decimal(frames.length)),
            "opaque": Slot(lambda frames: _decimal(frames.opaque), 12, 16),
            "cas": Slot(lambda frames: b"0x" + frames.digits[32:48], 16, 24),
            "collection": Slot(lambda frames: _decimal(frames.collection)),
            "key_hex": Slot(lambda frames: frames.wire_key.hex().encode()),
            "value_length": Slot(lambda frames: _decimal(frames.whole_length)),
            "value": Slot(lambda frames: self.escaped(frames.shown_of_value(frames.value[: self._value_bytes]))),
            "problems.offset": Slot(lambda frames: _decimal(frames.key_end)),
            "problems.length": Slot(lambda frames: _decimal(frames.value_length)),
        }
        self._slots |= {"framing.stream_id": self._slots["stream_id"], "problems.text": self._slots["fault"]}

    @abstractmethod
    def escaped(self, text: bytes) -> bytes:
        """Return text without control characters as the format has it."""

    @abstractmethod
    def listed(self, words: Sequence[str]) -> str:
        """Return a list as the format has it."""

    @abstractmethod
    def drawn(self, row: Json) -> str:
        """Return the line of an object."""

    def template(self, frames: PlainRows) -> Template:
        """Make the template of frames that have the shape of the one that is loaded."""
        slots = dict(self._slots)
        if frames.gap:
            slots["gap_before"] = Slot(lambda frames: _decimal(frames.gap))
        for slot in frames.layout.slots:
            key, names = f"fields.{slot.field.key}", slot.field.names
            slots[key] = Slot(_number_text(slot, _plain), slot.at, slot.end)
            if isinstance(names, (Bits, EnumValue)):
                slots[f"{key}_names"] = Slot(_bits_text(slot, self.listed), slot.at, slot.end)
                slots[f"{key}_name"] = Slot(_bits_text(slot, "".join), slot.at, slot.end)
        return Template(self.drawn(_marked(as_json(frames.record(), value_bytes=self._value_bytes), "", slots)), slots)


def _plain(field: Field, number: int) -> str:
    return f"0x{number:0{2 * field.width}x}" if field.identity else str(number)


def _bits_text(slot: PlainField, joined: Callable[[Sequence[str]], str]) -> Callable[[PlainRows], bytes]:
    """Return what makes the names of a field's value."""
    names = slot.field.names
    assert names is not None
    return lambda frames: joined(names.describe(frames.field(slot))).encode()


def _marked(value: Any, name: str, slots: dict[str, Slot]) -> Any:
    """Return what has this name in an object with the marks of its slots. A list of words is one slot."""
    if isinstance(value, dict):
        return {key: _marked(each, f"{name}.{key}".lstrip("."), slots) for key, each in value.items()}
    if isinstance(value, list):
        return [f"<#{name}>"] if name in slots else [_marked(each, name, slots) for each in value]
    if name not in slots:
        return value
    return f"<#{name}>" if isinstance(value, int) else f"<{name}>"


class PlainNdjson(_PlainObjects):
    """Writes objects."""

    def escaped(self, text: bytes) -> bytes:
        """Return text as it is within quotes."""
        return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')

    def listed(self, words: Sequence[str]) -> str:
        """Return words between the brackets."""
        return ", ".join(map(quoted, words))

    def drawn(self, row: Json) -> str:
        """Return an object as a line."""
        return dump(row) + "\n"


class PlainCsv(_PlainObjects):
    """Writes rows, which have the same columns for all layouts."""

    def escaped(self, text: bytes) -> bytes:
        """Return a cell, with quotes where it needs them."""
        return b'"' + text.replace(b'"', b'""') + b'"' if b'"' in text or b"," in text else text

    def listed(self, words: Sequence[str]) -> str:
        """Return words as one cell."""
        return "|".join(words)

    def drawn(self, row: Json) -> str:
        """Return an object as a row."""
        return csv_frame(row)


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
