"""Build packets for tests: Ethernet, IP and TCP by hand, and whole conversations cut into them."""

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from dcpdump.net.endpoints import Endpoint, Flow
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import ACK, FIN, PSH, RST, SYN, advance

__all__ = ["ACK", "FIN", "PSH", "RST", "SYN"]

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
NOON = 1_763_640_000 * 1_000_000_000


def flow(src: str = "10.0.0.1:50000", dst: str = "10.0.0.2:11210") -> Flow:
    """Return the flow between ``host:port`` and ``host:port``."""
    ends = (text.rpartition(":") for text in (src, dst))
    return Flow(*(Endpoint(host.strip("[]"), int(port)) for host, _, port in ends))


FLOW = flow()
FLOW6 = flow("[fd00::1]:50000", "[fd00::2]:11210")


def tcp(
    flow: Flow,
    seq: int,
    payload: bytes = b"",
    *,
    flags: int = ACK,
    ack: int = 0,
    window: int = 65_535,
    options: bytes = b"",
) -> bytes:
    """Return a TCP segment; its checksum is 0, as it is not checked."""
    words = 5 + len(options) // 4
    header = struct.pack(">HHIIBBHHH", flow.src.port, flow.dst.port, seq, ack, words << 4, flags, window, 0, 0)
    return header + options + payload


def udp(src: int, dst: int, payload: bytes) -> bytes:
    """Return a UDP datagram."""
    return struct.pack(">HHHH", src, dst, 8 + len(payload), 0) + payload


def ipv4(
    flow: Flow,
    payload: bytes,
    *,
    protocol: int = 6,
    ident: int = 1,
    fragment: int = 0,
    more: bool = False,
    length: int | None = None,
    options: bytes = b"",
) -> bytes:
    """Return an IPv4 packet. ``fragment`` is its offset in bytes, ``length`` overrides the total length."""
    words = 5 + len(options) // 4
    total = words * 4 + len(payload) if length is None else length
    place = fragment // 8 | (0x2000 if more else 0)
    header = struct.pack(">BBHHHBBH", 0x40 | words, 0, total, ident, place, 64, protocol, 0)
    return header + _addresses(flow) + options + payload


def ipv6(flow: Flow, payload: bytes, *, protocol: int = 6, length: int | None = None) -> bytes:
    """Return an IPv6 packet; extension headers are the caller's, in ``payload``."""
    size = len(payload) if length is None else length
    return struct.pack(">IHBB", 6 << 28, size, protocol, 64) + _addresses(flow) + payload


@lru_cache(maxsize=1024)
def _addresses(flow: Flow) -> bytes:
    return ip_address(flow.src.host).packed + ip_address(flow.dst.host).packed


def ipv4_tcp(flow: Flow, seq: int, payload: bytes = b"", **options: Any) -> bytes:
    """Return an IPv4 packet with a TCP segment."""
    return ipv4(flow, tcp(flow, seq, payload, **options))


def ipv6_tcp(flow: Flow, seq: int, payload: bytes = b"", **options: Any) -> bytes:
    """Return an IPv6 packet with a TCP segment."""
    return ipv6(flow, tcp(flow, seq, payload, **options))


def segment(flow: Flow, seq: int, payload: bytes = b"", **options: Any) -> bytes:
    """Return an Ethernet frame with a TCP segment, over the IP version of the flow."""
    return ethernet((ipv6_tcp if ":" in flow.src.host else ipv4_tcp)(flow, seq, payload, **options))


_MACS = bytes.fromhex("020000000002 020000000001")


def ethernet(payload: bytes, ethertype: int | None = None) -> bytes:
    """Return an Ethernet frame; the ethertype is that of the IP version in it, unless given."""
    if ethertype is None:
        ethertype = 0x86DD if payload[0] >> 4 == 6 else 0x0800
    return _MACS + struct.pack(">H", ethertype) + payload


def vlan(payload: bytes, *tags: int) -> bytes:
    """Return an Ethernet frame with VLAN tags, outermost first: ``vlan(ip, 0x88a8, 0x8100)``."""
    inner = 0x86DD if payload[0] >> 4 == 6 else 0x0800
    for ethertype in reversed(tags):
        payload, inner = struct.pack(">HH", 100, inner) + payload, ethertype
    return ethernet(payload, inner)


def packet(
    data: bytes,
    number: int = 1,
    *,
    ts_ns: int | None = NOON,
    link_type: int = 1,
    wire_length: int | None = None,
    file: str = "test.pcap",
) -> Packet:
    """Return a captured record."""
    return Packet(number, ts_ns, link_type, data, len(data) if wire_length is None else wire_length, file)


def packets(frames: Iterable[bytes], *, link_type: int = 1, step_ns: int = MILLISECOND) -> list[Packet]:
    """Return captured records of ``frames``, numbered and timed in this order."""
    times = ((NOON + number * step_ns, number, data) for number, data in enumerate(frames, 1))
    return [packet(data, number, ts_ns=ts_ns, link_type=link_type) for ts_ns, number, data in times]


def renumbered(some: Iterable[Packet], *, step_ns: int = MILLISECOND) -> list[Packet]:
    """Return the same records as if captured in this order."""
    return [each._replace(number=number, ts_ns=NOON + number * step_ns) for number, each in enumerate(some, 1)]


class TcpTalk:
    """A writer of a conversation into ``packets``: two directions of bytes, in segments.

    ``send(0, data)`` sends from the end that opens the connection, ``send(1, data)`` back, each segment at most
    ``segment`` bytes and (unless ``acks`` is false) acknowledged at once. ``fin()`` closes both directions, ``rst()``
    resets.

    >>> talk = TcpTalk(segment=1448)
    >>> talk.send(0, b"hello").send(1, b"world").fin().packets
    """

    def __init__(
        self,
        flow: Flow = FLOW,
        *,
        segment: int = 1448,
        isn: tuple[int, int] = (1000, 5000),
        syn: bool = True,
        acks: bool = True,
        start_ns: int = NOON,
        step_ns: int = MILLISECOND,
        number: int = 1,
        file: str = "test.pcap",
    ) -> None:
        self.packets: list[Packet] = []
        self.segment = segment
        self.acks = acks
        self._flows = (flow, flow.reverse)
        self._next = [advance(isn[0], 1), advance(isn[1], 1)]
        self._ts_ns = start_ns
        self._step_ns = step_ns
        self._number = number
        self._file = file
        if syn:
            self.write(0, seq=isn[0], flags=SYN, ack=0)
            self.write(1, seq=isn[1], flags=SYN | ACK)
            if acks:
                self.write(0)

    def __iter__(self) -> Iterator[Packet]:
        return iter(self.packets)

    def seq(self, direction: int) -> int:
        """Return the sequence number of the next byte that ``direction`` sends."""
        return self._next[direction]

    def send(self, direction: int, data: bytes) -> "TcpTalk":
        """Send ``data``."""
        for at in range(0, len(data), self.segment):
            piece = data[at : at + self.segment]
            self.write(direction, piece, flags=PSH | ACK)
            self._next[direction] = advance(self._next[direction], len(piece))
            if self.acks:
                self.write(1 - direction)
        return self

    def wait(self, ns: int) -> "TcpTalk":
        """Let capture time pass."""
        self._ts_ns += ns
        return self

    def skip(self, direction: int, count: int) -> "TcpTalk":
        """Send ``count`` bytes that are not captured."""
        self._next[direction] = advance(self._next[direction], count)
        return self

    def fin(self) -> "TcpTalk":
        """Close direction 0, then direction 1."""
        for direction in (0, 1):
            self.write(direction, flags=FIN | ACK)
            self._next[direction] = advance(self._next[direction], 1)
            if self.acks:
                self.write(1 - direction)
        return self

    def rst(self, direction: int = 0) -> "TcpTalk":
        """Reset the connection."""
        return self.write(direction, flags=RST | ACK)

    def write(
        self,
        direction: int,
        payload: bytes = b"",
        *,
        seq: int | None = None,
        ack: int | None = None,
        flags: int = ACK,
        window: int = 65_535,
    ) -> "TcpTalk":
        """Write one segment exactly as given: the next numbers unless given, and nothing advances."""
        seq = self._next[direction] if seq is None else seq
        ack = self._next[1 - direction] if ack is None else ack
        data = segment(self._flows[direction], seq, payload, flags=flags, ack=ack, window=window)
        self._ts_ns += self._step_ns
        self.packets.append(packet(data, self._number, ts_ns=self._ts_ns, file=self._file))
        self._number += 1
        return self
