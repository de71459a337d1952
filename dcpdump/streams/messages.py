"""What the messages of a stream teach of it, beside their seqno and their size."""

from collections.abc import Callable

from dcpdump.streams.facts import Collection, Snapshot, State
from dcpdump.streams.sight import Sight
from dcpdump.streams.state import Stream

_OSO_START = 1
_BEGIN, _END, _CREATE, _DROP, _MODIFY = 0, 1, 3, 4, 5
#: Open prepares are remembered up to so many.
_PREPARES = 65_536

Learn = Callable[[Stream, Sight], None]


def _marker(stream: Stream, sight: Sight) -> None:
    get = sight.get
    start, end, flags = get("start_seqno"), get("end_seqno"), get("snapshot_type")
    stream.snapshots += 1
    stream.caching = False
    if start is None or end is None or flags is None:
        stream.snapshot = None
        return
    stream.snapshot = Snapshot(start, end, flags, sight.shape.version, sight.number, sight.ts_ns)
    stream.ordered = True
    if sight.shape.version != "1":
        snapshot = stream.snapshot
        snapshot.max_visible, snapshot.high_completed = get("max_visible_seqno"), get("high_completed_seqno")
        snapshot.purge, snapshot.high_prepared = get("purge_seqno"), get("high_prepared_seqno")
        if snapshot.purge is not None:
            stream.purge_seqno = snapshot.purge


def _end(stream: Stream, sight: Sight) -> None:
    stream.end_status, stream.end_frame, stream.ended_ns = sight.get("status"), sight.number, sight.ts_ns


def _oso(stream: Stream, sight: Sight) -> None:
    stream.oso = bool((sight.get("flags") or 0) & _OSO_START)
    if stream.oso:
        stream.oso_snapshots += 1
        stream.snapshot = None


def _state(stream: Stream, sight: Sight) -> None:
    state = sight.get("state")
    if state is not None:
        stream.states.append(State(state, sight.ts_ns, sight.number))


def _prepare(stream: Stream, sight: Sight) -> None:
    if sight.seqno is not None and len(stream.prepared) < _PREPARES:
        stream.prepared[sight.key] = sight.seqno


def _resolve(stream: Stream, sight: Sight) -> None:
    stream.prepared.pop(sight.key, None)


def _transfer(stream: Stream, sight: Sight) -> None:
    stream.caching = True


def _transfer_end(stream: Stream, sight: Sight) -> None:
    stream.caching = False


def _event(stream: Stream, sight: Sight) -> None:
    """A system event names collections and scopes, and takes them away."""
    record, connection = sight.record, stream.connection
    if record is None:
        return
    get = record.frame.get
    event, scope, collection, uid = get("event"), get("scope_id"), get("collection_id"), get("manifest_uid")
    name = sight.key.decode("utf-8", "backslashreplace")
    if uid is not None:
        connection.manifest_uid = uid
    if event in (_BEGIN, _MODIFY) and collection is not None:
        connection.collections[collection] = Collection(name, scope)
    elif event == _END and collection in connection.collections:
        connection.collections[collection].dropped_seqno = sight.seqno
    elif event == _CREATE and scope is not None:
        connection.scopes[scope] = Collection(name)
    elif event == _DROP and scope in connection.scopes:
        connection.scopes[scope].dropped_seqno = sight.seqno


def _table() -> list[Learn | None]:
    table: list[Learn | None] = [None] * 256
    table[0x55], table[0x56], table[0x5B], table[0x5F] = _end, _marker, _state, _event
    table[0x60], table[0x62], table[0x63] = _prepare, _resolve, _resolve
    table[0x65], table[0x66], table[0x67] = _oso, _transfer, _transfer_end
    return table


#: By opcode: what is learnt.
LEARN = _table()
