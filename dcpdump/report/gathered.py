"""Gather the data of a page beside ledger and findings, in the same pass, in bounded memory."""

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.gather import Array
from dcpdump.batch.scan import DeferredRecord
from dcpdump.batch.statistics import Statistics
from dcpdump.batch.traffic_over_time import Axis, Grid, Kind, TrafficOverTime
from dcpdump.net.event import CARVED
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Lost, Record
from dcpdump.redact import Redactor, redacted_direction
from dcpdump.render.conns import LostBytes
from dcpdump.spec import MESSAGES
from dcpdump.spec.opcodes import DCP_NOOP
from dcpdump.streams.frame_event import DocumentRun, Step, one_by_one
from dcpdump.streams.ledger import Ledger
from dcpdump.wire.frame import RawFrame

# -- kept frames --------------------------------------------------------------------------------------
# The first and the last frames that open and close connections and streams are kept as bytes; a frame with a finding is
# kept at once, while its batch is in memory.

#: How many opening and closing frames are kept, of the first and of the last.
_FIRST = _LAST = 4_000
_WANTED = 2_000
#: Longer frames are kept only on request.
_LONGEST = 16_384
#: The most bytes of the first, of the last and of requested frames, for each. A record's field counts as several.
_BYTES, _FIELD = 32 << 20, 400
_NAMES = """HELLO DCP_OPEN DCP_CONTROL DCP_ADD_STREAM DCP_CLOSE_STREAM DCP_STREAM_REQ DCP_STREAM_END
    DCP_GET_FAILOVER_LOG DCP_SET_VBUCKET_STATE""".split()
_TURNING = np.isin(np.arange(256), [opcode for opcode, message in MESSAGES.items() if message.name in _NAMES])
_Kept = tuple[RawFrame, DeferredRecord]
T = TypeVar("T")


class _Frames(Generic[T]):
    """Frames by their numbers, of a number and of a size at most: the first ones, or the latest."""

    def __init__(self, most: int, *, latest: bool) -> None:
        self._most, self._latest, self._bytes = most, latest, 0
        self._frames: OrderedDict[int, tuple[int, T]] = OrderedDict()

    def keep(self, number: int, size: int, frame: T) -> bool:
        """Keep a frame of a size; return False where only the first ones are kept, and it is not among these."""
        if not self._latest and (len(self._frames) >= self._most or self._bytes + size > _BYTES):
            return False
        self._frames[number] = size, frame
        self._bytes += size
        while len(self._frames) > self._most or self._bytes > _BYTES:
            self._bytes -= self._frames.popitem(last=False)[1][0]
        return True

    def get(self, number: int) -> T | None:
        """Return a frame; None: it was not kept."""
        found = self._frames.get(number)
        return None if found is None else found[1]


class KeptFrames:
    """The frames kept for the page, from batches as they come; ``want`` keeps frames of the latest batches."""

    def __init__(self) -> None:
        self._batches: deque[Sequence[FrameBatch]] = deque(maxlen=2)
        self._wanted = _Frames[Record](_WANTED, latest=False)
        self._first = _Frames[_Kept](_FIRST, latest=False)
        self._last, self._noops = _Frames[_Kept](_LAST, latest=True), _Frames[_Kept](_WANTED, latest=True)

    def feed(self, batches: Sequence[FrameBatch]) -> None:
        """Keep frames of the next batches."""
        self._batches.append(batches)
        for batch in batches:
            opcodes = batch.header.opcode
            short = batch.length <= _LONGEST
            for row in np.flatnonzero(_TURNING[opcodes] & short).tolist():
                frame = batch.first + row, int(batch.length[row]), _kept(batch, row)
                if not self._first.keep(*frame):
                    self._last.keep(*frame)
            for row in np.flatnonzero((opcodes == DCP_NOOP) & short)[-_WANTED:].tolist():
                self._noops.keep(batch.first + row, int(batch.length[row]), _kept(batch, row))

    def want(self, number: int) -> None:
        """Keep a frame, if it is in the latest batches."""
        if self._wanted.get(number) is not None:
            return
        for batch in chain(*self._batches):
            if batch.first <= number < batch.first + len(batch):
                record = batch.record(number - batch.first)
                size = len(record.frame.raw.data) + _FIELD * len(record.frame.fields)
                self._wanted.keep(number, size, record)

    def forget_parts(self) -> None:
        """Forget the batches, once none of their frames can be requested."""
        self._batches.clear()

    def frames(self, numbers: Iterable[int]) -> dict[int, Record]:
        """Return the records of those frames that were kept, in the order requested."""
        out: dict[int, Record] = {}
        for number in numbers:
            record = self._wanted.get(number)
            if record is None:
                kept = self._first.get(number) or self._last.get(number) or self._noops.get(number)
                record = None if kept is None else kept[1].record(kept[0])
            if record is not None:
                out[number] = record
        return out


def _kept(batch: FrameBatch, row: int) -> _Kept:
    """Return the bytes of a frame, and the state that its record needs."""
    direction = batch.directions[int(batch.direction[row])]
    known = batch.records.get(row)
    vbucket, asked = (
        (int(batch.header.vbucket_or_status[row]), None) if known is None else (known.vbucket, known.request)
    )
    origin = direction.connection, direction.side, direction.src, direction.dst
    return batch.raw(row), DeferredRecord(batch.first + row, vbucket, asked, *origin, False)


#: How many gaps are kept; further ones are only counted.
_GAPS = 10_000
#: How many levels are put into the grids at once.
_PENDING = 20_000


class Levels:
    """The outstanding bytes of flow control over time: the largest of each step, and the last.

    ``note`` each change of a level, in any order of connections; ``line`` then returns the steps. ``axis``: it covers
    their times.
    """

    def __init__(self, axis: Axis) -> None:
        self.rows: dict[int, int] = {}  #: by connection number
        self._most, self._last = Grid(Kind.MOST, dtype="i8"), Grid(Kind.LAST, dtype="i8")
        self._axis = axis
        self._axis.grids += [self._most, self._last]
        self._pending: list[tuple[int, int, int]] = []

    def note(self, connection: int, ts_ns: int, level: int) -> None:
        """Note the level of a connection at a time."""
        self._pending.append((self.rows.setdefault(connection, len(self.rows)), ts_ns, level + 1))
        if len(self._pending) >= _PENDING:
            self.flush()

    def is_one_step(self, first_ns: int, last_ns: int) -> bool:
        """Return whether two times are in one step, as they stay when steps double."""
        first, last = self._axis.steps(np.array((first_ns, last_ns)))
        return bool(first == last)

    def flush(self) -> None:
        """Put pending levels into the grids."""
        if self._axis.origin_ns is None or not self._pending:  # the pictures begin later: with the last level of each
            self._pending = [*{each[0]: each for each in self._pending}.values()]
            return
        rows, times, levels = np.array(self._pending, np.int64).T
        self._pending.clear()
        for grid, noted in ((self._most, times >= self._axis.origin_ns), (self._last, slice(None))):
            grid.reserve(len(self.rows))
            grid.put(rows[noted], self._axis.steps(times[noted]), levels[noted])

    def line(self, connection: int) -> Array:
        """Return the largest level of each step; without a change, that of the step before."""
        self.flush()
        used, row = self._axis.used, self.rows[connection]
        most, last = (grid.cells[row, :used] for grid in (self._most, self._last))
        there = np.maximum.accumulate(np.where(last > 0, np.arange(used), -1))
        before = np.concatenate(([0], np.where(there >= 0, last[np.maximum(there, 0)], 0)[:-1]))
        level = np.maximum(np.maximum(most, last), before)
        return np.where(level > 0, level - np.minimum(level, 1), 0)


#: How many rows a power of ten has, from a microsecond on.
PER_DECADE = 12
DECADES = 9
_SLOWEST = 50


class AnswerTime(NamedTuple):
    """A response, and its latency."""

    latency_ns: int
    ts_ns: int
    frame: int
    asked: int  #: the number of the request


class Latencies:
    """The latencies of responses, by opcode: counts by step and level, and the slowest. ``axis``: it covers them."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self.grids: dict[int, Grid] = {}
        self.slowest: dict[int, list[AnswerTime]] = {}

    def feed(self, batch: FrameBatch, rows: set[int] | None = None) -> None:
        """Add the responses of a batch, or of some of its rows."""
        found: dict[int, list[AnswerTime]] = {}
        for row, record in batch.records.items():
            asked, ts = record.request, int(batch.ts_ns[row])
            if asked is None or asked.ts_ns is None or ts == NO_TIME or ts < asked.ts_ns:
                continue
            if rows is None or row in rows:
                answer = AnswerTime(ts - asked.ts_ns, ts, batch.first + row, asked.frame)
                found.setdefault(int(batch.header.opcode[row]), []).append(answer)
        for opcode, answers in found.items():
            self._put(opcode, answers)

    def _put(self, opcode: int, answers: list[AnswerTime]) -> None:
        times = np.array([answer.ts_ns for answer in answers], np.int64)
        grid = self.grids.get(opcode)
        if grid is None:
            grid = self.grids[opcode] = Grid(Kind.SUM)
            grid.reserve(PER_DECADE * DECADES)
            self._axis.grids.append(grid)
        rows = level(np.array([answer.latency_ns for answer in answers], np.int64))
        grid.put(rows, self._axis.steps(times), np.ones(len(answers), np.int64))
        self.slowest[opcode] = heapq.nlargest(_SLOWEST, [*self.slowest.get(opcode, []), *answers])

    def cells(self, opcode: int) -> Array:
        """Return counts of responses by level and step: a row for each level."""
        return self.grids[opcode].cells[: PER_DECADE * DECADES, : self._axis.used]


def level(latency_ns: Array) -> Array:
    """Return the rows of latencies."""
    powers = np.log10(np.maximum(latency_ns, 1000) / 1000) * PER_DECADE
    return np.minimum(powers.astype(np.int64), PER_DECADE * DECADES - 1)


class Gathered:
    """All data gathered for a page: from each block's batches and gaps, then from each step of the ledger."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor
        self.traffic = TrafficOverTime()
        self.statistics = Statistics()
        self.levels, self.latencies = Levels(self.traffic.axis), Latencies(self.traffic.axis)
        self.frames = KeptFrames()
        self.gaps: list[LostBytes] = []
        self.gap_count = 0  #: with those beyond those kept
        self.since_ns: int | None = None  #: earlier frames are not in the pictures

    def consume(self, batches: Sequence[FrameBatch], gaps: Sequence[Lost]) -> None:
        """Add the batches and gaps of a block."""
        for lost, gap in ((each, gap) for each in gaps for gap in each.sent if gap.reason != CARVED):
            self.gap_count += 1
            if len(self.gaps) < _GAPS:
                self.gaps.append((redacted_direction(lost.direction, self._redactor), lost.gap.offset, gap))
        self.frames.feed(batches)
        for batch in batches:
            rows = None if self.since_ns is None else np.flatnonzero(batch.ts_ns >= max(self.since_ns, NO_TIME + 1))
            self.traffic.feed(batch, rows)
            self.statistics.feed(batch, range(len(batch)) if rows is None else rows.tolist())
            self.latencies.feed(batch, None if rows is None else set(rows.tolist()))

    def learnt(self, step: Step, ledger: Ledger) -> None:
        """Note the outstanding bytes of flow control after a step of the ledger."""
        connection = ledger.connections.get(step.connection)
        if connection is None or connection.window.size is None or not connection.window.complete:
            return
        if not self.traffic.has_row(step.connection):
            return  # it has no picture of its own
        level = connection.window.outstanding
        if isinstance(step, DocumentRun) and self.levels.is_one_step(step.first_ns, step.last_ns):
            self.levels.note(step.connection, step.last_ns, level)
            return
        frames = one_by_one(step)  # or else the picture would depend on where runs begin and end: at borders of blocks
        level -= sum(frame.length for frame in frames)
        for frame in frames:
            level += frame.length
            if frame.ts_ns is not None:
                self.levels.note(step.connection, frame.ts_ns, level)
