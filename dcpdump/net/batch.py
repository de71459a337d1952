"""Batch: many captured packets as columns, and the many-at-once verb of Connections that takes them.

Only plain packets are taken here: Ethernet, Linux cooked or raw IP; IPv4 without options or IPv6 without extensions,
not fragmented, all of it captured; a segment of a known connection that neither opens nor ends it. At anything else it
stops: that packet is for ``Connections.feed``, which knows everything else. Both leave the same state behind.
"""

from dataclasses import dataclass
from typing import Final

from dcpdump.big_endian import be16, be32
from dcpdump.net.connections import Connections, Delivery, Half
from dcpdump.net.event import Bytes, Seen
from dcpdump.net.flow import Connection
from dcpdump.net.tcp import ACK, FIN, PROTOCOL, RST, SYN, Segment

#: The time of a packet that has none.
NO_TIME: Final = -(1 << 63)

_CONTROL: Final = FIN | SYN | RST
_FRAGMENT: Final = 0x3FFF
_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_ETHERNET: Final = 1
_COOKED: Final = 113
_COOKED_2: Final = 276
_RAW: Final = (14, 101)
#: What a packet weighs beside its payload, as in Connections.
_OVERHEAD: Final = 256

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row: Final = tuple.__new__


@dataclass
class Batch:
    """Packets in the order of the input. All lists have one entry a packet."""

    data: bytes  #: the bytes of all packets, and maybe others
    starts: list[int]  #: in ``data``, where each packet's link layer begins
    ends: list[int]  #: behind each packet's last captured byte
    links: list[int]  #: LINKTYPE_ values
    numbers: list[int]  #: 1, 2, 3 … in its own file
    times: list[int]  #: ns since 1970, NO_TIME where a packet has none
    file: list[int]  #: which of ``files``
    files: list[str]

    def __len__(self) -> int:
        return len(self.starts)

    def seen(self, row: int) -> Seen:
        """Return where a packet was found."""
        ts = self.times[row]
        seen: Seen = _row(Seen, (self.numbers[row], None if ts == NO_TIME else ts, self.files[self.file[row]], 0))
        return seen


class Segments:
    """Pieces of directions, in the order in which they became known, and which packets made them so.

    Lists have one entry a piece, but for ``singles``.
    """

    __slots__ = ("connections", "files", "late", "numbers", "offsets", "pieces", "places", "rows", "singles", "times")

    def __init__(self) -> None:
        self.places: list[int] = []  #: the direction: twice the number of its connection, plus 0 or 1
        self.connections: list[Connection] = []
        self.late: list[bool] = []  #: whether the direction was joined late
        self.offsets: list[int] = []  #: of the first byte in its direction
        self.pieces: list[bytes] = []
        self.numbers: list[int] = []  #: of the packet in its file
        self.times: list[int | None] = []
        self.files: list[str] = []
        self.rows: list[int] = []  #: of the packet in its batch
        self.singles: list[int] = []  #: rows of other packets that ``take`` took, one by one

    def __len__(self) -> int:
        return len(self.places)

    def put(self, half: Half, piece: bytes, batch: Batch, row: int) -> None:
        """Add bytes that a packet of a batch brings, and that continue their direction."""
        ts = batch.times[row]
        self.places.append(2 * half.connection.number + half.direction)
        self.connections.append(half.connection)
        self.late.append(half.stream.joined_late)
        self.offsets.append(half.stream.offset)
        self.pieces.append(piece)
        self.numbers.append(batch.numbers[row])
        self.times.append(None if ts == NO_TIME else ts)
        self.files.append(batch.files[batch.file[row]])
        self.rows.append(row)

    def add(self, delivery: Delivery) -> None:
        """Add bytes that were delivered one by one."""
        connection, direction, event = delivery
        if not isinstance(event, Bytes):
            raise TypeError("only bytes can be added")
        offset, piece, seen, late = event
        self.places.append(2 * connection.number + direction)
        self.connections.append(connection)
        self.late.append(late)
        self.offsets.append(offset)
        self.pieces.append(piece)
        self.numbers.append(seen[0])
        self.times.append(seen[1])
        self.files.append(seen[2])
        self.rows.append(-1)

    def event(self, at: int) -> Delivery:
        """Return one of them as ``Connections.feed`` would have."""
        seen = Seen(self.numbers[at], self.times[at], self.files[at])
        event = Bytes(self.offsets[at], self.pieces[at], seen, self.late[at])
        return Delivery(self.connections[at], self.places[at] % 2, event)


def take(connections: Connections, batch: Batch, at: int, out: Segments) -> tuple[int, list[Delivery]]:
    """Take packets from ``at`` on as long as they are plain.

    What they bring that continues its direction is added to ``out``. Return the first packet that is not taken, and
    what else the last one that is taken made known, which comes behind what is in ``out``.
    """
    data, starts, ends, links, times = batch.data, batch.starts, batch.ends, batch.links, batch.times
    halves = connections.halves
    due, budget, latest = connections.due, connections.budget, connections.latest
    count, first = len(starts), at
    delivered = weight = 0
    known: list[Delivery] = []
    while at < count and not known:
        ts, end = times[at], ends[at]
        if due is not None and due <= ts:
            break
        key_at, tcp, stop = _headers(data, starts[at], end, links[at])
        if tcp < 0:
            break
        flags, header = data[tcp + 13], data[tcp + 12] >> 4
        start = tcp + header * 4
        if flags & _CONTROL or header < 5 or start > stop or stop > end:
            break
        half = halves.get(data[key_at : tcp + 4])
        if half is None:
            break
        stream, other, size = half.stream, half.other.stream, stop - start
        seq, ack = be32(data, tcp + 4), be32(data, tcp + 8)
        plain = stream.begun and weight + size + _OVERHEAD <= budget and (not size or seq == stream.ready)
        if plain and flags & ACK and ack != other.last_ack:
            plain = other.indifferent
        if not plain:
            # The machines decide, and nearly always have this segment wait.
            if at > first:
                connections.count(at - first, delivered, weight, batch.seen(at - 1))
            segment: Segment = _row(Segment, (half.key, seq, ack, flags, 0, data[start:stop], 0, None))
            known = connections.receive(segment, batch.seen(at))
            out.singles.append(at)
            due, budget, latest = connections.due, connections.budget, connections.latest
            at += 1
            first, delivered, weight = at, 0, 0
            continue
        if flags & ACK:
            other.last_ack = ack
        if half.connection is not latest:
            latest = half.connection
            connections.use(latest)
        weight += size + _OVERHEAD
        if size:
            piece = data[start:stop]
            out.put(half, piece, batch, at)
            stream.deliver(piece, None if ts == NO_TIME else ts)
            delivered += size
        at += 1
    if at > first:
        connections.count(at - first, delivered, weight, batch.seen(at - 1))
    return at, known


def _headers(data: bytes, ip: int, end: int, link: int) -> tuple[int, int, int]:
    """Return where a plain packet has its addresses and its TCP header, and where its datagram ends; of others -1.

    Ports stand behind the addresses, so that both together are the key of the flow.
    """
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
        ethertype = _IPV4 if data[ip] >> 4 == 4 else _IPV6
    if ethertype == _IPV4:
        fragment = be16(data, ip + 6) & _FRAGMENT
        if data[ip] == 0x45 and not fragment and data[ip + 9] == PROTOCOL:
            return ip + 12, ip + 20, ip + be16(data, ip + 2)
    elif ethertype == _IPV6:
        length = be16(data, ip + 4)
        if ip + 60 <= end and data[ip] >> 4 == 6 and data[ip + 6] == PROTOCOL and length:
            return ip + 8, ip + 40, ip + 40 + length
    return -1, -1, -1
