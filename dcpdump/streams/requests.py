"""Stream requests, their answers, and closing: how a stream comes to be, and how its consumer ends it."""

from typing import Any

from dcpdump.streams.facts import Entry
from dcpdump.streams.sight import Sight, failover_log
from dcpdump.streams.spoken import printable, whole_number
from dcpdump.streams.state import ROLLBACK, SUCCESS, Connection, Request, Stream


def asked(connection: Connection, sight: Sight) -> Stream:
    """A stream is asked for. It gives a new stream, or the one whose last request failed, with this one more."""
    request = _request(sight)
    place = sight.word << 16 | request.stream_id
    before = connection.current.get(place)
    direction = 1 - sight.direction  # of what the stream brings
    connection.stream_requests += 1
    rival = before.rival if before is not None and before.alive else None
    goes_on = rival if rival is not None and not rival.granted else before
    if goes_on is not None and goes_on.requests and not goes_on.granted and not goes_on.counts_any:
        stream = goes_on
        request.still_open = before if goes_on is rival else None
        if stream.losses != connection.losses[direction]:
            stream.lose(direction)
    else:
        stream = Stream(connection, sight.word, request.stream_id)
        stream.losses, stream.lost_before = connection.losses[direction], connection.lost_bytes[direction]
        stream.first_ns = sight.ts_ns
        if before is not None and before.alive:
            request.still_open, before.rival = before, stream
            stream.number = before.number + 1
        else:
            stream.follow(before)
            connection.current[place] = stream
    stream.requests.append(request)
    stream.opaque, stream.last_ns = sight.opaque, sight.ts_ns
    if request.still_open is None:
        connection.by_opaque[sight.opaque] = stream
    connection.asking[sight.opaque] = stream, request
    return stream


def answered(connection: Connection, sight: Sight) -> Stream | None:
    """A stream request is answered."""
    stream, request = connection.asking.pop(sight.opaque, (None, None))
    if stream is None or request is None:
        stream = connection.by_opaque.get(sight.opaque)
        if stream is not None and not stream.requests and sight.word == SUCCESS and sight.record is not None:
            stream.failover_log = tuple(Entry(*entry) for entry in failover_log(sight.record.frame))
        return stream
    request.status, request.answer_frame, request.answered_ns = sight.word, sight.number, sight.ts_ns
    stream.last_ns = sight.ts_ns
    record = sight.record
    if sight.word == SUCCESS:
        log = None if record is None else tuple(Entry(*entry) for entry in failover_log(record.frame))
        request.failover_log = log
        _grant(connection, stream, request, sight)
    elif sight.word == ROLLBACK:
        request.rollback_seqno = None if record is None else record.frame.get("rollback_seqno")
    elif record is not None:
        request.context = _context(record.meaning.document)
    return stream


def _grant(connection: Connection, stream: Stream, request: Request, sight: Sight) -> None:
    before = request.still_open
    if before is not None and before.alive:
        before.replaced = True
        stream.follow(before)
    elif before is not None:
        stream.follow(before)
    stream.granted, stream.granted_ns, stream.granted_frame = True, sight.ts_ns, sight.number
    stream.failover_log = request.failover_log
    stream.ordered = True
    stream.losses, stream.lost_before = connection.losses[sight.direction], connection.lost_bytes[sight.direction]
    connection.current[stream.vbucket << 16 | stream.stream_id] = stream
    connection.by_opaque[sight.opaque] = stream


def closing(stream: Stream, sight: Sight) -> None:
    """The consumer asks to close a stream."""
    stream.close_asked_ns = sight.ts_ns


def closed(stream: Stream, sight: Sight) -> None:
    """It was answered."""
    if sight.word == SUCCESS and stream.closed_ns is None:
        stream.closed_ns = stream.last_ns = sight.ts_ns


def _request(sight: Sight) -> Request:
    document: Any = None if sight.record is None else sight.record.meaning.document
    json = document if isinstance(document, dict) else {}
    collections, scope, purge, sid = (json.get(name) for name in ("collections", "scope", "purge_seqno", "sid"))
    return Request(
        sight.number,
        sight.ts_ns,
        sight.opaque,
        sight.get("flags"),
        sight.get("start_seqno"),
        sight.get("end_seqno"),
        sight.get("vbucket_uuid"),
        sight.get("snap_start_seqno"),
        sight.get("snap_end_seqno"),
        sid if isinstance(sid, int) and 0 < sid <= 0xFFFF else 0,
        tuple(printable(str(each)) for each in collections) if isinstance(collections, list) else None,
        printable(scope) if isinstance(scope, str) else None,
        whole_number(purge) if isinstance(purge, str) else None,
        bool(sight.value_length),
    )


def _context(document: Any) -> str:
    """It gives what a server says of an error."""
    error = document.get("error") if isinstance(document, dict) else None
    context = error.get("context") if isinstance(error, dict) else None
    return printable(context) if isinstance(context, str) else ""
