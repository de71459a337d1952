"""Go through completed frames in order, and update the session of each one's connection.

The session is updated from the bytes of frames with a plan, and from the headers of messages that are not DCP's. Any
other frame is decoded as a record.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dcpdump.batch.plans import PLANS, Plan, body_of, id_length, key_length, plan_of
from dcpdump.big_endian import be16, be32, be64
from dcpdump.conversation import Conversation
from dcpdump.filter.choices import Wanted
from dcpdump.record import Record
from dcpdump.spec import UNKNOWN_NAME, find
from dcpdump.spec.header import (
    ALT_CLIENT_REQUEST,
    ALT_CLIENT_RESPONSE,
    CLIENT_REQUEST,
    CLIENT_RESPONSE,
    HEADER_LENGTH,
)
from dcpdump.spec.names import MOST_DATATYPE
from dcpdump.spec.opcodes import DCP_STREAM_REQ
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import RawFrame, Where, unpack_header
from dcpdump.wire.frames import Frames
from dcpdump.wire.session import MAX_STREAMS, Session, SessionRequest
from dcpdump.wire.value import interpret

if TYPE_CHECKING:
    from mypy_extensions import i64


# -- frames that are decoded when their records are read: those that do not concern DCP, which are many


class DeferredRecord(NamedTuple):
    """A frame that is not decoded yet: the state that its record needs beside its bytes."""

    number: int
    vbucket: int | None
    request: SessionRequest | None
    connection: int
    direction: int
    src: str
    dst: str
    show_secrets: bool

    def record(self, raw: RawFrame) -> Record:
        """Decode the frame. Its key has no collection id on any connection."""
        frame = decode(raw, show_secrets=self.show_secrets)
        content = interpret(frame, collections=None)
        origin = self.connection, self.direction, self.src, self.dst
        return Record(self.number, frame, content, self.vbucket, self.request, *origin)


def renumbered(record: Record | DeferredRecord, **numbers: Any) -> Record | DeferredRecord:
    """Return a frame with another number, or with its connection's number changed."""
    return record._replace(**numbers) if isinstance(record, DeferredRecord) else replace(record, **numbers)


#: Decodes a frame, given its conversation, direction and number, and updates the session.
Recording = Callable[[Conversation, int, RawFrame, int], Record]

#: A row is one number. From its lowest bits on: the frame's offset; 1 more than its plan's number, 0 without one; four
#: bits: keys have a collection id, that is unknown, that is inferred, datatypes may describe values that were not sent;
#: the length of the collection id in its key, 0 without a valid one.
START_BITS: Final = 44
PLAN_BITS: Final = 8
SPLIT: Final = 1 << 52
UNKNOWN: Final = 1 << 53
INFERRED: Final = 1 << 54
UNDERLYING: Final = 1 << 55
ID_BITS: Final = 56
ID_MASK: Final = 7

#: Evidence on whether keys of a connection have a collection id: certain; a key has none; a key begins with no text.
_CERTAIN: Final = 1
_UNFIT: Final = 2
_TELLS: Final = 4
_FIRST_TEXT: Final = 0x20
_LAST_TEXT: Final = 0x7E
#: By opcode: messages known by name only, which change no session.
NEIGHBOURS: Final = bytes(
    [not (find(op).known or find(op).secret or find(op).name == UNKNOWN_NAME) for op in range(256)]
)


class Scan:
    """A pass over ``frames``, numbered from ``first`` on, of the conversations ``involved``."""

    def __init__(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> None:
        self.dcp = 0  #: how many frames of DCP were not decoded
        self._first = first
        self._frames = frames
        self._involved = involved
        self._run = -1
        self._data = b""  # of the run
        self._base = 0  # the run's offset in the bytes of all frames
        self._start: i64 = 0  # of the current frame, in the run
        self._stop: i64 = 0
        # Of the run's connection, kept here for speed:
        self._session = Session()
        self._inferring = False  # it is not certain whether keys have collection ids
        self._inferred: i64 = 0  # the evidence so far
        self._knows: i64 = 0  # the bits of rows for that
        # Messages of one stream often follow one another: the session is told their vbucket once, and the last seqno.
        self._opaque: i64 = -1  # of the latest message of a stream; -1: none in the session
        self._vbucket: i64 = -1
        self._body: i64 = -1  # offset of the latest document's seqno; -1: the session has it

    def rows(self, recording: Recording, *, show_secrets: bool) -> tuple[list[int], dict[int, Record | DeferredRecord]]:
        """Return the row of each frame; and, by row, the records of frames without a plan."""
        frames, rows, records = self._frames, list[int](), dict[int, Record | DeferredRecord]()
        at: i64 = 0
        count: i64 = len(frames)
        for run, data in enumerate(frames.pieces):
            turn: i64 = frames.firsts[run + 1] if run + 1 < len(frames.firsts) else count
            base: i64 = frames.begins[run]
            weak = frames.weak[run]
            damaged = turn == at + 1 and at in frames.odd
            self._turn_to(run)
            if frames.gaps[run]:
                self._session.lose()
            start: i64 = 0
            while at < turn:
                stop = start + HEADER_LENGTH + be32(data, start + 8)
                number: i64 = -1 if damaged else plan_of(data, start)
                if number >= 0:
                    plan = PLANS[number]
                    self._update(start, plan, weak)
                    row = base + start | number + 1 << START_BITS | self._knows
                    if plan.keyed and row & SPLIT:
                        key = body_of(data, start) + data[start + 4]
                        row |= id_length(data, key, key + key_length(data, start)) << ID_BITS
                    rows.append(row)
                else:
                    self._store_seqno()
                    self._start, self._stop = start, stop
                    rows.append(base + start | self._knows)
                    if not (damaged or weak) and is_neighbour(data, start):
                        records[at] = self._later(at, show_secrets=show_secrets)
                    else:
                        direction_id = frames.direction_ids[run]
                        conversation = self._involved[direction_id >> 1]
                        records[at] = recording(conversation, direction_id & 1, self.raw(at), self._first + at)
                        self._look()
                start = stop
                at += 1
        self._store_seqno()
        return rows, records

    def raw(self, at: int) -> RawFrame:
        """Return the current frame, which is frame ``at``."""
        frames, run = self._frames, self._run
        if at in frames.odd:
            return frames.odd[at]
        start: int = self._start
        data = self._data[start : self._stop]
        return RawFrame(
            data,
            unpack_header(data),
            frames.offsets[run] + start,
            self._where(self._stop),
            0 if start else frames.gaps[run],
            (),
            "low" if frames.weak[run] else "",
        )

    def direction_id(self) -> int:
        """Return the direction of the current frame: twice its connection's number, plus 0 or 1."""
        return self._frames.direction_ids[self._run]

    def _where(self, stop: int) -> Where:
        """Return the packet that brought the byte before ``stop`` of the run."""
        frames = self._frames
        by = bisect_left(frames.bounds, self._base + stop)
        return Where(frames.packets[by], frames.times[by], frames.files[by])

    def _turn_to(self, run: int) -> None:
        """Copy here what every frame of a run needs."""
        self._store_seqno()
        frames = self._frames
        self._run, self._data, self._base = run, frames.pieces[run], frames.begins[run]
        self._session = self._involved[frames.direction_ids[run] >> 1].session
        self._look()

    def _look(self) -> None:
        """Copy the session's state here, after it may have changed."""
        session = self._session
        knows: i64 = UNDERLYING if session.underlying_datatype else 0
        have = session.collections
        if have:
            knows |= SPLIT
        elif have is None:
            knows |= UNKNOWN
        self._inferring = session.features is None
        self._inferred = _CERTAIN * session.certain | _UNFIT * (not session.keys_fit) | _TELLS * session.keys_tell
        self._knows = knows | INFERRED if self._inferring else knows

    def _update(self, start: "i64", plan: Plan, weak: bool) -> None:
        """Update the session from a frame with a plan. Frames found on weak evidence are no evidence."""
        if plan.dcp:
            self.dcp += 1
        if self._inferring:
            self._infer(start, plan)
        if not plan.streamed or weak:
            return
        data = self._data
        opaque, vbucket = be32(data, start + 12), be16(data, start + 6)
        if opaque != self._opaque or vbucket != self._vbucket:
            self._store_seqno()
            self._opaque, self._vbucket = opaque, vbucket
            streams = self._session.streams
            if len(streams) >= MAX_STREAMS:
                self._session.note(opaque, vbucket, None)
            else:
                streams[opaque] = vbucket
        if plan.seqno_at >= 0:
            self._body = body_of(data, start) + plan.seqno_at

    def _infer(self, start: "i64", plan: Plan) -> None:
        """Infer from a frame whether keys have a collection id, as the session does from a decoded one."""
        data, session, before = self._data, self._session, self._inferred
        if plan.needs_collections or (data[start] == ALT_CLIENT_REQUEST and data[start + 2]):
            self._inferred |= _CERTAIN
        key = body_of(data, start) + data[start + 4]
        value = key + key_length(data, start)
        if plan.keyed and key < value:
            if not id_length(data, key, value):
                self._inferred |= _UNFIT
            elif not _FIRST_TEXT <= data[key] <= _LAST_TEXT:
                self._inferred |= _TELLS
        if self._inferred != before:
            session.certain, session.keys_fit = self._inferred & _CERTAIN > 0, not self._inferred & _UNFIT
            session.keys_tell = self._inferred & _TELLS > 0
            self._look()

    def _store_seqno(self) -> None:
        """Store the latest seqno of the current stream in the session, before another frame may change it."""
        if self._body >= 0:
            self._session.seqnos[self._opaque] = be64(self._data, self._body)
        self._opaque = self._body = -1

    def _later(self, at: int, *, show_secrets: bool) -> DeferredRecord:
        """Keep a message that is not DCP's for decoding on request."""
        start, direction_id, number = self._start, self.direction_id(), self._first + at
        vbucket: int | None = be16(self._data, start + 6)
        request = self._pair(number, start)
        if self._data[start] != CLIENT_REQUEST:
            vbucket = request.vbucket if request else None
        src, dst = self._involved[direction_id >> 1].ends[direction_id & 1]
        return DeferredRecord(number, vbucket, request, direction_id >> 1, direction_id & 1, src, dst, show_secrets)

    def _pair(self, number: int, start: "i64") -> SessionRequest | None:
        """Store a request in the session; of a response, return its request."""
        data = self._data
        opcode, word, opaque = data[start + 1], be16(data, start + 6), be32(data, start + 12)
        asked: SessionRequest | None = None
        if data[start] == CLIENT_REQUEST:
            asked = SessionRequest(number, self._where(start + HEADER_LENGTH + be32(data, start + 8)).ts_ns, word)
        return self._session.pair(self.direction_id() & 1, opcode, opaque, asked)


def is_damaged(data: bytes) -> bool:
    """Return whether a frame's sections are longer than its body."""
    sections: i64 = be16(data, 2) if data[0] in (CLIENT_REQUEST, CLIENT_RESPONSE) else data[2] + data[3]
    return data[4] + sections > be32(data, 8)


def is_neighbour(data: bytes, start: "i64") -> bool:
    """Return whether a frame is undamaged, and not one of DCP's messages."""
    if not NEIGHBOURS[data[start + 1]] or data[start + 5] > MOST_DATATYPE:
        return False
    if data[start] not in (CLIENT_REQUEST, CLIENT_RESPONSE, ALT_CLIENT_RESPONSE):
        return False
    return start > 0 or not is_damaged(data)


# -- picking: of frames that completed, those that have to be decoded, in order -----------------------
# Frames that the filter does not choose only update the session: messages with a plan, stream requests and their
# responses, and messages that are not DCP's.

#: The treatments of a frame. That of a frame that is not chosen depends on its opcode and the length of its extras.
DECODED: Final = 0
PLANNED: Final = 1
NEIGHBOUR: Final = 2
REQUEST: Final = 3
RESPONSE: Final = 4
WANTED: Final = 5  #: it is decoded, unless so many are that columns are faster

_ENTRY: Final = 16  #: bytes of an entry of a failover log
_LONGEST_LOG: Final = 256 * _ENTRY
_NO_VALUE: Final = bytes((0, 0, 0, 48))  #: the body length of a request without a body


def _treatments() -> bytes:
    table = bytearray(256 * 256)
    for opcode in range(256):
        if NEIGHBOURS[opcode]:
            table[opcode << 8 : (opcode + 1) << 8] = bytes([NEIGHBOUR]) * 256
    for plan in PLANS:
        table[plan.message.opcode << 8 | plan.layout.extras_length] = PLANNED
    table[DCP_STREAM_REQ << 8 | 48] = REQUEST
    table[DCP_STREAM_REQ << 8] = RESPONSE
    return bytes(table)


_TREATMENTS: Final = _treatments()


class FilteredScan(Scan):
    """A pass over frames, some of which a filter may choose: go through these with ``next``.

    ``strict``: stream requests and their responses are decoded too, unless they are numbers only and the connection's
    HELLO was captured.
    """

    def __init__(
        self, frames: Frames, first: int, involved: dict[int, Conversation], wanted: Wanted, *, strict: bool = False
    ) -> None:
        super().__init__(frames, first, involved)
        self._wanted = wanted
        self._strict = strict

    def count(self, most: int) -> int:
        """Return, from headers, how many frames have to be decoded that columns would decode at once.

        Counting stops above ``most``.
        """
        frames, found = self._frames, 0
        opcodes, vbuckets = self._wanted.opcodes, self._wanted.vbuckets
        at: i64 = 0
        count: i64 = len(frames)
        for run, data in enumerate(frames.pieces):
            turn: i64 = frames.firsts[run + 1] if run + 1 < len(frames.firsts) else count
            if turn == at + 1 and self._is_damaged(at, data):
                at = turn
            start: i64 = 0
            while at < turn:
                if _treatment(data, start, opcodes, vbuckets) == WANTED:
                    found += 1
                    if found > most:
                        return found
                start += HEADER_LENGTH + be32(data, start + 8)
                at += 1
        return found

    def _is_damaged(self, at: int, data: bytes) -> bool:
        """Return whether frame ``at``, the only one of its run, is incomplete, or its lengths contradict each other."""
        return at in self._frames.odd or is_damaged(data)

    def next(self, at: int) -> int:
        """Return the first frame from ``at`` on that has to be decoded, and update sessions from those before it."""
        if self._run >= 0:
            self._turn_to(self._run)
        found = self._pass(at)
        self._store_seqno()
        return found

    def _pass(self, at: "i64") -> "i64":
        frames, opcodes, vbuckets = self._frames, self._wanted.opcodes, self._wanted.vbuckets
        firsts, runs, run, data = frames.firsts, len(frames.firsts), self._run, self._data
        count: i64 = len(frames)
        turn: i64 = firsts[run + 1] if run + 1 < runs else count
        start = stop = self._stop
        weak = run >= 0 and frames.weak[run]
        while at < count:
            if damaged := at >= turn:
                run += 1
                self._turn_to(run)
                turn = firsts[run + 1] if run + 1 < runs else count
                start, data, weak = 0, self._data, frames.weak[run]
                damaged = frames.gaps[run] > 0 or (turn == at + 1 and self._is_damaged(at, data))
            stop = start + HEADER_LENGTH + be32(data, start + 8)
            if damaged or weak:
                break
            treatment = _treatment(data, start, opcodes, vbuckets)
            if treatment in (DECODED, WANTED):
                break
            if treatment == PLANNED:
                number = plan_of(data, start)
                if number < 0:
                    break
                self._update(start, PLANS[number], False)
            else:
                if treatment != NEIGHBOUR:
                    if self._strict and (self._session.features is None or not _numbers_only(data, start)):
                        break
                    self.dcp += 1
                self._pair(self._first + at, start)
                if treatment == REQUEST:
                    self._ask(start)
            at += 1
            start = stop
        self._start, self._stop = start, stop
        return at

    def _ask(self, start: "i64") -> None:
        """Store a stream request in the session."""
        self._store_seqno()
        data, session = self._data, self._session
        opaque: int = be32(data, start + 12)
        session.note(opaque, be16(data, start + 6), None)
        session.seqnos.pop(opaque, None)
        if session.features is None and data[start + 8 : start + 12] != _NO_VALUE:
            session.certain = True
            self._look()


def _numbers_only(data: bytes, start: "i64") -> bool:
    """Return whether a stream request has extras only, or its response is a grant with a short failover log."""
    body = be32(data, start + 8)
    if data[start] == CLIENT_REQUEST:
        extras: i64 = data[start + 4]
        return body == extras
    return not (be16(data, start + 2) or be16(data, start + 6)) and 0 < body <= _LONGEST_LOG and not body % _ENTRY


def _treatment(data: bytes, start: "i64", opcodes: bytes, vbuckets: bytes) -> "i64":
    """Return the treatment of a complete frame by its header. ``opcodes`` and ``vbuckets``: of the filter."""
    magic: i64 = data[start]
    opcode: i64 = data[start + 1]
    treatment: i64 = _TREATMENTS[opcode << 8 | data[start + 4]]
    if treatment == DECODED:
        return DECODED
    if treatment == NEIGHBOUR:
        if not is_neighbour(data, start):
            return DECODED
        if magic != CLIENT_REQUEST:
            return WANTED if opcodes[opcode] else NEIGHBOUR
    elif treatment == RESPONSE:
        return RESPONSE if magic == CLIENT_RESPONSE and not opcodes[opcode] else DECODED
    elif magic != CLIENT_REQUEST and magic != ALT_CLIENT_REQUEST:
        return DECODED
    if opcodes[opcode] and vbuckets[be16(data, start + 6)]:
        return DECODED if treatment == REQUEST else WANTED
    if treatment == REQUEST and (magic != CLIENT_REQUEST or data[start + 2] or data[start + 3]):
        return DECODED
    return treatment
