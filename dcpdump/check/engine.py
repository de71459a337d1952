"""RuleEngine: events in, findings out. The rules judge each frame before the ledger learns it."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.evidence import PendingEvidence, at_end
from dcpdump.check.finding import Finding
from dcpdump.check.rule import (
    EVENTS,
    RESPONSE,
    Answer,
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
from dcpdump.spec import MESSAGES, find
from dcpdump.spec.header import ALT_CLIENT_REQUEST
from dcpdump.spec.names import DUPLICATES, HISTORY, JSON
from dcpdump.streams import opcode_kinds as kinds
from dcpdump.streams.causes import CARVED
from dcpdump.streams.clients import Clients
from dcpdump.streams.frame_event import HIDDEN, Before, DocumentRun, FrameEvent, Step, event_of, identity_of
from dcpdump.streams.learning import last_message, snapshot_of
from dcpdump.streams.ledger import Ledger, find_address, simply
from dcpdump.streams.phases import Phase
from dcpdump.streams.silence import IDLE_TIMEOUT_NS
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.wire.frame import Fault

#: Findings of a rule that wait until the other direction goes on without a loss, at most.
PATIENCE = 1000
#: Frames between two looks at what waits on the connection at hand.
TICKS = 64
#: Requests whose vbucket means something, beside the messages of streams.
_ABOUT_ONE = frozenset({kinds.STREAM_REQ, kinds.CLOSE_STREAM, kinds.FAILOVER_LOG, kinds.FAILOVER_LOG_OLD})
_OF_STREAMS = frozenset({kinds.STREAM_REQ, kinds.CLOSE_STREAM, kinds.SEQNO_ACK})
_REPLIES = frozenset(opcode for opcode, message in MESSAGES.items() if message.known and message.replies)
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


class RuleEngine:
    """Feed it events and runs, in order; it feeds the ledger, and passes on the findings that each of them brings."""

    def __init__(
        self,
        emit: Callable[[Finding], object],
        rules: Iterable[Rule] = RULES,
        ledger: Ledger | None = None,
        *,
        shown: int | None = None,
    ) -> None:
        """``emit``: takes findings. ``shown``: how many of a rule and stream; more in runs may only be counted."""
        self.ledger = ledger if ledger is not None else Ledger(with_rules=True)
        self._emit, self._shown = emit, shown
        self._on = _by_event(tuple(rules))
        self._asks = any(self._on)
        self._in_runs: Counter[tuple[str, int, int, int]] = Counter()  # findings, by rule and stream
        self._of_runs: dict[tuple[int, ...], dict[Rule, None]] = {}  # rules, each once, by events
        self._evidence: dict[int, PendingEvidence] = {}  # by connection
        self.streams = 0  #: that were looked at, once the input is over
        self.partly = 0  #: connections and streams that were not captured whole

    def feed(self, frame: FrameEvent) -> None:
        """Take the next frame."""
        ledger = self.ledger
        before = ledger.connections.get(frame.connection)
        if before is not None:
            self._ask_before(frame, before)
        connection = ledger.arrive(frame)
        evidence = self._evidence_of(connection)
        if frame.before is not None or not frame.complete:
            self._lose(evidence, frame.direction)
            frame = frame._replace(before=None)
        if not frame.complete:
            if frame.shape is HIDDEN:
                self.ask(Event.DECODED, frame, connection.no_stream)
            ledger.learn_placed(connection, frame)
            return
        if evidence.waiting:
            self._release(evidence, frame.direction)
        if frame.record is not None or frame.server:
            self.ask(Event.DECODED, frame, connection.no_stream)
        if frame.magic == ALT_CLIENT_REQUEST:
            self.ask(Event.FRAMED, frame, connection.no_stream)
        if not frame.number % TICKS:
            self._look(frame, evidence)
        if frame.server:
            return
        if frame.response:
            self._answer(frame, connection, evidence)
        elif ledger.is_message(connection, frame):
            self._message(frame, connection)
        else:
            self._request(frame, connection, evidence)

    def feed_step(self, step: Step) -> None:
        """Take the next frame, or documents of one stream; without rules the ledger alone does."""
        if not self._asks:
            self.ledger.feed_step(step)
        elif isinstance(step, DocumentRun):
            self.feed_run(step)
        else:
            self.feed(step)

    def feed_run(self, run: DocumentRun) -> None:
        """Take documents of one stream. Unless they are clearly its next and healthy, they are taken one by one."""
        stream, close = self.ledger.stream_of_run(run), run.close
        broken = None if stream is None or close is None else self._broken(run, close, stream)
        if stream is None or broken is None:
            for frame in run.each():
                self.feed(frame)
            return
        self._release(self._evidence_of(stream.connection), run.direction)
        for rule, those in broken:
            self._add_run(rule, those, run, stream)
        self.ledger.learn_run(run, stream)

    def lose(self, connection: int, direction: int, before: Before, ts_ns: int | None = None) -> None:
        """Note that bytes were lost, and that no frame followed."""
        known = self.ledger.connections.get(connection)
        if known is not None:
            self.ledger.lose(connection, direction, before, ts_ns)
            self._lose(self._evidence_of(known), direction)

    def close(self, *, single_capture: bool = False) -> None:
        """End the input.

        ``single_capture``: each connection that had not ended was watched up to its end. Of several captures, each may
        be of another place, and says nothing about the others.
        """
        clients = Clients(self.ledger)
        for connection in self.ledger.connections.values():
            self._close(connection, clients, single_capture=single_capture)
        for evidence in self._evidence.values():
            self._release(evidence, 0, 1)

    def evict(self, connection: ConnectionState) -> None:
        """End a connection, of which nothing more comes, and forget it."""
        self._close(connection, Clients(self.ledger), single_capture=True)
        self._release(self._evidence.pop(connection.number), 0, 1)
        self.ledger.evict(connection)

    def evict_streams(self, streams: Sequence[Stream]) -> None:
        """End streams that are over, and forget them."""
        clients = Clients(self.ledger)
        for stream in streams:
            self._finish(stream, clients)
            self._evidence_of(stream.connection).unknown.pop(stream, None)
        self.ledger.evict_streams(streams)

    def _finish(self, stream: Stream, clients: Clients) -> None:
        """Count a stream of which nothing more comes, and ask about it."""
        self.streams += 1
        for delayed in at_end(stream, clients, self.ledger) if self._asks else ():
            self.ask(delayed.event, delayed, delayed.stream)
        if stream.granted or stream.traffic.last_frame:
            self.partly += stream.doubtful
            if stream.end is None:
                self._done(last_message(stream), stream)

    def _close(self, connection: ConnectionState, clients: Clients, *, single_capture: bool) -> None:
        connection.end.over = True
        until_ns = self.ledger.last_ns if single_capture and connection.end.by is None else connection.end.ts_ns
        if until_ns is not None and connection.last_ns is not None:
            connection.end.until_ns = max(connection.last_ns, until_ns)
        self.partly += connection.doubtful
        for stream in connection.streams:
            self._finish(stream, clients)
        evidence = self._evidence_of(connection)
        if evidence.last is not None:
            self._look(evidence.last, evidence)
            self.ask(Event.CLOSING, evidence.last, connection.no_stream)
        connection.unlink()

    def _evidence_of(self, connection: ConnectionState) -> PendingEvidence:
        evidence = self._evidence.get(connection.number)
        if evidence is None:
            evidence = self._evidence[connection.number] = PendingEvidence(connection)
        return evidence

    def _ask_before(self, frame: FrameEvent, connection: ConnectionState) -> None:
        """Ask about what lies between a frame and the one before it."""
        if frame.before is not None and frame.before.skipped and connection.sides[frame.direction].frames:
            self.ask(Event.SKIPPED, frame, connection.no_stream)
        latest_ns = connection.sides[frame.direction].latest_ns
        if latest_ns is not None and frame.ts_ns is not None and frame.ts_ns - latest_ns > IDLE_TIMEOUT_NS:
            self.ask(Event.SILENCE, frame, connection.no_stream)

    def _look(self, frame: FrameEvent, evidence: PendingEvidence) -> None:
        for delayed in evidence.look(frame):
            self.ask(delayed.event, delayed, delayed.stream, frame)

    def _broken(self, run: DocumentRun, close: Inspected, stream: Stream) -> list[tuple[Rule, Broken]] | None:
        """Return which rules a run breaks that just continues its stream; None where it may be more than that."""
        connection, found = stream.connection, []
        before = connection.sides[run.direction].latest_ns
        if before is None or run.first_ns - before > IDLE_TIMEOUT_NS or run.pause_ns > IDLE_TIMEOUT_NS:
            return None
        if not stream.in_order or stream.marker is None or stream.prepares.open:
            return None
        looks = (run.first - 1) // TICKS != (run.first + run.frames - 1) // TICKS
        if looks and not self._evidence_of(connection).is_quiet(run):
            return None
        events = _events(run, close, stream)
        rules = self._of_runs.get(events)
        if rules is None:
            rules = self._of_runs[events] = dict.fromkeys(rule for event in events for rule, _ in self._on[event])
        for rule in rules:
            spared = rule.can_skip_run is not None and rule.can_skip_run(run, close, stream)
            if isinstance(spared, Broken):
                found.append((rule, spared))
            elif not spared:
                return None
        return found

    def _done(self, frame: FrameEvent, stream: Stream) -> None:
        """Ask about a stream that is over."""
        self.ask(Event.STREAM_DONE, frame, stream)
        self._evidence_of(stream.connection).finish(stream)

    # -- messages of a stream ---------------------------------------------------------------------------

    def _message(self, frame: FrameEvent, connection: ConnectionState) -> None:
        ledger = self.ledger
        stream = simply(connection, frame)
        if stream is None:
            address = find_address(connection, frame)
            if address.stray is not None:
                self.ask(Event.STRAY, frame, address.stray)
            stream = ledger.begin(connection, frame) if address.begins else address.stream
            if stream is not None:
                ledger.notice(frame, stream)
                if address.outside:
                    self.ask(Event.OUTSIDE, frame, stream)
            if stream is None or (stream.end is not None and not stream.needs_marker):
                ledger.learn_message(connection, frame, stream)
                return
        opcode = frame.opcode
        if opcode == kinds.MARKER:
            connection.incoming = snapshot_of(frame)
        for event in _events_of(frame, stream):  # nearly all frames come here
            self.ask(event, frame, stream)
        ledger.learn_message(connection, frame, stream)
        if opcode == kinds.STREAM_END:
            self._done(frame, stream)

    # -- everything else --------------------------------------------------------------------------------

    def _request(self, frame: FrameEvent, connection: ConnectionState, evidence: PendingEvidence) -> None:
        opcode = frame.opcode
        stream = connection.no_stream
        if find(opcode).dcp and _is_in_wrong_direction(frame, connection):
            self.ask(Event.WRONG_DIRECTION, frame, connection.no_stream)
            self.ledger.learn(connection, frame)
            return
        if opcode == kinds.SEQNO_ACK:
            stream = connection.stream_of(frame) or connection.lookup.by_opaque.get(frame.opaque) or stream
            evidence.acknowledge_seqno(frame, stream)
        self.ask(opcode, frame, stream)
        if opcode in _REPLIES:
            self.ask(Event.REQUEST, frame, connection.no_stream)
        self.ledger.learn(connection, frame)
        evidence.last = identity_of(frame)

    def _answer(self, frame: FrameEvent, connection: ConnectionState, evidence: PendingEvidence) -> None:
        opcode = frame.opcode
        stream = connection.lookup.by_opaque.get(frame.opaque) if opcode in kinds.STREAMED else None
        if stream is None or connection.lookup.shares(frame.opaque):
            stream = connection.no_stream
        self.ask(opcode | RESPONSE, frame, stream)
        if opcode == kinds.STREAM_REQ and not frame.status:  # it takes the place of another stream
            waiting = connection.exchanges.asked(frame)
            before = None if waiting is None or waiting.request is None else waiting.request.still_open
            if before is not None and before.end is None:
                self._done(last_message(before), before)
        self.ledger.learn(connection, frame)
        evidence.last = identity_of(frame)

    # -- what rules say, and whether it may be a verdict ------------------------------------------------
    # Where bytes are missing that a rule's scope covers, or the source may be a replica, which a rule does not judge,
    # what it says becomes "unknown"; where one of its other suspensions is in force, it is left out. Verdicts wait
    # until the other direction goes on without a loss. No rule affects what another finds.

    def ask(self, event: int, what: FrameEvent | Delayed, stream: Stream, now: FrameEvent | None = None) -> None:
        """Ask the rules of an event about a frame, or what became clear of it. ``now``: the one at hand, if another."""
        frame, connection = what.frame if isinstance(what, Delayed) else what, stream.connection
        for rule, judge in self._on[event]:
            answer = judge(what, connection, stream)
            if answer:
                self._add(rule, answer, frame, stream, 1 - (now or frame).direction)

    def _add_run(self, rule: Rule, broken: Broken, run: DocumentRun, stream: Stream) -> None:
        """Make findings of the frames of a run that break a rule, and one that counts those that are not shown."""
        connection = stream.connection
        key = rule.code, connection.number, stream.vbucket, stream.stream_id
        rows, met = broken.rows, self._in_runs[key]
        self._in_runs[key] += len(rows)
        left = len(rows) if self._shown is None else max(0, self._shown - met)
        frames = run.each() if left else []
        for at in rows[:left]:
            frame = frames[at]
            self._add(rule, rule.judge(frame, connection, stream), frame, stream, 1 - frame.direction)
        for at in rows[left : left + 1]:
            number, vbucket, times = run.first + at, stream.vbucket, len(rows) - left
            last = run.first + rows[-1]
            counted = Finding(rule, broken.severity, "", connection.number, number, None, vbucket, stream.stream_id)
            self._emit(replace(counted, times=times, last=last))

    def _add(self, rule: Rule, answer: Answer, frame: FrameEvent, stream: Stream, waits_for: int) -> None:
        """Make findings of what a rule says, unless that is forbidden here.

        ``waits_for``: the direction that has to continue without a loss before they are verdicts.
        """
        if rule.off and stream.known and not _suspended(stream).isdisjoint(rule.off):
            return
        doubted = Suspend.REPLICA in rule.off and stream.known and stream.may_be_of_replica
        connection = stream.connection
        evidence = self._evidence_of(connection)
        answer = Remark(answer) if isinstance(answer, str) else answer
        for remark in (answer,) if isinstance(answer, Remark) else answer or ():
            scope = remark.scope or rule.scope
            reason = _reason(scope, frame, stream)
            if not reason and doubted:
                reason = Suspend.REPLICA.text
            if not reason and remark.ordered and connection.window.out_of_order:
                reason = _OUT_OF_ORDER
            if reason and evidence.said_unknown(rule, stream):
                continue
            at = remark.frame or frame
            finding = Finding(
                rule,
                Severity.UNKNOWN if reason else remark.severity or rule.severity,
                remark.message,
                connection.number,
                at.number,
                at.ts_ns,
                _vbucket(at, stream),
                stream.stream_id if stream.known else at.stream_id,
                remark.status or rule.status,
                reason,
            )
            if reason or scope not in _WAIT:
                self._emit(finding)
                continue
            mine = evidence.waiting.setdefault(waits_for, {}).setdefault(rule.code, deque())
            mine.append(finding)
            if len(mine) > PATIENCE:
                self._emit(mine.popleft())

    def _lose(self, evidence: PendingEvidence, direction: int) -> None:
        """Note lost bytes: what was found since they were missing, unnoticed, is no longer a verdict."""
        evidence.lose()
        for finding in chain(*evidence.waiting.pop(direction, {}).values()):
            self._emit(replace(finding, severity=Severity.UNKNOWN, reason=evidence.connection.lost.text))

    def _release(self, evidence: PendingEvidence, *directions: int) -> None:
        """Note that directions continue without a loss: findings that waited for that are verdicts."""
        for direction in directions:
            for finding in chain(*evidence.waiting.pop(direction, {}).values()):
                self._emit(finding)


def _suspended(stream: Stream) -> set[Suspend]:
    """Return the suspensions that are in force, other than missing bytes and what may be a replica."""
    marker = stream.marker
    in_force = {
        Suspend.OUT_OF_ORDER: stream.oso,
        Suspend.HISTORY: marker is not None and marker.flags & (HISTORY | DUPLICATES),
        Suspend.FILTER: stream.filtered is not False,
        Suspend.CACHE_TRANSFER: stream.phase is Phase.CACHE_TRANSFER and marker is None,
    }
    return {each for each, holds in in_force.items() if holds}


def _reason(scope: Scope, frame: FrameEvent, stream: Stream) -> str:
    """Return why there is no verdict; nothing where there may be one."""
    connection = stream.connection
    if frame.weak:
        return CARVED if connection.carved else "the frame was found on weak evidence after a loss"
    if scope is Scope.FRAME:
        return ""
    if scope is Scope.SINCE:
        return connection.lost.text if connection.has_gaps else ""
    if scope is Scope.CONNECTION or not stream.known:
        if connection.opening_missing:
            return "the start of the connection was not captured"
        return connection.lost.text if connection.has_gaps else ""
    if scope is Scope.SNAPSHOT:
        if not stream.needs_marker:
            return ""
    elif not stream.doubtful:
        return ""
    return stream.knowledge.reason or (connection.lost.text if stream.lost else Suspend.START.text)


def _vbucket(frame: FrameEvent, stream: Stream) -> int | None:
    """Return the vbucket that a finding is about; None where it is about the connection."""
    if stream.known:
        return stream.vbucket
    if frame.response:
        if frame.opcode not in _ABOUT_ONE:
            return None
        waiting = stream.connection.exchanges.asked(frame)
        return waiting.frame.vbucket if waiting is not None else None if frame.record is None else frame.record.vbucket
    return frame.vbucket if frame.opcode in kinds.STREAMED or frame.opcode in _OF_STREAMS else None


def _is_in_wrong_direction(frame: FrameEvent, connection: ConnectionState) -> bool:
    """Return whether a DCP request is sent against the known roles of the ends."""
    opcode = frame.opcode
    if connection.producer_direction is None or opcode in (kinds.OPEN, kinds.ADD_STREAM, kinds.CLOSE_STREAM):
        return connection.setup.produces is True and opcode == kinds.ADD_STREAM
    if opcode in kinds.WANTED:
        return frame.direction == connection.producer_direction
    if opcode in kinds.STREAMED or opcode in (kinds.NOOP, kinds.FLUSH):
        return frame.direction != connection.producer_direction
    return False


def _events_of(frame: FrameEvent, stream: Stream) -> list[int]:
    """Return the events that a message of a stream is, or another request."""
    events = [frame.opcode]
    if stream.connection.window.size is not None:
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


def _events(run: DocumentRun, close: Inspected, stream: Stream) -> tuple[int, ...]:
    """Return the events of a run, as those of its messages."""
    events = [kinds.MUTATION, Event.MARKED]
    if close.forms:
        events.append(kinds.DELETION)
    if stream.connection.window.size is not None:
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
    unreadable = any(each.code in _UNREADABLE for each in understood.problems)
    if unreadable or len(understood.raw.data) != understood.header.frame_length:
        return []
    found: list[Finding] = []
    RuleEngine(found.append).feed(event_of(record))
    return list(dict.fromkeys(finding for finding in found if not finding.reason))
