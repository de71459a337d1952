"""RuleEngine: events in, findings out. The rules judge each frame before the ledger learns it."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.evidence import Found, PendingEvidence
from dcpdump.check.finding import Finding, unmarked
from dcpdump.check.meaning import is_astray
from dcpdump.check.rule import (
    EVENTS,
    RESPONSE,
    SUSPENSIONS,
    Broken,
    Delayed,
    Event,
    Judge,
    Remark,
    Rule,
    Scope,
    Severity,
    Suspend,
)
from dcpdump.check.rules import RULES
from dcpdump.record import Record
from dcpdump.spec import MESSAGES
from dcpdump.spec.header import ALT_CLIENT_REQUEST
from dcpdump.spec.names import DUPLICATES, HISTORY, JSON
from dcpdump.streams.clients import Clients
from dcpdump.streams.frame_event import HIDDEN, Before, DocumentRun, FrameEvent, Step, event_of, kept, stream_key
from dcpdump.streams.knowledge import CARVED
from dcpdump.streams.learning import last_message, snapshot_of
from dcpdump.streams.ledger import Ledger, find_place, simply
from dcpdump.streams.opcode_kinds import (
    CLOSE_STREAM,
    DELETION,
    FAILOVER_LOG,
    FAILOVER_LOG_OLD,
    MARKER,
    MUTATION,
    SEQNO_ACK,
    STREAM_END,
    STREAM_REQ,
    STREAMED,
)
from dcpdump.streams.phases import Phase
from dcpdump.streams.rollbacks import WhyUnknown, explain
from dcpdump.streams.silence import IDLE_TIMEOUT_NS
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.wire.frame import Fault

# -- runner: the rules, asked one after the other, and whether what they say may be a verdict ---------
# Where bytes are missing that a rule's scope covers, or the source may be a replica, which a rule does not judge, what
# it says becomes "unknown"; where one of its other suspensions is in force, it is left out. Verdicts wait until the
# other direction goes on without a loss. No rule affects what another finds.

#: Findings of a connection that wait until the other direction goes on without a loss, at most.
PATIENCE = 1000
#: Requests whose vbucket means something, beside the messages of streams.
_ABOUT_ONE = frozenset({STREAM_REQ, CLOSE_STREAM, FAILOVER_LOG, FAILOVER_LOG_OLD})


_OUT_OF_ORDER = "bytes were acknowledged before they were captured: the order of both directions is not known"
#: What is said of these waits until the other direction continues without a loss.
_WAIT = frozenset({Scope.SINCE, Scope.CONNECTION, Scope.STREAM})


@lru_cache(maxsize=8)
def _by_event(rules: tuple[Rule, ...]) -> tuple[tuple[tuple[Rule, Judge], ...], ...]:
    """Return the rules and their functions by event. A runner may be made for each frame."""
    asked: dict[int, list[Rule]] = defaultdict(list)
    for rule in rules:
        for event in rule.on:
            asked[event].append(rule)
    return tuple(tuple((rule, rule.judge) for rule in asked[event]) for event in range(EVENTS))


class RuleRunner:
    """The rules by event. Ask it at an event; ``taken`` returns what was found."""

    def __init__(self, rules: Iterable[Rule], shown: int | None = None) -> None:
        #: by event, the rules and their functions
        self.on = _by_event(tuple(rules))
        self._shown = shown
        #: by rule and stream: the findings of runs
        self._met: Counter[tuple[str, int, int, int]] = Counter()
        self._judges: dict[tuple[int, ...], tuple[Rule, ...]] = {}
        self._found: list[Finding] = []
        #: by connection, the direction that they wait for, and rule: bytes may be missing that are not missed yet
        self._waiting: dict[tuple[int, int], dict[str, deque[Finding]]] = {}
        #: by stream: how often bytes had been lost, and the rules that said "unknown" since
        self._unknown: dict[Stream, tuple[int, set[str]]] = {}

    def taken(self) -> list[Finding]:
        """Return the findings since the last call."""
        if not self._found:
            return []
        found, self._found = self._found, []
        return found

    def lose(self, connection: ConnectionState, direction: int) -> None:
        """Take it that bytes were lost: what was found while they were missing unnoticed is not a verdict any more."""
        for findings in self._waiting.pop((connection.number, direction), {}).values():
            for finding in findings:
                self._found.append(replace(finding, severity=Severity.UNKNOWN, reason=connection.lost.text))

    def release(self, connection: int, direction: int) -> None:
        """Take it that a direction continues without a loss: what waited for that is a verdict."""
        if self._waiting:
            for findings in self._waiting.pop((connection, direction), {}).values():
                self._found += findings

    def release_all(self) -> None:
        """Take it that nothing more comes."""
        for place in list(self._waiting):
            self.release(*place)

    def forget(self, stream: Stream) -> None:
        """Forget a stream of which nothing more comes."""
        self._unknown.pop(stream, None)

    def ask(
        self,
        event: int,
        frame: FrameEvent,
        connection: ConnectionState,
        stream: Stream,
        delayed: Delayed | None = None,
        now: FrameEvent | None = None,
    ) -> None:
        """Ask the rules of an event about a frame, or what became clear of it. ``now``: the one at hand, if another."""
        for rule, judge in self.on[event]:
            answer = judge(delayed or frame, connection, stream)
            if answer:
                self.add(rule, answer, frame, connection, stream, 1 - (now or frame).direction)

    def judges_of_runs(self, events: tuple[int, ...]) -> tuple[Rule, ...]:
        """Return the rules of events, each once."""
        found = self._judges.get(events)
        if found is None:
            found = tuple(dict.fromkeys(rule for event in events for rule, _ in self.on[event]))
            self._judges[events] = found
        return found

    def add_run(
        self, rule: Rule, broken: Broken, run: DocumentRun, connection: ConnectionState, stream: Stream
    ) -> None:
        """Make findings of the frames of a run that break a rule, and one that counts those that are not shown."""
        place = rule.code, connection.number, stream.vbucket, stream.stream_id
        places, met = broken.places, self._met[place]
        self._met[place] += len(places)
        left = len(places) if self._shown is None else max(0, self._shown - met)
        frames = run.each() if left else []
        for at in places[:left]:
            frame = frames[at]
            self.add(rule, rule.judge(frame, connection, stream), frame, connection, stream, 1 - frame.direction)
        for at in places[left : left + 1]:
            number, vbucket, times = run.first + at, stream.vbucket, len(places) - left
            last = run.first + places[-1]
            counted = Finding(rule, broken.severity, "", connection.number, number, None, vbucket, stream.stream_id)
            self._found.append(replace(counted, times=times, last=last))

    def add(
        self, rule: Rule, answer: object, frame: FrameEvent, connection: ConnectionState, stream: Stream, waits_for: int
    ) -> None:
        """Make findings of what a rule says, unless that is forbidden here.

        ``waits_for``: the direction that has to continue without a loss before they are verdicts.
        """
        if isinstance(answer, str):
            answer = Remark(answer)
        if isinstance(answer, Remark):
            answer = (answer,)
        if not isinstance(answer, (tuple, list)):
            raise TypeError(f"{rule.code} answers with {answer!r}")
        if rule.off and stream.known and not _suspended(stream).isdisjoint(rule.off):
            return
        doubted = Suspend.REPLICA in rule.off and stream.known and stream.may_be_of_replica
        said = None
        for remark in answer:
            scope = remark.scope or rule.scope
            reason = _reason(scope, frame, connection, stream if stream.known else None)
            if not reason and doubted:
                reason = SUSPENSIONS[Suspend.REPLICA]
            if not reason and remark.ordered and connection.window.out_of_order:
                reason = _OUT_OF_ORDER
            if reason:
                said = self._said(rule, stream) if said is None else said
                if said:
                    continue
            at = remark.frame or frame
            finding = Finding(
                rule,
                Severity.UNKNOWN if reason else remark.severity or rule.severity,
                unmarked(remark.message),
                connection.number,
                at.number,
                at.ts_ns,
                _vbucket(at, connection, stream),
                stream.stream_id if stream.known else at.stream_id,
                remark.status or rule.status,
                reason,
                remark.message,
            )
            if reason or scope not in _WAIT:
                self._found.append(finding)
                continue
            waiting = self._waiting.setdefault((connection.number, waits_for), {})
            mine = waiting.setdefault(rule.code, deque())
            mine.append(finding)
            if len(mine) > PATIENCE:
                self._found.append(mine.popleft())

    def _said(self, rule: Rule, stream: Stream) -> bool:
        """Return whether a rule said "unknown" of a stream before, since bytes were lost last; note that it does."""
        if not stream.known:
            return False
        epoch, said = self._unknown.get(stream, (-1, set()))
        losses = stream.connection.losses
        if epoch != losses:
            said = set()
            self._unknown[stream] = losses, said
        if rule.code in said:
            return True
        said.add(rule.code)
        return False


def _suspended(stream: Stream) -> set[Suspend]:
    """Return the suspensions that are in force, other than missing bytes and what may be a replica."""
    found = set()
    marker = stream.marker
    if stream.oso:
        found.add(Suspend.OUT_OF_ORDER)
    if marker is not None and marker.flags & (HISTORY | DUPLICATES):
        found.add(Suspend.HISTORY)
    if stream.filtered is not False:
        found.add(Suspend.FILTER)
    if stream.phase is Phase.CACHE_TRANSFER and marker is None:
        found.add(Suspend.CACHE_TRANSFER)
    return found


def _reason(scope: Scope, frame: FrameEvent, connection: ConnectionState, stream: Stream | None) -> str:
    """Return why there is no verdict; nothing where there may be one."""
    if frame.weak:
        return CARVED if connection.carved else "the frame was found on weak evidence after a loss"
    if scope is Scope.FRAME:
        return ""
    if scope is Scope.SINCE:
        return connection.lost.text if connection.torn else ""
    if scope is Scope.CONNECTION or stream is None:
        if connection.late:
            return "the start of the connection was not captured"
        return connection.lost.text if connection.torn else ""
    if scope is Scope.SNAPSHOT:
        if not stream.needs_marker:
            return ""
    elif not stream.doubtful:
        return ""
    return stream.knowledge.reason or (connection.lost.text if stream.lost else SUSPENSIONS[Suspend.START])


def _vbucket(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> int | None:
    """Return the vbucket that a finding is about; None where it is about the connection."""
    if stream.known:
        return stream.vbucket
    if frame.response:
        if frame.opcode not in _ABOUT_ONE:
            return None
        waiting = connection.exchanges.asked(frame)
        return waiting.frame.word if waiting is not None else None if frame.record is None else frame.record.vbucket
    return frame.word if frame.opcode in STREAMED or frame.opcode in (STREAM_REQ, CLOSE_STREAM, SEQNO_ACK) else None


# -- at the end ---------------------------------------------------------------------------------------
# What becomes clear of a stream once it is over, as all was captured that may explain it.


class AtEnd:
    """What becomes clear of the streams of a ledger that is closed, or whose streams were concluded."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._clients = ledger, Clients(ledger)

    def of(self, stream: Stream) -> Iterator[Found]:
        """Yield what becomes clear of a stream."""
        yield from self._sent_back(stream)
        skip = self._clients.skip(stream)
        if skip is not None:
            request = skip.request
            yield Event.SKIPPED_CHANGES, Delayed(_place(stream, request.frame, request.ts_ns), stream, skip=skip)

    def _sent_back(self, stream: Stream) -> Iterator[Found]:
        """Yield rollbacks that are wrong; of equal ones, the first that certainly answers its request.

        A rollback above the start of its request is wrong without further evidence.
        """
        seen = set()
        for request in stream.requests.rolled_back:
            numbers, back = request.rollback, request.rollback_seqno
            if back is None or numbers in seen or request.begins_below(back):
                continue
            found = explain(request, stream, self._ledger)
            if found.cause is not WhyUnknown.REQUEST:
                seen.add(numbers)
            if found.wrong is not None:
                answer = _place(stream, request.answer_frame, request.answered_ns)
                yield Event.SENT_BACK, Delayed(answer, stream, amount=back, explanation=found)


def _place(stream: Stream, number: int | None, ts_ns: int | None) -> FrameEvent:
    """Return the place of a frame that is about a stream."""
    return last_message(stream)._replace(number=number or 0, ts_ns=ts_ns)


#: Frames between two looks at what waits on the connection at hand.
TICKS = 64
_REPLIES = frozenset(opcode for opcode, message in MESSAGES.items() if message.known and message.replies)
_DCP = frozenset(opcode for opcode, message in MESSAGES.items() if message.dcp)


class RuleEngine:
    """Feed it events and runs, in order; it feeds the ledger, and returns the findings that each of them brings."""

    def __init__(
        self, rules: Iterable[Rule] = RULES, ledger: Ledger | None = None, *, shown: int | None = None
    ) -> None:
        """``shown``: how many findings of a rule and stream are returned; further ones in runs may only be counted."""
        self.ledger = ledger if ledger is not None else Ledger(with_rules=True)
        self._runner = runner = RuleRunner(rules, shown)
        self._ask = runner.ask
        self._evidence: dict[int, PendingEvidence] = {}
        self._last: dict[int, FrameEvent] = {}  # by connection: the last frame that is no message of a stream
        self.streams = 0  #: that were looked at, once the input is over
        self.partly = 0  #: connections and streams that were not captured whole

    def feed(self, frame: FrameEvent) -> list[Finding]:
        """Take the next frame."""
        runner, ledger = self._runner, self.ledger
        before = ledger.connections.get(frame.connection)
        if before is not None:
            self._ask_before(frame, before)
        connection = ledger.arrive(frame)
        evidence = self._evidence_of(connection)
        if frame.gap_before or not frame.whole:
            evidence.lose()
            runner.lose(connection, frame.direction)
            frame = frame._replace(before=None)
        if not frame.whole:
            if frame.shape is HIDDEN:
                self._ask(Event.DECODED, frame, connection, connection.no_stream)
            ledger.learn_placed(connection, frame)
            return runner.taken()
        runner.release(connection.number, frame.direction)
        if frame.record is not None and runner.on[Event.DECODED]:
            self._ask(Event.DECODED, frame, connection, connection.no_stream)
        if frame.magic == ALT_CLIENT_REQUEST:
            self._ask(Event.FRAMED, frame, connection, connection.no_stream)
        if not frame.number % TICKS:
            self._look(frame, connection, evidence)
        if frame.server:
            if frame.record is None:  # else it was asked for as decoded
                self._ask(Event.PUSH, frame, connection, connection.no_stream)
        elif frame.response:
            self._answer(frame, connection)
        elif ledger.is_message(connection, frame):
            self._message(frame, connection)
        else:
            self._request(frame, connection, evidence)
        return runner.taken()

    def feed_step(self, step: Step) -> list[Finding]:
        """Take the next frame, or documents that follow one another."""
        return self.feed_run(step) if isinstance(step, DocumentRun) else self.feed(step)

    def feed_run(self, run: DocumentRun) -> list[Finding]:
        """Take documents of one stream. Unless they are clearly its next and healthy, they are taken one by one."""
        connection, close = self.ledger.connections.get(run.connection), run.close
        stream = None if connection is None else connection.lookup.current.get(stream_key(run.word, run.stream_id))
        broken = None
        if connection is not None and stream is not None and close is not None:
            broken = self._broken(run, close, connection, stream)
        if connection is None or stream is None or broken is None:
            return [finding for frame in run.each() for finding in self.feed(frame)]
        self._runner.release(connection.number, run.direction)
        for rule, those in broken:
            self._runner.add_run(rule, those, run, connection, stream)
        if connection.window.needs_each(run.size):
            self.ledger.feed_run(run)
        else:
            self.ledger.learn_run(connection, run, stream)
        return self._runner.taken()

    def lose(self, connection: int, direction: int, before: Before, ts_ns: int | None = None) -> None:
        """Take it that bytes were lost and that no frame followed."""
        known = self.ledger.connections.get(connection)
        if known is not None:
            self.ledger.lose(connection, direction, before, ts_ns)
            self._evidence_of(known).lose()
            self._runner.lose(known, direction)

    def close(self, *, alone: bool | None = None) -> list[Finding]:
        """End the input.

        ``alone``: it is one capture, so that its end is the end of all that had not ended before. Of several, each may
        be of another place, and says nothing about the others. None: nothing is known beyond the last frames.
        """
        if alone is not None:
            self.ledger.alone = alone
        at_end = AtEnd(self.ledger)
        for connection in self.ledger.connections.values():
            self._close(connection, at_end, alone)
        self._runner.release_all()
        return self._runner.taken()

    def evict(self, connection: ConnectionState) -> list[Finding]:
        """End a connection, of which nothing more comes, and forget it; the ledger does not."""
        self._close(connection, AtEnd(self.ledger), alone=True)
        number = connection.number
        for direction in (0, 1):
            self._runner.release(number, direction)
        self._evidence.pop(number, None)
        self._last.pop(number, None)
        return self._runner.taken()

    def evict_streams(self, streams: Iterable[Stream]) -> list[Finding]:
        """End streams that are over, and forget them; the ledger does not."""
        at_end = AtEnd(self.ledger)
        for stream in streams:
            self._finish(stream, at_end)
            self._runner.forget(stream)
        return self._runner.taken()

    def _finish(self, stream: Stream, at_end: AtEnd) -> None:
        """Count a stream of which nothing more comes, and ask about it."""
        self.streams += 1
        for event, delayed in at_end.of(stream):
            self._ask(event, delayed.frame, stream.connection, delayed.stream, delayed)
        if stream.granted or stream.traffic.last_frame:
            self.partly += stream.doubtful
            if stream.end is None:
                self._done(last_message(stream), stream.connection, stream)

    def _close(self, connection: ConnectionState, at_end: AtEnd, alone: bool | None) -> None:
        connection.end.over = True
        if alone is not None:
            connection.end.gone = connection.end.by is not None
            until_ns = connection.end.ts_ns if connection.end.gone or not alone else self.ledger.last_ns
            if until_ns is not None and connection.last_ns is not None:
                connection.end.until_ns = max(connection.last_ns, until_ns)
        self.partly += connection.doubtful
        for stream in connection.streams:
            self._finish(stream, at_end)
        last = self._last.get(connection.number)
        if last is not None:
            self._look(last, connection, self._evidence_of(connection))
            self._ask(Event.CLOSING, last, connection, connection.no_stream)
        connection.unlink()

    def _evidence_of(self, connection: ConnectionState) -> PendingEvidence:
        evidence = self._evidence.get(connection.number)
        if evidence is None:
            evidence = self._evidence[connection.number] = PendingEvidence(connection)
        return evidence

    def _ask_before(self, frame: FrameEvent, connection: ConnectionState) -> None:
        """Ask about what lies between a frame and the one before it."""
        if frame.before is not None and frame.before.skipped and connection.sides[frame.direction].frames:
            self._ask(Event.SKIPPED, frame, connection, connection.no_stream)
        latest_ns = connection.sides[frame.direction].latest_ns
        if latest_ns is not None and frame.ts_ns is not None and frame.ts_ns - latest_ns > IDLE_TIMEOUT_NS:
            self._ask(Event.SILENCE, frame, connection, connection.no_stream)

    def _look(self, frame: FrameEvent, connection: ConnectionState, evidence: PendingEvidence) -> None:
        for event, delayed in evidence.look(frame):
            self._ask(event, delayed.frame, connection, delayed.stream, delayed, frame)

    def _broken(
        self, run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream
    ) -> list[tuple[Rule, Broken]] | None:
        """Return which rules a run breaks that just continues its stream; None where it may be more than that."""
        before, found = connection.sides[run.direction].latest_ns, []
        if before is None or run.first_ns - before > IDLE_TIMEOUT_NS or run.pause_ns > IDLE_TIMEOUT_NS:
            return None
        if run.direction != connection.producer_direction or not stream.continues_with(run.opaque):
            return None
        if stream.is_behind(run.direction):
            return None
        if (run.first - 1) // TICKS != (run.first + run.frames - 1) // TICKS and not self._evidence_of(
            connection
        ).is_quiet(run):
            return None
        for rule in self._runner.judges_of_runs(_events(run, close, connection, stream)):
            spared = rule.can_skip_run is not None and rule.can_skip_run(run, close, connection, stream)
            if isinstance(spared, Broken):
                found.append((rule, spared))
            elif not spared:
                return None
        return found

    def _done(self, frame: FrameEvent, connection: ConnectionState, stream: Stream) -> None:
        """Ask about a stream that is over."""
        self._ask(Event.STREAM_DONE, frame, connection, stream)
        self._evidence_of(connection).finish(stream)

    # -- messages of a stream ---------------------------------------------------------------------------

    def _message(self, frame: FrameEvent, connection: ConnectionState) -> None:
        ledger = self.ledger
        stream = simply(connection, frame)
        if stream is None:
            place = find_place(connection, frame)
            if place.stray is not None:
                self._ask(Event.STRAY, frame, connection, place.stray)
            stream = ledger.begin(connection, frame) if place.begins else place.stream
            if stream is not None:
                ledger.notice(frame, stream)
                if place.outside:
                    self._ask(Event.OUTSIDE, frame, connection, stream)
            if stream is None or (stream.end is not None and not stream.needs_marker):
                ledger.learn_message(connection, frame, stream)
                return
        opcode = frame.opcode
        if opcode == MARKER:
            connection.incoming = snapshot_of(frame)
        self._ask_message(frame, connection, stream)
        ledger.learn_message(connection, frame, stream)
        if opcode == STREAM_END:
            self._done(frame, connection, stream)

    def _ask_message(self, frame: FrameEvent, connection: ConnectionState, stream: Stream) -> None:
        """Ask about a message of a stream. Nearly all frames come here."""
        runner = self._runner
        for event in _events_of(frame, connection, stream):
            for rule, judge in runner.on[event]:
                answer = judge(frame, connection, stream)
                if answer:
                    runner.add(rule, answer, frame, connection, stream, 1 - frame.direction)

    # -- everything else --------------------------------------------------------------------------------

    def _request(self, frame: FrameEvent, connection: ConnectionState, evidence: PendingEvidence) -> None:
        opcode = frame.opcode
        stream = connection.no_stream
        if opcode in _DCP and is_astray(frame, connection):
            self._ask(Event.ASTRAY, frame, connection, stream)
            self.ledger.learn(connection, frame)
            return
        if opcode == SEQNO_ACK:
            stream = connection.stream_of(frame) or connection.lookup.by_opaque.get(frame.opaque) or stream
            evidence.acknowledge_seqno(frame, stream)
        self._ask(opcode, frame, connection, stream)
        if opcode in _REPLIES:
            self._ask(Event.ASKED, frame, connection, connection.no_stream)
        self.ledger.learn(connection, frame)
        self._last[connection.number] = kept(frame)

    def _answer(self, frame: FrameEvent, connection: ConnectionState) -> None:
        opcode = frame.opcode
        stream = connection.lookup.by_opaque.get(frame.opaque) if opcode in STREAMED else None
        if stream is None or connection.lookup.shares(frame.opaque):
            stream = connection.no_stream
        self._ask(opcode | RESPONSE, frame, connection, stream)
        if opcode == STREAM_REQ and not frame.word:
            self._replace(frame, connection)
        self.ledger.learn(connection, frame)
        self._last[connection.number] = kept(frame)

    def _replace(self, frame: FrameEvent, connection: ConnectionState) -> None:
        """Ask about the stream whose place one takes that is granted now."""
        waiting = connection.exchanges.asked(frame)
        before = None if waiting is None or waiting.request is None else waiting.request.still_open
        if before is not None and before.end is None:
            self._done(last_message(before), connection, before)


def _events_of(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> list[int]:
    """Return the events that a message of a stream is, or another request."""
    events = [frame.opcode]
    if connection.window.size is not None:
        events.append(Event.COUNTED)
    if frame.seqno is not None:
        if frame.datatype:
            events.append(Event.MARKED)
            if frame.datatype != JSON:
                events.append(Event.PACKED)
        if not stream.seqnos.since_marker:
            events.append(Event.FIRST)
        if not frame.seqno:
            events.append(Event.ZERO)
        if stream.oso:
            events.append(Event.DISORDERED)
    return events


def _events(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> tuple[int, ...]:
    """Return the events of a run, as those of its messages."""
    events = [MUTATION, Event.MARKED]
    if close.forms:
        events.append(DELETION)
    if connection.window.size is not None:
        events.append(Event.COUNTED)
    if close.packed:
        events.append(Event.PACKED)
    if not stream.seqnos.since_marker:
        events.append(Event.FIRST)
    if run.stream_id:
        events.append(Event.FRAMED)
    return tuple(events)


# -- alone --------------------------------------------------------------------------------------------
# What the rules say of one frame of which nothing else is known. It reads no capture, and starts fast.

#: Where bytes are missing or lengths contradict them, fields are not where a rule reads them.
_UNREADABLE = frozenset({Fault.LENGTHS_CONTRADICT, Fault.CUT, Fault.LOST})


def judge(record: Record) -> list[Finding]:
    """Return the verdicts on a frame that need no other: what would take context is left out."""
    understood = record.frame
    if len(understood.raw.data) != understood.header.frame_length or any(
        each.code in _UNREADABLE for each in understood.problems
    ):
        return []
    frame = event_of(record)
    runner, connection = RuleRunner(RULES), ConnectionState(0, with_rules=True)
    if frame.opcode == MARKER and not frame.response:
        connection.incoming = snapshot_of(frame)
    events = [Event.DECODED, *[Event.FRAMED] * (frame.magic == ALT_CLIENT_REQUEST)]
    if frame.server:
        events.append(Event.PUSH)
    elif frame.response:
        events.append(frame.opcode | RESPONSE)
    else:
        events += _events_of(frame, connection, connection.no_stream)
    for event in events:
        runner.ask(event, frame, connection, connection.no_stream)
    return list(dict.fromkeys(finding for finding in runner.taken() if not finding.reason))
