"""Listed: which frames the list shows, and which row each of them has; a row of its own stands for lost bytes."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    #: Numbers of frames: all between two, or an array.
    Numbers = range | npt.NDArray[np.integer[Any]]


class Listed(ABC):
    """The rows of a list. Subclasses say which frames it shows, by their positions, which begin with 0."""

    everything = False  #: whether it shows all frames
    frames = 0  #: how many it shows
    #: The positions, rising and counted from 1, of frames before which bytes were lost.
    gaps: Sequence[int] | memoryview = ()

    @property
    @abstractmethod
    def numbers(self) -> "Numbers":
        """Return the numbers of all frames."""

    @abstractmethod
    def position(self, number: int) -> int:
        """Return how many frames are listed before one."""

    def has(self, number: int) -> bool:
        """Return whether a frame is listed."""
        at = self.position(number)
        return at < self.frames and int(self.numbers[at]) == number

    def near(self, number: int, step: int, most: int) -> "Numbers":
        """Return the frames behind one, or (``step`` -1) before it, the nearest first; at most so many."""
        at = self.position(number)
        if step > 0:
            at += self.has(number)
            return self.numbers[at : at + most]
        return self.numbers[max(0, at - most) : at][::-1]

    def between(self, first: int, last: int) -> "Numbers":
        """Return the frames from one to another."""
        return self.numbers[self.position(first) : self.position(last) + self.has(last)]

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return self.frames + len(self.gaps)

    def at(self, row: int) -> tuple[int, bool]:
        """Return a row's frame, and whether the row stands for what was lost before it."""
        gaps = self.gaps
        # The gap at place k stands in row gaps[k] - 1 + k.
        low, high = 0, len(gaps)
        while low < high:
            middle = (low + high) // 2
            if gaps[middle] - 1 + middle < row:
                low = middle + 1
            else:
                high = middle
        lost = low < len(gaps) and int(gaps[low]) - 1 + low == row
        return int(self.numbers[row - low]), lost

    def row_of(self, number: int) -> int:
        """Return the row of a frame, or of the first one behind it."""
        position = max(0, min(self.position(number), self.frames - 1))
        return position + bisect_right(self.gaps, position + 1)


class AllFrames(Listed):
    """All frames of an index, as far as they were taken."""

    everything = True

    def grow(self, frames: int, gaps: Sequence[int] | memoryview) -> None:
        """Show so many frames; ``gaps``: those before which bytes were lost."""
        self.frames, self.gaps = frames, gaps

    @property
    def numbers(self) -> range:
        """Return the numbers of all frames."""
        return range(1, self.frames + 1)

    def position(self, number: int) -> int:
        """Return how many frames are listed before one."""
        return max(0, min(number - 1, self.frames))
