"""Joins: whether a stream continues, after lost bytes of its direction, just where it was before them.

The messages of a stream come in the order of their seqnos, and its snapshots follow one another without overlap. So
nothing of it can have been among the lost bytes where the next message

- has the seqno behind the last one, inside the same snapshot;
- has the first seqno that the snapshot at hand can have, where none of that snapshot came before;
- is a marker that starts behind the end of the snapshot before it, which was reached;
- is the marker of its first snapshot, which starts at the seqno that was asked for, or below;
- is STREAM_END behind the last seqno that was asked for, unless the server puts another in its place.

What has no seqno of its own may come between two snapshots: states of a takeover, and cached documents before the
first; and with change streams, a disk snapshot may have a second marker, with the same range. Of seqnos that are
missing inside a snapshot nothing can be known: a later version of the document replaced them, another collection has
them, or they were lost.
"""

from dcpdump.spec.names import CACHE_TRANSFER, DISK, DUPLICATES, HISTORY
from dcpdump.spec.statuses import SUCCESS
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import MARKER, STREAM_END
from dcpdump.streams.stream import Stream

_HAS_HISTORY = HISTORY | DUPLICATES  #: of a marker's flags


def joins(stream: Stream, frame: FrameEvent) -> bool:
    """Return whether nothing of a stream can have been lost between its last message and this one."""
    if frame.opcode == MARKER:
        start, flags = frame.get("start_seqno"), frame.get("snapshot_type")
        return not frame.weak and start is not None and marker_joins(stream, start, flags or 0)
    if frame.weak or stream.oso or stream.caching or _has_two_markers(stream):
        return False
    if frame.opcode == STREAM_END:
        return _end_joins(stream)
    if frame.seqno is None or not stream.ordered or stream.snapshot is None:
        return False
    snapshot, last = stream.snapshot, stream.last_seqno
    if not snapshot.items:
        before = _asked(stream) if last is None else last
        last = max(snapshot.start - 1, -1 if before is None else before)
    return last is not None and frame.seqno == last + 1 and frame.seqno <= snapshot.end


def _has_two_markers(stream: Stream) -> bool:
    """Return whether there may be another marker with the same range: for a part without history, or with it."""
    on_disk = stream.snapshot is not None and bool(stream.snapshot.flags & DISK)
    connection = stream.connection
    if not on_disk or connection.late or stream.other_losses:
        return on_disk  # the control may be among what was not captured
    control = connection.controls.get("change_streams")
    return control is not None and control.status in (None, SUCCESS) and control.value == "true"


def marker_joins(stream: Stream, start: int, flags: int) -> bool:
    """Return whether nothing of a stream can have been lost before the marker of a snapshot."""
    may_be_second = flags & DISK and flags & _HAS_HISTORY
    if may_be_second or stream.oso or stream.caching or stream.takeover:
        return False
    if not stream.counts_any:
        asked = _asked(stream)
        return asked is not None and start <= asked + 1 and not stream.flags & CACHE_TRANSFER
    snapshot = stream.snapshot
    return snapshot is not None and stream.ordered and stream.last_seqno == snapshot.end and start == snapshot.end + 1


def _end_joins(stream: Stream) -> bool:
    end = stream.request.fixed_end if stream.request is not None else None
    if end is None or stream.takeover or not stream.ordered or stream.last_seqno is None:
        return False
    return stream.last_seqno >= end


def _asked(stream: Stream) -> int | None:
    """Return the seqno from which a stream was asked for, where its beginning was captured."""
    return stream.request.start_seqno if stream.begin_captured and stream.request is not None else None
