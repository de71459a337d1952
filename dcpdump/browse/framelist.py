"""Show a row for each frame, from the index at once; its text is filled in when the frame is decoded."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from dcpdump.browse.indexed_frames import IndexedFrames
from dcpdump.browse.pane import Pane, Styled
from dcpdump.browse.rows import WIDE, ListedFrames, RowText, TimeColumn, gap_row, row, time_text

#: How many frames' texts are kept.
_KEPT = 4096


class FrameList(Pane[int]):
    """The frames that are listed, and the marks on them."""

    def __init__(self, frames: IndexedFrames) -> None:
        super().__init__(id="list")
        self._frames = frames
        self.listed = ListedFrames()
        self.marks: set[int] = set()
        self.marked: int | None = None  #: the frame marked last
        self.times = TimeColumn.CLOCK
        self.follows = False
        self._drawn: object = None  # layout that depends on the number of rows
        self._texts: OrderedDict[int, RowText] = OrderedDict()

    @property
    def count(self) -> int:
        """Return how many rows there are."""
        return self.listed.rows

    @property
    def number(self) -> int | None:
        """Return the frame under the cursor; None where there is none."""
        return self.listed.at(self.cursor)[0] if self.cursor < self.count else None

    def go(self, number: int) -> None:
        """Put the cursor on a frame, or on the next one that is listed."""
        if self.count:
            self.put(self.listed.row_of(number))
            self.centre()

    def show(self, listed: ListedFrames, number: int | None) -> None:
        """List other frames; the cursor stays on a frame, or goes to the next one."""
        self.listed, self.top = listed, 0
        self.cursor = listed.row_of(number) if number is not None and self.count else 0
        self.centre()
        self.moved()

    def grown(self) -> None:
        """Note that the list has grown."""
        if self.follows and self.cursor < self.count - 1:
            self.put(self.count - 1)
        drawn = self._thumb(), self._digits, min(self.count, self.top + self.height)
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def put(self, line: int) -> None:
        """Move the cursor to a row; a move up ends following."""
        self.follows = self.follows and line >= self.cursor
        super().put(line)

    def scroll_lines(self, by: int) -> None:
        """Scroll; up ends following."""
        self.follows = self.follows and by > 0
        super().scroll_lines(by)

    # -- drawing ------------------------------------------------------------------------------------------

    @property
    def _digits(self) -> int:
        return max(5, len(f"{self._frames.count:,}"))

    def styled(self, line: int) -> Sequence[Styled]:
        """Return a row."""
        number, lost = self.listed.at(line)
        facts, width = self._frames.facts(number), self.size.width
        if lost:
            return gap_row(facts, self._frames.gap_bytes(number))
        when = time_text(self.times, facts.ts_ns, self._before(line), wide=width >= WIDE)
        return row(facts, width, self._digits, when, self._texts.get(number, RowText()), marked=number in self.marks)

    def _before(self, line: int) -> int | None:
        """Return the time from which the time in a row counts."""
        match self.times:
            case TimeColumn.START:
                return self._frames.state.begins_ns
            case TimeColumn.ABOVE if line:
                return self._frames.ts_ns(self.listed.at(line - 1)[0])
            case TimeColumn.MARKED if self.marked is not None:
                return self._frames.ts_ns(self.marked)
        return None

    def undescribed(self) -> tuple[int, ...]:
        """Return the visible frames without a text, the nearest to the cursor first."""
        seen = range(self.top, min(self.top + self.height, self.count))
        numbers = (self.listed.at(line)[0] for line in sorted(seen, key=lambda line: abs(line - self.cursor)))
        return tuple(dict.fromkeys(number for number in numbers if number not in self._texts))

    def describe(self, texts: Mapping[int, RowText]) -> None:
        """Store the texts of frames."""
        self._texts.update(texts)
        while len(self._texts) > _KEPT:
            self._texts.popitem(last=False)
        self.refresh()
