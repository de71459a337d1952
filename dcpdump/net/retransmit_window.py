"""RetransmitWindow: the last bytes delivered, to compare with what comes again. Bounded; knows no TCP."""

from bisect import bisect_right
from operator import itemgetter
from typing import Final, NamedTuple

from dcpdump.net.event import EXCERPT

#: What keeping one piece costs beside its bytes.
OVERHEAD: Final = 128


#: A piece as it is kept: offset, bytes, time.
Kept = tuple[int, bytes, int | None]


class DeliveredPiece(NamedTuple):
    """Bytes as they arrived, and when."""

    offset: int
    data: bytes
    ts_ns: int | None


class Difference(NamedTuple):
    """The first place where bytes came again and were others."""

    offset: int
    kept: bytes
    refused: bytes


class RetransmitWindow:
    """Pieces in the order of their offsets, which is the order of their delivery."""

    __slots__ = ("_limit", "_pieces", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[Kept] = []
        self.size = 0

    def add(self, offset: int, data: bytes, ts_ns: int | None) -> None:
        """Remember a delivered piece, and forget the older half when there is too much."""
        self._pieces.append((offset, data, ts_ns))
        self.size += len(data) + OVERHEAD
        if self.size > self._limit:
            self._forget()

    def clear(self) -> None:
        """Forget all."""
        self._pieces.clear()
        self.size = 0

    def find(self, offset: int, data: bytes) -> DeliveredPiece | None:
        """Find the piece that is exactly this one."""
        at = bisect_right(self._pieces, offset, key=itemgetter(0)) - 1
        if at < 0:
            return None
        piece = DeliveredPiece(*self._pieces[at])
        return piece if piece.offset == offset and piece.data == data else None

    def compare(self, start: int, data: bytes) -> tuple[Difference | None, int]:
        """Return the first difference from what was delivered, and how many of the bytes were never there.

        Only what is remembered can be compared; bytes older than that count as having been there.
        """
        pieces, end = self._pieces, start + len(data)
        if not pieces:
            return None, 0
        absent, at = 0, max(start, pieces[0][0])
        difference = None
        for index in range(max(bisect_right(pieces, start, key=itemgetter(0)) - 1, 0), len(pieces)):
            offset, kept, _ = pieces[index]
            if offset >= end:
                break
            stop = min(end, offset + len(kept))
            if offset > at:
                absent += offset - at
                at = offset
            if stop > at:
                old, new = kept[at - offset : stop - offset], data[at - start : stop - start]
                if old != new and difference is None:
                    same = next(i for i in range(len(new)) if old[i] != new[i])
                    difference = Difference(at + same, old[same : same + EXCERPT], new[same : same + EXCERPT])
                at = stop
        return difference, absent + max(end - at, 0)

    def _forget(self) -> None:
        pieces, drop = self._pieces, 0
        while self.size > self._limit // 2 and drop < len(pieces) - 1:
            self.size -= len(pieces[drop][1]) + OVERHEAD
            drop += 1
        del pieces[:drop]
