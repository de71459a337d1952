"""Listed: which frames the list shows, and which row each of them has; a row of its own stands for lost bytes."""

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

    def append(self, more: Numbers) -> None:
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

    def extend(self, numbers: Numbers, gap_before: npt.NDArray[np.bool_]) -> None:
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
        position = min(number - 1, self._frames)
        if not self.everything:
            position = int(np.searchsorted(self._numbers.all, number))
        position = max(0, min(position, self._frames - 1))
        return position + int(np.searchsorted(self._gaps.all, position, side="right"))

    def has(self, number: int) -> bool:
        """Return whether a frame is listed."""
        if self.everything:
            return 1 <= number <= self._frames
        numbers = self._numbers.all
        at = int(np.searchsorted(numbers, number))
        return at < len(numbers) and int(numbers[at]) == number

    def next(self, number: int, step: int, wanted: npt.NDArray[np.bool_]) -> int | None:
        """Return the next of the listed frames that are wanted, behind a frame or (``step`` -1) before it."""
        found = self.numbers[wanted]
        at = int(np.searchsorted(found, number, side="right" if step > 0 else "left"))
        at -= step < 0
        return int(found[at]) if 0 <= at < len(found) else None

    def _number(self, position: int) -> int:
        return position + 1 if self.everything else int(self._numbers.all[position])
