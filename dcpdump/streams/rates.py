"""Rates: messages of streams over time, for a line of bars; and how many there are now, by what a ledger counted."""

from collections import Counter, deque
from typing import NamedTuple

import numpy as np

from dcpdump.batch.part import Part
from dcpdump.net.no_time import NO_TIME
from dcpdump.streams.column_events import RESPONSE
from dcpdump.streams.counted import COUNTED
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream


class Rates:
    """Messages of streams over time: counted in steps that double where there are too many of them."""

    def __init__(self) -> None:
        self._shift = 20  # of ns: about a millisecond
        self._counts: dict[tuple[int, int], Counter[int]] = {}

    def feed(self, part: Part) -> None:
        """Count the messages of a part."""
        header = part.header
        rows = np.flatnonzero(_COUNTED[header.opcode] & ~RESPONSE[header.magic] & (part.ts_ns != NO_TIME))
        if not len(rows):
            return
        while int(part.ts_ns[rows].max() - part.ts_ns[rows].min()) >> self._shift > _STEPS:
            self._double()
        connection = np.array([ends.connection for ends in part.places])[part.place[rows]]
        sid = np.where(header.framing[rows] > 0, part.stream_id(rows), 0)
        whose = connection.astype(np.int64) << 32 | header.word[rows].astype(np.int64) << 16 | sid
        both = np.stack([whose, part.ts_ns[rows] >> self._shift])
        met, counts = np.unique(both, axis=1, return_counts=True)
        for stream, step, count in zip(met[0].tolist(), met[1].tolist(), counts.tolist(), strict=True):
            self._counts.setdefault((stream >> 32, stream & 0xFFFFFFFF), Counter())[step] += count
        steps = [step for counter in self._counts.values() for step in (min(counter), max(counter))]
        while max(steps) - min(steps) > _STEPS:
            self._double()
            steps = [step >> 1 for step in steps]

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
        for whose, counter in self._counts.items():
            halved: Counter[int] = Counter()
            for step, count in counter.items():
                halved[step >> 1] += count
            self._counts[whose] = halved


_STEPS = 4096  #: of time, at most
_COUNTED = np.array(COUNTED)


#: Looks that are kept: a pace is that since the oldest of them.
_LOOKS = 5


class Rate(NamedTuple):
    """Frames and bytes a second."""

    frames: float
    bytes: float


_Counts = dict[Stream | ConnectionState, tuple[int, int]]


class RateMeter:
    """Measure the rates of a ledger again and again. The first time they count from its first frame."""

    def __init__(self) -> None:
        self._looks: deque[tuple[int, _Counts]] = deque(maxlen=_LOOKS)
        self._now: tuple[int, _Counts] = (0, {})

    def look(self, ledger: Ledger, now_ns: int) -> None:
        """Count what there is by now."""
        counts: _Counts = {stream: (sum(stream.counts), stream.size) for stream in ledger.streams}
        counts |= {each: (sum(each.frames), sum(each.bytes)) for each in ledger.connections.values()}
        if not self._looks:
            self._looks.append((ledger.first_ns or now_ns, {}))
        self._now = now_ns, counts
        self._looks.append(self._now)

    def of(self, thing: Stream | ConnectionState) -> Rate:
        """Return the rate as of the last count."""
        if not self._looks:
            return Rate(0, 0)
        (then, before), (now, counts) = self._looks[0], self._now
        seconds = (now - then) / 1e9
        if seconds <= 0:
            return Rate(0, 0)
        was, had = before.get(thing, (0, 0))
        frames, size = counts.get(thing, (0, 0))
        return Rate((frames - was) / seconds, (size - had) / seconds)
