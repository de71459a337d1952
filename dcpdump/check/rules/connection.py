"""DCP201-214: how a connection is set up, and who may send what on it."""

from dcpdump.check.rule import INFO, RESPONSE, START, SUSPICIOUS, VIOLATION, Event, Remark, Scope, rule
from dcpdump.check.rules.framing import name
from dcpdump.spec import MESSAGES
from dcpdump.spec.names import INCLUDE_XATTRS
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import (
    ADVANCED,
    FLUSH,
    HELLO,
    NOOP,
    OPEN,
    OSO,
    SASL_AUTH,
    SASL_STEP,
    SELECT_BUCKET,
    STREAM_REQ,
    WANTED,
)
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

_BEFORE_LOGIN = frozenset({HELLO, 0x20, SASL_AUTH, SASL_STEP, 0xFE})
_UNORDERED = 0x0E


@rule("DCP201", "C1", SUSPICIOUS, on=(Event.ASKED,), off=(START,), scope=Scope.CONNECTION, status="Eaccess")
def unauthenticated(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Command before authentication.

    Reported when a command other than HELLO, SASL and GET_ERROR_MAP is sent after the authentication was refused,
    and while no other is under way. Unknown where packets acknowledge bytes that are captured later: it may have been
    sent before the answer.

    It is refused with Eaccess, unless the user is known by a TLS certificate. Commands that are sent behind SASL_AUTH
    without waiting for its answer are executed after it, in order.

    Usual causes: a client that ignores the answer to its authentication.

    Source: daemon/protocol/mcbp
    """
    if connection.authenticated is not False or frame.opcode in _BEFORE_LOGIN:
        return None
    if any(connection.asked_for(SASL_AUTH)) or any(connection.asked_for(SASL_STEP)):
        return None
    return Remark(f"{name(frame.opcode)} after the authentication was refused", ordered=True)


@rule("DCP202", "C2", VIOLATION, on=(Event.ASKED,), off=(START,), status="Einval")
def opened(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """DCP before DCP_OPEN, or opened twice.

    Reported when DCP_OPEN is sent on a connection that is open, and when a DCP command is sent on a connection that
    began with HELLO and was not opened.

    Either is refused with Einval: a connection keeps the role that it was opened with.

    Usual causes: a connection from a pool, used again.

    Source: daemon/mcbp_validators.cc
    """
    if frame.opcode == OPEN:
        if connection.accepted_frame is None or connection.opened_by is None:
            return None
        if connection.exchanges.early(frame.direction, OPEN, frame.opaque) is not None:
            return None  # that success was the answer to this one, captured before it
        return f"DCP_OPEN, though frame {connection.accepted_frame} opened the connection"
    if not MESSAGES[frame.opcode].dcp or connection.opened_by is not None or not connection.complete:
        return None
    if frame.direction != connection.began:  # it may answer to an OPEN that was captured later
        return None
    return f"{name(frame.opcode)} before DCP_OPEN"


@rule("DCP203", "C3", SUSPICIOUS, on=(OPEN | RESPONSE,), off=(START,))
def bucket(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """No bucket selected.

    Reported when DCP_OPEN is refused after an authentication, and there was no SELECT_BUCKET, or it was refused.

    Without it a connection has a bucket only where the user's name is that of one, as before 5.0.

    Usual causes: SELECT_BUCKET sent, and refused.

    Source: daemon/protocol/mcbp
    """
    if not frame.word or connection.bucket is not None or not connection.authenticated:
        return None
    return None if any(connection.asked_for(SELECT_BUCKET)) else "DCP_OPEN was refused, and no bucket was selected"


@rule("DCP204", "C4", VIOLATION, on=(OPEN | RESPONSE,), off=(START,), scope=Scope.CONNECTION, status="NotSupported")
def unordered(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Unordered execution on a DCP connection.

    Reported when DCP_OPEN succeeds although HELLO granted UnorderedExecution.

    DCP depends on the order of messages; a server refuses with NotSupported.

    Usual causes: a feature list shared with clients that do not use DCP.

    Source: daemon/mcbp_validators.cc
    """
    if frame.word or connection.features is None or _UNORDERED not in connection.features:
        return None
    return "DCP_OPEN succeeded although HELLO granted UnorderedExecution"


@rule("DCP205", "C5", VIOLATION, on=(SASL_AUTH, SASL_STEP), off=(START,), scope=Scope.CONNECTION)
def late_login(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Authentication after DCP_OPEN.

    Reported when a SASL command is sent on a connection that is open for DCP.

    It is refused: which streams were granted depends on who the user was.

    Usual causes: a client that renews its token on every connection.

    Source: daemon/connection.cc
    """
    if not connection.is_open:
        return None
    return f"{name(frame.opcode)} after DCP_OPEN"


@rule("DCP206", "C6", INFO, on=(Event.CLOSING,))
def same_name(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Connection name in use.

    Reported when DCP_OPEN has the name of another connection to the same bucket of the same server, and that one
    has not ended.

    The server closes the older one, without a DCP message, whichever of the two produces.

    Usual causes: two instances of an application with one configuration; a client that reconnects before its
    old connection is gone.

    Source: dcp/dcpconnmap.cc
    """
    other, opened = connection.namesake, connection.opened_by
    if other is None or opened is None or not other.is_used(opened.ts_ns):  # its end may be known only by now
        return None
    return Remark(f"the name is that of connection {other.number}, which the server closes now", frame=opened)


@rule("DCP207", "C7", VIOLATION, on=(Event.ASTRAY,), off=(START,), scope=Scope.CONNECTION)
def to_producer(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Message that a producer does not take.

    Reported when a client sends what only the producing side sends: documents, markers, states, ADD_STREAM.

    The server closes the connection.

    Usual causes: DCP_OPEN with the producer flag where a consumer was meant.

    Source: dcp/producer.cc
    """
    if connection.produces is not True or frame.direction == connection.feeder or frame.opcode in (NOOP, FLUSH):
        return None
    return f"{name(frame.opcode)} sent to a producer"


@rule("DCP208", "C8", VIOLATION, on=(Event.ASTRAY, ADVANCED, OSO), off=(START,), scope=Scope.CONNECTION)
def to_consumer(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Message that a consumer does not take.

    Reported when a server's consumer is sent what it does not take: requests that only it may send (it closes the
    connection), SEQNO_ADVANCED and OSO_SNAPSHOT (it answers UnknownCommand).

    Usual causes: DCP_OPEN without the producer flag where a producer was meant.

    Source: dcp/consumer.cc, daemon/protocol/mcbp
    """
    if connection.produces is not False or frame.direction != connection.feeder:
        return None
    if frame.opcode in (ADVANCED, OSO):
        return Remark(f"{name(frame.opcode)} sent to a consumer", status="UnknownCommand")
    return f"{name(frame.opcode)} sent to a consumer" if frame.opcode in WANTED else None


@rule(
    "DCP209", "C9", VIOLATION, on=(STREAM_REQ | RESPONSE,), off=(START,), scope=Scope.CONNECTION, status="NotSupported"
)
def noop_first(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream granted without the NOOPs that it needs.

    Reported when a stream is granted on a connection with xattrs or collections before enable_noop was accepted.

    A conforming server refuses the request with NotSupported: such connections have to be kept alive. (Unless
    its setting dcp_noop_mandatory_for_v5_features was turned off.)

    Usual causes: controls sent after the first stream request.

    Source: dcp/producer.cc
    """
    if frame.word or not connection.controls_known or connection.on("enable_noop"):
        return None
    if (connection.open_flags or 0) & INCLUDE_XATTRS:
        return "stream granted on a connection with xattrs and without enable_noop"
    if connection.has_collections:
        return "stream granted on a connection with collections and without enable_noop"
    return None


@rule(
    "DCP211",
    "C11",
    VIOLATION,
    on=(STREAM_REQ | RESPONSE,),
    off=(START,),
    scope=Scope.CONNECTION,
    status="DcpStreamIdInvalid",
)
def sid_enabled(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream id where none is enabled, or none where it is.

    Reported when a stream is granted whose request had a sid without enable_stream_id, or none with it.

    A conforming server refuses with DcpStreamIdInvalid.

    Usual causes: a client that ignores the answer to enable_stream_id.

    Source: dcp/producer.cc
    """
    waiting = connection.exchanges.asked(frame)
    request = None if waiting is None else waiting.request
    if frame.word or request is None or not request.readable or not connection.controls_known:
        return None
    if connection.on("enable_stream_id") is bool(request.stream_id):
        return None
    if request.stream_id:
        return f"stream granted with sid {request.stream_id}, and enable_stream_id was not accepted"
    return "stream granted without a sid, and enable_stream_id was accepted"


@rule("DCP214", "C14", SUSPICIOUS, on=(HELLO,))
def second_hello(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """HELLO after DCP_OPEN.

    Reported when HELLO is sent on a connection that is open for DCP.

    It replaces the features: from its answer on keys may have collection ids, or lose them, in the middle of
    streams.

    Usual causes: a client library that renews its features; a connection from a pool.

    Source: daemon/protocol/mcbp
    """
    return None if not connection.is_open else "HELLO changes how messages of open streams are read"
