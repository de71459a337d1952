"""Takeovers: what comes next of one, whether it was finished, and how far one came that was not."""

from dcpdump.spec.names import ACKNOWLEDGE, ACTIVE, PENDING, VBUCKET_STATE
from dcpdump.streams.causes import Cause, Due
from dcpdump.streams.losses import lost_since
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import clock


def next_of_takeover(stream: Stream, by_ns: int | None) -> Due | None:
    """Return what has to come next of a takeover of which nothing waits for an answer, if that is due by a time."""
    since_ns, snapshot = _quiet_since(stream), stream.snapshot
    if since_ns is None or by_ns is None or since_ns > by_ns or stream.closing:
        return None
    if stream.request is not None and not stream.asked_takeover:
        return None
    answered = f"was answered at {clock(stream.state_acked_ns)}"
    if stream.state == ACTIVE:
        text = f"SET_VBUCKET_STATE(active) {answered}, no STREAM_END"
        return Due(Cause.TAKEOVER_NOT_ENDED, text, since_ns=since_ns)
    if stream.state == PENDING:  # with the answer the source gives the vbucket up
        text = f"SET_VBUCKET_STATE(pending) {answered}, active did not come: the vbucket has no active copy"
        return Due(Cause.ACTIVE_NOT_SENT, text, since_ns=since_ns)
    if stream.states or snapshot is None or not snapshot.flags & ACKNOWLEDGE or not stream.begin_captured:
        return None  # before the snapshots that are to be acknowledged, the source may have to read from its disk
    text = f"snapshot {snapshot.start}..{snapshot.end} is acknowledged, SET_VBUCKET_STATE(pending) did not come"
    return Due(Cause.PENDING_NOT_SENT, text, lost_since(stream.connection, stream.granted_ns), since_ns)


def is_handed_over(stream: Stream, by_ns: int | None) -> bool:
    """Return whether the vbucket is active at the consumer, as far as was captured, and STREAM_END is not overdue.

    ``by_ns``: it is, if all else was there by then.
    """
    connection = stream.connection
    if not stream.asked_takeover or stream.state != ACTIVE:
        return False
    if lost_since(connection, stream.granted_ns) is not None:
        return True
    if connection.ended_ns is not None:
        return not unfinished(stream)
    since_ns = _quiet_since(stream)
    return since_ns is None or by_ns is None or since_ns > by_ns


def unfinished(stream: Stream) -> str:
    """Return how far the takeover of a stream came that is over, in words; empty where it is none, was finished, or
    that is not known.
    """
    unanswered = stream.state_acks < len(stream.states)
    if not stream.takeover or lost_since(stream.connection, stream.granted_ns) is not None:
        return ""
    if stream.state == ACTIVE and not unanswered:
        return ""
    if unanswered:
        how = f"SET_VBUCKET_STATE({VBUCKET_STATE.names.get(stream.state or 0, 'unknown')}) was not answered"
    elif stream.state == PENDING:
        how = f"SET_VBUCKET_STATE(pending) was answered at {clock(stream.state_acked_ns)}, active did not come"
    else:
        how = "SET_VBUCKET_STATE(pending) did not come"
    return f"the takeover was not finished: {how}"


def _quiet_since(stream: Stream) -> int | None:
    """Return when the latest message of a stream came, or the latest answer that its producer waits for."""
    acked_ns = None if stream.snapshot is None else stream.snapshot.acked_ns
    times = (stream.last_ns, stream.state_acked_ns, acked_ns)
    return max((each for each in times if each is not None), default=None)
