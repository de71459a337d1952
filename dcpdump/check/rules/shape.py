"""DCP1xx, second half: what a single message holds: lengths, datatypes, values, keys, reserved fields."""

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.finding import repeated
from dcpdump.check.meaning import (
    deletion_not_agreed,
    expiration_not_agreed,
    form_not_agreed,
    not_together,
    without_meaning,
)
from dcpdump.check.rule import INFO, SUSPICIOUS, VIOLATION, Event, Remark, Severity, rule
from dcpdump.check.rules.framing import name
from dcpdump.redact import hidden_numbers
from dcpdump.spec import MESSAGES
from dcpdump.spec.names import SNAPPY, XATTR
from dcpdump.streams.document_run import DocumentRun
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import (
    ABORT,
    ADD_STREAM,
    ADVANCED,
    BUFFER_ACK,
    CACHED,
    CACHED_END,
    CLOSE_STREAM,
    COMMIT,
    CONTROL,
    DELETION,
    EXPIRATION,
    FAILOVER_LOG,
    MARKER,
    MUTATION,
    NOOP,
    OPEN,
    OSO,
    PREPARE,
    SEQNO_ACK,
    SET_STATE,
    STREAM_END,
    STREAM_REQ,
    SYSTEM_EVENT,
    WITH_VALUES,
)
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.wire.frame import Fault
from dcpdump.wire.key_prefix import RESERVED_IDS, read_prefix
from dcpdump.wire.value import decompress, split_xattrs

_KEYED = (*WITH_VALUES, COMMIT, ABORT)
#: Messages whose datatype is 0.
_PLAIN = frozenset(
    {STREAM_REQ, CLOSE_STREAM, STREAM_END, MARKER, SET_STATE, NOOP, BUFFER_ACK, CONTROL, SEQNO_ACK, COMMIT, ABORT}
    | {ADVANCED, OSO, CACHED, CACHED_END, ADD_STREAM, FAILOVER_LOG}
)
UNDERLYING = 0x40
#: What is looked at elsewhere: by other rules, or below.
_ELSEWHERE = frozenset(
    {
        Fault.LENGTHS_CONTRADICT,
        Fault.TOO_LARGE,
        Fault.UNKNOWN_MAGIC,
        Fault.UNKNOWN_OPCODE,
        Fault.UNKNOWN_FRAME_INFO,
        Fault.UNKNOWN_DATATYPE,
        Fault.UNKNOWN_VALUE,
        Fault.STREAM_ID_NOT_COUNTED,
        Fault.CUT,
        Fault.LOST,
    }
)
#: What no consumer takes in a record of a cache transfer, and the bytes of the smallest.
_OF_RECORDS, _LEAST_RECORD = (Fault.WRONG_LENGTH, Fault.COLLECTION_ID), 42


def was_asked(frame: FrameEvent, stream: Stream) -> bool:
    """Return whether a rule for decoded frames was asked of one before it was asked of the same in its stream."""
    return frame.record is not None and stream.known


def leaves_out(connection: ConnectionState) -> bool:
    """Return whether a datatype may describe a body that was left out: it may where DCP_OPEN was not captured."""
    return connection.open_flags is None or bool(connection.open_flags & UNDERLYING)


def _none_refused(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool:
    return not any(
        close.forms & bit and deletion_not_agreed(connection, second=second) for bit, second in ((1, False), (2, True))
    )


@rule(
    "DCP103",
    "F3",
    "Sections or datatype that the message cannot have",
    severity=VIOLATION,
    source="daemon/mcbp_validators.cc",
    on=(Event.DECODED, DELETION, EXPIRATION, PREPARE, OSO),
    spares=_none_refused,
)
def sections(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Reported when a message has extras of a length that it cannot have, a key or value that must not be there, or
    lacks one that must; a value of another length than its fields need; a PREPARE without CAS; a datatype on a message
    without a document; flags, states or levels that mean nothing or exclude each other; a value of DCP_OPEN that is not
    a JSON object with a consumer_name at most, or is not marked as JSON; and when STREAM_REQ, DELETION, EXPIRATION or
    the value of DCP_OPEN is of a form that HELLO, DCP_OPEN and controls did not agree on. Suspicious only: layouts and
    flags of old prototypes and previews, reasons of STREAM_END that mean nothing, and deletions, expirations and
    prepares of deletions with a body.

    A server refuses such a request with Einval; a client reads fields from the wrong places.

    Usual causes: an encoder of another version; extras length not changed with the layout.
    """
    if frame.response:
        return None
    if expiration_not_agreed(frame, connection, stream):
        return Remark("EXPIRATION, and enable_expiry_opcode is not on")
    if was_asked(frame, stream):
        return None
    text, severity = _refused(frame, connection)
    if text:
        unchecked = frame.opcode in (ADVANCED, OSO) or (frame.opcode == STREAM_END and severity is not None)
        unchecked |= frame.opcode == CACHED and frame.value_length >= _LEAST_RECORD  # at those a consumer disconnects
        status = "" if unchecked else "Einval"
        return Remark(f"{name(frame.opcode)}{text}", severity, status)
    deleted = frame.opcode == PREPARE and frame.get("deleted")
    body = _body_size(frame) if deleted or frame.opcode in (DELETION, EXPIRATION) else 0
    of = " of a deletion" if deleted else ""
    return Remark(f"{name(frame.opcode)}{of} has a body of {body} bytes", SUSPICIOUS) if body else None


def _body_size(frame: FrameEvent) -> int:
    """Return how many bytes a value has behind its xattrs; 0 where those cannot be read, which another rule reports."""
    size = max(0, frame.value_length - (frame.get("nmeta") or 0))
    if not size or not frame.datatype & XATTR:
        return size
    value = frame.data[frame.value_at : frame.value_at + size]
    plain = decompress(value)[0] if frame.datatype & SNAPPY else None
    # Under flag 0x40 the bit may be that of what was left out.
    split = split_xattrs(value if plain is None else plain)
    return 0 if split.fault else len(split.body)


def _refused(frame: FrameEvent, connection: ConnectionState) -> tuple[str, Severity | None]:
    """Return what a receiver refuses, and how bad that is where it is not a violation."""
    record, opcode = frame.record, frame.opcode
    if record is not None and record.frame.message.dcp:
        inside = record.meaning.problems if opcode == CACHED else ()
        for problem in (*record.frame.problems, *(each for each in inside if each.code in _OF_RECORDS)):
            if problem.code not in _ELSEWHERE:
                return f": {repeated(problem.text, hidden_numbers(record.frame))}", None
        if record.frame.layout.old:
            return f" in a layout of old releases ({frame.shape.version})", SUSPICIOUS
        text, severity = without_meaning(frame, record.frame.layout)
        if text:
            return f": {text}", severity
    text = not_together(frame) or form_not_agreed(frame, connection)
    if text:
        return f": {text}", None
    if frame.datatype and opcode in _PLAIN:
        return f" has datatype 0x{frame.datatype:02x}", None
    if opcode == PREPARE and not frame.cas:
        return " has CAS 0", None
    if opcode == DELETION and frame.datatype in (1, 3) and not leaves_out(connection):
        return f" has datatype 0x{frame.datatype:02x}: JSON without XATTR", None
    return "", None


#: opcode → version of layout → where reserved fields stand among its fields, and their names
_RESERVED: dict[int, dict[str, tuple[tuple[int, str], ...]]] = {
    opcode: {
        layout.version: tuple(
            (at, field.name) for at, field in enumerate(layout.extras) if field.reserved or field.name == "nmeta"
        )
        for layout in MESSAGES[opcode].request
    }
    for opcode in (OPEN, STREAM_REQ, MUTATION, PREPARE, DELETION, EXPIRATION)
}
_WITHOUT_CAS = (SYSTEM_EVENT, SEQNO_ACK, COMMIT, ABORT, ADVANCED, OSO, CACHED, CACHED_END)


@rule(
    "DCP109",
    "F9",
    "Reserved field that is not zero",
    severity=INFO,
    source="memcached/protocol_binary.h",
    on=(*_RESERVED, *_WITHOUT_CAS),
    # What has something in a reserved field is in no run that is inspected closely.
    spares=lambda run, close, connection, stream: True,
)
def reserved(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when a reserved field is not zero: DCP_OPEN's seqno, bytes 4-7 of a stream request, lock time,
    nmeta, the last byte of a deletion's extras, and the CAS of messages that have none.

    Today's receivers ignore them, or refuse the message; a later version may give them a meaning.

    Usual causes: memory that was not cleared; the layout of another version.
    """
    opcode = frame.opcode
    fields = frame.fields
    if opcode == MUTATION and len(fields) == 7 and not fields[4] and not fields[5]:
        return None
    if opcode in _WITHOUT_CAS:
        return f"{name(opcode)} has CAS 0x{frame.cas:x}" if frame.cas else None
    for at, field in _RESERVED[opcode].get(frame.shape.version, ()):
        if fields[at]:
            return f"{name(opcode)}: {field} is {fields[at]}"
    return None


@rule(
    "DCP110",
    "F10",
    "Key without a proper collection id",
    severity=VIOLATION,
    source="daemon/mcbp_validators.cc, dockey",
    on=_KEYED,
    spares=lambda run, close, connection, stream: close.sound or not connection.has_collections,
)
def collection_key(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Reported when the LEB128 prefix of a key, on a connection with collections, does not end, is not in its shortest
    form, names one of the reserved ids 1-7, or is followed by nothing.

    The prefix decides which collection the document is in. A server's consumer answers Einval to documents and
    prepares; it does not check the keys of commits and aborts.

    Usual causes: a key sent without its prefix, so that its first letters are taken for one.
    """
    if not connection.has_collections:
        return None
    data, at = frame.data, frame.key_at
    length = frame.value_at - at
    if not length or frame.value_at > len(data):  # lengths that contradict each other are another rule's
        return None
    first = data[at]
    if (not first or 7 < first < 0x80) and length > 1:
        return None
    if first >= 0x80 and length > 2 and 0 < data[at + 1] < 0x80:
        return None
    fault = _prefix_fault(frame.key)
    return Remark(fault, status="" if frame.opcode in (COMMIT, ABORT) else "Einval") if fault else None


def _prefix_fault(key: bytes) -> str:
    """Return what is wrong with the collection id of a key; nothing where it is right."""
    prefix = read_prefix(key)
    if prefix is None:
        return "the key ends inside its collection id"
    if prefix.fault:
        return repeated(prefix.fault)
    if prefix.collection in RESERVED_IDS:
        return f"collection id {prefix.collection} is reserved"
    return "the key is a collection id and nothing else" if prefix.size == len(key) else ""


@rule(
    "DCP112",
    "F12",
    "Seqno 0",
    severity=VIOLATION,
    source="dcp/consumer.cc",
    on=(Event.ZERO,),
)
def zero(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Reported when the by seqno (or commit or abort seqno) of a message is 0.

    0 is the state before the first change; no change has it. A consumer that stored it would stream from the
    beginning again. A server's consumer answers Einval, but does not check it in system events.

    Usual causes: a field left empty; extras read from a wrong offset.
    """
    if frame.opcode == ADVANCED:
        return None
    return Remark(f"{name(frame.opcode)} has seqno 0", status="" if frame.opcode == SYSTEM_EVENT else "Einval")


RULES = (sections, reserved, collection_key, zero)
