"""Hold the content of the tabs of streams, findings and connections, and run the process that makes it."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dcpdump.errors import DcpdumpError
from dcpdump.processes import forked, send_object
from dcpdump.render.ladder import Rung
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Table

StreamKey = tuple[int, int, int]  #: connection, vbucket, stream id


class TabRow(NamedTuple):
    """A row of a tab: its cells, and the frames to which it leads."""

    cells: Sequence[str]
    keys: Sequence[Any]  #: sort keys by column; None or an empty text for nothing
    kind: LineKind = LineKind.PLAIN
    clauses: tuple[tuple[str, str], ...] = ()  #: clauses that choose its frames
    frame: int | None = None  #: the stream that it is about
    page: tuple[Line, ...] = ()  #: text below the table
    stream: StreamKey | None = None


class TabRows(NamedTuple):
    """The table of a tab."""

    table: Table  #: the columns' definitions
    rows: Sequence[TabRow]
    nothing: str  #: the text if there is no row


class Dialogue(NamedTuple):
    """The ladder of a stream, and the two ends."""

    title: str
    client: str  #: name or address of the end at the left
    server: str
    rungs: tuple[Rung, ...]


class Analysis(NamedTuple):
    """The results that need all frames."""

    tabs: dict[str, TabRows]
    dialogues: dict[StreamKey, tuple[Dialogue, ...]]
    findings: dict[int, tuple[Line, ...]]  #: by frame


# -- the process that makes it ------------------------------------------------------------------------

#: Reads all frames, reports its progress, and returns the analysis.
Analyse = Callable[[Callable[[float], None]], Analysis]
_GO = b"g"
_ENDED = "the process that reads all frames has ended"
_NICE = 5


class Analysing:
    """The process that analyses: forked before the screen opens, started when the index is complete.

    For an input without end it is started on request, on the frames so far.
    """

    def __init__(self, analyse: Analyse) -> None:
        self.result: Analysis | None = None
        self.failure = ""  #: why there is no result
        self.progress = 0.0
        self.working = False  #: whether a result is still to come
        self._analyse = analyse
        self._final = False
        self._worker = forked(self._work)

    def begin(self, *, final: bool) -> None:
        """Start the work; without another process, do it here. ``final``: all frames are read."""
        if self.working or self._final or self.failure:
            return
        self.working, self._final, self.progress = True, final, 0.0
        if self._worker is not None:
            self._worker.send(_GO)
        else:
            self._receive(self._analyse(lambda _: None))

    def poll(self) -> None:
        """Read the results that have arrived."""
        if self._worker is not None and self.working:
            arrived = self._worker.arrived()
            for message in [_ENDED] if arrived is None else arrived:
                self._receive(message)

    def _receive(self, message: float | Analysis | str) -> None:
        if isinstance(message, float):
            self.progress = message
            return
        self.working = False
        if isinstance(message, Analysis):
            self.result = message
        else:
            self.failure = message
        if self._final or self.failure:
            self.close()

    def close(self) -> None:
        """End the other process at once."""
        if self._worker is not None:
            self._worker.kill()

    def _work(self, orders: int, results: int) -> None:
        """Do the work, in the other process."""
        send = partial(send_object, results)
        os.nice(_NICE)
        while os.read(orders, 1) == _GO:
            try:
                send(self._analyse(send))
            except Exception as error:
                send(f"{error}" if isinstance(error, DcpdumpError) else f"{type(error).__name__}: {error}")
