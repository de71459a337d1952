"""DCP201-216, DCP50x-51x: how a connection is set up, who may send what on it, flow control, and keep-alive."""

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.finding import quoted
from dcpdump.check.rule import INFO, RESPONSE, SUSPICIOUS, VIOLATION, Delayed, Event, Remark, Scope, rule, skipping
from dcpdump.check.rules.frames import awaited, name
from dcpdump.escape import safe
from dcpdump.spec import MESSAGES
from dcpdump.spec.names import CONTROL_KEYS, DELETED_XATTRS, INCLUDE_XATTRS, REPLICATION
from dcpdump.streams import opcode_kinds as kinds
from dcpdump.streams.flow import flow_status, why_blocked
from dcpdump.streams.frame_event import DocumentRun, FrameEvent, between
from dcpdump.streams.phases import FlowEvent, SetupEvent, SetupPhase, allows
from dcpdump.streams.state import SECOND, ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.text import nearest

# -- set-up, and who may send what --------------------------------------------------------------------

_BEFORE_LOGIN = frozenset({kinds.HELLO, 0x20, kinds.SASL_AUTH, kinds.SASL_STEP, 0xFE})
_UNORDERED = 0x0E


@rule("DCP201", "C1", SUSPICIOUS, Event.REQUEST, scope=Scope.CONNECTION, status="Eaccess")
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
    if allows(connection.setup.phase, SetupEvent.COMMAND) or frame.opcode in _BEFORE_LOGIN:
        return None
    if any(connection.asked_for(kinds.SASL_AUTH)) or any(connection.asked_for(kinds.SASL_STEP)):
        return None
    return Remark(f"{name(frame.opcode)} after the authentication was refused", ordered=True)


@rule("DCP202", "C2", VIOLATION, Event.REQUEST, scope=Scope.STREAM, status="Einval")
def opened(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """DCP before DCP_OPEN, or opened twice.

    Reported when DCP_OPEN is sent on a connection that is open, and when a DCP command is sent on a connection that
    began with HELLO and was not opened.

    Either is refused with Einval: a connection keeps the role that it was opened with.

    Usual causes: a connection from a pool, used again.
    Source: daemon/mcbp_validators.cc
    """
    if frame.opcode == kinds.OPEN:
        if connection.setup.phase is not SetupPhase.OPEN:
            return None  # of a login that was refused DCP201 says so
        if any(connection.exchanges.early(frame.direction, kinds.OPEN, frame.opaque)):
            return None  # that success was the answer to this one, captured before it
        return f"DCP_OPEN, though frame {connection.setup.accepted_steps[kinds.OPEN]} opened the connection"
    if not MESSAGES[frame.opcode].dcp or allows(connection.setup.phase, SetupEvent.DCP) or not connection.complete:
        return None
    if frame.direction != connection.setup.began:  # it may answer to an OPEN that was captured later
        return None
    return f"{name(frame.opcode)} before DCP_OPEN"


@rule("DCP203", "C3", SUSPICIOUS, kinds.OPEN | RESPONSE, scope=Scope.STREAM)
def bucket(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """No bucket selected.

    Reported when DCP_OPEN is refused after an authentication, and there was no SELECT_BUCKET, or it was refused.

    Without it a connection has a bucket only where the user's name is that of one, as before 5.0.

    Usual causes: SELECT_BUCKET sent, and refused.
    Source: daemon/protocol/mcbp
    """
    if not frame.status or connection.setup.bucket is not None or not connection.setup.authenticated:
        return None
    under_way = any(connection.asked_for(kinds.SELECT_BUCKET))
    return None if under_way else "DCP_OPEN was refused, and no bucket was selected"


@rule("DCP204", "C4", VIOLATION, kinds.OPEN | RESPONSE, scope=Scope.CONNECTION, status="NotSupported")
def unordered(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Unordered execution on a DCP connection.

    Reported when DCP_OPEN succeeds although HELLO granted UnorderedExecution.

    DCP depends on the order of messages; a server refuses with NotSupported.

    Usual causes: a feature list shared with clients that do not use DCP.
    Source: daemon/mcbp_validators.cc
    """
    if frame.status or connection.setup.features is None or _UNORDERED not in connection.setup.features:
        return None
    return "DCP_OPEN succeeded although HELLO granted UnorderedExecution"


@rule("DCP205", "C5", VIOLATION, kinds.SASL_AUTH, kinds.SASL_STEP, scope=Scope.CONNECTION)
def late_login(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Authentication after DCP_OPEN.

    Reported when a SASL command is sent on a connection that is open for DCP.

    It is refused: which streams were granted depends on who the user was.

    Usual causes: a client that renews its token on every connection.
    Source: daemon/connection.cc
    """
    if allows(connection.setup.phase, SetupEvent.LOGIN):
        return None
    return f"{name(frame.opcode)} after DCP_OPEN"


@rule("DCP206", "C6", INFO, Event.CLOSING)
def same_name(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Connection name in use.

    Reported when DCP_OPEN has the name of another connection to the same bucket of the same server, and that one
    has not ended, nor goes on for more than a second: then a proxy or a NAT may have been captured on both sides.

    The server closes the older one, without a DCP message, whichever of the two produces.

    Usual causes: two instances of an application with one configuration; a client that reconnects before its
    old connection is gone.
    Source: dcp/dcpconnmap.cc
    """
    other, opened = connection.setup.previous_with_name, connection.setup.opened_by
    if other is None or opened is None or not other.is_used(opened.ts_ns):  # its end may be known only by now
        return None
    if (between(opened.ts_ns, other.last_ns) or 0) > SECOND:
        return None
    return Remark(f"the name is that of connection {other.number}, which the server closes now", frame=opened)


@rule("DCP207", "C7", VIOLATION, Event.WRONG_DIRECTION, scope=Scope.CONNECTION)
def to_producer(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Message that a producer does not take.

    Reported when a client sends what only the producing side sends: documents, markers, states, ADD_STREAM.

    The server closes the connection.

    Usual causes: DCP_OPEN with the producer flag where a consumer was meant.
    Source: dcp/producer.cc
    """
    if not _is_to_producer(frame, connection) or frame.opcode in (kinds.NOOP, kinds.FLUSH):
        return None
    return f"{name(frame.opcode)} sent to a producer"


def _is_to_producer(frame: FrameEvent, connection: ConnectionState) -> bool:
    return connection.setup.produces is True and frame.direction != connection.producer_direction


@rule("DCP208", "C8", VIOLATION, Event.WRONG_DIRECTION, kinds.ADVANCED, kinds.OSO, scope=Scope.CONNECTION)
def to_consumer(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Message that a consumer does not take.

    Reported when a server's consumer is sent what it does not take: requests that only it may send (it closes the
    connection), SEQNO_ADVANCED and OSO_SNAPSHOT (it answers UnknownCommand).

    Usual causes: DCP_OPEN without the producer flag where a producer was meant.
    Source: dcp/consumer.cc, daemon/protocol/mcbp
    """
    if connection.setup.produces is not False or frame.direction != connection.producer_direction:
        return None
    if frame.opcode in (kinds.ADVANCED, kinds.OSO):
        return Remark(f"{name(frame.opcode)} sent to a consumer", status="UnknownCommand")
    return f"{name(frame.opcode)} sent to a consumer" if frame.opcode in kinds.WANTED else None


@rule("DCP209", "C9", VIOLATION, kinds.STREAM_REQ | RESPONSE, scope=Scope.CONNECTION, status="NotSupported")
def noop_first(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream granted without the NOOPs that it needs.

    Reported when a stream is granted on a connection with xattrs or collections before enable_noop was accepted.

    A conforming server refuses the request with NotSupported: such connections have to be kept alive. (Unless
    its setting dcp_noop_mandatory_for_v5_features was turned off.)

    Usual causes: controls sent after the first stream request.
    Source: dcp/producer.cc
    """
    if frame.status or not connection.controls_known or connection.setup.on("enable_noop"):
        return None
    if (connection.setup.flags or 0) & INCLUDE_XATTRS:
        return "stream granted on a connection with xattrs and without enable_noop"
    if connection.setup.has_collections:
        return "stream granted on a connection with collections and without enable_noop"
    return None


@rule("DCP211", "C11", VIOLATION, kinds.STREAM_REQ | RESPONSE, scope=Scope.CONNECTION, status="DcpStreamIdInvalid")
def sid_enabled(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream id where none is enabled, or none where it is.

    Reported when a stream is granted whose request had a sid without enable_stream_id, or none with it.

    A conforming server refuses with DcpStreamIdInvalid.

    Usual causes: a client that ignores the answer to enable_stream_id.
    Source: dcp/producer.cc
    """
    request = awaited(frame, connection)
    if frame.status or request is None or not request.readable or not connection.controls_known:
        return None
    if connection.setup.on("enable_stream_id") is bool(request.stream_id):
        return None
    if request.stream_id:
        return f"stream granted with sid {request.stream_id}, and enable_stream_id was not accepted"
    return "stream granted without a sid, and enable_stream_id was accepted"


@rule("DCP214", "C14", SUSPICIOUS, kinds.HELLO)
def second_hello(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """HELLO after DCP_OPEN.

    Reported when HELLO is sent on a connection that is open for DCP.

    It replaces the features: from its answer on keys may have collection ids, or lose them, in the middle of
    streams.

    Usual causes: a client library that renews its features; a connection from a pool.
    Source: daemon/protocol/mcbp
    """
    if allows(connection.setup.phase, SetupEvent.HELLO):
        return None
    return "HELLO changes how messages of open streams are read"


# -- controls: when they are sent, which of them may be accepted, and which are misspelt --------------

#: Controls that are read when a stream is created.
_AT_CREATION = (
    "enable_expiry_opcode",
    "force_value_compression",
    "enable_sync_writes",
    "consumer_name",
    "flatbuffers_system_events",
    "change_streams",
    "max_marker_version",
    "enable_out_of_order_snapshots",
)
#: The values that a control can have, where not any will do.
_VALUES = {
    "backfill_order": ("round-robin", "sequential"),
    "set_priority": ("high", "medium", "low"),
    "enable_out_of_order_snapshots": ("true", "true_with_seqno_advanced"),
    "max_marker_version": ("2.2",),
    "enable_stream_id": ("true",),
    "enable_sync_writes": ("true",),
    "include_deleted_user_xattrs": ("true",),
    "v7_dcp_status_codes": ("true",),
    "flatbuffers_system_events": ("true",),
    "change_streams": ("true",),
}
_SNAPPY = 0x0A  #: of the features of HELLO


def control_asked(frame: FrameEvent, connection: ConnectionState) -> tuple[str, str]:
    """Return the key and the value of the control that an answer is for; empty where it was not captured."""
    waiting = connection.exchanges.asked(frame)
    return ("", "") if waiting is None else (waiting.key, waiting.value)


@rule("DCP210", "C10", SUSPICIOUS, kinds.CONTROL, scope=Scope.CONNECTION)
def late_control(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Control after the streams that it should change.

    Reported when a control that is read when a stream is created is sent while streams are open.

    It changes later streams only; those that are open stay as they were.

    Usual causes: controls sent in parallel with stream requests.
    Source: dcp/producer.cc, dcp/active_stream.cc
    """
    key = safe(frame.key)
    streams = connection.lookup.current.values()
    if key not in _AT_CREATION or not any(each.begin_captured and each.live and not each.closed for each in streams):
        return None
    if any(connection.exchanges.early(frame.direction, kinds.CONTROL, frame.opaque)):
        return None  # it was captured after its answer, and maybe after the streams
    return f"{key} changes nothing for the streams that are open"


@rule("DCP212", "C12", VIOLATION, kinds.CONTROL | RESPONSE, scope=Scope.CONNECTION, status="NotSupported")
def exclusive(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream ids and durable writes together.

    Reported when both enable_stream_id and enable_sync_writes are accepted.

    They exclude each other; the second is to be refused with NotSupported.

    Usual causes: a proxy that answers controls itself.
    Source: dcp/producer.cc
    """
    key, value = control_asked(frame, connection)
    other = {"enable_stream_id": "enable_sync_writes", "enable_sync_writes": "enable_stream_id"}.get(key)
    if frame.status or other is None or value != "true" or not connection.setup.on(other):
        return None
    return f"{key} accepted after {other}"


@rule("DCP213", "C13", INFO, kinds.CONTROL | RESPONSE)
def pretender(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Application that counts as a replica.

    Reported when consumer_name and enable_sync_writes are accepted on a connection whose name is not one of
    replication.

    The server waits for this client's acknowledgements when it decides about durable writes.

    Usual causes: controls copied from a capture of replication.
    Source: dcp/producer.cc
    """
    key, value = control_asked(frame, connection)
    if frame.status or not connection.setup.name or connection.setup.name.startswith(REPLICATION):
        return None
    both = (key == "consumer_name" and connection.setup.on("enable_sync_writes")) or (
        key == "enable_sync_writes" and value == "true" and "consumer_name" in connection.setup.agreed
    )
    return "consumer_name and enable_sync_writes make this connection count for durable writes" if both else None


@rule("DCP215", "C15", VIOLATION, kinds.CONTROL | RESPONSE, scope=Scope.CONNECTION)
def accepted(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Control accepted that is to be refused.

    Reported when a producer accepts a control that it has to refuse: stream_buffer_size, force_value_compression
    where HELLO did not grant Snappy, include_deleted_user_xattrs where DCP_OPEN did not ask for them,
    max_marker_version 2.2 without collections, and values that a control cannot have. Keys that are unknown here may
    be known to another version, and are not judged.

    The client relies on something that the producer does not do.

    Usual causes: a proxy that answers controls itself.
    Source: dcp/producer.cc
    """
    key, value = control_asked(frame, connection)
    if frame.status or not key or connection.setup.produces is not True:
        return None
    status = _refusal(key, value, connection)
    return Remark(f"{key}={quoted(value)} accepted", status=status) if status else None


def _refusal(key: str, value: str, connection: ConnectionState) -> str:
    """Return with which status a producer refuses a control; nothing where it accepts it."""
    if key == "stream_buffer_size":
        return "NotSupported"
    if value not in _VALUES.get(key, (value,)) or (key == "set_noop_interval" and not _is_interval(value)):
        return "Einval"
    features, flags = connection.setup.features, connection.setup.flags
    if key == "force_value_compression" and features is not None and _SNAPPY not in features:
        return "Einval"
    if key == "include_deleted_user_xattrs" and flags is not None and not flags & DELETED_XATTRS:
        return "Einval"
    if key == "max_marker_version" and value == "2.2" and connection.setup.has_collections is False:
        return "NotSupported"
    return ""


def _is_interval(value: str) -> bool:
    try:
        return float(value) > 0
    except ValueError:
        return False


_NEAR = 0.85  #: of 1, which is the same


@rule("DCP216", "C16", SUSPICIOUS, kinds.CONTROL, status="Einval")
def misspelt(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Control key that is misspelt.

    Reported when the key of a CONTROL is not one that any release knows, and differs little from one that is.

    A producer refuses what it does not know. (Keys that resemble none may be those of a later release.)

    Usual causes: a letter that is missing, doubled or of the wrong case.
    Source: control.md, dcp/producer.cc
    """
    key = frame.key.decode("ascii", "replace")
    if key in CONTROL_KEYS:
        return None
    known = {name.lower(): name for name in CONTROL_KEYS}
    near = nearest(key.lower(), known, n=1, cutoff=_NEAR)
    return f"control key {quoted(frame.key)}: no release knows it; {known[near[0]]} is near" if near else None


# -- flow control -------------------------------------------------------------------------------------


@rule("DCP502", "B2", INFO, kinds.BUFFER_ACK, scope=Scope.CONNECTION)
def measure(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Acknowledged by another measure.

    Reported when acknowledgements add up to the bytes on the wire where prepares were sent, which producers count
    as 2 bytes more than they are.

    The 2 bytes are never acknowledged: after enough durable writes the window stays full.

    Usual causes: a client that counts what it reads.
    Source: dcp/response.h (MB-46634)
    """
    window, counted = connection.window, connection.window.counted
    if not counted.prepared or window.size is None or not window.complete or counted.wire == counted.sent:
        return None
    if window.acked + (frame.get("buffer_bytes") or 0) != counted.wire:
        return None
    return f"acknowledges wire bytes: {counted.sent - counted.wire:,} bytes of {counted.prepared:,} prepares stay"


def _all_in_window(run: DocumentRun, close: Inspected, stream: Stream) -> bool:
    window = stream.connection.window
    return not window.complete or not (window.full is not None or window.needs_each(run.size))


@skipping(_all_in_window)
@rule("DCP503", "B3", SUSPICIOUS, Event.COUNTED, scope=Scope.CONNECTION)
def overrun(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Flow-control buffer exceeded.

    Reported when messages of streams continue, more of them and for longer than the order of capture explains,
    although as many bytes as the window holds wait for their acknowledgement. (One message may go over it.)

    The consumer asked for the window because it cannot hold more.

    Usual causes: a producer that counts documents only; an acknowledgement captured after what it allowed.
    Source: dcp/producer.cc (BufferLog)
    """
    window = connection.window
    if window.size is None or not window.complete or window.full is None or not window.becomes_exceeded(frame.ts_ns):
        return None
    waiting = f"{window.outstanding:,} bytes wait for acknowledgement, the window has {window.size:,}"
    return f"{waiting}: {window.full.beyond + 1} messages more"


@rule("DCP504", "B4", VIOLATION, Event.OVERDRAWN, scope=Scope.CONNECTION)
def overdrawn(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str:
    """Acknowledged more than was sent.

    Reported when acknowledgements add up to more than the bytes that count, those included that are captured up to
    50 ms later (where frames have no times, the next 64 messages): an acknowledgement may be captured before the
    messages that it acknowledges. What is sent later still does not make up for it.

    The producer logs it, and treats the window as empty: what is acknowledged from there on counts from there.
    Acknowledgements while flow control is off do not count.

    Usual causes: counting messages that do not count (NOOP, responses); acknowledging twice.
    Source: dcp/producer.cc
    """
    return f"{delayed.amount:,} bytes acknowledged, {delayed.limit:,} were sent"


@rule("DCP505", "B5", SUSPICIOUS, Event.STALLED, scope=Scope.CONNECTION)
def stall(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str | Remark:
    """Window full, and no acknowledgement comes.

    Reported when a window has been full for more than a minute without an acknowledgement, though the producer
    reads: its TCP receive window was not zero. Where a capture begins late or lost bytes, what is outstanding is
    relative: then it is reported if the producer is silent at a level at which it waited for acknowledgements before.

    No stream of the connection makes progress.

    Usual causes: a consumer that is stuck, or forgot to acknowledge messages that count.
    Source: dcp/flow-control.cc
    """
    window, waited = connection.window, delayed.waited_ns / SECOND
    if connection.doubtful:
        why = why_blocked(window, flow_status(connection, connection.now_ns))
        return Remark(f"relative, {why}: for {waited:,.0f} s", SUSPICIOUS, scope=Scope.FRAME)
    return f"{window.outstanding:,} of {window.size or 0:,} bytes not acknowledged for {waited:,.0f} s"


@rule("DCP506", "B6", SUSPICIOUS, kinds.BUFFER_ACK | RESPONSE)
def ack_answered(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Acknowledgement that was answered.

    Reported when a success answers BUFFER_ACKNOWLEDGEMENT, which is answered only where it is refused.

    Usual causes: a producer written after the specification's page, which describes one ("unused").
    Source: daemon/protocol/mcbp
    """
    return None if frame.status else "success in answer to BUFFER_ACKNOWLEDGEMENT"


@rule("DCP507", "B7", SUSPICIOUS, kinds.BUFFER_ACK, scope=Scope.CONNECTION)
def pointless(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Acknowledgement without flow control.

    Reported when a BUFFER_ACKNOWLEDGEMENT comes on a connection on which no connection_buffer_size was accepted, or
    behind one of 0.

    The producer ignores it, and sends as fast as it can.

    Usual causes: a control that was refused or never sent.
    Source: dcp/producer.cc
    """
    on = allows(connection.window.phase, FlowEvent.ACK)
    if on or not connection.controls_known or connection.setup.produces is False:
        return None
    if any(waiting.key == "connection_buffer_size" for waiting in connection.asked_for(kinds.CONTROL)):
        return None  # its success may be captured a little later
    return "acknowledges bytes, and flow control is off"


# -- keep-alive ---------------------------------------------------------------------------------------


@rule("DCP511", "N1", VIOLATION, Event.OVERDUE, scope=Scope.SINCE)
def unanswered_noop(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str | None:
    """NOOP without an answer.

    Reported when the opaque of a NOOP does not come back, though the consumer answers later ones, or for half a
    minute.

    The producer sends no other NOOP, and closes the connection when it receives nothing for its idle timeout.

    Usual causes: a consumer whose reader is busy; an opaque byte-swapped in the answer.
    Source: dcp/producer.cc
    """
    noop = delayed.frame
    if noop.opcode != kinds.NOOP or noop.direction != connection.producer_direction:
        return None
    if not delayed.proven or not connection.has_both_sides:
        return None
    text = f"NOOP with opaque 0x{noop.opaque:08x} was not answered in {delayed.waited_ns / SECOND:,.0f} s"
    waiting = connection.exchanges.by_kind.get((noop.direction, kinds.NOOP), {}).get(noop.number)
    echo = 0 if waiting is None else waiting.echo
    return f"{text}: frame {echo} has its opaque, and is a request (magic 0x80)" if echo else text


@rule("DCP512", "N2", SUSPICIOUS, kinds.NOOP, scope=Scope.SINCE)
def two_noops(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Second NOOP before the first was answered.

    Reported when a NOOP comes while another, sent a second or more before, waits for its answer. Unknown where
    packets acknowledge bytes that are captured later: the answer may be captured late.

    A producer has at most one under way.

    Usual causes: a producer of another make; two connections taken for one.
    Source: dcp/producer.cc
    """
    oldest = next(connection.exchanges.waiting((frame.direction, kinds.NOOP)), None)
    if oldest is None or oldest.doubtful or frame.ts_ns is None or not connection.has_both_sides:
        return None
    asked = oldest.frame
    if asked.number <= connection.lost.frame or frame.ts_ns - (asked.ts_ns or frame.ts_ns) < SECOND:
        return None
    return Remark(f"NOOP, though that of frame {asked.number} is not answered", ordered=True)


@rule("DCP513", "N3", SUSPICIOUS, Event.NOOPS_MISSING, scope=Scope.CONNECTION)
def no_noop(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str | Remark:
    """NOOPs are missing.

    Reported when no NOOP comes for more than two intervals although enable_noop was accepted and a stream granted, and
    the producer sends other messages, or nothing at all up to the end of the connection or the capture. It need not
    come while the last one waits for its answer, or the consumer does not read: its TCP receive window is zero. Where
    no interval was accepted, it is the server's own, which no message says: as information then, behind two of the
    20 s that servers have unless they are set otherwise; and of a producer that sends nothing at all only a silence
    beyond the idle timeout counts, as suspicious.

    Producers send them whether or not there is other traffic; a client that waits for them disconnects.

    Usual causes: a producer whose thread is busy; a server that hangs, or is gone; an interval that was refused.
    Source: dcp/producer.cc
    """
    text = f"no NOOP for {delayed.waited_ns / SECOND:,.0f} s"
    if delayed.limit:
        return f"{text}, the interval is {delayed.limit / SECOND:,.0f} s"
    text = f"{text}: enable_noop was accepted, but no interval"
    return Remark(text, INFO if delayed.proven else None)


@rule("DCP514", "N4", VIOLATION, kinds.NOOP, scope=Scope.CONNECTION)
def unasked_noop(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """NOOP that was not requested.

    Reported when a producer sends a NOOP before enable_noop was accepted.

    A client that does not know it leaves it unanswered, and is disconnected.

    Usual causes: a control that was refused.
    Source: dcp/producer.cc
    """
    if not connection.controls_known or connection.setup.on("enable_noop") or connection.setup.produces is not True:
        return None
    return "NOOP, and enable_noop is not on"


@rule("DCP515", "N5", INFO, Event.SILENCE)
def silence(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Silence beyond the idle timeout.

    Reported when one end of a DCP connection on which enable_noop was accepted sends nothing for more than six
    minutes, and then continues. (Without NOOPs a connection on which nothing changes is silent.)

    Both ends disconnect after that long without a message, unless the timeout was changed.

    Usual causes: a capture that was paused; a timeout that was raised.
    Source: dcp/producer.cc, dcp/consumer.cc
    """
    before = connection.sides[frame.direction].latest_ns
    if before is None or frame.ts_ns is None or not connection.setup.on("enable_noop"):
        return None
    return f"silent for {(frame.ts_ns - before) / SECOND:,.0f} s"


@rule("DCP516", "N6", VIOLATION, Event.WRONG_DIRECTION)
def client_noop(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """NOOP sent to a producer.

    Reported when a client sends DCP_NOOP to a producer, which then closes the connection.

    Only producers ask; the NOOP of other connections is opcode 0x0a. Where it has the opaque of a NOOP that waits for
    its answer, it is meant as that.

    Usual causes: a keep-alive written for both ends; an answer with the magic of a request.
    Source: dcp/producer.cc
    """
    if frame.opcode != kinds.NOOP or not _is_to_producer(frame, connection):
        return None
    waiting = connection.exchanges.asked(frame)
    if waiting is None:
        return "DCP_NOOP sent to a producer"
    return f"answers the NOOP of frame {waiting.frame.number} with a request (magic 0x80), not with a response (0x81)"
