"""DCP1xx: frames as such: requests and their answers, frame infos, and which stream a message belongs to."""

from collections.abc import Iterator

from dcpdump.check.finding import repeated
from dcpdump.check.rule import INFO, RESPONSE, SUSPICIOUS, VIOLATION, Delayed, Event, Remark, Scope, rule, skipping
from dcpdump.redact import ANY_NUMBER, is_stray
from dcpdump.spec import MESSAGES, find
from dcpdump.spec.field import Message
from dcpdump.spec.header import MAGICS, REQUEST_INFOS, STREAM_ID_INFO, STREAM_ID_LENGTH
from dcpdump.spec.statuses import KEY_EEXISTS, KEY_ENOENT, STATUS
from dcpdump.streams import opcode_kinds as kinds
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.request import Request
from dcpdump.streams.state import SECOND, ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import GONE
from dcpdump.streams.wording import status
from dcpdump.wire.decode import bare_infos
from dcpdump.wire.frame import Fault
from dcpdump.wire.session import ALONE

_DUPLEX = 0x0C
_SILENT = [opcode for opcode in sorted(kinds.STREAMED - {kinds.MARKER}) if not MESSAGES[opcode].replies]


def name(opcode: int) -> str:
    """Return a message's name."""
    return find(opcode).name.removeprefix("DCP_")


def awaited(frame: FrameEvent, connection: ConnectionState) -> Request | None:
    """Return the stream request that an answer is for; None where it is not certain, or was not captured."""
    waiting = connection.exchanges.asked(frame)
    return None if waiting is None or waiting.doubtful else waiting.request


def without_stream(connection: ConnectionState) -> str:
    """Return what a server's consumer answers to messages of a vbucket of which it has no stream."""
    return "DcpStreamNotFound" if connection.setup.on("v7_dcp_status_codes") else "KeyEnoent"


def unmatched(frame: FrameEvent, connection: ConnectionState) -> str:
    """Return what a server's consumer answers to messages whose opaque is not that of the vbucket's stream."""
    if frame.opcode == kinds.STREAM_END:
        return ""  # that is ignored
    return "OpaqueNoMatch" if connection.setup.on("v7_dcp_status_codes") else "KeyEexists"


@rule("DCP101", "F1", VIOLATION, Event.DECODED, Event.SKIPPED, scope=Scope.CONNECTION)
def magic(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Invalid magic byte, or one that this side may not use.

    Reported when a frame begins with a byte that is not a magic, and when a message of magic 0x82 or 0x83 comes
    from the wrong side, or on a connection on which HELLO did not grant Duplex.

    A reader that meets an unknown magic has lost its place in the stream, and closes the connection.

    Usual causes: a frame written with a wrong length before this one; a proxy that mixes two connections.
    Source: include/mcbp/protocol/magic.h
    """
    if frame.before is not None:
        return f"{frame.before.length:,} bytes before this frame begin with no magic of the protocol"
    if not frame.server:
        return None if frame.magic in MAGICS else f"0x{frame.magic:02x} is not a magic of the protocol"
    if connection.setup.features is not None and _DUPLEX not in connection.setup.features:
        return f"magic 0x{frame.magic:02x}, but HELLO did not grant Duplex"
    if connection.setup.opened_by is None:
        return None
    by_client = frame.direction == connection.setup.opened_by.direction
    if by_client is frame.response:
        return None
    return f"magic 0x{frame.magic:02x} from the {'client' if by_client else 'server'}"


@rule("DCP102", "F2", VIOLATION, Event.DECODED, status="Einval")
def lengths(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Lengths that contradict each other.

    Reported when the framing extras, extras and key of a header are longer than the body, and when a frame is
    larger than 30 MiB.

    The receiver does not know where the next frame begins; a server closes the connection.

    Usual causes: a hand-made encoder that forgot to fill in total body, or counts characters and not bytes.
    Source: mcbp/protocol/header.h, daemon/connection.cc
    """
    if frame.record is None:
        return None
    understood = frame.record.frame
    for problem in understood.problems:
        if problem.code in (Fault.LENGTHS_CONTRADICT, Fault.TOO_LARGE):
            return repeated(problem.text, ANY_NUMBER) if is_stray(understood) else problem.text
    return None


@rule("DCP106", "F6", SUSPICIOUS, Event.UNREQUESTED, scope=Scope.CONNECTION)
def unasked(delayed: Delayed, connection: ConnectionState, stream: Stream) -> Remark:
    """Response without a request.

    Reported when a response comes without a request of the same opcode and opaque from the other side.

    An opaque is bytes: it comes back as it was sent. A client that looks its request up by opaque will not
    find it, and waits for ever. Where a request of another opcode waits with that opaque, it is named. Unknown where
    packets acknowledge bytes that are captured later: the request may be captured late.

    Usual causes: an opaque that was byte-swapped on the way back; a request answered twice, or with the opcode of
    another.
    Source: daemon/connection.cc
    """
    answer = delayed.frame
    text = f"{name(answer.opcode)} response with opaque 0x{answer.opaque:08x}"
    waiting = connection.exchanges.waiting_with(answer)
    if waiting is None or waiting.frame.number > answer.number:
        return Remark(f"{text} answers no request", ordered=True)
    asked = waiting.frame
    text = f"{text} has the opaque of {name(asked.opcode)} of frame {asked.number}, which waits for its answer"
    return Remark(text, ordered=True)


@rule("DCP107", "F7", SUSPICIOUS, Event.OVERDUE, scope=Scope.CONNECTION)
def unanswered(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Request without an answer.

    Reported when a request that is always answered was not: a later one of the same kind was answered, or half
    a minute passed in which the client could be answered: its TCP receive window was not zero. Where the capture or the
    connection ended sooner than that, it says so as information. An answer that comes even later is one all the same.

    Usual causes: a server that is stuck or overloaded.
    Source: daemon/protocol/mcbp
    """
    opcode = delayed.frame.opcode
    if opcode == kinds.NOOP and delayed.frame.direction != connection.producer_direction:
        return None  # DCP516 says so
    if opcode in ALONE and opcode != kinds.NOOP:
        return None  # quiet commands are mostly not answered
    text = f"{name(opcode)} was not answered in {delayed.waited_ns / SECOND:,.1f} s"
    if not delayed.proven:
        return Remark(f"{text}; then the {'capture' if connection.end.by is None else 'connection'} ends", INFO)
    return text if opcode != kinds.NOOP else None  # of those DCP511 says so


@rule("DCP108", "F8", VIOLATION, Event.STRAY, scope=Scope.STREAM)
def stream_id(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream id is not that of the stream.

    Reported when the stream id of a message is missing, is another than the stream request's, or is there though
    the request had none. (Deletions whose header counts no framing extras, a bug of servers, are read as meant.
    Messages that never have a stream id, such as SET_VBUCKET_STATE, miss none.)

    With stream ids several streams of one vbucket share a connection: a message without its id reaches the
    wrong one, or none.

    Usual causes: a producer that forgets the frame on one kind of message.
    Source: dcp/producer.cc, daemon/connection.cc
    """
    if not stream.known or stream.vbucket != frame.vbucket or stream.stream_id == frame.stream_id:
        return None
    if not frame.stream_id and not find(frame.opcode).stream_id:
        return None
    is_there = frame.stream_id or any(_is_stream_id_0(identity, data) for identity, data in _infos(frame))
    has = f"stream id {frame.stream_id}" if is_there else "no stream id"
    wants = f"stream id {stream.stream_id}" if stream.stream_id else "none"
    return f"{name(frame.opcode)} has {has}, the stream request had {wants}"


@rule("DCP111", "F11", VIOLATION, Event.STRAY, scope=Scope.STREAM)
def vbucket(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Vbucket is not that of the stream.

    Reported when the opaque of a message belongs to the stream of another vbucket.

    A server's consumer goes by the vbucket: where it has a stream of another opaque it answers KeyEexists, where it
    has none KeyEnoent (with v7_dcp_status_codes OpaqueNoMatch and DcpStreamNotFound). An application that goes by the
    opaque files the document under the wrong vbucket.

    Usual causes: an opaque used for two streams; a vbucket taken from the wrong place by a proxy.
    Source: dcp/active_stream.cc
    """
    if not stream.known or stream.vbucket == frame.vbucket:
        return None
    text = f"{name(frame.opcode)} of vbucket {frame.vbucket} has the opaque of the stream of vbucket {stream.vbucket}"
    known = connection.stream_of(frame)
    has_one = known is not None and known.live
    return Remark(text, status=unmatched(frame, connection) if has_one else without_stream(connection))


@rule("DCP116", "F16", VIOLATION, kinds.FLUSH, Event.WRONG_DIRECTION, status="NotSupported")
def flush(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """DCP_FLUSH.

    Reported when DCP_FLUSH is sent, by either side. Servers have never supported it, and answer NotSupported.

    Usual causes: a client written after a draft of the protocol.
    Source: daemon/mcbp_validators.cc
    """
    return "DCP_FLUSH, which no server supports" if frame.opcode == kinds.FLUSH else None


@rule("DCP117", "F17", SUSPICIOUS, *(opcode | RESPONSE for opcode in _SILENT))
def silent(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Success reported of a message that is not answered.

    Reported when a consumer answers a document, an event, a durable write, STREAM_END, SEQNO_ADVANCED,
    OSO_SNAPSHOT or a cache transfer with Success. Only errors are answered.

    A producer ignores most of these answers, and closes the connection at those to SEQNO_ADVANCED and OSO_SNAPSHOT.

    Usual causes: a consumer that answers everything.
    Source: daemon/protocol/mcbp
    """
    return None if frame.status else f"{name(frame.opcode)} answered with Success"


#: Errors that cross with the end of a stream or of a vbucket, by their names from 7.0 on and those before.
_CROSSING = GONE | {KEY_ENOENT, KEY_EEXISTS}


@rule("DCP119", "F19", SUSPICIOUS, *(opcode | RESPONSE for opcode in sorted(kinds.STREAMED)), scope=Scope.STREAM)
def refused(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Message that its consumer refused.

    Reported when a consumer answers a message of an open stream with an error. Not where it says that it has no such
    stream or vbucket, which crosses with the end of a stream; but that is an error too in answer to a vbucket state.

    A producer takes any answer to a marker or to a vbucket state for the acknowledgement, and goes on; for an error to
    another message it closes the connection. What was refused is missing at the consumer.

    Usual causes: a consumer without memory, or whose vbucket is at another seqno than its request said.
    Source: dcp/producer.cc, dcp/consumer.cc
    """
    crosses = frame.status in _CROSSING and frame.opcode != kinds.SET_STATE
    if not frame.status or crosses or not stream.known or stream.closing:
        return None
    return f"{name(frame.opcode)} was answered with {status(frame.status)}"


def _infos(frame: FrameEvent) -> Iterator[tuple[int, bytes]]:
    """Yield the id and the data of each frame info of a request."""
    return bare_infos(frame.framing if MAGICS[frame.magic].flexible else b"")


def _is_stream_id_0(identity: int, data: bytes) -> bool:
    return identity == STREAM_ID_INFO and data == bytes(STREAM_ID_LENGTH - 1)


# What has stream id 0 is in no run that is inspected closely.
@skipping(lambda run, close, stream: stream.connection.setup.produces is not False)
@rule("DCP118", "F18", VIOLATION, Event.FRAMED)
def frame_info(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> list[Remark]:
    """Frame info that the message cannot have.

    Reported when the framing extras of a DCP request have a frame info whose id has no meaning (a server answers
    UnknownFrameInfo), a DurabilityRequirement (Einval), PreserveTtl (NotSupported) or a Barrier; a stream id on a
    message that never has one, such as STREAM_REQ, whose stream id stands in its JSON; the stream id 0; and any stream
    id in what is sent to a server's consumer (Einval). Suspicious only: OpenTracing, which servers up to 7.2 take.
    Requests that are not DCP's own, such as durable writes of clients, are not judged.

    Where a server does not refuse the request, it does not look at what it asks for in addition.

    Usual causes: one encoder for all requests of a client; a producer that adds the stream id to every message.
    Source: daemon/mcbp_validators.cc, dcp/producer.cc
    """
    message = find(frame.opcode)
    problems = () if frame.record is None else frame.record.frame.problems
    if not message.dcp or any(problem.code is Fault.LENGTHS_CONTRADICT for problem in problems):
        return []  # what contradicts another rule reports
    consumer_by = None if connection.setup.produces is not False else connection.setup.opened_by
    to_consumer = consumer_by is not None and frame.direction == consumer_by.direction
    remarks = (_info_remark(message, each, data, to_consumer=to_consumer) for each, data in _infos(frame))
    return list(dict.fromkeys(each for each in remarks if each is not None))


def _info_remark(message: Message, identity: int, data: bytes, *, to_consumer: bool) -> Remark | None:
    """Return what is wrong with a frame info of a DCP request; None where nothing is."""
    kind, has = REQUEST_INFOS.get(identity), f"{message.name.removeprefix('DCP_')} has"
    if kind is None:
        return Remark(f"{has} frame info {identity}, which has no meaning", status="UnknownFrameInfo")
    if kind.old:
        return Remark(f"{has} {kind.name}, which old releases took", SUSPICIOUS)
    if not kind.dcp:
        status = STATUS.names[kind.refused] if kind.refused else ""
        return Remark(f"{has} {kind.name}, which no DCP request may have", status=status)
    if identity != STREAM_ID_INFO:  # the others say on whose behalf a manager asks
        return None
    if to_consumer:
        return Remark(f"{has} a stream id, which a consumer does not take", status="Einval")
    if not message.stream_id:
        return Remark(f"{has} a stream id, which it never may")
    return Remark(f"{has} stream id 0, which no stream has") if _is_stream_id_0(identity, data) else None
