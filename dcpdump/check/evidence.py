"""Find what becomes certain only some time after a frame: that a response is missing, that nothing explains the frame.

The two directions of a connection may be captured out of order, so a frame that seems wrong is examined again a little
later. Each result is an event, which the rules judge, and comes once.
"""

from collections import deque
from collections.abc import Iterator

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Delayed, Event, Rule
from dcpdump.spec import find
from dcpdump.startup import dataclass, field
from dcpdump.streams.clients import Clients
from dcpdump.streams.exchanges import UnansweredRequest
from dcpdump.streams.flow import stalled_since
from dcpdump.streams.frame_event import DocumentRun, FrameEvent, between, identity_of
from dcpdump.streams.learning import last_message
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.opcode_kinds import CONTROL, HELLO, MARKER, NOOP, OPEN, STREAM_REQ
from dcpdump.streams.rollbacks import WhyUnknown, explain
from dcpdump.streams.silence import held_until, missing_noops
from dcpdump.streams.state import SECOND, ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.window import is_settled

_SLOW, _SOON = 30 * SECOND, SECOND
_STALL, _LAG = 60 * SECOND, 10 * SECOND
#: Frames that a consumer sends without answering a NOOP: then it is not merely silent.
_SPOKE = 8
#: Frames that are looked at again, at most, of one kind and connection.
_MOST = 1024
#: Requests of these kinds are answered in the order in which they were sent.
_SAME_ORDER = frozenset({STREAM_REQ, CONTROL, NOOP, OPEN, HELLO})


@dataclass(slots=True, eq=False)
class PendingEvidence:
    """The open questions of one connection."""

    connection: ConnectionState
    last: FrameEvent | None = None  #: the last frame that is no message of a stream
    #: by the direction that they wait for, and rule: bytes may be missing that are not missed yet
    waiting: dict[int, dict[str, deque[Finding]]] = field(default_factory=dict)
    #: by stream: how often bytes had been lost, and the rules that said "unknown" since
    unknown: dict[Stream, tuple[int, set[str]]] = field(default_factory=dict)
    _early_acks: list[tuple[Delayed, int]] = field(default_factory=list)  #: and how many frames had come
    _ended: list[Stream] = field(default_factory=list)
    _lags: list[Delayed] = field(default_factory=list)
    _stalled_ns: int = 0
    _noop_missed_ns: int = 0

    def lose(self) -> None:
        """Note that bytes were lost: they may have held the answers to open questions."""
        self._early_acks.clear()
        self._ended.clear()

    def said_unknown(self, rule: Rule, stream: Stream) -> bool:
        """Return whether a rule said "unknown" of a stream before, since bytes were lost last; note that it does."""
        losses = self.connection.losses
        if not stream.known:
            return False
        if stream not in self.unknown or self.unknown[stream][0] != losses:
            self.unknown[stream] = losses, set()
        said = self.unknown[stream][1]
        before = rule.code in said
        said.add(rule.code)
        return before

    def acknowledge_seqno(self, frame: FrameEvent, stream: Stream) -> None:
        """Note a SEQNO_ACKNOWLEDGED, before the ledger learns it."""
        seqno = frame.get("prepared_seqno")
        if seqno is not None:
            self._lag(stream, seqno, frame.ts_ns, acknowledged=True)
        beyond = seqno is not None and stream.known and not stream.doubtful and seqno > stream.seqnos.reached
        if (beyond or not self.connection.setup.sync_replication) and len(self._early_acks) < _MOST:
            early = Delayed(Event.AHEAD, identity_of(frame), stream, amount=seqno or 0)
            self._early_acks.append((early, self.connection.frames))

    def finish(self, stream: Stream) -> None:
        """Note that a stream has ended."""
        ended_ns = self.connection.now_ns if stream.ended_ns is None else stream.ended_ns
        self._lag(stream, stream.seqnos.reached, ended_ns, acknowledged=False)
        if stream.acks.due or stream.acks.early:
            self._ended.append(stream)

    def look(self, frame: FrameEvent) -> Iterator[Delayed]:
        """Yield the questions decided by now. ``frame``: the current frame."""
        connection = self.connection
        yield from self._unrequested()
        if connection.now_ns is not None:
            yield from self._overdue(connection.now_ns)
            yield from self._stalls(frame, connection.now_ns)
            yield from self._noops_missing(frame)
        while self._lags:
            yield self._lags.pop(0)
        yield from self._beyond()
        yield from self._acknowledgements(frame)

    def is_quiet(self, run: DocumentRun) -> bool:
        """Return whether documents that continue a stream cannot decide any question; False when in doubt."""
        connection, exchanges = self.connection, self.connection.exchanges
        if exchanges.earlier or exchanges.unasked or connection.window.has_overacks or self._early_acks or self._ended:
            return False
        for unjudged in exchanges.unjudged.values():
            oldest = self._oldest(unjudged)
            if oldest is not None and run.last_ns - (oldest.frame.ts_ns or run.last_ns) >= _SOON:
                return False
        window, close = connection.window, run.close
        since = max(window.last_ack_ns or 0, window.last_sent_ns or 0)
        if run.first_ns - since > _STALL or close is None or run.pause_ns > _STALL:
            return False
        return missing_noops(connection, run.last_ns, sending=True, after_ns=self._noop_missed_ns) is None

    def _is_settled(self, frames: int, then_ns: int | None) -> bool:
        """Return whether no more frames will come that were sent before one captured ``frames`` frames ago."""
        connection = self.connection
        return connection.end.over or is_settled(frames, then_ns, connection.now_ns)

    def _unrequested(self) -> Iterator[Delayed]:
        connection = self.connection
        if connection.end.over:
            connection.exchanges.close()
        for answer in connection.exchanges.pop_unasked(connection.frames, connection.now_ns):
            asked = not connection.opening_missing and (connection.syn or find(answer.opcode).dcp)
            if asked and not connection.lookup.shares(answer.opaque):
                yield Delayed(Event.UNREQUESTED, answer, connection.no_stream)

    def _overdue(self, now_ns: int) -> Iterator[Delayed]:
        """Yield requests that should have been answered by now. Each comes once; its answer may still come.

        Where the requester does not read, TCP lets no answer through. A consumer whose name another takes is gone.
        """
        connection, exchanges = self.connection, self.connection.exchanges
        taken = connection.setup.name_taken
        gone_ns = min(now_ns, now_ns if taken is None or taken.ts_ns is None else taken.ts_ns)
        for kind, unjudged in exchanges.unjudged.items():
            answered = exchanges.answered.get(kind, 0)
            sent, held_ns = connection.sides[1 - kind[0]].frames, held_until(connection, kind[0], now_ns)
            while (waiting := self._oldest(unjudged)) is not None:
                asked = waiting.frame
                waited = (gone_ns if asked.opcode == NOOP else now_ns) - (asked.ts_ns or now_ns)
                later = asked.opcode in _SAME_ORDER and answered > asked.number
                spoke = asked.opcode != NOOP or sent - waiting.frames >= _SPOKE
                certain = connection.end.over or (spoke and not connection.window.out_of_order)
                slow = certain and min(waited, now_ns - held_ns) >= _SLOW
                if waited < _SOON or not (later or slow or connection.end.over):
                    break  # nor are those that were sent after it
                del unjudged[asked.number]
                yield Delayed(Event.OVERDUE, asked, connection.no_stream, waited, proven=later or slow)

    def _oldest(self, unjudged: dict[int, UnansweredRequest]) -> UnansweredRequest | None:
        """Return the oldest request that may be found overdue, and leave out those whose answers may be lost."""
        while unjudged:
            number, waiting = next(iter(unjudged.items()))
            if number > self.connection.lost.frame and not (waiting.doubtful or waiting.unseen):
                return waiting
            del unjudged[number]
        return None

    def _stalls(self, frame: FrameEvent, now_ns: int) -> Iterator[Delayed]:
        """Yield a window that has been full for long; with a relative account, only if the producer is blocked."""
        since = stalled_since(self.connection, now_ns, _STALL + 1)
        if since is not None and since != self._stalled_ns:
            self._stalled_ns = since
            yield Delayed(Event.STALLED, frame, self.connection.no_stream, now_ns - since)

    def _noops_missing(self, frame: FrameEvent) -> Iterator[Delayed]:
        """Yield where NOOPs are missing for longer than two intervals."""
        connection, known_ns = self.connection, self._noop_missed_ns
        missing, proven = missing_noops(connection, connection.sent_ns, sending=True, after_ns=known_ns), True
        if missing is not None:
            self._noop_missed_ns = missing.until_ns
        elif connection.end.over:  # where it sends nothing else either, only the end tells how long it was silent
            until_ns = connection.now_ns if connection.end.ts_ns is None else connection.end.ts_ns
            missing, proven = missing_noops(connection, until_ns), False
        if missing is not None and (proven or (missing.silent and known_ns <= missing.since_ns)):
            interval, waited = missing.interval_ns or 0, missing.lasting_ns
            yield Delayed(Event.NOOPS_MISSING, frame, connection.no_stream, waited, limit=interval, proven=proven)

    def _lag(self, stream: Stream, seqno: int, until_ns: int | None, *, acknowledged: bool) -> None:
        """Note the oldest prepare up to a seqno, if it was acknowledged only at a time, or not even then, that is late.

        Of those that wait at one time, one is enough.
        """
        unacked = stream.prepares.unacked
        first = next(iter(unacked), None)
        replicates = self.connection.controls_known and self.connection.setup.sync_replication
        if first is None or first > seqno or not replicates:
            return
        waited = between(unacked[first].ts_ns, until_ns)
        if waited is not None and waited >= _LAG:
            self._lags.append(Delayed(Event.LAGGING, unacked[first], stream, waited, first, proven=acknowledged))
            unacked.clear()

    def _beyond(self) -> Iterator[Delayed]:
        """Yield acknowledgements of bytes and seqnos that are still not sent."""
        connection = self.connection
        for over in connection.window.pop_overacks(final=connection.end.over):
            if not connection.doubtful:
                yield Delayed(Event.OVERDRAWN, over.frame, connection.no_stream, 0, over.sent + over.excess, over.sent)
        while self._early_acks:
            early, frames = self._early_acks[0]
            if not self._is_settled(connection.frames - frames, early.frame.ts_ns):
                break
            del self._early_acks[0]
            yield early._replace(limit=early.stream.seqnos.reached)

    def _acknowledgements(self, frame: FrameEvent) -> Iterator[Delayed]:
        """Yield snapshots without an acknowledgement, and acknowledgements without a request."""
        connection = self.connection
        while self._ended:
            stream = self._ended[0]
            if not self._is_settled(frame.number - stream.traffic.last_frame, stream.traffic.last_ns):
                break
            del self._ended[0]
            if stream.lost or (stream.opaque is not None and connection.lookup.shares(stream.opaque)):
                continue
            if any(reply.opcode == MARKER for reply in stream.error_replies):
                continue  # the consumer refused a marker: it need not acknowledge that
            more = abs(stream.acks.omitted)
            for at, due in enumerate(stream.acks.due or ()):
                waited = (connection.now_ns or 0) - (due.ts_ns or 0)
                yield Delayed(Event.UNACKNOWLEDGED, due, stream, waited, 0 if at else more)
            for at, extra in enumerate(stream.acks.early or ()):
                yield Delayed(Event.ACK_UNASKED, extra, stream, 0, 0 if at else more)


# -- at the end: what becomes clear of a stream that is over, as all was captured that may explain it -


def at_end(stream: Stream, clients: Clients, ledger: Ledger) -> Iterator[Delayed]:
    """Yield rollbacks that are wrong, and changes that were skipped.

    Of equal rollbacks it is the first that certainly answers its request. One above the start of its request is wrong
    without further evidence.
    """
    seen, last = set(), last_message(stream)
    for request in stream.requests.rolled_back:
        numbers, back = request.rollback, request.rollback_seqno
        if back is None or numbers in seen or request.begins_below(back):
            continue
        found = explain(request, stream, ledger)
        if found.cause is not WhyUnknown.REQUEST:
            seen.add(numbers)
        if found.wrong is not None:
            answer = last._replace(number=request.answer_frame or 0, ts_ns=request.answered_ns)
            yield Delayed(Event.WRONG_ROLLBACK, answer, stream, amount=back, explanation=found)
    skip = clients.skip(stream)
    if skip is not None:
        granted = last._replace(number=skip.request.frame, ts_ns=skip.request.ts_ns)
        yield Delayed(Event.SKIPPED_CHANGES, granted, stream, skip=skip)
