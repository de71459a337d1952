"""Checksums of IP, TCP, UDP and ICMP: whether they are right, and how they are made right."""

from struct import pack, pack_into

#: Where the checksum stands, by IP protocol; the ones that cover a pseudo-header too.
PLACES = {1: 2, 6: 16, 17: 6, 58: 2}
_PSEUDO = frozenset((6, 17, 58))
_UDP = 17
IPV4_PLACE = 10


def total(data: bytes | bytearray) -> int:
    """Add 16-bit words in ones' complement."""
    return int.from_bytes(data if len(data) % 2 == 0 else data + b"\0", "big") % 0xFFFF


def pseudo_header(addresses: bytes, protocol: int, size: int) -> bytes:
    """Return what TCP and UDP sum before themselves; nothing for ICMP over IPv4."""
    return addresses + pack(">II", size, protocol) if protocol in _PSEUDO else b""


def is_right(before: bytes, data: bytes | bytearray, place: int) -> bool:
    """Return whether the checksum at ``place`` of ``data`` fits, ``before`` being summed too; UDP's zero is none."""
    if place == PLACES[_UDP] and data[place : place + 2] == b"\0\0":
        return False
    return (total(before) + total(data)) % 0xFFFF == 0


def mend(before: bytes, data: bytearray, place: int) -> None:
    """Make the checksum right."""
    data[place : place + 2] = b"\0\0"
    found = (total(before) + total(data)) % 0xFFFF
    value = 0xFFFF - (found or 0xFFFF)
    pack_into(">H", data, place, value or (0xFFFF if place == PLACES[_UDP] else 0))
