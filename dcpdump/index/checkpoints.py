"""Checkpoints: the states from which a dissection continues, so that any frame is reached without what came before.

They are held in memory, compressed, by the process that made them or its parent, and are never written to a disk.
"""

import pickle
from bisect import bisect_right
from typing import NamedTuple

import cramjam

from dcpdump.batch.resumable import DissectionState

#: Bytes of packets between two checkpoints, at first.
DISTANCE = 4 * 1024 * 1024
#: Bytes that checkpoints take together, at most.
MEMORY = 48 * 1024 * 1024


class Checkpoint(NamedTuple):
    """A state between two blocks."""

    frame: int  #: the number of the next frame
    block: int  #: which block comes next
    state: bytes  #: b"" at the beginning of the input

    def unpacked(self) -> DissectionState:
        """Return the state."""
        state: DissectionState = pickle.loads(bytes(cramjam.lz4.decompress_block(self.state)))
        return state


def packed(state: DissectionState) -> bytes:
    """Pack a state."""
    return bytes(cramjam.lz4.compress_block(pickle.dumps(state, pickle.HIGHEST_PROTOCOL)))


class Checkpoints:
    """The checkpoints of an input, in its order. The first is its beginning, and always there."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._size = 0
        self._all = [Checkpoint(1, 0, b"")]
        self._frames = [1]

    def __len__(self) -> int:
        return len(self._all)

    def add(self, checkpoint: Checkpoint) -> bool:
        """Add one behind the others; return whether every second had to be dropped to make space."""
        self._all.append(checkpoint)
        self._frames.append(checkpoint.frame)
        self._size += len(checkpoint.state)
        if self._size <= self._memory or len(self._all) < 3:
            return False
        self._keep(self._all[::2])
        return True

    def clear(self) -> None:
        """Drop all but the beginning."""
        self._keep(self._all[:1])

    def before(self, frame: int) -> Checkpoint:
        """Return the last one from which a frame is reached."""
        return self._all[bisect_right(self._frames, frame) - 1]

    def _keep(self, kept: list[Checkpoint]) -> None:
        self._all = kept
        self._frames = [each.frame for each in kept]
        self._size = sum(len(each.state) for each in kept)
