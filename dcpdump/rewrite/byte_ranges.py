"""Hold byte ranges of a stream, and find which other ranges overlap them."""

from array import array

import numpy as np

from dcpdump.batch.gather import Array

_FAR = np.iinfo(np.int64).max


class ByteRanges:
    """A set of byte ranges, added in any order."""

    def __init__(self) -> None:
        self._starts, self._ends = array("q"), array("q")

    @property
    def end(self) -> int:
        """Return the greatest end of a range; 0 where there is none."""
        return max(self._ends, default=0)

    def add(self, start: int, end: int) -> None:
        """Add the range from ``start`` up to ``end``."""
        if end <= start:
            return
        if self._starts and self._starts[-1] <= start <= self._ends[-1]:
            self._ends[-1] = max(end, self._ends[-1])
            return
        self._starts.append(start)
        self._ends.append(end)

    def add_all(self, starts: Array, ends: Array) -> None:
        """Add many ranges. Those that begin where the one before them ends cost nothing."""
        first = np.concatenate(([True], starts[1:] != ends[:-1])) if len(starts) else np.zeros(0, bool)
        last = np.roll(first, -1)
        for start, end in zip(starts[first].tolist(), ends[last].tolist(), strict=True):
            self.add(start, end)

    def overlaps(self, starts: Array, ends: Array) -> Array:
        """Return, for each of some other ranges, whether it has a byte in one of these."""
        mine = np.array(self._starts, np.int64)
        order = np.argsort(mine)
        at = np.searchsorted(mine[order], starts, "right")
        before = np.maximum.accumulate(np.append(-1, np.array(self._ends, np.int64)[order]))[at]
        after = np.append(mine[order], _FAR)[at]
        found: Array = (ends > starts) & ((before > starts) | (after < ends))
        return found
