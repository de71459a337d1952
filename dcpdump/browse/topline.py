"""Draw the first line: the capture, how much is listed, its density over time with the cursor, the tabs."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from dcpdump.browse.pane import Styled
from dcpdump.browse.rows import ListedFrames
from dcpdump.escape import safe
from dcpdump.net.packet import NO_TIME
from dcpdump.render.text_columns import spark

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.integer[Any]]

TABS = ("frames", "streams", "findings", "connections")
#: The most bars of the density, and the least.
_MOST, _LEAST = 40, 10
_NARROW = 100


class TopLine(Widget):
    """The first line of the screen."""

    left: reactive[tuple[Styled, ...]] = reactive(())
    tab = reactive("frames")
    progress = reactive("")  #: the progress of the analysis for the tabs
    at_ns: reactive[int | None] = reactive(None)  #: the time of the row under the cursor
    density: "reactive[Density | None]" = reactive(None)

    def __init__(self) -> None:
        super().__init__(id="top")

    @property
    def bars(self) -> int:
        """Return how many bars of density there are."""
        taken = cell_len("".join(text for text, _ in self.left)) + Segment.get_line_length(self._tabs())
        free = self.size.width - taken - 4
        return min(_MOST, free) if free >= _LEAST else 0

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        width, tabs = self.size.width, self._tabs()
        line = [*(Segment(safe(text), Style.parse(words)) for text, words in self.left), Segment("  "), *self._drawn()]
        space = Segment(" " * max(1, width - Segment.get_line_length([*line, *tabs])))
        return Strip([*line, space, *tabs]).adjust_cell_length(width)

    def _tabs(self) -> list[Segment]:
        narrow = self.size.width < _NARROW
        out: list[Segment] = []
        for number, name in enumerate(TABS, 1):
            chosen = name == self.tab
            title = f"{number}" if narrow and not chosen else f"{number} {name}"
            if number > 1 and self.progress and not narrow:
                title += f" {self.progress}"
            out.append(_button(f" {title} ", "reverse" if chosen else "dim", f"app.do('pages', 'open', {name!r})"))
        return out

    def _drawn(self) -> list[Segment]:
        found = self.density
        if found is None or not self.bars:
            return []
        here = None if self.at_ns is None or self.at_ns == NO_TIME else found.bar(self.at_ns)
        out: list[Segment] = []
        for at, (bar, listed) in enumerate(zip(spark(found.counts), found.listed, strict=True)):
            style = "reverse" if at == here else "cyan" if listed else "dim"
            out.append(_button(bar, style, f"app.time({found.begins_ns(at)})"))
        return out

    async def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the mouse over the density while its button is down."""
        action = event.style.meta.get("@click", "")
        if event.button and action.startswith("app.time"):
            await self.run_action(action)


@lru_cache(256)
def _button(text: str, words: str, action: str) -> Segment:
    """Return a text that does something when it is clicked."""
    return Segment(text, Style.parse(words) + Style.from_meta({"@click": action}))


# -- density: frames over time, for the first line of the screen --------------------------------------

#: How many times are counted at most; of more, every second, third …
_COUNTED = 200_000


class Density(NamedTuple):
    """Frames over time: for each bar a count, and how many of these are listed."""

    counts: tuple[int, ...]
    listed: tuple[int, ...]
    first_ns: int
    last_ns: int

    def bar(self, ts_ns: int) -> int:
        """Return the bar of a time."""
        bars = len(self.counts)
        return min(bars - 1, max(0, (ts_ns - self.first_ns) * bars // max(1, self.last_ns - self.first_ns + 1)))

    def begins_ns(self, bar: int) -> int:
        """Return the time at which a bar begins."""
        return self.first_ns + (self.last_ns - self.first_ns) * bar // len(self.counts)


def density(times: "Array", listed: ListedFrames, bars: int) -> Density | None:
    """Count the times of all frames, and of listed ones. None without times or bars."""
    import numpy as np  # here: the import would delay the first frames

    counted = _some(times)
    counted = counted[counted != NO_TIME]
    if not len(counted) or not bars:
        return None
    first, last = int(counted.min()), int(counted.max())

    chosen = counted if listed.everything else times[_some(np.asarray(listed.numbers)) - 1]
    times_of = counted, chosen[chosen != NO_TIME]
    every, some = (tuple(np.histogram(of - first, bars, (0, last - first + 1))[0].tolist()) for of in times_of)
    return Density(every, some, first, last)


def _some(numbers: "Array") -> "Array":
    """Return evenly distributed numbers, as many as are counted at most."""
    return numbers[:: max(1, len(numbers) // _COUNTED)]
