"""Runs: segments that continue their stream, one after the other. What many of them do to the machines of ``net``
and ``wire`` is done at once; any other packet is fed to them one by one.

This module knows how those machines keep their state, which nothing else outside of them does: each class
here is one of them with a second way in, and leaves it as if everything had come through the first.
"""

from collections.abc import Sequence
from heapq import heappop
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from dcpdump.columnar.block import Origins
from dcpdump.columnar.plan import Array
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.connections import Connections, Delivery
from dcpdump.net.event import Seen
from dcpdump.net.flow import Connection
from dcpdump.net.history import OVERHEAD, History, Kept
from dcpdump.net.seqnum import MASK
from dcpdump.spec import find
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.frame import Header, Where
from dcpdump.wire.session import (
    _COLLECTION_MESSAGES,
    _HELLO,
    _OPEN,
    _STREAM_REQ,
    _UNDERLYING_DATATYPE,
    MAX_STREAMS,
    Asked,
    Session,
)
from dcpdump.wire.split import FrameSplitter

_PACKET_COST = 256  #: what a packet weighs beside its payload, as Connections has it


#: Messages that only a connection with collections carries.
COLLECTION_MESSAGES = sorted(_COLLECTION_MESSAGES)


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


class RunSplitter(FrameSplitter):
    """A splitter that also takes a run whose frames were found already."""

    @property
    def ready(self) -> bool:
        """Whether it is in step, has nothing to pass by or to doubt, and what it holds is whole."""
        return self._state == self._cut and not (self._holes or self._confidence)

    @property
    def beginning(self) -> bytes:
        """The beginning of the next frame, as far as it came."""
        return bytes(self._data)

    @property
    def offset(self) -> int:
        """The offset of the next frame's first byte."""
        return self._offset

    @property
    def marks(self) -> list[tuple[int, Where]]:
        """Where the held bytes came from."""
        return self._marks

    def pass_by(self, size: int) -> None:
        """It lets bytes of some other protocol pass."""
        self._offset += size

    def take(self, frames: int, at: int, rest: bytes, marks: list[tuple[int, Where]]) -> int:
        """It goes on behind ``frames`` frames of ``at`` bytes, with ``rest``; gives the bytes lost before them.

        ``marks`` say where the rest came from: offsets up to which, and the packet.
        """
        lost = 0
        if frames:
            lost, self._lost = self._lost, 0
        self._offset += at
        self._data = bytearray(rest)
        self._marks = marks
        self._segment = False
        self._need = HEADER_LENGTH
        if len(rest) >= HEADER_LENGTH:
            self._need = HEADER_LENGTH + int.from_bytes(rest[8:12], "big")
        return lost


class RunSession(Session):
    """A session that also remembers many frames of streams at once."""

    def heeds(self, header: Header) -> bool:
        """Whether this frame changes what is remembered of others, or is read in the light of it."""
        streamed = find(header.opcode).streamed
        return self.features is None or streamed or header.opcode in (_HELLO, _OPEN, _STREAM_REQ)

    def overhear(self, direction: int, opcode: int, opaque: int, asked: Asked | None) -> Asked | None:
        """It hears of a message that is no concern of DCP: of a request, or (None) of a response.

        It gives the request that the response answers.
        """
        if asked is None:
            return self._waiting.pop((1 - direction, opcode, opaque), None)
        self._await(direction, opcode, opaque, asked)
        return None

    @property
    def underlying_datatype(self) -> bool:
        """Whether the connection was opened with the flag under which a datatype may describe absent bytes."""
        return bool((self.open_flags or 0) & _UNDERLYING_DATATYPE)

    def remember(self, opaque: Array, word: Array, seqno: Array, has_seqno: Array) -> None:
        """It remembers the streams of frames, in order, and the last seqno of each."""
        if not len(opaque):
            return
        order = np.argsort(opaque, kind="stable")
        begins = np.flatnonzero(np.concatenate(([True], np.diff(opaque[order]) != 0)))
        first, last = order[begins], order[np.append(begins[1:], len(order)) - 1]
        if len(self.streams) + len(begins) >= MAX_STREAMS:
            self._remember_each(opaque, word, seqno, has_seqno)
            return
        latest = np.maximum.reduceat(np.where(has_seqno, np.arange(len(opaque)), -1)[order], begins)
        met = np.argsort(first)  # streams are remembered in the order in which they were met
        columns = opaque[first[met]], word[last[met]], seqno[latest[met]], latest[met] >= 0
        for number, vbucket, high, has in zip(*(column.tolist() for column in columns), strict=True):
            self.streams[number] = vbucket
            if has:
                self._seqnos[number] = high

    def _remember_each(self, opaque: Array, word: Array, seqno: Array, has_seqno: Array) -> None:
        """It goes one by one where old streams may have to be forgotten on the way."""
        rows = zip(opaque.tolist(), word.tolist(), seqno.tolist(), has_seqno.tolist(), strict=True)
        for number, vbucket, latest, has in rows:
            if number not in self.streams and len(self.streams) >= MAX_STREAMS:
                oldest = next(iter(self.streams))
                del self.streams[oldest]
                self._seqnos.pop(oldest, None)
                self._forgot = True
            self.streams[number] = vbucket
            if has:
                self._seqnos[number] = latest

    def infer(self, certain: Array, fits: Array, tells: Array) -> Array:
        """It says frame by frame whether keys have a collection id, where HELLO was not seen.

        ``certain``: the frame is one that only a connection with collections has; ``fits``: its key may start
        with an id (or it has none); ``tells``: and the key is no plain text.
        """
        surely = np.logical_or.accumulate(certain) | self._certain
        fit = np.logical_and.accumulate(fits) & self._keys_fit
        tell = np.logical_or.accumulate(tells) | self._keys_tell
        self._certain, self._keys_fit, self._keys_tell = bool(surely[-1]), bool(fit[-1]), bool(tell[-1])
        have: Array = surely | (fit & tell)
        return have
