"""Picking: of frames that completed, those that have to be decoded, in order.

Of all others only is remembered what later frames are read in the light of: messages that a plan takes, requests for
streams and their answers, and messages that are no concern of DCP, unless somebody wants them.
"""

from typing import TYPE_CHECKING, Final

from dcpdump.batch.learning import NEIGHBOURS, Learning, is_damaged, is_neighbour
from dcpdump.batch.plain_documents import is_bare
from dcpdump.batch.plans import PLANS, plan_of
from dcpdump.big_endian import be16, be32
from dcpdump.conversation import Conversation
from dcpdump.filter.header_clauses import Wanted
from dcpdump.spec.header import ALT_CLIENT_REQUEST, CLIENT_REQUEST, CLIENT_RESPONSE, HEADER_LENGTH
from dcpdump.spec.opcodes import DCP_STREAM_REQ
from dcpdump.wire.frames import Frames

if TYPE_CHECKING:
    from mypy_extensions import i64

#: What is done with a frame. That of one that nobody wants depends on its opcode and the length of its extras.
DECODED: Final = 0
PLANNED: Final = 1
NEIGHBOUR: Final = 2
REQUEST: Final = 3
RESPONSE: Final = 4
WANTED: Final = 5  #: it is decoded, unless that are so many that columns take all at once

_NO_VALUE: Final = bytes((0, 0, 0, 48))  #: the length of a request's body that has none


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


class Picking(Learning):
    """Frames, of which some are wanted: go through them with ``next``.

    ``strict``: requests for streams and their answers have to be decoded too unless they are bare, and the connection's
    HELLO was captured.
    """

    def __init__(
        self, frames: Frames, first: int, involved: dict[int, Conversation], wanted: Wanted, *, strict: bool = False
    ) -> None:
        super().__init__(frames, first, involved)
        self._wanted = wanted
        self._strict = strict

    def count(self, most: int) -> int:
        """Read headers, and return how many frames have to be decoded that columns would not decode one by one.

        More than ``most`` are not counted.
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
        """Return whether frame ``at``, which is a run by itself, is not whole, or its lengths contradict each other."""
        return at in self._frames.odd or is_damaged(data)

    def next(self, at: int) -> int:
        """Return the first frame from ``at`` on that has to be decoded, and learn of those before it."""
        if self._run >= 0:
            self._turn_to(self._run)
        found = self._pass(at)
        self._settle()
        return found

    def _pass(self, at: "i64") -> "i64":
        frames, opcodes, vbuckets = self._frames, self._wanted.opcodes, self._wanted.vbuckets
        firsts, runs, run, data = frames.firsts, len(frames.firsts), self._run, self._data
        count: i64 = len(frames)
        turn: i64 = firsts[run + 1] if run + 1 < runs else count
        start = stop = self._stop
        weak = run >= 0 and frames.weak[run]
        while at < count:
            if torn := at >= turn:
                run += 1
                self._turn_to(run)
                turn = firsts[run + 1] if run + 1 < runs else count
                start, data, weak = 0, self._data, frames.weak[run]
                torn = frames.gaps[run] > 0 or (turn == at + 1 and self._is_damaged(at, data))
            stop = start + HEADER_LENGTH + be32(data, start + 8)
            if torn or weak:
                break
            treatment = _treatment(data, start, opcodes, vbuckets)
            if treatment in (DECODED, WANTED):
                break
            if treatment == PLANNED:
                number = plan_of(data, start)
                if number < 0:
                    break
                self._learn(start, PLANS[number], False)
            else:
                if treatment != NEIGHBOUR:
                    if self._strict and (self._session.features is None or not is_bare(data, start)):
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
        """Have the session remember a request for a stream, as far as that is not done for every request."""
        self._settle()
        data, session = self._data, self._session
        opaque: int = be32(data, start + 12)
        session.note(opaque, be16(data, start + 6), None)
        session.seqnos.pop(opaque, None)
        if session.features is None and data[start + 8 : start + 12] != _NO_VALUE:
            session.certain = True
            self._look()


def _treatment(data: bytes, start: "i64", opcodes: bytes, vbuckets: bytes) -> "i64":
    """Return what is to be done with a whole frame, as far as its header says; the others say what is wanted."""
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
