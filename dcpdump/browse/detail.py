"""Detail: the frame under the cursor, asked for when the cursor comes to it, with its fields and bytes."""

from collections.abc import Callable

from dcpdump.browse.analysis import Analysis
from dcpdump.browse.field_lines import FieldLine
from dcpdump.browse.indexed_frames import IndexedFrames
from dcpdump.browse.questions import Decode, Failed
from dcpdump.browse.screen import BrowseScreen
from dcpdump.record import Record
from dcpdump.render.style import LineKind

#: A frame that comes within so many seconds is drawn together with the row.
_AT_ONCE = 0.01
#: Whoever needs it waits for it so many seconds.
_PATIENCE = 10.0


class Detail:
    """What is shown of one frame. ``analysis`` returns what rules found, once that is known."""

    def __init__(self, frames: IndexedFrames, screen: BrowseScreen, analysis: Callable[[], Analysis | None]) -> None:
        self._frames, self._screen, self._analysis = frames, screen, analysis
        self._record: Record | None = None
        self._number: int | None = None  # of the frame that is shown, or that was asked for
        self._ticket: int | None = None

    def shows(self, number: int | None) -> bool:
        """Return whether a frame has come, and is shown; None: whether none was asked for."""
        return self._ticket is None and number == self._number

    def show(self, number: int | None) -> None:
        """Show a frame as soon as it comes; None: nothing."""
        if number == self._number:
            return
        index = self._frames.index
        if self._ticket is not None:
            index.drop(self._ticket)
            self._ticket = None
        self._number = number
        if number is None:
            self._draw(None)
            return
        self._ticket = index.ask(Decode(number))
        self._take(_AT_ONCE)

    def poll(self) -> None:
        """Show the frame if it has come."""
        if self._ticket is not None:
            self._take(0)

    def again(self) -> None:
        """Show the frame with what is known of it now."""
        if self._ticket is None:
            self._draw(self._record)

    def record(self) -> Record | None:
        """Return the frame, waiting for it if need be; None where there is none."""
        if self._ticket is not None:
            self._take(_PATIENCE)
        return self._record

    def _take(self, wait: float) -> None:
        assert self._ticket is not None
        value = self._frames.index.answer(self._ticket, wait)
        if value is None:
            return
        self._ticket = None
        if isinstance(value, Failed):
            self._screen.say(f"#{self._number:,} cannot be read again: {value.why}", error=True)
        self._draw(value if isinstance(value, Record) else None)

    def _draw(self, record: Record | None) -> None:
        self._record = record
        self._screen.fields.show(record, self._findings())
        self._screen.hexes.show(record)
        self.light()

    def _findings(self) -> list[FieldLine]:
        analysis = self._analysis()
        found = analysis.findings.get(self._number or 0, ()) if analysis else ()
        return [FieldLine(LineKind.HINT if kind is LineKind.FIELD else kind, text) for kind, text in found]

    def light(self) -> None:
        """Light the bytes of the selected field."""
        line = self._screen.fields.selected
        self._screen.hexes.light(*((line.start, line.end) if line is not None else (0, 0)))

    def light_field(self, byte: int) -> None:
        """Select the field of a byte."""
        self._screen.fields.select_byte(byte)
        line = self._screen.fields.selected
        if line is not None:
            self._screen.hexes.light_around(line.start, line.end)
