"""PendingLosses: what was lost of each direction, until a frame comes that begins behind it."""

from collections import deque
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from dcpdump.batch.ends import Lost
from dcpdump.batch.gather import Array
from dcpdump.batch.part import Part
from dcpdump.streams.frame_event import UNKNOWN_LOSS, FrameEvent


class Before(NamedTuple):
    """What is before a frame in its direction, and is not a frame."""

    length: int
    skipped: bool  #: none of it was lost


class PendingLosses:
    """Losses in the order of their directions' bytes, each kept until the frame behind it is there."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, int], deque[tuple[int, Lost]]] = {}  #: by connection and direction, numbered
        self._count = 0

    def add(self, losses: Iterable[Lost]) -> None:
        """Keep losses. Those of one direction come in the order of its bytes."""
        for loss in losses:
            self._of.setdefault((loss.ends.connection, loss.ends.direction), deque()).append((self._count, loss))
            self._count += 1

    def before(self, part: Part) -> dict[int, Before]:
        """Return what is before rows of a part that their ``gap_before`` does not have, or that is no loss.

        A loss stands before the first frame of its direction that begins behind it, and is forgotten with it.
        """
        gaps = np.flatnonzero(part.gap_before)
        found = {
            row: Before(length, True) for row, length in zip(gaps.tolist(), part.gap_before[gaps].tolist(), strict=True)
        }
        for place, ends in enumerate(part.places):
            pending = self._of.get((ends.connection, ends.direction))
            if pending:
                self._place(pending, np.flatnonzero(part.place == place), part, found)
                if not pending:
                    del self._of[ends.connection, ends.direction]
        return found

    def _place(self, pending: deque[tuple[int, Lost]], rows: Array, part: Part, found: dict[int, Before]) -> None:
        offsets = part.offset[rows]
        while pending and len(rows) and pending[0][1].gap.offset <= offsets[-1]:
            gap = pending.popleft()[1].gap
            row = int(rows[np.searchsorted(offsets, gap.offset)])
            if part.gap_before[row]:
                found.pop(row, None)
            else:
                found.setdefault(row, Before(gap.length or UNKNOWN_LOSS, False))

    def mark(self, part: Part, events: list[FrameEvent]) -> None:
        """Mark in the events of a part's frames what is before them."""
        for row, gap in self.before(part).items():
            events[row] = events[row]._replace(gap_before=gap.length, skipped=gap.skipped)

    def take(self, connection: int) -> list[Lost]:
        """Return the losses of a connection that no frame followed, and forget them."""
        kept = [each for direction in (0, 1) for each in self._of.pop((connection, direction), ())]
        return [loss for _, loss in sorted(kept, key=itemgetter(0))]

    def rest(self) -> list[Lost]:
        """Return the losses that no frame has followed yet, as they came."""
        return [loss for _, loss in sorted((each for kept in self._of.values() for each in kept), key=itemgetter(0))]
