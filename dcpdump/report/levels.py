"""Levels: the bytes that flow control has outstanding, over time: the largest of each step, and the last."""

import numpy as np

from dcpdump.batch.course import Axis, Grid, Kind
from dcpdump.batch.gather import Array

#: Levels that are put into the grids at once.
_PENDING = 20_000
_LARGEST = (1 << 32) - 2


class Levels:
    """Give it each level when it changes, in any order of connections; ``lines`` then has them in steps."""

    def __init__(self) -> None:
        self.axis = Axis()
        self.rows: dict[int, int] = {}  #: by connection number
        self._most, self._last = Grid(Kind.MOST), Grid(Kind.LAST)
        self._pending: list[tuple[int, int, int]] = []

    def note(self, connection: int, ts_ns: int, level: int) -> None:
        """Take the level of a connection at a time."""
        self._pending.append((self.rows.setdefault(connection, len(self.rows)), ts_ns, min(level, _LARGEST) + 1))
        if len(self._pending) >= _PENDING:
            self.flush()

    def flush(self) -> None:
        """Put what is pending into the grids."""
        if not self._pending:
            return
        rows, times, levels = np.array(self._pending, np.int64).T
        self._pending.clear()
        self._meet(int(times[0]), int(times.max()))
        steps = self.axis.steps(times)
        for grid in (self._most, self._last):
            grid.reserve(len(self.rows))
            grid.put(rows, steps, levels)

    def extend(self, last_ns: int) -> None:
        """Have the last step be that of a time, where there are levels: they last."""
        self.flush()
        if self.axis.origin_ns is not None:
            self._meet(self.axis.origin_ns, last_ns)

    def _meet(self, first_ns: int, last_ns: int) -> None:
        for _ in range(self.axis.meet(first_ns, last_ns)):
            for grid in (self._most, self._last):
                grid.fold()

    def line(self, connection: int) -> Array:
        """Return the largest level of each step; where none changed it, that of the step before."""
        self.flush()
        used = self.axis.used
        row = self.rows[connection]
        most, last = self._most.cells[row, :used], self._last.cells[row, :used]
        there = np.maximum.accumulate(np.where(last > 0, np.arange(used), -1))
        before = np.concatenate(([0], np.where(there >= 0, last[np.maximum(there, 0)], 0)[:-1]))
        level = np.maximum(np.where(most > 0, most, 0), before)
        return np.where(level > 0, level - np.minimum(level, 1), 0)
