"""Panes of text: as it is, or continued below where lines are too long."""

from collections.abc import Sequence

from dcpdump.browse.pane import Pane
from dcpdump.browse.pieces import Piece
from dcpdump.render.style import STYLES, Line
from dcpdump.render.text_columns import folded


class TextPane(Pane):
    """Lines of text that are scrolled."""

    selects = False

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._lines: list[Sequence[Piece]] = []

    @property
    def count(self) -> int:
        """Return how many lines there are."""
        return len(self._lines)

    def pieces(self, line: int) -> Sequence[Piece]:
        """Return a line."""
        return self._lines[line]

    def show(self, lines: Sequence[Sequence[Piece]]) -> None:
        """Show other lines."""
        self._lines = list(lines)
        self.top = 0
        self.refresh()


class PagePane(TextPane):
    """Lines that continue below where they are too long, and what stands below them as it is."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._page: Sequence[Line] = ()
        self._below: Sequence[Sequence[Piece]] = ()

    def write(self, page: Sequence[Line], below: Sequence[Sequence[Piece]] = ()) -> None:
        """Show another page."""
        self._page, self._below = page, below
        self._wrap()

    def on_resize(self) -> None:
        """Continue lines where the pane ends now."""
        self._wrap()

    def _wrap(self) -> None:
        top, wide = self.top, max(20, self.size.width - 2)
        lines: list[Sequence[Piece]] = []
        for kind, text in self._page:
            indent = " " * (len(text) - len(text.lstrip()))
            for piece in folded(text, wide, rest=indent) or [""]:
                lines.append([(f" {piece}", STYLES.get(kind, ""))])
        self.show([*lines, *self._below])
        self.top = max(0, min(top, self.count - self.height))
