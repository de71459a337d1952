"""Decoding: a split and the lives of its connections → rows of the tables, and the lives after it."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from dcpdump.columnar.block import Block
from dcpdump.columnar.decode import FrameTable
from dcpdump.columnar.part import Part, joined
from dcpdump.columnar.tables import gap_rows
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.redact import Redactor
from dcpdump.spark.life import Life
from dcpdump.spark.resumed import Resumed
from dcpdump.spark.split import Opener, Read
from dcpdump.spark.work import Exit, Pair, Work

Rows = tuple[str, pa.RecordBatch]


class Decoding:
    """One split decoded. ``feed`` it the blocks, then ``close`` it; ``exit`` says how it ended."""

    def __init__(
        self,
        work: Work,
        table: FrameTable,
        limits: Limits = DEFAULT,
        *,
        redactor: Redactor | None = None,
        show_secrets: bool = False,
    ) -> None:
        self._work = work
        self._table = table
        self._redactor = redactor
        self._dissection = Resumed(limits, first=work.first, show_secrets=show_secrets)
        lives = [Life.unpacked(life) for life in work.entries.values() if life is not None]
        self._entered: dict[Pair, bytes] = {life.pair: life.digest() for life in lives}
        self._dissection.resume(lives)

    def feed(self, blocks: Iterable[Block]) -> Iterator[Rows]:
        """It takes the blocks, and gives rows: of which table, and a batch of them."""
        for block in blocks:
            yield from self._rows(self._dissection.feed_block(block))

    def close(self) -> Iterator[Rows]:
        """It gives the rows that are left, where the input ends here."""
        if self._work.end is not None:
            for part in self._dissection.finish(self._work.end):
                yield from self._rows([part])
            yield from self._rows([])

    def _rows(self, parts: list[Part]) -> Iterator[Rows]:
        if parts:
            batch = self._table.feed(joined(parts))
            if batch is not None:
                yield "frames", batch
        dissection = self._dissection
        if dissection.gaps:
            yield "gaps", gap_rows(dissection.gaps, self._redactor)
            dissection.gaps.clear()
        dissection.ended.clear()

    def exit(self, read: tuple[tuple[Read, ...], ...]) -> Exit:
        """It tells how the split left its connections. ``read``: what its blocks came from."""
        dissection = self._dissection
        lives = [] if self._work.end is not None else dissection.lives(thin=not self._work.whole)
        deadlines = {life.pair: life.deadline for life in lives}
        return Exit(
            self._work.ordinal,
            read,
            self._entered,
            {life.pair: life.digest() for life in lives},
            {life.pair: life.packed() for life in lives},
            {pair: time for pair, time in deadlines.items() if time is not None},
            dissection.opened,
            dissection.last,
            dissection.last_ns,
            dissection.fragmented,
            dissection.tally,
            dissection.balance,
        )
