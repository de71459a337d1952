"""Read many records of a plain pcap at once: only what every well-made file has."""

from typing import TYPE_CHECKING, Final

from dcpdump.big_endian import be32, le32
from dcpdump.capture.pcap import DAY, PACKET_USUAL, YEAR, PcapHeader

if TYPE_CHECKING:
    from mypy_extensions import i64

SIZE: Final = 16  #: bytes of a record's header


def is_plain(header: PcapHeader) -> bool:
    """Return whether records of such a file can be read here."""
    return header.record_size == SIZE and not header.fcs and header.version == (2, 4)


class Records:
    """The whole records at the beginning of ``data``, up to the first that is not plain; lists have one entry each."""

    __slots__ = ("_big", "_data", "ends", "seconds", "sound", "starts", "times", "used")

    def __init__(self, data: bytes, big: bool, fractions: int, seconds: int | None) -> None:
        """Read the records. ``big``: numbers are big-endian; ``seconds``: those of the record before, if any."""
        self.starts: list[int] = []  #: where the bytes of packets begin in ``data``
        self.ends: list[int] = []
        self.times: list[int] = []  #: ns since 1970
        self.sound = True  #: what follows is the beginning of a record, or may be one
        self.used = 0  #: bytes of these records
        self.seconds = seconds  #: of the last of them
        self._data, self._big = data, big
        self._read(fractions)

    def wire(self, index: int) -> int:
        """Return how long a packet was on the wire."""
        return number(self._data, self.starts[index] - 4, self._big)

    def _read(self, fractions: int) -> None:
        starts, ends, times, data, big = self.starts, self.ends, self.times, self._data, self._big
        most: i64 = fractions
        step: i64 = 1_000_000_000 // fractions
        known = self.seconds is not None
        before: i64 = self.seconds or 0
        at: i64 = 0
        size: i64 = len(data)
        while at + SIZE <= size:
            length = number(data, at + 8, big)
            start = at + SIZE
            end = start + length
            if end > size:
                break
            seconds, fraction, wire = number(data, at, big), number(data, at + 4, big), number(data, at + 12, big)
            elapsed = seconds - before if known else 0
            if elapsed < -DAY or elapsed > YEAR or fraction >= most or length > wire or wire > PACKET_USUAL:
                self.sound = False
                break
            starts.append(start)
            ends.append(end)
            times.append(seconds * 1_000_000_000 + fraction * step)
            before, known, at = seconds, True, end
        self.used = at
        if known:
            self.seconds = before


def number(data: bytes, at: "i64", big: bool) -> "i64":
    """Return the four bytes at an offset as a number."""
    return be32(data, at) if big else le32(data, at)


def boundaries(data: bytes, big: bool) -> list[int]:
    """Return the offsets of records that follow one another from the first byte on: of the whole ones, and the next."""
    places: list[int] = []
    at, size = 0, len(data)
    while True:
        places.append(at)
        if at + SIZE > size:
            return places
        at += SIZE + number(data, at + 8, big)
        if at > size:
            return places
