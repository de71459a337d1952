"""Read the names of interfaces and the comments of packets from a pcapng, to write them to another file."""

from struct import unpack_from
from typing import NamedTuple

from dcpdump.capture.damage import Health
from dcpdump.capture.pcap import MAGICS, PCAPNG_MAGIC
from dcpdump.capture.pcapng import FIXED, INTERFACE, OLD_PACKET, PACKET, SECTION
from dcpdump.capture.section import INTERFACES_DESCRIBED, ORDERS, options
from dcpdump.net.packet import Packet

_COMMENT, _NAME = 1, 2


class PacketComments(NamedTuple):
    """The name of a packet's interface, and the comments on the packet."""

    interface: str = ""
    comments: tuple[bytes, ...] = ()


class CommentReader:
    """A reader of comments. Feed it all raw records of a capture: interfaces are described before their packets."""

    def __init__(self) -> None:
        self._order = ""
        self._names: list[str] = []
        self._health = Health("")  # faults of options were reported by the reader

    def of(self, packet: Packet, raw: bytes) -> PacketComments:
        """Return the comments of a packet; ``raw`` are the bytes up to the end of its record."""
        at = 0
        comments: tuple[bytes, ...] = ()
        while len(raw) - at >= 12:
            if raw[at : at + 4] == PCAPNG_MAGIC and raw[at + 8 : at + 12] in ORDERS:
                self._order = ORDERS[raw[at + 8 : at + 12]]
            elif raw[at : at + 4] in MAGICS:
                self._order = ""
            if not self._order:
                break
            kind, length = unpack_from(self._order + "II", raw, at)
            if length < 12 or at + length > len(raw):
                break
            comments = self._block(kind, raw[at + 8 : at + length - 4])
            at += length
        known = self._order and packet.interface < len(self._names)
        return PacketComments(self._names[packet.interface] if known else "", comments)

    def _block(self, kind: int, body: bytes) -> tuple[bytes, ...]:
        if kind == SECTION:
            self._names = []
        elif kind == INTERFACE and len(self._names) < INTERFACES_DESCRIBED:
            words = [value for code, value in self._options(body[FIXED[kind] :]) if code == _NAME]
            self._names.append(words[0].decode(errors="replace") if words else "")
        elif kind in (PACKET, OLD_PACKET) and len(body) >= FIXED[kind]:
            (length,) = unpack_from(self._order + "I", body, 12)
            after = FIXED[kind] + length + -length % 4
            return tuple(value for code, value in self._options(body[after:]) if code == _COMMENT)
        return ()

    def _options(self, raw: bytes) -> list[tuple[int, bytes]]:
        return list(options(self._order, raw, self._health, 0))
