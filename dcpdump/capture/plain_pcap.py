"""Read many records of a plain pcap at once: only what every well-made file has."""

from typing import Final

from dcpdump.big_endian import be32
from dcpdump.capture.pcap import DAY, PACKET_USUAL, YEAR, PcapHeader

SIZE: Final = 16  #: bytes of a record's header


def is_plain(header: PcapHeader) -> bool:
    """Return whether records of such a file can be read here."""
    return header.record_size == SIZE and not header.fcs and header.version == (2, 4)


class Records:
    """The whole records at the beginning of ``data``, up to the first that is not plain; lists have one entry each."""

    __slots__ = ("ends", "seconds", "sound", "starts", "times", "used", "wire")

    def __init__(self, data: bytes, big: bool, fractions: int, seconds: int | None) -> None:
        """Read the records. ``big``: numbers are big-endian; ``seconds``: those of the record before, if any."""
        self.starts: list[int] = []  #: where the bytes of packets begin in ``data``
        self.ends: list[int] = []
        self.times: list[int] = []  #: ns since 1970
        self.wire: list[int] = []  #: how long packets were on the wire
        self.sound = True  #: what follows is the beginning of a record, or may be one
        self.used = 0  #: bytes of these records
        self.seconds = seconds  #: of the last of them
        self._read(data, big, fractions)

    def _read(self, data: bytes, big: bool, fractions: int) -> None:
        starts, ends, times, wires = self.starts, self.ends, self.times, self.wire
        step = 1_000_000_000 // fractions
        known = self.seconds is not None
        before = self.seconds or 0
        at, size = 0, len(data)
        while at + SIZE <= size:
            length = number(data, at + 8, big)
            start = at + SIZE
            end = start + length
            if end > size:
                break
            seconds, fraction, wire = number(data, at, big), number(data, at + 4, big), number(data, at + 12, big)
            elapsed = seconds - before if known else 0
            if elapsed < -DAY or elapsed > YEAR or fraction >= fractions or length > wire or wire > PACKET_USUAL:
                self.sound = False
                break
            starts.append(start)
            ends.append(end)
            times.append(seconds * 1_000_000_000 + fraction * step)
            wires.append(wire)
            before, known, at = seconds, True, end
        self.used = at
        if known:
            self.seconds = before


def number(data: bytes, at: int, big: bool) -> int:
    """Return the four bytes at an offset as a number."""
    if big:
        return be32(data, at)
    return data[at + 3] << 24 | data[at + 2] << 16 | data[at + 1] << 8 | data[at]


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
