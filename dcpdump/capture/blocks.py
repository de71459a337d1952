"""Write the blocks of a pcapng section in little-endian order: its interfaces, packets and counts.

Times are nanoseconds. Knows how a block is laid out, not who writes it or where to. Sources: the sections "Section
Header Block", "Interface Description Block", "Enhanced Packet Block", "Interface Statistics Block" of the pcapng draft.
"""

from collections.abc import Iterable, Sequence
from os.path import basename
from struct import Struct, pack

from dcpdump.net.packet import Packet

_SECTION, _INTERFACE, _STATISTICS, _PACKET = 0x0A0D0D0A, 1, 5, 6
_SECRETS, _TLS = 10, 0x544C534B
_COMMENT, _NAME, _DESCRIPTION, _RECEIVED, _APPLICATION, _DROPPED, _RESOLUTION = 1, 2, 3, 4, 4, 5, 9
_LONGEST = 0xFFFF  #: option
_PACKET_HEAD = Struct("<7I")
#: The size of a packet block without options, beside its bytes and their padding.
PACKET_BYTES = _PACKET_HEAD.size + 4
#: The length of the block that ``statistics`` returns.
STATISTICS_BYTES = 12 + 12 + 12 + 12 + 4


def section(application: str, comments: Sequence[str] = ()) -> bytes:
    """Return the header of a section of unknown length; ``application`` is the program that writes it."""
    texts = [*((_COMMENT, comment) for comment in comments), (_APPLICATION, application)]
    options = _options([(code, text.encode(errors="replace")[:_LONGEST]) for code, text in texts])
    return _block(_SECTION, pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + options)


def interface(link: int, name: str = "", description: str = "") -> bytes:
    """Return the description of an interface: its link type, and the texts that are not empty.

    Interfaces are numbered 0, 1, 2 … in the order of the file.
    """
    texts = [(_NAME, name), (_DESCRIPTION, description)]
    options = [(code, text.encode(errors="replace")) for code, text in texts if text]
    return _block(_INTERFACE, pack("<HHI", link, 0, 0) + _options([*options, (_RESOLUTION, b"\x09")]))


def packet(
    number: int, ts_ns: int, data: bytes, wire_length: int, comments: Sequence[bytes] = ()
) -> tuple[bytes, bytes, bytes]:
    """Return a packet block of interface ``number`` as three pieces: before the bytes, the bytes, after them.

    ``wire_length``: its length on the wire; a value below the captured length counts as the captured length.
    """
    padding = bytes(-len(data) % 4)
    options = _options([(_COMMENT, comment) for comment in comments])
    total = PACKET_BYTES + len(data) + len(padding) + len(options)
    there, wire = len(data), max(wire_length, len(data))
    head = _PACKET_HEAD.pack(_PACKET, total, number, ts_ns >> 32, ts_ns & 0xFFFFFFFF, there, wire)
    return head, data, padding + options + total.to_bytes(4, "little")


def statistics(received: int, dropped: int) -> bytes:
    """Return the counts of interface 0: packets received, and how many of them were dropped."""
    counts = [(_RECEIVED, pack("<Q", received)), (_DROPPED, pack("<Q", dropped))]
    return _block(_STATISTICS, pack("<III", 0, 0, 0) + _options(counts))


def secrets(lines: bytes) -> bytes:
    """Return a block with TLS secrets, lines of a key log. It precedes the first packet that needs them."""
    return _block(_SECRETS, pack("<II", _TLS, len(lines)) + lines + bytes(-len(lines) % 4))


def _block(kind: int, body: bytes) -> bytes:
    length = pack("<I", 12 + len(body))
    return pack("<I", kind) + length + body + length


def _options(options: Iterable[tuple[int, bytes]]) -> bytes:
    each = [pack("<HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in options]
    return b"".join(each) + bytes(4) if each else b""


# -- packets of any captures as one pcapng section, with times in nanoseconds -------------------------
# Numbers interfaces; knows no files: it returns bytes.


class PcapngWriter:
    """A writer: ``header`` first, then each packet. Interfaces are described before their first packet."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._interfaces: dict[tuple[str, int, int, str], int] = {}
        self._last_ns = 0

    def header(self, comments: Sequence[str] = ()) -> bytes:
        """Return the section's header."""
        return section(self._application, comments)

    def packet(self, captured: Packet, name: str = "", comments: Sequence[bytes] = ()) -> bytes:
        """Return a packet's block, after the description of its interface if that is new.

        A packet without a time is written with that of the one before it, since the format requires a time.
        """
        out = b""
        key = (captured.file, captured.interface, captured.link_type, name)
        number = self._interfaces.get(key)
        if number is None:
            number = self._interfaces[key] = len(self._interfaces)
            out = interface(captured.link_type, name, basename(captured.file))
        if captured.ts_ns is not None:
            self._last_ns = max(captured.ts_ns, 0)
        return out + b"".join(packet(number, self._last_ns, captured.data, captured.wire_length, comments))
