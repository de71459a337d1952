"""Order: frames in the order of time, across the two directions of connections.

A direction with a hole waits until the hole is filled or given up, and the other goes on: an answer may be known
before its request. Here frames wait with it, so that what was said first is learnt first. Within a direction
nothing changes places: a frame that had to wait for bytes counts from when they came.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from dcpdump.streams.document_run import DocumentRun, Step

#: How long a hole is waited for that the receiver has filled long since, and some more.
_PATIENCE_NS = 2_500_000_000
#: More frames than this are not kept waiting; so many of their bytes, or a field that was decoded, count as one more.
_MOST = 262_144
_BYTES = 256
#: Where there are more, so many are kept. The fewer times something is under way, the fewer runs are taken apart.
_ENOUGH = _MOST * 7 // 8
_TIME = itemgetter(0)


class _Held(NamedTuple):
    """Frames that wait. In order, they are in the order of time, and those of one time as they came."""

    ts_ns: int
    number: int  #: counts frames, so no two have the same
    end_ns: int
    weight: int  #: how much memory they need, in frames
    step: Step


class Order:
    """Feed it events and runs as they come; it returns them when nothing earlier is to be expected."""

    def __init__(self) -> None:
        self._held: list[_Held] = []
        self._weight = 0  # of all of them
        self._end_ns = 0  # and the latest of their ends
        self._latest: dict[tuple[int, int], int] = {}  # by direction of a connection
        self._count = 0

    @property
    def waiting(self) -> bool:
        """Whether frames wait."""
        return bool(self._held)

    def feed(self, seen: Sequence[Step], *, waiting: bool, in_order: bool) -> Sequence[Step]:
        """Take the next frames. ``waiting``: bytes wait behind a hole; ``in_order``: times never go back."""
        if not self._held and not waiting and in_order:
            return seen
        self._hold(sorted(map(self._timed, seen)))
        if not waiting:
            return self.close()
        until = self._until()
        begun = bisect_right(self._held, until, key=_TIME)
        if not begun:
            return []
        # What is under way at that time is reported as far as it goes.
        held = sorted(_apart(self._held[:begun], lambda each: until < each.end_ns))
        count = bisect_right(held, until, key=_TIME)
        self._weight -= sum([each.weight for each in self._held[:begun]])
        del self._held[:begun]
        if not self._held:
            self._end_ns = 0
        self._hold(held[count:])
        return _steps_of(held[:count])

    def close(self) -> list[Step]:
        """Return all that waits."""
        held, self._held = self._held, []
        self._weight = self._end_ns = 0
        self._latest.clear()
        return _steps_of(held)

    def _hold(self, others: list[_Held]) -> None:
        """Add frames, which are in order, to those that wait. They are the next ones, or nearly."""
        if others:
            first, behind = bisect_left(self._held, others[0]), bisect_right(self._held, others[-1])
            self._held[first:behind] = sorted([*self._held[first:behind], *others])
            self._weight += sum([each.weight for each in others])
            self._end_ns = max(self._end_ns, *[each.end_ns for each in others])

    def _timed(self, step: Step) -> _Held:
        """Return frames with the time from which they count."""
        whose = step.connection, step.direction
        if isinstance(step, DocumentRun):
            frames, first, last = step.frames, step.first_ns, step.last_ns
        else:
            frames, first, last = 1, step.ts_ns or 0, step.ts_ns or 0
        before = self._latest.get(whose, 0)
        self._latest[whose] = end = max(before, last)
        self._count += frames
        return _Held(max(before, first), self._count - frames, end, _weight(step), step)

    def _until(self) -> int:
        """Return the time up to which nothing is waited for any more."""
        until = self._end_ns - _PATIENCE_NS
        if self._weight <= _MOST:
            return until
        weight = self._weight
        for each in self._held:
            weight -= each.weight
            if weight <= _ENOUGH:
                return max(until, each.ts_ns)
        return until


def _weight(step: Step) -> int:
    """Return how much memory frames need, in frames."""
    if isinstance(step, DocumentRun):
        return step.frames + step.size // _BYTES
    record = step.record
    decoded = 0 if record is None else len(record.frame.fields) + len(record.frame.problems)
    return 1 + step.length // _BYTES + decoded


def _apart(held: Iterable[_Held], which: Callable[[_Held], bool]) -> Iterator[_Held]:
    """Take runs apart, frame by frame."""
    for each in held:
        if isinstance(each.step, DocumentRun) and which(each):
            for place, frame in enumerate(each.step.each()):
                ts_ns = max(each.ts_ns, frame.ts_ns or 0)
                yield _Held(ts_ns, each.number + place, ts_ns, _weight(frame), frame)
        else:
            yield each


def _steps_of(held: list[_Held]) -> list[Step]:
    """Return frames in their order; a run in whose midst the other direction sent is taken apart."""
    times: dict[tuple[int, int], list[int]] = defaultdict(list)
    for each in held:
        times[each.step.connection, each.step.direction].append(each.ts_ns)
    apart = sorted(_apart(held, lambda each: _is_interrupted(each, times)))
    return [each.step for each in held] if len(apart) == len(held) else _steps_of(apart)


def _is_interrupted(run: _Held, times: dict[tuple[int, int], list[int]]) -> bool:
    others = times.get((run.step.connection, 1 - run.step.direction), [])
    first = bisect_left(others, run.ts_ns)
    return first < len(others) and others[first] <= run.end_ns
