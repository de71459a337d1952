"""What is due of a stream that is silent: the message, or the answer, that has to come next."""

from dcpdump.spec.names import ACKNOWLEDGE, CACHE_TRANSFER, FROM_LATEST
from dcpdump.streams.causes import Cause, Due, Reason, Unknown
from dcpdump.streams.facts import Snapshot
from dcpdump.streams.failover_logs import High
from dcpdump.streams.losses import lost_since
from dcpdump.streams.stream import Stream
from dcpdump.streams.takeover import next_of_takeover
from dcpdump.streams.undecided import outcome_due
from dcpdump.streams.wording import clock

#: What a producer owes, unless flow control holds it back.
BY_PRODUCER = (
    Cause.SNAPSHOT_INCOMPLETE,
    Cause.ADVANCED_NOT_SENT,
    Cause.END_NOT_SENT,
    Cause.PENDING_NOT_SENT,
    Cause.ACTIVE_NOT_SENT,
    Cause.TAKEOVER_NOT_ENDED,
    Cause.PREPARE_UNDECIDED,
    Cause.BEHIND_SERVER,
)
#: What comes when it is the stream's turn.
IN_TURN = (Cause.SNAPSHOT_INCOMPLETE, Cause.ADVANCED_NOT_SENT, Cause.END_NOT_SENT, Cause.BEHIND_SERVER)
#: From 7.6 on, users without that privilege get no changes of system collections, nor SEQNO_ADVANCED in their place.
_LEFT_OUT = Unknown(
    Reason.SYSTEM_COLLECTIONS, "what did not come may be of system collections, which not every user gets"
)


def due(stream: Stream, high: High | None, by_ns: int | None) -> Due | None:
    """Return what has to come next of a stream, if anything must.

    ``high``: the vbucket's high seqno that the server reported last; ``by_ns``: what was due by then should have come
    by now.
    """
    request, snapshot, last = stream.request, stream.snapshot, stream.high_seqno
    if stream.oso:
        return Due(Cause.SNAPSHOT_INCOMPLETE, "in the middle of an out-of-order snapshot")
    if stream.states and stream.state_acks < len(stream.states):
        lost = lost_since(stream.connection, stream.states[0].ts_ns)
        return Due(Cause.STATE_NOT_ANSWERED, "waits for the answer to SET_VBUCKET_STATE", lost)
    ended = _end_reached(stream)
    if ended is not None:
        return ended
    if snapshot is None or not stream.ordered:
        return None if stream.snapshots or stream.doubtful else next_of_takeover(stream, by_ns)
    if snapshot.items == 0 or last is None or last < snapshot.end:
        return _rest_of(stream, snapshot)
    if snapshot.flags & ACKNOWLEDGE and (not snapshot.acked or stream.acks_due or stream.acks_omitted > 0):
        why = f"waits for the acknowledgement of snapshot {snapshot.start}..{snapshot.end}"
        # what acknowledged an earlier one may have been lost
        lost = lost_since(stream.connection, stream.granted_ns) if snapshot.acked else None
        return Due(Cause.SNAPSHOT_NOT_ACKNOWLEDGED, why, lost)
    takeover = next_of_takeover(stream, by_ns)
    if takeover is not None:
        return takeover
    unfiltered = stream.connection.has_collections and not (request and request.filtered)
    behind = _behind(stream, last, high, by_ns) if high is not None and unfiltered else None
    if behind is not None and behind.unless is None:
        return behind  # the outcome of a durable write may be among what is not sent
    return outcome_due(stream, by_ns) or behind


def _end_reached(stream: Stream) -> Due | None:
    """Return that the end of a stream was reached, if it was: there is nothing left to send but STREAM_END."""
    request, last = stream.request, stream.high_seqno
    end = request.fixed_end if request is not None else None
    if request is None or end is None or not stream.begin_captured:
        return None
    if last is not None:
        return Due(Cause.END_NOT_SENT, f"end seqno {end} is reached, no STREAM_END") if last >= end else None
    waits = request.bits & (CACHE_TRANSFER | FROM_LATEST) or stream.connection.notifies
    if waits or request.start < end:
        return None
    return Due(Cause.END_NOT_SENT, f"end seqno {end} is not above the start, {request.start}, and no STREAM_END came")


def _rest_of(stream: Stream, snapshot: Snapshot) -> Due | None:
    """Return that the rest of a snapshot is due, unless it may have been left out by a filter."""
    last = stream.high_seqno
    if stream.end_may_be_filtered:
        return None
    here = "nothing of it came" if not snapshot.items else f"at seqno {last}"
    why = f"in the middle of snapshot {snapshot.start}..{snapshot.end}, {here}"
    if not stream.filtered or not stream.connection.advances:
        return Due(Cause.SNAPSHOT_INCOMPLETE, why)
    why += f": SEQNO_ADVANCED to {snapshot.end} is missing, or items of what it is filtered to"
    return Due(Cause.ADVANCED_NOT_SENT, why)


def _behind(stream: Stream, last: int, high: High, by_ns: int | None) -> Due | None:
    """Return that the server had more for long, if it had."""
    ts_ns = high.ts_ns
    later = ts_ns is not None and stream.last_ns is not None and ts_ns >= stream.last_ns
    if last >= high.seqno or not later or by_ns is None or ts_ns is None or ts_ns > by_ns:
        return None
    text = f"at seqno {last}, the server's high seqno is {high.seqno} since {clock(ts_ns)}"
    return Due(Cause.BEHIND_SERVER, text, None if stream.connection.between_nodes else _LEFT_OUT)
