"""PendingLosses: what was lost of each direction, until a frame comes that begins behind it."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from dcpdump.batch.ends import Lost
from dcpdump.streams.frame_event import UNKNOWN_LOSS, Before, Missed
from dcpdump.streams.run_dissection import RunPiece


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

    def before(self, piece: RunPiece) -> dict[int, Before]:
        """Return what is before rows of a piece.

        A loss stands before the first frame of its direction that begins behind it, and is forgotten with it.
        """
        gaps = piece.gaps()
        found = {row: Before(length, Missed(skipped=length)) for row, length in gaps.items()}
        for place, ends in enumerate(piece.places) if self._of else ():
            pending = self._of.get((ends.connection, ends.direction))
            if pending:
                _place(pending, *piece.offsets_of(place), gaps, found)
                if not pending:
                    del self._of[ends.connection, ends.direction]
        return found

    def take(self, connection: int) -> list[Lost]:
        """Return the losses of a connection that no frame followed, and forget them."""
        kept = [each for direction in (0, 1) for each in self._of.pop((connection, direction), ())]
        return [loss for _, loss in sorted(kept, key=itemgetter(0))]

    def rest(self) -> list[Lost]:
        """Return the losses that no frame has followed yet, as they came."""
        return [loss for _, loss in sorted((each for kept in self._of.values() for each in kept), key=itemgetter(0))]


def _place(
    pending: deque[tuple[int, Lost]],
    rows: Sequence[int],
    offsets: Sequence[int],
    gaps: Mapping[int, int],
    found: dict[int, Before],
) -> None:
    """Move losses of a direction to the frames behind them, as far as these are there."""
    moved: dict[int, list[Lost]] = {}
    while pending and len(rows) and pending[0][1].gap.offset <= offsets[-1]:
        loss = pending.popleft()[1]
        moved.setdefault(int(rows[bisect_left(offsets, loss.gap.offset)]), []).append(loss)
    for row, losses in moved.items():
        found[row] = before_of(losses, gaps.get(row, 0))


def before_of(losses: Sequence[Lost], length: int = 0) -> Before:
    """Return several losses as one; ``length``: of what is between two frames, 0 where all of it is in the first."""
    sent = [each.length for loss in losses for each in loss.sent]
    skipped = sum(loss.skipped for loss in losses)
    missed = Missed(sum(each or 0 for each in sent), len(sent), sent.count(None), skipped)
    texts = [loss.gap.length for loss in losses]
    if None in texts:
        return Before(UNKNOWN_LOSS, missed)
    return Before(length or sum(each or 0 for each in texts) + skipped or UNKNOWN_LOSS, missed)
