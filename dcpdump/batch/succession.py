"""Succession: whether files are one capture that was rotated, so that the end of the last is the end of all.

It is one only where each file begins at or after the end of the one before it, and connections continue from each into
the next without a loss: files of several places, or with others missing in between, say nothing about each other's
connections.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.batch.part import Part
from dcpdump.net.no_time import NO_TIME


class Succession:
    """Give it each block, and the parts of it."""

    def __init__(self) -> None:
        self._times: dict[str, tuple[int, int]] = {}  # of each file: the first and the last
        self._latest: dict[tuple[int, int], str] = {}  # by connection and direction: the file with its latest frame
        self._joined: set[tuple[str, str]] = set()  # files from which a direction continues into the other
        self._torn: set[tuple[str, str]] = set()  # files between which bytes of a direction are missing

    def meet(self, block: Block) -> None:
        """Note the times of each file."""
        for number, name in enumerate(block.files):
            times = block.ts_ns if len(block.files) == 1 else block.ts_ns[block.file == number]
            times = times[times != NO_TIME]
            if len(times):
                self.note(name, int(times.min()), int(times.max()))

    def note(self, name: str, first_ns: int, last_ns: int) -> None:
        """Note that a file has packets of these times."""
        first, last = self._times.get(name, (first_ns, last_ns))
        self._times[name] = min(first_ns, first), max(last_ns, last)

    def take(self, parts: Sequence[Part]) -> None:
        """Note which connections continue from one file into another."""
        for part in parts:
            directions = ((ends.connection, ends.direction) for ends in part.places)
            if len(part.files) == 1 and all(self._latest.get(each) == part.files[0] for each in directions):
                continue  # as nearly always
            for name, place, row in _firsts(part):
                ends = part.places[place]
                direction = ends.connection, ends.direction
                before = self._latest.get(direction)
                if before != name:
                    self._latest[direction] = name
                    if before is not None:
                        (self._torn if part.gap_before[row] else self._joined).add((before, name))

    def forget(self, connection: int) -> None:
        """Forget a connection of which nothing more comes."""
        for direction in (0, 1):
            self._latest.pop((connection, direction), None)

    @property
    def one(self) -> bool:
        """Return whether all files are one capture."""
        files = sorted(self._times.items(), key=lambda each: each[1])
        if any(end > begin for (_, (_, end)), (_, (begin, _)) in pairwise(files)):
            return False
        pairs = {(name, after) for (name, _), (after, _) in pairwise(files)}
        return pairs <= self._joined - self._torn


def _firsts(part: Part) -> Iterator[tuple[str, int, int]]:
    """Yield each file of a part's frames with each of their places, and the row of the first such frame, in order."""
    pairs = part.file * len(part.places) + part.place
    for row in sorted(np.unique(pairs, return_index=True)[1].tolist()):
        yield part.files[int(part.file[row])], int(part.place[row]), row
