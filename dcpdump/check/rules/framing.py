"""DCP1xx, first half: frames as such, requests and their answers, and which stream a message belongs to."""

from dcpdump.check.course import Course
from dcpdump.check.dialogue import (
    CONTROL,
    DUPLEX,
    HELLO,
    NOOP,
    OPEN,
    SECOND,
    STREAM_REQ,
    Dialogue,
)
from dcpdump.check.rule import (
    DECODED,
    INFO,
    PUSH,
    SKIPPED,
    STRAY,
    SUSPICIOUS,
    TICK,
    VIOLATION,
    Remark,
    Scope,
    rule,
)
from dcpdump.spec import find
from dcpdump.streams.sight import Sight
from dcpdump.wire.frame import Fault

_GRACE = 64  #: frames of a connection in which the two directions may be captured out of order
_SLOW = 30 * SECOND
_SOON = SECOND


def name(opcode: int) -> str:
    """It gives a message's name."""
    return find(opcode).name.removeprefix("DCP_")


@rule(
    "DCP101",
    "F1",
    "Magic that is none, or that this side may not use",
    severity=VIOLATION,
    source="include/mcbp/protocol/magic.h",
    off="g",
    on=(PUSH, DECODED, SKIPPED),
    scope=Scope.CONNECTION,
)
def magic(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees first bytes that are no magic, and messages of magic 0x82 or 0x83 from the wrong side, or on a
    connection on which HELLO did not grant Duplex.

    A reader that meets an unknown magic has lost its place in the stream, and closes the connection.

    Usual causes: a frame written with a wrong length before this one; a proxy that mixes two connections.
    """
    if sight.skipped:
        return f"{sight.gap_before:,} bytes before this frame begin with no magic of the protocol"
    if not sight.server:
        if sight.magic in (0x80, 0x81, 0x08, 0x18):
            return None
        return f"0x{sight.magic:02x} is no magic of the protocol"
    if dialogue.features is not None and DUPLEX not in dialogue.features:
        return f"magic 0x{sight.magic:02x}, but HELLO did not grant Duplex"
    if dialogue.opened is not None and (sight.direction == dialogue.opened.direction) is not sight.response:
        side = "client" if sight.direction == dialogue.opened.direction else "server"
        return f"magic 0x{sight.magic:02x} from the {side}"
    return None


@rule(
    "DCP102",
    "F2",
    "Lengths that contradict each other",
    severity=VIOLATION,
    source="mcbp/protocol/header.h, daemon/connection.cc",
    on=(DECODED,),
    status="Einval",
)
def lengths(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees headers whose framing extras, extras and key are longer than the body, and frames beyond 30 MiB.

    The receiver cannot tell where the next frame begins; a server closes the connection.

    Usual causes: a hand-made encoder that forgot to fill in total body, or counts characters and not bytes.
    """
    if sight.record is None:
        return None
    for problem in sight.record.frame.problems:
        if problem.code in (Fault.LENGTHS_CONTRADICT, Fault.TOO_LARGE):
            return problem.text
    return None


@rule(
    "DCP106",
    "F6",
    "Response that nobody asked for",
    severity=SUSPICIOUS,
    source="daemon/connection.cc",
    off="mg",
    on=(TICK,),
    scope=Scope.CONNECTION,
)
def unasked(sight: Sight, dialogue: Dialogue, course: Course) -> list[Remark]:
    """It sees responses without a request of the same opcode and opaque from the other side.

    An opaque is bytes: it comes back as it was sent. A client that looks its request up by opaque will not
    find it, and waits for ever.

    Usual causes: an opaque that was byte-swapped on the way back; a request answered twice.
    """
    spoken = sum(dialogue.spoken)
    found: list[Remark] = []
    for place, (answer, at) in list(dialogue.unasked.items()):
        if dialogue.ended or spoken - at >= _GRACE:  # the request may be captured a little later
            del dialogue.unasked[place]
            text = f"{name(answer.opcode)} response with opaque 0x{answer.opaque:08x} answers no request"
            found.append(Remark(text, sight=answer))
    return found


@rule(
    "DCP107",
    "F7",
    "Request without an answer",
    severity=SUSPICIOUS,
    source="daemon/protocol/mcbp",
    off="g",
    on=(TICK,),
    scope=Scope.CONNECTION,
)
def unanswered(sight: Sight, dialogue: Dialogue, course: Course) -> list[Remark] | None:
    """It sees requests that are always answered and were not: a later one of the same kind was answered, or half
    a minute passed. Where the capture or the connection ended sooner than that, it says so as information. An answer
    that comes even later is one all the same.

    Usual causes: a server that is stuck or overloaded; a client that stopped reading.
    """
    if not dialogue.waiting or dialogue.ts_ns is None:
        return None
    found: list[Remark] = []
    for place, asked in dialogue.waiting.items():
        if place in dialogue.overdue:
            continue
        waited = dialogue.ts_ns - (asked.ts_ns or dialogue.ts_ns)
        later = dialogue.answered_after.get((asked.direction, asked.opcode), 0) > asked.number
        text = f"{name(asked.opcode)} was not answered in {waited / SECOND:,.1f} s"
        if waited >= _SLOW or (later and waited >= _SOON and asked.opcode in _SAME_ORDER):
            found.append(Remark(text, sight=asked))
        elif dialogue.ended and waited >= _SOON:
            what = "connection" if dialogue.gone else "capture"
            found.append(Remark(f"{text}; then the {what} ends", INFO, sight=asked))
        else:
            continue
        dialogue.overdue.add(place)
    return found


_SAME_ORDER = frozenset({STREAM_REQ, CONTROL, NOOP, OPEN, HELLO})


@rule(
    "DCP108",
    "F8",
    "Stream id is not that of the stream",
    severity=VIOLATION,
    source="dcp/producer.cc, daemon/connection.cc",
    off="m",
    on=(STRAY,),
)
def stream_id(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees messages whose stream id is missing, is another than the stream request's, or is there though the
    request had none. (Deletions whose header counts no framing extras, a bug of servers, are read as meant.)

    With stream ids several streams of one vbucket share a connection: a message without its id reaches the
    wrong one, or none.

    Usual causes: a producer that forgets the frame on one kind of message.
    """
    if course.vbucket < 0 or course.vbucket != sight.word or course.sid < 0 or course.sid == sight.stream_id:
        return None
    has = f"stream id {sight.stream_id}" if sight.stream_id else "no stream id"
    wants = f"stream id {course.sid}" if course.sid else "none"
    return f"{name(sight.opcode)} has {has}, the stream request had {wants}"


@rule(
    "DCP111",
    "F11",
    "Vbucket is not that of the stream",
    severity=VIOLATION,
    source="dcp/active_stream.cc",
    off="m",
    on=(STRAY,),
    status="KeyEnoent",
)
def vbucket(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees messages whose opaque belongs to the stream of another vbucket.

    The consumer files the document under the wrong vbucket, or refuses it.

    Usual causes: an opaque used for two streams; a vbucket taken from the wrong place by a proxy.
    """
    if course.vbucket < 0 or course.vbucket == sight.word:
        return None
    return f"{name(sight.opcode)} of vbucket {sight.word} has the opaque of the stream of vbucket {course.vbucket}"


RULES = (magic, lengths, unasked, unanswered, stream_id, vbucket)
