"""Replace addresses by others: each always by the same one, and addresses of one network by those of one network."""

from dcpdump.pseudonymize import Pseudonyms

_MULTICAST, _LOCAL = 0x01, 0x02


class Addresses:
    """The replacements of addresses. Loopback, broadcast and the zero address are kept."""

    def __init__(self, words: Pseudonyms) -> None:
        self._words = words
        self._known: dict[bytes, bytes] = {}

    def ip(self, address: bytes) -> bytes:
        """Return another IP address: where two addresses begin with the same bits, so do their replacements."""
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
