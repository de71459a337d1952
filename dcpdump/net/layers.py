"""Find the TCP segment of a packet, through link layer, IP, fragments and tunnels; and the offsets of all headers, for
code that changes packets. Knows nothing of streams.
"""

import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from dcpdump.big_endian import be16, be32
from dcpdump.net import ip, link, tcp
from dcpdump.net.ip import FRAGMENT, IPV4, IPV6, Datagram, DatagramKey, Fragments, PartialDatagram
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import PROTOCOL, Segment

if TYPE_CHECKING:
    from mypy_extensions import i64

#: The link type of exported PDUs: Wireshark writes streams so that it reassembled or decrypted.
_EXPORTED_PDU: Final = 252
_END, _IPV4_SRC, _IPV4_DST, _IPV6_SRC, _IPV6_DST, _PORT_TYPE, _SRC_PORT, _DST_PORT = 0, 20, 21, 22, 23, 24, 25, 26
_TCP: Final = 2  #: the type of port


class ExportedPdus:
    """Makes segments of the exported PDUs of one capture. A record is tags with the endpoints, then the payload.

    The payload of an end continues from record to record, so its segments follow one another. Whether the first record
    is the beginning of the connection is not known.

    ``connections``: how many are remembered, the most recently used ones. Reassembly may remember no more than these;
    otherwise a direction of a known connection would start again.
    """

    __slots__ = ("_most", "next")

    def __init__(self, connections: int) -> None:
        self._most = 2 * connections
        self.next: OrderedDict[bytes, int] = OrderedDict()  #: the next sequence number, by key

    def feed(self, data: bytes, cut: int) -> Segment | str:
        """Return the segment of a record, ``cut`` bytes of which were not captured, or the reason why there is none."""
        try:
            tags, at = _tags(data)
        except struct.error:
            return "exported PDU cut short"
        src, dst = tags.get(_IPV4_SRC) or tags.get(_IPV6_SRC), tags.get(_IPV4_DST) or tags.get(_IPV6_DST)
        if int.from_bytes(tags.get(_PORT_TYPE, b""), "big") != _TCP:
            return "exported PDU without TCP"
        if src is None or dst is None or {len(src), len(dst)} not in ({4}, {16}):
            return "exported PDU without addresses"
        ports = tags.get(_SRC_PORT, b"")[-2:].rjust(2, b"\0") + tags.get(_DST_PORT, b"")[-2:].rjust(2, b"\0")
        key, back, payload = src + dst + ports, dst + src + ports[2:] + ports[:2], data[at:]
        seq = self.next.pop(key, 1)
        if back in self.next:
            self.next.move_to_end(back)
        self.next[key] = (seq + len(payload) + cut) & 0xFFFFFFFF
        if len(self.next) > self._most:
            self.next.popitem(last=False)
        return Segment(key, seq, 0, 0, 0, payload, cut)


def _tags(data: bytes) -> tuple[dict[int, bytes], int]:
    """Return the tags of a record, and where its payload begins. Raises struct.error."""
    tags: dict[int, bytes] = {}
    at = 0
    while True:
        tag, length = struct.unpack_from(">HH", data, at)
        at += 4
        if tag == _END:
            return tags, at + length
        tags.setdefault(tag, data[at : at + length])
        at += length


_ETHERNET: Final = 1
_COOKED: Final = 113
_COOKED_2: Final = 276
_RAW: Final = (14, 101)

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row: Final = tuple.__new__


def plain_headers(data: bytes, ip: "i64", end: "i64", link: "i64") -> tuple["i64", "i64", "i64", "i64"]:
    """Return the offsets of a plain packet's addresses, TCP header, payload and datagram's end; -1 for other packets.

    Plain is IPv4 without options or IPv6 without extensions, not fragmented, captured completely, on a usual link. The
    ports follow the addresses, so that both together are the key of the flow.
    """
    key, tcp, stop = _ip_header(data, ip, end, link)
    if tcp < 0:
        return -1, -1, -1, -1
    start = tcp + (data[tcp + 12] >> 4) * 4
    if start < tcp + 20 or start > stop or stop > end:
        return -1, -1, -1, -1
    return key, tcp, start, stop


def _ip_header(data: bytes, ip: "i64", end: "i64", link: "i64") -> tuple["i64", "i64", "i64"]:
    if link == _ETHERNET:
        ip += 14
    elif link == _COOKED:
        ip += 16
    elif link == _COOKED_2:
        ip += 20
    elif link not in _RAW:
        return -1, -1, -1
    if ip + 40 > end:
        return -1, -1, -1
    if link in (_ETHERNET, _COOKED):
        ethertype = be16(data, ip - 2)
    elif link == _COOKED_2:
        ethertype = be16(data, ip - 20)
    else:
        ethertype = IPV4 if data[ip] >> 4 == 4 else IPV6
    if ethertype == IPV4:
        fragment = be16(data, ip + 6) & FRAGMENT
        if data[ip] == 0x45 and not fragment and data[ip + 9] == PROTOCOL:
            return ip + 12, ip + 20, ip + be16(data, ip + 2)
    elif ethertype == IPV6:
        length = be16(data, ip + 4)
        if ip + 60 <= end and data[ip] >> 4 == 6 and data[ip + 6] == PROTOCOL and length:
            return ip + 8, ip + 40, ip + 40 + length
    return -1, -1, -1


def plain_segments(
    data: bytes, starts: list[int], ends: list[int], links: list[int]
) -> tuple[list[bytes], list[int], list[int], list[int], list[int]]:
    """Return the keys of the flows of plain packets; and of each packet its flow, sequence number, and payload.

    The flow of a packet that is not plain is -1. A payload has an offset in ``data``, and a size.
    """
    flows: dict[bytes, int] = {}
    flow: list[int] = []
    seqs: list[int] = []
    payloads: list[int] = []
    sizes: list[int] = []
    for row in range(len(starts)):
        key, at, start, stop = plain_headers(data, starts[row], ends[row], links[row])
        flow.append(-1 if at < 0 else flows.setdefault(data[key : at + 4], len(flows)))
        seqs.append(0 if at < 0 else be32(data, at + 4))
        payloads.append(start)
        sizes.append(stop - start)
    return list(flows), flow, seqs, payloads, sizes


class LayersState(NamedTuple):
    """The fragments that wait, and the next sequence numbers of exported PDUs."""

    fragments: dict[DatagramKey, PartialDatagram]
    exported: dict[bytes, int]


class Layers:
    """A reader of packets' layers. Holds only IP fragments that wait for others."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._fragments = Fragments(limits)
        self._exported = ExportedPdus(limits.connections)

    def state(self) -> LayersState:
        """Return the state for ``restore``."""
        return LayersState(self._fragments.state(), dict(self._exported.next))

    def restore(self, state: LayersState) -> None:
        """Continue from a state."""
        self._fragments.restore(state.fragments)
        self._exported.next = OrderedDict(state.exported)

    def feed(self, packet: Packet) -> Segment | str | None:
        """Return the packet's segment, the reason why there is none, or None for a fragment that waits."""
        # Nearly all packets are plain. Every other one is read layer by layer.
        data = packet.data
        key, at, start, stop = plain_headers(data, 0, len(data), packet.link_type)
        if at >= 0:
            seq, ack, window = be32(data, at + 4), be32(data, at + 8), be16(data, at + 14)
            return _row(Segment, (data[key : at + 4], seq, ack, data[at + 13], window, data[start:stop], 0, None))
        return self._open(packet)

    def _open(self, packet: Packet) -> Segment | str | None:
        data = packet.data
        cut = max(packet.wire_length - len(data), 0)
        if packet.link_type == _EXPORTED_PDU:
            return self._exported.feed(data, cut)
        found = link.strip(packet.link_type, data)
        disagreement: tuple[bytes, bytes] | None = None
        for _ in range(self._limits.encapsulations):
            if isinstance(found, str):
                return found
            datagram = ip.parse(found[0], data, found[1], cut)
            if isinstance(datagram, str):
                return datagram
            addresses, protocol, start, end, missing, fragment = datagram
            if fragment is not None:
                whole = self._fragments.feed(addresses, protocol, fragment, data[start:end], packet.ts_ns or 0)
                if whole is None:
                    return None
                data, disagreement = whole
                start, end, missing = 0, len(data), 0
            if protocol == tcp.PROTOCOL:
                segment = tcp.parse(addresses, data, start, end, missing)
                if disagreement is not None and not isinstance(segment, str):
                    return segment._replace(disagreement=disagreement)
                return segment
            data = data[:end]  # the inner packet cannot be longer than the outer
            cut = missing
            found = link.strip_tunnel(protocol, data, start)
        return found if isinstance(found, str) else "too deep (IP in IP)"


_SHORTEST = 20


class Layer(NamedTuple):
    """One IP header at ``at``: its version as an ethertype, and its payload."""

    ethertype: int
    at: int
    datagram: Datagram


class HeaderOffsets(NamedTuple):
    """The IP headers of a packet, outermost first, and its TCP segment, unless that is in fragments."""

    layers: tuple[Layer, ...]
    segment: tuple[int, int, int] | None = None  #: offsets of header, payload and end

    @property
    def fragment(self) -> Layer | None:
        """Return the layer that is a fragment, below which nothing can be read."""
        return self.layers[-1] if self.layers and self.layers[-1].datagram.fragment is not None else None


def anatomy(packet: Packet, limits: Limits = DEFAULT) -> HeaderOffsets:
    """Return the offsets of a packet's headers, as far as they can be read."""
    data = packet.data
    layers: list[Layer] = []
    found = link.strip(packet.link_type, data)
    cut, end_of_data = max(packet.wire_length - len(data), 0), len(data)
    for _ in range(limits.encapsulations):
        if isinstance(found, str):
            break
        datagram = ip.parse(found[0], data[:end_of_data], found[1], cut)
        if isinstance(datagram, str):
            break
        layers.append(Layer(found[0], found[1], datagram))
        if datagram.fragment is not None:
            break
        if datagram.protocol == PROTOCOL:
            return HeaderOffsets(tuple(layers), _segment(data, datagram.start, datagram.end))
        cut, end_of_data = datagram.missing, datagram.end
        found = link.strip_tunnel(datagram.protocol, data[:end_of_data], datagram.start)
    return HeaderOffsets(tuple(layers))


def _segment(data: bytes, start: int, end: int) -> tuple[int, int, int] | None:
    if end - start < _SHORTEST:
        return None
    length = (data[start + 12] >> 4) * 4
    return (start, min(start + length, end), end) if length >= _SHORTEST else None
