"""Runs: stretches of packets in which every segment continues its stream. What such a stretch does to the
machines of ``net`` and ``wire`` is done at once; any other packet is fed to them one by one.

This module knows how those machines keep their state, which nothing else outside of them does: each class
here is one of them with a second way in, and leaves it as if everything had come through the first.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dcpdump.columnar.plan import Array, distinct
from dcpdump.net.connections import Connections, Delivery
from dcpdump.net.event import Seen
from dcpdump.net.history import OVERHEAD
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
    """A direction of a connection."""

    connection: int
    direction: int


class RunConnections(Connections):
    """Connections that also take a stretch of plain segments at once."""

    def place(self, key: bytes) -> Place | None:
        """It gives the direction that a key stands for, if it is known."""
        half = self._halves.get(key)
        return None if half is None else Place(half.connection.number, half.direction)

    def deadline(self) -> int | None:
        """It gives the capture time at which something is to be given up, None where nothing waits."""
        return self._deadlines[0][0] if self._deadlines else None

    def continues(self, key: bytes, seq: int | None) -> bool:
        """It says whether a plain segment with this number (None: without payload) changes nothing but counts.

        Then the same is true of every segment that continues it, and of what they acknowledge.
        """
        half = self._halves.get(key)
        if half is None:
            return False
        stream, other = half.stream, half.other.stream
        if seq is None:
            if stream._base is None:
                return False
        elif stream._ready != seq:
            return False
        silent = other._base is None and not other.answers and other._first_ack is not None
        return other._ready >= 0 or silent

    def take(self, runs: "Sequence[FlowRun]", packets: int, last: Seen) -> list[Delivery]:
        """It takes a stretch: what each flow brought, in the order of the flows' last packets."""
        counts = self.counts
        total = sum(run.size for run in runs)
        counts.packets += packets
        counts.tcp_packets += packets
        counts.payload_bytes += total
        counts.delivered_bytes += total
        self._seen = last
        for run in runs:
            half = self._halves[run.key]
            self._latest = half.connection
            self._lives.move_to_end(half.connection.number)
            if run.ack is not None:
                half.other.stream.last_ack = run.ack
            if not run.size:
                continue
            stream = half.stream
            offset, history = stream.offset, stream._history
            stream.offset = offset + run.size
            stream._ready = (stream._ready + run.size) & MASK
            if run.tail and run.tail_cost > self._limits.history:
                history.clear()
            for start, data, ts_ns in run.tail:
                history.add(offset + start, data, ts_ns)
        out: list[Delivery] = []
        self._unweighed += total + packets * _PACKET_COST
        if self._unweighed > self._weigh_after:
            self._weigh(last, out)
        return out


class FlowRun(NamedTuple):
    """What one flow brought in a stretch. ``tail``: its last pieces, which retransmissions are compared with."""

    key: bytes
    size: int
    ack: int | None
    tail: list[tuple[int, bytes, int | None]]
    tail_cost: int


def tail_of(data: bytes | memoryview, starts: list[int], sizes: list[int], times: list[int | None], limit: int) -> Any:
    """It gives the last pieces of a run that a history of ``limit`` bytes can hold, and what they cost."""
    cost, first = 0, len(starts)
    while first and cost <= limit:
        first -= 1
        cost += sizes[first] + OVERHEAD
    offset = sum(sizes[:first])
    pieces: list[tuple[int, bytes, int | None]] = []
    for start, size, time in zip(starts[first:], sizes[first:], times[first:], strict=True):
        pieces.append((offset, bytes(data[start : start + size]), time))
        offset += size
    return pieces, cost


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
        opaques, first, _ = distinct(opaque)
        if len(self.streams) + len(opaques) >= MAX_STREAMS:
            self._remember_each(opaque, word, seqno, has_seqno)
            return
        last = len(opaque) - 1 - distinct(opaque[::-1])[1]
        order = np.argsort(first)
        words = word[last]
        for number, vbucket in zip(opaques[order].tolist(), words[order].tolist(), strict=True):
            self.streams[number] = vbucket
        carriers = np.flatnonzero(has_seqno)[::-1]
        opaques, last, _ = distinct(opaque[carriers])
        for number, latest in zip(opaques.tolist(), seqno[carriers[last]].tolist(), strict=True):
            self._seqnos[number] = latest

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
