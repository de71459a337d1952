"""Silence: why nothing comes, and what has to come next.

TCP holds an end up, the producer serves other streams, or NOOPs are missing too; or a message, or an answer, is due.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from dcpdump.net.event import NO_ANSWER, ZERO_WINDOW
from dcpdump.spec.names import ACKNOWLEDGE, ACTIVE, CACHE_TRANSFER, FROM_LATEST, PENDING, VBUCKET_STATE
from dcpdump.streams.causes import Cause, Due, Reason, Unknown
from dcpdump.streams.failover_logs import High
from dcpdump.streams.frame_event import between
from dcpdump.streams.identity import hosts
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.phases import Phase
from dcpdump.streams.state import SECOND, ConnectionState
from dcpdump.streams.stream import OpenPrepare, Snapshot, Stream
from dcpdump.streams.window import Interval, Intervals
from dcpdump.streams.wording import clock, span
from dcpdump.text import counted

# -- when TCP showed that an end held the other up: it did not read, or did not answer at all ---------

#: Frames that come so long after it show that it is over: what ended it was not captured. And an end that has not read
#: for so long does not read; a window that is zero for less is what a busy one has.
_LONG_NS = SECOND


class FaultWords(NamedTuple):
    """What is said of an end that holds the other up."""

    does: str
    seen: str  #: by what that is known
    so: str  #: what it comes to, or from


class TcpFault(Enum):
    """How an end holds the other up. The values are codes."""

    ZERO_WINDOW = ZERO_WINDOW  #: it does not read: its receive window is zero
    NO_ANSWER = NO_ANSWER  #: it does not acknowledge what is sent to it again and again

    def words(self, *, past: bool) -> FaultWords:
        """Return what is said of an end that does so, or did."""
        return _WORDS[self][past]


#: By fault: while it lasts, and when it is over.
_WORDS = {
    TcpFault.ZERO_WINDOW: (
        FaultWords("does not read", "its TCP receive window is zero", "nothing can be sent to it"),
        FaultWords("did not read", "its TCP receive window was zero", "nothing could be sent to it"),
    ),
    TcpFault.NO_ANSWER: (
        FaultWords("acknowledges nothing", "what is sent is sent again", "its host or the network is down"),
        FaultWords("acknowledged nothing", "what was sent was sent again", "its host or the network was down"),
    ),
}


class TcpFaults(NamedTuple):
    """When an end held the other up in one way."""

    fault: TcpFault
    end: str  #: which end: producer or consumer, server or client; else one end
    before: Intervals  #: those that are over
    since_ns: int | None  #: it still does
    until_ns: int | None  #: up to then
    past: bool  #: its connection has ended

    @property
    def intervals(self) -> Intervals:
        """Return all of them; the last is up to the end, where it still does."""
        still = [] if self.since_ns is None else [Interval(self.since_ns, self.until_ns)]
        return replace(self.before, kept=[*self.before.kept, *still])

    @property
    def lasted_ns(self) -> int | None:
        """Return for how long it does by now; None where it does not."""
        return between(self.since_ns, self.until_ns)

    @property
    def text(self) -> str:
        """Return what an end still does, in words."""
        said = self.fault.words(past=self.past)
        return f"its {self.end} {said.does}: {said.seen} since {clock(self.since_ns)}"


def tcp_faults(connection: ConnectionState, until_ns: int | None) -> Iterator[TcpFaults]:
    """Yield how the ends held each other up, to a time or the end of the connection."""
    until_ns, past = connection.until(until_ns), connection.end.ts_ns is not None
    for (fault, direction), known in sorted(connection.tcp_faults.items()):
        since = fault_since(connection, TcpFault(fault), direction)
        if known.over or since is not None:
            yield TcpFaults(TcpFault(fault), _end(connection, direction), known.over, since, until_ns, past)


def fault_since(connection: ConnectionState, fault: TcpFault, direction: int) -> int | None:
    """Return since when the sender of a direction holds the other end up; None where it does not."""
    known = connection.tcp_faults.get((fault.value, direction))
    if known is None or known.since_ns is None:
        return None
    later = between(known.since_ns, connection.sides[1 - direction].latest_ns)
    return None if later is not None and later >= _LONG_NS else known.since_ns


def held_until(connection: ConnectionState, direction: int, until_ns: int) -> int:
    """Return the latest time up to another at which the sender of a direction held the other end up; else 0."""
    latest_ns = 0
    for fault in TcpFault:
        known, since = connection.tcp_faults.get((fault.value, direction)), fault_since(connection, fault, direction)
        if since is not None and since <= until_ns:
            return until_ns
        over = reversed(known.over.kept) if known is not None else ()
        ends = (min(each.end_ns or 0, until_ns) for each in over if (each.start_ns or 0) <= until_ns)
        latest_ns = max(latest_ns, next(ends, 0))
    return latest_ns


def consumer_held_until(connection: ConnectionState, until_ns: int) -> int:
    """Return the latest time up to another at which its consumer let a producer send nothing; else 0."""
    producer_direction = connection.producer_direction
    return 0 if producer_direction is None else held_until(connection, 1 - producer_direction, until_ns)


def held_up(connection: ConnectionState, until_ns: int | None, end: str = "consumer") -> TcpFaults | None:
    """Return how an end has held the other up for long at a time; None where that is not known."""
    found = sorted(tcp_faults(connection, until_ns), key=lambda each: each.fault is not TcpFault.ZERO_WINDOW)
    return next((each for each in found if each.end == end and (each.lasted_ns or 0) >= _LONG_NS), None)


def _end(connection: ConnectionState, direction: int) -> str:
    if connection.producer_direction is not None:
        return "producer" if direction == connection.producer_direction else "consumer"
    server = connection.roles.server
    return "one end" if server is None else "server" if direction == server else "client"


# -- turns: whether a silent stream may be waiting for its own ----------------------------------------
# A producer sends the streams of a connection in turn: those that it reads from disk one after the other, or some of
# them at a time; those from memory as they have something. So the silence of a stream says nothing as long as others
# are served, unless it is passed over again and again, or none of its kind is served any more.

#: A stream that others were preferred to for so many rounds, or so many times the usual pause, is passed over.
MANY = 4


class Silence(NamedTuple):
    """How a stream that is in the middle of something fares against the others of its connection."""

    waits: bool  #: it may be waiting for its turn
    text: str  #: why it may, or why it does not


class Silences:
    """The turns of streams of a ledger that is closed. Each question costs a few steps."""

    def __init__(self, now_ns: int | None, idle_ns: int) -> None:
        """``now_ns``: when the capture ended; ``idle_ns``: who is silent for so long is looked at."""
        self._now_ns, self._idle_ns = now_ns, idle_ns
        self._turns: dict[tuple[int, int], list[int]] = {}  # by the number of a connection, and from memory or disk

    def of(self, stream: Stream) -> Silence:
        """Return whether a stream of which more is to come, and that has been silent for long, may wait."""
        connection, kind, now_ns, idle_ns = stream.connection, int(stream.from_disk), self._now_ns, self._idle_ns
        turns, sent_ns = connection.turns, connection.window.last_sent_ns
        if now_ns is not None and now_ns - could_not_send_until(connection, now_ns) < idle_ns:
            return Silence(True, "its producer could not send before")
        patience_ns = max(idle_ns, MANY * turns.pause_ns) if turns.pause_ns > SECOND else idle_ns
        silent_ns = between(sent_ns, now_ns)
        if silent_ns is None or silent_ns >= patience_ns:
            single_capture = len(connection.lookup.current) < 2
            return Silence(
                False, "" if single_capture else f"its producer sends no other stream either since {clock(sent_ns)}"
            )
        if silent_ns >= idle_ns:
            return Silence(True, "its producer has paused for as long before")
        passed, served = turns.counts[kind] - stream.turns[kind], self._served_since(stream, kind)
        if served and passed >= MANY * served:
            return Silence(False, f"other streams were served {passed:,} times meanwhile")
        latest = turns.latest[kind]
        latest_ns = None if latest is None else _left(latest, kind)
        if latest_ns is not None and (between(latest_ns, now_ns) or 0) >= max(
            patience_ns, MANY * turns.pauses_ns[kind]
        ):
            source = "from disk" if kind else "from memory"
            return Silence(False, f"its producer serves others, and none {source} since {clock(latest_ns)}")
        return Silence(True, "its producer serves other streams in turn")

    def _served_since(self, stream: Stream, kind: int) -> int:
        """Return how many streams of a connection were served since one was."""
        connection = stream.connection
        found = self._turns.get((connection.number, kind))
        if found is None:
            found = sorted(each.turns[kind] for each in connection.streams)
            self._turns[connection.number, kind] = found
        return len(found) - bisect_right(found, stream.turns[kind])


def could_not_send_until(connection: ConnectionState, by_ns: int) -> int:
    """Return up to when flow control, which does no more, or TCP let a producer send nothing; 0 where neither did."""
    window = connection.window
    if window.blocked.further:
        return by_ns  # the last of so many times is not kept
    blocked_ns = window.blocked.kept[-1].end_ns if window.blocked.kept else 0
    return max(by_ns if blocked_ns is None else blocked_ns, consumer_held_until(connection, by_ns))


def _left(stream: Stream, kind: int) -> int | None:
    """Return when a stream was served last from memory, or from disk."""
    if stream.from_disk == bool(kind):
        return stream.seqnos.last_ns if stream.seqnos.last_ns is not None else stream.traffic.last_ns
    return stream.traffic.last_ns if stream.marker is None else stream.marker.ts_ns


# -- missing NOOPs ------------------------------------------------------------------------------------
# None came for so long that one was due, on a connection that was captured all the while.
#
# A producer sends one each interval, whether or not there is other traffic, unless the last one waits for its answer,
# or TCP lets it send nothing: the consumer does not read.
# Where no interval was accepted, it is the server's own, which is not captured: then only a silence after which both
# ends disconnect counts.

_INTERVAL = 20 * SECOND  #: where no set_noop_interval was accepted
IDLE_TIMEOUT_NS = 360 * SECOND  #: dcp_idle_timeout, unless the server has another
_INTERVAL_KEY = "set_noop_interval"


class MissingNoops(NamedTuple):
    """NOOPs that did not come."""

    since_ns: int  #: when the last one came, or from when on they were due, or could be sent again
    until_ns: int  #: up to when the connection was captured
    interval_ns: int | None  #: None: none was accepted
    silent: bool  #: the producer sent nothing else either

    @property
    def lasting_ns(self) -> int:
        """Return for how long none came."""
        return self.until_ns - self.since_ns

    @property
    def text(self) -> str:
        """Return it in words."""
        due = "" if self.interval_ns is None else f", one is due every {span(self.interval_ns)}"
        return f"no NOOP came since {clock(self.since_ns)}, for {span(self.lasting_ns)}{due}"


def _noop_interval_ns(connection: ConnectionState) -> int | None:
    """Return the interval of NOOPs that was agreed on, or that servers have; None where it is not a number."""
    text = connection.setup.agreed.get(_INTERVAL_KEY, "")
    try:
        return int(float(text) * SECOND) if text else _INTERVAL
    except (ValueError, OverflowError):
        return None


def is_recent(connection: ConnectionState, until_ns: int | None) -> bool:
    """Return whether the latest NOOP came within two intervals of a time."""
    interval, last_ns = _noop_interval_ns(connection), connection.noops.last_ns
    if interval is None or last_ns is None or until_ns is None:
        return False
    return until_ns - last_ns <= 2 * interval + SECOND


def missing_noops(
    connection: ConnectionState, until_ns: int | None, *, sending: bool = False, after_ns: int = 0
) -> MissingNoops | None:
    """Return which NOOPs are missing of a connection that was captured up to a time, or to its end; None: none are.

    ``sending``: its producer sent something then, so it is there: where no interval was agreed on, that of servers
    counts, and whether bytes were lost is for the caller to ask. ``after_ns``: those before are known.
    """
    noops, enabled_ns = connection.noops, connection.setup.noops_enabled_ns
    due_ns = noops.last_ns if noops.due_ns is None else noops.due_ns
    if due_ns is None or enabled_ns is None or until_ns is None or noops.open_ns is not None:
        return None
    if not connection.setup.on("enable_noop"):
        return None
    interval = _noop_interval_ns(connection)
    if not interval or interval < 0 or (connection.end.reason == "reused" and not sending):
        return None  # of one that was replaced it is not known when it ended
    taken = connection.setup.name_taken
    if taken is not None and not sending:  # from then on its server has none to send
        until_ns = min(until_ns, taken.ts_ns or 0)
    agreed = _INTERVAL_KEY in connection.setup.agreed
    allowed = 2 * interval + SECOND if sending or agreed else IDLE_TIMEOUT_NS
    since_ns = max(noops.last_ns or 0, enabled_ns, due_ns, after_ns, consumer_held_until(connection, until_ns))
    latest_ns = max(since_ns, noops.answered_ns or 0)
    if until_ns - latest_ns <= allowed or not (sending or connection.lost_since(latest_ns) is None):
        return None
    sent_ns = connection.sent_ns
    silent = sent_ns is not None and until_ns - sent_ns > allowed
    return MissingNoops(since_ns, until_ns, interval if agreed else None, silent)


class CaptureEnds:
    """Up to when the connections of a ledger that is closed were captured."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def missing_noops(self, connection: ConnectionState) -> MissingNoops | None:
        """Return which NOOPs are missing of a connection; None: none are, or that is not known."""
        # Nothing is looked up for connections of which none can be missing.
        found = missing_noops(connection, self._ledger.last_ns)
        until_ns = None if found is None else self._until(connection)
        return found if found is None or until_ns == found.until_ns else missing_noops(connection, until_ns)

    def _until(self, connection: ConnectionState) -> int | None:
        """Return up to when a connection was captured; None where that is not known.

        Of several captures, each may be of another place: there, what was captured between the same hosts tells.
        """
        if connection.end.by is not None:
            return connection.end.ts_ns
        if self._latest.get(frozenset((connection.src, connection.dst))) != connection.number:
            return None  # another of the same ports followed, so its end was not captured
        return self._ledger.last_ns if self._ledger.single_capture else self._between.get(hosts(connection))

    @cached_property
    def _latest(self) -> dict[frozenset[str], int]:
        """Return the number of the latest connection of two ends."""
        every = self._ledger.connections.values()
        return {frozenset((each.src, each.dst)): each.number for each in sorted(every, key=lambda each: each.number)}

    @cached_property
    def _between(self) -> dict[frozenset[str], int]:
        """Return when the last frame between two hosts was captured."""
        found: dict[frozenset[str], int] = {}
        for each in self._ledger.connections.values():
            found[hosts(each)] = max(found.get(hosts(each), 0), each.last_ns or 0)
        return found


# -- takeovers: what comes next, whether one was finished, and how far one came that was not ----------


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
    return Due(Cause.PENDING_NOT_SENT, text, stream.connection.lost_since(stream.granted_ns), since_ns)


def is_handed_over(stream: Stream, by_ns: int | None) -> bool:
    """Return whether the vbucket is active at the consumer, as far as was captured, and STREAM_END is not overdue.

    ``by_ns``: it is, if all else was there by then.
    """
    connection = stream.connection
    if not stream.asked_takeover or stream.state != ACTIVE:
        return False
    if connection.lost_since(stream.granted_ns) is not None:
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
    if not stream.takeover or stream.connection.lost_since(stream.granted_ns) is not None:
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


def undecided(stream: Stream, by_ns: int | None) -> Due | None:
    """Return that the outcome of prepares is due, if it should have come by a time: later than a client can wait.

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
    unresolved = prepares.due(before_ns)
    if not unresolved:
        return None
    first = min(unresolved)
    since_ns = first.due_ns or 0
    more = f" and of {counted(len(unresolved) - 1, 'later one')}" if len(unresolved) > 1 else ""
    text = f"no COMMIT or ABORT of PREPARE seqno {first.seqno}{more}{_acknowledged(stream, first)}"
    return Due(Cause.PREPARE_UNDECIDED, f"{text} since {clock(since_ns)}", since_ns=since_ns, frame=first.frame)


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
    if stream.phase is Phase.CACHE_TRANSFER:
        return Due(Cause.SNAPSHOT_INCOMPLETE, "in the middle of a cache transfer")
    if stream.states and stream.acks.states < len(stream.states):
        lost = stream.connection.lost_since(stream.states[0].ts_ns)
        return Due(Cause.STATE_NOT_ANSWERED, "waits for the answer to SET_VBUCKET_STATE", lost)
    ended = _end_reached(stream)
    if ended is not None:
        return ended
    if snapshot is None or not stream.ordered:
        return None if stream.traffic.snapshots or stream.doubtful else next_of_takeover(stream, by_ns)
    if not stream.seqnos.since_marker or last is None or last < snapshot.end:
        return _rest_of(stream, snapshot)
    if snapshot.flags & ACKNOWLEDGE and (not snapshot.acked or stream.acks.due or stream.acks.omitted > 0):
        why = f"waits for the acknowledgement of snapshot {snapshot.start}..{snapshot.end}"
        # what acknowledged an earlier one may have been lost
        lost = stream.connection.lost_since(stream.granted_ns) if snapshot.acked else None
        return Due(Cause.SNAPSHOT_NOT_ACKNOWLEDGED, why, lost)
    takeover = next_of_takeover(stream, by_ns)
    if takeover is not None:
        return takeover
    unfiltered = stream.connection.setup.has_collections and not (request and request.filtered)
    behind = _behind(stream, last, high, by_ns) if high is not None and unfiltered else None
    if behind is not None and behind.unknown_because is None:
        return behind  # the outcome of a durable write may be among what is not sent
    return undecided(stream, by_ns) or behind


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
    here = f"at seqno {last}" if stream.seqnos.since_marker else "nothing of it came"
    why = f"in the middle of snapshot {snapshot.start}..{snapshot.end}, {here}"
    if not stream.filtered or not stream.connection.setup.advances:
        return Due(Cause.SNAPSHOT_INCOMPLETE, why)
    why += f": SEQNO_ADVANCED to {snapshot.end} is missing, or items of what it is filtered to"
    return Due(Cause.ADVANCED_NOT_SENT, why)


def _behind(stream: Stream, last: int, high: High, by_ns: int | None) -> Due | None:
    """Return that more is due, where the server has had it for long."""
    ts_ns = high.ts_ns
    later = ts_ns is not None and stream.traffic.last_ns is not None and ts_ns >= stream.traffic.last_ns
    if last >= high.seqno or not later or by_ns is None or ts_ns is None or ts_ns > by_ns:
        return None
    text = f"at seqno {last}, the server's high seqno is {high.seqno} since {clock(ts_ns)}"
    return Due(Cause.BEHIND_SERVER, text, None if stream.connection.setup.between_nodes else _LEFT_OUT)
