"""Make the rows of the tables ``gaps`` and ``files``, and collect those of ``streams`` and ``findings``."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from dcpdump.arrow.column_builder import batch_of
from dcpdump.arrow.schema import of_columns, stored, versioned
from dcpdump.arrow.verdicts import stream_rows, verdict_rows
from dcpdump.batch.block import Block
from dcpdump.batch.dissector import BlockDissector
from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.capture.file import Capture
from dcpdump.check.engine import RuleEngine
from dcpdump.check.finding import SHOWN, Fold
from dcpdump.check.rules import RULES
from dcpdump.net.packet import NO_TIME
from dcpdump.redact import Redactor, redacted_direction
from dcpdump.render.column import INSTANT, TEXT, Column, ColumnSet, of
from dcpdump.render.conns import GAPS
from dcpdump.streams.dissection import Watching
from dcpdump.streams.feed import Feed
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.redacted import hide, hide_requests
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge, judging_early

# -- rows of ``files`` and ``gaps``: what each capture has, and which bytes were lost -----------------


_File = tuple[str, int, int | None, int | None, str]  #: name, packets, times of the first and the last, problems
FILES = ColumnSet[_File](
    *of("file=0"),
    Column("size", lambda row: os.path.getsize(row[0]) if os.path.isfile(row[0]) else None),
    *of("packets=1"),
    *of("first=2", type=INSTANT, meaning="when its first packet came, to the microsecond"),
    *of("last=3", type=INSTANT, meaning="when its last packet came, to the microsecond"),
    Column("status", lambda row: "damaged" if row[4] else "ok", type=TEXT, meaning="ok or damaged"),
    Column("problem", lambda row: row[4] or None),
)


@cache
def gaps() -> pa.Schema:
    """Return the schema of ``gaps``: bytes of a connection that were never captured."""
    return versioned("dcpdump.gaps/1", of_columns(GAPS))


@cache
def files() -> pa.Schema:
    """Return the schema of ``files``: the captures that were read."""
    return versioned("dcpdump.files/1", of_columns(FILES))


class Files:
    """The packets of each capture. ``feed`` it every block."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int | None, int | None]] = {}

    def feed(self, block: Block) -> None:
        """Note how many packets a file has, and the times of the first and the last."""
        for number, name in enumerate(block.files):
            mine = block.file == number
            times = block.ts_ns[mine]
            times = times[times != NO_TIME]
            count, first, last = self._seen.get(name, (0, None, None))
            if len(times):
                first = int(times.min()) if first is None else min(first, int(times.min()))
                last = int(times.max()) if last is None else max(last, int(times.max()))
            self._seen[name] = count + int(mine.sum()), first, last

    def rows(self, problems: dict[str, list[str]]) -> pa.RecordBatch:
        """Return the rows of ``files``; ``problems``: the faults of each file."""
        nothing = (0, None, None)
        rows = [(name, *self._seen.get(name, nothing), "; ".join(found)) for name, found in problems.items()]
        return batch_of([stored(FILES, row) for row in rows], files())


# -- the ledger and the rules over one input, on one machine or in tasks of Spark ---------------------

#: Who learns of streams that are about to be evicted, and can be judged now.
Evicting = Callable[[Sequence[Stream], Judge], object]


class Judging:
    """The ledger and the findings of an input. Feed it all batches of a dissection, then close it.

    Without ``rules`` there are no findings, and documents are only counted. With a ``redactor`` ledger and findings
    have hashes of names, addresses and texts once it is closed. ``evicting``: called before streams are forgotten.
    """

    def __init__(
        self,
        dissection: Watching,
        *,
        rules: bool = True,
        redactor: Redactor | None = None,
        evicting: Evicting = lambda streams, judge: None,
    ) -> None:
        self.ledger = Ledger(with_rules=rules)
        self.fold = Fold()
        self._feed = Feed(dissection, self.ledger, with_rules=rules, hides=redactor is not None)
        self._engine = RuleEngine(self.fold.add, RULES if rules else (), self.ledger, shown=SHOWN)
        self._redactor, self._evicting = redactor, evicting

    def observe(self, block: Block) -> None:
        """Note a block of packets, before its batches."""
        self._feed.observe(block)

    def feed(self, batches: Sequence[FrameBatch]) -> None:
        """Judge the batches of a block, before the dissection's gaps are cleared."""
        engine, ledger = self._engine, self.ledger
        for step in self._feed.steps(batches):
            engine.feed_step(step)
        evictable = self._feed.evictable(engine.lose)
        if evictable is None:
            return
        if streams := evictable.streams:
            if self._redactor is not None:
                hide_requests(ledger, self._redactor)
            with judging_early(ledger, streams) as judge:
                self._evicting(streams, judge)
            engine.evict_streams(streams)
        for connection in evictable.connections:
            engine.evict(connection)

    def close(self, last_ns: int | None) -> None:
        """End the input, whose last packet is of that time."""
        for step in self._feed.rest():
            self._engine.feed_step(step)
        self._feed.close(last_ns, self._engine.lose)
        self._engine.close(single_capture=self.ledger.single_capture)
        if self._redactor is not None:
            hide(self.ledger, self._redactor)
            self.fold.hide(self._redactor)


#: Tables that need every frame.
JUDGED = frozenset({"streams", "findings"})


class OtherTables:
    """The tables of these names. ``streams`` and ``findings`` need a dissection that watches streams."""

    def __init__(
        self, names: Collection[str], dissection: BlockDissector[Any], redactor: Redactor | None = None
    ) -> None:
        self._names, self._dissection, self._redactor = names, dissection, redactor
        self._files = Files()
        self._last_ns: int | None = None  # the time of the last packet
        self._early: list[pa.RecordBatch] = []  # rows of streams that were forgotten
        self._judging: Judging | None = None
        if not JUDGED.isdisjoint(names) and isinstance(dissection, Watching):
            self._judging = Judging(dissection, rules="findings" in names, redactor=redactor, evicting=self._evict)

    def observe(self, block: Block) -> None:
        """Count packets."""
        self._last_ns = block.where(-1).ts_ns
        self._files.feed(block)
        if self._judging is not None:
            self._judging.observe(block)

    def feed(self, batches: Sequence[FrameBatch]) -> list[tuple[str, pa.RecordBatch]]:
        """Judge frames, before the dissection's gaps are cleared; return rows of gaps and of forgotten streams."""
        lost = self._dissection.gaps if "gaps" in self._names else []
        rows = [
            stored(GAPS, (redacted_direction(each.direction, self._redactor), each.gap.offset, gap))
            for each in lost
            for gap in each.sent  # skipped bytes have none
        ]
        if self._judging is not None:
            self._judging.feed(batches)
        early, self._early = self._early, []
        return [*([("gaps", batch_of(rows, gaps()))] if rows else []), *(("streams", batch) for batch in early)]

    def _evict(self, streams: Sequence[Stream], judge: Judge) -> None:
        if "streams" in self._names:
            self._early += stream_rows(streams, judge, self._redactor)

    def rows(self, captures: Sequence[Capture]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the other tables at the end of the input, each with its name."""
        problems = {each.name: [str(damage) for damage in each.damage] for each in captures}
        if "files" in self._names:
            yield "files", self._files.rows(problems)
        if self._judging is None:
            return
        self._judging.close(self._last_ns)
        yield from verdict_rows(self._judging.ledger, self._judging.fold, self._names)
