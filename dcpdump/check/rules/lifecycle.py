"""DCP223-240: the life of a stream that was granted: what belongs to it, how it begins and ends."""

from dcpdump.check.rule import (
    CLOSING,
    INFO,
    OUTSIDE,
    RESPONSE,
    STRAY,
    SUSPICIOUS,
    VIOLATION,
    Remark,
    Scope,
    rule,
)
from dcpdump.check.rules.controls import REPLICATION
from dcpdump.check.rules.framing import name, unmatched, without_stream
from dcpdump.spec.names import STREAM_END_STATUS
from dcpdump.streams.opcodes import (
    ABORT,
    ADVANCED,
    CACHED,
    CACHED_END,
    CLOSE_STREAM,
    COMMIT,
    DOCUMENTS,
    MARKER,
    PREPARE,
    SEQNO_ACK,
    STREAM_END,
    STREAM_REQ,
    SYSTEM_EVENT,
)
from dcpdump.streams.sight import Sight, failover_log
from dcpdump.streams.state import ACTIVE, CACHE_TRANSFER, DISK_ONLY, TAKEOVER, TO_LATEST, Connection, Stream


def _out_of_range(sight: Sight) -> str:
    """Return what a consumer answers to a change that is in no snapshot: of some it does not compare the range."""
    return "Erange" if sight.opcode in _RANGED else "UnknownCommand" if sight.opcode == ADVANCED else ""


_RANGED = frozenset({*DOCUMENTS, PREPARE})
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
)
def not_open(sight: Sight, connection: Connection, stream: Stream) -> Remark | None:
    """Reported when a message comes for a vbucket without a granted stream, or after STREAM_END. (After CLOSE_STREAM
    messages that were queued may trail in, but not behind the STREAM_END that may follow.)

    A conforming consumer answers KeyEnoent, or DcpStreamNotFound with v7_dcp_status_codes.

    Usual causes: a stream request that was refused; a producer that sends on after it ended the stream.
    """
    if stream.end_frame is not None and stream.vbucket == sight.word:
        text = f"{name(sight.opcode)} after the stream ended in frame {stream.end_frame}"
        return Remark(text, status=without_stream(connection))
    if stream.known or (connection.doubtful and any(connection.asked_for(STREAM_REQ))):
        return None
    known = connection.current.get(sight.word << 16 | sight.stream_id)
    if known is not None and (known.granted or not known.requests):
        return None
    return Remark(f"{name(sight.opcode)} of a stream that was not granted", status=without_stream(connection))


@rule(
    "DCP229",
    "L9",
    "Opaque is not that of the stream",
    severity=VIOLATION,
    source="dcp/active_stream.cc, dcp/consumer.cc",
    off="m",
    on=(STRAY, SEQNO_ACK),
)
def opaque(sight: Sight, connection: Connection, stream: Stream) -> Remark | None:
    """Reported when a message of a stream does not carry the opaque of its stream request.

    The opaque tells a stream from the one before it on the same vbucket. A conforming consumer answers
    KeyEexists, or OpaqueNoMatch with v7_dcp_status_codes; it ignores such a STREAM_END, and a producer such a
    SEQNO_ACKNOWLEDGED.

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
    status = "" if sight.opcode == SEQNO_ACK else unmatched(sight, connection)
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
def early_end(sight: Sight, connection: Connection, stream: Stream) -> Remark | None:
    """Reported when a stream ends with Ok although the requested end seqno was not reached, and nothing else explains
    it: the flags disk-only, to-latest, takeover, cache-transfer, or a start at or above the end. As information only
    where the connection has no collections: what comes last may be in another collection, or a durable write.

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
    text = f"ended Ok at seqno {stream.last or request.start}, requested up to {request.end}"
    return Remark(text, None if connection.advances else INFO)


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
    """Reported when STREAM_END(Closed) comes unasked, and of reasons 3 and 6, which servers do not send, and 7 and 8
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
    """Reported when a stream ended because the vbucket changed its state, the consumer was slow or a backfill failed,
    and was not requested again although the connection continued for a minute.

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
)
def beginning(sight: Sight, connection: Connection, stream: Stream) -> Remark | None:
    """Reported when the first message of a stream is neither a snapshot marker, OSO start, cache transfer nor
    STREAM_END.

    Without a marker the consumer does not know which seqnos belong together, and refuses a document with Erange.

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
    return Remark(f"the stream begins with {name(sight.opcode)}", status=_out_of_range(sight))


@rule(
    "DCP235",
    "L15",
    "Change outside any snapshot",
    severity=VIOLATION,
    source="dcp/passive_stream.cc",
    off="mg",
    on=(OUTSIDE,),
)
def outside(sight: Sight, connection: Connection, stream: Stream) -> Remark | None:
    """Reported when a document, an event or a durable write comes in a stream that has had no marker, or after the
    end of an out-of-order snapshot.

    There is no range that it could belong to. A server's consumer answers Erange to documents and prepares; of
    commits, aborts and events it does not compare the range.

    Usual causes: as for a stream that does not begin with a marker.
    """
    if sight.opcode not in _DATA or stream.end_frame is not None or stream.oso or stream.state == ACTIVE:
        return None
    if stream.oso_ended:
        text = f"{name(sight.opcode)} after the end of an out-of-order snapshot, and before a marker"
        return Remark(text, status=_out_of_range(sight))
    if stream.snapshots or not stream.items:
        return None
    return Remark(f"{name(sight.opcode)} before any marker", status=_out_of_range(sight))


@rule(
    "DCP236",
    "L16",
    "Cache transfer out of place",
    severity=VIOLATION,
    source="dcp/cache_transfer_stream.cc",
    off="mg",
    on=(CACHED, CACHED_END, MARKER),
)
def cache(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """Reported when a cache transfer comes on a stream that was not requested with that flag, after the first marker
    or after its own end, when a document of it has a seqno above the stream's start, and when a marker comes before
    its end.

    A server's consumer does not check this: it keeps documents that it must not have yet.

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


@rule(
    "DCP239",
    "L19",
    "CLOSE_STREAM of no stream that succeeds",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off="mg",
    on=(CLOSE_STREAM | RESPONSE,),
    scope=Scope.CONNECTION,
    status="KeyEnoent",
)
def closed_twice(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """Reported when a producer answers Success to CLOSE_STREAM, and the vbucket has no stream of that stream id on the
    connection, or it has ended.

    A conforming producer answers KeyEnoent (or DcpStreamIdInvalid where only the stream id is wrong).

    Usual causes: a proxy that answers in a server's place.
    """
    waiting = connection.exchanges.asked(sight)
    if sight.word or waiting is None or connection.produces is not True:
        return None
    known = connection.current.get(waiting.sight.word << 16 | waiting.sight.stream_id)
    if known is None or not known.is_sending:
        return "CLOSE_STREAM answered with Success, and there is no such stream"
    if known.closed:
        return "CLOSE_STREAM answered with Success, and the stream was closed before"
    if known.end_frame is None or known.end_status == _CLOSED:
        return None
    return f"CLOSE_STREAM answered with Success, and the stream ended in frame {known.end_frame}"


@rule(
    "DCP240",
    "L20",
    "Two servers stream one vbucket",
    severity=INFO,
    source="dcp/producer.cc",
    on=(STREAM_REQ | RESPONSE,),
)
def two_owners(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """Reported when a stream of a vbucket is granted while another server streams the same vbucket of the same bucket,
    with the same history: the newest entries of their failover logs are of one uuid.

    At most one server is active for a vbucket. A moment of both is normal when a vbucket moves, as the last changes
    are still on their way. (Streams between nodes are not judged: replicas may have replicas.)

    Usual causes: a vbucket that moves; a client that streams from a replica; a failover of a server that lives on.
    """
    waiting = connection.exchanges.asked(sight)
    if sight.word or waiting is None or sight.record is None or connection.bucket is None:
        return None
    other = connection.producing.get((connection.bucket, waiting.sight.word))
    if other is None or not other.live or other.closed or other.connection is connection:
        return None
    mine, theirs = connection, other.connection
    if _replicates(mine) or _replicates(theirs) or not theirs.is_used(sight.ts_ns):
        return None
    log = next(iter(failover_log(sight.record.frame)), None)
    if log is None or not other.failover_log or other.failover_log[0].uuid != log[0]:
        return None
    here, there = mine.server_address, theirs.server_address
    if here is None or there is None or here.rpartition(":")[0] == there.rpartition(":")[0]:
        return None
    return f"{there} streams this vbucket too, on connection {theirs.number}"


def _replicates(connection: Connection) -> bool:
    """Return whether a connection is one between nodes."""
    return connection.produces is False or (connection.name or "").startswith(REPLICATION)


RULES = (not_open, opaque, early_end, odd_end, abandoned, beginning, outside, cache, closed_twice, two_owners)
