"""PcapngWriter: packets of any captures as one pcapng section, with times in nanoseconds.

Knows interfaces and their numbers, and nothing of files: it gives bytes.
"""

from collections.abc import Sequence

from dcpdump.capture import blocks
from dcpdump.net.packet import Packet


class PcapngWriter:
    """``header`` first, then each packet. Interfaces are described when their first packet comes."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._interfaces: dict[tuple[str, int, int, str], int] = {}
        self._last_ns = 0

    def header(self) -> bytes:
        """Give the section's header."""
        return blocks.section(self._application)

    def packet(self, packet: Packet, name: str = "", comments: Sequence[bytes] = ()) -> bytes:
        """Give a packet, and before it the description of its interface if that is new.

        A packet without a time gets that of the one before it, since the format has no packets without.
        """
        out = b""
        key = (packet.file, packet.interface, packet.link_type, name)
        number = self._interfaces.get(key)
        if number is None:
            number = self._interfaces[key] = len(self._interfaces)
            out = blocks.interface(packet.link_type, name, packet.file)
        if packet.ts_ns is not None:
            self._last_ns = max(packet.ts_ns, 0)
        return out + b"".join(blocks.packet(number, self._last_ns, packet.data, packet.wire_length, comments))
