"""Exporting: the frames of a reading as rows of tables, made by several processes and written in a thread."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dcpdump.arrow import verdicts
from dcpdump.arrow.background import BackgroundWriter
from dcpdump.arrow.files import Files, gap_rows
from dcpdump.arrow.folder import Tables
from dcpdump.arrow.frame_table import FrameTable
from dcpdump.arrow.ipc import ReceivedBatches, carried
from dcpdump.arrow.schema import frames
from dcpdump.batch.block import BLOCK_BYTES, Block
from dcpdump.batch.filter import masks
from dcpdump.batch.part import Part, joined
from dcpdump.batch.pickling import packed, unpacked
from dcpdump.capture import Capture
from dcpdump.check.checking import Judging
from dcpdump.cli.options import Display, Selection
from dcpdump.cli.reading import Consumer
from dcpdump.cli.workers import Workers
from dcpdump.streams.watching import Watching


class Exporting(Consumer[Part]):
    """It feeds tables. ``jobs``: how many processes there may be."""

    def __init__(self, dissection: Watching, chosen: Selection, shown: Display, tables: Tables, jobs: int) -> None:
        self._dissection, self._chosen, self._shown, self._tables = dissection, chosen, shown, tables
        self._table = FrameTable(
            masks(chosen.texts, chosen.filter, window=chosen.window),
            shown.value_bytes,
            count=chosen.count,
            show_secrets=shown.show_secrets,
            redactor=shown.redactor,
            apart=True,
        )
        self._files = Files()
        self._judging: Judging | None = None
        if "streams" in tables.names or "findings" in tables.names:
            self._judging = Judging(dissection, rules="findings" in tables.names)
        self._last_ns: int | None = None  # when the last packet came
        # Whoever counts rows has to see all of them.
        self._decoding: Workers[list[Part]] = Workers(
            jobs if chosen.count is None else 1, self._decode, packed, unpacked
        )
        self._beside = jobs > 1
        self._writing: BackgroundWriter[Any] | None = None
        self._arrivals = ReceivedBatches(frames())

    def meet(self, block: Block) -> None:
        """Count packets. The first tell when the input begins, which the processes have to know."""
        self._chosen.begin(block.begins_ns)
        self._last_ns = block.where(-1).ts_ns
        self._files.feed(block)
        if self._writing is None:
            self._decoding.begin()  # before there is a thread, of which processes that are copied would know nothing
            self._writing = BackgroundWriter(lambda batch: self._tables.feed("frames", batch), beside=self._beside)

    def take(self, parts: list[Part]) -> bool:
        """Write what was lost, judge, and have rows made; return whether there are enough."""
        gaps = self._dissection.gaps
        if gaps and "gaps" in self._tables.names:
            self._tables.feed("gaps", gap_rows(gaps, self._shown.redactor))
        if self._judging is not None:
            self._judging.feed(parts)
        if "frames" in self._tables.names:
            for group in _groups(parts):
                if not self._is_full:
                    self._write(self._decoding.put(group))
        return self._judging is None and self._is_full

    def finish(self) -> None:
        """Write the rows that are left."""
        self._write(self._decoding.finish())
        if self._writing is not None:
            self._writing.close()

    def close(self) -> None:
        """End the processes."""
        self._decoding.close()

    def conclude(self, captures: Sequence[Capture]) -> None:
        """Write what became of captures and streams, and what the rules found."""
        problems = {each.name: [str(damage) for damage in each.damage] for each in captures}
        self._tables.feed("files", self._files.rows(problems))
        if self._judging is None:
            return
        self._judging.close(self._last_ns, alone=len(captures) == 1)
        if self._shown.redactor is not None:
            self._judging.hide(self._shown.redactor)
        if "streams" in self._tables.names:
            self._tables.feed("streams", verdicts.stream_rows(self._judging.ledger))
        if "findings" in self._tables.names:
            self._tables.feed("findings", verdicts.finding_rows(self._judging.fold.findings()))

    @property
    def _is_full(self) -> bool:
        return self._chosen.count is not None and self.frames >= self._chosen.count

    def _decode(self, parts: list[Part]) -> bytes:
        return carried(self._table.feed(joined(parts)))

    def _write(self, made: Iterable[bytes | memoryview]) -> None:
        for data in made:
            batch = self._arrivals.batch(data)
            if batch is not None and self._writing is not None:
                self.frames += batch.num_rows
                self._writing.feed(batch)


def _groups(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Put small parts together. What is left when the input ends may be much, and is not copied at once."""
    group: list[Part] = []
    size = 0
    for part in parts:
        if group and size + len(part.data) > 2 * BLOCK_BYTES:
            yield group
            group, size = [], 0
        group.append(part)
        size += len(part.data)
    if group:
        yield group
