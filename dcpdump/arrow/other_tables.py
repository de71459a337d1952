"""Make the rows of the tables beside frames: what a reading finds out of streams, losses and files."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dcpdump.arrow.files import Files, gap_rows
from dcpdump.arrow.verdicts import stream_rows, verdict_rows
from dcpdump.batch.block import Block
from dcpdump.batch.dissector import BlockDissector
from dcpdump.batch.part import Part
from dcpdump.capture import Capture
from dcpdump.check.checking import Judging
from dcpdump.redact import Redactor
from dcpdump.streams.ends_watching import Watching
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge

#: Tables that need every frame.
JUDGED = frozenset({"streams", "findings"})


class OtherTables:
    """The tables of these names. ``streams`` and ``findings`` need a dissection that is Watching."""

    def __init__(
        self, names: Collection[str], dissection: BlockDissector[Any], redactor: Redactor | None = None
    ) -> None:
        self._names, self._dissection, self._redactor = names, dissection, redactor
        self._files = Files()
        self._last_ns: int | None = None  # the time of the last packet
        self._early: list[pa.RecordBatch] = []  # rows of streams that were evicted
        self._judging: Judging | None = None
        if not JUDGED.isdisjoint(names) and isinstance(dissection, Watching):
            self._judging = Judging(dissection, rules="findings" in names, redactor=redactor, evicting=self._evict)

    @property
    def needs_all(self) -> bool:
        """Return whether every frame has to be taken."""
        return self._judging is not None

    def meet(self, block: Block) -> None:
        """Count packets."""
        self._last_ns = block.where(-1).ts_ns
        self._files.feed(block)
        if self._judging is not None:
            self._judging.meet(block)

    def take(self, parts: Sequence[Part]) -> list[tuple[str, pa.RecordBatch]]:
        """Judge frames, before the dissection's gaps are cleared; return rows of gaps, and of evicted streams."""
        gaps = self._dissection.gaps
        rows = [("gaps", gap_rows(gaps, self._redactor))] if gaps and "gaps" in self._names else []
        if self._judging is not None:
            self._judging.feed(parts)
        early, self._early = self._early, []
        return rows + [("streams", batch) for batch in early]

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
        yield from verdict_rows(self._judging, self._names)
