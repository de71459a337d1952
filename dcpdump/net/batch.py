"""Reassemble many captured packets at once: a batch has its packets as columns.

Only plain packets are read here: Ethernet, Linux cooked or raw IP; IPv4 without options or IPv6 without extensions, not
fragmented, captured completely; a segment of a known connection that neither opens nor ends it. Any other packet is
left to ``Connections.feed``. Both ways lead to the same state.

A plain segment that continues its direction is delivered here. One that only queues behind a hole waits
(``ByteStream.wait``). Any other goes through ``Connections.receive``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dcpdump.big_endian import be16, be32
from dcpdump.net.connections import PACKET_COST, Connections, ConnectionSide, Delivery
from dcpdump.net.endpoints import Connection
from dcpdump.net.event import AHEAD, NO_ANSWER, ZERO_WINDOW, Bytes, BytesRun, Seen
from dcpdump.net.layers import plain_headers
from dcpdump.net.packet import NO_TIME
from dcpdump.net.reassembly import NOT_DUE
from dcpdump.net.tcp import ACK, CONTROL, Segment

if TYPE_CHECKING:
    from mypy_extensions import i64

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row: Final = tuple.__new__


@dataclass
class Batch:
    """Packets in the order of the input. All lists have one entry a packet."""

    data: bytes  #: the bytes of all packets, and perhaps others
    starts: list[int]  #: in ``data``, where each packet's link layer begins
    ends: list[int]  #: after each packet's last captured byte
    links: list[int]  #: LINKTYPE_ values
    numbers: list[int]  #: 1, 2, 3 … in its own file
    times: list[int]  #: ns since 1970, NO_TIME where a packet has none
    file: list[int]  #: which of ``files``
    files: list[str]

    def __len__(self) -> int:
        return len(self.starts)

    def seen(self, row: int) -> Seen:
        """Return the file, number and time of a packet."""
        ts = self.times[row]
        seen: Seen = _row(Seen, (self.numbers[row], None if ts == NO_TIME else ts, self.files[self.file[row]], 0))
        return seen


class Segments:
    """Pieces of directions, in the order in which they were completed, with the packets that completed them.

    ``batch``: the batch whose packets bring them, unless they are added one by one.
    """

    def __init__(self, batch: Batch | None = None) -> None:
        self.direction_ids: list[int] = []  #: of each piece: twice the number of its connection, plus 0 or 1
        self.offsets: list[int] = []  #: of its first byte in its direction
        self.pieces: list[bytes] = []
        self.rows: list[int] = []  #: row of the packet that brought it, in its batch and in these columns:
        self.numbers: list[int] = batch.numbers if batch is not None else []
        self.times: list[int] = batch.times if batch is not None else []
        self.file: list[int] = batch.file if batch is not None else []
        self.files: list[str] = batch.files if batch is not None else []
        self.singles: list[int] = []  #: rows of packets that were fed to the connections one by one, or that wait
        self._origins: dict[int, tuple[Connection, bool]] = {}  # by direction: whether it was joined late

    def __len__(self) -> int:
        return len(self.direction_ids)

    def put(self, side: ConnectionSide, piece: bytes, row: int) -> None:
        """Add bytes of a packet of the batch that continue their direction."""
        direction_id = side.direction_id
        if not self.direction_ids or self.direction_ids[-1] != direction_id:
            self._origins[direction_id] = side.connection, side.stream.joined_late
        self.direction_ids.append(direction_id)
        self.offsets.append(side.stream.offset)
        self.pieces.append(piece)
        self.rows.append(row)

    def add(self, deliveries: list[Delivery], at: int) -> int:
        """Add bytes that were delivered one by one, from ``at`` on; return the first event that is no bytes."""
        while at < len(deliveries):
            connection, direction, told = deliveries[at]
            event: Any = told  # a run, too
            if isinstance(event, Bytes):
                offset, piece, (number, ts_ns, file, _), joined_late = event
                pieces, numbers, times = [piece], [number], [NO_TIME if ts_ns is None else ts_ns]
            elif isinstance(event, BytesRun):
                offset, pieces, numbers, times, file, _, joined_late = event
            else:
                break
            direction_id, first, count = 2 * connection.number + direction, len(self.rows), len(pieces)
            self._origins[direction_id] = connection, joined_late
            if not self.files or self.files[-1] != file:
                self.files.append(file)
            for piece in pieces:
                self.offsets.append(offset)
                offset += len(piece)
            self.direction_ids += [direction_id] * count
            self.pieces += pieces
            self.rows += range(first, first + count)
            self.numbers += numbers
            self.times += times
            self.file += [len(self.files) - 1] * count
            at += 1
        return at

    def of_same_packets(self) -> "Segments":
        """Return empty segments, to which ``put_text`` adds the text inside these."""
        other = Segments()
        other.numbers, other.times, other.file, other.files = self.numbers, self.times, self.file, self.files
        return other

    def put_text(self, outer: "Segments", at: int, joined_late: bool, texts: list[tuple[int, int, bytes]]) -> None:
        """Add the text inside segments of one direction, one of which is ``outer[at]``.

        ``texts``: of each piece the segment of ``outer`` that completed it, its offset in the text, and the text.
        """
        direction_id = outer.direction_ids[at]
        self._origins[direction_id] = outer._origins[direction_id][0], joined_late
        for each, offset, piece in texts:
            self.direction_ids.append(direction_id)
            self.offsets.append(offset)
            self.pieces.append(piece)
            self.rows.append(outer.rows[each])

    def event(self, at: int) -> Delivery:
        """Return a piece as the event that ``Connections.feed`` would return."""
        direction_id = self.direction_ids[at]
        connection, joined_late = self._origins[direction_id]
        return Delivery(
            connection, direction_id % 2, Bytes(self.offsets[at], self.pieces[at], self.seen(at), joined_late)
        )

    def seen(self, at: int) -> Seen:
        """Return the packet that brought a piece."""
        row = self.rows[at]
        ts = self.times[row]
        return Seen(self.numbers[row], None if ts == NO_TIME else ts, self.files[self.file[row]])


def reassemble_plain(connections: Connections, batch: Batch, at: int, out: Segments) -> tuple[int, list[Delivery]]:
    """Reassemble packets from ``at`` on as long as they are plain.

    Bytes that continue their direction are added to ``out``. Return the first packet that is not, and further events
    of the last one that was; they follow the pieces in ``out``.
    """
    data, starts, ends, links, times = batch.data, batch.starts, batch.ends, batch.links, batch.times
    file, files = batch.file, batch.files
    latest, side = connections.latest, _NO_SIDE
    due: i64 = NOT_DUE if connections.due is None else connections.due
    budget: i64 = connections.budget
    row: i64 = at
    first: i64 = at
    count: i64 = len(starts)
    delivered: i64 = 0
    weight: i64 = 0
    known: list[Delivery] = []
    while row < count and not known:
        ts: i64 = times[row]
        end: i64 = ends[row]
        key_at, tcp, start, stop = plain_headers(data, starts[row], end, links[row])
        if due <= ts or tcp < 0:
            break
        flags: i64 = data[tcp + 13]
        if flags & CONTROL:
            break
        if side is None or not _is_at(side.key, data, key_at, tcp + 4):
            # Nearly always this is the other side's answer.
            if side is not None and _is_at(side.other.key, data, key_at, tcp + 4):
                side = side.other
            else:
                side = connections.halves.get(data[key_at : tcp + 4])
                if side is None:
                    break
        stream, other, size = side.stream, side.other.stream, stop - start
        seq, ack = be32(data, tcp + 4), be32(data, tcp + 8)
        window = be16(data, tcp + 14)
        if flags & ACK and (0 if window else 1) != stream.sender.shut and side.advertise(not window, ack):
            connections.note(side, ZERO_WINDOW, not window, None if ts == NO_TIME else ts)
        if other.sender.repeats and other.sender.answer():
            connections.note(side, NO_ANSWER, False, None if ts == NO_TIME else ts)
        waits = seq == stream.waiting_end and stream.can_wait(size, ts, files[file[row]])
        plain = (waits or seq == stream.ready) and weight + size + PACKET_COST <= budget
        if plain and flags & ACK and ack != other.last_ack:
            plain = other.indifferent
            if not plain:
                plain = other.acknowledge_lost(ack, ts)
            else:
                other.last_ack = ack
                if ack != other.ready and side.is_ahead(ack):
                    connections.note(side, AHEAD, True, None if ts == NO_TIME else ts)
        if not plain:
            # It needs a decision, or begins a hole.
            if row > first:
                connections.count(row - first, delivered, weight, batch.seen(row - 1))
            segment: Segment = _row(Segment, (side.key, seq, ack, flags, window, data[start:stop], 0, None))
            known = connections.receive(segment, batch.seen(row))
            out.singles.append(row)
            due = NOT_DUE if connections.due is None else connections.due
            budget, latest, side = connections.budget, connections.latest, _NO_SIDE
            row += 1
            first, delivered, weight = row, 0, 0
            continue
        if side.connection is not latest:
            latest = side.connection
            connections.use(latest)
        weight += size + PACKET_COST
        if size:
            if stream.sender.repeats and stream.sender.answer():
                connections.note(side.other, NO_ANSWER, False, None if ts == NO_TIME else ts)
            piece = data[start:stop]
            if waits:
                stream.wait(piece, batch.numbers[row], ts)
                out.singles.append(row)
            else:
                out.put(side, piece, row)
                stream.deliver(piece, None if ts == NO_TIME else ts)
                delivered += size
        row += 1
    if row > first:
        connections.count(row - first, delivered, weight, batch.seen(row - 1))
    return row, known


#: None, with the type of an optional ConnectionSide.
_NO_SIDE: ConnectionSide | None = None


def _is_at(key: bytes, data: bytes, at: "i64", stop: "i64") -> bool:
    """Return whether the bytes from ``at`` to ``stop`` are a flow's key, the last ones, which differ most, first."""
    left: i64 = len(key)
    if left != stop - at:
        return False
    while left > 0:
        left -= 1
        if data[at + left] != key[left]:
            return False
    return True
