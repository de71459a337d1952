"""Read packets: dumps of what was on the wire, with link, IP and TCP headers still around the frames.

Bytes are a packet if their lengths fit: the IP header must be where a link layer puts it, have protocol TCP, and its
length must be exactly that of the bytes. The rest is done by ``net``: segments of one stream are joined in sequence
order, and each direction is a part of its own.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from dcpdump.errors import PasteError
from dcpdump.net.connections import Connections, Delivery
from dcpdump.net.event import Bytes, Gap
from dcpdump.net.ip import IPV4, IPV6, parse
from dcpdump.net.link import strip
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import PROTOCOL
from dcpdump.paste.pasted import Pasted, begins_frame, is_complete
from dcpdump.startup import lazy_pattern
from dcpdump.text import counted

#: The link types that are tried: raw IP, Ethernet, Linux cooked in both versions, BSD's loopback.
_LINKS = (101, 1, 113, 276, 0)
_REASSEMBLED = 64  # so many frames are looked for in packets: each takes time for all of those
_PADDED = 46  # the smallest payload of an Ethernet frame: a shorter one is filled with zeros

#: The line that tcpdump prints above the bytes of each packet.
TCPDUMP = lazy_pattern(r"^\s*(?:\S+ ){0,3}(?:\S+ +(?:In|Out|[BMP]) +)?IP6? .{3,200} > .{3,200}: ", re.M)


def _packet(data: bytes, number: int = 1, *, cut: bool = False) -> Packet | None:
    """Return ``data`` as a TCP packet, or None when it is anything else.

    ``cut``: a capture may have kept only the head of the packet, so it may be shorter than it says.
    """
    for link in () if is_complete(data) else _LINKS:
        found = strip(link, data)
        if isinstance(found, str):
            continue
        at, length = found[1], _LENGTHS[found[0]]
        datagram = parse(found[0], data, at, 1 << 16)
        if isinstance(datagram, str) or datagram.protocol != PROTOCOL or not any(data[at + length : at + length + 2]):
            continue
        exact = datagram.end == len(data) or len(data) - at <= _PADDED
        if exact and (cut or not datagram.missing):
            return Packet(number, None, link, data, len(data) + datagram.missing)
    return None


#: Where an IP header says how long the packet is: where not at all, anything would fit.
_LENGTHS = {IPV4: 2, IPV6: 4}


def without_packets(pasted: Pasted, heading: str = "") -> Pasted:
    """Return ``pasted`` with the TCP payload in place of packets; unchanged when its parts are not packets."""
    from_tcpdump = bool(heading) and TCPDUMP.search(heading) is not None
    packets: list[Packet] = []
    frames: list[bytes] = []
    others = 0
    for data in pasted.parts:
        if packet := _packet(data, len(packets) + 1, cut=from_tcpdump):
            packets.append(packet)
        elif is_complete(data):
            frames.append(data)
        else:
            others += 1
    if not packets:
        if from_tcpdump and not any(map(begins_frame, pasted.parts)):
            raise PasteError(
                "these packets hold no TCP payload",
                f"{counted(len(pasted.parts), 'packet')}",
                "print whole packets: tcpdump -s 0 -xx, or save them with -w and use dcpdump read",
            )
        return pasted
    parts, notes = _streams(packets)
    parts += frames
    if not parts:
        raise PasteError(
            "these packets carry no data: TCP headers only",
            counted(len(packets), "packet"),
            "paste the packets that have a length above 0 as well",
        )
    if others:
        notes.append(f"{counted(others, 'dump')} without TCP skipped")
    label = "packet" if len(packets) == 1 else "packets"
    dialect = "tcpdump" if from_tcpdump else pasted.dialect
    return Pasted(f"{dialect} ({label})", tuple(parts), (*pasted.notes, *notes))


def with_reassembled(packets: Sequence[bytes], reassembled: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return packets and, of the frames that Wireshark put together, those that are not all in the packets.

    Such a frame replaces the packet that it ends with, if that holds nothing else.
    """
    frames = list(islice(filter(is_complete, reassembled), _REASSEMBLED))
    segments = [_packet(data) for data in packets] if frames else []
    carried = [b"".join(_streams([segment])[0]) if segment else b"" for segment in segments]
    if not any(carried):
        return tuple(packets)
    streams = without_packets(Pasted("", tuple(packets))).parts
    found = list(packets)
    for frame in frames:
        if not any(frame in part for part in streams):
            last = max((at for at, data in enumerate(carried) if data and frame.endswith(data)), default=len(found))
            found[last : last + 1] = [frame]
    return tuple(found)


def _streams(packets: list[Packet]) -> tuple[list[bytes], list[str]]:
    """Return the payload of each direction, in sequence order, and notes."""
    connections = Connections()
    deliveries: list[Delivery] = []
    for packet in packets:
        deliveries += connections.feed(packet)
    deliveries += connections.close()
    runs: dict[tuple[int, int], list[bytearray]] = {}
    gaps = 0
    for connection, direction, event in deliveries:
        pieces = runs.setdefault((connection.number, direction), [bytearray()])
        if isinstance(event, Bytes):
            pieces[-1] += event.data
        elif isinstance(event, Gap):
            gaps += 1
            pieces.append(bytearray())
    parts = [bytes(piece) for pieces in runs.values() for piece in pieces if piece]
    notes = [f"link, IP and TCP headers of {counted(len(packets), 'packet')} stripped"]
    if gaps:
        notes.append(f"{counted(gaps, 'gap')} in the TCP stream: the part after it stands alone")
    return parts, notes


# -- tshark's JSON and PDML ---------------------------------------------------------------------------

_FRAME_RAW = lazy_pattern(r'"frame_raw"\s*:\s*\[?\s*"([0-9a-fA-F]+)"')
_JSON_FIELD = lazy_pattern(
    r'"(?:tcp[._]tcp[._]|tcp[._])(stream|srcport|seq|payload)(?:_raw)?"\s*:\s*\[?\s*"([0-9a-fA-F:]+)"'
)
_PDML_FIELD = lazy_pattern(r'<field name="tcp\.(stream|srcport|seq|payload)"[^>\n]*? (?:value="([0-9a-fA-F]+)")')


def read_packet_json(text: str) -> Pasted | None:
    """Return the packets in tshark's JSON, with or without ``-x``, or in its PDML; or None."""
    if '"frame_raw"' in text:
        packets = [found[1] for found in _FRAME_RAW.finditer(text)]
        if packets and all(len(p) % 2 == 0 for p in packets):
            return Pasted("tshark JSON", tuple(bytes.fromhex(p) for p in packets))
    if 'tcp.payload"' in text or "tcp_payload" in text:
        for name, pattern in (("tshark JSON", _JSON_FIELD), ("tshark PDML", _PDML_FIELD)):
            if parts := _payloads(pattern, text):
                return Pasted(name, parts)
    return None


def _payloads(pattern: "re.Pattern[str]", text: str) -> tuple[bytes, ...]:
    """Return the ``tcp.payload`` of all packets, joined for each direction."""
    streams: dict[tuple[str, str], dict[str, bytes]] = {}
    known = {"stream": "", "srcport": "", "seq": ""}
    for field in pattern.finditer(text):
        name, value = field[1], field[2]
        if name != "payload":
            known[name] = value
            continue
        digits = value.replace(":", "")
        if len(digits) % 2 == 0:
            segments = streams.setdefault((known["stream"], known["srcport"]), {})
            # A payload may be printed twice, as text and raw: keep one for each sequence number.
            segments.setdefault(known["seq"] or str(len(segments)), bytes.fromhex(digits))
    return tuple(b"".join(segments[seq] for seq in sorted(segments, key=_order)) for segments in streams.values())


def _order(seq: str) -> int:
    """Return the rank of a relative number, which does not wrap in a paste; decimal ones sort as hex ones do."""
    return int("0" + seq.replace(":", ""), 16)
