"""DCP1xx, second half: what a single message holds: lengths, datatypes, values, keys, reserved fields."""

from dcpdump.check.meaning import expiration_not_agreed, form_not_agreed, not_together, without_meaning
from dcpdump.check.rule import DECODED, INFO, MARKED, PACKED, SUSPICIOUS, VIOLATION, ZERO, Remark, Scope, Severity, rule
from dcpdump.check.rules.framing import name
from dcpdump.spec import MESSAGES
from dcpdump.streams.burst import Burst, Close
from dcpdump.streams.opcodes import (
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
    DOCUMENTS,
    EXPIRATION,
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
)
from dcpdump.streams.sight import Sight
from dcpdump.streams.state import XATTRS, Connection, Stream
from dcpdump.wire.frame import Fault
from dcpdump.wire.value import RESERVED_IDS, decompress, json_fault, read_prefix, split_xattrs

_JSON_BIT, _SNAPPY_BIT, _XATTR_BIT = 0x01, 0x02, 0x04
_WITH_VALUES = (*DOCUMENTS, PREPARE)
_KEYED = (*_WITH_VALUES, COMMIT, ABORT)
#: Messages whose datatype is 0.
_PLAIN = frozenset(
    {STREAM_REQ, CLOSE_STREAM, STREAM_END, MARKER, SET_STATE, NOOP, BUFFER_ACK, CONTROL, SEQNO_ACK, COMMIT, ABORT}
    | {ADVANCED, OSO, CACHED, CACHED_END, ADD_STREAM, 0x54}
)
_UNDERLYING = 0x40
_SNAPPY = 0x0A  #: of the features of HELLO
_SYSTEM_XATTRS = 1024 * 1024
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


def _was_asked(sight: Sight, stream: Stream) -> bool:
    """It says whether a rule for decoded frames was asked of one before it was asked of the same in its stream."""
    return sight.record is not None and stream.known


def _leaves_out(connection: Connection) -> bool:
    """It says whether a datatype may describe a body that was left out: so it may where DCP_OPEN was not witnessed."""
    return connection.open_flags is None or bool(connection.open_flags & _UNDERLYING)


@rule(
    "DCP103",
    "F3",
    "Sections or datatype that the message cannot have",
    severity=VIOLATION,
    source="daemon/mcbp_validators.cc",
    on=(DECODED, DELETION, EXPIRATION, PREPARE, OSO),
)
def sections(sight: Sight, connection: Connection, stream: Stream) -> Remark | None:
    """It sees extras of a length that the message does not have, keys and values that must or must not be there,
    values of other lengths than their fields need, a PREPARE without CAS, datatypes on messages without documents,
    flags, states and levels that mean nothing or exclude each other, and forms of STREAM_REQ, DELETION and EXPIRATION
    that HELLO, DCP_OPEN and controls did not agree on. Suspicious only: layouts and flags of old prototypes and
    previews, reasons of STREAM_END that mean nothing, and deletions with a body.

    A server refuses such a request with Einval; a client reads fields from the wrong places.

    Usual causes: an encoder of another version; extras length not changed with the layout.
    """
    if sight.response:
        return None
    if expiration_not_agreed(sight, connection, stream):
        return Remark("EXPIRATION, and enable_expiry_opcode is not on")
    if _was_asked(sight, stream):
        return None
    text, severity = _refused(sight, connection)
    if text:
        status = "" if sight.opcode == STREAM_END and severity else "Einval"  # of a reason nobody says so
        return Remark(f"{name(sight.opcode)}{text}", severity, status)
    if sight.opcode == DELETION and sight.value_length and not sight.datatype & _XATTR_BIT and not sight.get("nmeta"):
        return Remark(f"DELETION has a body of {sight.value_length} bytes", SUSPICIOUS)
    return None


def _refused(sight: Sight, connection: Connection) -> tuple[str, Severity | None]:
    """It says what a receiver refuses, and how bad that is where it is no violation."""
    record, opcode = sight.record, sight.opcode
    if record is not None and record.frame.message.dcp:
        for problem in record.frame.problems:
            if problem.code not in _ELSEWHERE:
                return f": {problem.text}", None
        if record.frame.layout.old:
            return f" in a layout of old releases ({sight.shape.version})", SUSPICIOUS
        text, severity = without_meaning(sight, record.frame.layout)
        if text:
            return f": {text}", severity
    text = not_together(sight) or form_not_agreed(sight, connection)
    if text:
        return f": {text}", None
    if sight.datatype and opcode in _PLAIN:
        return f" has datatype 0x{sight.datatype:02x}", None
    if opcode == PREPARE and not sight.cas:
        return " has CAS 0", None
    if opcode == DELETION and sight.datatype in (1, 3) and not _leaves_out(connection):
        return f" has datatype 0x{sight.datatype:02x}: JSON without XATTR", None
    return "", None


@rule(
    "DCP104",
    "F4",
    "Datatype that was not negotiated",
    severity=VIOLATION,
    source="daemon/mcbp_validators.cc, dcp/active_stream.cc",
    off="m",
    on=(PACKED, DECODED),
    scope=Scope.CONNECTION,
    status="Einval",
)
def datatype(sight: Sight, connection: Connection, stream: Stream) -> str | Remark | None:
    """It sees datatypes with unknown bits, with Snappy where HELLO did not grant it, or with XATTR where DCP_OPEN
    did not ask for them. Under the open flag 0x40 the bits may describe what was left out: suspicious only.

    A client that did not ask for Snappy does not decompress, and stores compressed bytes as the document.

    Usual causes: a HELLO repeated on the open connection; a proxy that negotiates on its own behalf.
    """
    bits = sight.datatype
    if not bits or sight.response or _was_asked(sight, stream):
        return None
    if bits > 7:
        return f"datatype 0x{bits:02x} has unknown bits"
    if sight.opcode not in _WITH_VALUES:
        return None
    flags, features = connection.open_flags, connection.features
    severity = SUSPICIOUS if flags is not None and flags & _UNDERLYING else None
    if bits & _SNAPPY_BIT and features is not None and _SNAPPY not in features:
        return Remark("the value is marked Snappy, which HELLO did not grant", severity)
    if bits & _XATTR_BIT and flags is not None and not flags & XATTRS:
        return Remark("the value is marked XATTR, which DCP_OPEN did not ask for", severity)
    return None


def _all_json(burst: Burst, close: Close, connection: Connection, stream: Stream) -> bool:
    return _leaves_out(connection) or not any(map(json_fault, close.texts))


@rule(
    "DCP105",
    "F5",
    "Value that is not what its datatype says",
    severity=VIOLATION,
    source="daemon/mcbp_validators.cc, dcp/passive_stream.cc",
    on=(MARKED,),
    status="Einval",
    spares=_all_json,
)
def value(sight: Sight, connection: Connection, stream: Stream) -> str | Remark | None:
    """It sees values marked Snappy that do not decompress, xattr blocks whose lengths do not add up (a server
    answers XattrEinval), system xattrs beyond 1 MiB (E2big), and bodies marked JSON that are none (suspicious).
    Snappy and JSON only where DCP_OPEN was captured: its flag 0x40 leaves bodies out and keeps their datatype.

    The document arrives, and cannot be read.

    Usual causes: a body that was compressed twice or never; xattrs cut off by a filter that kept the bit.
    """
    bits, at = sight.datatype, sight.value_at
    size = sight.value_length - (sight.get("nmeta") or 0)
    if size <= 0:
        return None
    body = sight.data[at : at + size]
    left_out = _leaves_out(connection)
    if bits & _SNAPPY_BIT:
        plain, fault = decompress(body)
        if plain is None:
            return None if left_out else fault
        body = plain
    if bits & _XATTR_BIT:
        pairs, body, fault = split_xattrs(body)
        if fault:
            return Remark(fault, status="XattrEinval")
        system = sum(len(key) + len(text) for key, text in pairs or () if key.startswith(b"_"))
        if system > _SYSTEM_XATTRS:
            return Remark(f"system xattrs of {system:,} bytes", status="E2big")
    if bits & _JSON_BIT and body and not left_out:
        fault = json_fault(body)
        if fault:
            return Remark(fault, SUSPICIOUS)
    return None


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


def _all_clear(burst: Burst, close: Close, connection: Connection, stream: Stream) -> bool:
    return True  # what has something in a reserved field is in no burst that is looked at closely


@rule(
    "DCP109",
    "F9",
    "Reserved field that is not zero",
    severity=INFO,
    source="memcached/protocol_binary.h",
    on=(*_RESERVED, *_WITHOUT_CAS),
    spares=_all_clear,
)
def reserved(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees values in fields that are reserved: DCP_OPEN's seqno, bytes 4-7 of a stream request, lock time,
    nmeta, the last byte of a deletion's extras, and the CAS of messages that have none.

    Today's receivers ignore them, or refuse the message; a later version may give them a meaning.

    Usual causes: memory that was not cleared; the layout of another version.
    """
    opcode = sight.opcode
    fields = sight.fields
    if opcode == MUTATION and len(fields) == 7 and not fields[4] and not fields[5]:
        return None
    if opcode in _WITHOUT_CAS:
        return f"{name(opcode)} has CAS 0x{sight.cas:x}" if sight.cas else None
    for at, field in _RESERVED[opcode].get(sight.shape.version, ()):
        if fields[at]:
            return f"{name(opcode)}: {field} is {fields[at]}"
    return None


def _all_sound(burst: Burst, close: Close, connection: Connection, stream: Stream) -> bool:
    return close.sound or not connection.has_collections


@rule(
    "DCP110",
    "F10",
    "Key without a proper collection id",
    severity=VIOLATION,
    source="daemon/mcbp_validators.cc, dockey",
    on=_KEYED,
    status="Einval",
    spares=_all_sound,
)
def collection_key(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees keys, on connections with collections, whose LEB128 prefix does not end, is not in its shortest form,
    names one of the reserved ids 1-7, or is followed by nothing.

    The prefix decides which collection the document is in: a wrong one files it where nobody looks.

    Usual causes: a key sent without its prefix, so that its first letters are taken for one.
    """
    if not connection.has_collections:
        return None
    data, at = sight.data, sight.key_at
    length = sight.value_at - at
    if not length or sight.value_at > len(data):  # lengths that contradict each other are another rule's
        return None
    first = data[at]
    if (not first or 7 < first < 0x80) and length > 1:
        return None
    if first >= 0x80 and length > 2 and 0 < data[at + 1] < 0x80:
        return None
    key = sight.key
    prefix = read_prefix(key)
    if prefix is None:
        return "the key ends inside its collection id"
    if prefix.fault:
        return prefix.fault
    if prefix.collection in RESERVED_IDS:
        return f"collection id {prefix.collection} is reserved"
    return "the key is a collection id and nothing else" if prefix.size == len(key) else None


@rule(
    "DCP112",
    "F12",
    "Seqno 0",
    severity=VIOLATION,
    source="dcp/consumer.cc",
    on=(ZERO,),
    status="Einval",
)
def zero(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees items with by seqno (or commit or abort seqno) 0.

    0 is the state before the first change; nothing has it. A consumer that stored it would stream from the
    beginning again.

    Usual causes: a field left empty; extras read from a wrong offset.
    """
    return f"{name(sight.opcode)} has seqno 0" if sight.opcode != ADVANCED else None


RULES = (sections, datatype, value, reserved, collection_key, zero)
