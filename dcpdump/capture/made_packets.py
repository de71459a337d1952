"""Make TCP packets of bytes that were passed on: as they would look on a wire, with right checksums."""

import time
from ipaddress import ip_address
from struct import pack

from dcpdump.net import checksum
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import ACK, FIN, PSH, RST, SYN

#: LINKTYPE_RAW: packets that begin with their IP header.
RAW_IP = 101
#: Bytes that one packet carries at most; with its headers an IPv4 packet is no larger than 65,535.
MOST = 64_000
_TCP = 6
_WINDOW = 65_535
_ISN = (1_000, 2_000_000_000)  #: the first sequence numbers of the two directions


class MadeConnection:
    """A writer of the packets of one connection. Direction 0 is that of the end that opened it.

    ``src`` and ``dst``: address and port of the two ends; where one is of IPv6, the other is mapped to it.
    """

    def __init__(self, src: tuple[str, int], dst: tuple[str, int]) -> None:
        addresses = [ip_address(end[0].partition("%")[0]) for end in (src, dst)]
        if any(each.version == 6 for each in addresses):
            addresses = [ip_address(f"::ffff:{each}") if each.version == 4 else each for each in addresses]
        self._ends = [each.packed for each in addresses]
        self._ports = [src[1], dst[1]]
        self._next = list(_ISN)  #: of each direction: the sequence number of its next byte

    def opened(self, number: int) -> list[Packet]:
        """Return the three packets of the handshake; the first has the ``number``."""
        flags = ((0, SYN), (1, SYN | ACK), (0, ACK))
        return [self._packet(number + at, direction, kind) for at, (direction, kind) in enumerate(flags)]

    def data(self, number: int, direction: int, data: bytes) -> Packet:
        """Return a packet with bytes, ``MOST`` of them at most."""
        return self._packet(number, direction, PSH | ACK, data)

    def ended(self, number: int, direction: int) -> Packet:
        """Return the packet by which a direction ends."""
        return self._packet(number, direction, FIN | ACK)

    def reset(self, number: int, direction: int) -> Packet:
        """Return the packet by which an end resets the connection."""
        return self._packet(number, direction, RST | ACK)

    def _packet(self, number: int, direction: int, flags: int, data: bytes = b"") -> Packet:
        src, dst = self._ends[direction], self._ends[1 - direction]
        ports = self._ports[direction], self._ports[1 - direction]
        answered = self._next[1 - direction] if flags & ACK else 0
        head = pack(">HHIIBBHHH", *ports, self._next[direction], answered, 5 << 4, flags, _WINDOW, 0, 0)
        segment = bytearray(head + data)
        checksum.mend(checksum.pseudo_header(src + dst, _TCP, len(segment)), segment, checksum.PLACES[_TCP])
        length = len(data) + bool(flags & (SYN | FIN))
        self._next[direction] = (self._next[direction] + length) & 0xFFFFFFFF
        packet = _ip_header(src, dst, len(segment)) + bytes(segment)
        return Packet(number, time.time_ns(), RAW_IP, packet, len(packet))


def _ip_header(src: bytes, dst: bytes, length: int) -> bytes:
    if len(src) == 16:
        return pack(">IHBB", 6 << 28, length, _TCP, 64) + src + dst
    head = bytearray(pack(">BBHIBBH", 0x45, 0, 20 + length, 0x4000, 64, _TCP, 0) + src + dst)
    checksum.mend(b"", head, checksum.IPV4_PLACE)
    return bytes(head)
