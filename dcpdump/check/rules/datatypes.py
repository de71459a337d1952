"""DCP104 and DCP105: the datatype of a value, and whether the value is what it says."""

from collections.abc import Sequence

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.finding import repeated
from dcpdump.check.rule import START, SUSPICIOUS, VIOLATION, Broken, Event, Remark, Scope, rule
from dcpdump.check.rules.shape import UNDERLYING, leaves_out, was_asked
from dcpdump.spec.names import INCLUDE_XATTRS, JSON, SNAPPY, XATTR
from dcpdump.streams.document_run import DocumentRun
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import WITH_VALUES
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.wire.json_text import json_fault, not_json
from dcpdump.wire.value import decompress, split_xattrs

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
    off=(START,),
    scope=Scope.CONNECTION,
    status="Einval",
    spares=_all_granted,
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
    flags = connection.open_flags
    severity = SUSPICIOUS if flags is not None and flags & UNDERLYING else None
    return Remark(text, severity) if text else None


def _not_granted(bits: int, connection: ConnectionState) -> str:
    """Return what of a datatype was not agreed on; nothing where all of it was."""
    flags, features = connection.open_flags, connection.features
    compresses = features is None or _SNAPPY in features or connection.on("enable_value_compression")
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


@rule("DCP105", "F5", VIOLATION, on=(Event.MARKED,), spares=_all_as_marked)
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
        fault = fault or _refused(pairs or ())
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


def _refused(pairs: Sequence[tuple[bytes, bytes]]) -> str:
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
