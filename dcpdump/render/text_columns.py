"""Lay out tables for people: as wide as their cells in a pipe, where nothing is cut; at most as wide as a terminal."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple, Protocol
from unicodedata import category, east_asian_width

from dcpdump.render.style import Line, LineKind
from dcpdump.startup import dataclass, lazy_pattern
from dcpdump.streams.frame_event import Missed

# -- text by the cells that it takes on a terminal: a wide character, as of Chinese, takes two --------

#: A word with the space before it.
_WORDS = lazy_pattern(r"\s*\S+")


def cell_len(text: str) -> int:
    """Return how many cells a text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


@lru_cache(maxsize=4096)
def _cells(char: str) -> int:
    if category(char) in ("Mn", "Me"):  # it stands on the character before it
        return 0
    return 2 if east_asian_width(char) in ("W", "F") else 1


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return text padded to a number of cells, with spaces after it, or before it."""
    if text.isascii():
        return text.rjust(width) if right else text.ljust(width)
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def folded(text: str, width: int, *, first: str = "", rest: str = "", cut: bool = True) -> list[str]:
    """Return text in lines of at most ``width`` cells, which begin with ``first``, then with ``rest``.

    A word that is too long for a line is cut, or else (``cut``) has a line that is too long.
    """
    width = max(width, cell_len(first) + 2, cell_len(rest) + 2)
    lines, line, empty = [], first, True
    for word in _WORDS.findall(text):
        if not empty and cell_len(line) + cell_len(word) > width:
            lines.append(line)
            line, word = rest, word.lstrip()
        line, empty = line + word, False
        while cut and cell_len(line) > width:
            at = _fitting(line, width)
            lines.append(line[:at])
            line = rest + line[at:]
    return lines if empty else [*lines, line]


def _fitting(text: str, width: int) -> int:
    """Return how many characters of a text fit into a number of cells."""
    used = 0
    for at, char in enumerate(text):
        used += _cells(char)
        if used > width:
            return at
    return len(text)


BARS = "▁▂▃▄▅▆▇█"
_GAP = "  "
_UNITS = ("B", "kB", "MB", "GB", "TB")
#: The least width of the last column, before another column is left out for it.
_ROOM = 32
#: The width of a paragraph, at most.
_WIDEST = 120


class Fitting(Protocol):
    """A part of an output that is laid out by the width of the terminal."""

    def lines(self, width: int | None = None) -> Iterator[Line]:
        """Yield it as lines; ``width``: of the terminal, None where nothing is to be cut."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under heads. Columns without any cell are left out.

    Where a terminal is too narrow, what all rows have alike becomes a heading, the text of the last column continues
    below itself, as does that of a first one that leaves no space for it, and then columns go, those in ``least``
    first; which is said.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[str] = ()  #: heads of the columns of numbers
    least: Sequence[str] = ()  #: heads of the columns that are needed least, the least first
    kinds: Sequence[LineKind] = ()  #: of the rows, where some are not plain
    indent: str = ""  #: before each line

    def __bool__(self) -> bool:
        return bool(self.rows)

    def lines(self, width: int | None = None) -> Iterator[Line]:
        """Yield the table as lines, at most as wide as the terminal."""
        for kind, text in self._lines(None if width is None else width - len(self.indent)):
            yield Line(kind, self.indent + text)

    def _lines(self, width: int | None) -> Iterator[Line]:
        if not self.rows:
            return
        keep = [at for at in range(len(self.heads)) if any(row[at] for row in self.rows)]
        widths = {at: max(cell_len(self.heads[at]), *(cell_len(row[at]) for row in self.rows)) for at in keep}
        if width is None or _width(widths.values()) <= width:
            yield from self._drawn(keep, widths)
            return
        heading = [at for at in keep[1:-1] if len(self.rows) > 1 and len({row[at] for row in self.rows}) == 1]
        if heading:
            same = " · ".join(f"{self.heads[at]} {self.rows[0][at]}" for at in heading)
            yield from (Line(LineKind.COLUMNS, line) for line in folded(f"all: {same}", width, rest="     "))
            keep = [at for at in keep if at not in heading]

        def fits(columns: Sequence[int]) -> bool:
            *others, last = (widths[at] for at in columns)
            return _width([*others, min(_ROOM, last)]) <= width

        if not fits([keep[0], keep[-1]]) and len(keep) > 1:
            widths[keep[0]] = min(widths[keep[0]], max(_ROOM // 2, width // 3))
        order = self._order(keep)
        shown = fitting_columns(keep, order, fits)
        yield from self._drawn(shown, widths, width)
        if len(shown) < len(keep):
            gone = ", ".join(self.heads[at] for at in order if at not in shown)
            text = f"not shown here: {gone} (too narrow; '| cat' shows all)"
            yield from (Line(LineKind.COLUMNS, line) for line in folded(text, width, rest=_GAP))

    def _order(self, keep: Sequence[int]) -> list[int]:
        """Return the columns that may go, those that are needed least first."""
        order = dict.fromkeys(self.heads.index(head) for head in (*self.least, *reversed(self.heads[1:-1])))
        return [at for at in order if at in keep[1:-1]]

    def _drawn(self, keep: Sequence[int], widths: Mapping[int, int], width: int | None = None) -> Iterator[Line]:
        sizes = [widths[at] for at in keep]
        if width is not None:
            sizes[-1] = min(sizes[-1], max(_ROOM // 2, width - _width([*sizes[:-1], 0])))

        columns = [(at, size, self.heads[at] in self.right) for at, size in zip(keep, sizes, strict=True)]

        def texts(cells: Sequence[str]) -> list[str]:
            if width is None or all(cell_len(cells[at]) <= size for at, size, _ in columns):
                return [_GAP.join([padded(cells[at], size, right=right) for at, size, right in columns]).rstrip()]
            pieces = zip_longest(*(folded(cells[at], size) for at, size, _ in columns), fillvalue="")
            return [
                _GAP.join(
                    [padded(text, size, right=right) for text, (_, size, right) in zip(fields, columns, strict=True)]
                ).rstrip()
                for fields in pieces
            ] or [""]

        kinds = self.kinds or [LineKind.PLAIN] * len(self.rows)
        yield from (Line(LineKind.COLUMNS, text) for text in texts(self.heads))
        for kind, row in zip(kinds, self.rows, strict=True):
            yield from (Line(kind, text) for text in texts(row))


def _width(columns: Collection[int]) -> int:
    return sum(columns) + len(_GAP) * (len(columns) - 1)


def fitting_columns(columns: Sequence[int], order: Sequence[int], fits: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return the columns for which there is space; ``order``: those that may go, the least needed first.

    One that is too wide does not take along what is needed less: that is shown, as far as it fits.
    """
    shown = [at for at in columns if at not in order]
    for at in reversed(order):
        more = sorted([*shown, at])
        shown = more if fits(more) else shown
    return shown


def fitted(lines: "Iterable[Line | Fitting]", width: int | None) -> Iterator[Line]:
    """Yield lines, and tables among them as lines, at most as wide as the terminal, where there is one."""
    for each in lines:
        yield from _folded(each, width) if isinstance(each, Line) else each.lines(width)


def _folded(line: Line, width: int | None) -> list[Line]:
    """Return a line as several, where it is too long for a terminal. What is to be pasted stays one."""
    kind, text = line
    if width is None or cell_len(text) <= width or kind is LineKind.ORIGIN:
        return [line]
    indent = " " * (len(text) - len(text.lstrip()) + len(_GAP))
    return [Line(kind, part) for part in folded(text, width, rest=indent)]


class Paragraph(NamedTuple):
    """A text that goes on below itself where a terminal is too narrow: it begins with ``first``, then with ``rest``."""

    kind: LineKind
    text: str
    first: str = ""
    rest: str = ""

    def lines(self, width: int | None = None) -> Iterator[Line]:
        """Yield it as lines; longer ones than of 120 characters are hard to read."""
        if width is None:
            yield Line(self.kind, self.first + self.text)
            return
        widest = max(20, min(width, _WIDEST))
        for piece in folded(self.text, widest, first=self.first, rest=self.rest, cut=False):
            yield from _folded(Line(self.kind, piece), width)


def spark(counts: Sequence[int]) -> str:
    """Return counts as a line of bars; a space for 0."""
    most = max(counts, default=0)
    return "".join(" " if not count else BARS[(count * len(BARS) - 1) // most] for count in counts)


def lost(missed: Missed) -> str:
    """Return how many bytes were lost, as a cell: ``?`` stands for gaps of unknown length."""
    return " + ".join([*[f"{missed.lost:,}"] * bool(missed.lost), *"?" * bool(missed.unknown)])


def number(value: int | None) -> str:
    """Return a number as text; empty for None."""
    return "" if value is None else f"{value:,}"


def nonzero(count: int) -> str:
    """Return a count as text; empty for 0."""
    return f"{count:,}" if count else ""


def rate_text(value: float) -> str:
    """Return how many there were a second, as a cell."""
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def bytes_text(count: float) -> str:
    """Return a number of bytes as people read it: 141 MB."""
    for unit in _UNITS:
        if count < 999.5 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.3g} {unit}" if unit != "B" else f"{count:.0f} B"
