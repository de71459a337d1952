"""Show the fields of a frame as ``read`` prints them, and its bytes; each highlights the selection of the other."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from textual import events

from dcpdump.browse.pane import Pane, Styled
from dcpdump.browse.rows import answers
from dcpdump.escape import safe
from dcpdump.record import Record
from dcpdump.render.style import STYLES, LineKind
from dcpdump.render.table import row_texts, table_rows, title
from dcpdump.spec.field import Field
from dcpdump.wire.frame import FieldValue, Section
from dcpdump.wire.json_text import parse_json

# -- the lines of a frame's fields --------------------------------------------------------------------
# Lines of the table that ``read`` prints, each with its range of bytes.


class FieldLine(NamedTuple):
    """A line, and its range of bytes in the frame; empty for none."""

    kind: LineKind
    text: str
    start: int = 0
    end: int = 0
    field: FieldValue | None = None


def field_lines(record: Record, value_bytes: int | None) -> list[FieldLine]:
    """Return the lines of a frame: its fields, problems and hints."""
    rows = table_rows(record, value_bytes)
    out = [
        FieldLine(LineKind.FIELD, text, row.start, row.end, row.field)
        for row, text in zip(rows, row_texts(rows)[1:], strict=True)
    ]
    out += [FieldLine(LineKind.PROBLEM, f"! {safe(each.text)}", each.start, each.end) for each in record.problems]
    out += [FieldLine(LineKind.HINT, f"note: {safe(hint)}") for hint in record.hints]
    return out


def line_at(lines: Sequence[FieldLine], byte: int) -> int | None:
    """Return the line of the field that contains a byte."""
    return next((at for at, each in enumerate(lines) if each.field and each.start <= byte < each.end), None)


def clause_of(record: Record, field: FieldValue) -> tuple[str, str] | None:
    """Return the option of ``read`` for a field, and its value for this frame; None without such an option."""
    name, header, value = field.field.name, field.section is Section.HEADER, field.value
    if field.section is Section.KEY:
        key = record.content.key
        return None if key is None else ("key", _pattern(key))
    if header and name == "magic":
        return "kind", record.frame.magic.kind
    if not isinstance(value, int) or not isinstance(field.field, Field):
        return None
    if field.field.seqno:
        return "seqno", str(value)
    if name == "stream_id" or (header and name == "vbucket"):
        return name.replace("_", "-"), str(value)
    if name == "collection_id":
        return "collection", f"0x{value:x}"
    return (name, f"0x{value:02x}") if header and name in ("opcode", "status", "opaque") else None


def _pattern(key: bytes) -> str:
    """Return a pattern that matches only one key."""
    text = key.decode("utf-8", "replace")
    plain = text.isprintable() and text.encode() == key and not text.startswith(("!", "/")) and text
    if plain and not set(text) & set("*?[]"):
        return text
    return "/^" + "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\x{byte:02x}" for byte in key) + "$/"


# -- the fields of a frame; the selected one lights its bytes -----------------------------------------


class FieldsPane(Pane[FieldLine]):
    """The fields of one frame."""

    def __init__(self, value_bytes: int | None) -> None:
        super().__init__(id="fields")
        self._value_bytes = value_bytes
        self._label = ""  # of the selected field, which is selected in the next frame too

    def styled(self, line: int) -> Sequence[Styled]:
        """Return a line."""
        kind, text, *_ = self.rows[line]
        return [(text, STYLES.get(kind, ""))]

    def show(self, record: Record | None, findings: Sequence[FieldLine] = ()) -> None:
        """Show a frame and its findings; the cursor stays on the field of the same name."""
        self.rows = [] if record is None else [*field_lines(record, self._value_bytes), *findings]
        self.border_title = "" if record is None else f"#{record.number:,} {title(record)}"
        self.border_subtitle = "" if record is None else _origin(record)
        same = [at for at, line in enumerate(self.rows) if _label(line) == self._label]
        self.cursor = same[0] if same else 0
        self.show_cursor()

    def put(self, line: int) -> None:
        """Select a field."""
        super().put(line)
        self._note()

    def select_byte(self, byte: int) -> None:
        """Select the field of a byte."""
        line = line_at(self.rows, byte)
        if line is not None:
            self.cursor = line
            self.show_cursor()
            self._note()

    def _note(self) -> None:
        if self.selected is not None:
            self._label = _label(self.selected)


def _label(line: FieldLine) -> str:
    return "" if line.field is None else line.field.field.name


def _origin(record: Record) -> str:
    """Return the origin of a frame, and the request that it answers."""
    raw = record.frame.raw
    words = [f"packet {raw.where.packet:,}"]
    if record.request is not None:
        words.append(f"{answers(record)} (r)")
    if raw.gap_before:
        words.append(f"after {raw.gap_before:,} bytes lost or skipped")
    if raw.confidence:
        words.append(f"confidence {raw.confidence}")
    return " · ".join(words)


# -- the bytes of a frame, or its value ---------------------------------------------------------------


class BytesView(NamedTuple):
    """A view of a frame's content: bytes, some of which may be lost, or lines of text."""

    title: str
    data: bytes = b""
    holes: tuple[tuple[int, int], ...] = ()
    lines: tuple[str, ...] = ()


def value_size(record: Record) -> int:
    """Return how many bytes of value have another view than the wire's; 0 without one."""
    body = record.content.body
    if body is None or record.frame.masked or body.compressed or not record.frame.value_length:
        return 0
    otherwise = body.xattrs is not None or record.frame.value != body.value or body.value[:1] in (b"{", b"[")
    return len(body.value) if otherwise else 0


def views(record: Record, *, value: bool) -> list[BytesView]:
    """Return the views of a frame: its bytes; if ``value``, its value decompressed and without xattrs, and as JSON."""
    raw, body = record.frame.raw, record.content.body
    held = len(raw.data)
    size = f"{held:,} bytes" + f" of {raw.length:,}" * (held < raw.length)
    cut = [(held, raw.length)] if held < raw.length <= held + 64 else []
    out = [BytesView(f"{size} at {raw.offset:,} of {record.src} → {record.dst}", raw.data, (*raw.holes, *cut))]
    if not value or body is None or not value_size(record):
        return out
    if body.xattrs is not None or record.frame.value != body.value:
        out.append(BytesView(f"{len(body.value):,} bytes of value, as they are read", body.value))
    text = _json_lines(body.value)
    if text:
        out.append(BytesView("value as JSON", lines=tuple(text)))
    return out


def _json_lines(value: bytes) -> list[str]:
    try:
        parsed = parse_json(value)
    except (ValueError, RecursionError):
        return []
    if not isinstance(parsed, (dict, list)):
        return []
    return [safe(line) for line in json.dumps(parsed, indent=2, ensure_ascii=False).split("\n")]


_WIDE, _NARROW = 16, 8
_OFFSET = 8  # cells before the first byte: six digits and two spaces
#: Larger values are decoded only on request.
_LARGE = 1 << 20
_LIT, _CURSOR = "reverse cyan", "reverse bold"


class HexPane(Pane[bytes]):
    """The bytes of one frame, under a cursor."""

    def __init__(self) -> None:
        super().__init__(id="hexes")
        self._record: Record | None = None
        self._asked = False  # whether to decode a large value
        self._views: list[BytesView] = []
        self._view = 0
        self.byte = 0
        self._lit = (0, 0)

    @property
    def view(self) -> BytesView:
        """Return the current view."""
        return self._views[self._view] if self._views else BytesView("")

    @property
    def per_line(self) -> int:
        """Return how many bytes fit on a line."""
        return _WIDE if self.size.width >= _OFFSET + 3 * _WIDE + 3 + _WIDE else _NARROW

    @property
    def selects(self) -> bool:  # type: ignore[override]
        """Return whether there is a byte to select; text is scrolled."""
        return not self.view.lines

    @property
    def count(self) -> int:
        """Return how many lines there are."""
        view = self.view
        return len(view.lines) or -(-len(self.view.data) // self.per_line)

    def show(self, record: Record | None) -> None:
        """Show a frame's bytes."""
        self._record, self._asked = record, False
        value = record is not None and self._view > 0 and value_size(record) <= _LARGE
        self._views = [] if record is None else views(record, value=value)
        self._view = self._view if self._view < len(self._views) else 0
        self.byte = self.top = 0
        self._retitle()

    def next_view(self) -> None:
        """Show the next view, if there is one; a large value is decoded only on the second request."""
        if self._record is not None and len(self._views) == 1:
            size = value_size(self._record)
            if size > _LARGE and not self._asked:
                self._asked = True
                self.border_subtitle = f"{size:,} bytes of value: v once more decodes them"
                return
            self._views = views(self._record, value=True)
        self._view = (self._view + 1) % max(1, len(self._views))
        self.byte = self.top = self.left = 0
        self._retitle()

    def _retitle(self) -> None:
        self.border_title = self.view.title
        if len(self._views) > 1:
            self.border_subtitle = f"view {self._view + 1} of {len(self._views)} (v)"
        else:
            self.border_subtitle = "v: its value" if self._record is not None and value_size(self._record) else ""
        self._settle()

    def light(self, start: int, end: int, *, go: bool) -> None:
        """Highlight the bytes of a field; ``go``: put the cursor on the first."""
        self._lit = (start, end)
        if go and self._view == 0 and end > start:
            self.byte = min(start, max(0, len(self.view.data) - 1))
            self._settle()
        self.refresh()

    def _settle(self) -> None:
        self.cursor = self.byte // self.per_line
        self.show_cursor()

    # -- moving -------------------------------------------------------------------------------------------

    def aside(self, by: int) -> None:
        """Move by bytes."""
        if self.selects:
            self._point(self.byte + by)
        else:
            super().aside(by)

    def put(self, line: int) -> None:
        """Move to a line."""
        if self.selects:
            self._point(line * self.per_line + self.byte % self.per_line)
        else:
            super().put(line)

    def scroll_lines(self, by: int) -> None:
        """Scroll without moving the cursor."""
        self.scroll_top(self.top + by)

    def _point(self, byte: int) -> None:
        byte = max(0, min(byte, len(self.view.data) - 1))
        moved, self.byte = byte != self.byte, byte
        self._settle()
        if moved and self._view == 0:
            self.moved()

    def click(self, line: int, column: int) -> None:
        """Select a byte, in the digits or in the text."""
        byte = self._byte_at(line, column)
        if byte is not None and self.selects:
            self._point(byte)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Select the byte under the mouse while this pane has the focus."""
        at = event.get_content_offset(self)
        if self.has_focus and at is not None:
            self.click(self.top + at.y, at.x + self.left)

    def _byte_at(self, line: int, column: int) -> int | None:
        per, at = self.per_line, column - _OFFSET
        digits = 3 * per + per // 8
        if 0 <= at < digits:
            index = min(per - 1, (at - at // (3 * 8 + 1)) // 3)
        elif digits <= at < digits + per:
            index = at - digits
        else:
            return None
        byte = line * per + index
        return byte if byte < len(self.view.data) else None

    # -- drawing ------------------------------------------------------------------------------------------

    def cover(self, line: int) -> str:
        """Return no style: the cursor is on a byte, not on a line."""
        return ""

    def styled(self, line: int) -> Sequence[Styled]:
        """Return a line: its offset, its bytes, its text."""
        view, per = self.view, self.per_line
        if view.lines:
            return [(view.lines[line], "")]
        start = line * per
        row = self.view.data[start : start + per]
        digits: list[Styled] = [(f"{start:06x}  ", "dim")]
        text: list[Styled] = []
        for column in range(per):
            if column and column % 8 == 0:
                digits.append((" ", ""))
            if column >= len(row):
                digits.append(("   ", ""))
                continue
            at = start + column
            style = self._style(at)
            lost = any(low <= at < high for low, high in view.holes)
            joined = style if self._style(at + 1) == style == _LIT and column < len(row) - 1 else ""
            digits += [("··" if lost else f"{row[column]:02x}", style), (" ", joined)]
            shown = "·" if lost or not 0x20 <= row[column] < 0x7F else chr(row[column])
            text.append((shown, style))
        return [*digits, (" ", ""), *text]

    def _style(self, at: int) -> str:
        if at == self.byte and self.has_focus:
            return _CURSOR
        lit = self._view == 0 and self._lit[0] <= at < self._lit[1]
        return _LIT if lit else ""
