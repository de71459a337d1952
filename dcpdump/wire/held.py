"""Held: the bytes of one direction that wait for the rest of a frame, which packets brought them, and what was lost."""

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Final

from dcpdump.wire.frame import NOWHERE, Span, Where

#: About how many bytes of memory a packet takes that brought some, and a hole.
_MARK: Final = 256
_HOLE: Final = 128


class Held:
    """Bytes from ``offset`` of their direction on. Lost ones among them stand as zeros."""

    __slots__ = ("data", "hole_bytes", "holes", "least", "marks", "offset", "segment")

    def __init__(self) -> None:
        self.data = bytearray()
        self.offset = 0  #: of the first byte
        self.marks: list[tuple[int, Where]] = []  #: where the bytes up to an offset came from
        self.least = 0  #: of the packets that brought what is before this offset, only the last is asked for
        self.holes: list[Span] = []  #: lost bytes, as places in ``data``
        self.hole_bytes = 0  #: all of them together
        self.segment = True  #: the first byte is that of a segment

    @property
    def weight(self) -> int:
        """The memory that it takes: of segments of a byte, those cost more than the bytes."""
        return len(self.data) + _MARK * len(self.marks) + _HOLE * len(self.holes)

    def add(self, data: bytes, where: Where) -> None:
        """Add the next bytes, which a packet brought."""
        self.begin()
        self.data += data
        self.mark(self.offset + len(self.data), where)

    def begin(self) -> None:
        """Note that a segment comes; it is the first of what is held where nothing is."""
        if not self.data:
            self.segment = True
            self.marks.clear()

    def mark(self, end: int, where: Where) -> None:
        """Note that a packet brought the bytes up to an offset."""
        if self.marks and self.marks[-1][0] < self.least:
            self.marks.clear()
        self.marks.append((end, where))

    def wait(self, size: int) -> None:
        """Note that the first ``size`` bytes are one frame, whose end is still to come; 0: its size is not known."""
        self.least = self.offset + size if size else 0
        if size:
            del self.marks[:-1]

    def lose(self, length: int) -> None:
        """Let zeros stand for lost bytes. The packet that made the hole known may have come long after."""
        have = len(self.data)
        self.holes.append(Span(have, have + length))
        self.hole_bytes += length
        self.data += bytes(length)
        self.mark(self.offset + len(self.data), self.marks[-1][1])

    def drop(self, count: int) -> None:
        """Drop the first bytes."""
        if not count:
            return
        del self.data[:count]
        self.offset += count
        self.least = 0
        self.segment = False
        if self.holes:
            self.fill([Span(max(0, a - count), b - count) for a, b in self.holes if b > count])
        if len(self.marks) > 1:
            del self.marks[: bisect_right(self.marks, self.offset, key=itemgetter(0))]

    def take(self, data: bytes, used: int) -> None:
        """Hold what ``data`` has behind ``used`` bytes, instead of what is held; whoever calls this marks it."""
        if used:
            self.offset += used
            self.segment = False
            self.marks.clear()
        self.data = bytearray(data[used:] if used else data)

    def fill(self, holes: list[Span]) -> None:
        """Say which bytes were lost."""
        self.holes = holes
        self.hole_bytes = sum([end - start for start, end in holes])

    def clear(self) -> None:
        """Forget the bytes; the offset stays that of the first of them."""
        self.data = bytearray()
        self.least = 0
        self.marks.clear()
        self.fill([])

    def holes_in(self, start: int, stop: int) -> tuple[Span, ...]:
        """Return the holes of a piece, as places in it."""
        return tuple([Span(a - start, b - start) for a, b in self.holes if a < stop and b > start])

    def where(self, end: int) -> Where:
        """Return the packet that brought the byte before an offset."""
        if len(self.marks) == 1:
            return self.marks[0][1]
        place = bisect_left(self.marks, end, key=itemgetter(0))
        return self.marks[min(place, len(self.marks) - 1)][1] if self.marks else NOWHERE
