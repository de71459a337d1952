"""Judge what became of a stream, as far as the capture shows it. What it does not show is unknown."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial

from dcpdump.spec import find
from dcpdump.spec.names import ACTIVE, BACKFILL_FAILED, CLOSED, FILTER_EMPTY, LOST_PRIVILEGES, OK, SLOW, TAKEOVER
from dcpdump.spec.statuses import (
    ENOMEM,
    KEY_EEXISTS,
    KEY_ENOENT,
    NOT_MY_VBUCKET,
    OPAQUE_NO_MATCH,
    ROLLBACK,
    STREAM_NOT_FOUND,
)
from dcpdump.startup import dataclass, field
from dcpdump.streams.causes import CARVED, Cause, Due, Reason, Situation, Unknown, Verdict, VerdictKind
from dcpdump.streams.clients import Clients
from dcpdump.streams.failover_logs import High, Lag, Lags
from dcpdump.streams.flow import FlowState, flow_status, stands_still, why_blocked, why_unknown
from dcpdump.streams.frame_event import NOTHING_MISSED, Missed, between
from dcpdump.streams.identity import NAMELESS
from dcpdump.streams.ledger import Ledger, compare, conclude
from dcpdump.streams.opcode_kinds import ABORT, CACHED, COMMIT, MARKER, SET_STATE, STREAM_END
from dcpdump.streams.request import Request, Requests, earlier, explained, reached, refusal
from dcpdump.streams.rollbacks import LOOP, Rollback, find_rollbacks
from dcpdump.streams.silence import (
    BY_PRODUCER,
    IN_TURN,
    CaptureEnds,
    Silences,
    due,
    held_up,
    is_handed_over,
    is_recent,
    undecided,
    unfinished,
)
from dcpdump.streams.state import SECOND, ConnectionState
from dcpdump.streams.stream import ErrorReply, Snapshot, Stream
from dcpdump.streams.window import OUT_OF_ORDER_NS
from dcpdump.streams.wording import clock, reason, seqno, span, status, times

# -- how a connection ended, by whom and why: what its streams and its reconnects are judged by -------

#: By the end of a connection: by its client, and by its server.
_ENDS = {
    "fin": (Cause.CLOSED_BY_CLIENT, Cause.CLOSED_BY_SERVER),
    "rst": (Cause.RESET_BY_CLIENT, Cause.RESET_BY_SERVER),
}
#: A server closes a connection whose name is taken at once, and disconnects for an error at once; what came long before
#: explains nothing.
_SOON_NS = 60 * SECOND


def closing(connection: ConnectionState) -> str:
    """Return how, by whom and when a connection ended, in words."""
    server = connection.roles.server if connection.ended_surely else None
    who = "one side" if server is None else "its server" if connection.end.by == server else "its client"
    how = {"rst": "reset", "reused": "replaced"}.get(connection.end.reason, "closed")
    return f"connection {how} by {who} at {clock(connection.end.ts_ns)}"


def ended_by(connection: ConnectionState) -> Cause:
    """Return how a connection ended, and by whom, as far as that is known."""
    server = connection.roles.server if connection.ended_surely else None
    if server is None or connection.end.reason not in _ENDS:
        return Cause.CONNECTION_ENDED
    return _ENDS[connection.end.reason][connection.end.by == server]


def why_closed(connection: ConnectionState) -> str:
    """Return that a server closed a connection for another of the same name, in words; empty where it did not."""
    taken, server = connection.setup.name_taken, connection.roles.server
    if taken is None or not connection.ended_surely or connection.end.by != server:
        return ""
    passed = between(taken.ts_ns, connection.end.ts_ns)
    return taken_name(connection) if passed is not None and 0 <= passed <= _SOON_NS else ""


def taken_name(connection: ConnectionState) -> str:
    """Return which connection took the name of another, in words; empty where none did."""
    taken = connection.setup.name_taken
    if taken is None:
        return ""
    return f"connection {taken.by} took its name at {clock(taken.ts_ns)}, and a server closes the older"


# -- refused messages ---------------------------------------------------------------------------------
# Errors that a consumer answers to messages of a stream, and for which a producer disconnects.

#: A consumer says that it has no such vbucket or stream, which a producer tolerates.
GONE = frozenset({NOT_MY_VBUCKET, STREAM_NOT_FOUND, OPAQUE_NO_MATCH})
#: Any answer to these is taken for the acknowledgement.
_ACKNOWLEDGED = frozenset({MARKER, SET_STATE})


def why_disconnected(connection: ConnectionState) -> str:
    """Return which error of its consumer a producer disconnected for, in words; empty where none explains it."""
    ended_ns = connection.end.ts_ns
    if ended_ns is None or connection.end.by != connection.producer_direction or not connection.ended_surely:
        return ""
    found = [
        (reply.ts_ns, stream, reply)
        for stream in connection.streams
        for reply in stream.error_replies
        if reply.ts_ns is not None and 0 <= ended_ns - reply.ts_ns <= _SOON_NS and _disconnects(connection, reply)
    ]
    return _words_of_reply(*min(found, key=lambda each: each[0])[1:]) if found else ""


def _disconnects(connection: ConnectionState, reply: ErrorReply) -> bool:
    """Return whether a producer disconnects for an error."""
    opcode, code = reply.opcode, reply.status
    if opcode in _ACKNOWLEDGED or code in GONE or (opcode == CACHED and code == ENOMEM):
        return False
    if opcode == STREAM_END and code == KEY_ENOENT:
        return False
    if code == KEY_EEXISTS or (code == KEY_ENOENT and opcode not in (COMMIT, ABORT)):
        return connection.setup.on("v7_dcp_status_codes")
    return True


def _words_of_reply(stream: Stream, reply: ErrorReply) -> str:
    message = f"{find(reply.opcode).name.removeprefix('DCP_')} of vb {stream.vbucket}"
    when = clock(reply.ts_ns)
    return f"its consumer answered {message} with {status(reply.status)} at {when}, for which a producer disconnects"


# -- the verdicts ---------------------------------------------------------------------------------------

#: A stream that brings nothing for so long is looked at twice.
IDLE_NS = 10 * SECOND
#: Being blocked is a state only if it lasts: a full window is what a busy stream has again and again.
BLOCKED_NS = SECOND
#: For so long a producer may read from its disk what a filter leaves out.
_READS_NS = 60 * SECOND
#: By the status of STREAM_END.
_FINISHED = {OK: Cause.FINISHED, CLOSED: Cause.CLOSED, FILTER_EMPTY: Cause.FINISHED}
#: A message may be so much later than the last packet where no clock went back: its direction's is ahead.
_BACK_NS = SECOND
#: Messages may come for so long after their consumer ended the connection.
_ON_ITS_WAY_NS = SECOND
#: Ends that are as they should be: nothing has to come after them.
_EXPECTED = (Cause.FINISHED, Cause.CLOSED, Cause.CLOSED_BY_PRODUCER, Cause.CLOSED_BY_CLIENT)
#: Those after which nothing is left to be sent, or another stream brings it.
_SETTLED = (
    *(Cause.FINISHED, Cause.CLOSED, Cause.CLOSED_BY_PRODUCER),
    *(Cause.REOPENED, Cause.ASKED_AGAIN, Cause.MAY_BE_REOPENED, Cause.OPEN_ELSEWHERE),
)
BY_SERVER = (Cause.RESET_BY_SERVER, Cause.CLOSED_BY_SERVER)
_WITH_CONNECTION = (*BY_SERVER, Cause.RESET_BY_CLIENT, Cause.CLOSED_BY_CLIENT, Cause.CONNECTION_ENDED)
#: Reasons of STREAM_END after which the vbucket is where it was.
_STAYS = (SLOW, BACKFILL_FAILED, LOST_PRIVILEGES)


def _is_over(connection: ConnectionState, last_ns: int | None) -> bool:
    """Return whether a connection had ended with the last message of a stream, or but for what was on its way then."""
    end = connection.end
    if end.ts_ns is None or last_ns is None:
        return end.ts_ns is not None
    return last_ns - end.ts_ns <= (_ON_ITS_WAY_NS if end.by != connection.producer_direction else 0)


class Judge:
    """Judge the streams of a ledger that is closed. ``early``: of one to which more comes, those that are over."""

    def __init__(self, ledger: Ledger, idle_ns: int = IDLE_NS, *, early: bool = False) -> None:
        self.ledger = ledger
        self._early, self._by_the_end = early, "so far" if early else "before the capture ends"
        self._idle_ns, self._now = idle_ns, ledger.last_ns
        self._by_ns = None if self._now is None else self._now - idle_ns
        self._missing_noops = cache(CaptureEnds(ledger).missing_noops)
        self._why_disconnected = cache(why_disconnected)
        self._flow_status = cache(partial(flow_status, now_ns=self._now))
        self._clients = Clients(ledger)
        self._silences = Silences(self._now, idle_ns)
        self._lags = Lags(ledger)

    def verdict(self, stream: Stream) -> Verdict:
        """Return the verdict on a stream, with what happened to its requests before it was granted."""
        found = self._verdict(stream)
        before, skip = (earlier(stream), self._clients.skip(stream)) if stream.granted else ("", None)
        skipped = "" if skip is None else skip.text
        early = f"judged at {clock(self._now)}, as it was not kept in memory" if self._early and found.degree else ""
        return found._replace(why=_joined(found.why, before, skipped, early), lag=self._lag(stream, found))

    def _lag(self, stream: Stream, found: Verdict) -> Lag | None:
        """Return how far the consumer of a stream is behind; None where it has what it wanted, or another stream."""
        over = found.kind is VerdictKind.TAKEN_OVER or found.cause in _SETTLED or self._early
        return None if over else self._lags.of(stream)

    def _verdict(self, stream: Stream) -> Verdict:
        if stream.end is not None:
            return self._ended(stream)
        if stream.close is not None and stream.closed_ns is not None:
            by, who = (Cause.CLOSED_BY_PRODUCER, "producer") if stream.close.by_producer else (Cause.CLOSED, "consumer")
            why = f"closed by its {who} at {clock(stream.closed_ns)}"
            return self._left(stream, why, stream.closed_ns, by)
        if stream.replaced:
            why = "another was granted in its place; no STREAM_END was captured; reopened"
            return Verdict(VerdictKind.ENDED, Cause.REPLACED, why)
        if stream.connection.carved and (stream.granted or stream.traffic.any):
            return Verdict(VerdictKind.UNKNOWN, Reason.CARVED, CARVED)
        if stream.requests and not stream.granted and not stream.traffic.any:
            return self._not_granted(stream, stream.requests[-1])
        if stream.next is not None:
            lost = stream.connection.losses
            since = "bytes were lost" if lost else "the capture starts after its beginning"
            why = f"another follows it; its end was not captured: {since}"
            return Verdict(VerdictKind.UNKNOWN, Reason.BYTES_LOST if lost else Reason.STARTS_LATE, why)
        return self._open(stream)

    # -- ended -------------------------------------------------------------------------------------------

    def _ended(self, stream: Stream) -> Verdict:
        request, code = stream.request, stream.end_status
        at = f"at {clock(stream.ended_ns)}"
        why = f"{at}, its reason was not captured" if code is None else f"{reason(code)} {at}"
        if stream.flags & TAKEOVER and code == OK:
            active = [each for each in stream.states if each.state == ACTIVE]
            if active:
                why = f"vbucket {stream.vbucket} is active there since {clock(active[0].ts_ns)}"
                return Verdict(VerdictKind.TAKEN_OVER, Cause.HANDED_OVER, why)
        if code == OK and request is not None:
            why += reached(stream, request)
        elif code == FILTER_EMPTY:
            why += ": all collections that it was of were dropped"
        return self._left(stream, why, stream.ended_ns, _FINISHED.get(-1 if code is None else code))

    def _left(
        self, stream: Stream, why: str, ended_ns: int | None, cause: Cause | None, lost: Unknown | None = None
    ) -> Verdict:
        """Return whether a stream that is over was requested again.

        ``cause``: of its end, if more than its status; ``lost``: why it may have ended before, if it may.
        """
        later = self._clients.again(stream, ended_ns)
        if later is not None:
            why += f"; {later.in_words(stream)}"
            if not later.doubt:
                then = Cause.REOPENED if later.stream.reopened else Cause.ASKED_AGAIN
                return Verdict(VerdictKind.ENDED, then, why)
        gave_up = cause is Cause.CLOSED_BY_CLIENT and self._missing_noops(stream.connection) is not None
        if cause in _EXPECTED and not gave_up:
            return Verdict(VerdictKind.ENDED, cause, why)
        mate = self._clients.elsewhere(stream, ended_ns)
        if mate is not None:
            since = f"since {clock(mate.granted_ns)}" if mate.granted_ns is not None else "since before the capture"
            why += f"; its consumer has it open on connection {mate.connection.number} {since}"
            return Verdict(VerdictKind.ENDED, Cause.OPEN_ELSEWHERE, why)
        if later is not None:
            return Verdict(VerdictKind.ENDED, Cause.MAY_BE_REOPENED, why, Situation.ENDED)
        lost = lost or self._clients.hidden(stream, ended_ns)
        left = self._since(ended_ns)
        if lost is None and cause not in _WITH_CONNECTION and left is not None and left >= BLOCKED_NS:
            lost = self._unseen(stream, ended_ns)
        if lost is not None:
            elsewhere = lost.reason is Reason.OTHER_NODES
            so = f"not requested again here in {span(left)}" if elsewhere else "whether it was reopened is unknown"
            why += f"; {so}: {lost.text}"
            return Verdict(VerdictKind.ENDED, lost.reason, why, Situation.ENDED)
        if left is None or left < BLOCKED_NS:
            cause, why = cause or Cause.NOT_REOPENED_YET, f"{why}; not reopened {self._by_the_end}, {span(left)} later"
        else:
            cause, why = cause or Cause.ABANDONED, f"{why}; abandoned: not requested again in {span(left)}"
        if cause in _WITH_CONNECTION:
            return Verdict(VerdictKind.ENDED, cause, why, Situation.CLOSED, gave_up or cause in BY_SERVER)
        certain = cause is not Cause.NOT_REOPENED_YET and (left or 0) >= self._idle_ns
        return Verdict(VerdictKind.ENDED, cause, why, Situation.ENDED, certain)

    def _unseen(self, stream: Stream, after_ns: int | None) -> Unknown | None:
        """Return why another node may know what became of a stream after a time; None where none has to be asked."""
        connection = stream.connection
        if stream.end is not None and stream.end_status in _STAYS and connection.end.ts_ns is None:
            return None
        return self._clients.unseen(connection, after_ns)

    # -- not granted -------------------------------------------------------------------------------------

    def _not_granted(self, stream: Stream, request: Request) -> Verdict:
        if request.status is None:
            return self._unanswered(stream, request)
        if request.ambiguous:
            return _ambiguous(stream.connection)
        later = self._clients.again(stream, request.answered_ns)
        again, lost, surely = "", None, later is not None and not later.doubt
        if later is None:
            lost = self._clients.hidden(stream, request.answered_ns)
        elif surely:
            again = f"; requested again on connection {later.stream.connection.number}{later.evidence}"
        else:
            again = f"; {later.in_words(stream)}"
        if request.status == ROLLBACK:
            return self._rolled_back(stream, request, again, lost, surely=surely)
        cause = refusal(request.status)
        exists = cause is Cause.STILL_OPEN and request.still_open is not None  # it has a verdict of its own
        if lost is None and later is None and cause is Cause.NOT_MY_VBUCKET:
            lost = self._unseen(stream, request.answered_ns)
        left = self._since(request.answered_ns)
        silent = "; not requested again" if left is not None and left >= BLOCKED_NS else ""
        after = again or ("" if exists else _unknown_again(lost) or silent)
        often, lasted_ns = _in_a_row(stream.requests)
        why = f"{status(request.status)}{often}: {explained(request, stream)}{after}"
        if surely:
            return Verdict(VerdictKind.REFUSED, cause, why)
        certain = not exists and self._is_final(stream, cause, lost, again, lasted_ns)
        if often and not certain and later is None and lasted_ns >= self._idle_ns:
            return Verdict(VerdictKind.REFUSED, cause, why, Situation.REFUSALS)
        return Verdict(VerdictKind.REFUSED, cause, why, None if exists else Situation.REFUSED, certain)

    def _is_final(self, stream: Stream, cause: Cause, lost: Unknown | None, again: str, lasted_ns: int) -> bool:
        """Return whether it is certain that a stream which was refused is not granted, and should have been.

        ``lasted_ns``: for how long it was refused again and again.
        """
        if lost is not None or again or cause is Cause.TEMPORARY_FAILURE:
            return False
        if cause is Cause.STILL_OPEN and stream.connection.doubtful:
            return False  # the stream that is open may have begun before the capture
        if cause is Cause.NOT_MY_VBUCKET:
            left = self._since(stream.requests[-1].answered_ns)
            return max(left or 0, lasted_ns) >= self._idle_ns
        return True

    def _rolled_back(
        self, stream: Stream, request: Request, again: str, lost: Unknown | None, *, surely: bool
    ) -> Verdict:
        """Return the verdict on a stream whose latest request was rolled back."""
        to, found = f"to {seqno(request.rollback_seqno)}", self._rollbacks.get(id(request))
        if found is not None and found.is_loop:
            why = f"{to}, {found.often}: a loop{again}"
            return Verdict(VerdictKind.ROLLED_BACK, Cause.LOOP, why, Situation.LOOP, certain=True)
        retried = f", retried {times(stream.requests.count() - 1)}" if len(stream.requests) > 1 else ""
        left = self._since(request.answered_ns)
        then, so = Cause.NOT_REOPENED_YET, f"; not requested again {self._by_the_end}, {span(left)} later"
        if left is None or left >= BLOCKED_NS:
            then, so = Cause.NOT_ASKED_AGAIN, "; not requested again"
        if lost is None and not again and then is Cause.NOT_ASKED_AGAIN:
            lost = self._unseen(stream, request.answered_ns)
        why = f"{to}{retried}{again or _unknown_again(lost) or so}"
        if surely:
            return Verdict(VerdictKind.ROLLED_BACK, Cause.ASKED_AGAIN, why)
        if lost is not None:
            return Verdict(VerdictKind.ROLLED_BACK, lost.reason, why, Situation.ROLLED_BACK)
        certain = not again and left is not None and left >= self._idle_ns
        return Verdict(VerdictKind.ROLLED_BACK, then, why, Situation.ROLLED_BACK, certain)

    @cached_property
    def _rollbacks(self) -> dict[int, Rollback]:
        """Return rollbacks by the identity of their requests."""
        return {id(request): each for each in find_rollbacks(self.ledger) for request in each.requests}

    def _unanswered(self, stream: Stream, request: Request) -> Verdict:
        connection = stream.connection
        asked_ns = None if request.ts_ns is None else request.ts_ns - OUT_OF_ORDER_NS
        lost = connection.lost_since(asked_ns)
        if lost is not None:
            return Verdict(VerdictKind.UNKNOWN, lost.reason, f"no answer to its request was captured: {lost.text}")
        early = request.still_open  # one of which no request was captured, if not this one
        if request.ambiguous or (early is not None and not early.requests and early.opaque == request.opaque):
            return _ambiguous(connection)
        left = self._since(request.ts_ns)
        if connection.end.ts_ns is not None:
            cause, why = ended_by(connection), f"{closing(connection)} before it was answered"
            if cause is Cause.CLOSED_BY_CLIENT or self._clients.again(stream, connection.end.ts_ns) is not None:
                return Verdict(VerdictKind.ENDED, cause, why)
            lost = self._clients.hidden(stream, connection.end.ts_ns)
            if lost is not None:
                return Verdict(VerdictKind.ENDED, lost.reason, f"{why}{_unknown_again(lost)}", Situation.ENDED)
            return Verdict(VerdictKind.ENDED, cause, why, Situation.CLOSED, cause in BY_SERVER)
        stopped = self._held_up(connection) or self._replaced(stream)
        if stopped is not None:
            return stopped
        if left is not None and left >= self._idle_ns:
            why = f"requested at {clock(request.ts_ns)}, no answer in {span(left)}"
            return Verdict(VerdictKind.STUCK, Cause.NOT_ANSWERED, why, Situation.STUCK, certain=True)
        return Verdict(VerdictKind.REQUESTED, Cause.NOT_ANSWERED, f"at {clock(request.ts_ns)}, not answered yet")

    # -- open --------------------------------------------------------------------------------------------

    def _open(self, stream: Stream) -> Verdict:
        connection = stream.connection
        if is_handed_over(stream, self._by_ns):
            return Verdict(VerdictKind.TAKEN_OVER, Cause.HANDED_OVER, "no STREAM_END was captured")
        last_ns = stream.traffic.last_ns
        if _is_over(connection, last_ns):
            lost = connection.lost_since(last_ns)
            why = f"{closing(connection)}, no STREAM_END{' was captured' if lost is not None else ''}"
            stalled, missing = held_up(connection, connection.end.ts_ns), self._missing_noops(connection)
            because = (self._why_disconnected(connection), why_closed(connection))
            why = _joined(why, unfinished(stream), *because, stalled and stalled.text, missing and missing.text)
            return self._left(stream, why, connection.end.ts_ns, ended_by(connection), lost)
        replaced = self._replaced(stream)
        if replaced is not None:
            return replaced
        idle, held = self._since(stream.traffic.last_ns), self._flow_status(connection)
        back_ns = between(self._now, stream.traffic.last_ns) or 0
        if back_ns > _BACK_NS:
            full = "its window was full" if held.state is FlowState.BLOCKED else ""
            why = f"how long nothing came is not known: its last message is {span(back_ns)} later than the last packet"
            return Verdict(VerdictKind.UNKNOWN, Reason.CLOCK_GOES_BACK, _joined(f"{why}, as the clock goes back", full))
        if held.state is FlowState.BLOCKED and (self._since(held.since_ns) or 0) >= BLOCKED_NS:
            unable = held_up(connection, self._now, "producer")
            lost = connection.lost_since(stream.traffic.last_ns)
            why = _joined(why_blocked(connection.window, held), unable and unable.text, _until(lost))
            waits = stands_still(connection, self._now, self._idle_ns)
            return Verdict(VerdictKind.BLOCKED, Cause.WINDOW_FULL, why, Situation.BLOCKED, waits)
        stopped = self._held_up(connection)
        if stopped is not None:
            return stopped
        if idle is None or idle < self._idle_ns:
            return self._recent(stream)
        return self._idle(stream, idle)

    def _replaced(self, stream: Stream) -> Verdict | None:
        """Return that a connection that is silent is over, as its consumer opened another in its place; None if not."""
        connection = stream.connection
        taken, last_ns = connection.setup.name_taken, connection.last_ns
        if (self._since(last_ns) or 0) < self._idle_ns:
            return None
        if taken is not None and taken.ts_ns is not None and last_ns is not None:
            is_over = last_ns - taken.ts_ns <= _ON_ITS_WAY_NS
        else:
            later = self._clients.again(stream, last_ns)
            is_over = later is not None and later.is_certain and later.stream.connection is not connection
        why = _joined(f"its connection is silent since {clock(last_ns)}", taken_name(connection))
        return self._left(stream, why, last_ns, Cause.CONNECTION_ENDED) if is_over else None

    def _held_up(self, connection: ConnectionState) -> Verdict | None:
        """Return that nothing can be sent to a consumer, as TCP shows; None where it can."""
        found = held_up(connection, self._now)
        if found is None:
            return None
        why = _joined(found.text, _until(connection.lost_since(found.since_ns)))
        certain = found.before.exceeded_by(found.lasted_ns, self._idle_ns)
        code = found.fault.value
        return Verdict(VerdictKind.HELD_UP, Cause(code), why, Situation(code), certain)

    def _recent(self, stream: Stream) -> Verdict:
        """Return the verdict on a stream that is open as far as was captured, and was not silent for long."""
        lost = stream.connection.lost_since(stream.traffic.last_ns)
        if not stream.traffic.any:
            why = f"nothing came since it was granted at {clock(stream.granted_ns)}"
            if lost is not None:
                return Verdict(VerdictKind.UNKNOWN, lost.reason, f"{why}, but {lost.text}")
            return Verdict(VerdictKind.QUIET, Cause.NOTHING_SENT, why)
        since = "" if stream.requests else "since before the capture"
        prepare = undecided(stream, self._by_ns)
        waits = prepare and f"{prepare.text}, for {span(self._since(prepare.since_ns))}"
        return Verdict(VerdictKind.FLOWING, Cause.FLOWING, _joined(since, waits, _until(lost)))

    def _idle(self, stream: Stream, idle: int) -> Verdict:
        lost = stream.connection.lost_since(stream.traffic.last_ns)
        if lost is not None:
            return Verdict(VerdictKind.UNKNOWN, lost.reason, f"nothing for {span(idle)}, but {lost.text}")
        waits = due(stream, self._high(stream), self._by_ns)
        missing = self._missing_noops(stream.connection)
        silent = f"; {missing.text}" if missing is not None and missing.silent else ""
        if waits is not None and not (waits.unknown_because and silent):
            waited = idle if waits.since_ns is None else self._since(waits.since_ns)
            why = f"{waits.text}, for {span(waited)}{silent}"
            if waits.cause in IN_TURN and not silent:
                turn = self._silences.of(stream)
                why = _joined(why, turn.text)
                if turn.waits:
                    return Verdict(VerdictKind.QUIET, Cause.WAITS_FOR_TURN, why)
                if waits.cause is Cause.ADVANCED_NOT_SENT and stream.from_disk and idle < _READS_NS:
                    return Verdict(VerdictKind.QUIET, Cause.IDLE, f"{why}; the producer may read what is filtered out")
            return self._stuck(stream, waits, why)
        if silent:
            why = f"nothing for {span(idle)}{silent}"
            return Verdict(VerdictKind.STUCK, Cause.NOOPS_MISSING, why, Situation.STUCK, certain=True)
        if stream.snapshot is None and stream.gaps.times and stream.traffic.any:
            why = f"nothing for {span(idle)}; bytes were lost since its snapshot marker"
            return Verdict(VerdictKind.UNKNOWN, Reason.BYTES_LOST, why)
        if stream.snapshot is None and not stream.begin_captured:
            why = f"nothing for {span(idle)}; the capture starts after its snapshot marker"
            return Verdict(VerdictKind.UNKNOWN, Reason.STARTS_LATE, why)
        return Verdict(VerdictKind.QUIET, Cause.IDLE, f"nothing for {span(idle)}{self._quietness(stream)}")

    def _stuck(self, stream: Stream, waits: Due, why: str) -> Verdict:
        """Return the verdict on a stream of which something is due, unless flow control may hold it back."""
        if waits.unknown_because is not None:
            return Verdict(VerdictKind.UNKNOWN, waits.unknown_because.reason, f"{why}; {waits.unknown_because.text}")
        later = self._clients.again(stream, stream.connection.last_ns)
        if later is not None:  # it may be another consumer, or else the connection was replaced
            why += f"; {later.in_words(stream)}"
            return Verdict(VerdictKind.ENDED, Cause.MAY_BE_REOPENED, why, Situation.ENDED)
        if waits.cause in BY_PRODUCER and self._flow_status(stream.connection).state is FlowState.UNKNOWN:
            why += f"; it may be blocked by flow control: {why_unknown(stream.connection)}"
            return Verdict(VerdictKind.UNKNOWN, Reason.FLOW_CONTROL, why)
        return Verdict(VerdictKind.STUCK, waits.cause, why, Situation.STUCK, certain=True)

    def _quietness(self, stream: Stream) -> str:
        """Return what speaks for a stream being quiet, and not stuck."""
        connection, words = stream.connection, []
        known = self._high(stream)
        if known is not None and stream.seqnos.high is not None:
            ours = "= ours" if known.seqno == stream.seqnos.high else f"ours {stream.seqnos.high}"
            words.append(f"server's high seqno {known.seqno} {ours}")
        elif stream.snapshot is not None:
            words.append(_received(stream, stream.snapshot))
        noops, missing = connection.noops, self._missing_noops(connection)
        if noops.open_ns is not None and (self._since(noops.open_ns) or 0) >= self._idle_ns:
            words.append(f"a NOOP waits for its answer since {clock(noops.open_ns)}")
        elif missing is not None:
            words.append(missing.text)
        elif noops.answered:
            recent = is_recent(connection, self._now)
            words.append("NOOPs are answered" if recent else f"the last NOOP came at {clock(noops.last_ns)}")
        if self._flow_status(connection).state is FlowState.OPEN:
            words.append("flow control is not blocked")
        return "".join(f"; {word}" for word in words)

    # -- facts -------------------------------------------------------------------------------------------

    def _high(self, stream: Stream) -> High | None:
        return next(iter(self.ledger.logs.highs(stream.connection, stream.vbucket)[-1:]), None)

    def _since(self, ts_ns: int | None) -> int | None:
        return between(ts_ns, self._now)


def _received(stream: Stream, snapshot: Snapshot) -> str:
    """Return how much of the latest snapshot came."""
    whole = f"snapshot {snapshot.start}..{snapshot.end}"
    if (stream.seqnos.high or 0) >= snapshot.end:
        return f"all of {whole} came"
    return f"{whole} came up to seqno {stream.seqnos.high or 0}: the rest is filtered out, as far as that is known"


def _joined(*words: str | None) -> str:
    return "; ".join(filter(None, words))


def _until(lost: Unknown | None) -> str:
    """Return how far a stream is known to be open, in words; empty where it is to the end."""
    if lost is None:
        return ""
    if lost.reason is Reason.CARVED:
        return lost.text
    return f"as far as was captured: {lost.text}{' since' * (lost.reason is not Reason.ONE_DIRECTION)}"


def _ambiguous(connection: ConnectionState) -> Verdict:
    if connection.carved:
        return Verdict(VerdictKind.UNKNOWN, Reason.CARVED, CARVED)
    starts = connection.opening_missing and not connection.losses
    if starts:
        why = "the capture starts late: which answer is its own, if one was captured, is unknown"
        return Verdict(VerdictKind.UNKNOWN, Reason.STARTS_LATE, why)
    why = "requests with one opaque were sent, and not all were captured: which answer is its own is unknown"
    return Verdict(VerdictKind.UNKNOWN, Reason.BYTES_LOST, why)


def _in_a_row(requests: Requests) -> tuple[str, int]:
    """Return how often a stream's latest answers in a row were one refusal, in words, and for how long.

    The words are empty where it was not more often than a rollback is that is no loop.
    """
    latest = first = requests[-1]
    count, least = 0, ""
    for request in reversed(requests):
        if request.status != latest.status:
            break
        first, count = request, count + 1 + request.repeats
        if request.after_omitted:
            least = "at least "
            break
    lasted_ns = between(first.ts_ns, latest.answered_ns) or 0
    return (f", {least}{times(count)} in {span(lasted_ns)}", lasted_ns) if count > LOOP else ("", 0)


def _unknown_again(lost: Unknown | None) -> str:
    """Return why it is not known whether a stream was requested again, in words; empty where it is."""
    if lost is None:
        return ""
    here = lost.reason is Reason.OTHER_NODES
    return f"; {'not requested again here' if here else 'whether it was requested again is unknown'}: {lost.text}"


# -- verdicts on streams that are about to be evicted, before the input ends --------------------------


@contextmanager
def judging_early(ledger: Ledger, streams: Sequence[Stream]) -> Iterator[Judge]:
    """Provide a judge of streams that are over. What connections say of one another is compared only meanwhile."""
    by_connection: dict[ConnectionState, list[Stream]] = {}
    for stream in streams:
        by_connection.setdefault(stream.connection, []).append(stream)
    for connection, mine in by_connection.items():
        conclude(connection, mine)
    connections = ledger.connections.values()
    compare(connections, ledger.logs)
    try:
        yield Judge(ledger, early=True)
    finally:
        for connection in connections:
            connection.identity, connection.inferred = NAMELESS, None


@dataclass(slots=True)
class EvictedStreams:
    """The counts that are kept of forgotten streams, and of their connections."""

    kinds: Counter[str] = field(default_factory=Counter)  #: how many there were by the kinds of their verdicts
    troubled: Counter[str] = field(default_factory=Counter)  #: those in trouble
    rollbacks: int = 0
    connections: int = 0  #: that are evicted too
    missed: Missed = NOTHING_MISSED  #: what of these is in no frame
    by_connection: dict[int, Counter[str]] = field(default_factory=dict)  #: the kinds of those whose connection is not

    @property
    def streams(self) -> int:
        """How many streams there were."""
        return self.kinds.total()

    def evict(self, connection: ConnectionState) -> None:
        """Count a connection that is forgotten after its streams."""
        self.connections += 1
        self.missed = self.missed.plus(connection.missing)
        self.by_connection.pop(connection.number, None)

    def add(self, streams: Sequence[Stream], judge: Judge) -> None:
        """Count streams that are about to be forgotten."""
        for stream in streams:
            verdict = judge.verdict(stream)
            self.kinds[verdict.kind.value] += 1
            self.by_connection.setdefault(stream.connection.number, Counter())[verdict.kind.value] += 1
            self.troubled[verdict.kind.value] += verdict.trouble
            self.rollbacks += stream.requests.count(ROLLBACK)
