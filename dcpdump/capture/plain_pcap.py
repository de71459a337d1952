"""Read many packets at once, of files without oddities: the plain records of a pcap, the plain blocks of a pcapng."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dcpdump.big_endian import be32, le32
from dcpdump.net.packet import Packet

if TYPE_CHECKING:
    from mypy_extensions import i64

    from dcpdump.capture.pcap import InterfaceDescription, PcapHeader

SIZE: Final = 16  #: bytes of the header of a pcap's record
DAY: Final = 86_400
YEAR: Final = 366 * DAY
PACKET_USUAL: Final = 262_144  #: the limit of other tools; longer packets occur with offloading

_PACKET: Final = 6  #: the type of an enhanced packet block
_HEAD: Final = 28  #: bytes before the packet
_TAIL: Final = 4  #: and after it
_MOST: Final = (1 << 63) - 1  #: ns: fits a native number

_new: Final = tuple.__new__  # Packet(...) takes twice as long


class PlainRun:
    """The packets of contiguous records in ``data``, up to the first that is not plain; lists have one entry each.

    A plain record is complete and has no oddities; ``read_records`` and ``read_blocks`` say which.
    """

    def __init__(self, data: bytes, at: int, file: str, first: int) -> None:
        self.data = data
        self.file = file
        self.first = first  #: number of the first packet in its file
        self.starts: list[int] = []  #: where the bytes of packets begin in ``data``
        self.ends: list[int] = []
        self.times: list[int] = []  #: ns since 1970
        self.links: list[int] = []  #: link types
        self.interfaces: list[int] = []  #: of a pcapng
        self.stop = at  #: where the first record after these begins
        self.sound = True  #: that record may be plain too, once more of it has come
        self._head = SIZE  #: bytes of a record before its packet
        self._big = False  #: numbers are big-endian
        self._wires: list[int] = []  #: of joined runs: bytes on the wire

    @classmethod
    def joined(cls, runs: "Sequence[PlainRun]") -> "PlainRun":
        """Join contiguous runs of one file."""
        made = cls(b"".join([run.data for run in runs]), 0, runs[0].file, runs[0].first)
        base = 0
        for run in runs:
            made.starts += [start + base for start in run.starts]
            made.ends += [end + base for end in run.ends]
            made.times += run.times
            made.links += run.links
            made.interfaces += run.interfaces or [0] * len(run)
            made._wires += [run.wire(index) for index in range(len(run))]
            base += len(run.data)
        return made

    def __len__(self) -> int:
        return len(self.starts)

    def packet(self, index: int) -> Packet:
        """Return one packet."""
        data, number = self.data[self.starts[index] : self.ends[index]], self.first + index
        interface = self.interfaces[index] if self.interfaces else 0
        values = (number, self.times[index], self.links[index], data, self.wire(index), self.file, "", interface)
        packet: Packet = _new(Packet, values)
        return packet

    def wire(self, index: int) -> int:
        """Return a packet's length on the wire: in both formats, what is before its bytes."""
        return self._wires[index] if self._wires else _number(self.data, self.starts[index] - 4, self._big)

    def after(self, index: int) -> int:
        """Return where the record after that of a packet begins."""
        return self.starts[index + 1] - self._head if index + 1 < len(self.starts) else self.stop

    def read_records(self, header: "PcapHeader", seconds: int | None) -> None:
        """Read records of a pcap whose header is plain; ``seconds``: of the record before, if any.

        Plain is a record of at most the usual size, not more than a day before or a year after the one before it.
        """
        data, starts, ends, times = self.data, self.starts, self.ends, self.times
        big = self._big = header.order == ">"
        most: i64 = header.fractions
        step: i64 = 1_000_000_000 // header.fractions
        known = seconds is not None
        before: i64 = seconds or 0
        at: i64 = self.stop
        size: i64 = len(data)
        while at + SIZE <= size:
            now, fraction = _number(data, at, big), _number(data, at + 4, big)
            length, wire = _number(data, at + 8, big), _number(data, at + 12, big)
            elapsed = now - before if known else 0
            if elapsed < -DAY or elapsed > YEAR or fraction >= most or length > wire or wire > PACKET_USUAL:
                self.sound = False
                break
            start = at + SIZE
            end = start + length
            if end > size:
                break
            starts.append(start)
            ends.append(end)
            times.append(now * 1_000_000_000 + fraction * step)
            before, known, at = now, True, end
        self.stop = at
        self.links = [header.link_type] * len(starts)

    def read_blocks(self, big: bool, interfaces: "Sequence[InterfaceDescription | None]") -> None:
        """Read packet blocks of a pcapng. ``big``: numbers are big-endian; ``interfaces``: of the section.

        Plain is a block without options, as nearly all are, of an interface whose times are whole nanoseconds from 1970
        on.
        """
        data, starts, ends, times = self.data, self.starts, self.ends, self.times
        links, numbers = self.links, self.interfaces
        self._head, self._big = _HEAD, big
        last: i64 = -1  # the current interface
        link = 0
        factor: i64 = 0
        most: i64 = 0  # the upper half of the time
        at: i64 = self.stop
        size: i64 = len(data)
        while at + _HEAD + _TAIL <= size:
            length = _number(data, at + 4, big)
            captured = _number(data, at + 20, big)
            wire = _number(data, at + 24, big)
            end = at + length
            if _number(data, at, big) != _PACKET or length != _HEAD + captured + (-captured & 3) + _TAIL or end > size:
                break
            if captured > PACKET_USUAL or captured > wire or _number(data, end - _TAIL, big) != length:
                break
            which = _number(data, at + 8, big)
            if which != last:
                described = interfaces[which] if which < len(interfaces) else None
                if described is None or described.fcs or described.divisor != 1 or described.offset_ns:
                    break
                last, link, factor = which, described.link_type, described.multiplier
                most = _MOST // factor >> 32
            high = _number(data, at + 12, big)
            if high >= most:
                break
            units = high << 32 | _number(data, at + 16, big)
            starts.append(at + _HEAD)
            ends.append(at + _HEAD + captured)
            times.append(units * factor)
            links.append(link)
            numbers.append(which)
            at = end
        self.stop = at


def _number(data: bytes, at: "i64", big: bool) -> "i64":
    """Return the four bytes at an offset as a number."""
    return be32(data, at) if big else le32(data, at)
