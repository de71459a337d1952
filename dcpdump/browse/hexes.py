"""HexPane: a frame's bytes, those of the selected field lit; or its value, decompressed, or as JSON."""

from collections.abc import Sequence

from textual import events
from textual.message import Message

from dcpdump.browse.field_lines import BytesView, value_size, views, wire_view
from dcpdump.browse.pane import Pane
from dcpdump.browse.pieces import Piece
from dcpdump.record import Record

_WIDE, _NARROW = 16, 8
_OFFSET = 8  # cells before the first byte: six digits and two blanks
#: Larger values are not decoded unless somebody asks.
_LARGE = 1 << 20
_LIT, _CURSOR = "reverse cyan", "reverse bold"


class HexPane(Pane):
    """The bytes of one frame, under a cursor."""

    class Pointed(Message):
        """Another byte of the frame was pointed at."""

        def __init__(self, byte: int) -> None:
            super().__init__()
            self.byte = byte

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
        """Return what is shown."""
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
        return len(view.lines) or -(-len(self._data) // self.per_line)

    @property
    def _data(self) -> bytes:
        return self.view.data

    def show(self, record: Record | None) -> None:
        """Show a frame's bytes."""
        self._record, self._asked = record, False
        self._views = [] if record is None else [wire_view(record)]
        if record is not None and self._view and value_size(record) <= _LARGE:
            self._views = views(record)
        self._view = self._view if self._view < len(self._views) else 0
        self.byte = self.top = 0
        self._retitle()

    def next_view(self) -> None:
        """Show the bytes another way, where there is one; what is large is only decoded when that is asked twice."""
        if self._record is not None and len(self._views) == 1:
            size = value_size(self._record)
            if size > _LARGE and not self._asked:
                self._asked = True
                self.border_subtitle = f"{size:,} bytes of value: v once more decodes them"
                return
            self._views = views(self._record)
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

    def light(self, start: int, end: int) -> None:
        """Light the bytes of a field, and go to the first of them."""
        self._lit = (start, end)
        if self._view == 0 and end > start:
            self.byte = min(start, max(0, len(self._data) - 1))
            self._settle()
        self.refresh()

    def light_around(self, start: int, end: int) -> None:
        """Light the bytes of a field; the cursor is on one of them."""
        self._lit = (start, end)
        self.refresh()

    def _settle(self) -> None:
        self.cursor = self.byte // self.per_line
        self.show_cursor()

    # -- moving -------------------------------------------------------------------------------------------

    def move(self, by: int) -> None:
        """Move by lines."""
        if not self.selects:
            super().move(by)
            return
        self._point(self.byte + by * self.per_line)

    def aside(self, by: int) -> None:
        """Move by bytes."""
        if not self.selects:
            super().aside(by)
            return
        self._point(self.byte + by)

    def edge(self, to: int) -> None:
        """Move to the first byte, or the last."""
        if not self.selects:
            super().edge(to)
            return
        self._point(0 if to < 0 else len(self._data) - 1)

    def put(self, line: int) -> None:
        """Move to a line."""
        if self.selects:
            self._point(line * self.per_line + self.byte % self.per_line)
        else:
            super().put(line)

    def scroll_lines(self, by: int) -> None:
        """Scroll; the cursor stays."""
        self.top = max(0, min(self.top + by, self.count - self.height))
        self.refresh()

    def _point(self, byte: int) -> None:
        byte = max(0, min(byte, len(self._data) - 1))
        moved, self.byte = byte != self.byte, byte
        self._settle()
        if moved and self._view == 0:
            self.post_message(self.Pointed(byte))

    def click(self, line: int, column: int) -> None:
        """Point at a byte, in digits or as text."""
        byte = self._byte_at(line, column)
        if byte is not None and self.selects:
            self._point(byte)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Point at the byte under the mouse while this pane has the focus."""
        if self.has_focus and self.selects:
            byte = self._byte_at(self.top + event.y - self._inset(), event.x - self._inset() + self.left)
            if byte is not None:
                self._point(byte)

    def _byte_at(self, line: int, column: int) -> int | None:
        per, at = self.per_line, column - _OFFSET
        digits = 3 * per + per // 8
        if 0 <= at < digits:
            place = min(per - 1, (at - at // (3 * 8 + 1)) // 3)
        elif digits <= at < digits + per:
            place = at - digits
        else:
            return None
        byte = line * per + place
        return byte if byte < len(self._data) else None

    # -- drawing ------------------------------------------------------------------------------------------

    def cover(self, line: int) -> str:
        """Return no style: a byte is under the cursor, and no line."""
        return ""

    def pieces(self, line: int) -> Sequence[Piece]:
        """Return a line: where it begins, its bytes, its text."""
        view, per = self.view, self.per_line
        if view.lines:
            return [(view.lines[line].text, "")]
        start = line * per
        row = self._data[start : start + per]
        digits: list[Piece] = [(f"{start:06x}  ", "dim")]
        text: list[Piece] = []
        for place in range(per):
            if place and place % 8 == 0:
                digits.append((" ", ""))
            if place >= len(row):
                digits.append(("   ", ""))
                continue
            at = start + place
            style = self._style(at)
            lost = any(low <= at < high for low, high in view.holes)
            joined = style if self._style(at + 1) == style == _LIT and place < len(row) - 1 else ""
            digits += [("··" if lost else f"{row[place]:02x}", style), (" ", joined)]
            shown = "·" if lost or not 0x20 <= row[place] < 0x7F else chr(row[place])
            text.append((shown, style))
        return [*digits, (" ", ""), *text]

    def _style(self, at: int) -> str:
        if at == self.byte and self.has_focus:
            return _CURSOR
        lit = self._view == 0 and self._lit[0] <= at < self._lit[1]
        return _LIT if lit else ""
