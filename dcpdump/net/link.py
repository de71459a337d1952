"""Link types: from a captured record to its IP header, as a table. Knows no IP.

``LINKS`` is the whole list, by LINKTYPE value. A new one is a line there, with a function unless its header is simple.
"""

import struct
from collections.abc import Callable, Mapping

from dcpdump.net.ethertype import ETHERNET, LLC, PPP, U16, Found, ethernet, follow, version
from dcpdump.net.ip import IPV4, IPV6

_LE16 = struct.Struct("<H").unpack_from
_LE32 = struct.Struct("<I").unpack_from
_BE32 = struct.Struct(">I").unpack_from

#: Address families as the BSDs, Linux, Windows, Solaris and macOS number them.
_FAMILIES = {2: IPV4, 10: IPV6, 23: IPV6, 24: IPV6, 26: IPV6, 28: IPV6, 30: IPV6}

#: Link types that may follow a pseudo-header's own type field. None of them has such a field again.
_INNER = frozenset((1, 9, 12, 101, 105))


def strip(link_type: int, data: bytes) -> Found:
    """Return the ethertype (IPv4 or IPv6) and where its header starts, or the reason why there is none."""
    link = LINKS.get(link_type)
    if link is None:
        return f"unknown link {link_type}"
    try:
        found = link(data)
        return found if isinstance(found, str) else follow(found[0], data, found[1])
    except (struct.error, IndexError):
        return "link header cut short"


def _family(number: int, at: int) -> Found:
    ethertype = _FAMILIES.get(number)
    return f"not IP (address family {number})" if ethertype is None else (ethertype, at)


def _fixed(kind: int, size: int) -> Callable[[bytes], Found]:
    """A link type with a header of ``size`` bytes, behind which there is always the same."""
    return lambda data: (kind, size)


def _typed(at: int, size: int) -> Callable[[bytes], Found]:
    """A link type with a header of ``size`` bytes, which has an ethertype at ``at``."""
    return lambda data: (U16(data, at)[0], size)


def _loopback(data: bytes) -> Found:
    """BSD's NULL and LOOP: a family in the order of the machine that captured, which is not recorded."""
    (family,) = _LE32(data)
    if family > 0xFFFF:
        (family,) = _BE32(data)
    return _family(family, 4)


def _raw(data: bytes) -> Found:
    """IP at once; OpenBSD gave the number 12 to its loopback."""
    found = version(data, 0)
    return _loopback(data) if isinstance(found, str) else found


def _hdlc(data: bytes) -> Found:
    """Cisco HDLC, or PPP where its address says so."""
    return (PPP, 0) if data[:2] == b"\xff\x03" else (U16(data, 2)[0], 4)


def _frame_relay(data: bytes) -> Found:
    at = 2 if data[1] & 1 else 4  # Q.922 address
    if data[at] != 3:
        return U16(data, at)[0], at + 2  # Cisco's own encapsulation
    at += 1
    if data[at] == 0:  # padding
        at += 1
    if data[at] == 0xCC:
        return IPV4, at + 1
    if data[at] == 0x8E:
        return IPV6, at + 1
    if data[at] == 0x80:  # SNAP
        return U16(data, at + 4)[0], at + 6
    return f"not IP (NLPID 0x{data[at]:02x})"


def _enc(data: bytes) -> Found:
    found = _loopback(data)
    return found if isinstance(found, str) else (found[0], 12)


def _nflog(data: bytes) -> Found:
    """Netfilter's log: attributes in the order of the machine that captured; number 9 is the packet."""
    at = 4
    while True:
        (length,) = _LE16(data, at)
        (kind,) = _LE16(data, at + 2)
        if length < 4 or kind & 0x7FFF > 0xFF:
            (length,) = U16(data, at)
            (kind,) = U16(data, at + 2)
        if length < 4:
            return "NFLOG attribute shorter than its header"
        if kind & 0x7FFF == 9:
            return version(data, at + 4)
        at += (length + 3) & ~3


def _wifi(data: bytes, at: int = 0, padded: bool = False) -> Found:
    """IEEE 802.11: only data frames, not encrypted, not aggregated, carry IP that we can read."""
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
    return LLC, at + header


def _radiotap(data: bytes) -> Found:
    """802.11 behind a radiotap header, which may say that the 802.11 header is padded to 4 bytes."""
    (length,) = _LE16(data, 2)
    (present,) = word = _LE32(data, 4)
    at = 8
    while word[0] >> 31:
        word = _LE32(data, at)
        at += 4
    if present & 1:  # a timestamp comes before the flags
        at = ((at + 7) & ~7) + 8
    return _wifi(data, length, bool(present & 2 and data[at] & 0x20))


def _inner(link_type: int, data: bytes, at: int) -> Found:
    if link_type not in _INNER:
        return f"unknown link {link_type} inside another"
    found = LINKS[link_type](data[at:])
    return found if isinstance(found, str) else (found[0], found[1] + at)


def _pktap(data: bytes) -> Found:
    """macOS's own: its header is 108 bytes or more, and record type 1 is a packet."""
    length, kind, link_type = struct.unpack_from("<III", data)
    if length < 108 or length > len(data) or kind != 1:
        return "not a PKTAP packet"
    return _inner(link_type, data, length)


LINKS: Mapping[int, Callable[[bytes], Found]] = {
    0: _loopback,  # NULL
    1: ethernet,
    6: lambda data: (LLC, 14 + (data[14] & 0x1F if data[8] & 0x80 else 0)),  # token ring, with its routing
    9: _fixed(PPP, 0),
    10: _fixed(LLC, 13),  # FDDI
    12: _raw,  # raw IP as some systems number it in files
    14: _raw,
    50: _hdlc,  # PPP in HDLC-like framing
    51: _fixed(PPP, 6),  # PPP over Ethernet
    99: _typed(6, 44),  # Symantec
    100: _fixed(LLC, 0),  # RFC 1483 ATM
    101: _raw,
    104: _hdlc,
    105: _wifi,
    107: _frame_relay,
    108: _loopback,  # LOOP
    109: _enc,
    113: _typed(14, 16),  # Linux cooked
    117: lambda data: _family(data[1], (data[0] + 3) & ~3),  # OpenBSD's packet filter
    119: lambda data: _wifi(data, min(_LE32(data, 4)[0], _BE32(data, 4)[0])),  # behind a Prism header
    122: _fixed(LLC, 16),  # IP over Fibre Channel
    127: _radiotap,
    138: _typed(16, 18),  # IP over FireWire
    149: _pktap,
    163: lambda data: _wifi(data, _BE32(data, 4)[0]),  # behind an AVS header
    166: _fixed(PPP, 1),  # PPP behind its direction
    192: lambda data: _inner(_LE32(data, 4)[0], data, _LE16(data, 2)[0]),  # per-packet information
    204: _fixed(PPP, 1),
    226: lambda data: _family(data[1], 24),  # Solaris' ipnet
    228: _fixed(IPV4, 0),
    229: _fixed(IPV6, 0),
    239: _nflog,
    240: _fixed(ETHERNET, 4),  # netANALYZER
    242: _typed(40, 44),  # IP over InfiniBand: a global routing header, an ethertype and two reserved bytes
    258: _pktap,
    259: _fixed(ETHERNET, 8),  # EPON
    274: _fixed(ETHERNET, 8),  # Ethernet with its preamble
    276: _typed(0, 20),  # Linux cooked, version 2
}
