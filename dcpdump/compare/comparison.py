"""Compare two captures: connections, clocks, streams and frames, with the evidence of each difference."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from dcpdump.compare.capture_rows import HAS_SEQNO, NOT_WHOLE, CaptureRows
from dcpdump.compare.pairing import Differences, Pair, Unmatched, Way, compared, pairs
from dcpdump.startup import dataclass

_ROWS = 4096


class ClockOffset(NamedTuple):
    """How far B's clock is ahead of A's, in ns.

    ``spread``: half of the round trip between the two points of capture, since its division into the two ways cannot be
    known. ``a_first``: direction 0 (of A) passes A before B. ``frames``: the evidence, the lower number of frames of
    both directions.
    """

    offset: int
    spread: int
    a_first: bool
    frames: int


class Latency(NamedTuple):
    """How long frames of a direction took from one point of capture to the other, in ns."""

    median: int
    p99: int


def clock(there: Differences | None, back: Differences | None) -> ClockOffset | None:
    """Return the clock offset from the delays of both directions in B; None if one has no frame in both captures.

    The delay in B is offset plus latency in the direction that passes A first, offset less latency in the other.
    """
    if there is None or back is None:
        return None
    offset, half = (there.p50 + back.p50) // 2, (there.p50 - back.p50) // 2
    return ClockOffset(offset, abs(half), half >= 0, min(there.frames, back.frames))


def latency(later: Differences, found: ClockOffset, direction: int) -> Latency:
    """Return the latency of a direction of A."""
    if found.a_first is (direction == 0):
        return Latency(later.p50 - found.offset, later.p99 - found.offset)
    return Latency(found.offset - later.p50, found.offset - later.p1)


class Absence(Enum):
    """Why a frame is in one capture only, as far as TCP shows."""

    UNACKNOWLEDGED = "unacknowledged"
    LOST = "lost"
    BEFORE = "before"
    AFTER = "after"
    OTHERWISE = "otherwise"
    LEFT_OUT = "left-out"


class OnlyFrame(NamedTuple):
    """A frame in only one capture. ``of``: 0 for A, 1 for B."""

    of: int
    direction_id: int
    row: Any
    cause: Absence
    lost: int = 0  #: bytes missing there in the other capture


class ChangedFrame(NamedTuple):
    """A message in both captures, with different bytes."""

    a: Any
    b: Any
    differs: tuple[str, ...]  #: names of header fields; key and value are the body

    @property
    def incomplete_in(self) -> str:
        """Return whether A, and whether B, lacks bytes of it."""
        return "".join(name for name, row in (("A", self.a), ("B", self.b)) if row["marks"] & NOT_WHOLE)


class LastSeqno(NamedTuple):
    """The different last seqnos of a stream in both captures; None: there is none."""

    vbucket: int
    stream_id: int
    a: int | None
    b: int | None


@dataclass(frozen=True, slots=True)
class Linked:
    """A connection in both captures, with directions as in A."""

    pair: Pair
    ways: tuple[Way, Way]
    clock: ClockOffset | None

    @property
    def differs(self) -> bool:
        """Return whether any frame differs."""
        return any(way.differs for way in self.ways)


class Comparison:
    """The comparison of two captures: their connections in pairs, the directions of each compared."""

    def __init__(self, a: CaptureRows, b: CaptureRows) -> None:
        self.sides, self.linked = (a, b), list[Linked]()
        for pair in pairs(a, b):
            ways = 2 * pair.a, 2 * pair.a + 1
            there, back = (compared(a, b, each, pair.direction_in_b(each)) for each in ways)
            self.linked.append(Linked(pair, (there, back), clock(there.later, back.later)))
        #: connections only in A, and only in B
        self.unpaired = (
            sorted(set(a.connections) - {each.pair.a for each in self.linked}),
            sorted(set(b.connections) - {each.pair.b for each in self.linked}),
        )

    @property
    def differs(self) -> bool:
        """Return whether the captures differ in a frame."""
        return any(self.unpaired) or any(each.differs for each in self.linked)

    @property
    def unrelated(self) -> bool:
        """Return whether both captures have connections, but none in common."""
        return not self.linked and all(self.unpaired)

    def last_seqnos(self, way: Way) -> list[LastSeqno]:
        """Return the streams of a direction with different last seqnos, by vbucket."""
        a, b = self.sides[0].last_seqno.get(way.a, {}), self.sides[1].last_seqno.get(way.b, {})
        return [
            LastSeqno(*key, a.get(key), b.get(key)) for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)
        ]

    def only(self, way: Way, of: int) -> Iterator[OnlyFrame]:
        """Yield the frames of a direction that are only in A (0) or B (1), in order."""
        rows, runs = way.only[of]
        judge = _Judge(self.sides, way, of)
        for at in range(0, len(rows), _ROWS):
            table = self.sides[of].chosen(judge.mine, rows[at : at + _ROWS])
            for row, number in zip(table, runs[at : at + _ROWS].tolist(), strict=True):
                yield OnlyFrame(of, judge.mine, row, *judge.cause(row, Unmatched(*way.runs[number].tolist()), number))

    def changed(self, way: Way) -> Iterator[ChangedFrame]:
        """Yield the messages of a direction that are in both captures with different bytes."""
        a, b = self.sides
        for row_a, row_b in way.changed.tolist():
            mine, other = a.rows(way.a, row_a, row_a + 1)[0], b.rows(way.b, row_b, row_b + 1)[0]
            differs = (name for name in ("opaque", "cas", "datatype", "length", "body") if mine[name] != other[name])
            yield ChangedFrame(mine, other, tuple(differs))


class _Judge:
    """A judge of why frames of a direction are in one capture only, by TCP."""

    def __init__(self, sides: tuple[CaptureRows, CaptureRows], way: Way, of: int) -> None:
        self._other, self._of = sides[1 - of], of
        self.mine, self._theirs = (way.a, way.b) if of == 0 else (way.b, way.a)
        self._acknowledged = sides[of].acknowledged(self.mine)
        self._count = self._other.counts.get(self._theirs, 0)
        self._losses = self._other.losses.get(self._theirs, [])
        self._run: tuple[int, Absence, int] = (-1, Absence.LEFT_OUT, 0)

    def cause(self, row: Any, run: Unmatched, number: int) -> tuple[Absence, int]:
        """Return why a frame is not in the other capture, and how many bytes are missing there."""
        _, stop = self._there(run)
        end = int(row["offset"]) + int(row["length"])
        if stop == self._count and self._acknowledged is not None and end > self._acknowledged:
            return Absence.UNACKNOWLEDGED, 0
        if self._run[0] != number:
            self._run = (number, *self._of_run(run))
        return self._run[1:]

    def _there(self, run: Unmatched) -> tuple[int, int]:
        """Return the other capture's rows of a run."""
        return (run.b_start, run.b_stop) if self._of == 0 else (run.a_start, run.a_stop)

    def _of_run(self, run: Unmatched) -> tuple[Absence, int]:
        start, stop = self._there(run)
        before = self._other.rows(self._theirs, start - 1, start) if start else None
        behind = self._other.rows(self._theirs, stop, stop + 1) if stop < self._count else None
        begin = 0 if before is None else int(before[0]["offset"])
        end = 0 if before is None else begin + int(before[0]["length"])
        high = None if behind is None else int(behind[0]["offset"])
        lost = [
            size
            for offset, length, size in self._losses
            if (high is None or offset <= high)
            # A gap of unknown length may begin inside the frame before and go beyond it.
            and (before is None or (offset + length >= end if length else offset > begin))
        ]
        if lost:
            return Absence.LOST, sum(lost)
        if start < stop:
            return Absence.OTHERWISE, 0
        if behind is None:
            return Absence.AFTER, 0
        theirs = self._other.directions.get(self._theirs)
        return (Absence.BEFORE if before is None and theirs is not None and not theirs.syn else Absence.LEFT_OUT), 0


def seqno_of(row: Any) -> int | None:
    """Return the seqno of a row, where it has one."""
    return int(row["seqno"]) if row["marks"] & HAS_SEQNO else None
