"""Succession: whether files are one capture that was rotated, so that the end of the last is the end of all.

It is one only where each file begins at or after the end of the one before it, and connections continue from each into
the next without a loss: files of several places, or with others missing in between, say nothing about each other's
connections.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from dcpdump.batch.block import Block
from dcpdump.net.no_time import NO_TIME
from dcpdump.streams.run_dissection import RunPiece


class Succession:
    """Give it each block, and the pieces of it."""

    def __init__(self) -> None:
        self._times: dict[str, tuple[int, int]] = {}  # of each file: the first and the last
        self._latest: dict[tuple[int, int], str] = {}  # by connection and direction: the file with its latest frame
        self._joined: set[tuple[str, str]] = set()  # files from which a direction continues into the other
        self._torn: set[tuple[str, str]] = set()  # files between which bytes of a direction are missing

    def meet(self, block: Block) -> None:
        """Note the times of each file."""
        if len(block.files) == 1:
            if block.span is not None:
                self.note(block.files[0], *block.span)
            return
        times = defaultdict[int, list[int]](list)
        for ts_ns, file in zip(block.batch.times, block.batch.file, strict=True):
            if ts_ns != NO_TIME:
                times[file].append(ts_ns)
        for file, those in times.items():
            self.note(block.files[file], min(those), max(those))

    def note(self, name: str, first_ns: int, last_ns: int) -> None:
        """Note that a file has packets of these times."""
        first, last = self._times.get(name, (first_ns, last_ns))
        self._times[name] = min(first_ns, first), max(last_ns, last)

    def take(self, pieces: Iterable[RunPiece]) -> None:
        """Note which connections continue from one file into another."""
        for piece in pieces:
            directions = ((ends.connection, ends.direction) for ends in piece.places)
            if len(piece.files) == 1 and all(self._latest.get(each) == piece.files[0] for each in directions):
                continue  # as nearly always
            for name, ends, torn in piece.sources():
                direction = ends.connection, ends.direction
                before = self._latest.get(direction)
                if before != name:
                    self._latest[direction] = name
                    if before is not None:
                        (self._torn if torn else self._joined).add((before, name))

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
