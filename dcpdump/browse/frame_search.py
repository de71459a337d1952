"""Search: the frames that a filter wants, found step by step, and further while the index grows."""

from collections.abc import Iterator

import numpy as np

from dcpdump.batch.filter import Masks
from dcpdump.batch.gather import Array
from dcpdump.browse.indexed_frames import IndexedFrames
from dcpdump.browse.listed import Listed
from dcpdump.index.columns import GAP_BEFORE


class FrameSearch:
    """A filter at work. ``listed`` is what it found so far."""

    def __init__(self, frames: IndexedFrames, wanted: Masks) -> None:
        self._frames, self._wanted = frames, wanted
        self.listed = Listed(everything=False)
        self._next = 1  # the first frame that was not searched
        self._until = 0  # that this run searches
        self._steps: Iterator[Array] | None = None

    @property
    def done(self) -> bool:
        """Return whether everything that there is was searched."""
        return self._steps is None and self._next > self._frames.count

    @property
    def progress(self) -> int:
        """Return how much was searched, in percent."""
        last = int(self.listed.numbers[-1]) if self.listed.frames else self._next
        return min(99, 100 * max(last, self._next) // max(1, self._frames.count))

    def step(self) -> bool:
        """Search a little; return whether rows were found."""
        if self._steps is None:
            if self._next > self._frames.count:
                return False
            self._until = self._frames.count
            self._steps = self._frames.index.matching(self._wanted, self._next)
        found = next(self._steps, None)
        if found is None:
            self._steps, self._next = None, self._until + 1
            return False
        found = found[found <= self._until]
        if len(found):
            flags = self._frames.index.columns.flags[found - 1]
            self.listed.extend(found.astype(np.int64), flags & GAP_BEFORE != 0)
        return bool(len(found))

    def close(self) -> None:
        """End the search; what was found stays."""
        self._steps = None
        self._next = self._frames.count + 1
