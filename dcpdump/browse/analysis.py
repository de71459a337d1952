"""Analysis: what the tabs of streams, findings and connections show, and the process that makes it meanwhile."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from dcpdump.errors import DcpdumpError
from dcpdump.processes import ForkedWorker, Messages, can_fork_alone, packed, write_all
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Table
from dcpdump.streams.ladder import Rung

StreamKey = tuple[int, int, int]  #: connection, vbucket, stream id


class TabRow(NamedTuple):
    """A row of a tab: its cells, and what it leads to."""

    cells: Sequence[str]
    keys: Sequence[Any]  #: what it is sorted by, column for column; None or an empty text where there is nothing
    kind: LineKind = LineKind.PLAIN
    clauses: tuple[tuple[str, str], ...] = ()  #: that choose its frames
    frame: int | None = None  #: that it is about
    page: tuple[Line, ...] = ()  #: more of it
    stream: StreamKey | None = None


class TabRows(NamedTuple):
    """A table, as a tab shows it."""

    table: Table  #: whose columns these are
    rows: Sequence[TabRow]
    nothing: str  #: what is said where there is no row


class Dialogue(NamedTuple):
    """The ladder of a stream, and who is at its sides."""

    title: str
    client: str  #: its name, else its address; at the left
    server: str
    rungs: tuple[Rung, ...]


class Analysis(NamedTuple):
    """All that needs all frames."""

    tabs: dict[str, TabRows]
    dialogues: dict[StreamKey, tuple[Dialogue, ...]]
    findings: dict[int, tuple[Line, ...]]  #: by frame


# -- the process that makes it ------------------------------------------------------------------------

#: Reads all frames, reports how far it is from time to time, and returns what it made.
Analyse = Callable[[Callable[[float], None]], Analysis]
_GO = b"g"
_NICE = 5


class Analysing:
    """The other process: begun before the screen, set to work once the index is complete.

    Of what does not end it is set to work whenever somebody asks, on the frames that there are by then.
    """

    def __init__(self, analyse: Analyse) -> None:
        self.result: Analysis | None = None
        self.failure = ""  #: why there is no result
        self.progress = 0.0
        self._analyse = analyse
        self.working = False  #: whether something is still to come
        self._final = False
        self._messages = Messages()
        self._worker: ForkedWorker | None = None
        if can_fork_alone():
            with suppress(OSError):
                self._worker = ForkedWorker(self._work)

    def begin(self, *, final: bool) -> None:
        """Set it to work; where there is no other process, it is done here and now. ``final``: all frames are there."""
        if self.working or self._final or self.failure:
            return
        self.working, self._final, self.progress = True, final, 0.0
        if self._worker is not None:
            self._worker.send(_GO)
        else:
            self._take(self._analyse(lambda _: None))

    def poll(self) -> None:
        """Take what has arrived."""
        if self._worker is None or not self.working:
            return
        arrived = self._worker.arrived()
        if arrived is None:
            self._fail("the process that reads all frames has ended")
            return
        for message in self._messages.feed(arrived):
            self._take(message)

    def _take(self, message: object) -> None:
        if isinstance(message, float):
            self.progress = message
        elif isinstance(message, Analysis):
            self.result, self.working = message, False
            if self._final:
                self.close()
        else:
            self._fail(str(message))

    def _fail(self, why: str) -> None:
        self.failure, self.working = why, False
        self.close()

    def close(self) -> None:
        """End the other process, whatever it does."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _work(self, orders: int, results: int) -> None:
        """Do the work, in the other process."""

        def send(message: object) -> None:
            write_all(results, packed(message))

        os.nice(_NICE)
        while os.read(orders, 1) == _GO:
            try:
                send(self._analyse(send))
            except DcpdumpError as error:
                send(str(error))
            except Exception as error:
                send(f"{type(error).__name__}: {error}")
