"""Picking: of frames that completed, those that have to be decoded, in order.

Of all others only is remembered what later frames are read in the light of, as ``Session.understand`` does: messages of
streams that need no answer, requests for streams and their answers, and messages that are no concern of DCP, unless
somebody wants them.
"""

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from dcpdump.batch.plain_documents import is_bare, is_regular
from dcpdump.big_endian import be16, be32, be64
from dcpdump.conversation import Conversation
from dcpdump.filter.header_clauses import Wanted
from dcpdump.spec import MESSAGES, UNKNOWN_NAME, find
from dcpdump.spec.header import (
    ALT_CLIENT_REQUEST,
    ALT_CLIENT_RESPONSE,
    CLIENT_REQUEST,
    CLIENT_RESPONSE,
    HEADER_LENGTH,
    STREAM_ID_LENGTH,
    STREAM_ID_TAG,
)
from dcpdump.spec.names import ACKNOWLEDGE, MOST_DATATYPE
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER, DCP_STREAM_REQ
from dcpdump.wire.frame import RawFrame, Where, unpack_header
from dcpdump.wire.frames import Frames
from dcpdump.wire.outstanding import Asked
from dcpdump.wire.session import MAX_STREAMS, Session

if TYPE_CHECKING:
    from mypy_extensions import i64

#: What is done with a frame. That of one that nobody wants depends on its opcode and the length of its extras.
DECODED: Final = 0
DOCUMENT: Final = 1
MARKER: Final = 2
MARKER_2: Final = 3
NEIGHBOUR: Final = 4
REQUEST: Final = 5
RESPONSE: Final = 6
WANTED: Final = 7

_NO_VALUE: Final = bytes((0, 0, 0, 48))  #: the length of a request's body that has none


def _treatments() -> bytes:
    table = bytearray(256 * 256)
    for opcode in range(256):
        message = find(opcode)
        if not (message.known or message.secret or message.name == UNKNOWN_NAME):
            table[opcode << 8 : (opcode + 1) << 8] = bytes([NEIGHBOUR]) * 256
    for message in MESSAGES.values():
        if not (message.streamed and message.document) or message.replies:
            continue
        for layout in message.request:
            first = layout.extras[0] if layout.extras else None
            if first is not None and first.name == "by_seqno" and first.width == 8:
                table[message.opcode << 8 | layout.extras_length] = DOCUMENT
        for layout in message.request:
            if "clen" in layout.version or layout.old:
                table[message.opcode << 8 | layout.extras_length] = DECODED
    table[DCP_STREAM_REQ << 8 | 48] = REQUEST
    table[DCP_STREAM_REQ << 8] = RESPONSE
    table[DCP_SNAPSHOT_MARKER << 8 | 20] = MARKER
    table[DCP_SNAPSHOT_MARKER << 8 | 1] = MARKER_2
    return bytes(table)


_TREATMENTS: Final = _treatments()


def _columns() -> bytes:
    """Return by opcode 1 where columns spare decoding its requests one by one: they have plans, or can wait."""
    table = bytearray(256)
    for opcode in range(256):
        message = find(opcode)
        planned = message.known and not (message.replies or message.json or message.secret)
        table[opcode] = planned or _TREATMENTS[opcode << 8] == NEIGHBOUR
    return bytes(table)


_COLUMNS: Final = _columns()


class Picking:
    """The frames of ``frames``, of the conversations ``involved``: ``count`` them, then go through them with ``next``.

    ``first`` is the number of the first of them in the output. ``strict``: documents and markers have to be decoded too
    where columns would not take them, and requests for streams and their answers unless they are bare, and the
    connection's HELLO was captured.
    """

    __slots__ = (
        "_base",
        "_body",
        "_data",
        "_first",
        "_frames",
        "_inferring",
        "_involved",
        "_opaque",
        "_run",
        "_session",
        "_start",
        "_stop",
        "_strict",
        "_treatments",
        "_vbucket",
        "_wanted",
        "dcp",
    )

    def __init__(
        self, frames: Frames, first: int, involved: dict[int, Conversation], wanted: Wanted, *, strict: bool = False
    ) -> None:
        self.dcp = 0  #: how many frames of DCP were passed by
        self._first = first
        self._frames = frames
        self._involved = involved
        self._wanted = wanted
        self._strict = strict
        self._run = -1
        self._data = b""  # of the run
        self._base = 0  # where that begins in the bytes of all frames
        self._start: i64 = 0  # of the frame that ``next`` gave, in the run
        self._stop: i64 = 0
        self._treatments: list[int] = []  # of each frame, once ``count`` has looked at them
        # Of the connection that the run is of, to be had without asking for it:
        self._session = Session()
        self._inferring = False  # whether keys have collections is not known yet
        # Many messages of one stream come together: the session has to know its vbucket once, and the last seqno.
        self._opaque: i64 = -1  # of the last message of a stream; -1: none that the session knows
        self._vbucket: i64 = -1
        self._body: i64 = -1  # where the last document has its seqno; -1: the session knows it

    def count(self, most: int) -> int:
        """Read all headers, and return how many frames have to be decoded that columns would not decode one by one.

        More than ``most`` are not counted: then nothing is to be picked.
        """
        frames, found, treatments = self._frames, 0, self._treatments
        opcodes, vbuckets = self._wanted.opcodes, self._wanted.vbuckets
        at: i64 = 0
        count: i64 = len(frames)
        for run, data in enumerate(frames.pieces):
            turn: i64 = frames.firsts[run + 1] if run + 1 < len(frames.firsts) else count
            start: i64 = 0
            if turn == at + 1 and (at in frames.odd or _is_damaged(data)):
                treatments.append(DECODED)
                at = turn
            while at < turn:
                treatment = _treatment(data, start, opcodes, vbuckets)
                treatments.append(treatment)
                if treatment == WANTED or (treatment == DECODED and _in_columns(data, start)):
                    found += 1
                    if found > most:
                        return found
                start += HEADER_LENGTH + be32(data, start + 8)
                at += 1
        return found

    def next(self, at: int) -> int:
        """Return the first frame from ``at`` on that has to be decoded, and note what those before it say."""
        if self._run >= 0:
            self._turn_to(self._run)
        found = self._pass(at)
        self._settle()
        return found

    def _pass(self, at: "i64") -> "i64":
        frames, treatments = self._frames, self._treatments
        firsts, runs, run, data = frames.firsts, len(frames.firsts), self._run, self._data
        count: i64 = len(frames)
        turn: i64 = firsts[run + 1] if run + 1 < runs else count
        start = stop = self._stop
        weak = run >= 0 and frames.weak[run]
        while at < count:
            if torn := at >= turn:
                run += 1
                self._run = run
                self._turn_to(run)
                turn = firsts[run + 1] if run + 1 < runs else count
                start, data, weak, torn = 0, self._data, frames.weak[run], frames.gaps[run] > 0
            stop = start + HEADER_LENGTH + be32(data, start + 8)
            treatment: i64 = treatments[at]
            if torn or weak or treatment in (DECODED, WANTED):
                break
            if treatment in (NEIGHBOUR, REQUEST, RESPONSE):
                if self._strict and (self._session.features is None or not is_bare(data, start)):
                    break
                self._pair_again(at, start, stop)
                if treatment == REQUEST:
                    self._ask(start)
            elif not self._note(start, treatment):
                break
            if treatment != NEIGHBOUR:
                self.dcp += 1
            at += 1
            start = stop
        self._start, self._stop = start, stop
        return at

    def _turn_to(self, run: int) -> None:
        """Have at hand what is asked for every frame of a run."""
        self._settle()
        frames = self._frames
        self._data, self._base = frames.pieces[run], frames.begins[run]
        self._session = session = self._involved[frames.places[run] >> 1].session
        self._inferring = session.features is None and not session.certain

    def raw(self, at: int) -> RawFrame:
        """Return the frame that ``next`` gave."""
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

    def place(self) -> int:
        """Return the direction of the frame that ``next`` gave: twice its connection's number, plus 0 or 1."""
        return self._frames.places[self._run]

    def _where(self, stop: int) -> Where:
        """Return the packet that brought the byte before ``stop`` of the run."""
        frames = self._frames
        by = bisect_left(frames.bounds, self._base + stop)
        return Where(frames.packets[by], frames.times[by], frames.files[by])

    def _note(self, start: "i64", treatment: "i64") -> bool:
        """Have the session remember a message of a stream; return False where it has to be decoded for that."""
        data = self._data
        body = start + HEADER_LENGTH
        key_length = be16(data, start + 2)
        tagged = data[start] == ALT_CLIENT_REQUEST
        if tagged:
            body += STREAM_ID_LENGTH
            key_length &= 0xFF
        if (treatment == DOCUMENT) != (key_length > 0):
            return False
        if treatment == MARKER_2:
            if self._inferring and data[body]:
                return False  # the version may tell whether keys have collections
            length = be32(data, start + 8)
            if length < 1 + 20 or data[body + 1 + 19] & ACKNOWLEDGE:
                return False
        elif treatment == MARKER and data[body + 19] & ACKNOWLEDGE:
            return False
        if self._strict and not is_regular(data, start, treatment == DOCUMENT):
            return False
        if self._inferring:
            session = self._session
            if tagged:
                session.certain = True
            elif treatment == DOCUMENT and session.keys_fit:
                key = body + data[start + 4]
                session.infer_from(data[key : key + key_length])
        opaque, vbucket = be32(data, start + 12), be16(data, start + 6)
        if opaque != self._opaque or vbucket != self._vbucket:
            self._settle()
            self._opaque, self._vbucket = opaque, vbucket
            streams = self._session.streams
            if len(streams) >= MAX_STREAMS:
                self._session.note(opaque, vbucket, None)
            else:
                streams[opaque] = vbucket
        if treatment == DOCUMENT:
            self._body = body
        return True

    def _settle(self) -> None:
        """Have the session know the last seqno of the stream at hand, before anything else may change that."""
        if self._body >= 0:
            self._session.seqnos[self._opaque] = be64(self._data, self._body)
        self._opaque = self._body = -1

    def _ask(self, start: "i64") -> None:
        """Have the session remember a request for a stream, as far as that is not done for every request."""
        self._settle()
        data, session = self._data, self._session
        opaque: int = be32(data, start + 12)
        session.note(opaque, be16(data, start + 6), None)
        session.seqnos.pop(opaque, None)
        if session.features is None and data[start + 8 : start + 12] != _NO_VALUE:
            session.certain = True
            self._inferring = False

    def _pair_again(self, at: int, start: "i64", stop: int) -> None:
        data = self._data
        opcode, word, opaque = data[start + 1], be16(data, start + 6), be32(data, start + 12)
        asked: Asked | None = None
        if data[start] == CLIENT_REQUEST:
            asked = Asked(self._first + at, self._where(stop).ts_ns, word)
        self._session.pair(self.place() & 1, opcode, opaque, asked)


def _is_damaged(data: bytes) -> bool:
    """Return whether the sections of the one frame that stands there are longer than its body."""
    key_length: i64 = be16(data, 2) if data[0] in (CLIENT_REQUEST, CLIENT_RESPONSE) else data[2] + data[3]
    return data[4] + key_length > be32(data, 8)


def _in_columns(data: bytes, start: "i64") -> bool:
    """Return whether columns spare decoding a frame by itself."""
    return _COLUMNS[data[start + 1]] > 0 and data[start] in (CLIENT_REQUEST, ALT_CLIENT_REQUEST)


def _treatment(data: bytes, start: "i64", opcodes: bytes, vbuckets: bytes) -> "i64":
    """Return what is to be done with a whole frame, as far as its header says; the others say what is wanted."""
    magic: i64 = data[start]
    opcode: i64 = data[start + 1]
    treatment: i64 = _TREATMENTS[opcode << 8 | data[start + 4]]
    if treatment == DECODED:
        return DECODED
    if treatment == NEIGHBOUR:
        if magic not in (CLIENT_REQUEST, CLIENT_RESPONSE, ALT_CLIENT_RESPONSE) or data[start + 5] > MOST_DATATYPE:
            return DECODED
        if magic != CLIENT_REQUEST:
            return DECODED if opcodes[opcode] else NEIGHBOUR
    elif treatment == RESPONSE:
        return RESPONSE if magic == CLIENT_RESPONSE and not opcodes[opcode] else DECODED
    elif magic == ALT_CLIENT_REQUEST:
        if data[start + 2] != STREAM_ID_LENGTH or data[start + HEADER_LENGTH] != STREAM_ID_TAG:
            return DECODED
    elif magic != CLIENT_REQUEST:
        return DECODED
    if opcodes[opcode] and vbuckets[be16(data, start + 6)]:
        return WANTED if treatment in (DOCUMENT, MARKER, MARKER_2) else DECODED
    if treatment == REQUEST and (magic != CLIENT_REQUEST or data[start + 2] or data[start + 3]):
        return DECODED
    return treatment
