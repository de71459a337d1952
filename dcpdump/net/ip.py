"""Read IP headers, reassemble datagrams from fragments, and compute checksums."""

import struct
from collections import OrderedDict
from struct import pack, pack_into
from typing import Final, NamedTuple

from dcpdump.net.event import EXCERPT
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.startup import dataclass, field

IPV4: Final = 0x0800
IPV6: Final = 0x86DD
FRAGMENT: Final = 0x3FFF  #: the bits of IPv4's third word that only a fragment has: more come, or its offset

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
    """Return where the packet at ``at`` ends in ``data``, and how many of its bytes the snap length cut off.

    Where the capture says that nothing was cut, a length beyond the data is wrong and is ignored.
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
    if protocol == _AUTHENTICATION and not fragment & FRAGMENT:
        protocol, start = data[start], start + (data[start + 1] + 2) * 4
        if start > end:
            return "IP header cut short"
    if fragment & FRAGMENT:
        piece = Fragment(ident, (fragment & 0x1FFF) * 8, bool(fragment & 0x2000))
        return Datagram(addresses, protocol, start, end, missing, piece)
    return Datagram(addresses, protocol, start, end, missing)


def _ipv6(data: bytes, at: int, cut: int) -> Datagram | str:
    version, length, header, addresses = _V6(data, at)
    if version >> 28 != 6:
        return "IPv6 header says another version"
    start = at + 40
    if not length and header == _HOP_BY_HOP:
        length = _jumbo_length(data, start)
    end, missing = _extent(data, start, length, cut)
    fragment = None
    for _ in range(EXTENSIONS + 1):
        if header in OPTIONS:
            header, start = data[start], start + (data[start + 1] + 1) * 8
        elif header == _AUTHENTICATION:
            header, start = data[start], start + (data[start + 1] + 2) * 4
        elif header == _FRAGMENT:
            header, position, ident = _V6_FRAGMENT(data, start)
            start += 8
            if position & 0xFFF9:  # a lone "atomic" fragment is whole
                fragment = Fragment(ident, position & 0xFFF8, bool(position & 1))
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
    return Datagram(addresses, header, start, end, missing, fragment)


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


#: The largest datagram that fragment offsets can describe, and a fragment beyond it.
_LARGEST = 8 * 8191 + 65_535


class Whole(NamedTuple):
    """A completed payload; ``disagreement`` is the kept and the refused bytes of an overlap that differed."""

    payload: bytes
    disagreement: tuple[bytes, bytes] | None


@dataclass(slots=True)
class PartialDatagram:
    """The fragments of one datagram so far; where two overlap, the first to arrive counts."""

    since: int
    have: bytearray = field(default_factory=bytearray)  #: 1 where ``known`` is known
    known: bytearray = field(default_factory=bytearray)
    size: int | None = None  #: known from the last fragment
    filled: int = 0
    pieces: int = 0
    disagreement: tuple[bytes, bytes] | None = None

    def put(self, offset: int, data: bytes) -> None:
        """Put ``data`` at ``offset``; bytes that are there already stay."""
        end = offset + len(data)
        if end > len(self.have):
            grow = bytes(end - len(self.have))
            self.have += grow
            self.known += grow
        fresh = self.have.count(0, offset, end)
        self.pieces += 1
        self.filled += fresh
        if fresh == len(data):
            self.known[offset:end] = data
        else:
            self._merge(offset, data)
        self.have[offset:end] = b"\1" * len(data)

    def _merge(self, offset: int, data: bytes) -> None:
        """Fill only the holes, run by run, and note the first bytes that differ."""
        at, end = offset, offset + len(data)
        while at < end:
            old = self.have[at]
            stop = self.have.find(b"\0" if old else b"\1", at, end)
            stop = end if stop < 0 else stop
            new = data[at - offset : stop - offset]
            if not old:
                self.known[at:stop] = new
            elif self.known[at:stop] != new and self.disagreement is None:
                self.disagreement = bytes(self.known[at:stop][:EXCERPT]), new[:EXCERPT]
            at = stop


DatagramKey = tuple[bytes, int, int]


class Fragments:
    """Incomplete datagrams, with bounds on bytes, fragments and capture time. At a bound the oldest is dropped."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._partial: OrderedDict[DatagramKey, PartialDatagram] = OrderedDict()  # oldest first
        self._bytes = 0
        self._pieces = 0

    def state(self) -> dict[DatagramKey, PartialDatagram]:
        """Return the datagrams that wait, oldest first, for ``restore``."""
        return self._partial

    def restore(self, state: dict[DatagramKey, PartialDatagram]) -> None:
        """Continue from a state. Only for an object that was fed nothing yet."""
        self._partial.update(state)
        self._bytes = sum(2 * len(partial.have) for partial in state.values())
        self._pieces = sum(partial.pieces for partial in state.values())

    def feed(self, addresses: bytes, protocol: int, fragment: Fragment, data: bytes, now: int) -> Whole | None:
        """Add a fragment, seen at ``now`` (ns), and return the datagram if that completes it."""
        key = addresses, protocol, fragment.ident
        partial = self._partial.get(key)
        if partial is not None and now - partial.since > self._limits.fragment_ns:
            self._forget(key)  # the identification is used again
            partial = None
        if partial is None:
            partial = self._partial[key] = PartialDatagram(now)
        if fragment.offset + len(data) > _LARGEST:
            return None
        before = len(partial.have)
        partial.put(fragment.offset, data)
        self._bytes += 2 * (len(partial.have) - before)
        self._pieces += 1
        if not fragment.more and partial.size is None:
            partial.size = fragment.offset + len(data)
        if partial.size is not None and partial.filled >= partial.size and partial.have.count(0, 0, partial.size) == 0:
            self._forget(key)
            return Whole(bytes(partial.known[: partial.size]), partial.disagreement)
        self._keep_bounds(now)
        return None

    def _keep_bounds(self, now: int) -> None:
        limits = self._limits
        while self._partial:
            key = next(iter(self._partial))
            expired = now - self._partial[key].since > limits.fragment_ns
            if not expired and self._bytes <= limits.fragment_bytes and self._pieces <= limits.fragments:
                return
            self._forget(key)

    def _forget(self, key: DatagramKey) -> None:
        partial = self._partial.pop(key)
        self._bytes -= 2 * len(partial.have)
        self._pieces -= partial.pieces


#: The offset of the checksum, by IP protocol; and the protocols whose checksum covers a pseudo-header too.
CHECKSUM_AT = {1: 2, 6: 16, 17: 6, 58: 2}
_PSEUDO = frozenset((6, 17, 58))
_UDP = 17
IPV4_CHECKSUM_AT = 10


def _ones_complement_sum(data: bytes | bytearray) -> int:
    """Add 16-bit words in ones' complement."""
    return int.from_bytes(data if len(data) % 2 == 0 else data + b"\0", "big") % 0xFFFF


def pseudo_header(addresses: bytes, protocol: int, size: int) -> bytes:
    """Return the pseudo-header that checksums cover; empty for ICMP over IPv4."""
    return addresses + pack(">II", size, protocol) if protocol in _PSEUDO else b""


def checksum_is_right(before: bytes, data: bytes | bytearray, at: int) -> bool:
    """Return whether the checksum at ``at`` of ``data`` is right, with ``before`` summed too; UDP's 0 means none."""
    if at == CHECKSUM_AT[_UDP] and data[at : at + 2] == b"\0\0":
        return False
    return (_ones_complement_sum(before) + _ones_complement_sum(data)) % 0xFFFF == 0


def mend_checksum(before: bytes, data: bytearray, at: int) -> None:
    """Make the checksum right."""
    data[at : at + 2] = b"\0\0"
    found = (_ones_complement_sum(before) + _ones_complement_sum(data)) % 0xFFFF
    value = 0xFFFF - (found or 0xFFFF)
    pack_into(">H", data, at, value or (0xFFFF if at == CHECKSUM_AT[_UDP] else 0))
