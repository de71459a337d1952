"""DCP40x: the order of seqnos."""

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.rule import LOST, START, SUSPICIOUS, VIOLATION, Remark, Scope, Suspend, rule
from dcpdump.check.rules.framing import name
from dcpdump.spec.names import DISK, FROM_LATEST
from dcpdump.streams.document_run import DocumentRun
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import ADVANCED, SEQUENCED, WITH_VALUES
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream


def _all_in_snapshot(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool:
    marker = stream.marker
    return marker is None or (close.rising and marker.start <= run.first_seqno and run.last_seqno <= marker.end)


@rule(
    "DCP401",
    "S11",
    VIOLATION,
    on=SEQUENCED,
    off=(Suspend.OUT_OF_ORDER, START, LOST),
    scope=Scope.SNAPSHOT,
    spares=_all_in_snapshot,
)
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
    return Remark(text, status="Erange" if frame.opcode in WITH_VALUES else "")


def _all_rising(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool:
    request, last = stream.grant, stream.last
    if last is None and request is not None:
        last = request.start
    return close.rising and not stream.stale and (last is None or run.first_seqno > last)


@rule(
    "DCP402",
    "S12",
    VIOLATION,
    on=SEQUENCED,
    off=(Suspend.OUT_OF_ORDER, Suspend.CACHE_TRANSFER, START, LOST),
    scope=Scope.SNAPSHOT,
    spares=_all_rising,
)
def rising(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Seqno does not rise.

    Reported when a seqno is not above the last one of the stream, or not above the requested start.

    The order of seqnos is what consumers resume by. They answer Erange, or drop the change as a repeat.

    Usual causes: an item sent twice; SEQNO_ADVANCED to a seqno that an item then has; two streams mixed.

    Source: dcp/passive_stream.cc
    """
    seqno, last, request = frame.seqno, stream.last, stream.grant
    if seqno is None:
        return None
    if last is not None and seqno > last:
        # What lies between was lost: the runner makes "unknown" of it, as the stream is stale.
        unseen = stream.stale and seqno > last + 1 and _lost_since_last(connection, stream)
        return Remark(f"the order between seqno {last} and {seqno} was not seen") if unseen else None
    status = "" if frame.opcode == ADVANCED else "Erange"
    if last is not None:
        return Remark(f"{name(frame.opcode)} seqno {seqno} after {last}", status=status)
    if request is None or (connection.doubtful and len(stream.requests) > 1):  # its answer may be that of another
        return None
    if seqno > request.start or stream.items or request.bits & FROM_LATEST:
        return None
    text = f"{name(frame.opcode)} seqno {seqno}, requested were those above {request.start}"
    return Remark(text, status=status, scope=Scope.STREAM)


def _lost_since_last(connection: ConnectionState, stream: Stream) -> bool:
    """Return whether bytes of a stream may have been lost since its last message."""
    return bool(stream.epoch or connection.holes != stream.holes) and connection.lost_frame >= stream.last_frame


@rule("DCP403", "S15", SUSPICIOUS, on=(ADVANCED,), off=(START,))
def advanced(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """SEQNO_ADVANCED where it is not sent.

    Reported when SEQNO_ADVANCED comes without collections, on a connection that gets everything there is anyway,
    with a seqno other than the snapshot's end, or in an out-of-order snapshot without true_with_seqno_advanced.

    Usual causes: a producer of another make. After 8.0 long backfills send one every 10,000 filtered items.

    Source: dcp/active_stream.cc (isSeqnoAdvancedEnabled)
    """
    if connection.has_collections is False:
        return "SEQNO_ADVANCED on a connection without collections"
    if connection.controls_known and connection.has_collections and not connection.advances:
        return "SEQNO_ADVANCED on a connection with durable writes and all system events"
    if stream.oso:
        if connection.agreed.get("enable_out_of_order_snapshots") == "true":
            return "SEQNO_ADVANCED in an out-of-order snapshot, which was not asked for"
        return None
    marker = stream.marker
    if marker is None or stream.stale or frame.seqno == marker.end or marker.flags & DISK:
        return None
    text = f"SEQNO_ADVANCED to {frame.seqno} in snapshot {marker.start}..{marker.end}"
    return Remark(text, scope=Scope.SNAPSHOT)
