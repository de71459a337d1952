"""Rebuild a packet: the same headers around another payload, with other addresses. All other bytes become zeros.

Right checksums are computed again. A wrong one is kept: packets of the capturing machine often have none yet.
"""

from collections.abc import Mapping

from dcpdump.errors import CaptureError
from dcpdump.net.ip import (
    CHECKSUM_AT,
    IPV4,
    IPV4_CHECKSUM_AT,
    IPV6,
    OPTIONS,
    checksum_is_right,
    mend_checksum,
    pseudo_header,
)
from dcpdump.net.layers import HeaderOffsets, Layer
from dcpdump.net.packet import Packet
from dcpdump.redact import Pseudonyms

_MULTICAST, _LOCAL = 0x01, 0x02


class Addresses:
    """The replacements of addresses. Loopback, broadcast and the zero address are kept."""

    def __init__(self, words: Pseudonyms) -> None:
        self._words = words
        self._known: dict[bytes, bytes] = {}

    def ip(self, address: bytes) -> bytes:
        """Return another IP address. Two addresses with a common prefix have replacements with a common prefix."""
        if _is_special(address):
            return address
        known = self._known.get(address)
        if known is None:
            known = self._known[address] = self._other(address)
        return known

    def mac(self, address: bytes) -> bytes:
        """Return another hardware address, multicast if it was, and marked as locally administered."""
        if not address.strip(b"\xff") or not address.strip(b"\0"):
            return address
        other = bytearray(self._words.noise(b"mac" + address, len(address)))
        other[0] = other[0] & ~_MULTICAST & 0xFF | _LOCAL | address[0] & _MULTICAST
        return bytes(other)

    def _other(self, address: bytes) -> bytes:
        size = 8 * len(address)
        number = int.from_bytes(address, "big")
        other = 0
        for bit in range(size):
            before = number >> size - bit
            flip = self._words.noise(b"ip%d/%d" % (before, bit), 1)[0] & 1
            other = other << 1 | (number >> size - bit - 1 & 1) ^ flip
        return other.to_bytes(len(address), "big")


def _is_special(address: bytes) -> bool:
    if len(address) == 4:
        return address[0] == 127 or address in (b"\0\0\0\0", b"\xff\xff\xff\xff")
    return address in (bytes(16), bytes(15) + b"\1")


_UDP = 17
_TAGS = (b"\x81\x00", b"\x88\xa8", b"\x91\x00", b"\x92\x00")
_ETHERTYPES = (b"\x08\x00", b"\x86\xdd")
_NO_OPERATION = 1
#: TCP options with numbers that a stream needs, and no user data.
_TCP_OPTIONS = frozenset((2, 3, 4, 5, 8))
_ROUTING = 43

#: The offsets of hardware addresses in a link header, and its length, by link type.
_LINKS: Mapping[int, tuple[tuple[tuple[int, int], ...], int]] = {
    1: (((0, 6), (6, 12)), 14),
    113: (((6, 12),), 16),
    276: (((12, 18),), 20),
}
#: Links without addresses.
_PLAIN_LINKS = frozenset((0, 9, 12, 14, 50, 51, 101, 104, 108, 109, 166, 204, 226, 228, 229))


def conceal_packet(packet: Packet, body: HeaderOffsets, payload: bytes, addresses: Addresses | None) -> bytes:
    """Return the packet with ``payload`` after its last header; a fragment has it as its whole payload.

    With ``addresses``, its addresses are replaced too.
    """
    data = packet.data
    out = bytearray(len(data))
    right = _right_checksums(data, body)
    _copy_headers(out, packet, body)
    start = body.segment[1] if body.segment else len(data)
    if body.fragment:
        start = body.fragment.datagram.start
    out[start : start + len(payload)] = payload
    if addresses is not None:
        _replace_addresses(out, packet.link_type, body, addresses)
    for layer, of_header in reversed(right):
        _mend(out, layer, of_header)
    return bytes(out)


def _copy_headers(out: bytearray, packet: Packet, body: HeaderOffsets) -> None:
    data, last, at = packet.data, len(body.layers) - 1, 0
    if not body.layers:  # not IP: only the link header is known
        _, size = _LINKS.get(packet.link_type, ((), 0))
        out[:size] = data[:size]
    for index, (ethertype, ip_at, datagram) in enumerate(body.layers):
        out[at : datagram.start] = data[at : datagram.start]
        if ethertype == IPV4:
            _clean_options(out, ip_at + 20, min(ip_at + (data[ip_at] & 15) * 4, datagram.start), frozenset())
        at = datagram.start
        if index == last and datagram.fragment is None and body.segment is None:
            size = 8 if datagram.protocol == _UDP else 4 if datagram.protocol in CHECKSUM_AT else 0
            stop = min(at + size, datagram.end)
            out[at:stop] = data[at:stop]
    if body.segment is not None:
        start, payload, _ = body.segment
        out[start:payload] = data[start:payload]
        _clean_options(out, start + 20, payload, _TCP_OPTIONS)


def header_to_share(header: bytes) -> bytes:
    """Return a TCP header without the options that decoding does not need."""
    out = bytearray(header)
    _clean_options(out, 20, len(out), _TCP_OPTIONS)
    return bytes(out)


def _clean_options(out: bytearray, at: int, end: int, kept: frozenset[int]) -> None:
    """Write no-operations over options that are not in ``kept``, and over bytes that are not options."""
    while at < end:
        kind = out[at]
        size = 1 if kind < 2 else out[at + 1] if at + 1 < end else 0
        if kind >= 2 and (kind not in kept or not 2 <= size <= end - at):
            size = size if 2 <= size <= end - at else end - at
            out[at : at + size] = bytes((_NO_OPERATION,)) * size
        at += size
        if kind == 0:
            out[at:end] = bytes(max(0, end - at))
            return


# -- checksums ----------------------------------------------------------------------------------------------


def _right_checksums(data: bytes, body: HeaderOffsets) -> list[tuple[Layer, bool]]:
    """Return the checksums that are right: of a layer's header (True), or of its payload (False)."""
    right: list[tuple[Layer, bool]] = []
    for layer in body.layers:
        ethertype, at, datagram = layer
        if ethertype == IPV4:
            end = at + (data[at] & 15) * 4
            if checksum_is_right(b"", data[at:end], IPV4_CHECKSUM_AT):
                right.append((layer, True))
        checksum_at = CHECKSUM_AT.get(datagram.protocol)
        whole = datagram.fragment is None and not datagram.missing
        if checksum_at is not None and whole and datagram.end - datagram.start >= checksum_at + 2:
            content = data[datagram.start : datagram.end]
            before = pseudo_header(datagram.addresses, datagram.protocol, len(content))
            if checksum_is_right(before, content, checksum_at):
                right.append((layer, False))
    return right


def _mend(out: bytearray, layer: Layer, of_header: bool) -> None:
    ethertype, at, datagram = layer
    start, end = (at, at + (out[at] & 15) * 4) if of_header else (datagram.start, datagram.end)
    part = out[start:end]
    if of_header:
        mend_checksum(b"", part, IPV4_CHECKSUM_AT)
    else:
        first, size = (at + 12, 8) if ethertype == IPV4 else (at + 8, 32)
        before = pseudo_header(bytes(out[first : first + size]), datagram.protocol, len(part))
        mend_checksum(before, part, CHECKSUM_AT[datagram.protocol])
    out[start:end] = part


# -- addresses ----------------------------------------------------------------------------------------------


def _replace_addresses(out: bytearray, link_type: int, body: HeaderOffsets, addresses: Addresses) -> None:
    spans, size = _LINKS.get(link_type, ((), 0))
    if link_type not in _LINKS and link_type not in _PLAIN_LINKS:
        raise CaptureError(
            f"where addresses lie in packets of link type {link_type} is not known", "", "--level partial leaves them"
        )
    for start, end in spans if len(out) >= size else ():
        out[start:end] = addresses.mac(bytes(out[start:end]))
    behind = size
    for ethertype, at, datagram in body.layers:
        if behind != size:  # there may be Ethernet inside a tunnel
            _replace_inner_macs(out, behind, at, addresses)
        behind = datagram.start
        first, width = (at + 12, 4) if ethertype == IPV4 else (at + 8, 16)
        for start in (first, first + width):
            out[start : start + width] = addresses.ip(bytes(out[start : start + width]))
        if ethertype == IPV6:
            _blank_routes(out, at, datagram.start)


def _replace_inner_macs(out: bytearray, behind: int, at: int, addresses: Addresses) -> None:
    ethertype_at = at - 2
    if bytes(out[ethertype_at:at]) not in _ETHERTYPES:
        return
    while bytes(out[ethertype_at - 4 : ethertype_at - 2]) in _TAGS:
        ethertype_at -= 4
    for start in (ethertype_at - 12, ethertype_at - 6):
        if start >= behind:
            out[start : start + 6] = addresses.mac(bytes(out[start : start + 6]))


def _blank_routes(out: bytearray, at: int, end: int) -> None:
    """Write zeros over the addresses of routing headers."""
    kind, at = out[at + 6], at + 40
    while kind in OPTIONS and at + 8 <= end:
        size = (out[at + 1] + 1) * 8
        if kind == _ROUTING:
            out[at + 8 : min(at + size, end)] = bytes(max(0, min(size - 8, end - at - 8)))
        kind, at = out[at], at + size
