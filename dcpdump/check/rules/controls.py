"""DCP210-216: controls: when they are sent, which of them may be accepted, and which are misspelt."""

from dcpdump.check.finding import quoted
from dcpdump.check.rule import INFO, RESPONSE, SUSPICIOUS, VIOLATION, Remark, Scope, Suspend, rule
from dcpdump.escape import safe
from dcpdump.spec.names import CONTROL_KEYS, DELETED_XATTRS, REPLICATION
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import CONTROL
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.text import nearest

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
#: The values that a control can have, where not any will do.
_VALUES = {
    "backfill_order": ("round-robin", "sequential"),
    "set_priority": ("high", "medium", "low"),
    "enable_out_of_order_snapshots": ("true", "true_with_seqno_advanced"),
    "max_marker_version": ("2.2",),
    **dict.fromkeys(
        (
            "enable_stream_id",
            "enable_sync_writes",
            "include_deleted_user_xattrs",
            "v7_dcp_status_codes",
            "flatbuffers_system_events",
            "change_streams",
        ),
        ("true",),
    ),
}
_SNAPPY = 0x0A  #: of the features of HELLO


def control_asked(frame: FrameEvent, connection: ConnectionState) -> tuple[str, str]:
    """Return the key and the value of the control that an answer is for; empty where it was not captured."""
    waiting = connection.exchanges.asked(frame)
    return ("", "") if waiting is None else (waiting.key, waiting.value)


@rule(
    "DCP210",
    "C10",
    "Control after the streams that it should change",
    severity=SUSPICIOUS,
    source="dcp/producer.cc, dcp/active_stream.cc",
    off=(Suspend.START,),
    on=(CONTROL,),
    scope=Scope.CONNECTION,
)
def late_control(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when a control that is read when a stream is created is sent while streams are open.

    It changes later streams only; those that are open stay as they were.

    Usual causes: controls sent in parallel with stream requests.
    """
    key = safe(frame.key)
    streams = connection.current.values()
    if key not in _AT_CREATION or not any(each.begin_captured and each.live and not each.closed for each in streams):
        return None
    if connection.exchanges.early(frame.direction, CONTROL, frame.opaque) is not None:
        return None  # it was captured after its answer, and maybe after the streams
    return f"{key} changes nothing for the streams that are open"


@rule(
    "DCP212",
    "C12",
    "Stream ids and durable writes together",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off=(Suspend.START,),
    on=(CONTROL | RESPONSE,),
    scope=Scope.CONNECTION,
    status="NotSupported",
)
def exclusive(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when both enable_stream_id and enable_sync_writes are accepted.

    They exclude each other; the second is to be refused with NotSupported.

    Usual causes: a proxy that answers controls itself.
    """
    key, value = control_asked(frame, connection)
    other = {"enable_stream_id": "enable_sync_writes", "enable_sync_writes": "enable_stream_id"}.get(key)
    if frame.word or other is None or value != "true" or not connection.on(other):
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
def pretender(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when consumer_name and enable_sync_writes are accepted on a connection whose name is not one of
    replication.

    The server waits for this client's acknowledgements when it decides about durable writes.

    Usual causes: controls copied from a capture of replication.
    """
    key, value = control_asked(frame, connection)
    if frame.word or not connection.name or connection.name.startswith(REPLICATION):
        return None
    both = (key == "consumer_name" and connection.on("enable_sync_writes")) or (
        key == "enable_sync_writes" and value == "true" and "consumer_name" in connection.agreed
    )
    return "consumer_name and enable_sync_writes make this connection count for durable writes" if both else None


@rule(
    "DCP215",
    "C15",
    "Control accepted that is to be refused",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off=(Suspend.START,),
    on=(CONTROL | RESPONSE,),
    scope=Scope.CONNECTION,
)
def accepted(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Reported when a producer accepts a control that it has to refuse: stream_buffer_size, force_value_compression
    where HELLO did not grant Snappy, include_deleted_user_xattrs where DCP_OPEN did not ask for them,
    max_marker_version 2.2 without collections, and values that a control cannot have. Keys that are unknown here may
    be known to another version, and are not judged.

    The client relies on something that the producer does not do.

    Usual causes: a proxy that answers controls itself.
    """
    key, value = control_asked(frame, connection)
    if frame.word or not key or connection.produces is not True:
        return None
    status = _refusal(key, value, connection)
    return Remark(f"{key}={quoted(value)} accepted", status=status) if status else None


def _refusal(key: str, value: str, connection: ConnectionState) -> str:
    """Return with which status a producer refuses a control; nothing where it accepts it."""
    if key == "stream_buffer_size":
        return "NotSupported"
    if value not in _VALUES.get(key, (value,)) or (key == "set_noop_interval" and not _is_interval(value)):
        return "Einval"
    features, flags = connection.features, connection.open_flags
    if key == "force_value_compression" and features is not None and _SNAPPY not in features:
        return "Einval"
    if key == "include_deleted_user_xattrs" and flags is not None and not flags & DELETED_XATTRS:
        return "Einval"
    if key == "max_marker_version" and value == "2.2" and connection.has_collections is False:
        return "NotSupported"
    return ""


def _is_interval(value: str) -> bool:
    try:
        return float(value) > 0
    except ValueError:
        return False


_NEAR = 0.85  #: of 1, which is the same


@rule(
    "DCP216",
    "C16",
    "Control key that is misspelt",
    severity=SUSPICIOUS,
    source="control.md, dcp/producer.cc",
    on=(CONTROL,),
    status="Einval",
)
def misspelt(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when the key of a CONTROL is not one that any release knows, and differs little from one that is.

    A producer refuses what it does not know. (Keys that resemble none may be those of a later release.)

    Usual causes: a letter that is missing, doubled or of the wrong case.
    """
    key = frame.key.decode("ascii", "replace")
    if key in CONTROL_KEYS:
        return None
    known = {name.lower(): name for name in CONTROL_KEYS}
    near = nearest(key.lower(), known, n=1, cutoff=_NEAR)
    return f"control key {quoted(frame.key)}: no release knows it; {known[near[0]]} is near" if near else None


RULES = (late_control, exclusive, pretender, accepted, misspelt)
