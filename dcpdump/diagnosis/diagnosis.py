"""Diagnosis: the troubles of an input, ranked; what was not judged; and what was looked at in a sentence."""

from enum import Enum

from dcpdump.diagnosis import words
from dcpdump.diagnosis.connection_troubles import (
    flow_troubles,
    held_up_troubles,
    loss_troubles,
    noop_troubles,
    together,
)
from dcpdump.diagnosis.evidence import Evidence
from dcpdump.diagnosis.finding_troubles import finding_troubles
from dcpdump.diagnosis.not_judged import unjudged
from dcpdump.diagnosis.reconnects import reconnect_troubles
from dcpdump.diagnosis.setup_troubles import setup_troubles
from dcpdump.diagnosis.stream_troubles import stream_troubles
from dcpdump.diagnosis.trouble import Trouble, TroubleSeverity, Unjudged
from dcpdump.plural import counted
from dcpdump.quick_dataclass import dataclass
from dcpdump.streams.causes import VerdictKind
from dcpdump.streams.wording import seqno

#: The rule that says of a NOOP that it was not answered.
_NOOP_RULE = "DCP511"


class DiagnosisOutcome(Enum):
    """What a diagnosis comes to. The values are codes."""

    WRONG = "wrong"
    SUSPICIOUS = "suspicious"
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
        severities = {trouble.code.severity for trouble in self.troubles}
        if TroubleSeverity.WRONG in severities:
            return DiagnosisOutcome.WRONG
        if severities:
            return DiagnosisOutcome.SUSPICIOUS
        return DiagnosisOutcome.HEALTHY if self._tells else DiagnosisOutcome.UNKNOWN

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
        evidence, count = self.evidence, len(self.troubles)
        match self.outcome:
            case DiagnosisOutcome.UNKNOWN if self._is_choice_empty:
                return f"no verdict: {words.nothing_to_show(evidence.ledger, evidence.connections)}"
            case DiagnosisOutcome.UNKNOWN if not evidence.dcp:
                return f"no verdict: no DCP was spoken in {counted(evidence.ledger.frames, 'frame')}"
            case DiagnosisOutcome.UNKNOWN:
                return "no verdict: the capture holds too little to judge"
            case DiagnosisOutcome.HEALTHY:
                far = ", as far as was captured" if self.unjudged else ""
                return f"nothing is wrong{far}: {self.looked_at}"
            case _:
                return f"{counted(count, 'trouble')}: {self.looked_at}"

    @property
    def note(self) -> str:
        """Return that streams were rolled back which are in no trouble since; empty where none was."""
        judged = self.evidence.judged
        back = [stream.rollbacks[-1] for stream, verdict in judged if stream.rollbacks and not verdict.trouble]
        if not back:
            return ""
        to_0 = sum(request.rollback_seqno == 0 for request in back)
        if len(back) == 1:
            return f"1 stream was rolled back to {seqno(back[0].rollback_seqno)}: see dcpdump rollbacks"
        which = f", {to_0:,} of them to 0" if to_0 else ""
        return f"{counted(len(back), 'stream')} were rolled back{which}: see dcpdump rollbacks"

    @property
    def looked_at(self) -> str:
        """Return what was judged, in words."""
        evidence = self.evidence
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in evidence.kinds().most_common())
        streams = counted(evidence.streams, "stream") + (f" ({kinds})" if kinds else "")
        return f"{streams} on {counted(len(evidence.dcp), 'connection')}, {counted(evidence.rules, 'rule')} asked"


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return what is wrong in an input that was read to its end."""
    troubles = [*stream_troubles(evidence), *together(flow_troubles(evidence)), *together(held_up_troubles(evidence))]
    troubles += together(setup_troubles(evidence))
    named = frozenset((trouble.code, number) for trouble in troubles for number in trouble.connections)
    findings = list(finding_troubles(evidence, named))
    silent = frozenset(number for trouble in findings if trouble.cause == _NOOP_RULE for number in trouble.connections)
    troubles += [*findings, *together(noop_troubles(evidence, silent)), *loss_troubles(evidence)]
    troubles += reconnect_troubles(evidence)
    return Diagnosis(evidence, tuple(sorted(troubles, key=lambda trouble: trouble.rank)), tuple(unjudged(evidence)))
