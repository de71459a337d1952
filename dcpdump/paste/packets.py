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
from dcpdump.net.packet import Packet
from dcpdump.paste.pasted import Pasted, begins_frame, is_whole
from dcpdump.startup import lazy_pattern
from dcpdump.text import counted

TCP = 6
_ETHERNET, _NULL, _RAW, _SLL, _SLL2 = 1, 0, 101, 113, 276
_IPV4, _IPV6, _VLAN = b"\x08\x00", b"\x86\xdd", (b"\x81\x00", b"\x88\xa8")
_REASSEMBLED = 64  # so many frames are looked for in packets: each takes time for all of those
_PADDED = 46  # the smallest payload of an Ethernet frame: a shorter one is filled with zeros

#: The line that tcpdump prints above the bytes of each packet.
TCPDUMP = lazy_pattern(r"^\s*(?:\S+ ){0,3}(?:\S+ +(?:In|Out|[BMP]) +)?IP6? .{3,200} > .{3,200}: ", re.M)


def _ip_length(data: bytes, at: int) -> int | None:
    """Return how long the TCP/IP packet at ``at`` says it is, or None when there is none."""
    if len(data) < at + 40:
        return None
    if data[at] >> 4 == 4 and data[at] & 15 >= 5 and data[at + 9] == TCP:
        return int.from_bytes(data[at + 2 : at + 4], "big")
    if data[at] >> 4 == 6 and data[at + 6] == TCP and len(data) >= at + 60:
        return 40 + int.from_bytes(data[at + 4 : at + 6], "big")
    return None


def _candidates(data: bytes) -> list[tuple[int, int]]:
    """Return the link types that ``data`` may have, each with the offset of IP."""
    found = [(_RAW, 0)]
    kind = data[12:14]
    if kind in (_IPV4, _IPV6):
        found.append((_ETHERNET, 14))
    elif kind in _VLAN:
        found.append((_ETHERNET, 22 if data[16:18] in _VLAN else 18))
    if data[14:16] in (_IPV4, _IPV6):
        found.append((_SLL, 16))
    if data[:2] in (_IPV4, _IPV6):
        found.append((_SLL2, 20))
    if data[:4] in (b"\x02\0\0\0", b"\0\0\0\x02", b"\x1e\0\0\0", b"\x18\0\0\0", b"\x1c\0\0\0", b"\x0a\0\0\0"):
        found.append((_NULL, 4))
    return found


def link_type(data: bytes, *, cut: bool = False) -> tuple[int, int] | None:
    """Return the link type of a packet and its length on the wire, or None when ``data`` is not a TCP packet.

    ``cut``: a capture may have kept only the head of the packet, so it may be shorter than it says.
    """
    for link, at in _candidates(data):
        length = _ip_length(data, at)
        if length is None or length < 40:
            continue
        held = len(data) - at
        padded = length < held <= _PADDED and link in (_ETHERNET, _RAW)
        if held == length or padded or (cut and held < length):
            return link, max(len(data), at + length)
    return None


def without_packets(pasted: Pasted, heading: str = "") -> Pasted:
    """Return ``pasted`` with the TCP payload in place of packets; unchanged when its parts are not packets."""
    from_tcpdump = bool(heading) and TCPDUMP.search(heading) is not None
    packets: list[Packet] = []
    frames: list[bytes] = []
    others = 0
    for data in pasted.parts:
        link = None if is_whole(data) else link_type(data, cut=from_tcpdump)
        if link is None:
            frames += [data] if is_whole(data) else []
            others += not is_whole(data)
        else:
            packets.append(Packet(len(packets) + 1, None, link[0], data, link[1]))
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
    frames = list(islice(filter(is_whole, reassembled), _REASSEMBLED))
    payloads = {place: data for place, packet in enumerate(packets) if (data := _payload(packet))} if frames else {}
    if not payloads:
        return tuple(packets)
    streams = without_packets(Pasted("", tuple(packets))).parts
    found = list(packets)
    for frame in frames:
        if not any(frame in part for part in streams):
            last = max((place for place, data in payloads.items() if frame.endswith(data)), default=len(found))
            found[last : last + 1] = [frame]
    return tuple(found)


def _payload(data: bytes) -> bytes:
    """Return what a packet carries; nothing of what is none."""
    link = None if is_whole(data) else link_type(data)
    return b"" if link is None else b"".join(_streams([Packet(1, None, link[0], data, link[1])])[0])


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
        for name, pattern, base in (("tshark JSON", _JSON_FIELD, 10), ("tshark PDML", _PDML_FIELD, 16)):
            parts = _payloads(pattern, text, base)
            if parts:
                return Pasted(name, parts)
    return None


def _payloads(pattern: "re.Pattern[str]", text: str, base: int) -> tuple[bytes, ...]:
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
    # The numbers are relative to the stream's first: they do not wrap in what a person pastes.
    return tuple(
        b"".join(data for _, data in sorted(segments.items(), key=lambda s: _number(s[0], base)))
        for segments in streams.values()
    )


def _number(digits: str, base: int) -> int:
    try:
        return int(digits[:16], base)
    except ValueError:
        return 0
