"""DCP223-240: streams that were granted: what belongs to them, and how they begin."""

from dcpdump.check.rule import INFO, LOST, RESPONSE, START, VIOLATION, Event, Remark, rule
from dcpdump.check.rules.framing import name, unmatched, without_stream
from dcpdump.spec.names import CACHE_TRANSFER
from dcpdump.streams.frame_event import FrameEvent, failover_log
from dcpdump.streams.opcode_kinds import (
    ABORT,
    ADVANCED,
    CACHED,
    CACHED_END,
    COMMIT,
    FLUSH,
    MARKER,
    SEQNO_ACK,
    STREAM_REQ,
    SYSTEM_EVENT,
    WITH_VALUES,
)
from dcpdump.streams.phases import Phase, PhaseEvent, allows
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream


def _out_of_range(frame: FrameEvent) -> str:
    """Return what a consumer answers to a change that is in no snapshot: of some it does not compare the range."""
    return "Erange" if frame.opcode in WITH_VALUES else "UnknownCommand" if frame.opcode == ADVANCED else ""


_DATA = frozenset({*WITH_VALUES, FLUSH, SYSTEM_EVENT, COMMIT, ABORT, ADVANCED})


def _is_outside(frame: FrameEvent, stream: Stream) -> bool:
    """Return whether a frame is a change of a stream that is in no snapshot: not ended, and not handed over."""
    out = stream.phase is not Phase.HANDED_OVER and not allows(stream.phase, PhaseEvent.ITEM)
    return out and frame.opcode in _DATA and stream.end_frame is None


@rule("DCP223", "L3", VIOLATION, on=(Event.OUTSIDE, Event.STRAY), off=(START, LOST))
def not_open(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Message of a stream that is not open.

    Reported when a message comes for a vbucket without a granted stream, or after STREAM_END. (After CLOSE_STREAM
    messages that were queued may still arrive, but not behind the STREAM_END that may follow.)

    A conforming consumer answers KeyEnoent, or DcpStreamNotFound with v7_dcp_status_codes.

    Usual causes: a stream request that was refused; a producer that continues to send after it ended the stream.

    Source: dcp/producer.cc, dcp/active_stream.cc
    """
    if stream.end_frame is not None and stream.vbucket == frame.word:
        text = f"{name(frame.opcode)} after the stream ended in frame {stream.end_frame}"
        return Remark(text, status=without_stream(connection))
    if stream.known or (connection.doubtful and any(connection.asked_for(STREAM_REQ))):
        return None
    known = connection.stream_of(frame)
    if known is not None and (known.granted or not known.requests):
        return None
    return Remark(f"{name(frame.opcode)} of a stream that was not granted", status=without_stream(connection))


@rule("DCP229", "L9", VIOLATION, on=(Event.STRAY, SEQNO_ACK), off=(START,))
def opaque(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Opaque is not that of the stream.

    Reported when a message of a stream does not carry the opaque of its stream request.

    The opaque distinguishes a stream from the one before it on the same vbucket. A conforming consumer answers
    KeyEexists, or OpaqueNoMatch with v7_dcp_status_codes; it ignores such a STREAM_END, and a producer such a
    SEQNO_ACKNOWLEDGED.

    Usual causes: messages of an earlier stream that were still queued; an opaque counted up for each message.

    Source: dcp/active_stream.cc, dcp/consumer.cc
    """
    if frame.opcode == SEQNO_ACK:
        wrong = stream.known and stream.opaque != frame.opaque and stream.live
        known: Stream | None = stream if wrong else None
    else:
        if frame.opaque in connection.by_opaque:
            return None
        known = connection.stream_of(frame)
    if known is None or known.doubtful:
        return None
    status = "" if frame.opcode == SEQNO_ACK else unmatched(frame, connection)
    return Remark(
        f"{name(frame.opcode)} has opaque 0x{frame.opaque:08x}, its stream has 0x{known.opaque or 0:08x}", status=status
    )


@rule("DCP234", "L14", VIOLATION, on=(Event.OUTSIDE,), off=(START, LOST))
def beginning(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Stream that does not begin with a marker.

    Reported when the first message of a stream is neither a snapshot marker, OSO start, cache transfer nor
    STREAM_END.

    Without a marker the consumer does not know which seqnos belong together, and refuses a document with Erange.

    Usual causes: a marker lost by a proxy; a producer that resumes in the middle.

    Source: dcp/active_stream.cc, dcp/cache_transfer_stream.cc
    """
    if stream.items or not _is_outside(frame, stream) or stream.oso_ended:
        return None
    return Remark(f"the stream begins with {name(frame.opcode)}", status=_out_of_range(frame))


@rule("DCP235", "L15", VIOLATION, on=(Event.OUTSIDE,), off=(START, LOST))
def outside(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Change outside any snapshot.

    Reported when a document, an event or a durable write comes in a stream that has had no marker, or after the
    end of an out-of-order snapshot.

    There is no range that it could belong to. A server's consumer answers Erange to documents and prepares; of
    commits, aborts and events it does not compare the range.

    Usual causes: as for a stream that does not begin with a marker.

    Source: dcp/passive_stream.cc
    """
    if not _is_outside(frame, stream):
        return None
    if stream.oso_ended:
        text = f"{name(frame.opcode)} after the end of an out-of-order snapshot, and before a marker"
        return Remark(text, status=_out_of_range(frame))
    if not stream.items:
        return None
    return Remark(f"{name(frame.opcode)} before any marker", status=_out_of_range(frame))


@rule("DCP236", "L16", VIOLATION, on=(CACHED, CACHED_END, MARKER), off=(START, LOST))
def cache(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Cache transfer out of place.

    Reported when a cache transfer comes on a stream that was not requested with that flag, after the first marker
    or after its own end, when a document of it has a seqno above the stream's start, and when a marker comes before
    its end.

    A server's consumer does not check this: it keeps documents that it must not have yet.

    Usual causes: a producer that begins the stream before the transfer is done.

    Source: dcp/cache_transfer_stream.cc
    """
    request = stream.request
    if request is None:
        return None
    if frame.opcode == MARKER:
        early = request.bits & CACHE_TRANSFER and stream.phase is Phase.CACHE_TRANSFER and stream.cached
        return "snapshot marker before the cache transfer ended" if early else None
    if not request.bits & CACHE_TRANSFER:
        return f"{name(frame.opcode)} on a stream that was not requested with cache-transfer"
    if not allows(stream.phase, PhaseEvent.CACHED):
        return f"{name(frame.opcode)} after the cache transfer was over"
    if frame.opcode == CACHED_END and request.end <= request.start:
        return "CACHE_TRANSFER_END on a stream that does not go on"
    if frame.record is not None and frame.opcode == CACHED:
        for field in frame.record.frame.fields:
            if field.field.name == "by_seqno" and isinstance(field.value, int) and field.value > request.start:
                return f"seqno {field.value} in a cache transfer up to {request.start}"
    return None


@rule("DCP240", "L20", INFO, on=(STREAM_REQ | RESPONSE,))
def two_owners(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Two servers stream one vbucket.

    Reported when a stream of a vbucket is granted while another server streams the same vbucket of the same bucket,
    with the same history: the newest entries of their failover logs are of one uuid.

    At most one server is active for a vbucket. A moment of both is normal when a vbucket moves, as the last changes
    are still on their way. (Streams between nodes are not judged: replicas may have replicas.)

    Usual causes: a vbucket that moves; a client that streams from a replica; a failover of a server that still runs.

    Source: dcp/producer.cc
    """
    waiting = connection.exchanges.asked(frame)
    if frame.word or waiting is None or frame.record is None or connection.bucket is None:
        return None
    other = connection.producing.get((connection.bucket, waiting.frame.word))
    if other is None or not other.live or other.closed or other.connection is connection:
        return None
    mine, theirs = connection, other.connection
    if mine.between_nodes or theirs.between_nodes or not theirs.is_used(frame.ts_ns):
        return None
    log = next(iter(failover_log(frame)), None)
    if log is None or not other.failover_log or other.failover_log[0].uuid != log[0]:
        return None
    here, there = mine.server_address, theirs.server_address
    if here is None or there is None or here.rpartition(":")[0] == there.rpartition(":")[0]:
        return None
    return f"{there} streams this vbucket too, on connection {theirs.number}"
