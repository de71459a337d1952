"""DCP3xx, third part: what may stand inside a snapshot: keys, out-of-order snapshots, acknowledgements."""

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.rule import (
    INFO,
    LOST,
    REPLICA,
    START,
    SUSPICIOUS,
    VIOLATION,
    Delayed,
    Event,
    Remark,
    Scope,
    Suspend,
    rule,
)
from dcpdump.check.rules.framing import name
from dcpdump.spec.names import ACTIVE, DISK, DUPLICATES
from dcpdump.streams.document_run import DocumentRun
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import ABORT, COMMIT, DOCUMENTS, MARKER, OSO, PREPARE
from dcpdump.streams.phases import Phase, PhaseEvent, allows
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

_SECOND = 1_000_000_000


def _all_once(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool:
    marker, seen, keys = stream.marker, stream.keys.documents, close.keys
    if marker is None or marker.flags & DUPLICATES:
        return True
    return len(set(keys)) == len(keys) and seen.keys().isdisjoint(keys)


@rule(
    "DCP317",
    "S17",
    VIOLATION,
    on=(*DOCUMENTS, COMMIT, PREPARE, ABORT),
    off=(Suspend.HISTORY, START, LOST),
    scope=Scope.SNAPSHOT,
    spares=_all_once,
)
def twice(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Key twice in a snapshot.

    Reported when a key comes for the second time in a snapshot: among documents and commits, or among prepares and
    aborts. Suspicious only: in a disk snapshot of a stream that may come from a replica (its request does not insist
    on an active vbucket), as a replica may send what it has on disk and in memory under one marker.

    A snapshot holds only the latest state of each key, unless its marker says that it may contain duplicates.
    A client that indexes a snapshot at once gets one of the two, by chance.

    Usual causes: two snapshots under one marker; an item sent again; a replica as the source.

    Source: snapshot-marker.md, dcp/active_stream.cc
    """
    marker = stream.marker
    if marker is None or marker.flags & DUPLICATES:
        return None
    keys = stream.keys.prepares if frame.opcode in (PREPARE, ABORT) else stream.keys.documents
    seqno = keys.get(frame.data[frame.key_at : frame.value_at])
    if seqno is None:
        return None
    text = f"the key of seqno {frame.seqno} is that of seqno {seqno} in snapshot {marker.start}..{marker.end}"
    return Remark(text, SUSPICIOUS if marker.flags & DISK and stream.may_be_of_replica else None)


@rule("DCP318", "S18", VIOLATION, on=(OSO, MARKER, Event.DISORDERED), off=(START, LOST), scope=Scope.SNAPSHOT)
def oso(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Out-of-order snapshot out of place.

    Reported when OSO_SNAPSHOT comes without enable_out_of_order_snapshots, on a stream that does not start at 0, or
    on one of the whole bucket (with collections and without a filter); when one starts without the end of another, or
    ends without a start; and when there is a marker, or a key twice, in between.

    A filter by collections or by scope, or a connection without collections, which gets the default collection only,
    allows for it. The server decides whether it does so.

    Inside such a snapshot seqnos mean nothing; a client that does not expect it takes them for an order.

    Usual causes: a client that asked for it and does not know its rules; a producer that nests backfills.

    Source: oso_snapshot.md, dcp/active_stream.cc
    """
    if frame.opcode == MARKER:
        in_it = stream.phase is Phase.OUT_OF_ORDER and not allows(stream.phase, PhaseEvent.MARKER)
        return "snapshot marker inside an out-of-order snapshot" if in_it else None
    if frame.opcode != OSO:
        if frame.opcode not in DOCUMENTS:
            return None
        again = frame.key in stream.keys.out_of_order
        return f"the key of seqno {frame.seqno} came before in this out-of-order snapshot" if again else None
    request, begins = stream.request, bool((frame.get("flags") or 0) & 1)
    if not allows(stream.phase, PhaseEvent.OSO_START if begins else PhaseEvent.OSO_END):
        return "out-of-order snapshot starts inside another" if begins else "out-of-order snapshot ends, none began"
    if not begins:
        return None
    if connection.controls_known and not connection.on("enable_out_of_order_snapshots"):
        return "out-of-order snapshot, and enable_out_of_order_snapshots is not on"
    if request is not None and request.start:
        return f"out-of-order snapshot on a stream that starts at {request.start}"
    if stream.filtered is False and connection.has_collections and not connection.doubtful:
        return "out-of-order snapshot on a stream of the whole bucket"
    return None


@rule(
    "DCP320", "S20", VIOLATION, on=(Event.UNACKNOWLEDGED, Event.ACK_UNASKED), off=(START, LOST), scope=Scope.CONNECTION
)
def acknowledged(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Snapshot not acknowledged, or acknowledged unasked.

    Reported when the last item of a snapshot with the acknowledge flag came and the consumer did not acknowledge
    it, and (suspicious) when it acknowledges another. An answer with an error is not an acknowledgement; where a marker
    was refused, none is due.

    The hand-over of a vbucket waits for them.

    Usual causes: a consumer that does not know the flag; a deletion as last item that was not counted.

    Source: dcp/consumer.cc, dcp/active_stream.cc
    """
    unlisted = f" (and {delayed.amount:,} more that are not listed)" if delayed.amount else ""
    if delayed.frame.response:
        return Remark(f"acknowledgement of a snapshot that did not ask for one{unlisted}", SUSPICIOUS)
    text = f"the snapshot that ended with seqno {delayed.frame.seqno} was not acknowledged{unlisted}"
    if delayed.waited_ns >= _SECOND:
        cut = connection.over and stream.end_frame is None and delayed.waited_ns < 30 * _SECOND
        return Remark(text, INFO) if cut else text
    return text if stream.end_frame is not None and stream.state == ACTIVE else None


@rule("DCP322", "S22", SUSPICIOUS, on=(COMMIT,), off=(REPLICA,))
def disk_commit(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Commit in a disk snapshot.

    Reported when a COMMIT comes in a disk snapshot.

    On disk a committed durable write is a mutation or a deletion; only aborts appear as such.

    Usual causes: a snapshot from memory whose marker says disk.

    Source: dcp/active_stream.cc
    """
    marker = stream.marker
    if marker is None or stream.stale or not marker.flags & DISK:
        return None
    return f"{name(frame.opcode)} in disk snapshot {marker.start}..{marker.end}"
