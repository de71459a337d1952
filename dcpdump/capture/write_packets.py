"""Write packets of any captures as one pcapng section, with times in nanoseconds.

Knows interfaces and their numbers; does not know files: it returns bytes.
"""

from collections.abc import Sequence
from os.path import basename

from dcpdump.capture import blocks
from dcpdump.net.packet import Packet


class PcapngWriter:
    """A writer: ``header`` first, then each packet. Interfaces are described before their first packet."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._interfaces: dict[tuple[str, int, int, str], int] = {}
        self._last_ns = 0

    def header(self, comments: Sequence[str] = ()) -> bytes:
        """Return the section's header."""
        return blocks.section(self._application, comments)

    def packet(self, packet: Packet, name: str = "", comments: Sequence[bytes] = ()) -> bytes:
        """Return a packet, and before it the description of its interface if that is new.

        A packet without a time is written with that of the one before it, since the format requires a time.
        """
        out = b""
        key = (packet.file, packet.interface, packet.link_type, name)
        number = self._interfaces.get(key)
        if number is None:
            number = self._interfaces[key] = len(self._interfaces)
            out = blocks.interface(packet.link_type, name, basename(packet.file))
        if packet.ts_ns is not None:
            self._last_ns = max(packet.ts_ns, 0)
        return out + b"".join(blocks.packet(number, self._last_ns, packet.data, packet.wire_length, comments))
