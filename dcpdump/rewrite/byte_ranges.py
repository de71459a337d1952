"""Spans: stretches of a stream, and which others meet them."""

import numpy as np

from dcpdump.batch.layouts import Array

_FAR = np.iinfo(np.int64).max


class ByteRanges:
    """Add spans in any order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def end(self) -> int:
        """The end of the last one."""
        return max(self._ends, default=0)

    def add(self, start: int, end: int) -> None:
        """It takes a span."""
        if end <= start:
            return
        if self._starts and self._starts[-1] <= start <= self._ends[-1]:
            self._ends[-1] = max(end, self._ends[-1])
            return
        self._starts.append(start)
        self._ends.append(end)

    def add_all(self, starts: Array, ends: Array) -> None:
        """It takes many. Those that begin where the one before them ends cost nothing."""
        first = np.concatenate(([True], starts[1:] != ends[:-1])) if len(starts) else np.zeros(0, bool)
        last = np.roll(first, -1)
        for start, end in zip(starts[first].tolist(), ends[last].tolist(), strict=True):
            self.add(start, end)

    def meet(self, starts: Array, ends: Array) -> Array:
        """It says which of other spans have a byte in one of these."""
        mine = np.array(self._starts, np.int64)
        order = np.argsort(mine)
        at = np.searchsorted(mine[order], starts, "right")
        before = np.maximum.accumulate(np.append(-1, np.array(self._ends, np.int64)[order]))[at]
        after = np.append(mine[order], _FAR)[at]
        found: Array = (ends > starts) & ((before > starts) | (after < ends))
        return found
