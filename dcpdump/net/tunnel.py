"""Tunnels: IP protocols and UDP ports that carry IP or Ethernet again: two tables of what reads their headers."""

import struct
from collections.abc import Callable, Mapping

from dcpdump.net.ethertype import ETHERNET, MPLS, PPP, U16, Found, follow, mpls, version
from dcpdump.net.ip import IPV4, IPV6

_ERSPAN_2, _ERSPAN_3 = 0x88BE, 0x22EB

_PROTOCOL_NAMES = {1: "ICMP", 2: "IGMP", 17: "UDP", 50: "ESP", 58: "ICMPv6", 89: "OSPF", 132: "SCTP"}


def strip(protocol: int, data: bytes, at: int) -> Found:
    """Return the ethertype and place of the IP header that ``protocol`` carries at ``at``, or a reason."""
    tunnel = TUNNELS.get(protocol)
    try:
        if tunnel is None:
            return f"not TCP ({_PROTOCOL_NAMES.get(protocol) or f'IP protocol {protocol}'})"
        found = tunnel(data, at)
        return found if isinstance(found, str) else follow(found[0], data, found[1])
    except (struct.error, IndexError):
        return "tunnel header cut short"


def _gre(data: bytes, at: int) -> Found:
    """Generic routing encapsulation, version 0 and (for PPTP) 1, with ERSPAN's mirrored Ethernet in it."""
    flags, protocol = struct.unpack_from(">HH", data, at)
    if flags & 0x4000:
        return "GRE source routing"
    at += 4
    for bit in (0x8000, 0x2000, 0x1000):  # checksum, key, sequence
        at += 4 if flags & bit else 0
    if flags & 7 == 1:
        at += 4 if flags & 0x80 else 0  # acknowledgement
        return PPP, at
    if protocol == _ERSPAN_2:
        # Type I has neither sequence number nor header.
        return ETHERNET, at + 8 if flags & 0x1000 else at
    if protocol == _ERSPAN_3:
        return ETHERNET, at + (20 if data[at + 11] & 1 else 12)
    return protocol, at


def _vxlan(data: bytes, at: int) -> Found:
    if not data[at] & 0x08:
        return "not TCP (UDP)"
    return ETHERNET, at + 8


def _vxlan_gpe(data: bytes, at: int) -> Found:
    kinds = {1: IPV4, 2: IPV6, 3: ETHERNET, 5: MPLS}
    kind = kinds.get(data[at + 3])
    return "not TCP (UDP)" if kind is None else (kind, at + 8)


def _gtp(data: bytes, at: int) -> Found:
    """Mobile networks' user plane."""
    flags = data[at]
    if flags & 0xF0 != 0x30 or data[at + 1] != 0xFF:
        return "not TCP (UDP)"
    extension = data[at + 11] if flags & 4 else 0
    at += 12 if flags & 7 else 8
    while extension:
        length = data[at] * 4
        if not length:
            return "GTP extension of no length"
        extension, at = data[at + length - 1], at + length
    return version(data, at)


#: By UDP port; 8472 is what Linux used for VXLAN before 4789 was assigned.
_PORTS: Mapping[int, Callable[[bytes, int], Found]] = {
    2152: _gtp,
    4789: _vxlan,
    4790: _vxlan_gpe,
    6081: lambda data, at: (U16(data, at + 2)[0], at + 8 + (data[at] & 0x3F) * 4),  # Geneve
    6635: mpls,
    8472: _vxlan,
}


def _udp(data: bytes, at: int) -> Found:
    tunnel = _PORTS.get(U16(data, at + 2)[0])
    return "not TCP (UDP)" if tunnel is None else tunnel(data, at + 8)


#: By IP protocol.
TUNNELS: Mapping[int, Callable[[bytes, int], Found]] = {
    4: lambda data, at: (IPV4, at),
    17: _udp,
    41: lambda data, at: (IPV6, at),
    47: _gre,
    94: lambda data, at: (IPV4, at),
    97: lambda data, at: (ETHERNET, at + 2),  # Ethernet in IP
    137: mpls,
}
