"""RetransmitWindow: the last bytes delivered, to compare with what comes again. Bounded; knows no TCP."""

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from dcpdump.net.event import EXCERPT

if TYPE_CHECKING:
    from mypy_extensions import i64

#: What keeping one piece costs beside its bytes.
OVERHEAD: Final = 128


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
    """Pieces in the order of their offsets, which is the order of their delivery. Each has an entry in every list."""

    __slots__ = ("_limit", "_offsets", "_pieces", "_times", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._offsets: list[int] = []
        self._pieces: list[bytes] = []
        self._times: list[int | None] = []
        self.size = 0

    def add(self, offset: int, data: bytes, ts_ns: int | None) -> None:
        """Remember a delivered piece, and forget the older half when there is too much."""
        self._offsets.append(offset)
        self._pieces.append(data)
        self._times.append(ts_ns)
        self.size += len(data) + OVERHEAD
        if self.size > self._limit:
            self._forget()

    def clear(self) -> None:
        """Forget all."""
        self._offsets.clear()
        self._pieces.clear()
        self._times.clear()
        self.size = 0

    def find(self, offset: int, data: bytes) -> DeliveredPiece | None:
        """Find the piece that is exactly this one."""
        at = bisect_right(self._offsets, offset) - 1
        if at < 0 or self._offsets[at] != offset or self._pieces[at] != data:
            return None
        return DeliveredPiece(offset, self._pieces[at], self._times[at])

    def compare(self, start: int, data: bytes) -> tuple[Difference | None, int]:
        """Return the first difference from what was delivered, and how many of the bytes were never there.

        Only what is remembered can be compared; bytes older than that count as having been there.
        """
        offsets, end = self._offsets, start + len(data)
        if not offsets:
            return None, 0
        absent, at = 0, max(start, offsets[0])
        difference = None
        for index in range(max(bisect_right(offsets, start) - 1, 0), len(offsets)):
            offset, kept = offsets[index], self._pieces[index]
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
        pieces = self._pieces
        size: i64 = self.size
        enough: i64 = self._limit // 2
        drop: i64 = 0
        while size > enough and drop < len(pieces) - 1:
            size -= len(pieces[drop]) + OVERHEAD
            drop += 1
        self.size = size
        del self._offsets[:drop], pieces[:drop], self._times[:drop]
