"""DCP3xx, first part: what a snapshot marker says by itself."""

from dcpdump.check.rule import INFO, START, SUSPICIOUS, VIOLATION, Remark, Scope, rule
from dcpdump.spec.names import ACKNOWLEDGE, CHECKPOINT, DISK, DISK_ONLY, DUPLICATES, HISTORY, MEMORY
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import MARKER
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

_KNOWN_BITS = 0x3F
#: Versions of markers that only disk snapshots have.
_OF_DISK = {"2.1": VIOLATION, "2.2": SUSPICIOUS, "2.2-pre": SUSPICIOUS}


@rule("DCP301", "S1", VIOLATION, on=(MARKER,), status="Einval")
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


@rule("DCP302", "S2", VIOLATION, on=(MARKER,), off=(START,), scope=Scope.CONNECTION)
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
    return _alone(frame, bits) or _agreed(bits, connection) or _of_stream(bits, stream)


def _alone(frame: FrameEvent, bits: int) -> Remark | None:
    """Return what is wrong with a type by itself."""
    version = frame.shape.version
    if bool(bits & MEMORY) is bool(bits & DISK):
        both = "both memory and disk" if bits & DISK else "neither memory nor disk"
        return Remark(f"snapshot type 0x{bits:x} is {both}", scope=Scope.FRAME)
    if bits & ~_KNOWN_BITS:
        return Remark(f"snapshot type 0x{bits:x} has unknown bits", SUSPICIOUS, scope=Scope.FRAME)
    if bits & DUPLICATES and bits & MEMORY:
        return Remark(f"snapshot type 0x{bits:x}: duplicates in a memory snapshot", SUSPICIOUS, scope=Scope.FRAME)
    if bits & MEMORY and version in _OF_DISK:
        text = f"memory snapshot in a marker of version {version}, which is for disk snapshots"
        return Remark(text, _OF_DISK[version], scope=Scope.FRAME)
    return None


def _agreed(bits: int, connection: ConnectionState) -> Remark | None:
    """Return what is wrong with a type that was not agreed on."""
    if bits & (HISTORY | DUPLICATES) and connection.controls_known and not connection.on("change_streams"):
        return Remark(f"snapshot type 0x{bits:x}, and change_streams is not on", SUSPICIOUS)
    return None


def _of_stream(bits: int, stream: Stream) -> Remark | None:
    """Return what is wrong with a type on this stream, or behind its last snapshot."""
    if bits & ACKNOWLEDGE and stream.request is not None and not stream.asked_takeover:
        return Remark("acknowledge is set on a stream that is no takeover", SUSPICIOUS, scope=Scope.STREAM)
    if not bits & MEMORY:
        return None
    if stream.flags & DISK_ONLY:
        return Remark("memory snapshot on a disk-only stream", scope=Scope.STREAM)
    before = stream.marker
    if bits & CHECKPOINT or before is None or stream.stale or not before.flags & DISK or stream.oso_ended:
        return None
    text = f"snapshot type 0x{bits:x} has no checkpoint flag, and is the first from memory behind a backfill"
    return Remark(text, INFO, scope=Scope.SNAPSHOT)


@rule("DCP303", "S3", VIOLATION, on=(MARKER,), off=(START,), scope=Scope.CONNECTION)
def version(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Marker in a version that was not agreed on.

    Reported when a marker is V2.0 without enable_sync_writes, or V2.2 without max_marker_version. Suspicious: the
    layouts that no released server sends, V2.1 and V2.2 of 44 bytes.

    A client that did not ask for V2 finds one byte of extras where it expects twenty. A server takes V2.0 and V2.2
    whatever was agreed on, and refuses the others with Einval.

    Usual causes: controls refused and used all the same.

    Source: dcp_snapshot_marker_codec.cc, daemon/mcbp_validators.cc
    """
    found = frame.shape.version
    if found in ("2.1", "2.2-pre"):
        text = f"marker in version {found}, which no released server sends"
        return Remark(text, SUSPICIOUS, "Einval", scope=Scope.FRAME)
    if not connection.controls_known:
        return None
    if found == "2.0" and not connection.on("enable_sync_writes"):
        return None if "max_marker_version" in connection.agreed else "marker V2.0, and enable_sync_writes is not on"
    if found == "2.2" and connection.agreed.get("max_marker_version") != "2.2":
        return "marker V2.2, and max_marker_version=2.2 was not accepted"
    return None


@rule("DCP314", "S14", VIOLATION, on=(MARKER,))
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
    for name in ("max_visible_seqno", "high_prepared_seqno", "purge_seqno"):
        number = frame.get(name)
        if number is not None and number > end:
            return f"{name.replace('_', ' ')} {number} is above the snapshot's end {end}"
    completed, prepared = frame.get("high_completed_seqno") or 0, frame.get("high_prepared_seqno") or 0
    if completed > end:
        return Remark(f"high completed seqno {completed} is above the snapshot's end {end}", SUSPICIOUS)
    if prepared and completed > prepared:
        return Remark(f"high completed seqno {completed} is above the high prepared seqno {prepared}", SUSPICIOUS)
    return None


@rule("DCP316", "S16", VIOLATION, on=(MARKER,))
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
        if bits & DISK and connection.controls_known and connection.sync_replication:
            return "disk marker V1 on a connection that replicates durable writes"
        return None
    if bits & DISK:
        return None
    for field in ("high_completed_seqno", "high_prepared_seqno"):
        if frame.get(field):
            return Remark(f"{field.replace('_', ' ')} {frame.get(field)} on a memory snapshot", INFO)
    return None
