"""Put pieces of one direction in order by their offsets. Knows no sequence numbers and no segments.

Of overlapping bytes the first to arrive count. A hole is waited for as long as it may still be filled; then it becomes
a Gap with a reason. The bytes kept meanwhile are bounded, and the time is linear in the bytes that arrive.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from dcpdump.net.event import (
    CARVED,
    END,
    EVICTED,
    EXCERPT,
    LOST_BY_CAPTURE,
    NOT_ACKED,
    SNAPLEN,
    Bytes,
    BytesRun,
    Conflict,
    End,
    Event,
    Gap,
    Seen,
    StreamEvent,
)
from dcpdump.net.limits import MILLISECOND, Limits
from dcpdump.net.packet import NO_TIME

if TYPE_CHECKING:
    from mypy_extensions import i64

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row: Final = tuple.__new__

SeenState = tuple[int, int | None, str, int]  #: number and time of a packet, its file, its interface
#: A waiting segment: its offset; how many bytes had arrived with it, which also orders arrivals; its bytes; the end of
#: the part that the snap length cut off; its time; its packet.
_WaitingSegment = tuple[int, int, bytes, int, int, Seen]
WaitingState = tuple[int, int, bytes, int, int, SeenState]
#: Since when the first hole has counted as lost (time, bytes arrived), and when it is given up.
PatienceState = tuple[tuple[int, int] | None, int | None]


#: Kinds of refusal kept apart; a hostile capture could name 65,536 ethertypes.
_REASONS = 64
#: Distances of repeats that are kept apart.
_DISTANCES = 256


@dataclass(slots=True)
class Counters:
    """Counters. Every payload byte is counted once by what became of it: these add up to ``payload_bytes``."""

    packets: int = 0
    tcp_packets: int = 0
    connections: int = 0
    payload_bytes: int = 0  #: captured TCP payload
    delivered_bytes: int = 0  #: handed on, in order, once
    pending_bytes: int = 0  #: waiting behind a hole
    retransmitted_bytes: int = 0  #: bytes already had, sent again
    duplicate_bytes: int = 0  #: the same packet captured twice
    keepalive_bytes: int = 0  #: one garbage byte each, ignored
    late_bytes: int = 0  #: arrived after their offset was given up, or lie before the start of a late-joined stream
    stray_bytes: int = 0  #: far outside the stream, or carried by a reset
    conflicts: int = 0  #: overlaps that disagree
    evictions: int = 0  #: directions and connections that gave up memory
    closed: int = 0  #: connections among them: their packets may go on, as a connection joined late
    not_understood: dict[str, int] = field(default_factory=dict)  #: packets without readable TCP, by reason

    repeats: dict[int, int] = field(default_factory=dict)
    #: segments that were captured again unchanged: after how many ms → bytes

    def repeat(self, distance_ms: int, length: int) -> None:
        """Count a segment that was captured again unchanged."""
        if distance_ms in self.repeats or len(self.repeats) < _DISTANCES:
            self.repeats[distance_ms] = self.repeats.get(distance_ms, 0) + length

    @property
    def mostly_repeated(self) -> bool:
        """Return whether as much came again as in a capture that has all packets twice."""
        return bool(self.retransmitted_bytes) and self.retransmitted_bytes * 5 >= self.payload_bytes * 2

    @property
    def offset_ms(self) -> int | None:
        """Return the difference of two clocks by which all packets were captured twice; None without evidence of that.

        TCP retransmits some segments, after different times. Two captures of a connection in one file have each segment
        twice, and at the same distance: within 2 ms, since the path between the two points takes time too.
        """
        if not self.repeats or not self.mostly_repeated:
            return None
        near = {at: sum(self.repeats.get(at + more, 0) for more in range(-2, 3)) for at in self.repeats}
        most = max(near, key=lambda at: (near[at], self.repeats[at]))
        return most if near[most] * 10 >= self.retransmitted_bytes * 9 else None

    def refuse(self, reason: str) -> None:
        """Count a packet without readable TCP."""
        if reason not in self.not_understood and len(self.not_understood) >= _REASONS:
            reason = "other reasons"
        self.not_understood[reason] = self.not_understood.get(reason, 0) + 1


#: Bytes of memory for one piece, beside its own bytes.
OVERHEAD: Final = 128


class DeliveredPiece(NamedTuple):
    """Delivered bytes, and their time."""

    offset: int
    data: bytes
    ts_ns: int | None


class Difference(NamedTuple):
    """The first offset at which repeated bytes differed."""

    offset: int
    kept: bytes
    refused: bytes


class RetransmitWindow:
    """Delivered pieces in the order of their offsets. Each has an entry in every list."""

    __slots__ = ("_limit", "_offsets", "_pieces", "_times", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._offsets: list[int] = []
        self._pieces: list[bytes] = []
        self._times: list[int | None] = []
        self.size = 0

    def add(self, offset: int, data: bytes, ts_ns: int | None) -> None:
        """Remember a delivered piece, and forget the older half when there is too much."""
        self._offsets.append(offset)
        self._pieces.append(data)
        self._times.append(ts_ns)
        self.size += len(data) + OVERHEAD
        if self.size > self._limit:
            self._forget()

    def clear(self) -> None:
        """Forget all pieces."""
        self._offsets.clear()
        self._pieces.clear()
        self._times.clear()
        self.size = 0

    def find(self, offset: int, data: bytes) -> DeliveredPiece | None:
        """Return the piece with exactly this offset and these bytes; else None."""
        at = bisect_right(self._offsets, offset) - 1
        if at < 0 or self._offsets[at] != offset or self._pieces[at] != data:
            return None
        return DeliveredPiece(offset, self._pieces[at], self._times[at])

    def compare(self, start: int, data: bytes) -> tuple[Difference | None, int]:
        """Return the first difference from the delivered bytes, and how many of the bytes were never delivered.

        Only remembered bytes can be compared; older ones count as delivered.
        """
        offsets, end = self._offsets, start + len(data)
        if not offsets:
            return None, 0
        absent, at = 0, max(start, offsets[0])
        difference = None
        for index in range(max(bisect_right(offsets, start) - 1, 0), len(offsets)):
            offset, kept = offsets[index], self._pieces[index]
            if offset >= end:
                break
            stop = min(end, offset + len(kept))
            if offset > at:
                absent += offset - at
                at = offset
            if stop > at:
                old, new = kept[at - offset : stop - offset], data[at - start : stop - start]
                if old != new and difference is None:
                    same = next(i for i in range(len(new)) if old[i] != new[i])
                    difference = Difference(at + same, old[same : same + EXCERPT], new[same : same + EXCERPT])
                at = stop
        return difference, absent + max(end - at, 0)

    def _forget(self) -> None:
        pieces = self._pieces
        size: i64 = self.size
        enough: i64 = self._limit // 2
        drop: i64 = 0
        while size > enough and drop < len(pieces) - 1:
            size -= len(pieces[drop]) + OVERHEAD
            drop += 1
        self.size = size
        del self._offsets[:drop], pieces[:drop], self._times[:drop]


def _captured_twice(then: int | None, now: int | None, limits: Limits) -> bool:
    """Return whether the same bytes came again too soon for a retransmission."""
    return then is not None and now is not None and abs(now - then) <= limits.duplicate_ns


def _is_twin(balance: Counters, history: RetransmitWindow, start: int, data: bytes, seen: Seen, limits: Limits) -> bool:
    """Return whether exactly this was delivered a moment ago; if it was earlier, count how long ago."""
    piece = history.find(start, data)
    if piece is None or _captured_twice(piece.ts_ns, seen.ts_ns, limits):
        return piece is not None
    if piece.ts_ns is not None and seen.ts_ns is not None:
        balance.repeat(round((seen.ts_ns - piece.ts_ns) / MILLISECOND), len(data))
    return False


def _note_delivered(
    balance: Counters, history: RetransmitWindow, start: int, data: bytes, seen: Seen, *, twin: bool
) -> list[Event]:
    """Count bytes that were delivered before, and compare both."""
    if not data:
        return []
    if twin:
        balance.duplicate_bytes += len(data)
        return []
    early = min(max(-start, 0), len(data))
    difference, absent = history.compare(start + early, data[early:])
    balance.late_bytes += early + absent
    balance.retransmitted_bytes += len(data) - early - absent
    return [] if difference is None else [conflict(balance, difference, seen)]


def _note_waiting(
    balance: Counters, limits: Limits, start: int, data: bytes, held: tuple[bytes, int], seen: Seen
) -> list[Event]:
    """Count bytes of which ``held`` wait already, with their time, and compare both."""
    if held[0] == data and _captured_twice(held[1], seen.ts_ns, limits):
        balance.duplicate_bytes += len(data)
        return []
    balance.retransmitted_bytes += len(data)
    probe = RetransmitWindow(len(held[0]) + OVERHEAD)
    probe.add(start, held[0], None)
    difference, _ = probe.compare(start, data)
    return [] if difference is None else [conflict(balance, difference, seen)]


def conflict(balance: Counters, difference: Difference, seen: Seen) -> Conflict:
    """Count an overlap that disagrees, and return its event."""
    balance.conflicts += 1
    return Conflict(*difference, seen)


class _WaitingRun:
    """Waiting segments that arrived one after another, each where the one before it ends: mostly all after a hole.

    The first one's time is ``since``, the others' are those of their packets. Only a run of one segment may have been
    cut off. All are from one file and interface.
    """

    __slots__ = (
        *("arrived", "cut", "end", "file", "indexed", "indexed_to", "interface"),
        *("numbers", "order", "pieces", "since", "start", "times"),
    )

    def __init__(self, start: "i64", order: "i64", data: bytes, cut: "i64", since: int, seen: Seen) -> None:
        self.start = start
        self.end: i64 = start + len(data)
        self.cut = cut  #: the end of the part of a single segment that the snap length cut off
        self.order = order  #: of the first
        self.arrived = order  #: of the last
        self.since = since
        number, ts_ns, self.file, self.interface = seen
        self.pieces = [data]
        self.numbers = [number]
        self.times = [NO_TIME if ts_ns is None else ts_ns]
        self.indexed: i64 = 0  #: how many of the segments can be found by their offsets,
        self.indexed_to = start  #: and where they end

    @property
    def segments(self) -> list[_WaitingSegment]:
        """Return the segments one by one."""
        start, order, out = self.start, self.order - len(self.pieces[0]), []
        for each, data in enumerate(self.pieces):
            order += len(data)
            end = start + len(data)
            cut = self.cut if end == self.end else end
            out.append((start, order, data, cut, self.arrival(each), self._packet(each)))
            start = end
        return out

    @property
    def last_packet(self) -> Seen:
        """Return the packet that brought the last segment."""
        return self._packet(-1)

    def _packet(self, at: int) -> Seen:
        ts_ns = self.times[at]
        return Seen(self.numbers[at], None if ts_ns == NO_TIME else ts_ns, self.file, self.interface)

    def arrival(self, at: int) -> int:
        """Return when a segment arrived."""
        ts_ns = self.times[at]
        return self.since if ts_ns == NO_TIME else ts_ns

    def told(self, seen: Seen | None, joined_late: bool) -> StreamEvent:
        """Return the bytes as events. ``seen``: the packet that completed all; None: each came with its own packet."""
        count = len(self.pieces)
        if count == 1:
            return Bytes(self.start, self.pieces[0], self.last_packet if seen is None else seen, joined_late)
        if seen is None:
            packets = self.numbers, self.times, self.file, self.interface
        else:
            ts_ns = NO_TIME if seen.ts_ns is None else seen.ts_ns
            packets = [seen.number] * count, [ts_ns] * count, seen.file, seen.interface
        return BytesRun(self.start, self.pieces, *packets, joined_late)


class _ReorderQueue:
    """A heap of the waiting runs, by offset. ``size`` is their bytes."""

    __slots__ = ("_at", "_count", "_heap", "_last", "_unindexed", "size")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _WaitingRun]] = []  # by offset, then by arrival
        self._last: _WaitingRun | None = None  # the run that was added to last
        self._at: dict[int, tuple[bytes, int]] = {}  # offset → bytes, arrival; without those of:
        self._unindexed: list[_WaitingRun] = []  # by offset
        self._count: i64 = 0
        self.size: i64 = 0

    def __len__(self) -> int:
        return self._count

    @property
    def cost(self) -> int:
        """Return how many bytes of memory the queue takes."""
        return self.size + 2 * OVERHEAD * self._count

    def state(self) -> list[WaitingState]:
        """Return the segments as plain values, by offset and arrival, for ``restore``."""
        waiting = [each for _, _, run in self._heap for each in run.segments]
        return [(*each[:5], (*each[5],)) for each in sorted(waiting, key=itemgetter(0, 1))]

    def restore(self, state: list[WaitingState]) -> None:
        """Restore a state."""
        for start, order, data, cut, since, seen in state:
            self.add(start, order, data, cut - start - len(data), since, Seen(*seen))

    @property
    def first(self) -> _WaitingRun:
        """Return the first waiting run. Raises IndexError without one."""
        return self._heap[0][2]

    def at(self, start: int) -> tuple[bytes, int] | None:
        """Return the bytes of the waiting segment at an offset, and since when it waits."""
        for run in self._unindexed:
            for each in range(run.indexed, len(run.pieces)):
                data = run.pieces[each]
                self._at[run.indexed_to] = data, run.arrival(each)
                run.indexed_to += len(data)
            run.indexed = len(run.pieces)
        self._unindexed.clear()
        return self._at.get(start)

    def add(self, start: int, order: int, data: bytes, missing: int, now: int, seen: Seen) -> None:
        """Add a segment, ``missing`` bytes of which were cut off."""
        size = len(data)
        if not missing and now == seen[1] and self.grows(start, order - size, seen[2], seen[3]):
            self.append(data, seen[0], now)
            return
        self._last = run = _WaitingRun(start, order, data, start + size + missing, now, seen)
        self._unindexed.append(run)
        heappush(self._heap, (start, order, run))
        self._count += 1
        self.size += size

    def grows(self, start: int, arrived: int, file: str, interface: int) -> bool:
        """Return whether bytes from ``start`` on continue the latest arrival, after ``arrived`` bytes in all."""
        last = self._last
        if last is None or not last.end == last.cut == start or last.arrived != arrived:
            return False
        return last.file == file and last.interface == interface

    def append(self, data: bytes, number: int, ts_ns: int) -> None:
        """Add a complete segment after the last one added (see ``grows``)."""
        last, size = self._last, len(data)
        assert last is not None
        if last.indexed == len(last.pieces):
            self._unindexed.append(last)
        last.pieces.append(data)
        last.numbers.append(number)
        last.times.append(ts_ns)
        last.end = last.cut = last.end + size
        last.arrived += size
        self._count += 1
        self.size += size

    def shift(self, origin: int) -> None:
        """Count all offsets from ``origin``."""
        for _, _, run in self._heap:
            run.start, run.end, run.cut = run.start - origin, run.end - origin, run.cut - origin
            run.indexed_to -= origin
        self._heap = [(run.start, run.order, run) for _, _, run in self._heap]
        heapify(self._heap)
        self._at = {start - origin: held for start, held in self._at.items()}

    def sweep(
        self, offset: int, history: RetransmitWindow, balance: Counters, seen: Seen, joined_late: bool
    ) -> tuple[list[StreamEvent], int]:
        """Return all contiguous bytes from ``offset`` on, and the offset after them.

        Where waiting segments overlap, the first to arrive counts: ``active`` holds those that contain the next byte,
        by arrival. Each enters and leaves it once, so the time is n log n for any overlap. Bytes count as seen in the
        packet that brought them, or in the one that filled the hole before them.
        """
        out: list[StreamEvent] = []
        heap = self._heap
        active: list[tuple[int, int, bytes, int, int, Seen, list[int]]] = []  # the last: bytes delivered
        cut_until, newest, latest = 0, -1, seen
        while True:
            while not active and heap and heap[0][0] == offset and self._stands_alone(heap):
                # Nearly always there is no overlap, and nothing was cut off.
                run = self._pop_run()
                if run.order > newest:
                    newest, latest = run.arrived, run.last_packet
                    out.append(run.told(None, joined_late))
                else:
                    out.append(run.told(latest, joined_late))
                self._release(run, history, balance)
                offset = run.end
            while heap and heap[0][0] <= offset:
                start, order, data, cut, since, arrived = self._pop()
                heappush(active, (order, start, data, cut, since, arrived, [0]))
            while active and active[0][1] + len(active[0][2]) <= offset:
                _, start, data, cut, _, _, used = heappop(active)
                cut_until = max(cut_until, cut)
                difference = self._retire(start, data, used[0], history, balance)
                if difference is not None:
                    out.append(conflict(balance, difference, seen))
            if active:
                order, start, data, _, since, arrived, used = active[0]
                limit = start + len(data)
                while heap and heap[0][0] < limit:
                    if heap[0][1] < order:
                        limit = heap[0][0]
                        break
                    later, arrival, shadowed, cut, when, whence = self._pop()
                    heappush(active, (arrival, later, shadowed, cut, when, whence, [0]))
                chunk = data[offset - start : limit - start]
                history.add(offset, chunk, since)
                if order > newest:
                    newest, latest = order, arrived
                out.append(Bytes(offset, chunk, latest, joined_late))
                used[0] += len(chunk)
                offset = limit
            elif offset < cut_until:
                goal = min(cut_until, heap[0][0]) if heap else cut_until
                out.append(Gap(offset, goal - offset, SNAPLEN, seen))
                offset = goal
            else:
                return out, offset

    def _release(self, run: _WaitingRun, history: RetransmitWindow, balance: Counters) -> None:
        """Count a run that was delivered completely, and remember it."""
        at, size = run.start, run.end - run.start
        self._count -= len(run.pieces)
        self.size -= size
        balance.pending_bytes -= size
        balance.delivered_bytes += size
        for each, data in enumerate(run.pieces):
            history.add(at, data, run.arrival(each))
            at += len(data)

    def _retire(
        self, start: int, data: bytes, used: int, history: RetransmitWindow, balance: Counters
    ) -> Difference | None:
        """Count a segment, ``used`` bytes of which were delivered, and return how its others differ from those."""
        self._count -= 1
        self.size -= len(data)
        balance.pending_bytes -= len(data)
        balance.delivered_bytes += used
        if used == len(data):
            return None
        balance.retransmitted_bytes += len(data) - used
        return history.compare(start, data)[0]

    def _pop_run(self) -> _WaitingRun:
        """Remove and return the first run."""
        run = heappop(self._heap)[2]
        start = run.start
        for data in run.pieces[: run.indexed]:
            self._at.pop(start, None)
            start += len(data)
        if run is self._last:
            self._last = None
        if self._unindexed and self._unindexed[0] is run:
            del self._unindexed[0]
        return run

    def _pop(self) -> _WaitingSegment:
        """Remove and return the first segment; the others of its run then wait one by one."""
        first, *others = self._pop_run().segments
        for start, order, data, cut, since, seen in others:
            self._at[start] = data, since
            run = _WaitingRun(start, order, data, cut, since, seen)
            run.indexed = 1
            heappush(self._heap, (start, order, run))
        return first

    @staticmethod
    def _stands_alone(heap: list[tuple[int, int, _WaitingRun]]) -> bool:
        """Return whether the first run is complete, and no other overlaps it; its children in the heap are next."""
        run, count = heap[0][2], len(heap)
        if run.end != run.cut:
            return False
        return (count < 2 or heap[1][0] >= run.end) and (count < 3 or heap[2][0] >= run.end)


class _Hole(NamedTuple):
    """Missing bytes up to ``end``: the bytes there came at ``since``, after ``arrived`` bytes."""

    end: int
    arrived: int
    since: int


class _GapTimeout:
    """The wait for the first hole. ``deadline``: when to tick next; None where time alone decides nothing.

    Bytes that the receiver acknowledged were lost by the capture, or were written late: they are waited for during some
    bytes or some time. Bytes not acknowledged will be retransmitted, as long as the sender lives.
    """

    __slots__ = ("_limits", "_lost_since", "deadline")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lost_since: tuple[int, int] | None = None  # in time and in bytes arrived
        self.deadline: int | None = None

    def state(self) -> PatienceState:
        """Return the wait as plain values, for ``restore``."""
        return self._lost_since, self.deadline

    def restore(self, state: PatienceState) -> None:
        """Restore a state."""
        self._lost_since, self.deadline = state

    def rest(self) -> None:
        """Stop waiting."""
        self._lost_since = self.deadline = None

    def ends(self, hole: _Hole, now: int, arrived: int, *, acked: bool, resent: bool, over_since: int) -> bool:
        """Return whether the hole is to be given up.

        ``acked``: the receiver has its bytes; ``resent``: the sender will retransmit them; ``over_since``: the time of
        a FIN or a RST after which neither end may send.
        """
        limits = self._limits
        self.deadline = None
        if acked:
            time, count = self._lost_since or (now, arrived)
            self._lost_since = time, count = max(time, hole.since), max(count, hole.arrived)
            if arrived - count >= limits.patience_bytes:
                return True
        else:
            self._lost_since = None
            if resent:
                return False
            time = max(hole.since, over_since)
        if now - time >= limits.patience_ns:
            return True
        self.deadline = time + limits.patience_ns
        return False

    def room(self, arrived: int) -> int:
        """Return how many more bytes may arrive before the hole is given up."""
        return self._limits.patience_bytes - 1 - (arrived - self._lost_since[1] if self._lost_since else 0)


class Fin(NamedTuple):
    """The offset of a FIN, and its arrival: in bytes arrived, in time, and the packet."""

    offset: int
    arrived: int
    since: int
    seen: Seen


#: The empty window and queue of a direction without bytes; shared, because in a capture full of scans half of all
#: directions never begin.
_NO_HISTORY: Final = RetransmitWindow(0)
_NO_BACKLOG: Final = _ReorderQueue()

NOT_DUE: Final = (1 << 63) - 1  #: the deadline without one


class Reassembly:
    """``_insert`` adds a piece, ``_advance`` then returns the bytes in order, and Gaps for holes that are given up.

    Until the first offset is known (``gathering``), nothing comes out, and offsets may be negative.
    """

    __slots__ = (
        "_acked",
        "_arrived",
        "_backlog",
        "_balance",
        "_fin",
        "_gathering",
        "_history",
        "_limits",
        "_lost",
        "_now",
        "_patience",
        "_since",
        "_top",
        "_until",
        "deadline",
        "ended",
        "joined_late",
        "offset",
        "reset_at",
        "reset_by_peer",
        "room",
    )

    def __init__(self, limits: Limits, balance: Counters) -> None:
        self.offset = 0  #: of the next byte to deliver
        self.joined_late = False
        self.deadline: int | None = None
        self._limits = limits
        self._balance = balance
        self._history = _NO_HISTORY
        self._backlog = _NO_BACKLOG
        self._patience: _GapTimeout | None = None
        self._gathering = False
        self._since = 0  # when gathering began
        self._now = 0
        self._arrived = 0  # bytes that were new when they came
        self._top = 0  # the end of the furthest piece
        self._acked: int | None = None  # the offset up to which the receiver has all
        self._fin: Fin | None = None
        self.reset_at: int | None = None  #: when (ns) the first RST came, of either side
        self.reset_by_peer = False  #: the RST was of the other side
        self.ended = False  #: whether the direction has ended
        # Of the hole that is waited for:
        self.room: i64 = 0  #: how many bytes may come after it until the next decision
        self._until: i64 = NOT_DUE  # the time (ns) of that
        self._lost = False  # whether the missing bytes were acknowledged

    def _restore_waiting(self, waiting: list[WaitingState], patience: PatienceState) -> None:
        """Restore the queue and the timeout of a stream that began."""
        self._open()
        if waiting:
            self._backlog = _ReorderQueue()
            self._backlog.restore(waiting)
        if self._patience is not None:
            self._patience.restore(patience)
        self._balance.pending_bytes += self._backlog.size

    def _open(self) -> None:
        """Create the window, the queue and the timeout of a stream that begins."""
        self._history = RetransmitWindow(self._limits.history)
        self._patience = _GapTimeout(self._limits)

    def _clock(self, seen: Seen) -> int:
        """Return capture time: the packet's, or that of the last packet with a time."""
        if seen.ts_ns is not None:
            self._now = seen.ts_ns
        return self._now

    # ── a piece comes in ────────────────────────────────────────────────────────────────────────────────────

    def _insert(self, start: int, payload: bytes, missing: int, seen: Seen) -> list[StreamEvent]:
        """Compare a piece with the delivered bytes, or add it to those that wait."""
        out: list[StreamEvent] = []
        balance, size = self._balance, len(payload)
        if start < self.offset and not self._gathering:
            old = min(self.offset - start, size)
            twin = old == size and size > 0 and _is_twin(balance, self._history, start, payload, seen, self._limits)
            if size == 1 and not missing and start + 1 == self.offset and not twin:
                balance.keepalive_bytes += 1
                return out
            out += _note_delivered(balance, self._history, start, payload[:old], seen, twin=twin)
            payload, start = payload[old:], start + old
            missing -= min(missing, max(self.offset - start, 0)) if not payload else 0
            start = max(start, self.offset)
            if not payload and not missing:
                return out
        elif size == 1 and not missing and self._is_keepalive(start):
            balance.keepalive_bytes += 1
            return out
        size = len(payload)
        held = self._backlog.at(start) if start < self._top else None
        if held is not None and len(held[0]) >= size and not missing:
            return out + _note_waiting(balance, self._limits, start, payload, held, seen)
        end = start + size + missing
        if self._fin is not None and end > self._fin.offset:
            self._fin, self.ended = None, False  # the FIN was not the end
        self.reset_at = None
        self._arrived += size + missing
        self._top = max(self._top, end)
        if self._backlog is _NO_BACKLOG:
            self._backlog = _ReorderQueue()
        self._backlog.add(start, self._arrived, payload, missing, self._now, seen)
        balance.pending_bytes += size
        return out

    def _is_keepalive(self, start: int) -> bool:
        """Return whether a single byte at ``start`` repeats the last one sent, or has the offset of the FIN."""
        if self._fin is not None and start == self._fin.offset:
            return True
        return start + 1 == self._top and start > self.offset and self._backlog.at(start) is None

    # ── bytes and gaps come out ─────────────────────────────────────────────────────────────────────────────

    def _sweep(self, seen: Seen) -> list[StreamEvent]:
        """Deliver all waiting bytes that are contiguous."""
        if not self._backlog or self._backlog.first.start > self.offset:
            return []
        out, self.offset = self._backlog.sweep(self.offset, self._history, self._balance, seen, self.joined_late)
        return out

    def _give_up(self, seen: Seen, now: int, aside: int) -> list[StreamEvent]:
        """Give up holes that will not be filled; ``aside``: bytes that wait elsewhere."""
        out: list[StreamEvent] = []
        limits, backlog, patience, fin = self._limits, self._backlog, self._patience, self._fin
        self.deadline = None
        if patience is None:
            return out
        while True:
            if backlog:
                first = backlog.first
                hole = _row(_Hole, (first.start, first.order, first.since))
            elif fin is not None and fin.offset > self.offset:
                hole = _row(_Hole, (fin.offset, fin.arrived, fin.since))
            else:
                patience.rest()
                return out
            acked = self._is_acked(hole.end)
            if backlog.size + aside <= limits.pending_bytes and len(backlog) <= limits.pending_segments:
                over = fin is not None or self.reset_at is not None
                resent = self._acked is not None and not over
                over_since = max(self.reset_at or 0, fin.since if fin else 0)
                if not patience.ends(hole, now, self._arrived, acked=acked, resent=resent, over_since=over_since):
                    self.deadline = deadline = patience.deadline
                    self._until, self._lost = NOT_DUE if deadline is None else deadline, acked
                    room = min(limits.pending_bytes - backlog.size - aside, limits.pending_segments - len(backlog))
                    self.room = min(room, patience.room(self._arrived))  # a segment has at least one byte
                    return out
            out.append(self._gap(hole.end, LOST_BY_CAPTURE if acked else NOT_ACKED, seen))
            out += self._sweep(seen)

    def _flush(self, seen: Seen, reason: str) -> list[StreamEvent]:
        """Deliver everything that waits; every hole becomes a gap."""
        out = self._sweep(seen)
        while self._backlog:
            goal = self._backlog.first.start
            lost = self._is_acked(goal) and reason != EVICTED
            out.append(self._gap(goal, LOST_BY_CAPTURE if lost else reason, seen))
            out += self._sweep(seen)
        return out

    def _is_acked(self, offset: int) -> bool:
        return self._acked is not None and self._acked >= offset

    def _gap(self, goal: int, reason: str, seen: Seen) -> Gap:
        """Give up a hole and continue at ``goal``."""
        reason = CARVED if self._limits.carved else reason
        gap = Gap(self.offset, goal - self.offset, reason, seen)
        self.offset = goal
        return gap

    def _fin_reached(self) -> list[StreamEvent]:
        """End the direction once all bytes up to the FIN are delivered or given up."""
        if self._fin is None or self.offset < self._fin.offset or self.ended:
            return []
        self.ended = True
        return [End(self.offset, "fin", self._fin.seen)]

    def _note_sent(self, offset: int) -> None:
        """Note from a RST how many bytes were sent before it, where none of them was captured."""
        if not (self.offset or self._backlog) and 0 < offset <= self._limits.jump:
            self._acked = max(self._acked or 0, offset)

    def _tail(self, seen: Seen) -> list[StreamEvent]:
        """Report bytes that must have been sent after the last one seen: before a FIN, or acknowledged.

        A single acknowledged byte may be a FIN that was not captured, and is not reported.
        """
        if self._fin is not None:
            goal = self._fin.offset
            reason = LOST_BY_CAPTURE if self._is_acked(goal) else END
            return [self._gap(goal, reason, seen)] if goal > self.offset else []
        acked = self._acked or 0
        return [self._gap(acked, LOST_BY_CAPTURE, seen)] if acked > self.offset + 1 else []

    # ── the first offset ────────────────────────────────────────────────────────────────────────────────────

    def _ripe(self, now: int) -> bool:
        """Return whether to stop waiting for bytes earlier than the first one held."""
        backlog, limits = self._backlog, self._limits
        if backlog and self._is_acked(backlog.first.start):
            return True
        over = self._fin is not None and not backlog
        return over or len(backlog) >= limits.late_segments or now - self._since >= limits.late_ns

    def _shift(self, origin: int) -> None:
        """Count all offsets from ``origin``."""
        self._backlog.shift(origin)
        self._top -= origin
        if self._acked is not None:
            self._acked -= origin
        if self._fin is not None:
            self._fin = self._fin._replace(offset=self._fin.offset - origin)
