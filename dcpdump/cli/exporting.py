"""Write the frames of a reading as rows of tables; several processes make the rows, a thread writes them."""

from collections.abc import Iterable, Sequence
from typing import Any

from dcpdump.arrow.folder import BackgroundWriter, ReceivedBatches, Tables, pack_batch
from dcpdump.arrow.frame_table import FrameTable
from dcpdump.arrow.other_tables import OtherTables
from dcpdump.arrow.schema import frames
from dcpdump.batch.block import Block
from dcpdump.batch.part import Part, even_groups, joined
from dcpdump.batch.pickling import is_heavy, pieces_of, thing_of
from dcpdump.capture import Capture
from dcpdump.cli.export import cut_notes
from dcpdump.cli.frame_output import ChoosingConsumer
from dcpdump.cli.options import Display, Selection
from dcpdump.dissect import Dissector
from dcpdump.processes import Workers
from dcpdump.streams.dissection import Watching

#: Parts of more bytes than any block's have a frame that is large, of which handing it over would make more copies.
_LARGE = 8 << 20


class Exporting(ChoosingConsumer[Part]):
    """A consumer that writes tables. ``jobs``: how many processes may be used."""

    def __init__(self, dissection: Watching, chosen: Selection, shown: Display, tables: Tables, jobs: int) -> None:
        super().__init__(chosen, shown)
        self._tables, self._value_bytes = tables, shown.value_bytes
        self._table = FrameTable(
            chosen.masks,
            shown.value_bytes,
            count=chosen.count,
            redactor=shown.redactor,
            apart=True,
        )
        self._others = OtherTables(tables.names, dissection, shown.redactor)
        # To stop at a count, one process must see all rows.
        self._decoding: Workers[list[Part]] = Workers(
            jobs if chosen.count is None else 1, self._decode, pieces_of, thing_of
        )
        self._threaded = jobs > 1
        self._writing: BackgroundWriter[Any] | None = None
        self._arrivals = ReceivedBatches(frames())

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return which names of collections are not known, and in how many rows values were cut."""
        yield from super().remarks(dissection)
        yield from cut_notes(self._arrivals.cut, self._value_bytes)

    def meet(self, block: Block) -> None:
        """Count packets. The first block sets the beginning of the input, which the processes need."""
        super().meet(block)
        self._others.meet(block)
        if self._writing is None:
            self._decoding.begin()  # before the thread starts: forked processes would not have it
            self._writing = BackgroundWriter(lambda batch: self._tables.feed("frames", batch), threaded=self._threaded)

    def take(self, parts: list[Part]) -> bool:
        """Write gaps, judge frames, and have rows made; return whether there are enough."""
        for name, rows in self._others.take(parts):
            self._tables.feed(name, rows)
        if "frames" in self._tables.names:
            for group in even_groups(parts):
                if not self._is_full:
                    here = sum(len(part.data) for part in group) > _LARGE or all(map(is_heavy, group))
                    self._write((self._decoding.put_here if here else self._decoding.put)(group))
        return self._is_full and not self._others.needs_all

    def finish(self) -> None:
        """Write the rows that are left."""
        self._write(self._decoding.finish())
        if self._writing is not None:
            self._writing.close()

    def close(self) -> None:
        """End the processes."""
        self._decoding.close()

    def conclude(self, captures: Sequence[Capture]) -> None:
        """Write the tables of files and streams, and what the rules found."""
        for name, rows in self._others.rows(captures):
            self._tables.feed(name, rows)

    @property
    def _is_full(self) -> bool:
        return self._chosen.count is not None and self.frames >= self._chosen.count

    def _decode(self, parts: list[Part]) -> bytes:
        before = self._table.cut
        batch = self._table.feed(joined(parts))
        return pack_batch(batch, self._table.cut - before)

    def _write(self, made: Iterable[bytes | memoryview]) -> None:
        for data in made:
            batch = self._arrivals.batch(data)
            if batch is not None and self._writing is not None:
                self.frames += batch.num_rows
                self._writing.feed(batch)
