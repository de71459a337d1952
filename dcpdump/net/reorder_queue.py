"""Backlog: the segments of one direction that came before their turn. Knows offsets; knows no sequence numbers."""

from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Final, NamedTuple

from dcpdump.net.counters import Counters
from dcpdump.net.event import SNAPLEN, Bytes, Event, Gap, Seen
from dcpdump.net.retransmissions import conflict
from dcpdump.net.retransmit_window import OVERHEAD, Difference, RetransmitWindow
from dcpdump.net.stream_state import WaitingState


class WaitingSegment(NamedTuple):
    """A segment that waits."""

    start: int
    order: int  #: how many bytes had arrived with it, which also orders arrivals
    data: bytes
    cut: int  #: the end of what the snap length cut off behind the bytes
    since: int
    seen: Seen


_row: Final = tuple.__new__  # what a NamedTuple's own constructor calls, at half the cost


class ReorderQueue:
    """A heap of waiting segments, by offset. ``size`` is their bytes, ``cost`` the memory that they take."""

    __slots__ = ("_at", "_heap", "cost", "size")

    def __init__(self) -> None:
        self._heap: list[WaitingSegment] = []
        self._at: dict[int, tuple[bytes, int]] = {}  # offset → bytes, arrival
        self.size = 0
        self.cost = 0

    def __len__(self) -> int:
        return len(self._heap)

    def state(self) -> list[WaitingState]:
        """Return the segments as plain values, by offset and arrival, for ``restore``."""
        return [(*each[:5], (*each.seen,)) for each in sorted(self._heap, key=itemgetter(0, 1))]

    def restore(self, state: list[WaitingState]) -> None:
        """Restore a state."""
        self._heap = [WaitingSegment(*each[:5], Seen(*each[5])) for each in state]  # sorted, so a heap
        self._at = {start: (data, since) for start, _, data, _, since, _ in state}
        self.size = sum(len(each.data) for each in self._heap)
        self.cost = self.size + 2 * OVERHEAD * len(self._heap)

    @property
    def first(self) -> WaitingSegment:
        """The first that waits; raises IndexError where none does."""
        return self._heap[0]

    def at(self, start: int) -> tuple[bytes, int] | None:
        """Return the bytes of the segment that waits at an offset, and since when."""
        return self._at.get(start)

    def add(self, start: int, order: int, data: bytes, missing: int, now: int, seen: Seen) -> None:
        """Add a segment, of which ``missing`` bytes were cut off."""
        heappush(self._heap, _row(WaitingSegment, (start, order, data, start + len(data) + missing, now, seen)))
        self._at[start] = data, now
        self.size += len(data)
        self.cost += len(data) + 2 * OVERHEAD

    def shift(self, origin: int) -> None:
        """Count all offsets from ``origin``."""
        self._heap = [w._replace(start=w.start - origin, cut=w.cut - origin) for w in self._heap]
        heapify(self._heap)
        self._at = {start - origin: held for start, held in self._at.items()}

    def sweep(
        self, offset: int, history: RetransmitWindow, balance: Counters, seen: Seen, late: bool
    ) -> tuple[list[Event], int]:
        """Return all that is contiguous from ``offset`` on, and the offset behind it.

        Where waiting segments overlap, the first to arrive stands: ``active`` are those that reach across the
        next byte, by arrival. Each enters and leaves it once, so this is n log n however they overlap. Bytes are
        seen in the packet that brought them, or in the one that filled the hole before them.
        """
        out: list[Event] = []
        heap = self._heap
        active: list[tuple[int, int, bytes, int, int, Seen, list[int]]] = []  # the last: how many bytes were delivered
        cut_until, newest, latest = 0, -1, seen
        while True:
            while not active and heap and heap[0][0] == offset and self._stands_alone(heap):
                # Nearly always: nothing overlaps, nothing was cut off.
                start, order, data, offset, since, came = heappop(heap)
                self._at.pop(start, None)
                self.size -= len(data)
                self.cost -= len(data) + 2 * OVERHEAD
                balance.pending_bytes -= len(data)
                balance.delivered_bytes += len(data)
                history.add(start, data, since)
                if order > newest:
                    newest, latest = order, came
                out.append(_row(Bytes, (start, data, latest, late)))
            while heap and heap[0][0] <= offset:
                start, order, data, cut, since, came = heappop(heap)
                self._at.pop(start, None)
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
                    later, arrival, shadowed, cut, when, whence = heappop(heap)
                    self._at.pop(later, None)
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

    def _retire(
        self, start: int, data: bytes, used: int, history: RetransmitWindow, balance: Counters
    ) -> Difference | None:
        """Count a segment of which ``used`` bytes were delivered, and return how the others differ from these."""
        self.size -= len(data)
        self.cost -= len(data) + 2 * OVERHEAD
        balance.pending_bytes -= len(data)
        balance.delivered_bytes += used
        if used == len(data):
            return None
        balance.retransmitted_bytes += len(data) - used
        return history.compare(start, data)[0]

    @staticmethod
    def _stands_alone(heap: list[WaitingSegment]) -> bool:
        """Whether the first segment is all there, and none of the others overlaps it: the next are its children."""
        start, _, data, end, _, _ = heap[0]
        count = len(heap)
        if start + len(data) != end:
            return False
        return (count < 2 or heap[1][0] >= end) and (count < 3 or heap[2][0] >= end)
