"""What the messages of a stream teach of it, beside their seqno and their size."""

from collections.abc import Callable

from dcpdump.batch.document_runs import Inspected
from dcpdump.spec.document import BEGIN, END, MODIFY
from dcpdump.spec.names import ACTIVE, DISK, OSO_START
from dcpdump.streams.facts import Snapshot, TakeoverState
from dcpdump.streams.frame_event import NO_FRAME, FrameEvent, kept
from dcpdump.streams.opcode_kinds import (
    ABORT,
    CACHED,
    CACHED_END,
    COMMIT,
    DOCUMENTS,
    MARKER,
    OSO,
    PREPARE,
    SET_STATE,
    STREAM_END,
    SYSTEM_EVENT,
    WITH_VALUES,
)
from dcpdump.streams.phases import PhaseEvent
from dcpdump.streams.stream import LONGEST, NO_PREPARES, Prepares, Stream, StreamEnd

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
    stream.prepares.add(frame.key, frame.seqno, kept(frame), due=due, with_rules=stream.connection.with_rules)


def _resolve(stream: Stream, frame: FrameEvent) -> None:
    stream.prepares.open.pop(frame.key, None)


def _document(stream: Stream, frame: FrameEvent) -> None:
    """Take a document of a disk snapshot for the commit of its key's prepare, which it stands for."""
    if stream.prepares.open and stream.marker is not None and stream.marker.flags & DISK:
        stream.prepares.open.pop(frame.key, None)


def _transfer(stream: Stream, frame: FrameEvent) -> None:
    stream.advance(PhaseEvent.CACHED)


def _transfer_end(stream: Stream, frame: FrameEvent) -> None:
    stream.advance(PhaseEvent.CACHED_END)


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
    key, memory = frame.key, stream.connection.memory.keys
    if stream.oso:
        known = stream.keys.out_of_order
        if frame.opcode in DOCUMENTS and key not in known and len(key) <= LONGEST and memory.takes(1):
            stream.own_keys().out_of_order.add(key)
        return
    own = stream.own_keys()
    keys = own.prepares if frame.opcode in (PREPARE, ABORT) else own.documents
    if key not in keys and len(key) <= LONGEST and memory.takes(1):
        keys[key] = frame.seqno or 0


def learn_keys_of_run(stream: Stream, close: Inspected) -> None:
    """Remember the keys of documents that follow one another, of which none came before in their snapshot."""
    keys = stream.own_keys().documents
    before = len(keys)
    memory = stream.connection.memory.keys
    if max(map(len, close.keys)) <= LONGEST and memory.takes(len(close.keys)):
        keys.update(zip(close.keys, close.seqnos, strict=True))
        memory.give_back(before + len(close.keys) - len(keys))


def is_key_cut(frame: FrameEvent) -> bool:
    """Return whether a damaged frame is about documents of which one key was not captured whole."""
    if frame.opcode == CACHED:
        return True
    return frame.opcode in KEYED and (frame.record is None or frame.record.meaning.key is None)


#: Messages whose key a snapshot may have only once.
KEYED = frozenset({*WITH_VALUES, COMMIT, ABORT})


def _table() -> list[Learn | None]:
    table: list[Learn | None] = [None] * 256
    table[STREAM_END], table[MARKER], table[SET_STATE], table[SYSTEM_EVENT] = _end, _marker, _state, _event
    table[PREPARE], table[COMMIT], table[ABORT] = _prepare, _resolve, _resolve
    table[OSO], table[CACHED], table[CACHED_END] = _oso, _transfer, _transfer_end
    for opcode in DOCUMENTS:
        table[opcode] = _document
    return table


#: By opcode: what is learnt.
LEARN = _table()


# -- the latest message of a stream, as far as it is remembered ---------------------------------------


def last_message(stream: Stream) -> FrameEvent:
    """Return the place of a stream's latest message."""
    connection = stream.connection
    return NO_FRAME._replace(
        number=stream.traffic.last_frame,
        ts_ns=stream.traffic.last_ns,
        connection=connection.number,
        word=max(stream.vbucket, 0),
        opaque=stream.opaque or 0,
        direction=connection.producer_direction or 0,
        stream_id=stream.stream_id,
    )
