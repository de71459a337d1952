"""Rates: messages of streams over time, for a line of bars; and how many there are now, by what a ledger counted."""

from collections import Counter, OrderedDict, deque
from typing import NamedTuple

import numpy as np

from dcpdump.batch.part import Part
from dcpdump.net.packet import NO_TIME
from dcpdump.streams.facts import COUNTED
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream


class Rates:
    """Messages of streams over time: counted in steps that double where there are too many of them."""

    def __init__(self) -> None:
        self._shift = 20  # of ns: about a millisecond
        self._span: tuple[int, int] | None = None  # the first and the last time
        self._cells = 0  # counts of all streams
        self._counts: OrderedDict[tuple[int, int], Counter[int]] = OrderedDict()  # the longest silent first

    def feed(self, part: Part) -> None:
        """Count the messages of a part."""
        header = part.header
        rows = np.flatnonzero(_COUNTED[header.opcode] & ~header.response & (part.ts_ns != NO_TIME))
        if not len(rows):
            return
        first, last = int(part.ts_ns[rows].min()), int(part.ts_ns[rows].max())
        if self._span is not None:
            first, last = min(first, self._span[0]), max(last, self._span[1])
        self._span = first, last
        while (last >> self._shift) - (first >> self._shift) > _STEPS:
            self._double()
        connection = np.array([ends.connection for ends in part.places])[part.place[rows]]
        sid = part.stream_id(rows)
        whose = connection.astype(np.int64) << 32 | header.word[rows].astype(np.int64) << 16 | sid
        both = np.stack([whose, part.ts_ns[rows] >> self._shift])
        met, counts = np.unique(both, axis=1, return_counts=True)
        for stream, step, count in zip(met[0].tolist(), met[1].tolist(), counts.tolist(), strict=True):
            place = stream >> 32, stream & 0xFFFFFFFF
            mine = self._counts.setdefault(place, Counter())
            self._counts.move_to_end(place)
            self._cells += step not in mine
            mine[step] += count
        while len(self._counts) > _PLACES:
            self._cells -= len(self._counts.popitem(last=False)[1])
        while self._cells > _CELLS:
            self._double()

    def of(self, connection: int, place: int, since_ns: int, until_ns: int, width: int) -> list[int]:
        """Return the counts of a stream (vbucket << 16 | id) in ``width`` equal steps of a time."""
        out = [0] * width
        length = max(1, until_ns - since_ns + 1)
        for step, count in self._counts.get((connection, place), Counter()).items():
            at = max(since_ns, step << self._shift)
            if at <= until_ns:
                out[(at - since_ns) * width // length] += count
        return out

    def _double(self) -> None:
        self._shift += 1
        self._cells = 0
        for whose, counter in self._counts.items():
            halved: Counter[int] = Counter()
            for step, count in counter.items():
                halved[step >> 1] += count
            self._counts[whose] = halved
            self._cells += len(halved)


_STEPS = 4096  #: of time, at most
_CELLS = 1 << 18  #: counts that are kept
_PLACES = 1 << 16  #: and streams of which there are any
_COUNTED = np.array(COUNTED)


#: Rates are of so many ns, where that was counted; counts are kept every so many.
_LASTING, _EVERY = 5_000_000_000, 1_000_000_000
#: A count costs a step for each stream: they cost at most so many for each frame, and these beside.
_STEPS_A_FRAME, _FREE_STEPS = 4, 100_000


class Rate(NamedTuple):
    """Frames and bytes a second."""

    frames: float
    bytes: float


class _Look(NamedTuple):
    """What there was from a time to another: frames and bytes of streams and connections."""

    since_ns: int  #: when the last frame came
    until_ns: int
    counts: dict[Stream | ConnectionState, tuple[int, int]]


class RateMeter:
    """Measure the rates of a ledger by what it counted some seconds ago, and by now."""

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque()  #: up to the oldest that is needed
        self._before: _Look | None = None  #: from which the rates count
        self._now: _Look | None = None
        self._steps = 0

    @property
    def lasting_ns(self) -> int:
        """Over how long the rates are, as of the last look."""
        return self._now.until_ns - self._begin_ns if self._now is not None else 0

    @property
    def _begin_ns(self) -> int:
        before, now = self._before, self._now
        if before is None or now is None:
            return 0
        return min(max(now.until_ns - _LASTING, before.since_ns), before.until_ns)

    def pass_to(self, ledger: Ledger, ts_ns: int | None) -> None:
        """Count what there is before the next frame, which comes at a time, where that is due."""
        last = self._looks[-1].until_ns if self._looks else ledger.first_ns
        if ts_ns is None or last is None or ts_ns - last < _EVERY:
            return
        steps = len(ledger.streams) + len(ledger.connections)
        if self._steps + steps <= _FREE_STEPS + _STEPS_A_FRAME * ledger.frames:
            self._steps += steps
            self._keep(_look(ledger, ts_ns))

    def look(self, ledger: Ledger, now_ns: int) -> None:
        """Count what there is by now, and measure the rates up to now."""
        now = self._now = _look(ledger, now_ns)
        before = next((each for each in (*self._looks, now) if each.until_ns >= now_ns - _LASTING), now)
        if before is now and now.since_ns > now_ns - _LASTING:
            begin_ns = ledger.first_ns or now_ns
            before = self._looks[-1] if self._looks else _Look(begin_ns, begin_ns, {})
        self._before = before
        if not self._looks or now_ns - self._looks[-1].until_ns >= _EVERY:
            self._keep(now)

    def of(self, thing: Stream | ConnectionState) -> Rate:
        """Return the rate as of the last look."""
        if self._now is None or self._before is None or not self.lasting_ns:
            return Rate(0, 0)
        seconds = self.lasting_ns / 1e9
        was, had = self._before.counts.get(thing, (0, 0))
        frames, size = self._now.counts.get(thing, (0, 0))
        return Rate((frames - was) / seconds, (size - had) / seconds)

    def _keep(self, look: _Look) -> None:
        self._looks.append(look)
        while self._looks[0].until_ns < look.until_ns - _LASTING:
            self._looks.popleft()


def _look(ledger: Ledger, now_ns: int) -> _Look:
    counts: dict[Stream | ConnectionState, tuple[int, int]] = {
        stream: (sum(stream.traffic.counts), stream.traffic.size) for stream in ledger.streams
    }
    counts |= {each: (each.frames, each.bytes) for each in ledger.connections.values()}
    latest = max((each.last_ns or 0 for each in ledger.connections.values()), default=0)
    return _Look(min(latest, now_ns), now_ns, counts)
