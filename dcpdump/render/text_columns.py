"""Tables for people: columns as wide as their widest cell, never cut."""

from collections.abc import Sequence

from dcpdump.render.lines import Line, LineKind

BARS = "▁▂▃▄▅▆▇█"


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> list[Line]:
    """It lays out a table; ``right``: the heads of the columns of numbers. Columns without any cell are left out."""
    keep = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    widths = {at: max(len(heads[at]), *(len(row[at]) for row in rows)) for at in keep}

    def line(cells: Sequence[str]) -> str:
        texts = [cells[at].rjust(widths[at]) if heads[at] in right else cells[at].ljust(widths[at]) for at in keep]
        return "  ".join(texts).rstrip()

    return [Line(LineKind.COLUMNS, line(heads)), *(Line(LineKind.PLAIN, line(row)) for row in rows)] if rows else []


def spark(counts: Sequence[int]) -> str:
    """It draws counts as a line of bars; nothing for 0."""
    most = max(counts, default=0)
    return "".join(" " if not count else BARS[(count * len(BARS) - 1) // most] for count in counts)


def counted(count: int, noun: str) -> str:
    """It writes how many there are of something: 1 frame, 1,200 frames."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def number(value: int | None) -> str:
    """It writes a number; nothing where there is none."""
    return "" if value is None else f"{value:,}"
