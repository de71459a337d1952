"""Index a chain: read it once, make checkpoints, and make the rows of all tables but ``frames``."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dcpdump.arrow.column_builder import batch_of
from dcpdump.arrow.other_tables import JUDGED, OtherTables
from dcpdump.arrow.other_tables import files as files_schema
from dcpdump.batch.block import Block
from dcpdump.batch.dissector import Picker
from dcpdump.batch.read_blocks import TimelineBlocks
from dcpdump.capture.file import Capture
from dcpdump.conversation import Missing
from dcpdump.errors import CaptureError
from dcpdump.filter.choices import NOTHING_WANTED
from dcpdump.spark.chain import Chain, ChainCheckpoint, ChainSpan, begun_in_time, index_row, opened
from dcpdump.spark.decoding import Options
from dcpdump.spark.output import Written
from dcpdump.startup import dataclass, field
from dcpdump.streams.dissection import Watching
from dcpdump.tls.secrets import Secrets

#: About how many bytes of packets are between two checkpoints.
DISTANCE = 64 * 1024 * 1024
#: The most bytes of a checkpoint: a larger one is postponed until fewer bytes wait.
LARGEST = 32 * 1024 * 1024
OK, DAMAGED, LATE, UNUSABLE = "ok", "damaged", "late", "unusable"
_LATE = "it came late: packets behind its own were decoded before, so what it alone has may be missing"


@dataclass(slots=True)
class Outcome:
    """The result of a task or a run: captured frames, missing and damaged bytes, and the files that count."""

    spans: list[ChainSpan] = field(default_factory=list)
    frames: int = 0
    lost: Missing = field(default_factory=Missing)  #: never captured
    skipped_bytes: int = 0  #: captured, but in no frame
    conflicts: int = 0  #: overlaps that disagree
    files: list[dict[str, Any]] = field(default_factory=list)  #: the rows of the table
    foreign: Counter[tuple[str, int]] = field(default_factory=Counter)  #: other protocols, by port
    key_log: bytes = b""  #: secrets of TLS, those in captures included
    written: list[Written] = field(default_factory=list)
    cut: int = 0  #: rows in which a value was cut
    left: dict[str, str] = field(default_factory=dict)  #: by chain, the file with its checkpoint, if more will follow

    @property
    def complete(self) -> bool:
        """Return whether nothing is missing and nothing is damaged."""
        hurt = self.lost.gaps or self.skipped_bytes or self.conflicts
        return not hurt and all(row["status"] == OK for row in self.files)

    def merge(self, other: "Outcome") -> None:
        """Add the result of another task."""
        self.spans += other.spans
        self.files += other.files
        self.frames += other.frames
        self.lost.merge(other.lost)
        self.skipped_bytes += other.skipped_bytes
        self.conflicts += other.conflicts
        self.foreign.update(other.foreign)
        self.key_log = b"\n".join(filter(None, (self.key_log, other.key_log)))
        self.written += other.written
        self.cut += other.cut
        self.left |= other.left


class Indexing:
    """The indexing of a chain: iterate over its ``rows``, then read ``indexed``.

    ``tables``: the requested ones; rows of ``index`` and ``files`` are always made.
    """

    def __init__(self, chain: Chain, options: Options, tables: Collection[str], distance: int = DISTANCE) -> None:
        self._chain, self._options, self._tables, self._distance = chain, options, {*tables, "files"}, distance
        self._evictions = self._rows = 0
        self._due = distance  # bytes of a span after which a checkpoint is made
        self.indexed = Outcome()

    def rows(
        self, secrets: Secrets | None = None, begin: ChainCheckpoint | None = None, *, end: bool = True
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield rows, as pairs of a table's name and a batch; those of ``index`` in order.

        ``begin``: the checkpoint ``left`` by an earlier run, after which these captures come; not ``end``: more
        captures will follow.
        """
        options = self._options
        how: dict[str, Any] = {"limits": options.limits, "show_secrets": options.show_secrets, "secrets": secrets}
        dissection: Any = Picker(NOTHING_WANTED, **how) if JUDGED.isdisjoint(self._tables) else Watching(**how)
        self._begin = begin or ChainCheckpoint()  # the checkpoint at the beginning of the current span
        self._state = self._begin.packed()
        self._span = self._begun()  # the span so far
        self._from = self._begin, self._state
        if self._begin.dissection is not None:
            dissection.restore(self._begin.dissection)
        self._dissection, self._others = dissection, OtherTables(self._tables, dissection, options.redactor)
        captures, unusable = self._opened(secrets)
        timeline = TimelineBlocks(begun_in_time(list(captures.values())), size=options.block_bytes)
        for block in timeline:
            self._observe(block, timeline)
            for pieces in dissection.feed_block(block):
                yield from self._batches_of(pieces)
            if dissection.balance.evictions > self._evictions:
                self._begin_anew()
            if self._span.bytes >= self._due:
                yield from self._checkpoint(timeline, captures)
        if end:
            for pieces in dissection.close_blocks():
                yield from self._batches_of(pieces)
        dissection.absorb()
        yield "index", self._row(ends=end)
        yield from self._rest(captures, unusable)
        if secrets is not None:
            self.indexed.key_log = secrets.key_log()

    def left(self) -> ChainCheckpoint:
        """Return the checkpoint at the end, from which the next captures continue."""
        begin = self._begin
        last_ns = _bounds(begin.last_ns, self._span.last_ns)[1]
        return ChainCheckpoint(self._dissection.state(), (), begin.spans + 1, begin.begins_ns, last_ns)

    def _opened(self, secrets: Secrets | None) -> tuple[dict[str, Capture], list[dict[str, Any]]]:
        """Open the captures at their headers; also return the rows of those that could not be opened."""
        found: dict[str, Capture] = {}
        unusable: list[dict[str, Any]] = []
        for path, *_ in self._chain.captures:
            try:
                found[path] = opened(path, salvage=self._options.salvage, secrets=secrets)
            except CaptureError as error:
                unusable.append({"file": path, "packets": 0, "status": UNUSABLE, "problem": error.what})
        return found, unusable

    def _observe(self, block: Block, timeline: TimelineBlocks) -> None:
        if self._begin.begins_ns is None and block.begins_ns is not None:
            self._begin = self._begin._replace(begins_ns=block.begins_ns)
            self._from = self._begin, self._state
        self._others.observe(block)
        begun = tuple(each[:2] for each in timeline.begun)
        timeline.begun.clear()
        more = self._begun()._replace(packets=len(block), bytes=len(block.data), begun=begun)
        if block.span is not None:
            more = more._replace(first_ns=block.span[0], last_ns=block.span[1])
        self._span = _joined([self._span, more])

    def _batches_of(self, pieces: Sequence[Any]) -> Iterator[tuple[str, pa.RecordBatch]]:
        yield from self._others.feed(pieces)
        self._dissection.gaps.clear()

    def _checkpoint(
        self, timeline: TimelineBlocks, captures: dict[str, Capture]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """End the span with a checkpoint, if the state is complete and not too large."""
        lanes = tuple(timeline.positions)
        # Entering a compressed file means decompressing all before; that must not take longer than decoding the span.
        if self._span.bytes < sum(
            each.at.offset for each in lanes if each.at is not None and captures[each.name].packed
        ):
            return
        self._due += self._distance // 4
        if not self._dissection.resumable or self._dissection.balance.pending_bytes > LARGEST:
            return
        checkpoint = self.left()._replace(lanes=lanes)
        state = checkpoint.packed()
        if len(state) <= LARGEST:
            yield "index", self._row(ends=False)
            self._begin, self._state, self._due = checkpoint, state, self._distance
            self._span = self._begun()

    def _begin_anew(self) -> None:
        """Join all spans so far to one.

        After memory was freed, frames depend on all that was held before, which a checkpoint does not have.
        """
        self._evictions = self._dissection.balance.evictions
        self._span = _joined([*self.indexed.spans, self._span])
        self._begin, self._state = self._from
        self.indexed.spans.clear()
        self._due = self._span.bytes + self._distance

    def _begun(self) -> ChainSpan:
        """Return the span that begins at the checkpoint, before its first packet."""
        begin, first = self._begin, 1 if self._begin.dissection is None else self._begin.dissection.first
        lanes = tuple(each.name for each in begin.lanes)
        return ChainSpan(self._chain.name, begin.spans, first, 0, 0, 0, None, None, None, lanes, (), ends=False)

    def _row(self, *, ends: bool) -> pa.RecordBatch:
        """Return the row of the span that ends here."""
        span, begins_ns = self._span, self._begin.begins_ns
        frames = self._dissection.next_frame - span.first
        span = span._replace(frames=frames, begins_ns=begins_ns, ends=ends, row=self._rows)
        self._rows += 1
        self.indexed.spans.append(span)
        return index_row(span, self._state)

    def _rest(
        self, captures: dict[str, Capture], unusable: list[dict[str, Any]]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of the tables that are made at the end, and complete the summary."""
        dissection, found = self._dissection, self.indexed
        sizes, since_ns = {each.path: each.size for each in self._chain.captures}, self._from[0].last_ns
        for name, batch in self._others.rows(list(captures.values())):
            if name == "files":
                rows = sorted([*batch.to_pylist(), *unusable], key=lambda row: str(row["file"]))
                for row in rows:
                    row["size"] = sizes.get(row["file"], row.get("size"))
                    if since_ns is not None and row["status"] == OK and (row["first_ns"] or since_ns) < since_ns:
                        row |= {"status": LATE, "problem": _LATE}
                found.files, batch = rows, batch_of(rows, files_schema())
            yield name, batch
        tally = dissection.tally
        found.frames, found.lost, found.skipped_bytes = tally.frames, tally.lost, tally.skipped_bytes
        found.conflicts, found.foreign = dissection.balance.conflicts, tally.foreign


def _joined(spans: Sequence[ChainSpan]) -> ChainSpan:
    """Return consecutive spans as one, which begins as the first does."""
    first_ns, last_ns = _bounds(*(each.first_ns for each in spans), *(each.last_ns for each in spans))
    packets, size = sum(each.packets for each in spans), sum(each.bytes for each in spans)
    begun = tuple(capture for each in spans for capture in each.begun)
    return spans[0]._replace(packets=packets, bytes=size, first_ns=first_ns, last_ns=last_ns, begun=begun)


def _bounds(*times: int | None) -> tuple[int | None, int | None]:
    """Return the earliest and the latest of the known times."""
    known = [time for time in times if time is not None]
    return min(known, default=None), max(known, default=None)
