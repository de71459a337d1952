"""What frames teach of a stream: its messages, the requests for it, their answers, and what closes it."""

from collections.abc import Callable, Iterable
from typing import Any

from dcpdump.batch.document_runs import Inspected
from dcpdump.escape import LONGEST
from dcpdump.spec.document import BEGIN, END, MODIFY
from dcpdump.spec.header import MOST_STREAM_ID
from dcpdump.spec.names import ACTIVE, CACHE_TRANSFER, DISK, OSO_START
from dcpdump.spec.statuses import ROLLBACK, SUCCESS
from dcpdump.streams import opcode_kinds as kinds
from dcpdump.streams.exchanges import UnansweredRequest
from dcpdump.streams.frame_event import NO_FRAME, Entry, FrameEvent, failover_log, identity_of, stream_key
from dcpdump.streams.phases import PhaseEvent
from dcpdump.streams.request import Request, json_fault
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import (
    LONGEST_KEY,
    NO_PREPARES,
    Closed,
    Prepares,
    Snapshot,
    Stream,
    StreamEnd,
    TakeoverState,
)
from dcpdump.streams.wording import error_text, printable, whole_number

# -- messages -----------------------------------------------------------------------------------------

Learn = Callable[[Stream, FrameEvent], None]
#: States that a stream sets, which are remembered: the first, and so many of the latest.
_STATES = 64


def snapshot_of(frame: FrameEvent) -> Snapshot | None:
    """Return the snapshot that a marker announces; None where its numbers were lost, or it has none."""
    get = frame.get
    start, end, flags = get("start_seqno"), get("end_seqno"), get("snapshot_type")
    if start is None or end is None or flags is None:
        return None
    return Snapshot(start, end, flags, frame.number, frame.ts_ns, get("high_completed_seqno"))


def _marker(stream: Stream, frame: FrameEvent) -> None:
    snapshot = stream.connection.incoming
    if snapshot is None or snapshot.frame != frame.number:
        snapshot = snapshot_of(frame)
    if snapshot is None:
        stream.traffic.snapshots += 1
        stream.snapshot = None
        stream.blur(f"the snapshot marker of frame {frame.number} could not be read")
        return
    begin_snapshot(stream, snapshot)


def begin_snapshot(stream: Stream, snapshot: Snapshot) -> None:
    """Begin the snapshot that a marker announces."""
    stream.traffic.snapshots += 1
    stream.begin(snapshot)
    stream.connection.turns.serve(stream, begins=True)
    if snapshot.high_completed:
        stream.prepares.complete(snapshot.high_completed)
    elif snapshot.flags & DISK:  # which may leave out what decided them, and says of none that it is decided
        stream.prepares.excuse(snapshot.frame)


def _end(stream: Stream, frame: FrameEvent) -> None:
    stream.end = StreamEnd(frame.get("status"), frame.ts_ns, frame.number)
    stream.forget_keys()


def _oso(stream: Stream, frame: FrameEvent) -> None:
    stream.forget_keys()
    if (frame.get("flags") or 0) & OSO_START:
        stream.advance(PhaseEvent.OSO_START)
        stream.traffic.oso_snapshots += 1
        stream.snapshot = None
        stream.knowledge = stream.knowledge._replace(reason="")
        stream.seqnos.since_marker = 0
    else:
        stream.advance(PhaseEvent.OSO_END)
        stream.seqnos.floor = None


def _state(stream: Stream, frame: FrameEvent) -> None:
    state = frame.get("state")
    if state is not None:
        if not isinstance(stream.states, list):
            stream.states = []
        stream.states.append(TakeoverState(state, frame.ts_ns, frame.number))
        if len(stream.states) > _STATES:  # a takeover sets two
            del stream.states[1]
            stream.acks.states -= stream.acks.states > 1
        if state == ACTIVE:
            stream.advance(PhaseEvent.SET_ACTIVE)


def _prepare(stream: Stream, frame: FrameEvent) -> None:
    snapshot = stream.snapshot
    if snapshot is not None and snapshot.flags & DISK and (frame.seqno or 0) <= (snapshot.high_completed or 0):
        return  # the marker says that it is decided
    if frame.seqno is None:
        return
    if stream.prepares is NO_PREPARES:
        stream.prepares = Prepares()
    due = snapshot is not None and not snapshot.flags & DISK  # from a disk, it may be older than this stream
    stream.prepares.add(frame.key, frame.seqno, identity_of(frame), due=due, with_rules=stream.connection.with_rules)


def _document(stream: Stream, frame: FrameEvent) -> None:
    """Take a document of a disk snapshot for the commit of its key's prepare, which it stands for."""
    if stream.prepares.open and stream.marker is not None and stream.marker.flags & DISK:
        stream.prepares.decide(frame.key)


def _event(stream: Stream, frame: FrameEvent) -> None:
    """Take the manifest of a system event, and which collections it brings and takes away."""
    _document(stream, frame)
    record, connection = frame.record, stream.connection
    if record is None:
        return
    get = record.frame.get
    event, collection, uid = get("event"), get("collection_id"), get("manifest_uid")
    if uid is not None:
        connection.manifest_uid = uid
    if event in (BEGIN, MODIFY) and collection is not None:
        stream.exists(collection, now=True)
    elif event == END and collection is not None:
        stream.exists(collection, now=False)
        stream.prepares.drop(collection)


def learn_keys(stream: Stream, frame: FrameEvent) -> None:
    """Remember the key of a document or a durable write, for the rules that ask whether it came before."""
    key, own = frame.key, stream.own_keys()
    keys = own.prepares if frame.opcode in (kinds.PREPARE, kinds.ABORT) else own.documents
    if key not in keys and len(key) <= LONGEST_KEY and stream.connection.memory.keys.reserve(1):
        keys[key] = frame.seqno or 0


def learn_keys_of_run(stream: Stream, close: Inspected) -> None:
    """Remember the keys of documents that follow one another, of which none came before in their snapshot."""
    keys = stream.own_keys().documents
    before = len(keys)
    memory = stream.connection.memory.keys
    if max(map(len, close.keys)) <= LONGEST_KEY and memory.reserve(len(close.keys)):
        keys.update(zip(close.keys, close.seqnos, strict=True))
        memory.give_back(before + len(close.keys) - len(keys))


def is_key_cut(frame: FrameEvent) -> bool:
    """Return whether a damaged frame is about documents of which one key was not captured whole."""
    if frame.opcode == kinds.CACHED:
        return True
    return frame.opcode in kinds.KEYED and (frame.record is None or frame.record.content.key is None)


#: By opcode: what is learnt.
LEARN: dict[int, Learn] = {
    kinds.STREAM_END: _end,
    kinds.MARKER: _marker,
    kinds.SET_STATE: _state,
    kinds.SYSTEM_EVENT: _event,
    kinds.PREPARE: _prepare,
    kinds.OSO: _oso,
    **dict.fromkeys((kinds.COMMIT, kinds.ABORT), lambda stream, frame: stream.prepares.decide(frame.key)),
    kinds.CACHED: lambda stream, _: stream.advance(PhaseEvent.CACHED),
    kinds.CACHED_END: lambda stream, _: stream.advance(PhaseEvent.CACHED_END),
    **dict.fromkeys(kinds.DOCUMENTS, _document),
}


# -- the latest message of a stream, as far as it is remembered ---------------------------------------


def last_message(stream: Stream) -> FrameEvent:
    """Return the place of a stream's latest message."""
    connection = stream.connection
    return NO_FRAME._replace(
        number=stream.traffic.last_frame,
        ts_ns=stream.traffic.last_ns,
        connection=connection.number,
        vbucket_or_status=max(stream.vbucket, 0),
        opaque=stream.opaque or 0,
        direction=connection.producer_direction or 0,
        stream_id=stream.stream_id,
    )


# -- requests, their answers, and closing -------------------------------------------------------------

#: Collections of a filter, more than a cluster may have, and bytes of a failover log, of which servers keep 25 entries.
_COLLECTIONS, _LONGEST_LOG = 4_096, 16 * 1_024


def asked(
    connection: ConnectionState, frame: FrameEvent, waiting: UnansweredRequest, early: FrameEvent | None
) -> Stream:
    """Take a stream request, and return its stream: a new one, or the one whose last request failed.

    ``early``: its answer, where that was captured before it, and with it messages of the stream, maybe.
    """
    request = waiting.request or request_of(frame)
    key = stream_key(frame.vbucket, request.stream_id)
    before = connection.lookup.current.get(key)
    if before is not None and _may_be_other(connection, before, request):
        before = None
    direction = 1 - frame.direction  # of what the stream brings
    connection.lookup.requests += 1
    duplicate = None if before is None else before.duplicate
    goes_on = duplicate if duplicate is not None and not duplicate.granted else before
    granted = 0 if early is None or early.status != SUCCESS else early.number  # the number of its grant
    continues_without_gap = bool(granted) and before is not None and before.opaque == frame.opaque
    if (
        continues_without_gap
        and before is not None
        and not before.requests
        and (before.alive or before.traffic.last_frame > granted)
    ):
        stream = before
    elif goes_on is not None and goes_on.requests and not goes_on.granted and not goes_on.traffic.any:
        stream = goes_on
        request.still_open = before if goes_on is duplicate else None
        if stream.is_behind(direction):
            stream.lose(direction, continues_without_gap=goes_on.requests[-1].status is not None)
    elif continues_without_gap and before is not None and before.alive:
        stream = before
    else:
        stream = Stream(connection, frame.vbucket, request.stream_id)
        stream.begun_at = connection.frames
        stream.know(direction)
        stream.traffic.first_ns = frame.ts_ns
        if before is not None and before.alive:
            request.still_open, before.duplicate = before, stream
            stream.number = before.number + 1
        else:
            stream.follow(before)
            connection.lookup.current[key] = stream
    stream.requests.append(request)
    stream.advance(PhaseEvent.REQUEST)
    if len(stream.requests) >= stream.requests.most:
        stream.requests.forget_some({id(each.request) for each in connection.asked_for(kinds.STREAM_REQ)})
    stream.opaque, stream.traffic.last_ns = frame.opaque, frame.ts_ns
    waiting.stream = stream
    return stream


def _may_be_other(connection: ConnectionState, before: Stream, request: Request) -> bool:
    """Return whether a request is for a stream beside another: stream ids are in use, and its own was not captured.

    After a refusal or an end it is taken for the next request of that stream.
    """
    open_or_asked = before.alive or (not before.is_sending and before.requests[-1].status is None)
    return not request.readable and connection.setup.on("enable_stream_id") and open_or_asked


def answered(connection: ConnectionState, frame: FrameEvent, waiting: UnansweredRequest | None) -> Stream | None:
    """Take the answer to a stream request, and return the stream that it is about."""
    if waiting is None or waiting.stream is None or waiting.request is None:
        stream = connection.lookup.by_opaque.get(frame.opaque)
        if stream is not None and not stream.requests and frame.status == SUCCESS:
            stream.failover_log = _log(frame)
        return stream
    stream, request = waiting.stream, waiting.request
    request.status, request.answer_frame, request.answered_ns = frame.status, frame.number, frame.ts_ns
    request.ambiguous, request.doubtful = waiting.behind, waiting.doubtful
    request.after_gap = connection.doubtful
    stream.traffic.last_ns = frame.ts_ns
    record = frame.record
    if frame.status == SUCCESS:
        request.ambiguous = waiting.doubtful  # it may have been refused, and what was granted requested after that
        request.failover_log = _log(frame)
        _grant(connection, stream, request, frame)
        return stream
    stream.advance(PhaseEvent.REFUSAL)
    if frame.status == ROLLBACK:
        request.rollback_seqno = None if record is None else record.frame.get("rollback_seqno")
    elif record is not None:
        request.said = error_text(record.content.document)
    return stream


def mark_ambiguous(connection: ConnectionState, streams: Iterable[Stream]) -> None:
    """Mark the requests whose own answer is not known: several have one opaque, and not all was captured.

    ``streams``: those of the connection that are to be judged.
    """
    if not connection.doubtful:
        return
    requests, unpaired = [each for stream in streams for each in stream.requests], connection.exchanges.unpaired
    behind = {each.opaque for each in requests if each.doubtful}  # an answer may be that of the one before
    for each in requests:
        mixed = connection.lookup.shares(each.opaque) or each.opaque in unpaired
        if each.status is None:
            each.ambiguous |= connection.has_gaps and (mixed or each.opaque in behind)
        else:
            each.ambiguous |= each.after_gap and mixed


def set_apart(connection: ConnectionState, waiting: UnansweredRequest) -> Stream | None:
    """Begin a stream for what was requested in a place after a request that is granted now; None: nothing was.

    The requests were captured before the answers to those before them.
    """
    stream, request = waiting.stream, waiting.request
    at = 0 if stream is None else next((at for at, each in enumerate(stream.requests, 1) if each is request), 0)
    if stream is None or request is None or not 0 < at < len(stream.requests):
        return None
    later = Stream(connection, stream.vbucket, stream.stream_id, number=stream.number + 1)
    later.requests[:] = stream.requests[at:]
    del stream.requests[at:]
    later.begun_at, later.knowledge, later.traffic.first_ns = stream.begun_at, stream.knowledge, stream.traffic.last_ns
    later.opaque = later.requests[-1].opaque
    stream.opaque, stream.duplicate = request.opaque, later
    moved = set(map(id, later.requests))
    for each in connection.asked_for(kinds.STREAM_REQ):
        if each.request is not None and id(each.request) in moved:
            each.stream = later
            each.request.still_open = stream
    return later


def _log(frame: FrameEvent) -> tuple[Entry, ...] | None:
    """Return a failover log that was captured whole: what is not in a part of one may be in the rest.

    One that is far longer than servers have is not kept.
    """
    if not frame.complete or not frame.data or frame.value_length > _LONGEST_LOG:
        return None
    return tuple(failover_log(frame))


def _grant(connection: ConnectionState, stream: Stream, request: Request, frame: FrameEvent) -> None:
    before = request.still_open
    if before is not None:
        before.replaced |= before.alive
        stream.follow(before)
    if stream.granted and connection.has_gaps:  # which of its requests each answer is for is unknown
        stream.marker = stream.snapshot = stream.seqnos.floor = None
        stream.gaps = stream.gaps._replace(times=stream.gaps.times + 1)
    key = stream_key(stream.vbucket, stream.stream_id)
    stream.granted = True
    if connection.noops.due_ns is None:
        connection.noops.due_ns = frame.ts_ns
    if connection.setup.bucket is not None:
        connection.memory.producing[connection.setup.bucket, stream.vbucket] = stream
    stream.traffic.last_frame = max(stream.traffic.last_frame, frame.number)
    stream.failover_log = request.failover_log
    if not stream.in_order:  # else its messages were captured before the grant
        cached = (request.flags or 0) & CACHE_TRANSFER
        stream.advance(PhaseEvent.GRANT_OF_CACHE if cached else PhaseEvent.GRANT)
    stream.begun_at = connection.frames
    stream.know(frame.direction)
    stream.seqnos.reached = max(stream.seqnos.reached, request.start)
    connection.lookup.current[key] = stream
    other = connection.lookup.by_opaque.get(frame.opaque)
    if other is not None and other.live and not other.closed and other.vbucket != stream.vbucket:
        connection.lookup.share(frame.opaque)
    connection.lookup.by_opaque[frame.opaque] = stream


def closed(stream: Stream, frame: FrameEvent) -> None:
    """Take the answer to a CLOSE_STREAM."""
    stream.close_asked = False
    if frame.status == SUCCESS and not stream.closed:
        stream.close = Closed(frame.ts_ns, stream.connection.producer_direction == 1 - frame.direction)
        stream.traffic.last_ns = frame.ts_ns


def _filter(collections: list[Any]) -> tuple[str, ...]:
    """Return the collections that a request asks for; of very many, how many more there are."""
    kept = tuple(printable(str(each)[: LONGEST + 1]) for each in collections[:_COLLECTIONS])
    more = len(collections) - len(kept)
    return (*kept, f"… {more:,} more") if more else kept


def request_of(frame: FrameEvent) -> Request:
    """Return the request that a frame holds."""
    document: Any = None if frame.record is None else frame.record.content.document
    json = document if isinstance(document, dict) else {}
    collections, scope, purge, sid = (json.get(name) for name in ("collections", "scope", "purge_seqno", "sid"))
    return Request(
        frame.number,
        frame.ts_ns,
        frame.opaque,
        frame.get("flags"),
        frame.get("start_seqno"),
        frame.get("end_seqno"),
        frame.get("vbucket_uuid"),
        frame.get("snap_start_seqno"),
        frame.get("snap_end_seqno"),
        sid if isinstance(sid, int) and 0 < sid <= MOST_STREAM_ID else 0,
        _filter(collections) if isinstance(collections, list) else None,
        printable(scope) if isinstance(scope, str) else None,
        whole_number(purge) if isinstance(purge, str) else None,
        bool(frame.value_length),
        not frame.value_length or (isinstance(document, dict) and ("sid" not in json or isinstance(sid, int))),
        json_fault(frame.value, frame.datatype, document)
        if frame.value_length and frame.complete and frame.record is not None
        else None,
        frame.datatype,
    )
