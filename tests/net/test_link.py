"""Link types and tunnels: one payload through every encapsulation that holds TCP."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.net.ip import IPV4, IPV6
from dcpdump.net.layers import Layers
from dcpdump.net.limits import Limits
from dcpdump.net.link import LINKS, strip
from dcpdump.net.tcp import Segment
from tests.support.packets import FLOW, FLOW6, ethernet, ipv4, ipv4_tcp, ipv6, ipv6_tcp, packet, udp, vlan

TEXT = b"twenty-five bytes of text"
V4 = ipv4_tcp(FLOW, 1, TEXT)
V6 = ipv6_tcp(FLOW6, 1, TEXT)
SNAP = b"\xaa\xaa\x03\0\0\0"
U16 = struct.Struct(">H").pack


def family(number: int, order: str = "<") -> bytes:
    return struct.pack(order + "I", number)


def nflog(payload: bytes, order: str = "<") -> bytes:
    def attribute(kind: int, value: bytes) -> bytes:
        return struct.pack(order + "HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)

    return bytes((2, 0, 0, 0)) + attribute(1, b"\x08\0\x03\0") + attribute(10, b"in\0") + attribute(9, payload)


def wifi(*, quality: bool = False, bridge: bool = False, padded: bool = False) -> bytes:
    header = bytes((0x88 if quality else 0x08, 3 if bridge else 1)) + bytes(28 if bridge else 22)
    header += bytes(2) if quality else b""
    return header + (bytes(-len(header) % 4) if padded else b"") + SNAP + b"\x08\0" + V4


def mpls(*labels: int) -> bytes:
    return b"".join(
        struct.pack(">I", label << 12 | (number == len(labels)) << 8 | 64) for number, label in enumerate(labels, 1)
    )


def gre(payload: bytes, protocol: int, flags: int = 0) -> bytes:
    words = sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000))
    return ipv4(FLOW, struct.pack(">HH", flags, protocol) + bytes(4 * words) + payload, protocol=47)


def over_udp(port: int, payload: bytes) -> bytes:
    return ethernet(ipv4(FLOW, udp(5555, port, payload), protocol=17))


VXLAN = b"\x08\0\0\0\0\0\x64\0"
GENEVE = b"\x02\0\x65\x58\0\0\x64\0" + bytes(8)

ENCAPSULATIONS = {
    "Ethernet IPv4": (1, ethernet(V4)),
    "Ethernet IPv6": (1, ethernet(V6)),
    "Ethernet with padding": (1, ethernet(V4) + bytes(9)),
    "VLAN": (1, vlan(V4, 0x8100)),
    "QinQ 802.1ad": (1, vlan(V4, 0x88A8, 0x8100)),
    "QinQ 0x9100": (1, vlan(V6, 0x9100, 0x8100)),
    "four tags": (1, vlan(V4, 0x88A8, 0x8100, 0x8100, 0x8100)),
    "802.3 LLC SNAP": (1, ethernet(SNAP + b"\x08\0" + V4, 8 + len(V4))),
    "802.3 LLC IP": (1, ethernet(b"\x06\x06\x03" + V4, 3 + len(V4))),
    "MPLS": (1, ethernet(mpls(16) + V4, 0x8847)),
    "MPLS, two labels, IPv6": (1, ethernet(mpls(16, 17) + V6, 0x8847)),
    "MPLS multicast": (1, ethernet(mpls(16) + V4, 0x8848)),
    "Ethernet over MPLS with control word": (1, ethernet(mpls(16) + bytes(4) + ethernet(V4), 0x8847)),
    "PPPoE": (1, ethernet(b"\x11\0\0\1" + U16(len(V4) + 2) + b"\0\x21" + V4, 0x8864)),
    "PPPoE IPv6": (1, ethernet(b"\x11\0\0\1" + U16(len(V6) + 2) + b"\0\x57" + V6, 0x8864)),
    "provider backbone": (1, ethernet(bytes(4) + ethernet(V4), 0x88E7)),
    "NULL, little-endian": (0, family(2) + V4),
    "NULL, big-endian": (0, family(2, ">") + V4),
    "NULL IPv6, NetBSD": (0, family(24) + V6),
    "NULL IPv6, FreeBSD": (0, family(28) + V6),
    "NULL IPv6, macOS": (0, family(30) + V6),
    "NULL IPv6, macOS, big-endian": (0, family(30, ">") + V6),
    "NULL IPv6, Linux": (0, family(10) + V6),
    "LOOP": (108, family(2, ">") + V4),
    "LOOP IPv6": (108, family(24, ">") + V6),
    "OpenBSD loopback in a file": (12, family(24, ">") + V6),
    "RAW": (101, V4),
    "RAW IPv6": (101, V6),
    "RAW 12": (12, V4),
    "RAW 14": (14, V6),
    "IPV4": (228, V4),
    "IPV6": (229, V6),
    "SLL": (113, bytes(14) + b"\x08\0" + V4),
    "SLL IPv6": (113, bytes(14) + b"\x86\xdd" + V6),
    "SLL VLAN": (113, bytes(14) + b"\x81\0\0\x64\x08\0" + V4),
    "SLL2": (276, b"\x08\0" + bytes(18) + V4),
    "SLL2 IPv6": (276, b"\x86\xdd" + bytes(18) + V6),
    "NFLOG": (239, nflog(V4)),
    "NFLOG, big-endian": (239, nflog(V6, ">")),
    "PPP": (9, b"\0\x21" + V4),
    "PPP with address": (9, b"\xff\x03\0\x57" + V6),
    "PPP, short protocol": (9, b"\x21" + V4),
    "PPP HDLC": (50, b"\xff\x03\0\x21" + V4),
    "PPP HDLC, Cisco": (50, b"\x0f\0\x08\0" + V4),
    "PPP_ETHER": (51, b"\x11\0\0\1\0\0\0\x21" + V4),
    "PPPD": (166, b"\0\0\x21" + V4),
    "PPP with direction": (204, b"\1\xff\x03\0\x21" + V4),
    "Cisco HDLC": (104, b"\x0f\0\x08\0" + V4),
    "802.11": (105, wifi()),
    "802.11 with quality of service": (105, wifi(quality=True)),
    "802.11 bridge": (105, wifi(bridge=True)),
    "radiotap": (127, b"\0\0\x08\0\0\0\0\0" + wifi(quality=True)),
    "radiotap, padded": (127, b"\0\0\x0c\0\2\0\0\0\x20\0\0\0" + wifi(quality=True, padded=True)),
    "radiotap with time and flags": (
        127,
        b"\0\0\x1c\0\3\0\0\x80\0\0\0\0" + bytes(12) + b"\x20\0\0\0" + wifi(quality=True, padded=True),
    ),
    "Prism": (119, family(0x44) + family(144) + bytes(136) + wifi()),
    "PPI": (192, b"\0\0\x08\0" + family(105) + wifi()),
    "PKTAP": (258, family(108) + family(1) + family(1) + bytes(96) + ethernet(V4)),
    "802.15.4, 6LoWPAN": (230, b"\1\x08\1\xff\xff\xff\xff\x41" + V6),
    "Ethernet with preamble": (274, bytes(8) + ethernet(V4)),
    "6in4": (1, ethernet(ipv4(FLOW, V6, protocol=41))),
    "ipip": (1, ethernet(ipv4(FLOW, V4, protocol=4))),
    "4in6": (1, ethernet(ipv6(FLOW6, V4, protocol=4))),
    "MPLS in IP": (1, ethernet(ipv4(FLOW, mpls(16) + V4, protocol=137))),
    "GRE": (1, ethernet(gre(V4, 0x0800))),
    "GRE IPv6 with checksum, key and sequence": (1, ethernet(gre(V6, 0x86DD, 0xB000))),
    "NVGRE": (1, ethernet(gre(ethernet(V4), 0x6558, 0x2000))),
    "GRE in a VLAN": (1, vlan(gre(V4, 0x0800), 0x8100)),
    "PPTP": (1, ethernet(ipv4(FLOW, b"\x30\x81\x88\x0b" + bytes(12) + b"\xff\x03\0\x21" + V4, protocol=47))),
    "ERSPAN I": (1, ethernet(gre(ethernet(V4), 0x88BE))),
    "ERSPAN II": (1, ethernet(gre(bytes(8) + ethernet(V4), 0x88BE, 0x1000))),
    "ERSPAN III": (1, ethernet(gre(bytes(12) + ethernet(V4), 0x22EB, 0x1000))),
    "ERSPAN III with subheader": (1, ethernet(gre(bytes(11) + b"\1" + bytes(8) + ethernet(V4), 0x22EB, 0x1000))),
    "VXLAN": (1, over_udp(4789, VXLAN + ethernet(V4))),
    "VXLAN as Linux was": (1, over_udp(8472, VXLAN + ethernet(V6))),
    "Geneve": (1, over_udp(6081, GENEVE + ethernet(V4))),
    "Geneve IPv4": (1, over_udp(6081, b"\0\0\x08\0\0\0\0\0" + V4)),
    "MPLS in UDP": (1, over_udp(6635, mpls(16) + V4)),
    "VXLAN in VXLAN": (1, over_udp(4789, VXLAN + over_udp(4789, VXLAN + ethernet(V4)))),
}


@pytest.mark.parametrize("name", ENCAPSULATIONS)
def test_the_payload_is_found_in(name: str) -> None:
    link_type, data = ENCAPSULATIONS[name]
    segment = Layers().feed(packet(data, link_type=link_type))
    assert isinstance(segment, Segment), segment
    assert segment.payload == TEXT
    assert segment.flow in (FLOW, FLOW6)


#: Link types that scapy has IP under.
OF_SCAPY = {119, 192, 230, 274}


def test_every_link_type_of_the_table_is_in_these_tests() -> None:
    tested = {link_type for link_type, _ in ENCAPSULATIONS.values()}
    assert (set(LINKS) - tested, tested - set(LINKS)) == ({149}, OF_SCAPY)  # PKTAP's other number


@pytest.mark.parametrize(
    ("link_type", "data", "reason"),
    [
        (147, b"", "unknown link 147"),
        (6, V4, "unknown link 6, IEEE802"),  # token ring
        (10, V4, "unknown link 10, FDDI"),
        (249, V4, "unknown link 249, USBPCAP"),
        (187, b"\x02" + V4, "not IP (link 187, BLUETOOTH_HCI_H4)"),
        (230, b"\1\x08\1\xff\xff\xff\xff\x78\x33" + V6, "not IP (link 230, IEEE802_15_4_NOFCS)"),  # compressed
        (1, ethernet(V4)[:13], "link header cut short"),
        (1, ethernet(bytes(46), 0x0806), "not IP (ethertype 0x0806)"),
        (1, ethernet(bytes(46), 0x88CC), "not IP (ethertype 0x88cc)"),  # LLDP
        (1, ethernet(b"\x42\x42\x03" + bytes(43), 38), "not IP (LLC)"),
        (1, vlan(V4, *[0x8100] * 5), "too deep (VLAN tags)"),
        (1, ethernet(mpls(*range(17)) + V4, 0x8847), "too deep (MPLS labels)"),
        (0, family(7) + V4, "not IP (address family 7)"),
        (105, b"\x08\x41" + bytes(60), "encrypted 802.11"),
        (105, b"\x80\0" + bytes(60), "not IP (802.11 without data)"),
        (239, nflog(b"")[:12] + bytes(4), "NFLOG attribute shorter than its header"),
        (258, ethernet(V4), "not a PKTAP packet"),
        (9, b"\xc0\x21" + bytes(20), "not IP (PPP protocol 0xc021)"),
        (1, over_udp(53, bytes(20)), "not TCP (UDP)"),
        (1, ethernet(gre(V4, 0x0800, 0x4000)), "GRE source routing"),
        (1, over_udp(4789, VXLAN + ethernet(V4)[:10]), "tunnel header cut short"),
    ],
)
def test_what_holds_no_tcp_is_refused_with_a_reason(link_type: int, data: bytes, reason: str) -> None:
    assert Layers().feed(packet(data, link_type=link_type)) == reason


def test_ip_in_ip_has_a_bottom() -> None:
    def nest(depth: int) -> bytes:
        data = V4
        for _ in range(depth):
            data = ipv4(FLOW, data, protocol=4)
        return ethernet(data)

    assert isinstance(Layers().feed(packet(nest(7))), Segment)
    assert Layers().feed(packet(nest(8))) == "too deep (IP in IP)"
    assert Layers(Limits(encapsulations=3)).feed(packet(nest(3))) == "too deep (IP in IP)"


def test_bridges_in_bridges_have_a_bottom() -> None:
    assert strip(1, ethernet(ethernet(b"", 0x6558) * 100_000, 0x6558)) == "too deep (link headers)"


def test_what_is_inside_is_no_longer_than_the_outside() -> None:
    inner = ipv4(FLOW, V4[20:], length=0)
    segment = Layers().feed(packet(ethernet(ipv4(FLOW, inner, protocol=4)) + b"trailer"))
    assert isinstance(segment, Segment)
    assert segment.payload == TEXT


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(OF_SCAPY.union(LINKS, [187]))), st.binary(max_size=150))
def test_no_bytes_raise(link_type: int, data: bytes) -> None:
    found = strip(link_type, data)
    assert isinstance(found, str) or found[0] in (IPV4, IPV6)
    Layers().feed(packet(data, link_type=link_type))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["Ethernet IPv4", "Ethernet IPv6", "SLL", "SLL IPv6"]), st.data())
def test_the_short_way_never_differs_from_the_long_one(name: str, data: st.DataObject) -> None:
    link_type, good = ENCAPSULATIONS[name]
    bad = bytearray(good[: data.draw(st.integers(0, len(good)))])
    for at in data.draw(st.lists(st.integers(12, 75), max_size=4)):
        if at < len(bad):
            bad[at] = data.draw(st.integers(0, 255))
    pad = data.draw(st.sampled_from([0, 0, 7]))
    short = Layers().feed(packet(bytes(bad) + bytes(pad), link_type=link_type))
    # The same bytes through a link type that has no short way.
    header = {1: 14, 113: 16}[link_type]
    ethertype = bytes(bad[header - 2 : header])
    if len(ethertype) == 2 and ethertype in (b"\x08\0", b"\x86\xdd"):
        long = Layers().feed(packet(ethertype + bytes(18) + bad[header:] + bytes(pad), link_type=276))
        assert short == long
