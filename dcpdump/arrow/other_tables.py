"""Make the rows of the tables beside frames: what a reading finds out of streams, losses and files."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dcpdump.arrow.files import Files, gap_rows
from dcpdump.arrow.verdicts import verdict_rows
from dcpdump.batch.block import Block
from dcpdump.batch.dissector import BlockDissector
from dcpdump.batch.part import Part
from dcpdump.capture import Capture
from dcpdump.check.checking import Judging
from dcpdump.redact import Redactor
from dcpdump.streams.watching import Watching

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
        self._judging: Judging | None = None
        if not JUDGED.isdisjoint(names) and isinstance(dissection, Watching):
            self._judging = Judging(dissection, rules="findings" in names, redactor=redactor)

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

    def take(self, parts: Sequence[Part]) -> pa.RecordBatch | None:
        """Judge frames, before the dissection's gaps are cleared; return the new rows of gaps."""
        gaps = self._dissection.gaps
        rows = gap_rows(gaps, self._redactor) if gaps and "gaps" in self._names else None
        if self._judging is not None:
            self._judging.feed(parts)
        return rows

    def rows(self, captures: Sequence[Capture]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the other tables at the end of the input, each with its name."""
        problems = {each.name: [str(damage) for damage in each.damage] for each in captures}
        if "files" in self._names:
            yield "files", self._files.rows(problems)
        if self._judging is None:
            return
        self._judging.close(self._last_ns)
        yield from verdict_rows(self._judging, self._names)
