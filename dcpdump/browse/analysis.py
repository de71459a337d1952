"""Analysis: what the tabs of streams, findings and connections show. It is made in another process, and sent."""

from typing import NamedTuple

from dcpdump.render.style import Line, LineKind
from dcpdump.streams.ladder import Rung

StreamPlace = tuple[int, int, int]  #: connection, vbucket, stream id


class TabRow(NamedTuple):
    """A row of a tab: its cells, and what it leads to."""

    cells: tuple[str, ...]
    kind: LineKind = LineKind.PLAIN
    clauses: tuple[tuple[str, str], ...] = ()  #: that choose its frames
    frame: int | None = None  #: that it is about
    page: tuple[Line, ...] = ()  #: more of it
    stream: StreamPlace | None = None


class TabRows(NamedTuple):
    """A table, as a tab shows it."""

    heads: tuple[str, ...]
    right: tuple[str, ...]  #: heads of the columns of numbers
    least: tuple[str, ...]  #: heads of the columns that are needed least, the least first
    rows: tuple[TabRow, ...]
    nothing: str  #: what is said where there is no row


class Dialogue(NamedTuple):
    """The ladder of a stream, and who is at its sides."""

    title: str
    wants: str  #: the side that wants changes, at the left
    has: str
    rungs: tuple[Rung, ...]


class Analysis(NamedTuple):
    """All that needs all frames."""

    tabs: dict[str, TabRows]
    dialogues: dict[StreamPlace, tuple[Dialogue, ...]]
    findings: dict[int, tuple[Line, ...]]  #: by frame
