"""DCP223-236: the life of a stream that was granted: what belongs to it, how it begins and ends."""

from dcpdump.check.rule import (
    CLOSING,
    INFO,
    OUTSIDE,
    STRAY,
    SUSPICIOUS,
    VIOLATION,
    Remark,
    rule,
)
from dcpdump.check.rules.framing import name
from dcpdump.spec.names import STREAM_END_STATUS
from dcpdump.streams.opcodes import (
    ABORT,
    ADVANCED,
    CACHED,
    CACHED_END,
    COMMIT,
    DOCUMENTS,
    MARKER,
    PREPARE,
    SEQNO_ACK,
    STREAM_END,
    STREAM_REQ,
    SYSTEM_EVENT,
)
from dcpdump.streams.sight import Sight
from dcpdump.streams.state import ACTIVE, CACHE_TRANSFER, DISK_ONLY, TAKEOVER, TO_LATEST, Connection, Stream


def _no_stream(connection: Connection) -> str:
    """Return what a consumer answers to messages of a stream that it does not have."""
    return "DcpStreamNotFound" if connection.on("v7_dcp_status_codes") else "KeyEnoent"


_DATA = frozenset({*DOCUMENTS, 0x5A, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, ADVANCED})
_OK, _CLOSED, _STATE, _DISCONNECTED, _SLOW, _BACKFILL, _ROLLBACK, _EMPTY, _PRIVILEGES = range(9)


@rule(
    "DCP223",
    "L3",
    "Message of a stream that is not open",
    severity=VIOLATION,
    source="dcp/producer.cc, dcp/active_stream.cc",
    off="mg",
    on=(OUTSIDE, STRAY),
    status="KeyEnoent",
)
def not_open(sight: Sight, connection: Connection, stream: Stream) -> Remark | None:
    """It sees stream messages without a granted stream, and after STREAM_END. (After CLOSE_STREAM messages that
    were queued may trail in, but not behind the STREAM_END that may follow.)

    A conforming consumer answers KeyEnoent, or DcpStreamNotFound with v7_dcp_status_codes.

    Usual causes: a stream request that was refused; a producer that sends on after it ended the stream.
    """
    if stream.end_frame is not None and stream.vbucket == sight.word:
        return Remark(
            f"{name(sight.opcode)} after the stream ended in frame {stream.end_frame}", status=_no_stream(connection)
        )
    if stream.known or (connection.doubtful and any(connection.asked_for(STREAM_REQ))):
        return None
    known = connection.current.get(sight.word << 16 | sight.stream_id)
    if known is not None and (known.granted or not known.requests):
        return None
    return Remark(f"{name(sight.opcode)} of a stream that was not granted", status=_no_stream(connection))


@rule(
    "DCP229",
    "L9",
    "Opaque is not that of the stream",
    severity=VIOLATION,
    source="dcp/active_stream.cc, dcp/consumer.cc",
    off="m",
    on=(STRAY, SEQNO_ACK),
    status="KeyEexists",
)
def opaque(sight: Sight, connection: Connection, stream: Stream) -> Remark | None:
    """It sees messages of a stream that do not carry the opaque of its stream request.

    The opaque tells a stream from the one before it on the same vbucket. A conforming consumer answers
    KeyEexists, or OpaqueNoMatch with v7_dcp_status_codes.

    Usual causes: messages of an earlier stream that were still queued; an opaque counted up for each message.
    """
    if sight.opcode == SEQNO_ACK:
        wrong = stream.known and stream.opaque != sight.opaque and stream.live
        known: Stream | None = stream if wrong else None
    else:
        if sight.opaque in connection.by_opaque:
            return None
        known = connection.current.get(sight.word << 16 | sight.stream_id)
    if known is None or known.doubtful:
        return None
    status = "OpaqueNoMatch" if connection.on("v7_dcp_status_codes") else ""
    return Remark(
        f"{name(sight.opcode)} has opaque 0x{sight.opaque:08x}, its stream has 0x{known.opaque or 0:08x}", status=status
    )


@rule(
    "DCP231",
    "L11",
    "Stream ended Ok before its end",
    severity=SUSPICIOUS,
    source="dcp/active_stream.cc",
    off="mgf",
    on=(STREAM_END,),
)
def early_end(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees STREAM_END(Ok) although the requested end seqno was not reached, and nothing else explains it: the
    flags disk-only, to-latest, takeover, cache-transfer, or a start at or above the end.

    The client takes it for done, and misses what it did not get.

    Usual causes: filtered-out collections reported as Ok where collections are off; a bug of the producer.
    """
    request = stream.request
    if request is None or sight.get("status") != _OK:
        return None
    if request.bits & (DISK_ONLY | TAKEOVER | TO_LATEST | CACHE_TRANSFER) or request.start >= request.end:
        return None
    reached = max(stream.last or 0, stream.marker.end if stream.marker else 0)
    if reached >= request.end:
        return None
    return f"ended Ok at seqno {stream.last or request.start}, requested up to {request.end}"


@rule(
    "DCP232",
    "L12",
    "Stream ended for a reason that does not fit",
    severity=SUSPICIOUS,
    source="dcp/active_stream.cc",
    off="m",
    on=(STREAM_END,),
)
def odd_end(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees STREAM_END(Closed) that nobody asked for, reasons 3 and 6, which servers do not send, and 7 and 8
    (collections dropped, access lost) on a connection without collections.

    Usual causes: another implementation of DCP; a proxy.
    """
    reason = sight.get("status")
    if reason == _CLOSED:
        if stream.closed or stream.close_asked:
            if connection.controls_known and not connection.on("send_stream_end_on_client_close_stream"):
                return "ended as Closed, though send_stream_end_on_client_close_stream is not on"
            return None
        return "ended as Closed, and no CLOSE_STREAM was sent"
    if reason in (_DISCONNECTED, _ROLLBACK):
        return f"ended with reason {reason} ({STREAM_END_STATUS.names[reason]}), which servers do not send"
    if reason in (_EMPTY, _PRIVILEGES) and connection.has_collections is False:
        return f"ended with reason {reason} ({STREAM_END_STATUS.names[reason]}) on a connection without collections"
    return None


@rule(
    "DCP233",
    "L13",
    "Ended stream that was not requested again",
    severity=INFO,
    source="dcp/active_stream.cc",
    on=(CLOSING,),
)
def abandoned(sight: Sight, connection: Connection, stream: Stream) -> list[Remark]:
    """It sees streams that ended because the vbucket changed its state, the consumer was slow or a backfill failed,
    and that were not requested again although the connection went on for a minute.

    There is more to stream, here or on another node.

    Usual causes: a client that knows not all reasons, and takes the unknown ones for the end.
    """
    heard_ns = max((ns for ns in connection.heard_ns if ns is not None), default=0)
    found: list[Remark] = []
    for each in connection.current.values():
        if each.end_status not in (_STATE, _SLOW, _BACKFILL) or each.ended_ns is None:
            continue
        if heard_ns - each.ended_ns >= 60 * 10**9:
            reason = STREAM_END_STATUS.names[each.end_status]
            at = each.last_sight._replace(number=each.end_frame or 0, ts_ns=each.ended_ns)
            found.append(Remark(f"ended with {reason} and was not requested again here", sight=at))
    return found


@rule(
    "DCP234",
    "L14",
    "Stream that does not begin with a marker",
    severity=VIOLATION,
    source="dcp/active_stream.cc, dcp/cache_transfer_stream.cc",
    off="mg",
    on=(OUTSIDE,),
    status="Einval",
)
def beginning(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees streams whose first message is neither a snapshot marker, OSO start, cache transfer nor STREAM_END.

    Without a marker the consumer does not know which seqnos belong together, and refuses the document.

    Usual causes: a marker lost by a proxy; a producer that resumes in the middle.
    """
    if (
        sight.opcode not in _DATA
        or stream.snapshots
        or stream.items
        or stream.end_frame is not None
        or stream.oso_ended
    ):
        return None
    return f"the stream begins with {name(sight.opcode)}"


@rule(
    "DCP235",
    "L15",
    "Change outside any snapshot",
    severity=VIOLATION,
    source="dcp/passive_stream.cc",
    off="mg",
    on=(OUTSIDE,),
    status="Einval",
)
def outside(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees documents, events and durable writes of a stream that has had no marker, or after the end of an
    out-of-order snapshot.

    There is no range that they could belong to: a consumer can neither store nor acknowledge them.

    Usual causes: as for a stream that does not begin with a marker.
    """
    if sight.opcode not in _DATA or stream.end_frame is not None or stream.oso or stream.state == ACTIVE:
        return None
    if stream.oso_ended:
        return f"{name(sight.opcode)} after the end of an out-of-order snapshot, and before a marker"
    if stream.snapshots or not stream.items:
        return None
    return f"{name(sight.opcode)} before any marker"


@rule(
    "DCP236",
    "L16",
    "Cache transfer out of place",
    severity=VIOLATION,
    source="dcp/cache_transfer_stream.cc",
    off="mg",
    on=(CACHED, CACHED_END, MARKER),
    status="Einval",
)
def cache(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees cache transfer on a stream that was not requested with that flag, after the first marker or after its
    own end, documents of it with a seqno above the stream's start, and markers before its end.

    The receiver closes the connection, or keeps documents that it must not have yet.

    Usual causes: a producer that begins the stream before the transfer is done.
    """
    request = stream.request
    if request is None:
        return None
    if sight.opcode == MARKER:
        early = request.bits & CACHE_TRANSFER and not stream.cache_ended and not stream.snapshots and stream.cached
        return "snapshot marker before the cache transfer ended" if early else None
    if not request.bits & CACHE_TRANSFER:
        return f"{name(sight.opcode)} on a stream that was not requested with cache-transfer"
    if stream.snapshots or stream.cache_ended:
        return f"{name(sight.opcode)} after the cache transfer was over"
    if sight.opcode == CACHED_END and request.end <= request.start:
        return "CACHE_TRANSFER_END on a stream that does not go on"
    if sight.record is not None and sight.opcode == CACHED:
        for field in sight.record.frame.fields:
            if field.field.name == "by_seqno" and isinstance(field.value, int) and field.value > request.start:
                return f"seqno {field.value} in a cache transfer up to {request.start}"
    return None


RULES = (not_open, opaque, early_end, odd_end, abandoned, beginning, outside, cache)
