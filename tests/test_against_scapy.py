"""Our reading of packets beside scapy's layers: two readers that share no code must agree."""

import random
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting
from scapy.layers.l2 import GRE, LLC, SNAP, CookedLinux, Dot1AD, Dot1Q, Dot3, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN

from dcpdump.net.endpoints import Endpoint, Flow
from dcpdump.net.layers import Layers
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import Segment

MACS = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
OUTER = {"src": "192.0.2.1", "dst": "192.0.2.2"}


def four(chance: random.Random) -> Any:
    return IP(src=f"10.0.{chance.randrange(256)}.1", dst=f"10.1.0.{chance.randrange(256)}", ttl=9, flags="DF")


def six(chance: random.Random) -> Any:
    return IPv6(src=f"fd00::{chance.randrange(1 << 16):x}", dst="fd00::9")


#: Link type, what is around the IP header, the IP header, and what is between it and TCP.
STACKS: dict[str, tuple[int, Any, Any, Any]] = {
    "Ethernet": (1, Ether(**MACS), four, None),
    "Ethernet IPv6": (1, Ether(**MACS), six, None),
    "VLAN": (1, Ether(**MACS) / Dot1Q(vlan=5), four, None),
    "QinQ": (1, Ether(**MACS) / Dot1AD(vlan=5) / Dot1Q(vlan=6), six, None),
    "SNAP": (1, Dot3(**MACS) / LLC() / SNAP(), four, None),
    "PPPoE": (1, Ether(**MACS) / PPPoE(sessionid=3) / PPP(), four, None),
    "SLL": (113, CookedLinux(), six, None),
    "RAW": (101, None, four, None),
    "PPP": (9, PPP(), four, None),
    "GRE": (1, Ether(**MACS) / IP(**OUTER) / GRE(key_present=1, key=7), four, None),
    "6in4": (1, Ether(**MACS) / IP(**OUTER, proto=41), six, None),
    "VXLAN": (1, Ether(**MACS) / IP(**OUTER) / UDP(dport=4789) / VXLAN(vni=9) / Ether(**MACS), four, None),
    "extension headers": (
        1,
        Ether(**MACS),
        six,
        IPv6ExtHdrHopByHop() / IPv6ExtHdrRouting() / IPv6ExtHdrDestOpt(),
    ),
}

OPTIONS = [[], [("NOP", None), ("NOP", None), ("Timestamp", (7, 9))], [("MSS", 1460), ("SAckOK", b"")]]


@pytest.mark.parametrize("name", STACKS)
def test_both_read_the_same_segment(name: str) -> None:
    link_type, around, network, between = STACKS[name]
    chance = random.Random(name)
    for number in range(1, 31):
        ip = network(chance)
        segment = TCP(
            sport=chance.randrange(1, 1 << 16),
            dport=chance.choice((11210, 11209, 80)),
            seq=chance.randrange(1 << 32),
            ack=chance.randrange(1 << 32),
            flags=chance.choice(("S", "SA", "A", "PA", "FA", "R")),
            window=chance.randrange(1 << 16),
            options=chance.choice(OPTIONS),
        )
        text = chance.randbytes(chance.choice((0, 1, 25, 1400)))
        stack = ip / between / segment / text if between is not None else ip / segment / text
        data = bytes(around / stack if around is not None else stack)
        theirs = type(around)(data) if around is not None else IP(data)
        inner, tcp = theirs[type(ip)], theirs[TCP]
        while inner.payload and inner.payload.getlayer(type(ip)):  # scapy shows the outermost first
            inner = inner.payload.getlayer(type(ip))
        ours = Layers().feed(Packet(number, 0, link_type, data, len(data)))
        assert isinstance(ours, Segment), ours
        assert (ours.seq, ours.ack, ours.flags, ours.window) == (tcp.seq, tcp.ack, int(tcp.flags), tcp.window)
        assert ours.flow == Flow(Endpoint(inner.src, tcp.sport), Endpoint(inner.dst, tcp.dport))
        assert ours.payload == bytes(tcp.payload)[: len(text)] == text


@pytest.mark.parametrize("name", STACKS)
def test_what_we_find_in_damaged_packets_scapy_finds_too(name: str) -> None:
    """One damaged byte at a time. Where both find TCP, it is the same TCP."""
    link_type, around, network, between = STACKS[name]
    chance = random.Random(name)
    ip = network(chance)
    segment = TCP(sport=1, dport=2, seq=3, ack=4, flags="PA") / (b"x" * 25)
    stack = ip / between / segment if between is not None else ip / segment
    good = bytes(around / stack if around is not None else stack)
    compared = 0
    for at in range(len(good) - 25):
        bad = bytearray(good)
        bad[at] ^= 1 << chance.randrange(8)
        ours = Layers().feed(Packet(1, 0, link_type, bytes(bad), len(bad)))
        theirs = type(around)(bytes(bad)) if around is not None else IP(bytes(bad))
        if isinstance(ours, Segment) and TCP in theirs:
            tcp = theirs[TCP]
            assert (ours.seq, ours.ack, ours.window) == (tcp.seq, tcp.ack, tcp.window), at
            assert ours.flags == int(tcp.flags) & 0xFF
            compared += 1
    assert compared > len(good) // 3
