"""Backlog: the segments of one direction that came before their turn. Knows offsets; knows no sequence numbers."""

from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from dcpdump.net.counters import Counters
from dcpdump.net.event import SNAPLEN, Bytes, BytesRun, Gap, Seen, StreamEvent
from dcpdump.net.packet import NO_TIME
from dcpdump.net.retransmissions import conflict
from dcpdump.net.retransmit_window import OVERHEAD, Difference, RetransmitWindow
from dcpdump.net.stream_state import WaitingState

if TYPE_CHECKING:
    from mypy_extensions import i64

_row: Final = tuple.__new__  # what a NamedTuple's own constructor calls, at half the cost

#: A segment that waits: where it starts, how many bytes had arrived with it, which also orders arrivals, its bytes, the
#: end of what the snap length cut off behind them, when it came, and in which packet.
WaitingSegment = tuple[int, int, bytes, int, int, Seen]


class WaitingRun:
    """Segments that wait and arrived one after the other, each where the one before it ends. Mostly all behind a hole.

    Of the first it is known when it came (``since``), of the others their packets have times. Only a single one may
    have been cut off. All are of one file and interface.
    """

    __slots__ = (
        *("arrived", "cut", "end", "file", "indexed", "indexed_to", "interface"),
        *("numbers", "order", "pieces", "since", "start", "times"),
    )

    def __init__(self, start: "i64", order: "i64", data: bytes, cut: "i64", since: int, seen: Seen) -> None:
        self.start = start
        self.end: i64 = start + len(data)
        self.cut = cut  #: the end of what the snap length cut off behind a single segment
        self.order = order  #: of the first
        self.arrived = order  #: of the last
        self.since = since
        number, ts_ns, self.file, self.interface = seen
        self.pieces = [data]
        self.numbers = [number]
        self.times = [NO_TIME if ts_ns is None else ts_ns]
        self.indexed: i64 = 0  #: how many of the segments are found by their offsets,
        self.indexed_to = start  #: and where they end

    @property
    def segments(self) -> list[WaitingSegment]:
        """Return them one by one."""
        start, order, out = self.start, self.order - len(self.pieces[0]), []
        for each, data in enumerate(self.pieces):
            order += len(data)
            out.append((start, order, data, start + len(data), self.came(each), self._packet(each)))
            start += len(data)
        if len(out) == 1:
            return [(*out[0][:3], self.cut, *out[0][4:])]
        return out

    @property
    def last_packet(self) -> Seen:
        """The packet that brought the last of them."""
        return self._packet(-1)

    def _packet(self, at: int) -> Seen:
        ts_ns = self.times[at]
        return Seen(self.numbers[at], None if ts_ns == NO_TIME else ts_ns, self.file, self.interface)

    def came(self, at: int) -> int:
        """Return when one of them came."""
        ts_ns = self.times[at]
        return self.since if ts_ns == NO_TIME else ts_ns

    def told(self, seen: Seen | None, late: bool) -> StreamEvent:
        """Return its bytes, of which a packet made known all; None: each the one that brought it."""
        count = len(self.pieces)
        if count == 1:
            return Bytes(self.start, self.pieces[0], self.last_packet if seen is None else seen, late)
        if seen is None:
            packets = self.numbers, self.times, self.file, self.interface
        else:
            ts_ns = NO_TIME if seen.ts_ns is None else seen.ts_ns
            packets = [seen.number] * count, [ts_ns] * count, seen.file, seen.interface
        return BytesRun(self.start, self.pieces, *packets, late)


class ReorderQueue:
    """A heap of what waits, by offset. ``size`` is its bytes."""

    __slots__ = ("_at", "_count", "_heap", "_last", "_unindexed", "size")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, WaitingRun]] = []  # by offset, then by arrival
        self._last: WaitingRun | None = None  # the one that was added to last
        self._at: dict[int, tuple[bytes, int]] = {}  # offset → bytes, arrival; without those of:
        self._unindexed: list[WaitingRun] = []  # by offset
        self._count: i64 = 0
        self.size: i64 = 0

    def __len__(self) -> int:
        return self._count

    @property
    def cost(self) -> int:
        """The memory that it takes."""
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
    def first(self) -> WaitingRun:
        """The first that waits; raises IndexError where none does."""
        return self._heap[0][2]

    def at(self, start: int) -> tuple[bytes, int] | None:
        """Return the bytes of the segment that waits at an offset, and since when."""
        for run in self._unindexed:
            for each in range(run.indexed, len(run.pieces)):
                data = run.pieces[each]
                self._at[run.indexed_to] = data, run.came(each)
                run.indexed_to += len(data)
            run.indexed = len(run.pieces)
        self._unindexed.clear()
        return self._at.get(start)

    def add(self, start: int, order: int, data: bytes, missing: int, now: int, seen: Seen) -> None:
        """Add a segment, of which ``missing`` bytes were cut off."""
        size = len(data)
        if not missing and now == seen[1] and self.grows(start, order - size, seen[2], seen[3]):
            self.append(data, seen[0], now)
            return
        self._last = run = WaitingRun(start, order, data, start + size + missing, now, seen)
        self._unindexed.append(run)
        heappush(self._heap, (start, order, run))
        self._count += 1
        self.size += size

    def grows(self, start: int, arrived: int, file: str, interface: int) -> bool:
        """Return whether the next to arrive, after so many bytes, may be appended if it starts at an offset."""
        last = self._last
        if last is None or not last.end == last.cut == start or last.arrived != arrived:
            return False
        return last.file == file and last.interface == interface

    def append(self, data: bytes, number: int, ts_ns: int) -> None:
        """Add a segment that is all there, behind the last one that was added (see ``grows``)."""
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
        self, offset: int, history: RetransmitWindow, balance: Counters, seen: Seen, late: bool
    ) -> tuple[list[StreamEvent], int]:
        """Return all that is contiguous from ``offset`` on, and the offset behind it.

        Where waiting segments overlap, the first to arrive stands: ``active`` are those that reach across the
        next byte, by arrival. Each enters and leaves it once, so this is n log n however they overlap. Bytes are
        seen in the packet that brought them, or in the one that filled the hole before them.
        """
        out: list[StreamEvent] = []
        heap = self._heap
        active: list[tuple[int, int, bytes, int, int, Seen, list[int]]] = []  # the last: how many bytes were delivered
        cut_until, newest, latest = 0, -1, seen
        while True:
            while not active and heap and heap[0][0] == offset and self._stands_alone(heap):
                # Nearly always: nothing overlaps, nothing was cut off.
                run = self._pop_run()
                if run.order > newest:
                    newest, latest = run.arrived, run.last_packet
                    out.append(run.told(None, late))
                else:
                    out.append(run.told(latest, late))
                self._release(run, history, balance)
                offset = run.end
            while heap and heap[0][0] <= offset:
                start, order, data, cut, since, came = self._pop()
                heappush(active, (order, start, data, cut, since, came, [0]))
            while active and active[0][1] + len(active[0][2]) <= offset:
                _, start, data, cut, _, _, used = heappop(active)
                cut_until = max(cut_until, cut)
                difference = self._retire(start, data, used[0], history, balance)
                if difference is not None:
                    out.append(conflict(balance, difference, seen))
            if active:
                order, start, data, _, since, came, used = active[0]
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
                    newest, latest = order, came
                out.append(Bytes(offset, chunk, latest, late))
                used[0] += len(chunk)
                offset = limit
            elif offset < cut_until:
                goal = min(cut_until, heap[0][0]) if heap else cut_until
                out.append(Gap(offset, goal - offset, SNAPLEN, seen))
                offset = goal
            else:
                return out, offset

    def _release(self, run: WaitingRun, history: RetransmitWindow, balance: Counters) -> None:
        """Count a run that was delivered whole, and remember it."""
        at, size = run.start, run.end - run.start
        self._count -= len(run.pieces)
        self.size -= size
        balance.pending_bytes -= size
        balance.delivered_bytes += size
        for each, data in enumerate(run.pieces):
            history.add(at, data, run.came(each))
            at += len(data)

    def _retire(
        self, start: int, data: bytes, used: int, history: RetransmitWindow, balance: Counters
    ) -> Difference | None:
        """Count a segment of which ``used`` bytes were delivered, and return how the others differ from these."""
        self._count -= 1
        self.size -= len(data)
        balance.pending_bytes -= len(data)
        balance.delivered_bytes += used
        if used == len(data):
            return None
        balance.retransmitted_bytes += len(data) - used
        return history.compare(start, data)[0]

    def _pop_run(self) -> WaitingRun:
        """Take away the first run."""
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

    def _pop(self) -> WaitingSegment:
        """Take away the first segment, and have those of its run wait one by one."""
        first, *others = self._pop_run().segments
        for start, order, data, cut, since, seen in others:
            self._at[start] = data, since
            run = WaitingRun(start, order, data, cut, since, seen)
            run.indexed = 1
            heappush(self._heap, (start, order, run))
        return first

    @staticmethod
    def _stands_alone(heap: list[tuple[int, int, WaitingRun]]) -> bool:
        """Whether the first run is all there, and none of the others overlaps it: the next are its children."""
        run, count = heap[0][2], len(heap)
        if run.end != run.cut:
            return False
        return (count < 2 or heap[1][0] >= run.end) and (count < 3 or heap[2][0] >= run.end)
