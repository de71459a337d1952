"""DCP3xx, DCP40x: snapshots: their markers, how they follow one another, what may stand in them, and in which order."""

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.rule import INFO, SUSPICIOUS, VIOLATION, Delayed, Event, Remark, Scope, Suspend, rule, skipping
from dcpdump.check.rules.frames import name
from dcpdump.spec import names
from dcpdump.streams import opcode_kinds as kinds
from dcpdump.streams.frame_event import DocumentRun, FrameEvent
from dcpdump.streams.phases import Phase, PhaseEvent, allows
from dcpdump.streams.state import SECOND, ConnectionState
from dcpdump.streams.stream import Stream

# -- what a snapshot marker says by itself ------------------------------------------------------------

_KNOWN_BITS = 0x3F
#: Versions of markers that only disk snapshots have.
_OF_DISK = {"2.1": VIOLATION, "2.2": SUSPICIOUS, "2.2-pre": SUSPICIOUS}


@rule("DCP301", "S1", VIOLATION, kinds.MARKER, status="Einval")
def backwards(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Snapshot that ends before it starts.

    Reported when a marker's start seqno is above its end seqno.

    No seqno lies in such a range; the consumer refuses it with Einval.

    Usual causes: start and end swapped; a start computed after the end was fixed.
    Source: snapshot-marker.md, dcp/consumer.cc
    """
    marker = connection.incoming
    if marker is None or marker.start <= marker.end:
        return None
    return f"snapshot {marker.start}..{marker.end}"


@rule("DCP302", "S2", VIOLATION, kinds.MARKER, scope=Scope.CONNECTION)
def flags(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Snapshot type that does not fit.

    Reported when a marker is both memory and disk, or neither; when it is memory in version 2.1, which is for disk
    snapshots; or when it is memory on a disk-only stream, which ends where its backfill does. Suspicious: unknown
    bits, history or may-contain-duplicates without change_streams, duplicates in memory, memory in version 2.2,
    acknowledge on a stream that is not a takeover. As information, as servers before 6.5 leave it out: the first memory
    snapshot behind a backfill without the checkpoint flag.

    What a consumer does with purge seqno, completed seqno and a switch of sources depends on these bits. With the
    checkpoint flag it begins a new checkpoint; without it, it continues that of the backfill.

    Usual causes: flags of another version; a literal where a combination was meant.
    Source: snapshot-marker.md, dcp/active_stream.cc
    """
    bits = frame.get("snapshot_type")
    if bits is None:
        return None
    found = _alone(frame, bits)
    unagreed = connection.controls_known and not connection.setup.on("change_streams")
    if found is None and unagreed and bits & (names.HISTORY | names.DUPLICATES):
        return Remark(f"snapshot type 0x{bits:x}, and change_streams is not on", SUSPICIOUS)
    return found or _of_stream(bits, stream)


def _alone(frame: FrameEvent, bits: int) -> Remark | None:
    """Return what is wrong with a snapshot type alone."""
    version = frame.shape.version
    if bool(bits & names.MEMORY) is bool(bits & names.DISK):
        both = "both memory and disk" if bits & names.DISK else "neither memory nor disk"
        return Remark(f"snapshot type 0x{bits:x} is {both}", scope=Scope.FRAME)
    if bits & ~_KNOWN_BITS:
        return Remark(f"snapshot type 0x{bits:x} has unknown bits", SUSPICIOUS, scope=Scope.FRAME)
    if bits & names.DUPLICATES and bits & names.MEMORY:
        return Remark(f"snapshot type 0x{bits:x}: duplicates in a memory snapshot", SUSPICIOUS, scope=Scope.FRAME)
    if bits & names.MEMORY and version in _OF_DISK:
        text = f"memory snapshot in a marker of version {version}, which is for disk snapshots"
        return Remark(text, _OF_DISK[version], scope=Scope.FRAME)
    return None


def _of_stream(bits: int, stream: Stream) -> Remark | None:
    """Return what is wrong with a type on this stream, or behind its last snapshot."""
    if bits & names.ACKNOWLEDGE and stream.request is not None and not stream.asked_takeover:
        return Remark("acknowledge is set on a stream that is no takeover", SUSPICIOUS, scope=Scope.STREAM)
    if not bits & names.MEMORY:
        return None
    if stream.flags & names.DISK_ONLY:
        return Remark("memory snapshot on a disk-only stream", scope=Scope.STREAM)
    before = stream.marker
    if before is None or stream.needs_marker or stream.oso_ended:
        return None
    if bits & names.CHECKPOINT or not before.flags & names.DISK:
        return None
    text = f"snapshot type 0x{bits:x} has no checkpoint flag, and is the first from memory behind a backfill"
    return Remark(text, INFO, scope=Scope.SNAPSHOT)


@rule("DCP303", "S3", VIOLATION, kinds.MARKER, scope=Scope.CONNECTION)
def version(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Marker in a version that was not agreed on.

    Reported when a marker is V2.0 without enable_sync_writes, or V2.2 without max_marker_version. Suspicious: the
    layouts that no released server sends, V2.1 and V2.2 of 44 bytes.

    A client that did not ask for V2 finds one byte of extras where it expects twenty. A server takes V2.0 and V2.2 in
    any case, and refuses the others with Einval.

    Usual causes: controls refused and used all the same.
    Source: dcp_snapshot_marker_codec.cc, daemon/mcbp_validators.cc
    """
    found = frame.shape.version
    if found in ("2.1", "2.2-pre"):
        text = f"marker in version {found}, which no released server sends"
        return Remark(text, SUSPICIOUS, "Einval", scope=Scope.FRAME)
    if not connection.controls_known:
        return None
    if found == "2.0" and not connection.setup.on("enable_sync_writes"):
        has_version = "max_marker_version" in connection.setup.agreed
        return None if has_version else "marker V2.0, and enable_sync_writes is not on"
    if found == "2.2" and connection.setup.agreed.get("max_marker_version") != "2.2":
        return "marker V2.2, and max_marker_version=2.2 was not accepted"
    return None


@rule("DCP314", "S14", VIOLATION, kinds.MARKER)
def beyond(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Seqnos of a marker beyond its end.

    Reported when a marker's max visible, high prepared or purge seqno is above its end. Suspicious: a high
    completed seqno above the end, or above the high prepared seqno.

    A replica throws on the first three, and the connection is closed.

    Usual causes: values read at different moments; fields in the wrong order.
    Source: dcp/passive_stream.cc
    """
    if frame.shape.version == "1":
        return None
    end = frame.get("end_seqno")
    if end is None:
        return None
    for field in ("max_visible_seqno", "high_prepared_seqno", "purge_seqno"):
        number = frame.get(field)
        if number is not None and number > end:
            return f"{field.replace('_', ' ')} {number} is above the snapshot's end {end}"
    completed, prepared = frame.get("high_completed_seqno") or 0, frame.get("high_prepared_seqno") or 0
    if completed > end:
        return Remark(f"high completed seqno {completed} is above the snapshot's end {end}", SUSPICIOUS)
    if prepared and completed > prepared:
        return Remark(f"high completed seqno {completed} is above the high prepared seqno {prepared}", SUSPICIOUS)
    return None


@rule("DCP316", "S16", VIOLATION, kinds.MARKER)
def completed(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Completed seqno where it means nothing, or missing where it is needed.

    Reported when a disk marker is in version 1 on a connection that replicates durable writes: it has no high
    completed seqno, and the replica closes the connection. As information: high completed or prepared seqnos on a
    memory snapshot, where they mean nothing.

    Usual causes: a proxy that rewrites markers to the oldest version.
    Source: dcp/passive_stream.cc, dcp_snapshot_marker_codec.cc
    """
    bits = frame.get("snapshot_type") or 0
    if frame.shape.version == "1":
        durable = bits & names.DISK and connection.controls_known and connection.setup.sync_replication
        return "disk marker V1 on a connection that replicates durable writes" if durable else None
    if bits & names.DISK:
        return None
    for field in ("high_completed_seqno", "high_prepared_seqno"):
        if frame.get(field):
            return Remark(f"{field.replace('_', ' ')} {frame.get(field)} on a memory snapshot", INFO)
    return None


# -- how snapshots follow one another -----------------------------------------------------------------


def _first(stream: Stream) -> bool:
    """Return whether the marker at hand is the first of a stream whose beginning was captured."""
    request = stream.grant
    return request is not None and not stream.traffic.snapshots and not request.bits & names.FROM_LATEST


@skipping(lambda run, close, stream: not _first_is_far(stream, run.first_seqno))
@rule("DCP304", "S4", SUSPICIOUS, kinds.MARKER, Event.FIRST, scope=Scope.STREAM, off=(Suspend.REPLICA,))
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
    if frame.opcode == kinds.MARKER:
        marker = connection.incoming
        if marker is None or not marker.flags & names.DISK or not _first(stream) or stream.traffic.oso_snapshots:
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
    if request is None or marker is None or stream.traffic.snapshots != 1 or stream.seqnos.since_marker:
        return False
    if marker.flags & (names.DISK | names.CHECKPOINT) or request.bits & names.FROM_LATEST:
        return False
    return not stream.traffic.oso_snapshots and max(request.start, request.snap_start) + 1 < marker.start < seqno


@rule("DCP323", "S23", SUSPICIOUS, kinds.MARKER, scope=Scope.STREAM)
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
    if not _first(stream) or stream.traffic.oso_snapshots or marker.start >= request.snap_start_seqno:
        return None
    nodes = connection.setup.between_nodes
    follows = "a replica that reconnects fails at it" if nodes else "the client's own snapshot began later"
    text = f"the first snapshot starts at {marker.start}, requested was {request.snap_start_seqno}: {follows}"
    return Remark(text, VIOLATION if nodes else None)


_MAY_BEGIN_ELSEWHERE = (Suspend.FILTER, Suspend.REPLICA, Suspend.HISTORY, Suspend.OUT_OF_ORDER)


@skipping(lambda run, close, stream: not _begins_elsewhere(stream, run.first_seqno))
@rule("DCP306", "S6", SUSPICIOUS, Event.FIRST, scope=Scope.SNAPSHOT, off=_MAY_BEGIN_ELSEWHERE)
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
    if marker is None or stream.seqnos.since_marker or stream.traffic.snapshots < 2 or not marker.flags & names.MEMORY:
        return False
    return marker.start > seqno or (marker.start != seqno and not marker.flags & names.CHECKPOINT)


@rule("DCP309", "S9", SUSPICIOUS, kinds.MARKER, scope=Scope.SNAPSHOT)
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
    if marker.flags & names.HISTORY and (marker.start, marker.end) == (before.start, before.end):
        return None
    joined = before.flags & names.DISK and stream.may_be_of_replica
    request = stream.grant
    old = marker.flags == names.DISK and request is not None and marker.start == request.snap_start
    text = f"snapshot {marker.start}..{marker.end} overlaps {before.start}..{before.end}"
    return Remark(text, INFO if joined or old else None)


@rule("DCP310", "S10", VIOLATION, kinds.MARKER, scope=Scope.SNAPSHOT)
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
    floor = stream.seqnos.floor
    refused = floor is not None and marker.start < floor and marker.end <= floor
    return Remark(text, status="Erange" if refused else "")


@rule("DCP313", "S13", SUSPICIOUS, kinds.MARKER, scope=Scope.SNAPSHOT)
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
    if marker is None or before is None or stream.oso_ended or (stream.seqnos.floor or 0) >= before.end:
        return None
    if stream.end_may_be_filtered:
        return None
    if marker.flags & names.HISTORY and not before.flags & names.HISTORY and marker.end == before.end:
        return None
    text = f"snapshot {before.start}..{before.end} came to {stream.seqnos.floor or 'nothing'}"
    if not connection.setup.advances:
        return f"{text}, and the next begins"
    return f"{text}: neither an item with seqno {before.end} nor SEQNO_ADVANCED came before the next"


# -- what may stand in a snapshot: keys, out-of-order snapshots, acknowledgements ---------------------


def _all_once(run: DocumentRun, close: Inspected, stream: Stream) -> bool:
    seen, keys = stream.keys.documents, close.keys
    if not stream.has_key_once:
        return True
    return len(set(keys)) == len(keys) and seen.keys().isdisjoint(keys)


@skipping(_all_once)
@rule("DCP317", "S17", VIOLATION, *kinds.KEYED, scope=Scope.SNAPSHOT, off=(Suspend.HISTORY,))
def twice(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Key twice in a snapshot.

    Reported when a key comes for the second time in a snapshot: among documents and commits, or among prepares and
    aborts. As information only in a disk snapshot of a stream that may come from a replica (its request does not insist
    on an active vbucket), as a replica may send what it has on disk and in memory under one marker.

    A snapshot holds only the latest state of each key, unless its marker says that it may contain duplicates.
    A client that indexes a snapshot at once gets one of the two, by chance.

    Usual causes: two snapshots under one marker; a replica as the source.
    Source: snapshot-marker.md, dcp/active_stream.cc
    """
    marker = stream.marker
    if marker is None or stream.oso or not stream.has_key_once:
        return None
    keys = stream.keys.prepares if frame.opcode in (kinds.PREPARE, kinds.ABORT) else stream.keys.documents
    seqno = keys.get(frame.data[frame.key_at : frame.value_at])
    if seqno is None or seqno == frame.seqno:  # of that DCP402 says so
        return None
    text = f"the key of seqno {frame.seqno} is that of seqno {seqno} in snapshot {marker.start}..{marker.end}"
    return Remark(text, INFO if marker.flags & names.DISK and stream.may_be_of_replica else None)


@rule("DCP318", "S18", VIOLATION, kinds.OSO, kinds.MARKER, Event.DISORDERED, scope=Scope.SNAPSHOT)
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
    if frame.opcode == kinds.MARKER:
        in_it = stream.phase is Phase.OUT_OF_ORDER and not allows(stream.phase, PhaseEvent.MARKER)
        return "snapshot marker inside an out-of-order snapshot" if in_it else None
    if frame.opcode != kinds.OSO:
        if frame.opcode not in kinds.DOCUMENTS:
            return None
        again = frame.key in stream.keys.documents
        return f"the key of seqno {frame.seqno} came before in this out-of-order snapshot" if again else None
    request, begins = stream.request, bool((frame.get("flags") or 0) & 1)
    if not allows(stream.phase, PhaseEvent.OSO_START if begins else PhaseEvent.OSO_END):
        return "out-of-order snapshot starts inside another" if begins else "out-of-order snapshot ends, none began"
    if not begins:
        return None
    if connection.controls_known and not connection.setup.on("enable_out_of_order_snapshots"):
        return "out-of-order snapshot, and enable_out_of_order_snapshots is not on"
    if request is not None and request.start:
        return f"out-of-order snapshot on a stream that starts at {request.start}"
    if stream.filtered is False and connection.setup.has_collections and not connection.doubtful:
        return "out-of-order snapshot on a stream of the whole bucket"
    return None


@rule("DCP320", "S20", VIOLATION, Event.UNACKNOWLEDGED, Event.ACK_UNASKED, scope=Scope.CONNECTION)
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
    if delayed.waited_ns >= SECOND:
        cut = connection.end.over and stream.end is None and delayed.waited_ns < 30 * SECOND
        return Remark(text, INFO) if cut else text
    return text if stream.end is not None and stream.state == names.ACTIVE else None


@rule("DCP322", "S22", SUSPICIOUS, kinds.COMMIT, off=(Suspend.REPLICA,))
def disk_commit(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Commit in a disk snapshot.

    Reported when a COMMIT comes in a disk snapshot.

    On disk a committed durable write is a mutation or a deletion; only aborts appear as such.

    Usual causes: a snapshot from memory whose marker says disk.
    Source: dcp/active_stream.cc
    """
    marker = stream.marker
    if marker is None or stream.needs_marker or not marker.flags & names.DISK:
        return None
    return f"{name(frame.opcode)} in disk snapshot {marker.start}..{marker.end}"


# -- the order of seqnos ------------------------------------------------------------------------------


def _all_in_snapshot(run: DocumentRun, close: Inspected, stream: Stream) -> bool:
    marker = stream.marker
    return marker is None or (close.rising and marker.start <= run.first_seqno and run.last_seqno <= marker.end)


@skipping(_all_in_snapshot)
@rule("DCP401", "S11", VIOLATION, *kinds.SEQUENCED, scope=Scope.SNAPSHOT, off=(Suspend.OUT_OF_ORDER,))
def in_snapshot(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Seqno outside its snapshot.

    Reported when the seqno of an item is not in the range of the marker before it.

    A server's consumer answers Erange to documents and prepares: it cannot place them in any snapshot. Commits,
    aborts and system events it processes without that check.

    Usual causes: a marker with a wrong end; an item of the next snapshot sent too early.
    Source: snapshot-marker.md, dcp/passive_stream.cc (checkSnapshot)
    """
    marker, seqno = stream.marker, frame.seqno
    if marker is None or seqno is None or marker.start <= seqno <= marker.end or marker.end < marker.start:
        return None  # S1 reports a marker that runs backwards
    text = f"{name(frame.opcode)} seqno {seqno} is outside snapshot {marker.start}..{marker.end}"
    return Remark(text, status="Erange" if frame.opcode in kinds.WITH_VALUES else "")


_MAY_FALL = (Suspend.OUT_OF_ORDER, Suspend.CACHE_TRANSFER)


def _all_rising(run: DocumentRun, close: Inspected, stream: Stream) -> bool:
    request, last = stream.grant, stream.seqnos.floor
    if last is None and request is not None:
        last = request.start
    return close.rising and not stream.needs_marker and (last is None or run.first_seqno > last)


@skipping(_all_rising)
@rule("DCP402", "S12", VIOLATION, *kinds.SEQUENCED, scope=Scope.SNAPSHOT, off=_MAY_FALL)
def rising(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Seqno does not rise.

    Reported when a seqno is not above the last one of the stream, or not above the requested start.

    The order of seqnos is what consumers resume by. They answer Erange, or drop the change as a repeat.

    Usual causes: an item sent twice; SEQNO_ADVANCED to a seqno that an item then has; two streams mixed.
    Source: dcp/passive_stream.cc
    """
    seqno, last, request = frame.seqno, stream.seqnos.floor, stream.grant
    if seqno is None:
        return None
    if last is not None and seqno > last:
        # What lies between was lost: the runner makes "unknown" of it, as the stream is stale.
        unseen = stream.needs_marker and seqno > last + 1 and _lost_since_last(connection, stream)
        return Remark(f"the order between seqno {last} and {seqno} was not seen") if unseen else None
    status = "" if frame.opcode == kinds.ADVANCED else "Erange"
    if last is not None:
        return Remark(f"{name(frame.opcode)} seqno {seqno} after {last}", status=status)
    if request is None or (connection.doubtful and len(stream.requests) > 1):  # its answer may be that of another
        return None
    if seqno > request.start or stream.seqnos.high is not None or request.bits & names.FROM_LATEST:
        return None
    text = f"{name(frame.opcode)} seqno {seqno}, requested were those above {request.start}"
    return Remark(text, status=status, scope=Scope.STREAM)


def _lost_since_last(connection: ConnectionState, stream: Stream) -> bool:
    """Return whether bytes of a stream may have been lost since its last message."""
    gaps = stream.gaps.times or connection.lost.gap_at > stream.begun_at
    return bool(gaps) and connection.lost.frame >= stream.traffic.last_frame


@rule("DCP403", "S15", SUSPICIOUS, kinds.ADVANCED, scope=Scope.STREAM)
def advanced(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """SEQNO_ADVANCED where it is not sent.

    Reported when SEQNO_ADVANCED comes without collections, on a connection that gets everything there is anyway,
    with a seqno other than the snapshot's end, or in an out-of-order snapshot without true_with_seqno_advanced.

    Usual causes: a producer of another make. After 8.0 long backfills send one every 10,000 filtered items.
    Source: dcp/active_stream.cc (isSeqnoAdvancedEnabled)
    """
    if connection.setup.has_collections is False:
        return "SEQNO_ADVANCED on a connection without collections"
    if connection.controls_known and connection.setup.has_collections and not connection.setup.advances:
        return "SEQNO_ADVANCED on a connection with durable writes and all system events"
    if stream.oso:
        if connection.setup.agreed.get("enable_out_of_order_snapshots") == "true":
            return "SEQNO_ADVANCED in an out-of-order snapshot, which was not requested"
        return None
    marker = stream.marker
    if marker is None or stream.needs_marker or frame.seqno == marker.end or marker.flags & names.DISK:
        return None
    text = f"SEQNO_ADVANCED to {frame.seqno} in snapshot {marker.start}..{marker.end}"
    return Remark(text, scope=Scope.SNAPSHOT)
