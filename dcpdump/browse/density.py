"""Density: frames over time, for the first line of the screen."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcpdump.browse.listed import Listed
from dcpdump.net.packet import NO_TIME

#: So many times are counted: of more, every second, third …
_COUNTED = 200_000

Array = npt.NDArray[np.integer[Any]]


class Density(NamedTuple):
    """Frames over time: a count for each bar, how many of them are listed, between two times."""

    counts: tuple[int, ...]
    listed: tuple[int, ...]
    first_ns: int
    last_ns: int

    def bar(self, ts_ns: int) -> int:
        """Return the bar of a time."""
        bars = len(self.counts)
        return min(bars - 1, max(0, (ts_ns - self.first_ns) * bars // max(1, self.last_ns - self.first_ns + 1)))

    def begins_ns(self, bar: int) -> int:
        """Return the time at which a bar begins."""
        return self.first_ns + (self.last_ns - self.first_ns) * bar // len(self.counts)


def density(times: Array, listed: Listed, bars: int) -> Density | None:
    """Count the times of all frames, and of those that are listed. None where there are no times, or no bars."""
    counted = _some(times)
    counted = counted[counted != NO_TIME]
    if not len(counted) or not bars:
        return None
    first, last = int(counted.min()), int(counted.max())

    def counts(of: Array) -> tuple[int, ...]:
        places = (of - first) // max(1, -(-(last - first + 1) // bars))
        return tuple(np.bincount(np.clip(places, 0, bars - 1), minlength=bars).tolist())

    every = counts(counted)
    if listed.everything:
        return Density(every, every, first, last)
    chosen = times[_some(np.asarray(listed.numbers)) - 1]
    return Density(every, counts(chosen[chosen != NO_TIME]), first, last)


def _some(numbers: Array) -> Array:
    """Return as many of some numbers as are counted, evenly distributed."""
    return numbers[:: max(1, len(numbers) // _COUNTED)]
