"""PcapngWriter: packets of any captures as one pcapng section, with times in nanoseconds.

Knows the blocks that it writes and nothing of files: it gives bytes.
"""

from collections.abc import Sequence
from struct import pack

from dcpdump.net.packet import Packet

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_COMMENT, _NAME, _DESCRIPTION, _RESOLUTION, _APPLICATION = 1, 2, 3, 9, 4
_NANOSECONDS = b"\x09"


class PcapngWriter:
    """``header`` first, then each packet. Interfaces are described when their first packet comes."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._interfaces: dict[tuple[str, int, int, str], int] = {}
        self._last_ns = 0

    def header(self) -> bytes:
        """Give the section's header."""
        body = pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
        return _block(_SECTION, body + _options([(_APPLICATION, self._application.encode())]))

    def packet(self, packet: Packet, name: str = "", comments: Sequence[bytes] = ()) -> bytes:
        """Give a packet, and before it the description of its interface if that is new.

        A packet without a time gets that of the one before it, since the format has no packets without.
        """
        out = b""
        key = (packet.file, packet.interface, packet.link_type, name)
        number = self._interfaces.get(key)
        if number is None:
            number = self._interfaces[key] = len(self._interfaces)
            out = self._describe(packet, name)
        if packet.ts_ns is not None:
            self._last_ns = max(packet.ts_ns, 0)
        head = pack("<IIIII", number, self._last_ns >> 32, self._last_ns & 0xFFFFFFFF, *_lengths(packet))
        data = packet.data + bytes(-len(packet.data) % 4)
        return out + _block(_PACKET, head + data + _options([(_COMMENT, comment) for comment in comments]))

    def _describe(self, packet: Packet, name: str) -> bytes:
        options = [(_NAME, name.encode())] if name else []
        options += [(_DESCRIPTION, packet.file.encode(errors="replace")), (_RESOLUTION, _NANOSECONDS)]
        return _block(_INTERFACE, pack("<HHI", packet.link_type, 0, 0) + _options(options))


def _lengths(packet: Packet) -> tuple[int, int]:
    return len(packet.data), max(packet.wire_length, len(packet.data))


def _block(kind: int, body: bytes) -> bytes:
    length = pack("<I", 12 + len(body))
    return pack("<I", kind) + length + body + length


def _options(options: Sequence[tuple[int, bytes]]) -> bytes:
    if not options:
        return b""
    each = [pack("<HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in options]
    return b"".join(each) + bytes(4)
