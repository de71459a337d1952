"""Diagnosis: the troubles of an input, ranked; what was not judged; and what was looked at in a sentence."""

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

from dcpdump.diagnosis import words
from dcpdump.diagnosis.connection_troubles import (
    flow_troubles,
    held_up_troubles,
    loss_troubles,
    noop_troubles,
    together,
)
from dcpdump.diagnosis.ends import end_troubles
from dcpdump.diagnosis.evidence import Evidence
from dcpdump.diagnosis.finding_troubles import with_findings
from dcpdump.diagnosis.not_judged import unjudged
from dcpdump.diagnosis.rollback_troubles import Rollbacks
from dcpdump.diagnosis.setup_troubles import setup_troubles, tls_troubles
from dcpdump.diagnosis.stream_troubles import stream_troubles
from dcpdump.diagnosis.trouble import Trouble, Unjudged
from dcpdump.plural import counted
from dcpdump.quick_dataclass import dataclass
from dcpdump.streams.causes import Situation, VerdictKind

#: The rule that says of a NOOP that it was not answered.
_NOOP_RULE = "DCP511"
_NAME_TAKEN = Situation.NAME_TAKEN
_ROLLED_BACK = (Situation.LOOP, Situation.ROLLED_BACK, Situation.ROLLBACKS)


class DiagnosisOutcome(Enum):
    """What a diagnosis comes to. The values are codes."""

    WRONG = "wrong"
    NOTE = "note"  #: nothing is wrong, and something is worth a look
    HEALTHY = "healthy"
    UNKNOWN = "unknown"  #: no verdict is possible


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong, worst first, and what was not judged."""

    evidence: Evidence
    troubles: tuple[Trouble, ...]
    unjudged: tuple[Unjudged, ...]

    @property
    def outcome(self) -> DiagnosisOutcome:
        """Return what it comes to."""
        if any(trouble.wrong for trouble in self.troubles):
            return DiagnosisOutcome.WRONG
        if not self._tells:
            return DiagnosisOutcome.UNKNOWN
        return DiagnosisOutcome.NOTE if self.troubles else DiagnosisOutcome.HEALTHY

    @property
    def _tells(self) -> bool:
        """Return whether there is anything of which it can be said that nothing is wrong with it."""
        known = any(kind != VerdictKind.UNKNOWN.value for kind in self.evidence.kinds())
        return known or (not self.evidence.ledger.stream_count and any(each.is_open for each in self.evidence.dcp))

    @property
    def _is_choice_empty(self) -> bool:
        """Return whether there are connections or streams, and none of those that are wanted."""
        evidence, ledger = self.evidence, self.evidence.ledger
        if len(evidence.connections) < len(ledger.connections) and not evidence.dcp:
            return True
        return bool(ledger.stream_count) and not evidence.streams

    @property
    def conclusion(self) -> str:
        """Return what was looked at, and what came of it, as a sentence."""
        evidence = self.evidence
        match self.outcome:
            case DiagnosisOutcome.UNKNOWN if self._is_choice_empty:
                return f"no verdict: {words.nothing_to_show(evidence.ledger, evidence.connections)}"
            case DiagnosisOutcome.UNKNOWN if not evidence.dcp:
                return f"no verdict: no DCP was spoken in {counted(evidence.ledger.frames, 'frame')}"
            case DiagnosisOutcome.UNKNOWN:
                return "no verdict: the capture holds too little to judge"
            case DiagnosisOutcome.WRONG:
                count = sum(trouble.wrong for trouble in self.troubles)
                return f"{counted(count, 'problem')}: {self.looked_at}"
            case _:
                far = ", as far as was captured" if self.unjudged else ""
                back = self.rolled_back
                said = (
                    f"{counted(back, 'stream')} rolled back, and nothing is wrong since" if back else "nothing is wrong"
                )
                return f"{said}{far}: {self.looked_at}"

    @property
    def rolled_back(self) -> int:
        """Return how many streams were rolled back, or how many times those that were evicted."""
        return sum(bool(stream.rollbacks) for stream, _ in self.evidence.judged) + self.evidence.evicted.rollbacks

    @property
    def looked_at(self) -> str:
        """Return what was judged, in words."""
        evidence = self.evidence
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in evidence.kinds().most_common())
        streams = counted(evidence.streams, "stream") + (f" ({kinds})" if kinds else "")
        return f"{streams} on {counted(len(evidence.dcp), 'connection')}, {counted(evidence.rules, 'rule')} checked"


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return what is wrong in an input that was read to its end, and what is worth a look."""
    rollbacks = Rollbacks(evidence)
    troubles = [*stream_troubles(evidence), *rollbacks.troubles()]
    troubles += [*together(flow_troubles(evidence)), *together(held_up_troubles(evidence))]
    troubles += [*together(setup_troubles(evidence)), *tls_troubles(evidence)]
    troubles = _with_causes(rollbacks, troubles, list(end_troubles(evidence)))
    troubles = with_findings(evidence, troubles)
    silent = {number for each in troubles if each.cause == _NOOP_RULE for number in each.connections}
    troubles += [*together(noop_troubles(evidence, frozenset(silent))), *loss_troubles(evidence)]
    found = (trouble for trouble in troubles if trouble.degree is not None)
    return Diagnosis(evidence, tuple(sorted(found, key=lambda trouble: trouble.rank)), tuple(unjudged(evidence)))


def _with_causes(rollbacks: Rollbacks, troubles: Iterable[Trouble], ends: list[Trouble]) -> list[Trouble]:
    """Return troubles with what led to them, and those of ends of connections that no other trouble has."""
    out: list[Trouble] = []
    told: set[int] = set()  # connections whose ends are told with what they led to
    names = {number: at for at, each in enumerate(ends) for number in each.connections if each.situation is _NAME_TAKEN}
    for trouble in troubles:
        if trouble.situation is Situation.CLOSED and names.keys() >= set(trouble.connections):
            at = names[trouble.connections[0]]
            ends[at] = replace(ends[at], follows=(*ends[at].follows, trouble.text))
        elif trouble.situation in _ROLLED_BACK:
            led = rollbacks.ends_before(trouble)
            loop = next((at for at, each in enumerate(out) if _explains(each, trouble)), None)
            if loop is None:
                out.append(rollbacks.with_causes(trouble, led.values()))
            else:
                out[loop] = replace(out[loop], follows=(*out[loop].follows, trouble.text))
            told.update(led)
        else:
            out.append(trouble)
    return [*out, *(each for each in ends if each.situation is _NAME_TAKEN or not told.issuperset(each.connections))]


def _explains(loop: Trouble, trouble: Trouble) -> bool:
    """Return whether rollbacks of a connection have the cause of a loop on it."""
    both = set(loop.connections) & set(trouble.connections)
    return loop.situation is Situation.LOOP and trouble.situation is Situation.ROLLBACKS and bool(both)
