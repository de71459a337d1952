"""FieldsPane: a frame's fields, as ``read`` prints them; the selected one lights its bytes."""

from collections.abc import Sequence

from dcpdump.browse.field_lines import FieldLine, field_lines, line_at
from dcpdump.browse.pane import Pane
from dcpdump.browse.pieces import Piece
from dcpdump.record import Record
from dcpdump.render.style import STYLES, LineKind
from dcpdump.render.table import title


class FieldsPane(Pane):
    """The fields of one frame."""

    def __init__(self, value_bytes: int | None) -> None:
        super().__init__(id="fields")
        self._value_bytes = value_bytes
        self._lines: list[FieldLine] = []
        self._label = ""  # of the selected field: the next frame's one is selected too

    @property
    def count(self) -> int:
        """Return how many lines there are."""
        return len(self._lines)

    @property
    def selected(self) -> FieldLine | None:
        """Return the selected line."""
        return self._lines[self.cursor] if self.cursor < len(self._lines) else None

    def pieces(self, line: int) -> Sequence[Piece]:
        """Return a line."""
        kind, text, *_ = self._lines[line]
        return [(text, "" if kind is LineKind.FIELD else STYLES.get(kind, ""))]

    def show(self, record: Record | None, findings: Sequence[FieldLine] = ()) -> None:
        """Show a frame, and what rules found in it; the cursor stays on the field of the same name."""
        self._lines = [] if record is None else [*field_lines(record, self._value_bytes), *findings]
        self.border_title = "" if record is None else f"#{record.number:,} {title(record)}"
        self.border_subtitle = "" if record is None else _place(record)
        same = [at for at, line in enumerate(self._lines) if _label(line) == self._label]
        self.cursor = same[0] if same else 0
        self.show_cursor()

    def put(self, line: int) -> None:
        """Select a field."""
        super().put(line)
        if self.selected is not None:
            self._label = _label(self.selected)

    def select_byte(self, byte: int) -> None:
        """Select the field of a byte."""
        line = line_at(self._lines, byte)
        if line is not None:
            self.cursor = line
            self._label = _label(self._lines[line])
            self.show_cursor()


def _label(line: FieldLine) -> str:
    return "" if line.field is None else line.field.field.name


def _place(record: Record) -> str:
    """Return where a frame was captured, and what it answers."""
    raw = record.frame.raw
    words = [f"packet {raw.where.packet:,}"]
    if record.request is not None:
        after = "" if record.latency_ns is None else f" after {record.latency_ns / 1000:,.0f} us"
        words.append(f"answers #{record.request.frame:,}{after} (r)")
    if raw.gap_before:
        words.append(f"after {raw.gap_before:,} bytes lost or skipped")
    if raw.confidence:
        words.append(f"confidence {raw.confidence}")
    return " · ".join(words)
