"""Find the IP header of a captured record, through its link layer and through tunnels.

``LINKS``, ``TUNNELS`` and ``_PORTS`` list the kinds found in captures of servers: by LINKTYPE value, by IP protocol,
and by UDP port. A new kind is a line there, with a function unless its header is simple. The functions read forward
from an offset, and raise ``IndexError`` or ``struct.error`` where the data ends; ``strip`` and ``strip_tunnel`` turn
that into a reason. Any other link type is read through scapy's layers, which are loaded only then.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from dcpdump.net.ip import IPV4, IPV6

#: An ethertype and the offset of its header; or the reason why there is nothing to read.
Found = tuple[int, int] | str

_LLC = 4  #: any value below 0x600 is a length, and an 802.2 header follows; Linux writes 4
_ETHERNET = 0x6558  #: "transparent Ethernet bridging": a whole Ethernet frame
_MPLS = 0x8847
_PPP = 0x880B

_LENGTHS = 0x5FF

#: Shims of any kind before IP; real networks use three or four.
_MOST_SHIMS = 8
#: Queue-in-queue nests two tags; four are generous.
_MOST_TAGS = 4
_MOST_LABELS = 16

_U16 = struct.Struct(">H").unpack_from

_PPP_PROTOCOLS = {0x0021: IPV4, 0x0057: IPV6, 0x0281: _MPLS, 0x0283: _MPLS}


def _follow(ethertype: int, data: bytes, at: int) -> Found:
    """Find the IP header below the header of ``ethertype`` at ``at``."""
    tags = 0
    for _ in range(_MOST_SHIMS + 1):
        if ethertype in (IPV4, IPV6):
            return ethertype, at
        shim = _llc if ethertype <= _LENGTHS else _SHIMS.get(ethertype)
        if shim is None:
            return f"not IP (ethertype 0x{ethertype:04x})"
        if shim is _tag:
            tags += 1
            if tags > _MOST_TAGS:
                return "too deep (VLAN tags)"
        found = shim(data, at)
        if isinstance(found, str):
            return found
        ethertype, at = found
    return "too deep (link headers)"


def _version(data: bytes, at: int) -> Found:
    """Distinguish IPv4 from IPv6 by the header itself."""
    nibble = data[at] >> 4
    if nibble == 4:
        return IPV4, at
    if nibble == 6:
        return IPV6, at
    return "not IP (no IP version)"


def _ethernet(data: bytes, at: int = 0) -> Found:
    """Read an Ethernet header."""
    return _U16(data, at + 12)[0], at + 14


def _mpls(data: bytes, at: int) -> Found:
    """Skip labels. The first nibble after them tells the content: 4 and 6 are IP, 0 is a control word."""
    for _ in range(_MOST_LABELS):
        bottom = data[at + 2] & 1
        at += 4
        if bottom:
            nibble = data[at] >> 4
            if nibble == 4 or nibble == 6:
                return _version(data, at)
            return _ETHERNET, at + 4 if nibble == 0 else at
    return "too deep (MPLS labels)"


def _ppp(data: bytes, at: int) -> Found:
    """Read PPP's protocol field: with or without HDLC's address and control, of one byte or two."""
    if data[at : at + 2] == b"\xff\x03":
        at += 2
    protocol = data[at]
    if protocol & 1:
        at += 1
    else:
        (protocol,) = _U16(data, at)
        at += 2
    ethertype = _PPP_PROTOCOLS.get(protocol)
    return f"not IP (PPP protocol 0x{protocol:04x})" if ethertype is None else (ethertype, at)


def _tag(data: bytes, at: int) -> Found:
    return _U16(data, at + 2)[0], at + 4


def _llc(data: bytes, at: int) -> Found:
    """Read IEEE 802.2, with SNAP where it follows."""
    service = data[at : at + 3]
    if service == b"\xaa\xaa\x03":
        return _U16(data, at + 6)[0], at + 8
    if service == b"\x06\x06\x03":
        return IPV4, at + 3
    return "not IP (LLC)"


_SHIMS: Mapping[int, Callable[[bytes, int], Found]] = {
    0x8100: _tag,
    0x88A8: _tag,
    0x9100: _tag,
    0x9200: _tag,
    _MPLS: _mpls,
    0x8848: _mpls,
    0x8864: lambda data, at: _ppp(data, at + 6),  # PPP over Ethernet
    0x88E7: lambda data, at: (_ETHERNET, at + 4),  # provider backbone
    _PPP: _ppp,
    _ETHERNET: _ethernet,
}


_LE16 = struct.Struct("<H").unpack_from
_LE32 = struct.Struct("<I").unpack_from
_BE32 = struct.Struct(">I").unpack_from

#: Address families as the BSDs, Linux, Windows, Solaris and macOS number them.
_FAMILIES = {2: IPV4, 10: IPV6, 23: IPV6, 24: IPV6, 26: IPV6, 28: IPV6, 30: IPV6}


def strip(link_type: int, data: bytes) -> Found:
    """Return the ethertype (IPv4 or IPv6) and where its header starts, or the reason why there is none."""
    link = LINKS.get(link_type)
    if link is None:
        return _through_scapy(link_type, data)
    try:
        found = link(data)
        return found if isinstance(found, str) else _follow(found[0], data, found[1])
    except (struct.error, IndexError):
        return "link header cut short"


@cache
def _layer_of(link_type: int) -> tuple[Callable[[bytes], Any] | None, str]:
    """Return scapy's layer of a link type, if it has one, and the link type's number and name."""
    import logging  # here, as all of this: all layers take a second, and hardly a capture needs them

    logging.getLogger("scapy").setLevel(logging.CRITICAL)  # it warns of programs and interfaces missing on this machine
    import scapy.data
    import scapy.layers.all  # importing these registers their link types
    from scapy.config import conf

    names = (f", {name[4:]}" for name, number in vars(scapy.data).items() if name[:4] == "DLT_" and number == link_type)
    return conf.l2types.num2layer.get(link_type), f"{link_type}{next(names, '')}"


def _through_scapy(link_type: int, data: bytes) -> Found:
    """Find IP by scapy's layers, in the bytes as they were captured."""
    layer, name = _layer_of(link_type)
    if layer is None:
        return f"unknown link {name}"
    try:
        packet = layer(data)
        while packet and packet.__class__.__name__ not in _OF_IP:
            packet = packet.payload
    except Exception:  # its layers may raise anything on bytes that are not theirs
        return f"not IP (link {name})"
    # The header of 6LoWPAN is compressed: the bytes do not have the IP header that scapy shows.
    at = data.find(packet.original) if packet and packet.original else -1
    return f"not IP (link {name})" if at < 0 else (_OF_IP[packet.__class__.__name__], at)


#: Scapy's layers of IP.
_OF_IP = {"IP": IPV4, "IPv6": IPV6}


def _fixed(kind: int, size: int) -> Callable[[bytes], Found]:
    """Return a reader of a link type with a header of ``size`` bytes and a fixed content."""
    return lambda data: (kind, size)


def _typed(at: int, size: int) -> Callable[[bytes], Found]:
    """Return a reader of a link type with a header of ``size`` bytes, and an ethertype at ``at``."""
    return lambda data: (_U16(data, at)[0], size)


def _loopback(data: bytes) -> Found:
    """Read BSD's NULL and LOOP: an address family in the unrecorded byte order of the capturing machine."""
    (family,) = _LE32(data)
    if family > 0xFFFF:
        (family,) = _BE32(data)
    ethertype = _FAMILIES.get(family)
    return f"not IP (address family {family})" if ethertype is None else (ethertype, 4)


def _raw(data: bytes) -> Found:
    """Read raw IP; OpenBSD used the number 12 for its loopback."""
    found = _version(data, 0)
    return _loopback(data) if isinstance(found, str) else found


def _hdlc(data: bytes) -> Found:
    """Read Cisco HDLC, or PPP where its address says so."""
    return (_PPP, 0) if data[:2] == b"\xff\x03" else (_U16(data, 2)[0], 4)


def _nflog(data: bytes) -> Found:
    """Read Netfilter's log: attributes in the byte order of the capturing machine; number 9 is the packet."""
    at = 4
    while True:
        (length,) = _LE16(data, at)
        (kind,) = _LE16(data, at + 2)
        if length < 4 or kind & 0x7FFF > 0xFF:
            (length,) = _U16(data, at)
            (kind,) = _U16(data, at + 2)
        if length < 4:
            return "NFLOG attribute shorter than its header"
        if kind & 0x7FFF == 9:
            return _version(data, at + 4)
        at += (length + 3) & ~3


def _wifi(data: bytes, at: int = 0, padded: bool = False) -> Found:
    """Read IEEE 802.11: only data frames, neither encrypted nor aggregated, have readable IP."""
    control, flags = data[at], data[at + 1]
    if control & 0x0C != 0x08 or control & 0x40:
        return "not IP (802.11 without data)"
    if flags & 0x40:
        return "encrypted 802.11"
    header = 30 if flags & 3 == 3 else 24
    if control & 0x80:  # quality of service
        if data[at + header] & 0x80:
            return "aggregated 802.11"
        header += 6 if flags & 0x80 else 2
    if padded:
        header = (header + 3) & ~3
    return _LLC, at + header


def _radiotap(data: bytes) -> Found:
    """Read 802.11 after a radiotap header, which may say that the 802.11 header is padded to 4 bytes."""
    (length,) = _LE16(data, 2)
    (present,) = word = _LE32(data, 4)
    at = 8
    while word[0] >> 31:
        word = _LE32(data, at)
        at += 4
    if present & 1:  # a timestamp comes before the flags
        at = ((at + 7) & ~7) + 8
    return _wifi(data, length, bool(present & 2 and data[at] & 0x20))


def _pktap(data: bytes) -> Found:
    """Read macOS's PKTAP: a header of 108 bytes or more; record type 1 is a packet of the link type in it."""
    length, kind, link_type = struct.unpack_from("<III", data)
    if length < 108 or length > len(data) or kind != 1:
        return "not a PKTAP packet"
    link = LINKS.get(link_type)
    if link is None or link is _pktap:
        return f"unknown link {link_type} inside another"
    found = link(data[length:])
    return found if isinstance(found, str) else (found[0], found[1] + length)


LINKS: Mapping[int, Callable[[bytes], Found]] = {
    0: _loopback,  # NULL
    1: _ethernet,
    9: _fixed(_PPP, 0),
    12: _raw,  # raw IP as some systems number it in files
    14: _raw,
    50: _hdlc,  # PPP in HDLC-like framing
    51: _fixed(_PPP, 6),  # PPP over Ethernet
    101: _raw,
    104: _hdlc,
    105: _wifi,
    108: _loopback,  # LOOP
    113: _typed(14, 16),  # Linux cooked
    127: _radiotap,
    149: _pktap,
    166: _fixed(_PPP, 1),  # PPP after a byte for the direction
    204: _fixed(_PPP, 1),
    228: _fixed(IPV4, 0),
    229: _fixed(IPV6, 0),
    239: _nflog,
    258: _pktap,
    276: _typed(0, 20),  # Linux cooked, version 2
}


_ERSPAN_2, _ERSPAN_3 = 0x88BE, 0x22EB

_PROTOCOL_NAMES = {1: "ICMP", 2: "IGMP", 17: "UDP", 50: "ESP", 58: "ICMPv6", 89: "OSPF", 132: "SCTP"}


def strip_tunnel(protocol: int, data: bytes, at: int) -> Found:
    """Return the ethertype and place of the IP header that ``protocol`` carries at ``at``, or a reason."""
    tunnel = TUNNELS.get(protocol)
    try:
        if tunnel is None:
            return f"not TCP ({_PROTOCOL_NAMES.get(protocol) or f'IP protocol {protocol}'})"
        found = tunnel(data, at)
        return found if isinstance(found, str) else _follow(found[0], data, found[1])
    except (struct.error, IndexError):
        return "tunnel header cut short"


def _gre(data: bytes, at: int) -> Found:
    """Read generic routing encapsulation, version 0 and (PPTP) 1, and ERSPAN's mirrored Ethernet in it."""
    flags, protocol = struct.unpack_from(">HH", data, at)
    if flags & 0x4000:
        return "GRE source routing"
    at += 4
    for bit in (0x8000, 0x2000, 0x1000):  # checksum, key, sequence
        at += 4 if flags & bit else 0
    if flags & 7 == 1:
        at += 4 if flags & 0x80 else 0  # acknowledgement
        return _PPP, at
    if protocol == _ERSPAN_2:
        # Type I has neither sequence number nor header.
        return _ETHERNET, at + 8 if flags & 0x1000 else at
    if protocol == _ERSPAN_3:
        return _ETHERNET, at + (20 if data[at + 11] & 1 else 12)
    return protocol, at


def _vxlan(data: bytes, at: int) -> Found:
    if not data[at] & 0x08:
        return "not TCP (UDP)"
    return _ETHERNET, at + 8


#: By UDP port; 8472 is what Linux used for VXLAN before 4789 was assigned.
_PORTS: Mapping[int, Callable[[bytes, int], Found]] = {
    4789: _vxlan,
    6081: lambda data, at: (_U16(data, at + 2)[0], at + 8 + (data[at] & 0x3F) * 4),  # Geneve
    6635: _mpls,
    8472: _vxlan,
}


def _udp(data: bytes, at: int) -> Found:
    tunnel = _PORTS.get(_U16(data, at + 2)[0])
    return "not TCP (UDP)" if tunnel is None else tunnel(data, at + 8)


#: By IP protocol.
TUNNELS: Mapping[int, Callable[[bytes, int], Found]] = {
    4: lambda data, at: (IPV4, at),
    17: _udp,
    41: lambda data, at: (IPV6, at),
    47: _gre,
    137: _mpls,
}
