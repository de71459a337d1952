"""DCP3xx, first half: snapshot markers, and how they follow one another."""

from dcpdump.check.rule import FIRST, INFO, SUSPICIOUS, VIOLATION, Remark, Scope, rule
from dcpdump.streams.opcodes import ADVANCED, MARKER
from dcpdump.streams.sight import Sight
from dcpdump.streams.state import (
    ACKNOWLEDGE,
    CHECKPOINT,
    DISK,
    DUPLICATES,
    FROM_LATEST,
    HISTORY,
    MEMORY,
    Connection,
    Stream,
)

_KNOWN_BITS = 0x3F


@rule(
    "DCP301",
    "S1",
    "Snapshot that ends before it starts",
    severity=VIOLATION,
    source="snapshot-marker.md, dcp/consumer.cc",
    on=(MARKER,),
    status="Einval",
)
def backwards(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees markers with start seqno > end seqno.

    No seqno lies in such a range; the consumer refuses it with Einval.

    Usual causes: start and end swapped; a start computed after the end was fixed.
    """
    marker = connection.incoming
    if marker is None or marker.start <= marker.end:
        return None
    return f"snapshot {marker.start}..{marker.end}"


@rule(
    "DCP302",
    "S2",
    "Snapshot type that does not fit",
    severity=VIOLATION,
    source="snapshot-marker.md, dcp/active_stream.cc",
    off="m",
    on=(MARKER,),
    scope=Scope.CONNECTION,
)
def flags(sight: Sight, connection: Connection, stream: Stream) -> str | Remark | None:
    """It sees markers that are both memory and disk, or neither. Suspicious: unknown bits, history or
    may-contain-duplicates without change_streams, duplicates in memory, acknowledge on a stream that is no
    takeover.

    What a consumer does with purge seqno, completed seqno and a switch of sources depends on these bits.

    Usual causes: flags of another version; a literal where a combination was meant.
    """
    bits = sight.get("snapshot_type")
    if bits is None:
        return None
    if bool(bits & MEMORY) is bool(bits & DISK):
        return f"snapshot type 0x{bits:x} is {'both memory and disk' if bits & DISK else 'neither memory nor disk'}"
    if bits & ~_KNOWN_BITS:
        return Remark(f"snapshot type 0x{bits:x} has unknown bits", SUSPICIOUS)
    if bits & (HISTORY | DUPLICATES) and connection.controls_known and not connection.on("change_streams"):
        return Remark(f"snapshot type 0x{bits:x}, and change_streams is not on", SUSPICIOUS)
    if bits & DUPLICATES and bits & MEMORY:
        return Remark(f"snapshot type 0x{bits:x}: duplicates in a memory snapshot", SUSPICIOUS)
    if bits & ACKNOWLEDGE and stream.request is not None and not stream.asked_takeover:
        return Remark("acknowledge is set on a stream that is no takeover", SUSPICIOUS)
    return None


@rule(
    "DCP303",
    "S3",
    "Marker in a version that was not agreed on",
    severity=VIOLATION,
    source="dcp_snapshot_marker_codec.cc",
    off="m",
    on=(MARKER,),
    scope=Scope.CONNECTION,
    status="Einval",
)
def version(sight: Sight, connection: Connection, stream: Stream) -> str | Remark | None:
    """It sees markers V2.0 without enable_sync_writes, V2.2 without max_marker_version, and (suspicious) the
    layouts that no released server sends: V2.1, and V2.2 of 44 bytes.

    A client that did not ask for V2 finds one byte of extras where it expects twenty.

    Usual causes: controls refused and used all the same.
    """
    found = sight.shape.version
    if found in ("2.1", "2.2-pre"):
        return Remark(f"marker in version {found}, which no released server sends", SUSPICIOUS)
    if not connection.controls_known:
        return None
    if found == "2.0" and not connection.on("enable_sync_writes"):
        return None if "max_marker_version" in connection.agreed else "marker V2.0, and enable_sync_writes is not on"
    if found == "2.2" and connection.agreed.get("max_marker_version") != "2.2":
        return "marker V2.2, and max_marker_version=2.2 was not accepted"
    return None


def _first(stream: Stream) -> bool:
    """Whether the marker at hand is the first of a stream that was seen to begin."""
    return stream.request is not None and not stream.snapshots and not stream.request.bits & FROM_LATEST


@rule(
    "DCP304",
    "S4",
    "First snapshot does not begin where the client is",
    severity=SUSPICIOUS,
    source="dcp/active_stream.cc (adjustStartIfFirstSnapshot)",
    off="mr",
    on=(MARKER, FIRST),
)
def first_start(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees first markers that start above the requested snapshot start and the requested start: of disk
    snapshots always, of memory snapshots (without the checkpoint flag) where no item with that seqno follows.

    The client is told of a snapshot that does not contain its own position; what lies between is not accounted
    for.

    Usual causes: a source that joined a later checkpoint; start taken from the first item of a backfill.
    """
    request = stream.request
    if request is None:
        return None
    if sight.opcode == MARKER:
        marker = connection.incoming
        if marker is None or not marker.flags & DISK or not _first(stream) or stream.oso_high:
            return None
        if marker.start <= max(request.start, request.snap_start) + 1:
            return None
        return f"the first snapshot starts at {marker.start}, requested were {request.snap_start} and {request.start}"
    marker = stream.marker
    if marker is None or stream.snapshots != 1 or stream.items_since_marker or marker.flags & (DISK | CHECKPOINT):
        return None
    if stream.oso_high or request.bits & FROM_LATEST or marker.start <= max(request.start, request.snap_start) + 1:
        return None
    if sight.seqno is None or marker.start >= sight.seqno:
        return None
    return f"the first snapshot starts at {marker.start}: neither {request.start} nor the next seqno {sight.seqno}"


@rule(
    "DCP305",
    "S5",
    "First snapshot begins at the start seqno",
    severity=INFO,
    source="snapshot-marker.md",
    on=(MARKER,),
)
def seed_start(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees first markers that start at the requested start seqno where the requested snapshot starts lower.

    That is what the specification says, and not what servers do: they take the lower one. Both are accepted.

    Usual causes: a producer that was written after the specification.
    """
    request, marker = stream.request, connection.incoming
    if request is None or marker is None or not _first(stream):
        return None
    if marker.start != request.start or request.start == request.snap_start:
        return None
    return f"the first snapshot starts at {request.start}, though the requested one starts at {request.snap_start}"


@rule(
    "DCP306",
    "S6",
    "Memory snapshot does not begin with its first item",
    severity=SUSPICIOUS,
    source="snapshot-marker.md, dcp/active_stream.cc",
    off="frmgho",
    on=(FIRST,),
)
def memory_start(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees later memory snapshots whose start is not the seqno of the first item (without the checkpoint flag),
    or lies above it (with that flag).

    Usual causes: items that were dropped between the marker and the wire.
    """
    marker, seqno = stream.marker, sight.seqno
    if (
        stream.items_since_marker
        or marker is None
        or stream.snapshots < 2
        or not marker.flags & MEMORY
        or seqno is None
    ):
        return None
    if marker.start > seqno or (marker.start != seqno and not marker.flags & CHECKPOINT):
        return f"snapshot {marker.start}..{marker.end} begins with seqno {seqno}"
    return None


@rule(
    "DCP307",
    "S7",
    "Empty snapshot that is not closed at its end",
    severity=INFO,
    source="dcp/active_stream.cc (sendSnapshotAndSeqnoAdvanced)",
    on=(ADVANCED,),
)
def filtered(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees snapshots of which everything was filtered out, so that SEQNO_ADVANCED follows the marker at once,
    but with a seqno below the snapshot's end.

    Such a marker may start anywhere; its SEQNO_ADVANCED is to bring the client to the end.

    Usual causes: a long backfill of a small collection (after 8.0 every 10,000 items); a lost update of the end.
    """
    marker = stream.marker
    if marker is None or stream.items_since_marker or stream.oso or sight.seqno is None or sight.seqno >= marker.end:
        return None
    return f"snapshot {marker.start}..{marker.end} has only filtered items, and advances to {sight.seqno}"


@rule(
    "DCP308",
    "S8",
    "Backfill does not go on where the stream was",
    severity=INFO,
    source="snapshot-marker.md, dcp/active_stream.cc",
    off="rhfmg",
    on=(MARKER,),
)
def disk_start(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees later disk snapshots that start more than one above the end of the snapshot before.

    Usual causes: items between the two that were purged, or that the stream's filter leaves out.
    """
    marker, before = connection.incoming, stream.marker
    if marker is None or before is None or not marker.flags & DISK or marker.start <= before.end + 1:
        return None
    return f"disk snapshot starts at {marker.start}, the one before ended at {before.end}"


@rule(
    "DCP309",
    "S9",
    "Snapshots overlap",
    severity=SUSPICIOUS,
    source="dcp/active_stream.cc",
    off="rmg",
    on=(MARKER,),
)
def overlap(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees markers that start at or below the end of the snapshot before. (The second marker of a pair with
    history may repeat the range.)

    The consumer has to decide which of the two a document belongs to. Replicas as a source do this.

    Usual causes: a stream from a replica; an end that was extended after it was sent.
    """
    marker, before = connection.incoming, stream.marker
    if marker is None or before is None or stream.oso_high or marker.start > before.end or marker.end < before.end:
        return None
    if marker.flags & HISTORY and (marker.start, marker.end) == (before.start, before.end):
        return None
    return f"snapshot {marker.start}..{marker.end} overlaps {before.start}..{before.end}"


@rule(
    "DCP310",
    "S10",
    "Snapshots go backwards",
    severity=VIOLATION,
    source="dcp/passive_stream.cc",
    off="mg",
    on=(MARKER,),
    scope=Scope.SNAPSHOT,
    status="Erange",
)
def snapshot_back(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees markers that end below the end of the snapshot before.

    A stream never goes back; a server's consumer answers Erange where all of it lies below what it has.

    Usual causes: a rollback that was not told to the client; two streams mixed into one.
    """
    marker, before = connection.incoming, stream.marker
    if marker is None or before is None or marker.end >= before.end:
        return None
    return f"snapshot {marker.start}..{marker.end} ends below {before.start}..{before.end}"


@rule(
    "DCP313",
    "S13",
    "Snapshot left unfinished",
    severity=SUSPICIOUS,
    source="dcp/active_stream.cc",
    off="mg",
    on=(MARKER,),
)
def unfinished(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees a new marker before a message with the seqno of the snapshot's end came. (Streams with a filter and
    without SEQNO_ADVANCED may end so, and the first of a pair of markers with history.)

    Until the end arrives, the client must not take what it has for consistent: it resumes from before.

    Usual causes: the last item of a snapshot lost or filtered without SEQNO_ADVANCED.
    """
    marker, before = connection.incoming, stream.marker
    if marker is None or before is None or stream.oso_high or (stream.last or 0) >= before.end:
        return None
    if stream.filtered is not False and not connection.advances:
        return None
    if marker.flags & HISTORY and not before.flags & HISTORY and marker.end == before.end:
        return None
    return f"snapshot {before.start}..{before.end} came to {stream.last or 'nothing'}, and the next begins"


@rule(
    "DCP314",
    "S14",
    "Seqnos of a marker beyond its end",
    severity=VIOLATION,
    source="dcp/passive_stream.cc",
    on=(MARKER,),
)
def beyond(sight: Sight, connection: Connection, stream: Stream) -> str | Remark | None:
    """It sees markers whose max visible, high prepared or purge seqno lies above their end; suspicious: a high
    completed seqno above the end, or above the high prepared seqno.

    A replica throws on the first three, and the connection is closed.

    Usual causes: values read at different moments; fields in the wrong order.
    """
    if sight.opcode != MARKER or sight.shape.version == "1":
        return None
    end = sight.get("end_seqno")
    if end is None:
        return None
    for name in ("max_visible_seqno", "high_prepared_seqno", "purge_seqno"):
        number = sight.get(name)
        if number is not None and number > end:
            return f"{name.replace('_', ' ')} {number} is above the snapshot's end {end}"
    completed, prepared = sight.get("high_completed_seqno") or 0, sight.get("high_prepared_seqno") or 0
    if completed > end:
        return Remark(f"high completed seqno {completed} is above the snapshot's end {end}", SUSPICIOUS)
    if prepared and completed > prepared:
        return Remark(f"high completed seqno {completed} is above the high prepared seqno {prepared}", SUSPICIOUS)
    return None


@rule(
    "DCP316",
    "S16",
    "Completed seqno where it means nothing, or missing where it is needed",
    severity=VIOLATION,
    source="dcp/passive_stream.cc, dcp_snapshot_marker_codec.cc",
    on=(MARKER,),
)
def completed(sight: Sight, connection: Connection, stream: Stream) -> str | Remark | None:
    """It sees disk markers in version 1 on a connection that replicates durable writes: they have no high completed
    seqno, and the replica closes the connection. As information: high completed or prepared seqnos on a memory
    snapshot, where they mean nothing.

    Usual causes: a proxy that rewrites markers to the oldest version.
    """
    bits = sight.get("snapshot_type") or 0
    if sight.shape.version == "1":
        if bits & DISK and connection.controls_known and connection.sync_replication:
            return "disk marker V1 on a connection that replicates durable writes"
        return None
    if bits & DISK:
        return None
    for field in ("high_completed_seqno", "high_prepared_seqno"):
        if sight.get(field):
            return Remark(f"{field.replace('_', ' ')} {sight.get(field)} on a memory snapshot", INFO)
    return None


@rule(
    "DCP321",
    "S21",
    "Source switched inside a snapshot",
    severity=INFO,
    source="snapshot-marker.md",
    on=(MARKER,),
)
def switched(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees a change between memory and disk before the snapshot at hand was finished.

    At the border of two snapshots such a change is normal: a client that is slow is moved to disk.

    Usual causes: as for an unfinished snapshot.
    """
    marker, before = connection.incoming, stream.marker
    if marker is None or before is None or stream.doubtful or stream.filtered is not False or stream.oso_high:
        return None
    if (marker.flags ^ before.flags) & DISK and (stream.last or 0) < before.end:
        return f"{'disk' if marker.flags & DISK else 'memory'} snapshot at seqno {stream.last} of ..{before.end}"
    return None


RULES = (
    backwards,
    flags,
    version,
    first_start,
    seed_start,
    memory_start,
    filtered,
    disk_start,
    overlap,
    snapshot_back,
    unfinished,
    beyond,
    completed,
    switched,
)
