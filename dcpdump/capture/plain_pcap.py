"""Read many records at once, of files without oddities."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dcpdump.big_endian import be32, le32
from dcpdump.capture.pcap import DAY, PACKET_USUAL, YEAR, InterfaceDescription, PcapHeader
from dcpdump.net.packet import Packet

if TYPE_CHECKING:
    from mypy_extensions import i64


SIZE: Final = 16  #: bytes of a record's header


def is_plain(header: PcapHeader) -> bool:
    """Return whether the records of a file with this header can be read here."""
    return header.record_size == SIZE and not header.fcs and header.version == (2, 4)


class Records:
    """The whole records at the beginning of ``data``, up to the first that is not plain; lists have one entry each."""

    __slots__ = ("_big", "_data", "ends", "seconds", "sound", "starts", "times", "used")

    def __init__(self, data: bytes, big: bool, fractions: int, seconds: int | None) -> None:
        """Read the records. ``big``: numbers are big-endian; ``seconds``: of the record before, if any."""
        self.starts: list[int] = []  #: where the bytes of packets begin in ``data``
        self.ends: list[int] = []
        self.times: list[int] = []  #: ns since 1970
        self.sound = True  #: the bytes after these are, or may be, the beginning of a record
        self.used = 0  #: bytes of these records
        self.seconds = seconds  #: of the last record
        self._data, self._big = data, big
        self._read(fractions)

    def wire(self, index: int) -> int:
        """Return a packet's length on the wire."""
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


# -- enhanced packet blocks of a pcapng, many at once: those without options, as nearly all are -------

_PACKET: Final = 6  #: the type of an enhanced packet block
_HEAD: Final = 28  #: bytes before the packet
_TAIL: Final = 4  #: and after it
_MOST: Final = (1 << 63) - 1  #: ns: fits a native number


class PlainRun:
    """The packets of contiguous blocks in ``data``, up to the first block that is not plain; lists have one entry each.

    Plain is a complete block without options, of an interface whose times are whole nanoseconds from 1970 on.
    """

    __slots__ = ("data", "ends", "file", "first", "interfaces", "links", "starts", "stop", "times", "wires")

    def __init__(self, data: bytes, at: int, big: bool, interfaces: Sequence[InterfaceDescription | None]) -> None:
        """Read the blocks from ``at`` on. ``big``: numbers are big-endian; ``interfaces``: of the section."""
        self.data = data
        self.file = ""
        self.first = 1  #: number of the first packet in its file
        self.starts: list[int] = []  #: where the bytes of packets begin in ``data``
        self.ends: list[int] = []
        self.times: list[int] = []  #: ns since 1970
        self.links: list[int] = []  #: link types
        self.interfaces: list[int] = []
        self.wires: list[int] = []  #: bytes on the wire
        self.stop = at  #: where the first block after these begins
        self._read(big, interfaces)

    def __len__(self) -> int:
        return len(self.starts)

    def packet(self, index: int) -> Packet:
        """Return one packet."""
        data = self.data[self.starts[index] : self.ends[index]]
        where = (self.times[index], self.links[index], data, self.wires[index], self.file, "", self.interfaces[index])
        return Packet(self.first + index, *where)

    def _read(self, big: bool, interfaces: Sequence[InterfaceDescription | None]) -> None:
        data, starts, ends, times = self.data, self.starts, self.ends, self.times
        links, numbers, wires = self.links, self.interfaces, self.wires
        last: i64 = -1  # the current interface
        link = 0
        factor: i64 = 0
        most: i64 = 0  # the upper half of the time
        at: i64 = self.stop
        size: i64 = len(data)
        while at + _HEAD + _TAIL <= size:
            length = number(data, at + 4, big)
            captured = number(data, at + 20, big)
            wire = number(data, at + 24, big)
            end = at + length
            if number(data, at, big) != _PACKET or length != _HEAD + captured + (-captured & 3) + _TAIL or end > size:
                break
            if captured > PACKET_USUAL or captured > wire or number(data, end - _TAIL, big) != length:
                break
            which = number(data, at + 8, big)
            if which != last:
                described = interfaces[which] if which < len(interfaces) else None
                if described is None or described.fcs or described.divisor != 1 or described.offset_ns:
                    break
                last, link, factor = which, described.link_type, described.multiplier
                most = _MOST // factor >> 32
            high = number(data, at + 12, big)
            if high >= most:
                break
            units = high << 32 | number(data, at + 16, big)
            starts.append(at + _HEAD)
            ends.append(at + _HEAD + captured)
            times.append(units * factor)
            links.append(link)
            numbers.append(which)
            wires.append(wire)
            at = end
        self.stop = at
