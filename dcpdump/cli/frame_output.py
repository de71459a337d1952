"""Frames: those that are chosen, written as they are completed; where files have many, by several processes."""

from collections import deque
from collections.abc import Callable, Iterable

from dcpdump.batch.block import Block
from dcpdump.batch.chosen import wanted_rows
from dcpdump.batch.filter import masks
from dcpdump.batch.part import Part
from dcpdump.batch.pickling import packed, unpacked
from dcpdump.cli.options import Display, Selection
from dcpdump.cli.reading import Consumer
from dcpdump.cli.sink import Sink
from dcpdump.cli.summary import SHOWN
from dcpdump.cli.workers import Workers
from dcpdump.render import OUTPUTS, View
from dcpdump.render.batch_text import Bulk
from dcpdump.render.style import Palette

#: Fewer rows than this are written sooner than another process is started.
FORK_ROWS = 1000
#: Of rows that are written one by one, so many are shown at a time.
_SHOWN_ROWS = 128


class Selected(Consumer[Part]):
    """It puts the rows of parts that a selection wants, until there are as many as that."""

    def __init__(self, chosen: Selection, put: Callable[[Part, list[int]], object], verb: str) -> None:
        self._chosen = chosen
        self._masks = masks(chosen.texts, chosen.filter, window=chosen.window)
        self._put = put
        self.verb = verb

    def meet(self, block: Block) -> None:
        """Let the selection know when the capture begins."""
        self._chosen.begin(block.begins_ns)

    def take(self, parts: list[Part]) -> bool:
        """Put the rows that are wanted; return whether there are enough."""
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
    """It writes the frames that are chosen. ``several``: captures; ``jobs``: how many processes there may be."""

    def __init__(self, chosen: Selection, shown: Display, sink: Sink, *, several: bool = False, jobs: int = 1) -> None:
        super().__init__(chosen, self._show, SHOWN)
        self._sink = sink
        self._output = OUTPUTS[shown.format]
        view = View(shown.value_bytes, Palette(shown.coloured(sink.is_terminal)), file=several)
        self._bulk = Bulk(shown.format, view, shown.redactor)
        self._jobs = jobs
        self._workers: Workers[tuple[Part, list[int]]] = Workers(jobs, self._made, packed, unpacked)
        self._under_way: deque[int] = deque()  # how many rows each text is of that is still to be written

    def begin(self) -> None:
        """Write what stands above all frames."""
        if self._output.header is not None:
            self._sink.write(self._output.header())

    def settle(self, *, idle: bool) -> None:
        """Write everything while nothing comes: it may be long before more does."""
        if idle:
            self.finish()

    def finish(self) -> None:
        """Write what is under way."""
        self._write(self._workers.finish())

    def close(self) -> None:
        """End the workers. What they were at is not shown."""
        self._workers.close()
        self.frames -= sum(self._under_way)

    def _show(self, part: Part, rows: list[int]) -> None:
        if self._jobs > 1 and len(rows) >= FORK_ROWS:
            self._under_way.append(len(rows))
            self._write(self._workers.put((part, rows)))
            return
        most = len(rows) if self._bulk.in_columns else _SHOWN_ROWS
        pieces = [rows[at : at + most] for at in range(0, len(rows), most)]
        self.finish()  # what little there is may not overtake what is still under way
        self._under_way.extend(map(len, pieces))
        self._write(self._made((part, piece)) for piece in pieces)

    def _made(self, wanted: tuple[Part, list[int]]) -> bytes:
        return self._sink.recoded(self._bulk.text(*wanted))

    def _write(self, texts: Iterable[bytes | memoryview]) -> None:
        for text in texts:
            self._under_way.popleft()  # before a signal may come of who sees them
            self._sink.write_encoded(text)
