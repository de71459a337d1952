"""IPv4 and IPv6: which bytes of a packet are payload, and of what. Checks no checksum, reassembles nothing."""

import struct
from typing import Final, NamedTuple

IPV4: Final = 0x0800
IPV6: Final = 0x86DD

#: IPv6 extension headers of the common shape: next header, length in 8 bytes beyond the first 8.
OPTIONS: Final = frozenset((0, 43, 60, 135, 139, 140))
_HOP_BY_HOP: Final = 0
_FRAGMENT: Final = 44
_AUTHENTICATION: Final = 51
_NO_NEXT: Final = 59
_JUMBO: Final = 0xC2
#: More extension headers than anyone sends.
EXTENSIONS: Final = 16

_V4: Final = struct.Struct(">BxHHHxB2x8s").unpack_from
_V6: Final = struct.Struct(">IHBx32s").unpack_from
_V6_FRAGMENT: Final = struct.Struct(">BxHI").unpack_from
_LENGTH: Final = struct.Struct(">I").unpack_from


class Fragment(NamedTuple):
    """The place of a fragment in its datagram."""

    ident: int
    offset: int
    more: bool


class Datagram(NamedTuple):
    """One IP packet: its payload is ``data[start:end]``, and ``missing`` bytes more, not captured."""

    addresses: bytes  #: source and destination, as in the header
    protocol: int
    start: int
    end: int
    missing: int
    fragment: Fragment | None = None


def parse(ethertype: int, data: bytes, at: int, cut: int = 0) -> Datagram | str:
    """Read the IP header at ``data[at:]``, or return why not. On the wire ``cut`` bytes more followed.

    The header's length decides, so that Ethernet's padding is no payload. A length of 0 is what an offloading
    driver writes on a segment too large for the field: then all that was captured is meant.
    """
    try:
        if ethertype == IPV4:
            return _ipv4(data, at, cut)
        if ethertype == IPV6:
            return _ipv6(data, at, cut)
    except (struct.error, IndexError):
        return "IP header cut short"
    return f"not IP (ethertype 0x{ethertype:04x})"


def _extent(data: bytes, at: int, length: int, cut: int) -> tuple[int, int]:
    """Where the packet at ``at`` ends in ``data``, and how much of it the snap length cut off.

    Where the capture itself says that nothing was cut, a length beyond the data is a lie and is not believed.
    """
    if not length:
        return len(data), cut
    end = at + length
    if end <= len(data):
        return end, 0
    return len(data), min(end - len(data), cut)


def _ipv4(data: bytes, at: int, cut: int) -> Datagram | str:
    version, length, ident, fragment, protocol, addresses = _V4(data, at)
    if version >> 4 != 4:
        return "IPv4 header says another version"
    header = (version & 15) * 4
    if header < 20 or (length and length < header):
        return "IPv4 lengths contradict each other"
    end, missing = _extent(data, at, length, cut)
    start = at + header
    if start > end:
        return "IP header cut short"
    if protocol == _AUTHENTICATION and not fragment & 0x3FFF:
        protocol, start = data[start], start + (data[start + 1] + 2) * 4
        if start > end:
            return "IP header cut short"
    if fragment & 0x3FFF:  # more fragments, or not the first
        place = Fragment(ident, (fragment & 0x1FFF) * 8, bool(fragment & 0x2000))
        return Datagram(addresses, protocol, start, end, missing, place)
    return Datagram(addresses, protocol, start, end, missing)


def _ipv6(data: bytes, at: int, cut: int) -> Datagram | str:
    version, length, header, addresses = _V6(data, at)
    if version >> 28 != 6:
        return "IPv6 header says another version"
    start = at + 40
    if not length and header == _HOP_BY_HOP:
        length = _jumbo_length(data, start)
    end, missing = _extent(data, start, length, cut)
    place = None
    for _ in range(EXTENSIONS + 1):
        if header in OPTIONS:
            header, start = data[start], start + (data[start + 1] + 1) * 8
        elif header == _AUTHENTICATION:
            header, start = data[start], start + (data[start + 1] + 2) * 4
        elif header == _FRAGMENT:
            header, position, ident = _V6_FRAGMENT(data, start)
            start += 8
            if position & 0xFFF9:  # a lone "atomic" fragment is whole
                place = Fragment(ident, position & 0xFFF8, bool(position & 1))
                break
        else:
            break
        if start > end:
            return "IP header cut short"
    else:
        return "too deep (IPv6 extension headers)"
    if start > end:
        return "IP header cut short"
    if header == _NO_NEXT:
        return "not TCP (IP protocol 59)"
    return Datagram(addresses, header, start, end, missing, place)


def _jumbo_length(data: bytes, at: int) -> int:
    """Return the length in a jumbo payload option, or 0."""
    option, end = at + 2, at + (data[at + 1] + 1) * 8
    while option < end:
        kind = data[option]
        if kind == 0:  # one byte of padding
            option += 1
            continue
        if kind == _JUMBO:
            length: int = _LENGTH(data, option + 2)[0]
            return length
        option += 2 + data[option + 1]
    return 0
