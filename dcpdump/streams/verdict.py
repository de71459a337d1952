"""Verdicts: what became of a stream, in words, as far as the capture tells. What it does not tell is unknown."""

from collections import Counter
from enum import Enum
from functools import cache, partial
from typing import NamedTuple

from dcpdump.streams.ledger import Ledger
from dcpdump.streams.refusal import cause
from dcpdump.streams.spoken import clock, reason, seqno, span, status, times
from dcpdump.streams.standing import State, standing, why_blocked
from dcpdump.streams.state import NEVER, ROLLBACK, SUCCESS, TAKEOVER, Connection, Request, Stream

#: A stream that brings nothing for so long is looked at twice.
IDLE_NS = 10 * 1_000_000_000
#: Being blocked is a state only if it lasts: a full window is what a busy stream has again and again.
BLOCKED_NS = 1_000_000_000
#: As many equal rollbacks in a row as make a loop, and one more.
LOOP = 3
_OK, _CLOSED = 0, 1
_ACTIVE = 1
_ACKNOWLEDGE = 0x08


class Kind(Enum):
    """What became of a stream, in a word or two."""

    FLOWING = "open and flowing"
    QUIET = "quiet"
    STUCK = "stuck"
    BLOCKED = "blocked by flow control"
    ASKED = "asked for"
    ROLLED_BACK = "rolled back"
    REFUSED = "refused"
    ENDED = "ended"
    TAKEN_OVER = "taken over"
    UNKNOWN = "unknown"


class Verdict(NamedTuple):
    """What became of a stream, and why that is known. ``trouble``: somebody should look at it."""

    kind: Kind
    why: str
    trouble: bool = False

    @property
    def text(self) -> str:
        """The verdict as a phrase: ``ended (StateChanged (2); abandoned)``."""
        return f"{self.kind.value} ({self.why})" if self.why else self.kind.value


class Judge:
    """It judges the streams of a ledger that is closed."""

    def __init__(self, ledger: Ledger, idle_ns: int = IDLE_NS) -> None:
        self.ledger = ledger
        self._idle_ns = idle_ns
        self._now = ledger.last_ns
        self._standing = cache(partial(standing, now_ns=self._now))
        self._by_client: dict[tuple[str, int, int], list[Stream]] = {}
        for stream in ledger.streams:
            self._by_client.setdefault(self._client(stream), []).append(stream)

    def verdict(self, stream: Stream) -> Verdict:
        """It gives the verdict on a stream, with what happened to its requests before it was granted."""
        found = self._verdict(stream)
        earlier = _earlier(stream) if stream.granted else ""
        return found._replace(why="; ".join(filter(None, (found.why, earlier)))) if earlier else found

    def _verdict(self, stream: Stream) -> Verdict:
        if stream.end_frame is not None:
            return self._ended(stream)
        if stream.closed_ns is not None:
            why = f"closed by its consumer at {clock(stream.closed_ns)}"
            return self._left(stream, why, stream.closed_ns, expected=True)
        if stream.replaced:
            return Verdict(Kind.ENDED, "another was granted in its place; no STREAM_END was witnessed; reopened")
        if stream.requests and not stream.granted and not stream.counts_any:
            return self._not_granted(stream, stream.requests[-1])
        if stream.next is not None:
            lost = stream.connection.lossy
            return Verdict(Kind.UNKNOWN, "another follows it; its end was not witnessed" + ", bytes were lost" * lost)
        return self._open(stream)

    # -- ended -------------------------------------------------------------------------------------------

    def _ended(self, stream: Stream) -> Verdict:
        request, code = stream.request, stream.end_status
        why = f"{reason(code)} at {clock(stream.ended_ns)}"
        if stream.flags & TAKEOVER and code == _OK:
            active = [each for each in stream.states if each.state == _ACTIVE]
            if active:
                return Verdict(
                    Kind.TAKEN_OVER, f"vbucket {stream.vbucket} is active there since {clock(active[0].ts_ns)}"
                )
        if code == _OK and request is not None and request.start_seqno is not None and request.end_seqno is not None:
            if stream.high_seqno is None and request.end_seqno <= request.start_seqno:
                end, start = seqno(request.end_seqno), seqno(request.start_seqno)
                why += f" after 0 items: end seqno {end} is not above the start, {start}"
            elif request.end_seqno != NEVER and stream.high_seqno is not None:
                why += f", seqno {stream.high_seqno} of {request.end_seqno} reached"
        return self._left(stream, why, stream.ended_ns, expected=code in (_OK, _CLOSED))

    def _left(self, stream: Stream, why: str, ended_ns: int | None, *, expected: bool) -> Verdict:
        """It says whether a stream that is over was asked for again."""
        later = self._later(stream)
        if later is not None:
            place = "" if later.connection is stream.connection else f" on connection {later.connection.number}"
            verb = "reopened" if later.granted or not later.requests else "asked for again"
            return Verdict(Kind.ENDED, f"{why}; {verb}{place} at {clock(later.first_ns)}")
        if expected:
            return Verdict(Kind.ENDED, why)
        lost = self._lost_since(stream.connection, ended_ns)
        if lost:
            return Verdict(Kind.ENDED, f"{why}; whether it was reopened is unknown: {lost}", True)
        left = self._since(ended_ns)
        if left is None or left < BLOCKED_NS:
            return Verdict(Kind.ENDED, f"{why}; not reopened before the capture ends, {span(left)} later", True)
        return Verdict(Kind.ENDED, f"{why}; abandoned: not asked for again in {span(left)}", True)

    def _later(self, stream: Stream) -> Stream | None:
        if stream.next is not None:
            return stream.next
        mates = self._by_client[self._client(stream)]
        return next(
            (mate for mate in mates[mates.index(stream) + 1 :] if mate.connection is not stream.connection), None
        )

    # -- not granted -------------------------------------------------------------------------------------

    def _not_granted(self, stream: Stream, request: Request) -> Verdict:
        connection = stream.connection
        if request.status is None:
            lost = self._lost_since(connection, request.ts_ns)
            if lost:
                return Verdict(Kind.UNKNOWN, f"no answer to its request was witnessed: {lost}")
            left = self._since(request.ts_ns)
            if connection.ended_ns is not None:
                return Verdict(Kind.ENDED, f"{_closing(connection)} before it was answered", True)
            if left is not None and left >= self._idle_ns:
                return Verdict(Kind.STUCK, f"asked for at {clock(request.ts_ns)}, no answer in {span(left)}", True)
            return Verdict(Kind.ASKED, f"at {clock(request.ts_ns)}, not answered yet")
        later = self._later(stream)
        again = f"; asked for again on connection {later.connection.number}" if later is not None else ""
        if request.status == ROLLBACK:
            equal = [each for each in stream.rollbacks if each.rollback_seqno == request.rollback_seqno]
            to = f"to {seqno(request.rollback_seqno)}"
            if len(equal) > LOOP:
                lasted = _between(equal[0].ts_ns, equal[-1].answered_ns)
                return Verdict(Kind.ROLLED_BACK, f"{to}, {times(len(equal))} in {span(lasted)}: a loop{again}", True)
            retried = f", retried {times(len(stream.requests) - 1)}" if len(stream.requests) > 1 else ""
            return Verdict(Kind.ROLLED_BACK, f"{to}{retried}{again or '; not asked for again'}", not again)
        why = f"{status(request.status)}: {cause(request, stream)}"
        return Verdict(Kind.REFUSED, f"{why}{again or self._silence(request)}", not again)

    def _silence(self, request: Request) -> str:
        left = self._since(request.answered_ns)
        return "; not asked for again" if left is not None and left >= BLOCKED_NS else ""

    # -- open --------------------------------------------------------------------------------------------

    def _open(self, stream: Stream) -> Verdict:
        connection = stream.connection
        if stream.flags & TAKEOVER and any(each.state == _ACTIVE for each in stream.states):
            return Verdict(Kind.TAKEN_OVER, "no STREAM_END was witnessed")
        if connection.ended_ns is not None and (stream.last_ns is None or stream.last_ns <= connection.ended_ns):
            by_client = connection.server is not None and connection.ended_by != connection.server
            why = f"{_closing(connection)}, no STREAM_END"
            return self._left(stream, why, connection.ended_ns, expected=by_client and connection.end_reason == "fin")
        idle = self._since(stream.last_ns)
        held = self._standing(connection)
        if held.state is State.BLOCKED and (self._since(held.since_ns) or 0) >= BLOCKED_NS:
            return Verdict(Kind.BLOCKED, why_blocked(connection.window, held), True)
        if idle is None or idle < self._idle_ns:
            if not stream.counts_any:
                return Verdict(Kind.QUIET, f"nothing came since it was granted at {clock(stream.granted_ns)}")
            return Verdict(Kind.FLOWING, "" if stream.requests else "since before the capture")
        return self._idle(stream, idle)

    def _idle(self, stream: Stream, idle: int) -> Verdict:
        lost = self._lost_since(stream.connection, stream.last_ns)
        if lost:
            return Verdict(Kind.UNKNOWN, f"nothing for {span(idle)}, but {lost}")
        due = self._due(stream)
        if due:
            return Verdict(Kind.STUCK, f"{due}, for {span(idle)}", True)
        if stream.snapshot is None and not stream.witnessed:
            return Verdict(Kind.UNKNOWN, f"nothing for {span(idle)}; its snapshot marker was not witnessed")
        if stream.snapshot is None and stream.epoch and stream.counts_any:
            return Verdict(Kind.UNKNOWN, f"nothing for {span(idle)}; bytes were lost since its snapshot marker")
        return Verdict(Kind.QUIET, f"nothing for {span(idle)}{self._quietness(stream)}")

    def _due(self, stream: Stream) -> str:
        """It says what has to come next, if anything must."""
        request, snapshot, last = stream.request, stream.snapshot, stream.high_seqno
        if stream.oso:
            return "in the middle of an out-of-order snapshot"
        if stream.states and stream.state_acks < len(stream.states):
            return "waits for the answer to SET_VBUCKET_STATE"
        end = request.end_seqno if request is not None else None
        if end is not None and last is not None and stream.witnessed and last >= end:
            return f"end seqno {end} is reached, no STREAM_END"
        if snapshot is None or not stream.ordered:
            return ""
        if snapshot.items == 0 or last is None or last < snapshot.end:
            here = "nothing of it came" if not snapshot.items else f"at seqno {last}"
            return f"in the middle of snapshot {snapshot.start}..{snapshot.end}, {here}"
        if snapshot.flags & _ACKNOWLEDGE and not snapshot.acked:
            return f"waits for the acknowledgement of snapshot {snapshot.start}..{snapshot.end}"
        told = self._high(stream)
        if told is not None and stream.connection.has_collections and not (request and request.filtered):
            high, ts_ns = told
            since = self._since(ts_ns)
            later = ts_ns is not None and stream.last_ns is not None and ts_ns >= stream.last_ns
            if last < high and later and since is not None and since >= self._idle_ns:
                return f"at seqno {last}, the server's high seqno is {high} since {clock(ts_ns)}"
        return ""

    def _quietness(self, stream: Stream) -> str:
        """It tells what speaks for a stream being quiet, and not stuck."""
        connection, words = stream.connection, []
        told = self._high(stream)
        if told is not None and stream.high_seqno is not None:
            ours = "= ours" if told[0] == stream.high_seqno else f"ours {stream.high_seqno}"
            words.append(f"server's high seqno {told[0]} {ours}")
        elif stream.snapshot is not None:
            words.append(f"all of snapshot {stream.snapshot.start}..{stream.snapshot.end} came")
        noops = connection.noops
        if noops.open_ns is not None and (self._since(noops.open_ns) or 0) >= self._idle_ns:
            words.append(f"a NOOP waits for its answer since {clock(noops.open_ns)}")
        elif noops.answered:
            words.append("NOOPs are answered")
        if self._standing(connection).state is State.OPEN:
            words.append("flow control is not blocked")
        return "".join(f"; {word}" for word in words)

    # -- facts -------------------------------------------------------------------------------------------

    def _high(self, stream: Stream) -> tuple[int, int | None] | None:
        high = self.ledger.logs.high(stream.connection, stream.vbucket)
        return None if high is None else (high.seqno, high.ts_ns)

    def _client(self, stream: Stream) -> tuple[str, int, int]:
        connection = stream.connection
        client = connection.name or connection.client_host
        return client, stream.vbucket, stream.stream_id

    def _since(self, ts_ns: int | None) -> int | None:
        return None if ts_ns is None or self._now is None else self._now - ts_ns

    def _lost_since(self, connection: Connection, ts_ns: int | None) -> str:
        """It tells of bytes that were lost after a time, in either direction, or that one was not captured at all."""
        if not all(connection.frames):
            return "only one direction of the connection was captured"
        when = [ns for ns, count in zip(connection.lost_ns, connection.losses, strict=True) if count]
        if any(ns is None or ts_ns is None or ns >= ts_ns for ns in when):
            return f"{sum(connection.lost_bytes)} bytes of the connection were lost or skipped"
        return ""


def _earlier(stream: Stream) -> str:
    """It tells what requests came to before the one that was granted."""
    words = []
    rollbacks = Counter(request.rollback_seqno for request in stream.rollbacks)
    for target, count in rollbacks.items():
        words.append(f"rolled back to {seqno(target)} before" + (f", {times(count)}" if count > 1 else ""))
    refused = Counter(r.status for r in stream.requests if r.status not in (None, SUCCESS, ROLLBACK))
    words += [f"refused before: {status(code)}" for code in refused]
    return "; ".join(words)


def _closing(connection: Connection) -> str:
    who = "its client" if connection.ended_by != connection.server else "its server"
    who = who if connection.server is not None else "one side"
    how = {"rst": "reset", "reused": "replaced"}.get(connection.end_reason, "closed")
    return f"connection {how} by {who} at {clock(connection.ended_ns)}"


def _between(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else last - first
