"""Measure the current rates of streams and connections, from what a ledger counted between two moments."""

from collections import deque
from typing import NamedTuple

from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

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
