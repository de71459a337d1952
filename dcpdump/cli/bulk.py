"""Reading in bulk: the same frames as one by one, chosen and written many at a time."""

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dcpdump.cli.reading import Reading
from dcpdump.cli.workers import Workers
from dcpdump.columnar.ahead import blocks_ahead
from dcpdump.columnar.block import Block
from dcpdump.columnar.chosen import record_of, wanted_rows
from dcpdump.columnar.dissection import Dissection
from dcpdump.columnar.filter import masks
from dcpdump.columnar.packed import packed, unpacked
from dcpdump.columnar.part import Part
from dcpdump.dissect import Dissector
from dcpdump.helper import LEAST_BYTES
from dcpdump.net.limits import Limits
from dcpdump.render.bulk import Bulk

#: Fewer rows than this are written sooner than another process is started.
FORK_ROWS = 1000


class BulkReading(Reading):
    """A Reading of files that are all there. ``jobs``: how many processes there may be; None: as many as processors."""

    def __init__(self, *arguments: Any, jobs: int | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._jobs = jobs or os.cpu_count() or 1
        self._bulk = Bulk(self._form, self._view)
        chosen = self._chosen
        self._masks = masks(chosen.texts, chosen.filter, window=chosen.window)
        size = sum(os.path.getsize(capture.name) for capture in self._captures if capture.rereadable)
        self._workers: Workers[tuple[Part, list[int]]] = Workers(
            self._jobs if size >= LEAST_BYTES else 1, self._made, packed, unpacked
        )

    @staticmethod
    def _dissecting(limits: Limits, show_secrets: bool) -> Dissector:
        return Dissection(limits, show_secrets=show_secrets)

    def _read(self) -> None:
        # What is made here is freed by its last user; looking for cycles in it would take a tenth of the time.
        gc.disable()
        try:
            self._read_blocks()
        finally:
            self._workers.close()
            gc.enable()

    def _read_blocks(self) -> None:
        dissection = self._dissector
        if not isinstance(dissection, Dissection):
            raise TypeError("a reading in bulk dissects in bulk")
        for block in self._blocks():
            if block is None:
                self._put(self._workers.finish())
                continue
            self._meet(block)
            if self._write(dissection.feed_block(block)):
                break
        else:
            self._write(dissection.close_blocks())
        self._put(self._workers.finish())

    def _blocks(self) -> Iterator[Block | None]:
        """It gives the input; None says that nobody knows when more comes, so what there is has to be written."""
        yield from blocks_ahead(self._captures, self._jobs)

    def _meet(self, block: Block) -> None:
        """It hears of a block before it is read; the first tells the selection when the capture begins."""
        self._chosen.begin(block.begins_ns)

    def _write(self, parts: list[Part]) -> bool:
        """It writes the rows that are wanted; true when there are enough."""
        for part in parts:
            rows = wanted_rows(part, self._masks)
            if self._chosen.count is not None:
                rows = rows[: self._chosen.count - self._shown]
            if len(rows):
                self._shown += len(rows)
                self._show_rows(part, rows)
            if self._shown == self._chosen.count:
                return True
        return False

    def _show_rows(self, part: Part, rows: list[int]) -> None:
        if len(rows) < FORK_ROWS:
            # What little there is may not overtake what is still under way.
            self._put(self._workers.finish())
            self._put([self._made((part, rows))])
        else:
            self._put(self._workers.put((part, rows)))

    def _made(self, wanted: tuple[Part, list[int]]) -> bytes:
        return self._sink.recoded(self._text(*wanted))

    def _text(self, part: Part, rows: Sequence[int]) -> bytes:
        if not self._redacts:
            return self._bulk.text(part, rows)
        texts = (self._output.write(self._shown_as(record_of(part, row)), self._view) for row in rows)
        return "".join(texts).encode()

    def _put(self, texts: Iterable[bytes | memoryview]) -> None:
        for text in texts:
            self._sink.write_encoded(text)
