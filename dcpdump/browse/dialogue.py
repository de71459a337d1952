"""LadderPane: the dialogue of a stream as the specification draws it, the side that wants changes at the left."""

from collections.abc import Callable, Sequence

from rich.cells import cell_len

from dcpdump.browse.analysis import Dialogue
from dcpdump.browse.pane import Pane
from dcpdump.browse.pieces import Piece
from dcpdump.streams.ladder import Arrow, Rung
from dcpdump.streams.wording import clock

_TIME, _FRAME = 13, 14
_STYLES = {Arrow.ASKS: "yellow", Arrow.ANSWERS: "", Arrow.REFUSES: "bold red", Arrow.BAND: "cyan", Arrow.NOTE: "dim"}

#: Returns the messages that a row stands for, between two frames: what its unfolding shows.
Unfold = Callable[[int, int | None], Sequence[Rung]]


class LadderPane(Pane):
    """The rows of a dialogue."""

    def __init__(self) -> None:
        super().__init__(id="ladder")
        self._rungs: list[Rung] = []
        self._inner: list[bool] = []  # whether a row is of one that was unfolded
        self._dialogue = Dialogue("", "", "", ())

    @property
    def count(self) -> int:
        """Return how many rows there are."""
        return len(self._rungs)

    @property
    def selected(self) -> Rung | None:
        """Return the selected row."""
        return self._rungs[self.cursor] if self.cursor < len(self._rungs) else None

    def show(self, dialogues: Sequence[Dialogue], number: int | None) -> None:
        """Show the dialogues of a stream, one after the other; the cursor is at a frame or before it."""
        self._rungs = [rung for each in dialogues for rung in each.rungs]
        self._inner = [False] * len(self._rungs)
        if dialogues:
            self._dialogue = dialogues[0]
        self.border_title = f"dialogue of {self._dialogue.title}"
        self.border_subtitle = f"{self._dialogue.wants} at the left, {self._dialogue.has} at the right"
        before = [at for at, rung in enumerate(self._rungs) if rung.frame and number and rung.frame <= number]
        self.top = 0
        self.cursor = before[-1] if before else 0
        self.show_cursor()

    def span(self) -> tuple[int, int | None]:
        """Return between which frames the selected row is."""
        before = [rung.frame for rung in self._rungs[: self.cursor] if rung.frame]
        after = [rung.frame for rung in self._rungs[self.cursor + 1 :] if rung.frame]
        return (before[-1] if before else 0), (after[0] if after else None)

    def toggle(self, unfold: Unfold) -> None:
        """Unfold the selected row of messages, or fold it again."""
        at = self.cursor
        below = at + 1
        while below < len(self._rungs) and self._inner[below]:
            below += 1
        if below > at + 1:
            del self._rungs[at + 1 : below], self._inner[at + 1 : below]
        elif not self._inner[at]:
            more = unfold(*self.span())
            self._rungs[at + 1 : at + 1] = more
            self._inner[at + 1 : at + 1] = [True] * len(more)
        self.refresh()

    def pieces(self, line: int) -> Sequence[Piece]:
        """Return a row: when, the arrow with what was said, the frame."""
        return rung_pieces(self._rungs[line], self.size.width, inner=self._inner[line])


def rung_pieces(rung: Rung, width: int, *, inner: bool = False) -> list[Piece]:
    """Return a row of a ladder; ``inner``: it is of one that was unfolded."""
    arrow, text, ts_ns, frame = rung
    when = clock(ts_ns) if ts_ns is not None else ""
    number = f"#{frame:,}" if frame is not None else ""
    width = max(20, width - _TIME - _FRAME - 2)
    return [
        (f"{when:<{_TIME}}", "dim"),
        (f"    ◀ {text}".ljust(width) if inner else _drawn(arrow, text, width), _STYLES[arrow]),
        (f" {number:>{_FRAME - 1}}", "dim"),
    ]


def _drawn(arrow: Arrow, text: str, width: int) -> str:
    """Return an arrow with a text on it."""
    free = width - cell_len(text)
    if free < 6:
        head = {Arrow.ASKS: "▶", Arrow.ANSWERS: "◀", Arrow.REFUSES: "✗"}.get(arrow, " ")
        return f"{head} {text}"
    line = "─" * (free - 4)
    match arrow:
        case Arrow.ASKS:
            return f"─ {text} {line}▶"
        case Arrow.ANSWERS:
            return f"◀{line} {text} ─"
        case Arrow.REFUSES:
            return f"✗{line} {text} ─"
        case Arrow.BAND:
            half = "═" * ((free - 2) // 2)
            return f"{half} {text} {half}".ljust(width)
    return f"  {text}".ljust(width)
