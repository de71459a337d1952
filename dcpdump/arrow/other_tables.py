"""Make the rows of the tables beside frames: what a reading finds out of streams, losses and files."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.arrow.column_builder import batch_of
from dcpdump.arrow.verdicts import stream_rows, verdict_rows
from dcpdump.batch.block import Block
from dcpdump.batch.dissector import BlockDissector
from dcpdump.batch.ends import Lost
from dcpdump.batch.part import Part
from dcpdump.capture import Capture
from dcpdump.check.checking import Judging
from dcpdump.net.packet import NO_TIME
from dcpdump.redact import Redactor
from dcpdump.streams.dissection import Watching
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge

# -- rows of ``files`` and ``gaps``: what each capture has, and which bytes were lost -----------------


def gap_rows(lost: Iterable[Lost], redactor: Redactor | None = None) -> pa.RecordBatch:
    """Return the rows of ``gaps``: what was skipped has none."""
    rows = [
        {
            "connection": ends.connection,
            "direction": ends.direction,
            "src": ends.src,
            "dst": ends.dst,
            "offset": each.gap.offset,
            "bytes": gap.length,
            "reason": gap.reason,
            "time": None if gap.seen.ts_ns is None else gap.seen.ts_ns // 1000,
            "time_ns": gap.seen.ts_ns,
            "packet": gap.seen.number,
            "file": gap.seen.file,
        }
        for each in lost
        for ends in (each.ends.redacted(redactor),)
        for gap in each.sent
    ]
    return batch_of(rows, schema.gaps())


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
        """Return the rows of ``files``; ``problems``: by file, what was found wrong with it."""
        rows = []
        for name, found in problems.items():
            count, first, last = self._seen.get(name, (0, None, None))
            rows.append(
                {
                    "file": name,
                    "size": os.path.getsize(name) if os.path.isfile(name) else None,
                    "packets": count,
                    "first": None if first is None else first // 1000,
                    "first_ns": first,
                    "last": None if last is None else last // 1000,
                    "last_ns": last,
                    "status": "damaged" if found else "ok",
                    "problem": "; ".join(found) or None,
                }
            )
        return batch_of(rows, schema.files())


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
