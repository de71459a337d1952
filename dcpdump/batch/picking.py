"""Picking: of frames that completed, those that have to be decoded, in order.

Of all others only is remembered what later frames are read in the light of, as ``Session.understand`` does: messages of
streams that need no answer, requests for streams and their answers, and messages that are no concern of DCP, unless
somebody wants them.
"""

from bisect import bisect_left
from typing import Final

from dcpdump.big_endian import be16, be32
from dcpdump.conversation import Conversation
from dcpdump.filter.header_clauses import Wanted
from dcpdump.spec import MESSAGES, UNKNOWN_NAME, find
from dcpdump.spec.header import HEADER_LENGTH, STREAM_ID_TAG
from dcpdump.spec.names import ACKNOWLEDGE
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER, DCP_STREAM_REQ
from dcpdump.wire.frame import RawFrame, Where, unpack_header
from dcpdump.wire.frames import Frames
from dcpdump.wire.outstanding import Asked
from dcpdump.wire.session import MAX_STREAMS, Session

#: What is done with a frame. That of one that nobody wants depends on its opcode and the length of its extras.
DECODED: Final = 0
DOCUMENT: Final = 1
MARKER: Final = 2
MARKER_2: Final = 3
NEIGHBOUR: Final = 4
REQUEST: Final = 5
RESPONSE: Final = 6
WANTED: Final = 7

_CLASSIC: Final = 0x80
_FLEXIBLE: Final = 0x08
_RESPONSE: Final = 0x81
_FLEXIBLE_RESPONSE: Final = 0x18
_STREAM_ID_LENGTH: Final = 3
_MOST_DATATYPE: Final = 7
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


class Picking:
    """The frames of ``frames``, of the conversations ``talkers``: ``count`` them, then go through them with ``next``.

    ``first`` is the number of the first of them in the output.
    """

    __slots__ = (
        "_data",
        "_first",
        "_frames",
        "_inferring",
        "_run",
        "_seqnos",
        "_session",
        "_streams",
        "_talkers",
        "_treatments",
        "_wanted",
        "dcp",
    )

    def __init__(self, frames: Frames, first: int, talkers: dict[int, Conversation], wanted: Wanted) -> None:
        self.dcp = 0  #: how many frames of DCP were passed by
        self._first = first
        self._frames = frames
        self._talkers = talkers
        self._wanted = wanted
        self._data = frames.pieces[0] if len(frames.pieces) == 1 else b"".join(frames.pieces)
        self._run = -1
        self._treatments: list[int] = []  # of each frame, once ``count`` has looked at them
        # Of the connection that the run is of, to be had without asking for it:
        self._session = Session()
        self._streams: dict[int, int] = {}
        self._seqnos: dict[int, int] = {}
        self._inferring = False  # whether keys have collections is not known yet

    def count(self, most: int) -> int:
        """Look at all headers, and return how many frames are wanted that columns would not decode.

        More than ``most`` are not counted: then nothing is to be picked.
        """
        found, treatments = 0, self._treatments
        for start in self._frames.starts:
            treatment = self._treatment(start)
            treatments.append(treatment)
            if treatment == WANTED:
                found += 1
                if found > most:
                    break
        return found

    def next(self, at: int) -> int:
        """Return the first frame from ``at`` on that has to be decoded, and note what those before it say."""
        frames = self._frames
        starts, firsts, odd, treatments = frames.starts, frames.firsts, frames.odd, self._treatments
        count, runs, run = len(starts), len(firsts), self._run
        if run >= 0:
            self._turn_to(run)
        while at < count:
            if run + 1 < runs and firsts[run + 1] <= at:
                run += 1
                self._run = run
                if frames.gaps[run]:
                    return at
                self._turn_to(run)
            if frames.weak[run] or at in odd:
                return at
            start = starts[at]
            treatment = treatments[at]
            if treatment in (DECODED, WANTED):
                return at
            if treatment == NEIGHBOUR:
                self._overhear(at)
            elif treatment in (REQUEST, RESPONSE):
                self._overhear(at)
                if treatment == REQUEST:
                    self._ask(start)
                self.dcp += 1
            else:
                if not self._note(start, treatment):
                    return at
                self.dcp += 1
            at += 1
        return at

    def _turn_to(self, run: int) -> None:
        """Have at hand what is asked for every frame of a run."""
        self._session = session = self._talkers[self._frames.places[run] >> 1].session
        self._streams, self._seqnos = session.streams, session.seqnos
        self._inferring = session.features is None and not session.certain

    def raw(self, at: int) -> RawFrame:
        """Return the frame that ``next`` gave."""
        frames, run = self._frames, self._run
        if at in frames.odd:
            return frames.odd[at]
        start, stop, first = frames.starts[at], self._stop(at), frames.firsts[run]
        return RawFrame(
            self._data[start:stop],
            unpack_header(self._data, start),
            frames.offsets[run] + start - frames.starts[first],
            self._where(stop),
            frames.gaps[run] if at == first else 0,
            (),
            "low" if frames.weak[run] else "",
        )

    def place(self) -> int:
        """Return the direction of the frame that ``next`` gave: twice its connection's number, plus 0 or 1."""
        return self._frames.places[self._run]

    def _stop(self, at: int) -> int:
        starts = self._frames.starts
        return starts[at + 1] if at + 1 < len(starts) else self._frames.size

    def _where(self, stop: int) -> Where:
        frames = self._frames
        by = bisect_left(frames.bounds, stop)
        return Where(frames.packets[by], frames.times[by], frames.files[by])

    def _treatment(self, start: int) -> int:
        """Return what is to be done with a whole frame, as far as its header says."""
        data, wanted = self._data, self._wanted
        magic, opcode = data[start], data[start + 1]
        treatment = _TREATMENTS[opcode << 8 | data[start + 4]]
        if treatment == DECODED:
            return DECODED
        if treatment == NEIGHBOUR:
            if magic not in (_CLASSIC, _RESPONSE, _FLEXIBLE_RESPONSE) or data[start + 5] > _MOST_DATATYPE:
                return DECODED
            if magic != _CLASSIC:
                return DECODED if wanted.opcodes[opcode] else NEIGHBOUR
        elif treatment == RESPONSE:
            return RESPONSE if magic == _RESPONSE and not wanted.opcodes[opcode] else DECODED
        elif magic == _FLEXIBLE:
            if data[start + 2] != _STREAM_ID_LENGTH or data[start + HEADER_LENGTH] != STREAM_ID_TAG:
                return DECODED
        elif magic != _CLASSIC:
            return DECODED
        if wanted.opcodes[opcode] and wanted.vbuckets[be16(data, start + 6)]:
            return WANTED if treatment in (DOCUMENT, MARKER, MARKER_2) else DECODED
        if treatment == REQUEST and (magic != _CLASSIC or data[start + 2] or data[start + 3]):
            return DECODED
        return treatment

    def _note(self, start: int, treatment: int) -> bool:
        """Have the session remember a message of a stream; return False where it has to be decoded for that."""
        data = self._data
        body = start + HEADER_LENGTH
        key_length = be16(data, start + 2)
        tagged = data[start] == _FLEXIBLE
        if tagged:
            body += _STREAM_ID_LENGTH
            key_length &= 0xFF
        extras = data[start + 4]
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
        if self._inferring:
            session = self._session
            if tagged:
                session.certain = True
            elif treatment == DOCUMENT and session.keys_fit:
                session.infer_from(data[body + extras : body + extras + key_length])
        opaque = be32(data, start + 12)
        vbucket = be16(data, start + 6)
        if len(self._streams) >= MAX_STREAMS:
            self._session.note(opaque, vbucket, None)
        else:
            self._streams[opaque] = vbucket
        if treatment == DOCUMENT:
            high = be32(data, body)
            low = be32(data, body + 4)
            self._seqnos[opaque] = high << 32 | low if high else low
        return True

    def _ask(self, start: int) -> None:
        """Have the session remember a request for a stream, as far as that is not done for every request."""
        data, session = self._data, self._session
        opaque = be32(data, start + 12)
        session.note(opaque, be16(data, start + 6), None)
        session.seqnos.pop(opaque, None)
        if session.features is None and data[start + 8 : start + 12] != _NO_VALUE:
            session.certain = True
            self._inferring = False

    def _overhear(self, at: int) -> None:
        data, start = self._data, self._frames.starts[at]
        opcode, word = data[start + 1], be16(data, start + 6)
        opaque = be32(data, start + 12)
        asked: Asked | None = None
        if data[start] == _CLASSIC:
            asked = Asked(self._first + at, self._where(self._stop(at)).ts_ns, word)
        self._session.overhear(self.place() & 1, opcode, opaque, asked)
