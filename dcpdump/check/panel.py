"""Panel: the rules, asked one after the other, and whether what they say may be a verdict.

Where bytes are missing that a rule's scope covers, what it says becomes "unknown"; where one of its suspensions is in
force, it is not said at all. Verdicts wait until the other direction goes on without a loss.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from dcpdump.check.course import Course
from dcpdump.check.dialogue import CLOSE_STREAM, SEQNO_ACK, STREAM_REQ, STREAMED, Dialogue
from dcpdump.check.finding import Finding
from dcpdump.check.rule import EVENTS, SUSPENSIONS, Remark, Rule, Scope, Severity
from dcpdump.streams.sight import Sight

#: Findings of a connection that wait until the other direction goes on without a loss, at most.
PATIENCE = 1000
#: Requests whose vbucket means something, beside the messages of streams.
_ABOUT_ONE = frozenset({STREAM_REQ, CLOSE_STREAM, 0x54, 0x96})


class Panel:
    """Ask it at an event; ``taken`` gives what was found."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        asked: dict[int, list[Rule]] = defaultdict(list)
        for rule in rules:
            for event in rule.on:
                asked[event].append(rule)
        #: by event, the rules and their functions
        self.on = [tuple((rule, rule.judge) for rule in asked[event]) for event in range(EVENTS)]
        #: by event, what says of a burst that it need not be asked
        self.spares = [tuple(rule.spares for rule in asked[event]) for event in range(EVENTS)]
        self._found: list[Finding] = []
        #: by connection and the direction that they wait for: bytes of it may be missing, and nobody knows yet
        self._probation: dict[tuple[int, int], list[Finding]] = {}

    def taken(self) -> list[Finding]:
        """It gives the findings since it was last asked."""
        if not self._found:
            return []
        found, self._found = self._found, []
        return found

    def lose(self, dialogue: Dialogue, direction: int, length: int, number: int, *, skipped: bool = False) -> None:
        """It tells of lost bytes; what was found while they were missing unnoticed is no verdict any more."""
        dialogue.lose(direction, length, number, skipped=skipped)
        for finding in self._probation.pop((dialogue.number, direction), ()):
            self._found.append(replace(finding, severity=Severity.UNKNOWN, reason=dialogue.why))

    def release(self, connection: int, direction: int) -> None:
        """It hears that a direction went on without a loss: what waited for that is a verdict."""
        if self._probation:
            self._found += self._probation.pop((connection, direction), ())

    def release_all(self) -> None:
        """It hears that nothing more comes."""
        for waiting in self._probation.values():
            self._found += waiting
        self._probation.clear()

    def ask(self, event: int, sight: Sight, dialogue: Dialogue, course: Course) -> None:
        """It asks the rules of an event."""
        for rule, judge in self.on[event]:
            answer = judge(sight, dialogue, course)
            if answer:
                self.hear(rule, answer, sight, dialogue, course)

    def hear(self, rule: Rule, answer: object, sight: Sight, dialogue: Dialogue, course: Course) -> None:
        """It makes findings of what a rule says, unless that is forbidden here."""
        if isinstance(answer, str):
            answer = Remark(answer)
        if isinstance(answer, Remark):
            answer = (answer,)
        if not isinstance(answer, (tuple, list)):
            raise TypeError(f"{rule.code} answers with {answer!r}")
        nowhere = course.vbucket < 0 and not course.late
        letters = "" if nowhere else course.letters
        if any(letter in letters for letter in rule.off):
            return
        reason = self._reason(rule, sight, dialogue, None if nowhere else course)
        if reason:
            if not nowhere and rule.code in course.told:
                return
            course.told.add(rule.code)
        for remark in answer:
            at = remark.sight or sight
            finding = Finding(
                rule,
                Severity.UNKNOWN if reason else remark.severity or rule.severity,
                remark.message,
                dialogue.number,
                at.number,
                at.ts_ns,
                _vbucket(at, course),
                at.stream_id if nowhere else max(course.sid, 0),
                remark.status or rule.status,
                reason,
            )
            if reason or rule.scope not in (Scope.CONNECTION, Scope.STREAM):
                self._found.append(finding)
                continue
            waiting = self._probation.setdefault((dialogue.number, 1 - sight.direction), [])
            waiting.append(finding)
            if len(waiting) > PATIENCE:
                self._found.append(waiting.pop(0))

    def _reason(self, rule: Rule, sight: Sight, dialogue: Dialogue, course: Course | None) -> str:
        """It says why there is no verdict; nothing where there may be one."""
        if sight.weak:
            return "the frame was found on weak evidence after a loss"
        if rule.scope is Scope.FRAME:
            return ""
        if rule.scope is Scope.CONNECTION or course is None:
            if dialogue.late:
                return "the start of the connection was not captured"
            return dialogue.why if dialogue.doubtful else ""
        if rule.scope is Scope.SNAPSHOT:
            if not course.stale:
                return ""
        elif not course.doubtful:
            return ""
        return course.why or (dialogue.why if course.lost else SUSPENSIONS["m"])


def _vbucket(sight: Sight, course: Course) -> int | None:
    """It gives the vbucket that a finding is about; None where it is about the connection."""
    if course.vbucket >= 0:
        return course.vbucket
    if sight.response:
        return None if sight.record is None or sight.opcode not in _ABOUT_ONE else sight.record.vbucket
    return sight.word if sight.opcode in STREAMED or sight.opcode in (STREAM_REQ, CLOSE_STREAM, SEQNO_ACK) else None
