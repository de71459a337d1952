"""Flows: segments that go on with their flow, one after the other, taken many at once by the machines of ``net``.

This module knows how those machines keep their state, which nothing else outside of them does: what comes in at
once leaves them as if it had come packet by packet.
"""

from collections.abc import Sequence
from heapq import heappop
from itertools import accumulate
from typing import NamedTuple

from dcpdump.columnar.block import Origins
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.connections import Connections, Delivery
from dcpdump.net.event import Seen
from dcpdump.net.flow import Connection
from dcpdump.net.history import OVERHEAD, History, Kept
from dcpdump.net.seqnum import MASK

_PACKET_COST = 256  #: what a packet weighs beside its payload, as Connections has it


class Place(NamedTuple):
    """Where the next byte of a direction goes."""

    connection: Connection
    direction: int
    late: bool  #: the direction was joined late
    offset: int


class FlowRun(NamedTuple):
    """What one flow brought: pieces, the packets that had them, and what it acknowledged, one after the other."""

    key: bytes
    rows: list[int]  #: of ``origins``
    pieces: list[bytes | memoryview]
    origins: Origins
    acks: list[int]  #: the last will do, unless the other direction holds


class Hold(NamedTuple):
    """How much may come of a direction whose bytes wait behind a hole before there is anything to decide."""

    seq: int  #: of the segment that goes on with what waits
    room: int  #: bytes
    segments: int
    ack: int  #: the first number that, acknowledged by the other side, would change something


class RunConnections(Connections):
    """Connections that also take many plain segments of a direction at once."""

    def connection(self, key: bytes) -> Connection | None:
        """It gives the connection of a flow, if it is known."""
        half = self._halves.get(key)
        return None if half is None else half.connection

    def place(self, key: bytes) -> Place:
        """It says where the next byte of a flow goes; raises KeyError where it is not known."""
        half = self._halves[key]
        return Place(half.connection, half.direction, half.stream.joined_late, half.stream.offset)

    def deadline(self) -> int | None:
        """It gives the capture time at which something is to be given up, None where nothing waits."""
        deadlines = self._deadlines
        while deadlines:
            due, _, half = deadlines[0]
            if half.stream.deadline == due:
                return due
            heappop(deadlines)  # it came before its time, or another one is meant now
            half.scheduled = False
            self._schedule(half)
        return None

    def calm(self, key: bytes) -> bool:
        """It says whether what a flow acknowledges changes nothing but what was acknowledged last."""
        half = self._halves[key]
        other = half.other.stream
        silent = other._base is None and not other.answers and other._first_ack is not None
        return half.stream._base is not None and (other._ready >= 0 or silent)

    def expects(self, key: bytes, seq: int) -> bool:
        """It says whether a segment with this number simply continues its stream, of which nothing waits.

        Then the same is true of every segment that continues it.
        """
        return self._halves[key].stream._ready == seq

    def hold(self, key: bytes, *, other: bool = False) -> Hold | None:
        """It says how a flow stands whose bytes wait behind a hole; ``other``: the flow that it answers.

        None where nothing waits, or where the very next packet may change something.
        """
        half = self._halves[key]
        stream = half.other.stream if other else half.stream
        backlog, patience, limits = stream._backlog, stream._patience, self._limits
        over = stream._fin is not None or stream._reset_at is not None
        if not backlog or patience is None or stream._acked is None or stream._stray or stream._gathering or over:
            return None
        room, goal = limits.pending_bytes - backlog.size, backlog.first.start
        acked = stream._is_acked(goal)
        if acked != (patience._lost_since is not None):
            return None  # it has yet to learn of it
        if patience._lost_since is not None:
            room = min(room, patience._lost_since[1] + limits.patience_bytes - stream._arrived - 1)
            goal = max(stream._top, stream._acked) + limits.jump + 1
        top, ack = ((stream._expected() + place - stream.offset) & MASK for place in (stream._top, goal))
        return Hold(top, room, limits.pending_segments - len(backlog), ack)

    def next_offset(self, key: bytes) -> int:
        """It gives the offset of what goes on with a flow: with what was delivered, or with what waits."""
        stream = self._halves[key].stream
        return stream.offset if stream._ready >= 0 else stream._top

    def delivers(self, key: bytes) -> bool:
        """It says whether nothing of a flow waits, so that what comes next is delivered at once."""
        return self._halves[key].stream._ready >= 0

    def advance(self, run: FlowRun) -> None:
        """It takes what a flow brought that simply goes on: with what was delivered, or with what waits."""
        half = self._halves[run.key]
        if run.acks:
            self._acknowledge(half.other.stream, run.acks)
        if run.pieces:
            if half.stream._ready >= 0:
                self._deliver(half.stream, run)
            else:
                self._keep(half.stream, run)

    def _acknowledge(self, stream: ByteStream, acks: list[int]) -> None:
        if stream._ready < 0 and stream._base is not None:
            stream.last_ack = max(acks, key=lambda ack: stream._offset_of(ack))
            stream._note_ack()
        stream.last_ack = acks[-1]

    def _keep(self, stream: ByteStream, run: FlowRun) -> None:
        """It lets more wait behind a hole."""
        counts, backlog = self.counts, stream._backlog
        for seen, piece in zip(run.origins.all_seen(run.rows), run.pieces, strict=True):
            size = len(piece)
            stream._arrived += size
            backlog.add(stream._top, stream._arrived, bytes(piece), 0, stream._clock(seen), seen)
            stream._top += size
            counts.payload_bytes += size
            counts.pending_bytes += size
            self._unweighed += size

    def _deliver(self, stream: ByteStream, run: FlowRun) -> None:
        """It delivers what came."""
        counts = self.counts
        offsets = list(accumulate(map(len, run.pieces), initial=stream.offset))
        size = offsets[-1] - stream.offset
        counts.payload_bytes += size
        counts.delivered_bytes += size
        self._unweighed += size
        self._remember(stream._history, run, offsets)
        stream.offset += size
        stream._ready = (stream._ready + size) & MASK

    @staticmethod
    def _remember(history: History, run: FlowRun, offsets: list[int]) -> None:
        """It keeps the last pieces, to compare with them what comes again."""

        def make(first: int) -> list[Kept]:
            pieces, times = map(bytes, run.pieces[first:]), run.origins.times(run.rows[first:])
            return list(zip(offsets[first:-1], pieces, times, strict=True))

        history.extend(len(run.pieces), lambda place: offsets[place] - offsets[0] + place * OVERHEAD, make)

    def count(self, packets: int, used: Sequence[Connection], last: Seen) -> list[Delivery]:
        """It ends a stretch: so many packets were taken at once, of connections in the order of their last packets.

        ``last`` is the last packet of the stretch.
        """
        self.counts.packets += packets
        self.counts.tcp_packets += packets
        self._seen = last
        for connection in used:
            self._latest = connection
            self._lives.move_to_end(connection.number)
        out: list[Delivery] = []
        self._unweighed += packets * _PACKET_COST
        if self._unweighed > self._weigh_after:
            self._weigh(last, out)
        return out
