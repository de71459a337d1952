"""Runner: the rules, asked one after the other, and whether what they say may be a verdict.

Where bytes are missing that a rule's scope covers, or the source may be a replica, which a rule does not judge, what
it says becomes "unknown"; where one of its other suspensions is in force, it is left out. Verdicts wait until the other
direction goes on without a loss. No rule affects what another finds.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from dcpdump.check.finding import Finding
from dcpdump.check.quote import unmarked
from dcpdump.check.rule import EVENTS, SUSPENSIONS, Broken, Delayed, Judge, Remark, Rule, Scope, Severity, Suspend
from dcpdump.spec.names import DUPLICATES, HISTORY
from dcpdump.streams.document_run import DocumentRun
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import (
    CLOSE_STREAM,
    FAILOVER_LOG,
    FAILOVER_LOG_OLD,
    SEQNO_ACK,
    STREAM_REQ,
    STREAMED,
)
from dcpdump.streams.state import CARVED, ConnectionState
from dcpdump.streams.stream import Stream

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
                self._found.append(replace(finding, severity=Severity.UNKNOWN, reason=connection.lost_text))

    def release(self, connection: int, direction: int) -> None:
        """Take it that a direction continues without a loss: what waited for that is a verdict."""
        if self._waiting:
            for findings in self._waiting.pop((connection, direction), {}).values():
                self._found += findings

    def release_all(self) -> None:
        """Take it that nothing more comes."""
        for waiting in self._waiting.values():
            for findings in waiting.values():
                self._found += findings
        self._waiting.clear()

    def forget(self, stream: Stream) -> None:
        """Forget a stream of which nothing more comes."""
        self._unknown.pop(stream, None)

    def ask(self, event: int, frame: FrameEvent, connection: ConnectionState, stream: Stream) -> None:
        """Ask the rules of an event about a frame."""
        for rule, judge in self.on[event]:
            answer = judge(frame, connection, stream)
            if answer:
                self.add(rule, answer, frame, connection, stream, 1 - frame.direction)

    def ask_delayed(self, event: int, delayed: Delayed, connection: ConnectionState, now: FrameEvent) -> None:
        """Ask the rules of an event about what became clear of a frame. ``now``: the frame at hand."""
        for rule, judge in self.on[event]:
            answer = judge(delayed, connection, delayed.stream)
            if answer:
                self.add(rule, answer, delayed.frame, connection, delayed.stream, 1 - now.direction)

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
        losses = sum(stream.connection.losses)
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
    if stream.caching and marker is None:
        found.add(Suspend.CACHE_TRANSFER)
    return found


def _reason(scope: Scope, frame: FrameEvent, connection: ConnectionState, stream: Stream | None) -> str:
    """Return why there is no verdict; nothing where there may be one."""
    if frame.weak:
        return CARVED if connection.carved else "the frame was found on weak evidence after a loss"
    if scope is Scope.FRAME:
        return ""
    if scope is Scope.SINCE:
        return connection.lost_text if connection.torn else ""
    if scope is Scope.CONNECTION or stream is None:
        if connection.late:
            return "the start of the connection was not captured"
        return connection.lost_text if connection.torn else ""
    if scope is Scope.SNAPSHOT:
        if not stream.stale:
            return ""
    elif not stream.doubtful:
        return ""
    return stream.unclear or (connection.lost_text if stream.lost else SUSPENSIONS[Suspend.START])


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
