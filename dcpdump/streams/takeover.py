"""Takeovers: what comes next of one, whether it was finished, and how far one came that was not."""

from typing import NamedTuple

from dcpdump.spec.names import ACKNOWLEDGE, ACTIVE, CACHE_TRANSFER, FROM_LATEST, PENDING, VBUCKET_STATE
from dcpdump.streams.causes import Cause, Due
from dcpdump.streams.facts import Snapshot
from dcpdump.streams.failover_logs import High
from dcpdump.streams.knowledge import Reason, Unknown, lost_since
from dcpdump.streams.silence import could_not_send_until
from dcpdump.streams.stream import OpenPrepare, Stream
from dcpdump.streams.wording import clock
from dcpdump.text import counted


def next_of_takeover(stream: Stream, by_ns: int | None) -> Due | None:
    """Return what has to come next of a takeover of which nothing waits for an answer, if that is due by a time."""
    since_ns, snapshot = _quiet_since(stream), stream.snapshot
    if since_ns is None or by_ns is None or since_ns > by_ns or stream.closing:
        return None
    if stream.request is not None and not stream.asked_takeover:
        return None
    answered = f"was answered at {clock(stream.acks.states_ns)}"
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
    if connection.end.ts_ns is not None:
        return not unfinished(stream)
    since_ns = _quiet_since(stream)
    return since_ns is None or by_ns is None or since_ns > by_ns


def unfinished(stream: Stream) -> str:
    """Return how far the takeover of a stream came that is over, in words; empty where it is none, was finished, or
    that is not known.
    """
    unanswered = stream.acks.states < len(stream.states)
    if not stream.takeover or lost_since(stream.connection, stream.granted_ns) is not None:
        return ""
    if stream.state == ACTIVE and not unanswered:
        return ""
    if unanswered:
        how = f"SET_VBUCKET_STATE({VBUCKET_STATE.names.get(stream.state or 0, 'unknown')}) was not answered"
    elif stream.state == PENDING:
        how = f"SET_VBUCKET_STATE(pending) was answered at {clock(stream.acks.states_ns)}, active did not come"
    else:
        how = "SET_VBUCKET_STATE(pending) did not come"
    return f"the takeover was not finished: {how}"


def _quiet_since(stream: Stream) -> int | None:
    """Return when the latest message of a stream came, or the latest answer that its producer waits for."""
    acked_ns = None if stream.snapshot is None else stream.snapshot.acked_ns
    times = (stream.traffic.last_ns, stream.acks.states_ns, acked_ns)
    return max((each for each in times if each is not None), default=None)


# -- undecided prepares: durable writes of which a COMMIT or ABORT should have come -------------------

#: The longest timeout that a client can ask for: then the active copy aborts. Only a write that it took over from
#: another, or found on its disk, may have none.
_LONGEST_TIMEOUT_NS = 65_534 * 1_000_000


class Undecided(NamedTuple):
    """Prepares that are neither committed nor aborted for longer than a client can wait."""

    first: OpenPrepare
    since_ns: int  #: when that came
    text: str


def undecided(stream: Stream, by_ns: int | None) -> Undecided | None:
    """Return prepares of a stream of which the outcome should have come by a time.

    None where there is none, or that is not known: bytes are missing, another node decides, or the producer was held
    up, behind which it may still come.
    """
    connection, prepares = stream.connection, stream.prepares
    if not prepares.open or by_ns is None or stream.doubtful or stream.filtered or stream.takeover:
        return None
    if stream.closing or stream.next is not None:
        return None
    before_ns = by_ns - _LONGEST_TIMEOUT_NS
    if could_not_send_until(connection, by_ns) > before_ns:
        return None
    late = prepares.due(before_ns)
    if not late:
        return None
    first = min(late)
    since_ns = first.due_ns or 0
    more = f" and of {counted(len(late) - 1, 'later one')}" if len(late) > 1 else ""
    text = f"no COMMIT or ABORT of PREPARE seqno {first.seqno}{more}{_acknowledged(stream, first)}"
    return Undecided(first, since_ns, f"{text} since {clock(since_ns)}")


def outcome_due(stream: Stream, by_ns: int | None) -> Due | None:
    """Return that the outcome of a durable write is due, if it should have come by a time."""
    found = undecided(stream, by_ns)
    return None if found is None else Due(Cause.PREPARE_UNDECIDED, found.text, since_ns=found.since_ns)


def _acknowledged(stream: Stream, prepare: OpenPrepare) -> str:
    """Return whether the consumer has acknowledged a prepare, in words; empty where it need not."""
    if not stream.connection.setup.sync_replication:
        return ""
    acked = stream.acks.seqno is not None and stream.acks.seqno >= prepare.seqno
    return f", which its consumer {'acknowledged' if acked else 'did not acknowledge'},"


# -- what is due of a stream that is silent: the message, or the answer, that has to come next --------

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
    request, snapshot, last = stream.request, stream.snapshot, stream.seqnos.high
    if stream.oso:
        return Due(Cause.SNAPSHOT_INCOMPLETE, "in the middle of an out-of-order snapshot")
    if stream.states and stream.acks.states < len(stream.states):
        lost = lost_since(stream.connection, stream.states[0].ts_ns)
        return Due(Cause.STATE_NOT_ANSWERED, "waits for the answer to SET_VBUCKET_STATE", lost)
    ended = _end_reached(stream)
    if ended is not None:
        return ended
    if snapshot is None or not stream.ordered:
        return None if stream.traffic.snapshots or stream.doubtful else next_of_takeover(stream, by_ns)
    if snapshot.items == 0 or last is None or last < snapshot.end:
        return _rest_of(stream, snapshot)
    if snapshot.flags & ACKNOWLEDGE and (not snapshot.acked or stream.acks.due or stream.acks.omitted > 0):
        why = f"waits for the acknowledgement of snapshot {snapshot.start}..{snapshot.end}"
        # what acknowledged an earlier one may have been lost
        lost = lost_since(stream.connection, stream.granted_ns) if snapshot.acked else None
        return Due(Cause.SNAPSHOT_NOT_ACKNOWLEDGED, why, lost)
    takeover = next_of_takeover(stream, by_ns)
    if takeover is not None:
        return takeover
    unfiltered = stream.connection.setup.has_collections and not (request and request.filtered)
    behind = _behind(stream, last, high, by_ns) if high is not None and unfiltered else None
    if behind is not None and behind.unknown_because is None:
        return behind  # the outcome of a durable write may be among what is not sent
    return outcome_due(stream, by_ns) or behind


def _end_reached(stream: Stream) -> Due | None:
    """Return that the end of a stream was reached, if it was: there is nothing left to send but STREAM_END."""
    request, last = stream.request, stream.seqnos.high
    end = request.fixed_end if request is not None else None
    if request is None or end is None or not stream.begin_captured:
        return None
    if last is not None:
        return Due(Cause.END_NOT_SENT, f"end seqno {end} is reached, no STREAM_END") if last >= end else None
    waits = request.bits & (CACHE_TRANSFER | FROM_LATEST) or stream.connection.setup.notifies
    if waits or request.start < end:
        return None
    return Due(Cause.END_NOT_SENT, f"end seqno {end} is not above the start, {request.start}, and no STREAM_END came")


def _rest_of(stream: Stream, snapshot: Snapshot) -> Due | None:
    """Return that the rest of a snapshot is due, unless it may have been left out by a filter."""
    last = stream.seqnos.high
    if stream.end_may_be_filtered:
        return None
    here = "nothing of it came" if not snapshot.items else f"at seqno {last}"
    why = f"in the middle of snapshot {snapshot.start}..{snapshot.end}, {here}"
    if not stream.filtered or not stream.connection.setup.advances:
        return Due(Cause.SNAPSHOT_INCOMPLETE, why)
    why += f": SEQNO_ADVANCED to {snapshot.end} is missing, or items of what it is filtered to"
    return Due(Cause.ADVANCED_NOT_SENT, why)


def _behind(stream: Stream, last: int, high: High, by_ns: int | None) -> Due | None:
    """Return that the server had more for long, if it had."""
    ts_ns = high.ts_ns
    later = ts_ns is not None and stream.traffic.last_ns is not None and ts_ns >= stream.traffic.last_ns
    if last >= high.seqno or not later or by_ns is None or ts_ns is None or ts_ns > by_ns:
        return None
    text = f"at seqno {last}, the server's high seqno is {high.seqno} since {clock(ts_ns)}"
    return Due(Cause.BEHIND_SERVER, text, None if stream.connection.setup.between_nodes else _LEFT_OUT)
