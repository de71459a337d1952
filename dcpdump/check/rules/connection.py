"""DCP201-214: how a connection is set up, and who may say what on it."""

from dcpdump.check.rule import ASKED, ASTRAY, INFO, RESPONSE, SUSPICIOUS, VIOLATION, Remark, Scope, rule
from dcpdump.check.rules.framing import name
from dcpdump.escape import safe
from dcpdump.spec import MESSAGES
from dcpdump.spec.names import REPLICATION
from dcpdump.streams.opcodes import ADVANCED, CONTROL, HELLO, NOOP, OPEN, OSO, SASL_AUTH, SASL_STEP, STREAM_REQ, WANTED
from dcpdump.streams.sight import Sight
from dcpdump.streams.state import XATTRS, Connection, Stream

_BEFORE_LOGIN = frozenset({HELLO, 0x20, SASL_AUTH, SASL_STEP, 0xFE})
#: Controls that are read when a stream is created.
_AT_CREATION = frozenset(
    (
        "enable_expiry_opcode",
        "force_value_compression",
        "enable_sync_writes",
        "consumer_name",
        "flatbuffers_system_events",
        "change_streams",
        "max_marker_version",
        "enable_out_of_order_snapshots",
    )
)
_UNORDERED = 0x0E


def control_asked(sight: Sight, connection: Connection) -> tuple[str, str]:
    """Return the key and the value of the control that an answer is for; empty where it was not captured."""
    waiting = connection.exchanges.asked(sight)
    return ("", "") if waiting is None else (waiting.key, waiting.value)


@rule(
    "DCP201",
    "C1",
    "Command before authentication",
    severity=SUSPICIOUS,
    source="daemon/protocol/mcbp",
    off="m",
    on=(ASKED,),
    scope=Scope.CONNECTION,
    status="Eaccess",
)
def unauthenticated(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees commands other than HELLO, SASL and GET_ERROR_MAP on a connection that begins with HELLO and on which
    no authentication succeeded.

    They are refused with Eaccess, unless the user is known by a TLS certificate, or the server lets anybody in.

    Usual causes: a client that does not wait for the answer to its authentication.
    """
    if connection.authenticated or sight.opcode in _BEFORE_LOGIN or connection.mechanism is None:
        return None
    return f"{name(sight.opcode)} before authentication succeeded"


@rule(
    "DCP202",
    "C2",
    "DCP before DCP_OPEN, or opened twice",
    severity=VIOLATION,
    source="daemon/mcbp_validators.cc",
    off="m",
    on=(ASKED,),
    scope=Scope.STREAM,
    status="Einval",
)
def opened(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees a second DCP_OPEN, and DCP commands on a connection that began with HELLO and was not opened.

    Either is refused with Einval: a connection has one role for all its life.

    Usual causes: a connection from a pool, used again.
    """
    if sight.opcode == OPEN:
        if connection.accepted_frame is None or connection.open_sight is None:
            return None
        return f"DCP_OPEN, though frame {connection.accepted_frame} opened the connection"
    if not MESSAGES[sight.opcode].dcp or connection.open_sight is not None or not connection.complete:
        return None
    if sight.direction != connection.began:  # it may answer to an OPEN that was captured later
        return None
    return f"{name(sight.opcode)} before DCP_OPEN"


@rule(
    "DCP203",
    "C3",
    "No bucket selected",
    severity=SUSPICIOUS,
    source="daemon/protocol/mcbp",
    off="m",
    on=(OPEN,),
    scope=Scope.STREAM,
    status="NoBucket",
)
def bucket(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees DCP_OPEN after an authentication but without SELECT_BUCKET.

    Unless the user's name is that of a bucket, the server answers NoBucket.

    Usual causes: SELECT_BUCKET sent, and refused.
    """
    if connection.bucket is not None or not connection.authenticated:
        return None
    return "DCP_OPEN, and no bucket was selected"


@rule(
    "DCP204",
    "C4",
    "Unordered execution on a DCP connection",
    severity=VIOLATION,
    source="daemon/mcbp_validators.cc",
    off="m",
    on=(OPEN | RESPONSE,),
    scope=Scope.CONNECTION,
    status="NotSupported",
)
def unordered(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees DCP_OPEN succeed although HELLO granted UnorderedExecution.

    The order of messages is all that DCP stands on; a server refuses with NotSupported.

    Usual causes: a feature list shared with clients that do not use DCP.
    """
    if sight.word or connection.features is None or _UNORDERED not in connection.features:
        return None
    return "DCP_OPEN succeeded although HELLO granted UnorderedExecution"


@rule(
    "DCP205",
    "C5",
    "Authentication after DCP_OPEN",
    severity=VIOLATION,
    source="daemon/connection.cc",
    off="m",
    on=(SASL_AUTH, SASL_STEP),
    scope=Scope.CONNECTION,
)
def late_login(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees SASL commands on a connection that is open for DCP.

    They are refused: what streams were granted rests on who the user was.

    Usual causes: a client that renews its token on every connection.
    """
    if not connection.is_open:
        return None
    return f"{name(sight.opcode)} after DCP_OPEN"


@rule(
    "DCP206",
    "C6",
    "Connection name in use",
    severity=INFO,
    source="dcp/dcpconnmap.cc",
    on=(OPEN,),
)
def same_name(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees DCP_OPEN with the name of another connection of the capture that is still used.

    The server closes the older one, without a DCP message.

    Usual causes: two instances of an application with one configuration; a client that reconnects before its
    old connection is gone.
    """
    server = connection.dst if sight.direction == 0 else connection.src
    other = connection.names.get((server, safe(sight.key)))
    if other is None or other is connection or not other.is_used(sight.ts_ns):
        return None
    return f"the name is that of connection {other.number}, which the server closes now"


@rule(
    "DCP207",
    "C7",
    "Message that a producer does not take",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off="m",
    on=(ASTRAY,),
    scope=Scope.CONNECTION,
)
def to_producer(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees a client send what only the producing side sends: documents, markers, states, ADD_STREAM.

    The server closes the connection.

    Usual causes: DCP_OPEN with the producer flag where a consumer was meant.
    """
    if connection.produces is not True or sight.direction == connection.feeder or sight.opcode == NOOP:
        return None
    return f"{name(sight.opcode)} sent to a producer"


@rule(
    "DCP208",
    "C8",
    "Message that a consumer does not take",
    severity=VIOLATION,
    source="dcp/consumer.cc, daemon/protocol/mcbp",
    off="m",
    on=(ASTRAY, ADVANCED, OSO),
    scope=Scope.CONNECTION,
)
def to_consumer(sight: Sight, connection: Connection, stream: Stream) -> str | Remark | None:
    """It sees what a server's consumer does not take from those who send to it: requests that only it may send
    (it closes the connection), SEQNO_ADVANCED and OSO_SNAPSHOT (it answers UnknownCommand).

    Usual causes: DCP_OPEN without the producer flag where a producer was meant.
    """
    if connection.produces is not False or sight.direction != connection.feeder:
        return None
    if sight.opcode in (ADVANCED, OSO):
        return Remark(f"{name(sight.opcode)} sent to a consumer", status="UnknownCommand")
    return f"{name(sight.opcode)} sent to a consumer" if sight.opcode in WANTED else None


@rule(
    "DCP209",
    "C9",
    "Stream granted without the NOOPs that it needs",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off="m",
    on=(STREAM_REQ | RESPONSE,),
    scope=Scope.CONNECTION,
    status="NotSupported",
)
def noop_first(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees a stream granted on a connection with xattrs or collections before enable_noop was accepted.

    A conforming server refuses the request with NotSupported: such connections have to be kept alive.

    Usual causes: controls sent after the first stream request.
    """
    if sight.word or not connection.controls_known or connection.on("enable_noop"):
        return None
    if (connection.open_flags or 0) & XATTRS:
        return "stream granted on a connection with xattrs and without enable_noop"
    if connection.has_collections:
        return "stream granted on a connection with collections and without enable_noop"
    return None


@rule(
    "DCP210",
    "C10",
    "Control after the streams that it should change",
    severity=SUSPICIOUS,
    source="dcp/producer.cc, dcp/active_stream.cc",
    off="m",
    on=(CONTROL,),
    scope=Scope.CONNECTION,
)
def late_control(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees controls that are read when a stream is created, sent while streams are open.

    They change later streams only; those that are open go on as they were.

    Usual causes: controls sent in parallel with stream requests.
    """
    key = safe(sight.key)
    if key not in _AT_CREATION or not any(each.live and not each.closed for each in connection.current.values()):
        return None
    return f"{key} changes nothing for the streams that are open"


@rule(
    "DCP211",
    "C11",
    "Stream id where none is enabled, or none where it is",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off="m",
    on=(STREAM_REQ | RESPONSE,),
    scope=Scope.CONNECTION,
    status="DcpStreamIdInvalid",
)
def sid_enabled(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees a stream granted whose request had a sid without enable_stream_id, or none with it.

    A conforming server refuses with DcpStreamIdInvalid.

    Usual causes: a client that does not look at the answer to enable_stream_id.
    """
    waiting = connection.exchanges.asked(sight)
    request = None if waiting is None else waiting.request
    if sight.word or request is None or not request.readable or not connection.controls_known:
        return None
    if connection.on("enable_stream_id") is bool(request.stream_id):
        return None
    if request.stream_id:
        return f"stream granted with sid {request.stream_id}, and enable_stream_id was not accepted"
    return "stream granted without a sid, and enable_stream_id was accepted"


@rule(
    "DCP212",
    "C12",
    "Stream ids and durable writes together",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off="m",
    on=(CONTROL | RESPONSE,),
    scope=Scope.CONNECTION,
    status="NotSupported",
)
def exclusive(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees both enable_stream_id and enable_sync_writes accepted.

    They exclude each other; the second is to be refused with NotSupported.

    Usual causes: a proxy that answers controls itself.
    """
    key, value = control_asked(sight, connection)
    other = {"enable_stream_id": "enable_sync_writes", "enable_sync_writes": "enable_stream_id"}.get(key)
    if sight.word or other is None or value != "true" or not connection.on(other):
        return None
    return f"{key} accepted after {other}"


@rule(
    "DCP213",
    "C13",
    "Application that counts as a replica",
    severity=INFO,
    source="dcp/producer.cc",
    on=(CONTROL | RESPONSE,),
)
def pretender(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees consumer_name and enable_sync_writes accepted on a connection whose name is not one of replication.

    The server waits for this client's acknowledgements when it decides about durable writes.

    Usual causes: controls copied from a capture of replication.
    """
    key, value = control_asked(sight, connection)
    if sight.word or not connection.name or connection.name.startswith(REPLICATION):
        return None
    both = (key == "consumer_name" and connection.on("enable_sync_writes")) or (
        key == "enable_sync_writes" and value == "true" and "consumer_name" in connection.agreed
    )
    return "consumer_name and enable_sync_writes make this connection count for durable writes" if both else None


@rule(
    "DCP214",
    "C14",
    "HELLO after DCP_OPEN",
    severity=SUSPICIOUS,
    source="daemon/protocol/mcbp",
    on=(HELLO,),
)
def second_hello(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees HELLO on a connection that is open for DCP.

    It replaces the features: from its answer on keys may have collection ids, or lose them, in the middle of
    streams.

    Usual causes: a client library that renews its features; a connection from a pool.
    """
    return None if not connection.is_open else "HELLO changes how messages of open streams are read"


RULES = (
    unauthenticated,
    opened,
    bucket,
    unordered,
    late_login,
    same_name,
    to_producer,
    to_consumer,
    noop_first,
    late_control,
    sid_enabled,
    exclusive,
    pretender,
    second_hello,
)
