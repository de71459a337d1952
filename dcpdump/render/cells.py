"""Measure, pad and fold text by the cells that it takes on a terminal: a wide character, as of Chinese, takes two."""

from functools import lru_cache
from unicodedata import category, east_asian_width

from dcpdump.lazy_pattern import lazy_pattern

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
    """Return text with space behind it, or before it, so that it takes so many cells."""
    if text.isascii():
        return text.rjust(width) if right else text.ljust(width)
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def folded(text: str, width: int, *, first: str = "", rest: str = "", cut: bool = True) -> list[str]:
    """Return text as lines of at most so many cells; ``first`` and ``rest`` stand before the first and the others.

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
    """Return how many characters of a text fit into so many cells."""
    used = 0
    for at, char in enumerate(text):
        used += _cells(char)
        if used > width:
            return at
    return len(text)
