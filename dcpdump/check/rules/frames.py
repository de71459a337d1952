"""DCP1xx: single frames: requests and their answers, layouts, values, keys, and who may send a message."""

from collections.abc import Iterator, Sequence

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.finding import repeated
from dcpdump.check.meaning import (
    deletion_not_agreed,
    expiration_not_agreed,
    form_not_agreed,
    not_together,
    without_collections,
    without_meaning,
)
from dcpdump.check.rule import (
    INFO,
    RESPONSE,
    SUSPICIOUS,
    VIOLATION,
    Broken,
    Delayed,
    Event,
    Remark,
    Scope,
    Severity,
    Suspend,
    rule,
)
from dcpdump.redact import ANY_NUMBER, hidden_numbers, is_stray
from dcpdump.spec import MESSAGES, find
from dcpdump.spec.field import Message
from dcpdump.spec.header import MAGICS, REQUEST_INFOS, STREAM_ID_INFO, STREAM_ID_LENGTH
from dcpdump.spec.names import FROM_LATEST, INCLUDE_XATTRS, JSON, SNAPPY, XATTR
from dcpdump.spec.statuses import STATUS
from dcpdump.streams.frame_event import DocumentRun, FrameEvent
from dcpdump.streams.opcode_kinds import (
    ABORT,
    ADVANCED,
    CACHED,
    CACHED_END,
    COMMIT,
    CONTROL,
    DELETION,
    EXPIRATION,
    FLUSH,
    MARKER,
    MUTATION,
    NOOP,
    OPEN,
    OSO,
    PREPARE,
    SEQNO_ACK,
    STREAM_END,
    STREAM_REQ,
    STREAMED,
    SYSTEM_EVENT,
    WITH_VALUES,
)
from dcpdump.streams.state import SECOND, ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.wire.decode import bare_infos
from dcpdump.wire.frame import Fault
from dcpdump.wire.json_text import json_fault, not_json
from dcpdump.wire.session import ALONE
from dcpdump.wire.value import RESERVED_IDS, decompress, read_prefix, split_xattrs

# -- frames as such, requests and their answers, and which stream a message belongs to ----------------

_DUPLEX = 0x0C
_SILENT = [opcode for opcode in sorted(STREAMED - {MARKER}) if not MESSAGES[opcode].replies]


def name(opcode: int) -> str:
    """Return a message's name."""
    return find(opcode).name.removeprefix("DCP_")


def without_stream(connection: ConnectionState) -> str:
    """Return what a server's consumer answers to messages of a vbucket of which it has no stream."""
    return "DcpStreamNotFound" if connection.setup.on("v7_dcp_status_codes") else "KeyEnoent"


def unmatched(frame: FrameEvent, connection: ConnectionState) -> str:
    """Return what a server's consumer answers to messages whose opaque is not that of the vbucket's stream."""
    if frame.opcode == STREAM_END:
        return ""  # that is ignored
    return "OpaqueNoMatch" if connection.setup.on("v7_dcp_status_codes") else "KeyEexists"


@rule("DCP101", "F1", VIOLATION, on=(Event.DECODED, Event.SKIPPED), scope=Scope.CONNECTION)
def magic(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Invalid magic byte, or one that this side may not use.

    Reported when a frame begins with a byte that is not a magic, and when a message of magic 0x82 or 0x83 comes
    from the wrong side, or on a connection on which HELLO did not grant Duplex.

    A reader that meets an unknown magic has lost its place in the stream, and closes the connection.

    Usual causes: a frame written with a wrong length before this one; a proxy that mixes two connections.

    Source: include/mcbp/protocol/magic.h
    """
    if frame.before is not None:
        return f"{frame.gap_before:,} bytes before this frame begin with no magic of the protocol"
    if not frame.server:
        if frame.magic in MAGICS:
            return None
        return f"0x{frame.magic:02x} is not a magic of the protocol"
    if connection.setup.features is not None and _DUPLEX not in connection.setup.features:
        return f"magic 0x{frame.magic:02x}, but HELLO did not grant Duplex"
    if (
        connection.setup.opened_by is not None
        and (frame.direction == connection.setup.opened_by.direction) is not frame.response
    ):
        side = "client" if frame.direction == connection.setup.opened_by.direction else "server"
        return f"magic 0x{frame.magic:02x} from the {side}"
    return None


@rule("DCP102", "F2", VIOLATION, on=(Event.DECODED,), status="Einval")
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


@rule("DCP106", "F6", SUSPICIOUS, on=(Event.UNREQUESTED,), scope=Scope.CONNECTION)
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


@rule("DCP107", "F7", SUSPICIOUS, on=(Event.OVERDUE,), scope=Scope.CONNECTION)
def unanswered(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Request without an answer.

    Reported when a request that is always answered was not: a later one of the same kind was answered, or half
    a minute passed in which the client could be answered: its TCP receive window was not zero. Where the capture or the
    connection ended sooner than that, it says so as information. An answer that comes even later is one all the same.

    Usual causes: a server that is stuck or overloaded.

    Source: daemon/protocol/mcbp
    """
    opcode = delayed.frame.opcode
    if opcode == NOOP and delayed.frame.direction != connection.producer_direction:
        return None  # DCP516 says so
    if opcode in ALONE and opcode != NOOP:
        return None  # quiet commands are mostly not answered
    text = f"{name(opcode)} was not answered in {delayed.waited_ns / SECOND:,.1f} s"
    if not delayed.late:
        return Remark(f"{text}; then the {'connection' if connection.end.gone else 'capture'} ends", INFO)
    return text if opcode != NOOP else None  # of those DCP511 says so


@rule("DCP108", "F8", VIOLATION, on=(Event.STRAY,), scope=Scope.STREAM)
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
    if not stream.known or stream.vbucket != frame.word or stream.stream_id < 0 or stream.stream_id == frame.stream_id:
        return None
    if not frame.stream_id and not find(frame.opcode).stream_id:
        return None
    is_there = frame.stream_id or any(_is_stream_id_0(identity, data) for identity, data in _infos(frame))
    has = f"stream id {frame.stream_id}" if is_there else "no stream id"
    wants = f"stream id {stream.stream_id}" if stream.stream_id else "none"
    return f"{name(frame.opcode)} has {has}, the stream request had {wants}"


@rule("DCP111", "F11", VIOLATION, on=(Event.STRAY,), scope=Scope.STREAM)
def vbucket(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Vbucket is not that of the stream.

    Reported when the opaque of a message belongs to the stream of another vbucket.

    A server's consumer goes by the vbucket: where it has a stream of another opaque it answers KeyEexists, where it
    has none KeyEnoent (with v7_dcp_status_codes OpaqueNoMatch and DcpStreamNotFound). An application that goes by the
    opaque files the document under the wrong vbucket.

    Usual causes: an opaque used for two streams; a vbucket taken from the wrong place by a proxy.

    Source: dcp/active_stream.cc
    """
    if not stream.known or stream.vbucket == frame.word:
        return None
    text = f"{name(frame.opcode)} of vbucket {frame.word} has the opaque of the stream of vbucket {stream.vbucket}"
    known = connection.stream_of(frame)
    has_one = known is not None and known.live
    return Remark(text, status=unmatched(frame, connection) if has_one else without_stream(connection))


@rule("DCP116", "F16", VIOLATION, on=(FLUSH, Event.WRONG_DIRECTION), status="NotSupported")
def flush(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """DCP_FLUSH.

    Reported when DCP_FLUSH is sent, by either side. Servers have never supported it, and answer NotSupported.

    Usual causes: a client written after a draft of the protocol.

    Source: daemon/mcbp_validators.cc
    """
    return "DCP_FLUSH, which no server supports" if frame.opcode == FLUSH else None


@rule("DCP117", "F17", SUSPICIOUS, on=tuple(opcode | RESPONSE for opcode in _SILENT))
def silent(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Success reported of a message that is not answered.

    Reported when a consumer answers a document, an event, a durable write, STREAM_END, SEQNO_ADVANCED,
    OSO_SNAPSHOT or a cache transfer with Success. Only errors are answered.

    A producer ignores most of these answers, and closes the connection at those to SEQNO_ADVANCED and OSO_SNAPSHOT.

    Usual causes: a consumer that answers everything.

    Source: daemon/protocol/mcbp
    """
    return None if frame.word else f"{name(frame.opcode)} answered with Success"


def _infos(frame: FrameEvent) -> Iterator[tuple[int, bytes]]:
    """Yield the id and the data of each frame info of a request."""
    return bare_infos(frame.framing if MAGICS[frame.magic].flexible else b"")


def _is_stream_id_0(identity: int, data: bytes) -> bool:
    return identity == STREAM_ID_INFO and data == bytes(STREAM_ID_LENGTH - 1)


def _to_consumer(frame: FrameEvent, connection: ConnectionState) -> bool:
    """Return whether a frame is sent to a server that DCP_OPEN made a consumer."""
    opened_by = connection.setup.opened_by
    return connection.setup.produces is False and opened_by is not None and frame.direction == opened_by.direction


def _no_consumer(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool:
    # What has stream id 0 is in no run that is inspected closely.
    return connection.setup.produces is not False


@rule("DCP118", "F18", VIOLATION, on=(Event.FRAMED,), can_skip_run=_no_consumer)
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
    if not message.dcp or _contradicts(frame):
        return []
    to_consumer = _to_consumer(frame, connection)
    remarks = (_info_remark(message, each, data, to_consumer=to_consumer) for each, data in _infos(frame))
    return list(dict.fromkeys(each for each in remarks if each is not None))


def _contradicts(frame: FrameEvent) -> bool:
    """Return whether the lengths of a header contradict each other, which another rule reports."""
    problems = () if frame.record is None else frame.record.frame.problems
    return any(problem.code is Fault.LENGTHS_CONTRADICT for problem in problems)


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


# -- what a message holds: lengths, keys, reserved fields ---------------------------------------------

_KEYED = (*WITH_VALUES, COMMIT, ABORT)
#: Messages of DCP that may have another datatype than 0.
_TYPED = frozenset({*WITH_VALUES, OPEN, FLUSH, SYSTEM_EVENT})
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
    return connection.setup.flags is None or bool(connection.setup.flags & UNDERLYING)


def _none_refused(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool:
    return not any(
        close.forms & bit and deletion_not_agreed(connection, second=second) for bit, second in ((1, False), (2, True))
    )


@rule("DCP103", "F3", VIOLATION, on=(Event.DECODED, DELETION, EXPIRATION, PREPARE, OSO), can_skip_run=_none_refused)
def sections(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Sections or datatype that the message cannot have.

    Reported when a message has extras of a length that it cannot have, a key or value that must not be there, or
    lacks one that must; a value of another length than its fields need; a PREPARE without CAS; a datatype on a message
    without a document; flags, states or levels that mean nothing or exclude each other; a value of DCP_OPEN that is not
    a JSON object with a consumer_name at most, or is not marked as JSON; and when STREAM_REQ, DELETION, EXPIRATION or
    the value of DCP_OPEN is of a form that HELLO, DCP_OPEN and controls did not agree on. Suspicious only: layouts and
    flags of old prototypes and previews, reasons of STREAM_END that mean nothing, and deletions, expirations and
    prepares of deletions with a body.

    A server refuses such a request with Einval; a client reads fields from the wrong places.

    Usual causes: an encoder of another version; extras length not changed with the layout.

    Source: daemon/mcbp_validators.cc
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
    if frame.datatype and opcode not in _TYPED and find(opcode).dcp:
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


# What has something in a reserved field is in no run that is inspected closely.
@rule("DCP109", "F9", INFO, on=(*_RESERVED, *_WITHOUT_CAS), can_skip_run=lambda run, close, connection, stream: True)
def reserved(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reserved field that is not zero.

    Reported when a reserved field is not zero: DCP_OPEN's seqno, bytes 4-7 of a stream request, lock time,
    nmeta, the last byte of a deletion's extras, and the CAS of messages that have none.

    Today's receivers ignore them, or refuse the message; a later version may give them a meaning.

    Usual causes: memory that was not cleared; the layout of another version.

    Source: memcached/protocol_binary.h
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
    VIOLATION,
    on=_KEYED,
    can_skip_run=lambda run, close, connection, stream: close.sound or not connection.setup.has_collections,
)
def collection_key(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Key without a proper collection id.

    Reported when the LEB128 prefix of a key, on a connection with collections, does not end, is not in its shortest
    form, names one of the reserved ids 1-7, or is followed by nothing.

    The prefix decides which collection the document is in. A server's consumer answers Einval to documents and
    prepares; it does not check the keys of commits and aborts.

    Usual causes: a key sent without its prefix, so that its first letters are taken for one.

    Source: daemon/mcbp_validators.cc, dockey
    """
    if not connection.setup.has_collections:
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


@rule("DCP112", "F12", VIOLATION, on=(Event.ZERO,))
def zero(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Seqno 0.

    Reported when the by seqno (or commit or abort seqno) of a message is 0.

    0 is the state before the first change; no change has it. A consumer that stored it would stream from the
    beginning again. A server's consumer answers Einval, but does not check it in system events.

    Usual causes: a field left empty; extras read from a wrong offset.

    Source: dcp/consumer.cc
    """
    if frame.opcode == ADVANCED:
        return None
    return Remark(f"{name(frame.opcode)} has seqno 0", status="" if frame.opcode == SYSTEM_EVENT else "Einval")


# -- the datatype of a value, and whether the value is what it says -----------------------------------

_SNAPPY = 0x0A  #: of the features of HELLO
_SYSTEM_XATTRS = 1024 * 1024
#: What a server counts of an xattr beside key and value: its length, and two zero bytes.
_AROUND = 6


def _all_granted(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool:
    return not any(_not_granted(bits, connection) for bits in {bits for _, bits, _ in close.packed})


@rule(
    "DCP104",
    "F4",
    VIOLATION,
    on=(Event.PACKED, Event.DECODED),
    scope=Scope.CONNECTION,
    status="Einval",
    can_skip_run=_all_granted,
)
def datatype(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Datatype that was not negotiated.

    Reported when a datatype has unknown bits, Snappy where HELLO did not grant it (nor, up to 5.1, the control
    enable_value_compression), or XATTR where DCP_OPEN did not ask for them. Under the open flag 0x40 the bits may
    describe what was left out: suspicious only.

    A client that did not ask for Snappy does not decompress, and stores compressed bytes as the document.

    Usual causes: a HELLO repeated on the open connection; a proxy that negotiates on its own behalf.

    Source: daemon/mcbp_validators.cc, dcp/active_stream.cc
    """
    bits = frame.datatype
    if not bits or frame.response or was_asked(frame, stream):
        return None
    if bits > 7:
        return f"datatype 0x{bits:02x} has unknown bits"
    if frame.opcode not in WITH_VALUES:
        return None
    text = _not_granted(bits, connection)
    flags = connection.setup.flags
    severity = SUSPICIOUS if flags is not None and flags & UNDERLYING else None
    return Remark(text, severity) if text else None


def _not_granted(bits: int, connection: ConnectionState) -> str:
    """Return what of a datatype was not agreed on; nothing where all of it was."""
    flags, features = connection.setup.flags, connection.setup.features
    compresses = features is None or _SNAPPY in features or connection.setup.on("enable_value_compression")
    if bits & SNAPPY and not compresses:
        return "the value is marked Snappy, which HELLO did not grant"
    if bits & XATTR and flags is not None and not flags & INCLUDE_XATTRS:
        return "the value is marked XATTR, which DCP_OPEN did not ask for"
    return ""


def _all_as_marked(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool | Broken:
    broken: list[int] = []
    for place, bits, body in close.packed:
        answer = _misread(bits, body, connection)
        if answer is not None and answer.severity is SUSPICIOUS:
            broken.append(place)
        elif answer:
            return False
    if not leaves_out(connection):
        texts = close.texts
        broken += [texts.places[number] for number in not_json(texts.data, texts.starts, texts.ends)]
    return Broken(sorted(broken), SUSPICIOUS) if broken else True


@rule("DCP105", "F5", VIOLATION, on=(Event.MARKED,), can_skip_run=_all_as_marked)
def value(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Value that is not what its datatype says.

    Reported when a value marked Snappy does not decompress (Einval), when the lengths of xattrs do not add up, a key
    of them is empty or there twice, or a value of them is not JSON (a server answers XattrEinval), when a value marked
    XATTR is empty (the same), when system xattrs are larger than 1 MiB (E2big), and when a body marked JSON is not JSON
    (suspicious: no receiver parses it). Snappy, JSON and empty values only where DCP_OPEN was captured: its flag 0x40
    leaves bodies out and keeps their datatype.

    The document arrives, and cannot be read.

    Usual causes: a body that was compressed twice or never; xattrs cut off by a filter that kept the bit.

    Source: daemon/mcbp_validators.cc, dcp/passive_stream.cc
    """
    at = frame.value_at
    size = frame.value_length - (frame.get("nmeta") or 0)
    return None if size < 0 else _misread(frame.datatype, frame.data[at : at + size], connection)


def _misread(bits: int, body: bytes, connection: ConnectionState) -> Remark | None:
    """Return why a body is not what its datatype says; None where it is."""
    left_out = leaves_out(connection)
    if not body:
        empty = bits & XATTR and not left_out
        return Remark("the value is marked XATTR and is empty", status="XattrEinval") if empty else None
    if bits & SNAPPY:
        plain, fault = decompress(body)
        if plain is None:
            return None if left_out else Remark(repeated(fault), status="Einval")
        body = plain
    if bits & XATTR:
        pairs, body, _, fault = split_xattrs(body)
        fault = fault or _refused_xattrs(pairs or ())
        if fault:
            return Remark(repeated(fault), status="XattrEinval")
        system = sum(len(key) + len(text) + _AROUND for key, text in pairs or () if key.startswith(b"_"))
        if system > _SYSTEM_XATTRS:
            return Remark(f"system xattrs of {system:,} bytes", status="E2big")
    if bits & JSON and body and not left_out:
        fault = json_fault(body)
        if fault:
            return Remark(repeated(fault), SUSPICIOUS)
    return None


def _refused_xattrs(pairs: Sequence[tuple[bytes, bytes]]) -> str:
    """Return why a server refuses xattrs whose lengths are right; nothing where it takes them."""
    seen: set[bytes] = set()
    for at, (key, text) in enumerate(pairs):
        if not key:
            return f"xattr {at} has an empty key"
        if key in seen:
            return f"xattr {at} has the key of one before it"
        seen.add(key)
        if json_fault(text):
            return f"the value of xattr {at} is not JSON"
    return ""


# -- keys, and the collections that they name ---------------------------------------------------------

#: Bytes of a key, with its collection id; without collections; and of its own where it is not the default collection.
_WITH_ID, _WITHOUT, _LOGICAL = 251, 250, 246
_CREATES_COLLECTION, _CREATES_SCOPE, _MODIFIES = 0, 3, 5
_NAMED = {_CREATES_COLLECTION: "BeginCollection", _CREATES_SCOPE: "CreateScope", _MODIFIES: "ModifyCollection"}
_EVENTS_ID = 1  #: the namespace of system events: of this id alone a consumer does not say that it is reserved


@rule(
    "DCP113",
    "F13",
    VIOLATION,
    on=(*WITH_VALUES, COMMIT, ABORT, SYSTEM_EVENT, OPEN, CONTROL),
    status="Einval",
    can_skip_run=lambda run, close, connection, stream: close.longest <= _LOGICAL,
)
def too_long(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Key that is too long.

    Reported when a key has more than 250 bytes, or with collections more than 251 with its collection id, or more
    than 246 behind the id of another collection than the default one. The name of DCP_OPEN and the keys of controls
    and system events are keys, too.

    The receiver refuses the message with Einval.

    Usual causes: a name made of host, bucket and uuid; a proxy that adds a prefix to keys.

    Source: include/memcached/limits.h, include/memcached/dockey_view.h
    """
    length = frame.value_at - frame.key_at
    if length <= _LOGICAL:
        return None
    most = _WITHOUT if without_collections(connection) else _WITH_ID
    if length > most:
        return f"the key of {name(frame.opcode)} has {length} bytes, more than {most}"
    if not connection.setup.has_collections or frame.opcode not in WITH_VALUES:
        return None
    prefix = read_prefix(frame.key)
    if prefix is None or not prefix.collection or length - prefix.size <= _LOGICAL:
        return None
    return f"the key has {length - prefix.size} bytes behind its collection id, more than {_LOGICAL}"


@rule("DCP114", "F14", VIOLATION, on=(SYSTEM_EVENT,))
def odd_event(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """System event that creates what cannot be.

    Reported when a collection or scope is created with an id from 1 to 7, which are reserved, or without a name.

    A server's consumer answers Einval to a reserved id.

    Usual causes: an id read from the wrong place; an event of a drop, which has no name, with the number of a
    creation.

    Source: include/memcached/dockey_view.h, systemevent_factory.cc
    """
    if frame.record is None:
        return None
    get = frame.record.frame.get
    event = get("event")
    if event not in _NAMED:
        return None
    for what, number in (("collection", get("collection_id")), ("scope", get("scope_id"))):
        if number is not None and number in RESERVED_IDS and (what == "scope" or event != _CREATES_SCOPE):
            status = "" if what == "collection" and number == _EVENTS_ID else "Einval"
            return Remark(f"{_NAMED[event]} with {what} id {number}, which is reserved", status=status)
    return None if frame.key else Remark(f"{_NAMED[event]} without a name")


def _from_zero(stream: Stream) -> bool:
    """Return whether all of a stream was captured, from seqno 0 on: every collection was created in it."""
    request = stream.grant
    if request is None or request.start_seqno != 0 or request.bits & FROM_LATEST or not request.readable:
        return False
    return not stream.doubtful and not stream.traffic.oso_snapshots


def _none_closed(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool:
    known = stream.collections
    if not connection.setup.has_collections or not known or (all(known.values()) and not _from_zero(stream)):
        return True
    first = {key[:1] for key in close.keys}
    return all(len(each) == 1 and (not each[0] or known.get(each[0], False)) and each[0] < 0x80 for each in first)


@rule(
    "DCP115",
    "F15",
    VIOLATION,
    on=WITH_VALUES,
    scope=Scope.STREAM,
    off=(Suspend.OUT_OF_ORDER,),
    status="UnknownCollection",
    can_skip_run=_none_closed,
)
def not_there(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Document of a collection that is not there.

    Reported when a document or prepare comes of a collection that was dropped before in the same stream; and, as
    suspicious, of one that was not created in a stream that was captured from seqno 0 on, and in which others were.

    The consumer does not know where the document belongs. (The default collection is never created.)

    Usual causes: a producer that filters by a manifest that is behind; events that a proxy left out.

    Source: collections/vbucket_manifest.cc
    """
    known = stream.collections
    if not connection.setup.has_collections or not known or (all(known.values()) and not _from_zero(stream)):
        return None
    prefix = read_prefix(frame.key)
    if prefix is None or not prefix.collection or known.get(prefix.collection):
        return None
    text = f"{name(frame.opcode)} of collection 0x{prefix.collection:x}, which was"
    if prefix.collection in known:
        return f"{text} dropped"
    return Remark(f"{text} not created", SUSPICIOUS) if _from_zero(stream) else None
