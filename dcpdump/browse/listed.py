"""Listed: which frames the list shows, and which row each of them has; a row of its own stands for lost bytes."""

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


class Growing:
    """Numbers that are appended to, in one array."""

    def __init__(self) -> None:
        self._array: Numbers = np.empty(1024, np.int64)
        self._count = 0

    @property
    def all(self) -> Numbers:
        """Return all numbers."""
        return self._array[: self._count]

    def append(self, more: npt.NDArray[np.integer[Any]]) -> None:
        """Append numbers."""
        need = self._count + len(more)
        if need > len(self._array):
            larger: Numbers = np.empty(max(need, 2 * len(self._array)), np.int64)
            larger[: self._count] = self.all
            self._array = larger
        self._array[self._count : need] = more
        self._count = need


class Listed:
    """The rows of a list. ``everything``: it shows all frames, else those that it is given."""

    def __init__(self, *, everything: bool) -> None:
        self.everything = everything
        self._frames = 0
        self._numbers = Growing()
        self._gaps = Growing()  # the rows before which bytes were lost, without the rows for that

    def extend(self, numbers: npt.NDArray[np.integer[Any]], gap_before: npt.NDArray[np.bool_]) -> None:
        """Append frames by their numbers, from 1, and whether bytes were lost before each."""
        if not self.everything:
            self._numbers.append(numbers)
        self._gaps.append(np.flatnonzero(gap_before) + self._frames)
        self._frames += len(numbers)

    @property
    def frames(self) -> int:
        """Return how many frames there are."""
        return self._frames

    @property
    def numbers(self) -> Numbers:
        """Return the numbers of all frames."""
        return np.arange(1, self._frames + 1) if self.everything else self._numbers.all

    def near(self, number: int, step: int, most: int) -> Numbers:
        """Return the frames behind one, or (``step`` -1) before it, the nearest first; at most so many."""
        at = self._position(number)
        if step > 0:
            at += self.has(number)
            span = slice(at, min(at + most, self._frames))
        else:
            span = slice(max(0, at - most), at)
        numbers = np.arange(span.start + 1, span.stop + 1) if self.everything else self._numbers.all[span]
        return numbers[::step]

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return self._frames + len(self._gaps.all)

    def at(self, row: int) -> tuple[int, bool]:
        """Return a row's frame, and whether the row stands for what was lost before it."""
        gaps = self._gaps.all
        # The gap at place k stands in row gaps[k] + k.
        low, high = 0, len(gaps)
        while low < high:
            middle = (low + high) // 2
            if gaps[middle] + middle < row:
                low = middle + 1
            else:
                high = middle
        lost = low < len(gaps) and int(gaps[low]) + low == row
        position = row - low
        return self._number(position), lost

    def row_of(self, number: int) -> int:
        """Return the row of a frame, or of the first one behind it."""
        position = max(0, min(self._position(number), self._frames - 1))
        return position + int(np.searchsorted(self._gaps.all, position, side="right"))

    def has(self, number: int) -> bool:
        """Return whether a frame is listed."""
        if self.everything:
            return 1 <= number <= self._frames
        numbers = self._numbers.all
        at = int(np.searchsorted(numbers, number))
        return at < len(numbers) and int(numbers[at]) == number

    def _position(self, number: int) -> int:
        if self.everything:
            return min(number - 1, self._frames)
        return int(np.searchsorted(self._numbers.all, number))

    def _number(self, position: int) -> int:
        return position + 1 if self.everything else int(self._numbers.all[position])
