"""DCP1xx: what single messages hold: lengths, flags, keys, values and their datatypes, collections."""

from collections.abc import Sequence

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.finding import repeated
from dcpdump.check.rule import INFO, SUSPICIOUS, VIOLATION, Broken, Event, Remark, Scope, Suspend, rule, skipping
from dcpdump.check.rules.frames import name
from dcpdump.redact import hidden_numbers
from dcpdump.spec import MESSAGES, find, names
from dcpdump.spec.field import Bits, Layout
from dcpdump.streams import opcode_kinds as kinds
from dcpdump.streams.frame_event import DocumentRun, FrameEvent
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.wire.frame import Fault
from dcpdump.wire.json_text import json_fault, not_json
from dcpdump.wire.value import RESERVED_IDS, decompress, read_prefix, split_xattrs

# -- what a message holds: lengths, keys, reserved fields ---------------------------------------------

#: Messages of DCP that may have another datatype than 0.
_TYPED = frozenset({*kinds.WITH_VALUES, kinds.OPEN, kinds.FLUSH, kinds.SYSTEM_EVENT})
#: What is looked at elsewhere: by other rules, or below.
_ELSEWHERE = (
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
)
#: What no consumer takes in a record of a cache transfer, and the bytes of the smallest.
_OF_RECORDS, _LEAST_RECORD = (Fault.WRONG_LENGTH, Fault.COLLECTION_ID), 42


def was_asked(frame: FrameEvent, stream: Stream) -> bool:
    """Return whether a rule for decoded frames was asked of one before it was asked of the same in its stream."""
    return frame.record is not None and stream.known


def leaves_out(connection: ConnectionState) -> bool:
    """Return whether a datatype may describe a body that was left out: it may where DCP_OPEN was not captured."""
    return connection.setup.flags is None or bool(connection.setup.flags & names.UNDERLYING_DATATYPE)


def _none_refused(run: DocumentRun, close: Inspected, stream: Stream) -> bool:
    there = (bit for bit in (1, 2) if close.forms & bit)
    return not any(_deletion_not_agreed(stream.connection, second=bit == 2) for bit in there)


@skipping(_none_refused)
@rule("DCP103", "F3", VIOLATION, Event.DECODED, kinds.DELETION, kinds.EXPIRATION, kinds.PREPARE, kinds.OSO)
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
    if _expiration_not_agreed(frame, connection, stream):
        return Remark("EXPIRATION, and enable_expiry_opcode is not on")
    if was_asked(frame, stream):
        return None
    found = _refused(frame, connection)
    if found is not None:
        unchecked = kinds.ADVANCED, kinds.OSO, *[kinds.STREAM_END] * (found.severity is not None)
        disconnects = frame.opcode == kinds.CACHED and frame.value_length >= _LEAST_RECORD
        status = "" if frame.opcode in unchecked or disconnects else "Einval"
        return found._replace(message=f"{name(frame.opcode)}{found.message}", status=status)
    deleted = frame.opcode == kinds.PREPARE and frame.get("deleted")
    body = _body_size(frame) if deleted or frame.opcode in (kinds.DELETION, kinds.EXPIRATION) else 0
    of = " of a deletion" if deleted else ""
    return Remark(f"{name(frame.opcode)}{of} has a body of {body} bytes", SUSPICIOUS) if body else None


def _body_size(frame: FrameEvent) -> int:
    """Return how many bytes a value has behind its xattrs; 0 where those cannot be read, which another rule reports."""
    size = max(0, frame.value_length - (frame.get("nmeta") or 0))
    if not size or not frame.datatype & names.XATTR:
        return size
    value = frame.data[frame.value_at : frame.value_at + size]
    plain = decompress(value)[0] if frame.datatype & names.SNAPPY else None
    # Under flag 0x40 the bit may be that of what was left out.
    split = split_xattrs(value if plain is None else plain)
    return 0 if split.fault else len(split.body)


def _refused(frame: FrameEvent, connection: ConnectionState) -> Remark | None:
    """Return what a receiver refuses, as a sentence about the message goes on."""
    record, opcode = frame.record, frame.opcode
    if record is not None and record.frame.message.dcp:
        inside = record.content.problems if opcode == kinds.CACHED else ()
        for problem in (*record.frame.problems, *(each for each in inside if each.code in _OF_RECORDS)):
            if problem.code not in _ELSEWHERE:
                return Remark(f": {repeated(problem.text, hidden_numbers(record.frame))}")
        if record.frame.layout.old:
            return Remark(f" in a layout of old releases ({frame.shape.version})", SUSPICIOUS)
        odd = _without_meaning(frame, record.frame.layout)
        if odd is not None:
            return odd
    text = _not_together(frame) or _form_not_agreed(frame, connection)
    if text:
        return Remark(f": {text}")
    if frame.datatype and opcode not in _TYPED and find(opcode).dcp:
        return Remark(f" has datatype 0x{frame.datatype:02x}")
    if opcode == kinds.PREPARE and not frame.cas:
        return Remark(" has CAS 0")
    if opcode == kinds.DELETION and frame.datatype in (1, 3) and not leaves_out(connection):
        return Remark(f" has datatype 0x{frame.datatype:02x}: JSON without XATTR")
    return None


# Values without a meaning, flags that exclude each other, forms that were not agreed on.

#: By opcode: a field of which only some values have a meaning, what it is called, and how bad others are.
_MEANT = {
    kinds.OPEN: ("flags", "flags", VIOLATION),
    kinds.ADD_STREAM: ("flags", "flags", VIOLATION),
    kinds.STREAM_REQ: ("flags", "flags", VIOLATION),
    kinds.SET_STATE: ("state", "state", VIOLATION),
    kinds.PREPARE: ("durability_level", "durability level", VIOLATION),
    kinds.OSO: ("flags", "flags", VIOLATION),
    kinds.STREAM_END: ("status", "reason", SUSPICIOUS),  # not refused
}
_WITH_CACHE_TRANSFER = names.CACHE_TRANSFER | names.ACTIVE_ONLY | names.TAKEOVER
_CONSUMER_NAME = "consumer_name"


def _without_meaning(frame: FrameEvent, layout: Layout) -> Remark | None:
    """Return which value has no meaning, as a sentence about the message goes on."""
    opcode = frame.opcode
    field, called, severity = _MEANT.get(opcode, ("", "", None))
    number = frame.get(field)
    meant = next((each.names for each in layout.extras if each.name == field), None)
    if number is None or meant is None:
        return None
    odd = meant.unknown(number)
    if odd < 0:
        old = number & meant.old if isinstance(meant, Bits) else 0
        return Remark(f": flags 0x{old:x} are of old releases", SUSPICIOUS) if old else None
    text = f": {called} 0x{odd:x} have no meaning" if isinstance(meant, Bits) else f": {called} {odd} has no meaning"
    return Remark(text, severity)


def _not_together(frame: FrameEvent) -> str:
    """Return the flags that exclude each other, or that need others."""
    opcode = frame.opcode
    flags = frame.get("flags") if opcode in (kinds.OPEN, kinds.ADD_STREAM, kinds.STREAM_REQ, kinds.OSO) else None
    if flags is None:
        return ""
    if opcode == kinds.OPEN:
        if flags & names.NO_VALUE and flags & names.UNDERLYING_DATATYPE:
            return "flags 0x8 (no-value) and 0x40 (no-value-with-underlying-datatype) exclude each other"
        if flags & names.DELETED_XATTRS and not flags & names.INCLUDE_XATTRS:
            return "flag 0x100 (include-deleted-user-xattrs) needs 0x4 (include-xattrs)"
        lacks = flags & names.SKIP_DELETES and not flags & names.PRODUCER
        return "flag 0x200 (skip-deletes-in-initial-backfill) needs 0x1 (producer)" if lacks else ""
    if opcode == kinds.OSO:
        both = "start and end" if flags & names.OSO_START and flags & names.OSO_END else "neither start nor end"
        return "" if flags in (names.OSO_START, names.OSO_END) else f"flags 0x{flags:x} are {both}"
    others = flags & ~_WITH_CACHE_TRANSFER if flags & names.CACHE_TRANSFER else 0
    return f"flag 0x100 (cache-transfer) excludes 0x{others:x}" if others else ""


def _form_not_agreed(frame: FrameEvent, connection: ConnectionState) -> str:
    """Return the form of a message that HELLO and DCP_OPEN have not agreed on, so that it is refused."""
    if frame.opcode == kinds.OPEN:
        return _open_value(frame)
    if frame.opcode == kinds.DELETION and frame.shape.version in ("1", "2"):
        return _deletion_not_agreed(connection, second=frame.shape.version == "2")
    flags = connection.setup.flags
    if flags is None or flags & names.COLLECTIONS_PREVIEW:  # the preview had forms of its own
        return ""
    has_value = frame.opcode == kinds.STREAM_REQ and frame.value_length and _without_collections(connection)
    return "it has a value, and HELLO did not grant collections" if has_value else ""


def _deletion_not_agreed(connection: ConnectionState, *, second: bool) -> str:
    """Return why a deletion of version 1, or of version 2, is refused; empty if it is not."""
    flags = connection.setup.flags
    if flags is None or flags & names.COLLECTIONS_PREVIEW or bool(flags & names.DELETE_TIMES) is second:
        return ""
    if not second:
        return "it is of version 1, and DCP_OPEN asked for delete times"
    refused = flags & names.PRODUCER or _without_collections(connection)
    return "it is of version 2, and DCP_OPEN did not ask for delete times" if refused else ""


def _open_value(frame: FrameEvent) -> str:
    """Return the fault of the value of DCP_OPEN, which is empty or a JSON object with at most a consumer's name."""
    faults: list[str] = []
    document = None if frame.record is None else frame.record.content.document
    if frame.datatype <= names.MOST_DATATYPE and frame.datatype != (names.JSON if frame.value_length else 0):
        faults.append(f"it has datatype 0x{frame.datatype:02x} and {'a' if frame.value_length else 'no'} value")
    if frame.value_length and not isinstance(document, dict):
        faults.append("its value is not a JSON object")
    elif isinstance(document, dict):
        if document.keys() - {_CONSUMER_NAME}:  # which may be anybody's data, so it is not named
            faults.append("its value has a key other than consumer_name, which has no meaning")
        if not isinstance(document.get(_CONSUMER_NAME, ""), str):
            faults.append("its value has a consumer_name that is not a string")
        elif _CONSUMER_NAME in document and (frame.get("flags") or 0) & names.PRODUCER:
            faults.append("its value has consumer_name, which a producer does not take")
    return "; ".join(faults)


def _expiration_not_agreed(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> bool:
    """Return whether this is an expiration that is to be sent as a deletion, enable_expiry_opcode not being on.

    Of a stream whose request was captured: the controls that it goes by were captured before this message.
    """
    return (
        frame.opcode == kinds.EXPIRATION
        and stream.request is not None
        and connection.setup.produces is True
        and connection.controls_known
        and not connection.setup.on("enable_expiry_opcode")
        and not any(waiting.key == "enable_expiry_opcode" for waiting in connection.asked_for(kinds.CONTROL))
    )


def _without_collections(connection: ConnectionState) -> bool:
    """Return whether keys certainly have no collection ids."""
    waits = any(connection.asked_for(kinds.HELLO))
    return connection.setup.has_collections is False and not connection.doubtful and not waits


#: opcode → version of layout → where reserved fields stand among its fields, and their names
_RESERVED: dict[int, dict[str, tuple[tuple[int, str], ...]]] = {
    opcode: {
        layout.version: tuple(
            (at, field.name) for at, field in enumerate(layout.extras) if field.reserved or field.name == "nmeta"
        )
        for layout in MESSAGES[opcode].request
    }
    for opcode in (kinds.OPEN, kinds.STREAM_REQ, kinds.MUTATION, kinds.PREPARE, kinds.DELETION, kinds.EXPIRATION)
}
_WITHOUT_CAS = kinds.STREAMED - _RESERVED.keys() - {kinds.MARKER, kinds.STREAM_END, kinds.SET_STATE} | {kinds.SEQNO_ACK}


# What has something in a reserved field is in no run that is inspected closely.
@skipping(lambda run, close, stream: True)
@rule("DCP109", "F9", INFO, *_RESERVED, *_WITHOUT_CAS)
def reserved(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reserved field that is not zero.

    Reported when a reserved field is not zero: DCP_OPEN's seqno, bytes 4-7 of a stream request, lock time,
    nmeta, the last byte of a deletion's extras, and the CAS of messages that have none.

    Today's receivers ignore them, or refuse the message; a later version may give them a meaning.

    Usual causes: memory that was not cleared; the layout of another version.
    Source: memcached/protocol_binary.h
    """
    opcode, fields = frame.opcode, frame.fields
    if opcode in _WITHOUT_CAS:
        return f"{name(opcode)} has CAS 0x{frame.cas:x}" if frame.cas else None
    for at, field in _RESERVED[opcode].get(frame.shape.version, ()):
        if fields[at]:
            return f"{name(opcode)}: {field} is {fields[at]}"
    return None


@skipping(lambda run, close, stream: close.sound or not stream.connection.setup.has_collections)
@rule("DCP110", "F10", VIOLATION, *kinds.KEYED)
def collection_key(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Key without a proper collection id.

    Reported when the LEB128 prefix of a key, on a connection with collections, does not end, is not in its shortest
    form, names one of the reserved ids 1-7, or is followed by nothing.

    The prefix decides which collection the document is in. A server's consumer answers Einval to documents and
    prepares; it does not check the keys of commits and aborts.

    Usual causes: a key sent without its prefix, so that its first letters are taken for one.
    Source: daemon/mcbp_validators.cc, dockey
    """
    if not connection.setup.has_collections or frame.value_at == frame.key_at:
        return None
    if frame.value_at > len(frame.data):  # lengths that contradict each other are another rule's
        return None
    fault = _prefix_fault(frame.key)
    return Remark(fault, status="" if frame.opcode in (kinds.COMMIT, kinds.ABORT) else "Einval") if fault else None


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


@rule("DCP112", "F12", VIOLATION, Event.ZERO)
def zero(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Seqno 0.

    Reported when the by seqno (or commit or abort seqno) of a message is 0.

    0 is the state before the first change; no change has it. A consumer that stored it would stream from the
    beginning again. A server's consumer answers Einval, but does not check it in system events.

    Usual causes: a field left empty; extras read from a wrong offset.
    Source: dcp/consumer.cc
    """
    if frame.opcode == kinds.ADVANCED:
        return None
    return Remark(f"{name(frame.opcode)} has seqno 0", status="" if frame.opcode == kinds.SYSTEM_EVENT else "Einval")


# -- the datatype of a value, and whether the value is what it says -----------------------------------

_SNAPPY = 0x0A  #: of the features of HELLO
_SYSTEM_XATTRS = 1024 * 1024
#: What a server counts of an xattr beside key and value: its length, and two zero bytes.
_AROUND = 6


@skipping(lambda run, close, stream: not any(_not_granted(bits, stream.connection) for _, bits, _ in close.packed))
@rule("DCP104", "F4", VIOLATION, Event.PACKED, Event.DECODED, scope=Scope.CONNECTION, status="Einval")
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
    if frame.opcode not in kinds.WITH_VALUES:
        return None
    text = _not_granted(bits, connection)
    severity = SUSPICIOUS if (connection.setup.flags or 0) & names.UNDERLYING_DATATYPE else None
    return Remark(text, severity) if text else None


def _not_granted(bits: int, connection: ConnectionState) -> str:
    """Return what of a datatype was not agreed on; nothing where all of it was."""
    flags, features = connection.setup.flags, connection.setup.features
    compresses = features is None or _SNAPPY in features or connection.setup.on("enable_value_compression")
    if bits & names.SNAPPY and not compresses:
        return "the value is marked Snappy, which HELLO did not grant"
    if bits & names.XATTR and flags is not None and not flags & names.INCLUDE_XATTRS:
        return "the value is marked XATTR, which DCP_OPEN did not ask for"
    return ""


def _all_as_marked(run: DocumentRun, close: Inspected, stream: Stream) -> bool | Broken:
    broken: list[int] = []
    for row, bits, body in close.packed:
        answer = _misread(bits, body, stream.connection)
        if answer is not None and answer.severity is SUSPICIOUS:
            broken.append(row)
        elif answer:
            return False
    if not leaves_out(stream.connection):
        texts = close.texts
        broken += [texts.rows[number] for number in not_json(texts.data, texts.starts, texts.ends)]
    return Broken(sorted(broken), SUSPICIOUS) if broken else True


@skipping(_all_as_marked)
@rule("DCP105", "F5", VIOLATION, Event.MARKED)
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
        empty = bits & names.XATTR and not left_out
        return Remark("the value is marked XATTR and is empty", status="XattrEinval") if empty else None
    if bits & names.SNAPPY:
        plain, fault = decompress(body)
        if plain is None:
            return None if left_out else Remark(repeated(fault), status="Einval")
        body = plain
    if bits & names.XATTR:
        pairs, body, _, fault = split_xattrs(body)
        fault = fault or _refused_xattrs(pairs or ())
        if fault:
            return Remark(repeated(fault), status="XattrEinval")
        system = sum(len(key) + len(text) + _AROUND for key, text in pairs or () if key.startswith(b"_"))
        if system > _SYSTEM_XATTRS:
            return Remark(f"system xattrs of {system:,} bytes", status="E2big")
    if bits & names.JSON and body and not left_out:
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


@skipping(lambda run, close, stream: close.longest <= _LOGICAL)
@rule("DCP113", "F13", VIOLATION, *kinds.KEYED, kinds.SYSTEM_EVENT, kinds.OPEN, kinds.CONTROL, status="Einval")
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
    most = _WITHOUT if _without_collections(connection) else _WITH_ID
    if length > most:
        return f"the key of {name(frame.opcode)} has {length} bytes, more than {most}"
    if not connection.setup.has_collections or frame.opcode not in kinds.WITH_VALUES:
        return None
    prefix = read_prefix(frame.key)
    if prefix is None or not prefix.collection or length - prefix.size <= _LOGICAL:
        return None
    return f"the key has {length - prefix.size} bytes behind its collection id, more than {_LOGICAL}"


@rule("DCP114", "F14", VIOLATION, kinds.SYSTEM_EVENT)
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


_DISORDERED = (Suspend.OUT_OF_ORDER,)


def _from_zero(stream: Stream) -> bool:
    """Return whether all of a stream was captured, from seqno 0 on: every collection was created in it."""
    request = stream.grant
    if request is None or request.start_seqno != 0 or request.bits & names.FROM_LATEST or not request.readable:
        return False
    return not stream.doubtful and not stream.traffic.oso_snapshots


def _none_closed(run: DocumentRun, close: Inspected, stream: Stream) -> bool:
    known = stream.collections
    if not stream.connection.setup.has_collections or not known or (all(known.values()) and not _from_zero(stream)):
        return True
    first = {key[:1] for key in close.keys}
    return all(len(each) == 1 and (not each[0] or known.get(each[0], False)) and each[0] < 0x80 for each in first)


@skipping(_none_closed)
@rule("DCP115", "F15", VIOLATION, *kinds.WITH_VALUES, scope=Scope.STREAM, off=_DISORDERED, status="UnknownCollection")
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
