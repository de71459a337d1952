"""Reassemble captured packets into the ordered bytes of TCP connections. Knows no protocol above TCP.

Connections are numbered as they appear. When a pair of endpoints is used again, a new connection begins. Memory stays
within the limits.
"""

from collections import OrderedDict
from heapq import heappop, heappush
from typing import Final, NamedTuple

from dcpdump.net.bytestream import ByteStream, StreamState
from dcpdump.net.endpoints import Connection, reverse_key
from dcpdump.net.event import (
    AHEAD,
    END,
    EVICTED,
    NO_ANSWER,
    ZERO_WINDOW,
    End,
    Event,
    Seen,
    StreamEvent,
    TcpChange,
    one_by_one,
)
from dcpdump.net.layers import Layers, LayersState
from dcpdump.net.limits import DEFAULT, IN_ORDER, OUT_OF_ORDER, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.reassembly import Counters, SeenState
from dcpdump.net.tcp import ACK, CONTROL, FIN, RST, SYN, Segment, distance

#: An acknowledgement of uncaptured bytes is ahead by at least this many (a FIN counts as one), and less than that many.
_LEAST: Final = 2
_MOST: Final = 1 << 30


class ConnectionSide:
    """One direction of an open connection, and its other side."""

    __deletable__ = ("other",)  # declared for the compiler

    def __init__(self, key: bytes, connection: Connection, direction: int, stream: ByteStream) -> None:
        self.key = key
        self.connection = connection
        self.direction = direction
        self.direction_id = 2 * connection.number + direction
        self.stream = stream
        self.other = self
        self.ahead = False  # it acknowledged bytes before they were captured: reported once, in no state
        self.fin_ack = 0  # what its first FIN acknowledges: in no state either
        self.fin_ns: int | None = None  # when that came
        self.scheduled = False  # whether a check of its deadline is scheduled
        self.syns: tuple[int, ...] = ()  # the times of its SYNs, the first and the last

    def advertise(self, zero: bool, ack: int) -> bool:
        """Note whether the receive window is zero, as the segment with this ack says. Return whether that changed."""
        acked = self.other.stream.last_ack
        if acked >= 0 and distance(acked, ack) < 0:
            return False  # it was captured behind a later one
        sender = self.stream.sender
        changes = zero != (sender.shut == 1)
        sender.shut = 1 if zero else 0
        return changes

    def closed(self, end: End, segment: Segment) -> End:
        """Return the end by a FIN with who closed first: the other side if this FIN, or its, acknowledges the first."""
        other = self.other
        if other.stream.fin_is_missing:
            return end._replace(by_peer=True)
        if other.fin_ns is None or distance(segment.seq + len(segment.payload) + 1, other.fin_ack) < 0:
            return end
        return end._replace(reset_ns=other.fin_ns - 1)  # that of the other side was captured before what it answers

    def is_ahead(self, ack: int) -> bool:
        """Return whether a segment is the first that acknowledges bytes of the other side that are not captured yet."""
        expected = self.other.stream.ready
        if self.ahead or expected < 0 or not _LEAST <= distance(expected, ack) < _MOST:
            return False
        self.ahead = True
        return True

    @property
    def over(self) -> bool:
        """Return whether both directions ended, or the connection was reset: only late packets can follow."""
        stream, other = self.stream, self.other.stream
        return (stream.ended and other.ended) or stream.reset_at is not None or other.reset_at is not None

    @property
    def is_captured(self) -> bool:
        """Return whether a segment of this direction with an acknowledgement was captured."""
        return self.stream.sender.shut >= 0

    def brings_nothing(self, segment: Segment) -> bool:
        """Return whether a segment has only bytes that came before: a retransmission, or a probe for an answer."""
        stream, size = self.stream, len(segment.payload) + segment.payload_missing
        if not stream.begun or segment.flags & (FIN | SYN | RST):
            return False
        end = stream.offset_of(segment.seq) + size
        return end <= stream.offset if size else end == stream.offset - 1


class _Remembered:
    """One direction of each open connection, by number. Ended connections are kept for late packets."""

    __slots__ = ("_most_over", "_over", "_recent", "most")

    def __init__(self, limits: Limits) -> None:
        self.most = limits.connections
        self._most_over = limits.over
        self._recent: OrderedDict[int, ConnectionSide] = OrderedDict()  # least recently used first
        self._over: OrderedDict[int, ConnectionSide] = (
            OrderedDict()
        )  # those of them that ended or were reset; some continue

    def __len__(self) -> int:
        return len(self._recent)

    def __contains__(self, number: int) -> bool:
        return number in self._recent

    @property
    def halves(self) -> list[ConnectionSide]:
        """Return one direction of each connection, the least recently used first."""
        return list(self._recent.values())

    def add(self, side: ConnectionSide) -> None:
        """Add a connection as the most recently used."""
        self._recent[side.connection.number] = side

    def use(self, number: int) -> None:
        """Note that a connection was used last."""
        self._recent.move_to_end(number)
        if number in self._over:
            self._over.move_to_end(number)

    def note_end(self, side: ConnectionSide) -> None:
        """Note that a direction ended or was reset."""
        if side.over:
            self._over[side.connection.number] = side

    def remove(self, number: int) -> None:
        """Forget a connection."""
        del self._recent[number]
        self._over.pop(number, None)

    def next_to_evict(self) -> ConnectionSide | None:
        """Return the connection to evict when another begins: the least recently used, ended ones before others."""
        full = len(self._recent) >= self.most
        while self._over and (full or len(self._over) > self._most_over):
            number, side = next(iter(self._over.items()))
            if side.over:
                return side
            del self._over[number]
        return next(iter(self._recent.values())) if full else None


#: What a packet costs beside its payload, when deciding how soon to add up the memory again.
PACKET_COST: Final = 256
#: What a connection takes even without bytes: many connections leave less memory for bytes.
_CONNECTION: Final = 2_048

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row: Final = tuple.__new__


class Delivery(NamedTuple):
    """An event of one direction (0 or 1) of a connection."""

    connection: Connection
    direction: int
    event: Event


class ConnectionsState(NamedTuple):
    """The state beside the connections themselves, as plain values."""

    opened: int  #: the number of the next connection
    unweighed: int
    seen: SeenState  #: the last packet
    layers: LayersState
    carved: dict[str, int]


def _direction(side: ConnectionSide) -> int:
    return side.direction


def _urgency(side: ConnectionSide) -> tuple[int, int, int]:
    return side.stream.deadline or 0, side.connection.number, side.direction


class Connections:
    """All TCP connections of one input. ``counts`` accounts for every payload byte at any time."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.counts = Counters()
        self._limits = limits
        self._limits_of = [limits.of_carved(carved) for carved in (0, IN_ORDER, OUT_OF_ORDER)]
        self.carved: dict[str, int] = {}  #: by file that holds chosen packets only: IN_ORDER or OUT_OF_ORDER
        self._layers = Layers(limits)
        self.in_runs = False  #: whether events may be ``BytesRun``, too
        self.halves: dict[bytes, ConnectionSide] = {}
        self._remembered = _Remembered(limits)
        self.latest: Connection | None = None
        self._deadlines: list[tuple[int, int, ConnectionSide]] = []  # a heap
        self._serial = 0
        self._unweighed = 0
        self._weigh_after = limits.memory // 16
        self.last = Seen(0, None)  #: the last packet
        self.tcp_changes: list[TcpChange] | None = None  #: emptied by the owner; None: not collected

    @property
    def held(self) -> int:
        """Return how many bytes of memory all directions take, which are added up one by one."""
        return sum(side.stream.held for side in self.halves.values())

    def find(self, key: bytes) -> tuple[Connection, int, ByteStream] | None:
        """Find the side of an open connection that belongs to a flow's key."""
        side = self.halves.get(key)
        return None if side is None else (side.connection, side.direction, side.stream)

    @property
    def unanswered(self) -> list[tuple[Connection, int]]:
        """Return the open connections of which only SYNs were captured, and for how long (ns) these were repeated."""
        return [
            (side.connection, side.syns[-1] - side.syns[0])
            for side in self._remembered.halves
            if side.syns
            and not side.other.stream.begun
            and not side.stream.offset
            and side.stream.last_ack < 0
            and side.other.stream.last_ack < 0
        ]

    @property
    def resets(self) -> list[tuple[int, int, int]]:
        """Return the open connections that were reset: the number, the direction that reset it, and the time (ns)."""
        return [
            (side.connection.number, 1 - each.direction if each.stream.reset_by_peer else each.direction, reset_at)
            for side in self._remembered.halves
            for each in (side, side.other)
            if (reset_at := each.stream.reset_at) is not None
        ]

    def remember(self, most: int) -> None:
        """Set how many connections are remembered at most."""
        self._remembered.most = most

    def remembers(self, number: int) -> bool:
        """Return whether the connection with a number is still open."""
        return number in self._remembered

    @property
    def living(self) -> list[ConnectionSide]:
        """Return one direction of each open connection, the least recently used first."""
        return self._remembered.halves

    def state(self) -> ConnectionsState:
        """Return the state for ``restore_state``, without the connections, which are restored one by one."""
        return ConnectionsState(
            self.counts.connections, self._unweighed, (*self.last,), self._layers.state(), {**self.carved}
        )

    def restore_state(self, state: ConnectionsState) -> None:
        """Restore the state without the connections."""
        self.counts.connections, self._unweighed = state.opened, state.unweighed
        self.last = Seen(*state.seen)
        self._layers.restore(state.layers)
        self.carved.update(state.carved)

    def restore(self, connection: Connection, key: bytes, states: tuple[StreamState, StreamState]) -> None:
        """Restore a connection as the most recently used. ``key``: of its direction 0; ``states``: of both streams."""
        keys = key, reverse_key(key)
        limits = self._limits_of[connection.carved]
        streams = ByteStream(limits, self.counts), ByteStream(limits, self.counts)
        for stream, state in zip(streams, states, strict=True):
            stream.restore(state)
        first, second = (ConnectionSide(keys[way], connection, way, streams[way]) for way in (0, 1))
        first.other, second.other = second, first
        self.halves[keys[1]], self.halves[keys[0]] = second, first
        self._remembered.add(first)
        self._remembered.note_end(first)
        self._schedule(first)
        self._schedule(second)

    @property
    def due(self) -> int | None:
        """Return the capture time of the next deadline of a direction; None without any."""
        return self._deadlines[0][0] if self._deadlines else None

    @property
    def budget(self) -> int:
        """Return how many bytes may come until the memory is to be added up."""
        return self._weigh_after - self._unweighed

    def use(self, connection: Connection) -> None:
        """Note that a connection was used last."""
        self.latest = connection
        self._remembered.use(connection.number)

    def count(self, packets: int, delivered: int, weight: int, last: Seen) -> None:
        """Count packets handled in a batch, whose payload was delivered completely; ``last``: the last of them."""
        counts = self.counts
        counts.packets += packets
        counts.tcp_packets += packets
        counts.payload_bytes += delivered
        counts.delivered_bytes += delivered
        self._unweighed += weight
        self.last = last

    def feed(self, packet: Packet) -> list[Delivery]:
        """Handle the next packet, and return the events that it caused."""
        counts = self.counts
        counts.packets += 1
        segment = self._layers.feed(packet)
        number, ts_ns, _, _, _, file, _, interface = packet
        self.last = seen = _row(Seen, (number, ts_ns, file, interface))
        out: list[Delivery] = []
        if self._deadlines and ts_ns is not None and self._deadlines[0][0] <= ts_ns:
            self._keep_deadlines(ts_ns, seen, out)
        if not isinstance(segment, Segment):
            if segment is not None:
                counts.refuse(segment)
            return out
        self._receive(segment, seen, out)
        return out

    def receive(self, segment: Segment, seen: Seen) -> list[Delivery]:
        """Handle the segment of the next packet, at or before ``due``, and return the events that it caused."""
        self.counts.packets += 1
        self.last = seen
        out: list[Delivery] = []
        self._receive(segment, seen, out)
        return out

    def _receive(self, segment: Segment, seen: Seen, out: list[Delivery]) -> None:
        self.counts.tcp_packets += 1
        key, _, ack, flags, window, payload, _, _ = segment
        side = self.halves.get(key)
        if side is None or flags & SYN:
            side = self._find_or_open(side, segment, seen, out)
        connection = side.connection
        if connection is not self.latest:
            self.use(connection)
        # Bytes of the other side existed before their acknowledgement: events keep that order.
        other = side.other
        sender, ts_ns = side.stream.sender, seen.ts_ns
        if flags & ACK and not flags & CONTROL and side.advertise(not window, ack):
            self.note(side, ZERO_WINDOW, not window, ts_ns)
        if other.stream.sender.repeats and other.stream.sender.answer():
            self.note(side, NO_ANSWER, False, ts_ns)
        if side.brings_nothing(segment):
            if ts_ns is not None and other.is_captured and sender.repeat(ts_ns):
                self.note(other, NO_ANSWER, True, sender.first_ns)
        elif payload and sender.repeats and sender.answer():  # the connection goes on: its answer was not captured
            self.note(other, NO_ANSWER, False, ts_ns)
        if flags & ACK and ack != other.stream.last_ack:
            if side.is_ahead(ack):
                self.note(side, AHEAD, True, ts_ns)
            self._emit(other, other.stream.acknowledge(ack, seen), out)
        stream = side.stream
        events = stream.feed(segment, seen)
        if flags & FIN:
            if side.fin_ns is None and ts_ns is not None:
                side.fin_ack, side.fin_ns = ack, ts_ns
            events = [side.closed(each, segment) if isinstance(each, End) else each for each in events]
        self._emit(side, events, out)
        if flags & RST:
            self._emit(other, other.stream.reset(seen, by_peer=True), out)
            self._remembered.note_end(side)
        self._unweighed += len(payload) + PACKET_COST
        if self._unweighed > self._weigh_after:
            self._weigh(seen, out)

    def note(self, side: ConnectionSide, fault: str, begins: bool, ts_ns: int | None) -> None:
        """Note that the sender of a direction begins to hold up the other end, or stops doing so."""
        if self.tcp_changes is not None:
            self.tcp_changes.append(TcpChange(side.connection.number, side.direction, fault, begins, ts_ns))

    def close(self) -> list[Delivery]:
        """End the input: holes become gaps, and every direction gets its End."""
        out: list[Delivery] = []
        for side in self._remembered.halves:
            self._close_connection(side, END, self.last, out)
        self._deadlines.clear()
        return out

    def _find_or_open(
        self, side: ConnectionSide | None, segment: Segment, seen: Seen, out: list[Delivery]
    ) -> ConnectionSide:
        """Find or open the connection of a SYN or of a new flow; a SYN with another number begins a new one."""
        flags = segment.flags
        if side is not None and not side.stream.begins_with(segment.seq):
            self._close_connection(side, "reused", seen, out)
            side = None
        if side is None:
            side = self._open(segment, seen, out)
        other = side.other
        if flags & SYN and flags & ACK:
            # It also tells where the other side began, whose SYN may not have been captured.
            self._emit(other, other.stream.begin(segment.ack, seen), out)
        elif flags & SYN:
            other.stream.answers = True
            if seen.ts_ns is not None:
                side.syns = (*side.syns[:1], seen.ts_ns)
        return side

    def _open(self, segment: Segment, seen: Seen, out: list[Delivery]) -> ConnectionSide:
        while (evicted := self._remembered.next_to_evict()) is not None:
            self.counts.evictions += not evicted.over
            self.counts.closed += not evicted.over
            self._close_connection(evicted, EVICTED, seen, out)
        answers = segment.flags & SYN and segment.flags & ACK  # so the other side opened it
        flow = segment.flow
        syn = bool(segment.flags & SYN)
        carved = self.carved.get(seen.file, 0)
        limits = self._limits_of[carved]
        connection = Connection(self.counts.connections, flow.reverse if answers else flow, syn, carved)
        self.counts.connections += 1
        key, back = segment.key, reverse_key(segment.key)
        side = ConnectionSide(key, connection, 1 if answers else 0, ByteStream(limits, self.counts))
        other = ConnectionSide(back, connection, 0 if answers else 1, ByteStream(limits, self.counts))
        side.other, other.other = other, side
        self.halves[back] = other
        self.halves[key] = side  # after that, so that a connection of an endpoint with itself has one direction
        self._remembered.add(side)
        return side

    def _close_connection(self, side: ConnectionSide, reason: str, seen: Seen, out: list[Delivery]) -> None:
        """End a connection and forget it."""
        for each in sorted((side, side.other), key=_direction):
            self._emit(each, each.stream.close(seen, reason), out)
            if self.halves.get(each.key) is each:
                del self.halves[each.key]
            del each.other  # without the cycle of references the memory is free at once
        self._remembered.remove(side.connection.number)
        self.latest = None

    def _emit(self, side: ConnectionSide, events: list[StreamEvent], out: list[Delivery]) -> None:
        for event in events if self.in_runs else one_by_one(events):
            out.append(_row(Delivery, (side.connection, side.direction, event)))
            if isinstance(event, End):
                self._remembered.note_end(side)
        if side.stream.deadline is not None and not side.scheduled:
            self._schedule(side)

    def _schedule(self, side: ConnectionSide) -> None:
        if side.stream.deadline is not None:
            side.scheduled = True
            self._serial += 1
            heappush(self._deadlines, (side.stream.deadline, self._serial, side))

    def _keep_deadlines(self, now: int, seen: Seen, out: list[Delivery]) -> None:
        """Tick those directions whose deadline has passed, in the order of their deadlines.

        A check may be scheduled before its deadline, and is not scheduled for restored connections.
        """
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now:
            due: list[ConnectionSide] = []
            while deadlines and deadlines[0][0] <= now:
                side = heappop(deadlines)[2]
                side.scheduled = False
                due.append(side)
            for side in sorted(due, key=_urgency):
                deadline = side.stream.deadline
                if deadline is not None:
                    self._emit(side, side.stream.tick(seen) if deadline <= now else [], out)

    def _weigh(self, seen: Seen, out: list[Delivery]) -> None:
        """Add up the memory of all directions, and evict the least recently used beyond the limit.

        Adding up costs a step for each direction, so it is done once in a number of bytes.
        """
        self._unweighed = 0
        held = self.held
        memory = max(self._limits.memory // 8, self._limits.memory - _CONNECTION * len(self._remembered))
        if held <= memory:
            return
        for side in self._remembered.halves:
            for each in (side, side.other):
                if each.stream.held:
                    held -= each.stream.held
                    self.counts.evictions += 1
                    self._emit(each, each.stream.evict(seen), out)
            if held <= memory * 3 // 4:
                return
