"""ChosenFrames: the frames that a filter has found, as they are listed."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dcpdump.browse.listed import Listed

Array = npt.NDArray[np.int64]


class Growing:
    """Numbers that are appended to, in one array."""

    def __init__(self) -> None:
        self._array: Array = np.empty(1024, np.int64)
        self._count = 0

    @property
    def all(self) -> Array:
        """Return all numbers."""
        return self._array[: self._count]

    def append(self, more: npt.NDArray[np.integer[Any]]) -> None:
        """Append numbers."""
        need = self._count + len(more)
        if need > len(self._array):
            larger: Array = np.empty(max(need, 2 * len(self._array)), np.int64)
            larger[: self._count] = self.all
            self._array = larger
        self._array[self._count : need] = more
        self._count = need


class ChosenFrames(Listed):
    """Frames that are appended as they are found."""

    def __init__(self) -> None:
        self._numbers, self._gaps = Growing(), Growing()

    def extend(self, numbers: npt.NDArray[np.integer[Any]], lost: npt.NDArray[np.integer[Any]]) -> None:
        """Append frames by their numbers, from 1. ``lost``: frames before which bytes were lost, listed or not."""
        at = np.searchsorted(numbers, lost)
        at = at[at < len(numbers)]
        self._numbers.append(numbers)
        self._gaps.append(at[numbers[at] == lost[: len(at)]] + self.frames + 1)
        self.gaps = self._gaps.all.data
        self.frames += len(numbers)

    @property
    def numbers(self) -> Array:
        """Return the numbers of all frames."""
        return self._numbers.all

    def position(self, number: int) -> int:
        """Return how many frames are listed before one."""
        return int(np.searchsorted(self._numbers.all, number))
