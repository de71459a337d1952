"""Carving: the packets that carry chosen frames, and those without which they could not be understood.

Those are the TCP handshake, all from the connection's beginning to where its set-up ends, the requests of the
frames' streams and of answers, and two frames behind each stretch, by which its first is recognised for certain.
Whether that is enough is tried: where the carved packets decode to other frames, more of the connection is taken.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dcpdump.capture import Capture, timeline
from dcpdump.dissect import Dissector
from dcpdump.net.anatomy import Anatomy, anatomy
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import ACK, SYN
from dcpdump.record import Record, as_json
from dcpdump.share.places import NOWHERE, Places
from dcpdump.share.spans import Spans
from dcpdump.spec.header import HEADER_LENGTH

_SET_UP = frozenset((0x1F, 0x20, 0x21, 0x22, 0x50, 0x5E, 0x89))  #: HELLO, SASL, OPEN, CONTROL, SELECT_BUCKET
_STREAM_REQUESTS = frozenset((0x51, 0x53))
#: Requests without an answer are forgotten, oldest first, beyond this many.
_OPEN_REQUESTS = 4096
_FLAGS = 13  #: where a TCP header has them
#: Of a row, what another file with fewer packets has to have otherwise.
_NUMBERS = ("frame", "packet", "file", "connection", "request_frame", "gap_before")

SPANS, PREFIX, WHOLE = 0, 1, 2  #: how much of a connection is taken


class Span(NamedTuple):
    """Bytes of one direction of a connection."""

    direction: int
    start: int
    end: int


@dataclass(slots=True)
class _Talk:
    """What a connection has said that may be wanted."""

    wanted: tuple[Spans, Spans] = field(default_factory=lambda: (Spans(), Spans()))
    rows: Counter[int] = field(default_factory=Counter)  #: of chosen frames
    set_up: list[int] = field(default_factory=lambda: [0, 0])  #: where it ends, by direction
    streaming: bool = False
    requests: dict[tuple[int, int, int], Span] = field(default_factory=dict)  #: by direction, opcode, opaque
    streams: dict[int, list[Span]] = field(default_factory=dict)  #: requests and their answers, by opaque
    opaques: set[int] = field(default_factory=set)  #: of streams that chosen frames belong to
    behind: list[int] = field(default_factory=lambda: [0, 0])  #: frames to come that are wanted too
    extent: int = SPANS


class Carving:
    """``survey``, then ``settle`` what to take, then ``packets``."""

    def __init__(
        self,
        captures: Sequence[Capture],
        accepts: Callable[[Record], bool],
        count: int | None,
        begin: Callable[[int | None], None],
        limits: Limits = DEFAULT,
    ) -> None:
        self.dissector = Dissector(limits)
        self.frames = 0  #: chosen
        self.incomplete = 0  #: connections whose chosen frames are not the same, whatever is taken
        self._captures = captures
        self._accepts = accepts
        self._count = count
        self._begin = begin
        self._limits = limits
        self._places = Places(self.dissector.connections, limits)
        self._talks: dict[int, _Talk] = {}

    def survey(self) -> None:
        """It reads everything, and notes what is wanted."""
        for packet in timeline(self._captures):
            self._begin(packet.ts_ns)
            records = self.dissector.feed(packet)
            self._places.note(packet, anatomy(packet, self._limits))
            for record in records:
                self._take(record)
        for record in self.dissector.drain():
            self._take(record)
        self._places.close()
        self._talks = {number: talk for number, talk in self._talks.items() if talk.rows}
        for talk in self._talks.values():
            _complete(talk)

    def settle(self) -> None:
        """It tries whether what is wanted decodes to the chosen frames, and takes more where it does not."""
        for extent in (PREFIX, WHOLE):
            wrong = self._wrong()
            if not wrong:
                return
            for number in wrong:
                self._talks[number].extent = extent
        self.incomplete = len(self._wrong())

    def choice(self) -> "Choice":
        """It gives what chooses packets, to be asked for each, in the order in which they came."""
        return Choice(self._talks, self._places, self._limits)

    # -- what is wanted -----------------------------------------------------------------------------------

    def _take(self, record: Record) -> None:
        talk = self._talks.setdefault(record.connection or 0, _Talk())
        raw, header = record.frame.raw, record.frame.header
        span = Span(record.direction, raw.offset, raw.offset + len(raw.data))
        _, start, end = span
        if talk.behind[record.direction]:
            talk.behind[record.direction] -= 1
            last = not talk.behind[record.direction]
            talk.wanted[record.direction].add(start, min(end, start + HEADER_LENGTH) if last else end)
        _note_set_up(talk, record, span)
        if self.frames == self._count or not self._accepts(record):
            return
        self.frames += 1
        talk.rows[_fingerprint(record)] += 1
        talk.wanted[record.direction].add(start, end)
        talk.behind[record.direction] = 2
        if record.frame.message.streamed:
            talk.opaques.add(header.opaque)
        asked = talk.requests.get((1 - record.direction, header.opcode, header.opaque))
        if record.frame.magic.response and asked is not None:
            talk.wanted[asked.direction].add(asked.start, asked.end)

    def _wrong(self) -> set[int]:
        """It gives the connections of which what would be taken decodes to other frames than were chosen."""
        dissector = Dissector(self._limits)
        origin: dict[int, int] = {}
        found: dict[int, Counter[int]] = {number: Counter() for number in self._talks}

        def judge(record: Record) -> None:
            number = origin.get(record.connection or 0)
            there = replace(record, connection=number)
            if number in found and self._accepts(there):
                found[number][_fingerprint(there)] += 1

        choice = self.choice()
        for packet in timeline(self._captures):
            chosen = choice.of(packet)
            if chosen is None:
                continue
            records = dissector.feed(packet)
            living = dissector.connections.find(chosen.key)
            if living is not None:
                origin[living[0].number] = chosen.connection
            for record in records:
                judge(record)
        for record in dissector.drain():
            judge(record)
        return {
            number
            for number, talk in self._talks.items()
            if talk.rows - found[number] or (self._count is None and found[number] - talk.rows)
        }


class Chosen(NamedTuple):
    """A packet that is taken: of which connection, and the key of its flow."""

    connection: int
    key: bytes


class Choice:
    """It chooses packets, one after the other."""

    def __init__(self, talks: dict[int, _Talk], places: Places, limits: Limits) -> None:
        self._talks = talks
        self._places = places
        self._limits = limits
        self._shaken: set[int] = set()  # connections whose handshake lacks nothing but its last packet

    def of(self, packet: Packet) -> Chosen | None:
        """It says what a packet is taken for; None leaves it."""
        body = anatomy(packet, self._limits)
        if body.fragment:
            return self._fragment(packet)
        stream, offset, _ = self._places.of(packet.file, packet.number)
        connection = stream // 2
        if body.segment is None or stream == NOWHERE or connection not in self._talks:
            return None
        start, payload, end = body.segment
        flags, size = packet.data[start + _FLAGS], end - payload + _missing(body)
        shakes = bool(flags & SYN)
        if flags & SYN and flags & ACK:
            self._shaken.add(connection)
        elif not size and connection in self._shaken:
            self._shaken.discard(connection)
            shakes = True
        if not shakes and not self._wants(stream, offset, size):
            return None
        return Chosen(connection, body.key + packet.data[start : start + 4])

    def _fragment(self, packet: Packet) -> Chosen | None:
        piece = self._places.pieces.get((packet.file, packet.number))
        if piece is None:
            return None
        split, _ = piece
        stream, offset, _ = split.carried
        if stream == NOWHERE or not self._wants(stream, offset, len(split.payload)):
            return None
        return Chosen(stream // 2, split.addresses + split.header[:4])

    def _wants(self, stream: int, offset: int, size: int) -> bool:
        talk = self._talks.get(stream // 2)
        if talk is None or talk.extent == WHOLE:
            return talk is not None
        spans = talk.wanted[stream % 2]
        if talk.extent == PREFIX:
            return size > 0 and offset < spans.end
        return spans.meets(offset, offset + size)


def _complete(talk: _Talk) -> None:
    """It adds to what is wanted of a connection what that needs to be understood."""
    for direction, spans in enumerate(talk.wanted):
        spans.add(0, max(1, talk.set_up[direction]))
    for opaque in talk.opaques:
        for direction, start, end in talk.streams.get(opaque, ()):
            talk.wanted[direction].add(start, end)


def _note_set_up(talk: _Talk, record: Record, span: Span) -> None:
    """It remembers where a connection's set-up ends, and requests that frames to come may need."""
    header, message = record.frame.header, record.frame.message
    if header.opcode in _STREAM_REQUESTS:
        talk.streaming = True
        opaque = record.frame.get("stream_opaque") or header.opaque
        talk.streams.setdefault(opaque, []).append(span)
    talk.streaming = talk.streaming or message.streamed
    if not talk.streaming and header.opcode in _SET_UP:
        talk.set_up[span.direction] = span.end
    elif header.opcode in _SET_UP:  # later controls: of any stream
        talk.wanted[span.direction].add(span.start, span.end)
    if not record.frame.magic.response and message.replies:
        if len(talk.requests) >= _OPEN_REQUESTS:
            del talk.requests[next(iter(talk.requests))]
        talk.requests[span.direction, header.opcode, header.opaque] = span


def _missing(body: Anatomy) -> int:
    """It gives the bytes of a segment that the snap length cut off: they tell that something was there."""
    return body.layers[-1].datagram.missing


def _fingerprint(record: Record) -> int:
    row = as_json(record, value_bytes=None)
    for name in _NUMBERS:
        row.pop(name, None)
    return hash(repr(row))
