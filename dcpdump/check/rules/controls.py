"""DCP210-215: controls: when they are sent, and which of them may be accepted."""

from dcpdump.check.rule import INFO, RESPONSE, SUSPICIOUS, VIOLATION, Scope, rule
from dcpdump.escape import safe
from dcpdump.streams.opcodes import CONTROL
from dcpdump.streams.sight import Sight
from dcpdump.streams.state import Connection, Stream

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
_REPLICATION = ("replication:", "eq_dcpq:replication:", "eq_dcpq:", "repl:")


def control_asked(sight: Sight, connection: Connection) -> tuple[str, str]:
    """Return the key and the value of the control that an answer is for; empty where it was not captured."""
    waiting = connection.exchanges.asked(sight)
    return ("", "") if waiting is None else (waiting.key, waiting.value)


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
    if sight.word or not connection.name or connection.name.startswith(_REPLICATION):
        return None
    both = (key == "consumer_name" and connection.on("enable_sync_writes")) or (
        key == "enable_sync_writes" and value == "true" and "consumer_name" in connection.agreed
    )
    return "consumer_name and enable_sync_writes make this connection count for durable writes" if both else None


RULES = (late_control, exclusive, pretender)
