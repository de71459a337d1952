"""Frames: those that are chosen, written as they are completed; where files have many, by several processes."""

from collections import deque
from collections.abc import Iterable, Iterator

from dcpdump.cli.options import Display, Selection
from dcpdump.cli.reading import Consumer
from dcpdump.cli.sink import Sink
from dcpdump.cli.workers import Workers
from dcpdump.columnar.block import Block
from dcpdump.columnar.chosen import wanted_rows
from dcpdump.columnar.filter import masks
from dcpdump.columnar.packed import packed, unpacked
from dcpdump.columnar.part import Part
from dcpdump.render import OUTPUTS, View
from dcpdump.render.bulk import Bulk
from dcpdump.render.style import Palette

#: Fewer rows than this are written sooner than another process is started.
FORK_ROWS = 1000
#: Of rows that are written one by one, so many are shown at a time.
_SHOWN_ROWS = 128


class Selector:
    """It finds the rows that a selection wants, until there are as many as that."""

    def __init__(self, chosen: Selection) -> None:
        self._chosen = chosen
        self._masks = masks(chosen.texts, chosen.filter, window=chosen.window)
        self._found = 0

    @property
    def is_full(self) -> bool:
        """Whether there are enough."""
        return self._found == self._chosen.count

    def meet(self, block: Block) -> None:
        """Let the selection know when the capture begins."""
        self._chosen.begin(block.begins_ns)

    def rows(self, parts: Iterable[Part]) -> Iterator[tuple[Part, list[int]]]:
        """Yield the rows that are wanted of each part that has some."""
        for part in parts:
            rows = wanted_rows(part, self._masks)
            if self._chosen.count is not None:
                rows = rows[: self._chosen.count - self._found]
            if rows:
                self._found += len(rows)
                yield part, rows
            if self.is_full:
                return


class Frames(Consumer):
    """It writes the frames that are chosen. ``several``: captures; ``jobs``: how many processes there may be."""

    def __init__(self, chosen: Selection, shown: Display, sink: Sink, *, several: bool = False, jobs: int = 1) -> None:
        self._selector = Selector(chosen)
        self._sink = sink
        self._output = OUTPUTS[shown.format]
        view = View(shown.value_bytes, Palette(shown.coloured(sink.is_terminal)), file=several)
        self._bulk = Bulk(shown.format, view, shown.redactor)
        self._jobs = jobs
        self._workers: Workers[tuple[Part, list[int]]] = Workers(self._jobs, self._made, packed, unpacked)
        self._under_way: deque[int] = deque()  # how many rows each text is of that is still to be written

    def begin(self) -> None:
        """Write what stands above all frames."""
        if self._output.header is not None:
            self._sink.write(self._output.header())

    def meet(self, block: Block) -> None:
        """Take the first packet's time."""
        self._selector.meet(block)

    def take(self, parts: list[Part]) -> bool:
        """Write the rows that are wanted; return whether there are enough."""
        for part, rows in self._selector.rows(parts):
            if self._jobs > 1 and len(rows) >= FORK_ROWS:
                self._under_way.append(len(rows))
                self._put(self._workers.put((part, rows)))
                continue
            self.finish()  # what little there is may not overtake what is still under way
            most = len(rows) if self._bulk.in_columns else _SHOWN_ROWS
            for at in range(0, len(rows), most):
                piece = rows[at : at + most]
                self._under_way.append(len(piece))
                self._put([self._made((part, piece))])
        return self._selector.is_full

    def settle(self, *, idle: bool) -> None:
        """Write everything while nothing comes: it may be long before more does."""
        if idle:
            self.finish()

    def finish(self) -> None:
        """Write what is under way."""
        self._put(self._workers.finish())

    def close(self) -> None:
        """End the workers."""
        self._workers.close()

    def _made(self, wanted: tuple[Part, list[int]]) -> bytes:
        return self._sink.recoded(self._bulk.text(*wanted))

    def _put(self, texts: Iterable[bytes | memoryview]) -> None:
        for text in texts:
            self.frames += self._under_way.popleft()  # before a signal may come of who sees them
            self._sink.write_encoded(text)
