"""Write chosen frames as they are completed; where files have many, in several processes."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from dcpdump.batch.filter import wanted_rows
from dcpdump.batch.part import Part
from dcpdump.batch.pickling import is_heavy, pieces_of, thing_of
from dcpdump.cli.choosing_consumer import ChoosingConsumer
from dcpdump.cli.options import Display, Selection
from dcpdump.cli.sink import Sink
from dcpdump.cli.summary import SHOWN
from dcpdump.cli.workers import Workers
from dcpdump.clock import TimeKind
from dcpdump.render import OUTPUTS, View
from dcpdump.render.plain_formats import Bulk
from dcpdump.render.style import Palette

#: Fewer rows than this are written faster than a process is started.
FORK_ROWS = 1000
#: Rows that are written at a time, where they are made one by one.
_SHOWN_ROWS = 128


class Selected(ChoosingConsumer[Part]):
    """A consumer that passes on the rows that a selection wants, up to its count."""

    def __init__(
        self, chosen: Selection, put: Callable[[Part, Sequence[int]], object], verb: str, shown: Display
    ) -> None:
        super().__init__(chosen, shown)
        self._masks = chosen.masks
        self._put = put
        self.verb = verb

    def take(self, parts: list[Part]) -> bool:
        """Pass on the rows that are wanted; return whether there are enough."""
        count = self._chosen.count
        for part in parts:
            rows = wanted_rows(part, self._masks)
            if count is not None:
                rows = rows[: count - self.frames]
            if rows:
                self.frames += len(rows)
                self._put(part, rows)
            if self.frames == count:
                return True
        return False


class FrameOutput(Selected):
    """A consumer that writes chosen frames. ``several``: there are several captures; ``jobs``: how many processes to
    use.
    """

    def __init__(self, chosen: Selection, shown: Display, sink: Sink, *, several: bool = False, jobs: int = 1) -> None:
        super().__init__(chosen, self._show, SHOWN, shown)
        self._sink = sink
        self._output = OUTPUTS[shown.format]
        view = View(shown.value_bytes, Palette(shown.coloured(sink.is_terminal)), file=several, times=shown.times)
        self._bulk = Bulk(shown.format, view, shown.redactor)
        self._jobs = jobs if shown.times.kind is not TimeKind.DELTA else 1  # frame after frame
        self._workers: Workers[tuple[Part, Sequence[int]]] = Workers(self._jobs, self._made, pieces_of, thing_of)
        self._pending: deque[int] = deque()  # the number of rows in each text that is not written yet

    def begin(self) -> None:
        """Write the header."""
        if self._output.header is not None:
            self._sink.write(self._output.header())

    def settle(self, *, idle: bool) -> None:
        """Write what is ready; everything while the input is idle: it may be long before more arrives."""
        self._write(self._workers.finish() if idle else self._workers.ready())

    def finish(self) -> None:
        """Write what is pending."""
        self._write(self._workers.finish())

    def close(self) -> None:
        """End the workers. Frames that they were still making are not shown."""
        self._workers.close()
        self.frames -= sum(self._pending)

    def _show(self, part: Part, rows: Sequence[int]) -> None:
        at_once = self._bulk.at_once
        if self._jobs > 1 and len(rows) >= FORK_ROWS and not (at_once and is_heavy(part)):
            self._pending.append(len(rows))
            self._write(self._workers.put((part, rows)))
            return
        most = len(rows) if at_once else _SHOWN_ROWS
        pieces = [rows[at : at + most] for at in range(0, len(rows), most)]
        for piece in pieces:
            self._pending.append(len(piece))
            self._write(self._workers.put_here((part, piece)))

    def _made(self, wanted: tuple[Part, Sequence[int]]) -> bytes:
        return self._sink.recoded(self._bulk.text(*wanted))

    def _write(self, texts: Iterable[bytes | memoryview]) -> None:
        for text in texts:
            self._pending.popleft()  # before the write, during which a signal may arrive
            self._sink.write_encoded(text)
