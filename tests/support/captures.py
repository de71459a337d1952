"""Write captures for tests: pcap and pcapng bytes, healthy ones and ones that are wrong on purpose."""

from collections.abc import Iterable, Sequence
from struct import pack
from typing import Any, NamedTuple

from dcpdump.net.packet import Packet
from tests.support.packets import flow, ipv4, udp


class Record(NamedTuple):
    """A packet to write. ``captured`` and ``wire`` are what its header claims; None means the truth."""

    ts_ns: int
    data: bytes
    wire: int | None = None
    captured: int | None = None


def pcap_header(
    link_type: int = 1,
    nano: bool = False,
    big_endian: bool = False,
    snaplen: int = 262_144,
    version: tuple[int, int] = (2, 4),
    magic: int | None = None,
) -> bytes:
    """Return a pcap's global header."""
    order = ">" if big_endian else "<"
    if magic is None:
        magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    return pack(order + "IHHiIII", magic, *version, 0, 0, snaplen, link_type)


def pcap_record(record: Record, nano: bool = False, big_endian: bool = False) -> bytes:
    """Return one record of a pcap."""
    ts_ns, data, wire, captured = record
    seconds, fraction = divmod(ts_ns, 1_000_000_000)
    captured = len(data) if captured is None else captured
    wire = captured if wire is None else wire
    order = ">" if big_endian else "<"
    return pack(order + "IIII", seconds, fraction if nano else fraction // 1000, captured, wire) + data


def pcap(
    packets: Iterable[Record], link_type: int = 1, nano: bool = False, big_endian: bool = False, **more: Any
) -> bytes:
    """Return a pcap file."""
    records = [pcap_record(packet, nano, big_endian) for packet in packets]
    return pcap_header(link_type, nano, big_endian, **more) + b"".join(records)


def records_of(packets: Iterable[Packet]) -> list[Record]:
    """Return captured packets as records, with the lengths that they had on the wire."""
    return [Record(each.ts_ns or 0, each.data, wire=each.wire_length) for each in packets]


class Pcapng:
    """The blocks of a section, in one byte order. Each method returns the bytes of one block."""

    def __init__(self, big_endian: bool = False) -> None:
        self.order = ">" if big_endian else "<"

    def block(self, kind: int, body: bytes, length: int | None = None, trailer: int | None = None) -> bytes:
        """Return a block; ``length`` and ``trailer`` are what its two length fields claim."""
        body += b"\0" * (-len(body) % 4)
        length = 12 + len(body) if length is None else length
        trailer = length if trailer is None else trailer
        return pack(self.order + "II", kind, length) + body + pack(self.order + "I", trailer)

    def options(self, options: Sequence[tuple[int, bytes]]) -> bytes:
        """Return options and their end; empty for none."""
        if not options:
            return b""
        raw = b"".join(
            pack(self.order + "HH", code, len(value)) + value + b"\0" * (-len(value) % 4) for code, value in options
        )
        return raw + pack(self.order + "HH", 0, 0)

    def section(self, options: Sequence[tuple[int, bytes]] = (), major: int = 1) -> bytes:
        body = pack(self.order + "IHHq", 0x1A2B3C4D, major, 0, -1) + self.options(options)
        return self.block(0x0A0D0D0A, body)

    def interface(self, link_type: int = 1, snaplen: int = 0, options: Sequence[tuple[int, bytes]] = ()) -> bytes:
        return self.block(1, pack(self.order + "HHI", link_type, 0, snaplen) + self.options(options))

    def packet(
        self,
        units: int,
        data: bytes,
        interface: int = 0,
        wire: int | None = None,
        captured: int | None = None,
        options: Sequence[tuple[int, bytes]] = (),
    ) -> bytes:
        """Return an enhanced packet block; ``units`` is the time as the interface counts it."""
        captured = len(data) if captured is None else captured
        wire = captured if wire is None else wire
        head = pack(self.order + "IIIII", interface, units >> 32, units & 0xFFFFFFFF, captured, wire)
        return self.block(6, head + data + b"\0" * (-len(data) % 4) + self.options(options))

    def simple_packet(self, data: bytes, wire: int | None = None) -> bytes:
        return self.block(3, pack(self.order + "I", len(data) if wire is None else wire) + data)

    def old_packet(self, units: int, data: bytes, interface: int = 0, drops: int = 0xFFFF) -> bytes:
        """Return an obsolete packet block."""
        head = pack(self.order + "HHIIII", interface, drops, units >> 32, units & 0xFFFFFFFF, len(data), len(data))
        return self.block(2, head + data)

    def statistics(self, interface: int = 0, options: Sequence[tuple[int, bytes]] = ()) -> bytes:
        return self.block(5, pack(self.order + "III", interface, 0, 0) + self.options(options))


def pcapng(packets: Iterable[Record], link_type: int = 1, big_endian: bool = False, snaplen: int = 0) -> bytes:
    """Return a pcapng file: one section, one interface with nanoseconds, enhanced packets."""
    write = Pcapng(big_endian)
    blocks = [write.section(), write.interface(link_type, snaplen, [(9, b"\x09")])]
    blocks += [write.packet(each.ts_ns, each.data, wire=each.wire, captured=each.captured) for each in packets]
    return b"".join(blocks)


def ethernet(payload: bytes, number: int = 0) -> bytes:
    """Return an Ethernet, IPv4 and UDP packet around ``payload``: what bytes after damage must look like."""
    datagram = udp(40_000, 11_210, payload)
    ip = ipv4(flow("10.0.0.1:1", "10.0.0.2:1"), datagram, protocol=17, ident=number & 0xFFFF)
    return b"\x02" * 12 + b"\x08\x00" + ip
