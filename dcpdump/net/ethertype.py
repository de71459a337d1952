"""Ethertypes: from an ethertype to the IP header under it, past tags and labels. Knows no link type.

Everything here reads forward from an offset and raises ``IndexError`` or ``struct.error`` where the data
ends; its callers turn that into a reason.
"""

import struct
from collections.abc import Callable, Mapping

from dcpdump.net.ip import IPV4, IPV6

#: What lies where: an ethertype and an offset; or the reason why there is nothing to read.
Found = tuple[int, int] | str

LLC = 4  #: any value below 0x600 is a length, and an 802.2 header follows; Linux writes 4
ETHERNET = 0x6558  #: "transparent Ethernet bridging": a whole Ethernet frame
MPLS = 0x8847
PPP = 0x880B

_LENGTHS = 0x5FF

#: Shims of any kind before IP; real networks use three or four.
SHIMS = 8
#: Queue-in-queue nests two tags; four are generous.
TAGS = 4
LABELS = 16

U16 = struct.Struct(">H").unpack_from

_PPP_PROTOCOLS = {0x0021: IPV4, 0x0057: IPV6, 0x0281: MPLS, 0x0283: MPLS}


def follow(ethertype: int, data: bytes, at: int) -> Found:
    """Go from what ``ethertype`` announces at ``at`` to the IP header under it."""
    tags = 0
    for _ in range(SHIMS + 1):
        if ethertype in (IPV4, IPV6):
            return ethertype, at
        shim = _llc if ethertype <= _LENGTHS else _SHIMS.get(ethertype)
        if shim is None:
            return f"not IP (ethertype 0x{ethertype:04x})"
        if shim is _tag:
            tags += 1
            if tags > TAGS:
                return "too deep (VLAN tags)"
        found = shim(data, at)
        if isinstance(found, str):
            return found
        ethertype, at = found
    return "too deep (link headers)"


def version(data: bytes, at: int) -> Found:
    """Distinguish IPv4 from IPv6 by the header itself."""
    nibble = data[at] >> 4
    if nibble == 4:
        return IPV4, at
    if nibble == 6:
        return IPV6, at
    return "not IP (no IP version)"


def ethernet(data: bytes, at: int = 0) -> Found:
    """Read an Ethernet header."""
    return U16(data, at + 12)[0], at + 14


def mpls(data: bytes, at: int) -> Found:
    """Skip labels. What is under them only its first nibble says: 4 and 6 are IP, 0 a control word."""
    for _ in range(LABELS):
        bottom = data[at + 2] & 1
        at += 4
        if bottom:
            nibble = data[at] >> 4
            if nibble == 4 or nibble == 6:
                return version(data, at)
            return ETHERNET, at + 4 if nibble == 0 else at
    return "too deep (MPLS labels)"


def ppp(data: bytes, at: int) -> Found:
    """Read PPP's protocol field: with or without HDLC's address and control, of one byte or two."""
    if data[at : at + 2] == b"\xff\x03":
        at += 2
    protocol = data[at]
    if protocol & 1:
        at += 1
    else:
        (protocol,) = U16(data, at)
        at += 2
    ethertype = _PPP_PROTOCOLS.get(protocol)
    return f"not IP (PPP protocol 0x{protocol:04x})" if ethertype is None else (ethertype, at)


def _tag(data: bytes, at: int) -> Found:
    return U16(data, at + 2)[0], at + 4


def _llc(data: bytes, at: int) -> Found:
    """IEEE 802.2, with SNAP behind it where it says so."""
    service = data[at : at + 3]
    if service == b"\xaa\xaa\x03":
        return U16(data, at + 6)[0], at + 8
    if service == b"\x06\x06\x03":
        return IPV4, at + 3
    return "not IP (LLC)"


_SHIMS: Mapping[int, Callable[[bytes, int], Found]] = {
    0x8100: _tag,
    0x88A8: _tag,
    0x9100: _tag,
    0x9200: _tag,
    MPLS: mpls,
    0x8848: mpls,
    0x8864: lambda data, at: ppp(data, at + 6),  # PPP over Ethernet
    0x88E7: lambda data, at: (ETHERNET, at + 4),  # provider backbone
    PPP: ppp,
    ETHERNET: ethernet,
}
