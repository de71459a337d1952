"""DCP223-236: the life of a stream that was granted: what belongs to it, how it begins and ends."""

from dcpdump.check.course import ACTIVE, CACHE_TRANSFER, DISK_ONLY, TAKEOVER, TO_LATEST, Course
from dcpdump.check.dialogue import (
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
    SYSTEM_EVENT,
    Dialogue,
)
from dcpdump.check.rule import (
    INFO,
    OUTSIDE,
    STRAY,
    SUSPICIOUS,
    TICK,
    VIOLATION,
    Remark,
    rule,
)
from dcpdump.check.rules.framing import name
from dcpdump.spec.names import STREAM_END_STATUS
from dcpdump.streams.sight import Sight

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
def not_open(sight: Sight, dialogue: Dialogue, course: Course) -> Remark | None:
    """It sees stream messages without a granted stream, and after STREAM_END. (After CLOSE_STREAM messages that
    were queued may trail in, but not behind the STREAM_END that may follow.)

    A conforming consumer answers KeyEnoent, or DcpStreamNotFound with v7_dcp_status_codes.

    Usual causes: a stream request that was refused; a producer that sends on after it ended the stream.
    """
    if course.ended and course.vbucket == sight.word:
        at = course.end_sight.number if course.end_sight else 0
        return Remark(f"{name(sight.opcode)} after the stream ended in frame {at}", status=dialogue.no_stream)
    if course.vbucket >= 0 or course.late or (dialogue.awaited(sight.opaque) is not None and dialogue.doubtful):
        return None
    if (sight.word, sight.stream_id) in dialogue.places:
        return None
    return Remark(f"{name(sight.opcode)} of a stream that was not granted", status=dialogue.no_stream)


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
def opaque(sight: Sight, dialogue: Dialogue, course: Course) -> Remark | None:
    """It sees messages of a stream that do not carry the opaque of its stream request.

    The opaque tells a stream from the one before it on the same vbucket. A conforming consumer answers
    KeyEexists, or OpaqueNoMatch with v7_dcp_status_codes.

    Usual causes: messages of an earlier stream that were still queued; an opaque counted up for each message.
    """
    if sight.opcode == SEQNO_ACK:
        wrong = course.vbucket >= 0 and course.opaque != sight.opaque and course.live
        known: Course | None = course if wrong else None
    else:
        if sight.opaque in dialogue.courses:
            return None
        known = dialogue.places.get((sight.word, sight.stream_id))
    if known is None or known.doubtful:
        return None
    status = "OpaqueNoMatch" if dialogue.on(b"v7_dcp_status_codes") else ""
    return Remark(
        f"{name(sight.opcode)} has opaque 0x{sight.opaque:08x}, its stream has 0x{known.opaque:08x}", status=status
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
def early_end(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees STREAM_END(Ok) although the requested end seqno was not reached, and nothing else explains it: the
    flags disk-only, to-latest, takeover, cache-transfer, or a start at or above the end.

    The client takes it for done, and misses what it did not get.

    Usual causes: filtered-out collections reported as Ok where collections are off; a bug of the producer.
    """
    request = course.request
    if request is None or sight.get("status") != _OK:
        return None
    if request.flags & (DISK_ONLY | TAKEOVER | TO_LATEST | CACHE_TRANSFER) or request.start >= request.end:
        return None
    reached = max(course.last or 0, course.marker.end if course.marker else 0)
    if reached >= request.end:
        return None
    return f"ended Ok at seqno {course.last or request.start}, requested up to {request.end}"


@rule(
    "DCP232",
    "L12",
    "Stream ended for a reason that does not fit",
    severity=SUSPICIOUS,
    source="dcp/active_stream.cc",
    off="m",
    on=(STREAM_END,),
)
def odd_end(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees STREAM_END(Closed) that nobody asked for, reasons 3 and 6, which servers do not send, and 7 and 8
    (collections dropped, access lost) on a connection without collections.

    Usual causes: another implementation of DCP; a proxy.
    """
    reason = sight.get("status")
    if reason == _CLOSED:
        if course.closed or dialogue.close_asked(sight.word, sight.stream_id):
            if dialogue.controls_known and not dialogue.on(b"send_stream_end_on_client_close_stream"):
                return "ended as Closed, though send_stream_end_on_client_close_stream is not on"
            return None
        return "ended as Closed, and no CLOSE_STREAM was sent"
    if reason in (_DISCONNECTED, _ROLLBACK):
        return f"ended with reason {reason} ({STREAM_END_STATUS.names[reason]}), which servers do not send"
    if reason in (_EMPTY, _PRIVILEGES) and dialogue.collections is False:
        return f"ended with reason {reason} ({STREAM_END_STATUS.names[reason]}) on a connection without collections"
    return None


@rule(
    "DCP233",
    "L13",
    "Ended stream that was not requested again",
    severity=INFO,
    source="dcp/active_stream.cc",
    on=(TICK,),
)
def abandoned(sight: Sight, dialogue: Dialogue, course: Course) -> list[Remark] | None:
    """It sees streams that ended because the vbucket changed its state, the consumer was slow or a backfill failed,
    and that were not requested again although the connection went on for a minute.

    There is more to stream, here or on another node.

    Usual causes: a client that knows not all reasons, and takes the unknown ones for the end.
    """
    heard_ns = dialogue.heard_ns
    if not dialogue.ended or heard_ns is None:
        return None
    found: list[Remark] = []
    for stream in dialogue.courses.values():
        end = stream.end_sight
        again = dialogue.places.get((stream.vbucket, stream.sid)) is not stream
        if end is None or end.ts_ns is None or again or stream.end_reason not in (_STATE, _SLOW, _BACKFILL):
            continue
        if heard_ns - end.ts_ns >= 60 * 10**9:
            reason = STREAM_END_STATUS.names[stream.end_reason]
            found.append(Remark(f"ended with {reason} and was not requested again here", sight=end))
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
def beginning(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees streams whose first message is neither a snapshot marker, OSO start, cache transfer nor STREAM_END.

    Without a marker the consumer does not know which seqnos belong together, and refuses the document.

    Usual causes: a marker lost by a proxy; a producer that resumes in the middle.
    """
    if sight.opcode not in _DATA or course.markers or course.items or course.ended or course.after_oso:
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
def outside(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees documents, events and durable writes of a stream that has had no marker, or after the end of an
    out-of-order snapshot.

    There is no range that they could belong to: a consumer can neither store nor acknowledge them.

    Usual causes: as for a stream that does not begin with a marker.
    """
    if sight.opcode not in _DATA or course.ended or course.oso or course.state == ACTIVE:
        return None
    if course.after_oso:
        return f"{name(sight.opcode)} after the end of an out-of-order snapshot, and before a marker"
    if course.markers or not course.items:
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
def cache(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees cache transfer on a stream that was not requested with that flag, after the first marker or after its
    own end, documents of it with a seqno above the stream's start, and markers before its end.

    The receiver closes the connection, or keeps documents that it must not have yet.

    Usual causes: a producer that begins the stream before the transfer is done.
    """
    request = course.request
    if request is None:
        return None
    if sight.opcode == MARKER:
        early = course.cache and not course.cache_ended and not course.markers and course.cached
        return "snapshot marker before the cache transfer ended" if early else None
    if not request.flags & CACHE_TRANSFER:
        return f"{name(sight.opcode)} on a stream that was not requested with cache-transfer"
    if course.markers or course.cache_ended:
        return f"{name(sight.opcode)} after the cache transfer was over"
    if sight.opcode == CACHED_END and request.end <= request.start:
        return "CACHE_TRANSFER_END on a stream that does not go on"
    if sight.record is not None and sight.opcode == CACHED:
        for field in sight.record.frame.fields:
            if field.field.name == "by_seqno" and isinstance(field.value, int) and field.value > request.start:
                return f"seqno {field.value} in a cache transfer up to {request.start}"
    return None


RULES = (not_open, opaque, early_end, odd_end, abandoned, beginning, outside, cache)
