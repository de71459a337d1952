"""Decode splits, given the state of their connections before, into rows of tables and the state after."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from dcpdump.arrow.other_tables import gap_rows
from dcpdump.batch.block import Block
from dcpdump.batch.part import Part, even_groups, joined
from dcpdump.batch.resumable import SavedConnection
from dcpdump.spark.event_log import EventWriter
from dcpdump.spark.resume import ResumedDissection
from dcpdump.spark.row_options import Options
from dcpdump.spark.split_reading import SplitReading
from dcpdump.spark.splits import Opener, Reads
from dcpdump.spark.work import Counted, Exit, Pair, Work

Rows = tuple[str, pa.RecordBatch]


def decode_split(work: Work, choice: Options, open_file: Opener, *, events: bool = False) -> "Decoded":
    """Decode a work: iterate over the result for rows, then ask it for its ``exit``. ``events``: with those of all."""
    decoding = Decoding(work, choice, events=events)
    return Decoded(decoding, [SplitReading(split, open_file, salvage=choice.salvage) for split in work.splits])


class Decoded:
    """The rows of a work, as pairs of a table's name and a batch. To be iterated over once."""

    def __init__(self, decoding: "Decoding", readings: list[SplitReading]) -> None:
        self._decoding = decoding
        self._readings = readings

    def __iter__(self) -> Iterator[Rows]:
        for reading in self._readings:
            yield from self._decoding.feed(reading.blocks())
        yield from self._decoding.close()

    @property
    def exit(self) -> Exit:
        """Return how the work left its connections; valid once all rows are taken."""
        return self._decoding.exit(tuple(reading.read for reading in self._readings))


class Decoding:
    """The decoding of one work: ``feed`` it the blocks, ``close`` it; ``exit`` returns how it left its connections."""

    def __init__(self, work: Work, choice: Options, *, events: bool = False) -> None:
        self._work = work
        self._table = choice.table()
        self._redactor = choice.redactor
        self._dissection = ResumedDissection(choice.limits, first=work.first, show_secrets=choice.show_secrets)
        saved_connections = [SavedConnection.unpacked(saved) for saved in work.entries.values() if saved is not None]
        self._entered: dict[Pair, bytes] = {saved.pair: saved.digest() for saved in saved_connections}
        self._dissection.resume(saved_connections)
        self._dissection.name(work.names)
        self._event_writer = EventWriter(work.ordinal, self._dissection.balance.pending_bytes) if events else None
        if events:
            self._dissection.watch(with_rules=False)

    def feed(self, blocks: Iterable[Block]) -> Iterator[Rows]:
        """Decode blocks of packets, and yield rows as pairs of a table's name and a batch."""
        for block in blocks:
            last_ns = block.where(-1).ts_ns
            for parts in self._dissection.feed_block(block):
                yield from self._rows(parts, last_ns)

    def close(self) -> Iterator[Rows]:
        """Yield the rows that are left, where the input ends with this work."""
        if self._work.end is not None:
            for parts in self._dissection.finish(self._work.end):
                yield from self._rows(parts, self._work.end.ts_ns)

    def _rows(self, parts: list[Part], last_ns: int | None) -> Iterator[Rows]:
        dissection = self._dissection
        if self._event_writer is not None:
            yield "events", self._event_writer.write(dissection, parts, last_ns)
        for group in even_groups(parts):
            batch = self._table.feed(joined(group))
            if batch is not None:
                yield "frames", batch
        if dissection.gaps:
            yield "gaps", gap_rows(dissection.gaps, self._redactor)
            dissection.gaps.clear()
        dissection.ended.clear()
        dissection.tcp_changes.clear()

    def exit(self, read: Reads) -> Exit:
        """Return how the work left its connections. ``read``: what its blocks were read from."""
        dissection = self._dissection
        left = [] if self._work.end is not None else dissection.saved_connections(thin=not self._work.whole)
        deadlines = {saved.pair: saved.deadline for saved in left}
        digests, promised = {saved.pair: saved.digest() for saved in left}, dict(self._work.promised)
        tally = dissection.tally
        for conversation in dissection.conversations.values():
            for missing in conversation.lost if any(conversation.framed) else ():
                tally.lost.merge(missing)
        return Exit(
            self._work.ordinal,
            read,
            self._entered,
            digests,
            {saved.pair: saved.packed() for saved in left if promised.get(saved.pair) != digests[saved.pair]},
            {pair: time for pair, time in deadlines.items() if time is not None},
            dissection.opened,
            dissection.last,
            dissection.last_ns,
            Counted(
                tally.frames,
                tally.lost.values,
                tally.skipped_bytes,
                dissection.balance.conflicts,
                dict(tally.foreign),
                self._table.cut,
            ),
            dissection.told,
        )
