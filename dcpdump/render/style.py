"""Colour complete lines, as the last step, if colours are on."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from dcpdump.escape import safe

# -- lines of text with their kind, so that colour can be added last, or not at all -------------------


class LineKind(Enum):
    """What a line says."""

    ORIGIN = "where and when"
    TITLE = "which message"
    COLUMNS = "the head of a table"
    FIELD = "a field"
    GRID = "a row of the byte grid"
    PROBLEM = "something wrong"
    HINT = "something odd"
    GOOD = "nothing is wrong"
    PLAIN = "anything else"


class Line(NamedTuple):
    """One line, without its newline."""

    kind: LineKind
    text: str


#: Kinds of lines → their styles, in the words of Rich.
STYLES = {
    LineKind.ORIGIN: "dim",
    LineKind.TITLE: "bold cyan",
    LineKind.COLUMNS: "dim",
    LineKind.PROBLEM: "bold red",
    LineKind.HINT: "yellow",
    LineKind.GOOD: "green",
}


class Palette:
    """A painter of lines; without colour it returns them unchanged."""

    def __init__(self, colour: bool) -> None:
        self._codes: dict[LineKind, tuple[str, str]] = {}
        if colour:
            from rich.color import ColorSystem  # here, so that plain output never loads rich
            from rich.style import Style

            for kind, name in STYLES.items():
                before, _, after = Style.parse(name).render("\0", color_system=ColorSystem.STANDARD).partition("\0")
                self._codes[kind] = (before, after)

    @property
    def paints(self) -> bool:
        """Return whether it changes anything."""
        return bool(self._codes)

    def paint(self, line: Line) -> str:
        """Return the line's text, in its kind's colour, and safe to show."""
        before, after = self._codes.get(line.kind, ("", ""))
        return f"{before}{safe(line.text)}{after}" if line.text else ""

    def paint_all(self, lines: Sequence[Line]) -> str:
        """Return lines as ``paint`` does, each with its end."""
        texts = [line.text for line in lines]
        if not self._codes and "".join(texts).isprintable():  # nearly always: all that is there is safe at once
            return "\n".join([*texts, ""])
        return "".join([f"{self.paint(line)}\n" for line in lines])


class Screen:
    """A terminal on which lines are replaced by the next ones, as long as it is open."""

    def __init__(self, colour: bool) -> None:
        from rich.cells import cell_len
        from rich.console import Console
        from rich.live import Live

        cell_len("…")  # loads the widths of characters now: later the files may be unreadable
        self._console = Console(no_color=not colour, highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")

    @property
    def width(self) -> int:
        """Return how many characters fit on a line."""
        return self._console.width

    @property
    def height(self) -> int:
        """Return how many lines fit."""
        return self._console.height - 1

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines on the screen; what is too wide is cut."""
        from rich.text import Text

        text = Text(no_wrap=True, overflow="crop", end="")
        for line in lines[: self.height]:
            text.append(f"{safe(line.text)}\n", STYLES.get(line.kind))
        text.rstrip()
        self._live.update(text, refresh=True)

    def __enter__(self) -> "Screen":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
