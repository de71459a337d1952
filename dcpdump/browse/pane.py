"""Draw lines with a cursor; only visible ones are drawn, so that millions cost no more than a screenful."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from dcpdump.escape import safe
from dcpdump.render.style import STYLES, Line
from dcpdump.render.text_columns import folded

# -- what lines are made of ---------------------------------------------------------------------------

#: A text, and its style in the words of Rich.
Styled = tuple[str, str]
Row = TypeVar("Row")


_THUMB, _TRACK = "┃", "│"
_WHEEL = 3


def strip_of(pieces: Sequence[Styled], width: int, *, left: int = 0, over: str = "") -> Strip:
    """Return a line of exactly ``width`` cells, from its cell ``left`` on; ``over``: one style for the whole line."""
    cover = Style.parse(over) if over else None
    strip = Strip([Segment(safe(text), cover or Style.parse(words)) for text, words in pieces])
    if left:
        strip = strip.crop(left)
    return strip.adjust_cell_length(width, cover or Style.parse(""))


# -- lines under a cursor -----------------------------------------------------------------------------


class Pane(Widget, Generic[Row], can_focus=True):
    """Lines of text under a cursor, one for each row. Subclasses draw a row."""

    #: Whether a line is selected; otherwise moves scroll.
    selects = True
    nothing = reactive("")  #: the text if there is no line

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self.cursor = 0
        self.top = 0
        self.left = 0
        self.moved: Callable[[], object] = lambda: None  #: called when the cursor is on another line

    # -- what subclasses say ------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Return how many lines there are."""
        return len(self.rows)

    @property
    def selected(self) -> Row | None:
        """Return the row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def styled(self, line: int) -> Sequence[Styled]:
        """Return a line."""
        return ()

    def cover(self, line: int) -> str:
        """Return the style over a complete line."""
        return "" if line != self.cursor or not self.selects else "reverse" if self.has_focus else "reverse dim"

    @property
    def head(self) -> Sequence[Styled]:
        """Return the line that stays above the others, if there is one."""
        return ()

    def click_head(self, column: int) -> None:
        """Handle a click on the head."""

    # -- moving -------------------------------------------------------------------------------------------

    @property
    def height(self) -> int:
        """Return how many lines are seen at once."""
        return max(1, self.size.height - bool(self.head))

    def move(self, by: int) -> None:
        """Move the cursor by lines."""
        self.put(self.cursor + by if self.selects else self.top + by)

    def page(self, by: int) -> None:
        """Move by screens."""
        self.move(by * max(1, self.height - 1))

    def edge(self, to: int) -> None:
        """Move to the first line, or the last."""
        self.put(-1 if to < 0 else self.count)

    def aside(self, by: int) -> None:
        """Move the text."""
        self.left = max(0, self.left + 8 * by)
        self.refresh()

    def put(self, line: int) -> None:
        """Move the cursor to a line, and scroll as far as necessary."""
        line = max(0, min(line, self.count - 1))
        if not self.selects:
            self.scroll_top(line)
            return
        moved, self.cursor = line != self.cursor, line
        self.show_cursor()
        if moved:
            self.moved()

    def show_cursor(self) -> None:
        """Scroll to the cursor."""
        self.scroll_top(max(self.cursor - self.height + 1, min(self.top, self.cursor)))

    def scroll_top(self, line: int) -> None:
        """Scroll a line to the top, if there are enough lines below it."""
        self.top = max(0, min(line, self.count - self.height))
        self.refresh()

    def centre(self, *, always: bool = False) -> None:
        """Scroll the cursor to the middle, unless it is visible already."""
        seen = self.top <= self.cursor < self.top + self.height
        self.scroll_top(self.top if seen and not always else self.cursor - self.height // 2)

    def scroll_lines(self, by: int) -> None:
        """Scroll; the cursor stays visible."""
        self.scroll_top(self.top + by)
        line = max(self.top, min(self.cursor, self.top + self.height - 1, self.count - 1))
        if self.selects and line != self.cursor:
            self.cursor = max(0, line)
            self.moved()

    # -- drawing ------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        width, head = self.size.width, self.head
        if head and not y:
            return strip_of(head, width, left=self.left)
        y -= bool(head)
        line = self.top + y
        if line >= self.count:
            return strip_of([(f" {self.nothing}", "dim")] if not line else (), width)
        if self.count <= self.height:
            return strip_of(self.styled(line), width, left=self.left, over=self.cover(line))
        strip = strip_of(self.styled(line), width - 1, left=self.left, over=self.cover(line))
        at, size = self._thumb()
        inside = at <= y < at + size
        return Strip([*strip, Segment(_THUMB if inside else _TRACK, Style.parse("" if inside else "dim"))])

    def _thumb(self) -> tuple[int, int]:
        size = max(1, self.height * self.height // max(1, self.count))
        most = max(1, self.count - self.height)
        return self.top * (self.height - size) // most, size

    # -- the mouse ----------------------------------------------------------------------------------------

    async def on_click(self, event: events.Click) -> None:
        """Put the cursor where it was clicked, and on a second click enter; on the bar, go as far as that is."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        x, y = offset.x, offset.y - bool(self.head)
        if y < 0:
            self.click_head(x + self.left)
        elif self.count > self.height and x >= self.size.width - 1:
            self.put(y * self.count // self.height)
        elif self.top + y < self.count:
            self.click(self.top + y, x + self.left)
            if event.chain > 1:
                await self.run_action("app.do('pages', 'enter')")

    def click(self, line: int, column: int) -> None:
        """Handle a click on a line."""
        self.put(line)

    @on(events.MouseScrollDown)
    @on(events.MouseScrollUp)
    def _scroll(self, event: events.MouseEvent) -> None:
        self.scroll_lines(_WHEEL if isinstance(event, events.MouseScrollDown) else -_WHEEL)

    def on_resize(self) -> None:
        """Keep the cursor on the screen."""
        if self.selects:
            self.show_cursor()


# -- text that is scrolled ----------------------------------------------------------------------------


class TextPane(Pane[Sequence[Styled]]):
    """A page of text: long lines are wrapped; the part below is not."""

    selects = False

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._page: Sequence[Line] = ()
        self._below: Sequence[Sequence[Styled]] = ()

    def styled(self, line: int) -> Sequence[Styled]:
        """Return a line."""
        return self.rows[line]

    def write(self, page: Sequence[Line], below: Sequence[Sequence[Styled]] = ()) -> None:
        """Show another page, from its beginning."""
        self._page, self._below, self.top = page, below, 0
        self.on_resize()

    def on_resize(self) -> None:
        """Wrap lines at the new width."""
        wide, rows = max(20, self.size.width - 2), []
        for kind, text in self._page:
            indent = " " * (len(text) - len(text.lstrip()))
            rows += [[(f" {part}", STYLES.get(kind, ""))] for part in folded(text, wide, rest=indent) or [""]]
        self.rows = [*rows, *self._below]
        self.scroll_top(self.top)
