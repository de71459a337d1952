"""DCP3xx, second part: how snapshots follow one another."""

from dcpdump.check.rule import (
    FILTER,
    INFO,
    LOST,
    REPLICA,
    START,
    SUSPICIOUS,
    VIOLATION,
    Event,
    Remark,
    Scope,
    Suspend,
    rule,
)
from dcpdump.spec.names import CHECKPOINT, DISK, FROM_LATEST, HISTORY, MEMORY
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import MARKER
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream


def _first(stream: Stream) -> bool:
    """Return whether the marker at hand is the first of a stream whose beginning was captured."""
    request = stream.grant
    return request is not None and not stream.snapshots and not request.bits & FROM_LATEST


@rule(
    "DCP304",
    "S4",
    SUSPICIOUS,
    on=(MARKER, Event.FIRST),
    off=(START, REPLICA),
    spares=lambda run, close, connection, stream: not _first_is_far(stream, run.first_seqno),
)
def first_start(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """First snapshot does not begin where the client is.

    Reported when the first marker starts above the requested snapshot start and the requested start: of a disk
    snapshot always, of a memory snapshot (without the checkpoint flag) where no item with that seqno follows.

    Servers begin the first snapshot, from disk or from memory, at the requested snapshot start. Else the client gets a
    snapshot that does not contain its own position; what lies between is not accounted for. (Behind an out-of-order
    snapshot the next marker is not the first.)

    Usual causes: a source that joined a later checkpoint; start taken from the first item of a backfill.

    Source: dcp/active_stream.cc (adjustStartIfFirstSnapshot)
    """
    request = stream.grant
    if request is None:
        return None
    if frame.opcode == MARKER:
        marker = connection.incoming
        if marker is None or not marker.flags & DISK or not _first(stream) or stream.oso_snapshots:
            return None
        if marker.start <= max(request.start, request.snap_start) + 1:
            return None
        return f"the first snapshot starts at {marker.start}, requested were {request.snap_start} and {request.start}"
    marker = stream.marker
    if marker is None or frame.seqno is None or not _first_is_far(stream, frame.seqno):
        return None
    return f"the first snapshot starts at {marker.start}: neither {request.start} nor the next seqno {frame.seqno}"


def _first_is_far(stream: Stream, seqno: int) -> bool:
    """Return whether the first snapshot, from memory, begins neither where the client is nor with its first item."""
    request, marker = stream.grant, stream.marker
    if request is None or marker is None or stream.snapshots != 1 or stream.items_since_marker:
        return False
    if marker.flags & (DISK | CHECKPOINT) or stream.oso_snapshots or request.bits & FROM_LATEST:
        return False
    return max(request.start, request.snap_start) + 1 < marker.start < seqno


@rule("DCP323", "S23", SUSPICIOUS, on=(MARKER,), off=(START, LOST))
def below_start(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """First snapshot starts below the requested one.

    Reported when the first marker starts below the snapshot start that was requested. Between nodes it is a
    violation: snapshots of a replica do not go back, and it fails at such a marker when it reconnects.

    Servers begin the first snapshot at the requested snapshot start. Some before 7.6 begin where their checkpoint
    starts, when all that was in it up to the requested seqno is gone. A client that stores the marker as it is asks
    next for a snapshot that is larger than the one it is in, and may be rolled back further than it has to.

    Usual causes: a server before 7.6 that streams from the middle of a checkpoint.

    Source: dcp/active_stream.cc (snapshot, MB-59759), dcp/passive_stream.cc (reconnectStream)
    """
    request, marker = stream.grant, connection.incoming
    if request is None or request.snap_start_seqno is None or marker is None:
        return None
    if not _first(stream) or stream.oso_snapshots or marker.start >= request.snap_start_seqno:
        return None
    nodes = connection.between_nodes
    follows = "a replica that reconnects fails at it" if nodes else "the client's own snapshot began later"
    text = f"the first snapshot starts at {marker.start}, requested was {request.snap_start_seqno}: {follows}"
    return Remark(text, VIOLATION if nodes else None)


@rule(
    "DCP306",
    "S6",
    SUSPICIOUS,
    on=(Event.FIRST,),
    off=(FILTER, REPLICA, START, LOST, Suspend.HISTORY, Suspend.OUT_OF_ORDER),
    scope=Scope.SNAPSHOT,
    spares=lambda run, close, connection, stream: not _begins_elsewhere(stream, run.first_seqno),
)
def memory_start(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Memory snapshot does not begin with its first item.

    Reported when a later memory snapshot does not start at the seqno of its first item (without the checkpoint
    flag), or starts above it (with that flag: at the start of the producer's checkpoint).

    Usual causes: items that were dropped between the marker and the wire.

    Source: snapshot-marker.md, dcp/active_stream.cc
    """
    marker, seqno = stream.marker, frame.seqno
    if marker is None or seqno is None or not _begins_elsewhere(stream, seqno):
        return None
    return f"snapshot {marker.start}..{marker.end} begins with seqno {seqno}"


def _begins_elsewhere(stream: Stream, seqno: int) -> bool:
    """Return whether a memory snapshot, but the first, begins with another seqno than that of its first item."""
    marker = stream.marker
    if marker is None or stream.items_since_marker or stream.snapshots < 2 or not marker.flags & MEMORY:
        return False
    return marker.start > seqno or (marker.start != seqno and not marker.flags & CHECKPOINT)


@rule("DCP309", "S9", SUSPICIOUS, on=(MARKER,), off=(START, LOST), scope=Scope.SNAPSHOT)
def overlap(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Snapshots overlap.

    Reported when a marker starts at or below the end of the snapshot before. (The second marker of a pair with
    history may repeat the range.) As information only behind a disk snapshot of a stream that may come from a
    replica (its request does not insist on an active vbucket): those join what they have on disk and in memory;
    and of a disk snapshot without the checkpoint flag that starts where the requested one does: servers before 5.0
    start each backfill there.

    The consumer has to decide which of the two a document belongs to. An active source closes the connection instead.

    Usual causes: a stream from a replica; an end that was extended after it was sent.

    Source: dcp/active_stream.cc
    """
    marker, before = connection.incoming, stream.marker
    if marker is None or before is None or stream.oso_ended or marker.start > before.end or marker.end < before.end:
        return None
    if marker.end < marker.start or before.end < before.start:
        return None  # S1 reports markers that run backwards
    if marker.flags & HISTORY and (marker.start, marker.end) == (before.start, before.end):
        return None
    joined = before.flags & DISK and stream.may_be_of_replica
    request = stream.grant
    old = marker.flags == DISK and request is not None and marker.start == request.snap_start
    text = f"snapshot {marker.start}..{marker.end} overlaps {before.start}..{before.end}"
    return Remark(text, INFO if joined or old else None)


@rule("DCP310", "S10", VIOLATION, on=(MARKER,), off=(START, LOST), scope=Scope.SNAPSHOT)
def snapshot_back(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Snapshots go backwards.

    Reported when a marker ends below the end of the snapshot before.

    A stream never goes back; a server's consumer answers Erange where all of it lies below what it has, and closes
    the connection where only its end does.

    Usual causes: a rollback that the client does not know of; two streams mixed into one.

    Source: dcp/passive_stream.cc
    """
    marker, before = connection.incoming, stream.marker
    if marker is None or before is None or marker.end >= before.end:
        return None
    if marker.end < marker.start or before.end < before.start:
        return None  # S1 reports markers that run backwards
    text = f"snapshot {marker.start}..{marker.end} ends below {before.start}..{before.end}"
    refused = stream.last is not None and marker.start < stream.last and marker.end <= stream.last
    return Remark(text, status="Erange" if refused else "")


@rule("DCP313", "S13", SUSPICIOUS, on=(MARKER,), off=(START, LOST), scope=Scope.SNAPSHOT)
def unfinished(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Snapshot left unfinished.

    Reported when a new marker comes before a message with the seqno of the snapshot's end. Where what ends it is not
    for the client, that is SEQNO_ADVANCED. (Snapshots from disk may end so in streams with a filter and
    without SEQNO_ADVANCED, and of clients without collections, which get the default collection only; and the first of
    a pair of markers with history.)

    Until the end arrives, the client must not take what it has for consistent: it resumes from before.

    Usual causes: the last item of a snapshot lost or filtered without SEQNO_ADVANCED.

    Source: dcp/active_stream.cc
    """
    marker, before = connection.incoming, stream.marker
    if marker is None or before is None or stream.oso_ended or (stream.last or 0) >= before.end:
        return None
    if stream.end_may_be_filtered:
        return None
    if marker.flags & HISTORY and not before.flags & HISTORY and marker.end == before.end:
        return None
    text = f"snapshot {before.start}..{before.end} came to {stream.last or 'nothing'}"
    if not connection.advances:
        return f"{text}, and the next begins"
    return f"{text}: neither an item with seqno {before.end} nor SEQNO_ADVANCED came before the next"
