"""Judge meanings: values without one, flags that exclude each other, forms not agreed on, and wrong directions."""

from dcpdump.check.rule import SUSPICIOUS, VIOLATION, Severity
from dcpdump.spec.field import Bits, Layout
from dcpdump.spec.names import (
    ACTIVE_ONLY,
    CACHE_TRANSFER,
    COLLECTIONS_PREVIEW,
    DELETE_TIMES,
    DELETED_XATTRS,
    INCLUDE_XATTRS,
    JSON,
    MOST_DATATYPE,
    NO_VALUE,
    OSO_END,
    OSO_START,
    PRODUCER,
    SKIP_DELETES,
    TAKEOVER,
    UNDERLYING_DATATYPE,
)
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import (
    ADD_STREAM,
    CLOSE_STREAM,
    CONTROL,
    DELETION,
    EXPIRATION,
    FLUSH,
    HELLO,
    NOOP,
    OPEN,
    OSO,
    PREPARE,
    SET_STATE,
    STREAM_END,
    STREAM_REQ,
    STREAMED,
    WANTED,
)
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

#: By opcode: a field of which only some values have a meaning, what it is called, and how bad others are.
_MEANT = {
    OPEN: ("flags", "flags", VIOLATION),
    ADD_STREAM: ("flags", "flags", VIOLATION),
    STREAM_REQ: ("flags", "flags", VIOLATION),
    SET_STATE: ("state", "state", VIOLATION),
    PREPARE: ("durability_level", "durability level", VIOLATION),
    OSO: ("flags", "flags", VIOLATION),
    STREAM_END: ("status", "reason", SUSPICIOUS),  # not refused
}
_WITH_CACHE_TRANSFER = CACHE_TRANSFER | ACTIVE_ONLY | TAKEOVER
_EXPIRY = "enable_expiry_opcode"
_CONSUMER_NAME = "consumer_name"


def without_meaning(frame: FrameEvent, layout: Layout) -> tuple[str, Severity | None]:
    """Return the sentence and the severity for a value without a meaning."""
    opcode = frame.opcode
    field, called, severity = _MEANT.get(opcode, ("", "", None))
    number = frame.get(field)
    names = next((each.names for each in layout.extras if each.name == field), None)
    if number is None or names is None:
        return "", None
    odd = names.unknown(number)
    if odd < 0:
        old = number & names.old if isinstance(names, Bits) else 0
        return (f"flags 0x{old:x} are of old releases", SUSPICIOUS) if old else ("", None)
    text = f"{called} 0x{odd:x} have no meaning" if isinstance(names, Bits) else f"{called} {odd} has no meaning"
    return text, severity


def not_together(frame: FrameEvent) -> str:
    """Return the flags that exclude each other, or that need others."""
    opcode = frame.opcode
    flags = frame.get("flags") if opcode in (OPEN, ADD_STREAM, STREAM_REQ, OSO) else None
    if flags is None:
        return ""
    if opcode == OPEN:
        return _open_flags(flags)
    if opcode == OSO:
        both = "start and end" if flags & OSO_START and flags & OSO_END else "neither start nor end"
        return "" if flags in (OSO_START, OSO_END) else f"flags 0x{flags:x} are {both}"
    others = flags & ~_WITH_CACHE_TRANSFER if flags & CACHE_TRANSFER else 0
    return f"flag 0x100 (cache-transfer) excludes 0x{others:x}" if others else ""


def _open_flags(flags: int) -> str:
    if flags & NO_VALUE and flags & UNDERLYING_DATATYPE:
        return "flags 0x8 (no-value) and 0x40 (no-value-with-underlying-datatype) exclude each other"
    if flags & DELETED_XATTRS and not flags & INCLUDE_XATTRS:
        return "flag 0x100 (include-deleted-user-xattrs) needs 0x4 (include-xattrs)"
    if flags & SKIP_DELETES and not flags & PRODUCER:
        return "flag 0x200 (skip-deletes-in-initial-backfill) needs 0x1 (producer)"
    return ""


def form_not_agreed(frame: FrameEvent, connection: ConnectionState) -> str:
    """Return the form of a message that HELLO and DCP_OPEN have not agreed on, so that it is refused."""
    if frame.opcode == OPEN:
        return _open_value(frame)
    flags = connection.setup.flags
    if flags is None or flags & COLLECTIONS_PREVIEW:  # the preview had forms of its own
        return ""
    if frame.opcode == STREAM_REQ and frame.value_length and without_collections(connection):
        return "it has a value, and HELLO did not grant collections"
    if frame.opcode != DELETION or frame.shape.version not in ("1", "2"):
        return ""
    return deletion_not_agreed(connection, second=frame.shape.version == "2")


def deletion_not_agreed(connection: ConnectionState, *, second: bool) -> str:
    """Return why a deletion of version 1, or of version 2, is refused; empty if it is not."""
    flags = connection.setup.flags
    if flags is None or flags & COLLECTIONS_PREVIEW:
        return ""
    times = bool(flags & DELETE_TIMES)
    if times and not second:
        return "it is of version 1, and DCP_OPEN asked for delete times"
    if second and not times and (flags & PRODUCER or without_collections(connection)):
        return "it is of version 2, and DCP_OPEN did not ask for delete times"
    return ""


def _open_value(frame: FrameEvent) -> str:
    """Return the fault of the value of DCP_OPEN, which is empty or a JSON object with at most a consumer's name."""
    faults: list[str] = []
    document = None if frame.record is None else frame.record.meaning.document
    if frame.datatype <= MOST_DATATYPE and frame.datatype != (JSON if frame.value_length else 0):
        faults.append(f"it has datatype 0x{frame.datatype:02x} and {'a' if frame.value_length else 'no'} value")
    if frame.value_length and not isinstance(document, dict):
        faults.append("its value is not a JSON object")
    elif isinstance(document, dict):
        if document.keys() - {_CONSUMER_NAME}:  # which may be anybody's data, so it is not named
            faults.append("its value has a key other than consumer_name, which has no meaning")
        if not isinstance(document.get(_CONSUMER_NAME, ""), str):
            faults.append("its value has a consumer_name that is not a string")
        elif _CONSUMER_NAME in document and (frame.get("flags") or 0) & PRODUCER:
            faults.append("its value has consumer_name, which a producer does not take")
    return "; ".join(faults)


def expiration_not_agreed(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> bool:
    """Return whether this is an expiration that is to be sent as a deletion, enable_expiry_opcode not being on.

    Of a stream whose request was captured: the controls that it goes by were captured before this message.
    """
    return (
        frame.opcode == EXPIRATION
        and stream.request is not None
        and connection.setup.produces is True
        and connection.controls_known
        and not connection.setup.on(_EXPIRY)
        and not any(waiting.key == _EXPIRY for waiting in connection.asked_for(CONTROL))
    )


def without_collections(connection: ConnectionState) -> bool:
    """Return whether keys certainly have no collection ids."""
    waits = any(connection.asked_for(HELLO))
    return connection.setup.has_collections is False and not connection.doubtful and not waits


def is_in_wrong_direction(frame: FrameEvent, connection: ConnectionState) -> bool:
    """Return whether a DCP request is sent against the known roles of the ends."""
    opcode = frame.opcode
    if connection.producer_direction is None or opcode in (OPEN, ADD_STREAM, CLOSE_STREAM):
        return connection.setup.produces is True and opcode == ADD_STREAM
    if opcode in WANTED:
        return frame.direction == connection.producer_direction
    if opcode in STREAMED or opcode in (NOOP, FLUSH):
        return frame.direction != connection.producer_direction
    return False
