"""Diagnosis: the troubles of an input, ranked; what was not judged; and what was looked at in a sentence."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from heapq import nsmallest
from typing import NamedTuple

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
from dcpdump.diagnosis import words
from dcpdump.diagnosis.connection_troubles import (
    flow_troubles,
    held_up_troubles,
    loss_troubles,
    noop_troubles,
    setup_troubles,
    setup_unjudged,
    tls_troubles,
    together,
)
from dcpdump.diagnosis.stream_troubles import (
    Rollbacks,
    consumer_of,
    end_troubles,
    repeated_ends,
    stream_troubles,
    streams_unjudged,
)
from dcpdump.diagnosis.trouble import Command, Evidence, Judged, Trouble, Unjudged, UnjudgedCode, grouped
from dcpdump.dissect import TLS
from dcpdump.startup import dataclass
from dcpdump.streams.causes import ONE_DIRECTION, Cause, Situation, VerdictKind
from dcpdump.streams.failover_logs import Lag
from dcpdump.streams.flow import FlowEvidence, FlowState, flow_status, why_unknown
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import client, lag_text, name_stream, times
from dcpdump.text import counted, ranges

# -- troubles of rules --------------------------------------------------------------------------------
# What ``check`` finds, one for each rule that is broken; or a line of another trouble.

_SITUATIONS = {Severity.VIOLATION: Situation.VIOLATION, Severity.SUSPICIOUS: Situation.RULE}
_SETUP = (Situation.NOT_SET_UP,)
#: Rules whose findings follow from something that has a name of its own, on the same connection.
_SIGNS: dict[str, tuple[Situation, ...]] = {
    "DCP201": _SETUP,
    "DCP202": _SETUP,
    "DCP203": _SETUP,
    "DCP119": (Situation.CLOSED,),
    "DCP221": (Situation.REFUSED,),
    "DCP226": (Situation.LOOP, Situation.ROLLED_BACK),
    "DCP227": (Situation.LOOP,),
    "DCP503": (Situation.EXCEEDED,),
    "DCP504": (Situation.MISCOUNTED,),
    "DCP505": (Situation.BLOCKED,),
    "DCP106": (Situation.STUCK,),
    "DCP107": (Situation.STUCK,),
    "DCP320": (Situation.STUCK,),
    "DCP414": (Situation.STUCK,),
    "DCP513": (Situation.STUCK, Situation.CLOSED),
}
#: Of what is stuck, the causes that have these rules as their signs.
_STUCK: dict[str, tuple[Cause, ...]] = {
    "DCP106": (Cause.NOT_ANSWERED,),
    "DCP107": (Cause.NOT_ANSWERED, Cause.STATE_NOT_ANSWERED),
    "DCP320": (Cause.SNAPSHOT_NOT_ACKNOWLEDGED,),
    "DCP414": (Cause.PREPARE_UNDECIDED,),
    "DCP513": (Cause.NOOPS_MISSING,),
}
#: Rules that ask what the verdict on a stream asks too, which has said it.
_SAID = ("DCP414",)
#: Rules that say what is wrong with a rollback.
_OF_ROLLBACKS = ("DCP225", "DCP241")

_Group = list[tuple[Finding, int]]  #: findings, and how many more there are of each


def with_findings(evidence: Evidence, troubles: Sequence[Trouble]) -> list[Trouble]:
    """Return troubles with those of rules: one for each rule and severity, but for those that follow from another."""
    out = list(troubles)
    own: dict[tuple[Situation, str], _Group] = {}

    def follows(each: tuple[Finding, int]) -> tuple[int | None, Situation | None, str]:
        at = next((at for at, trouble in enumerate(troubles) if _explains(trouble, each[0])), None)
        return at, _SITUATIONS[each[0].severity] if at is None else None, each[0].rule.code

    told = [each for each in evidence.findings if each[0].severity in _SITUATIONS]
    for (at, situation, rule), group in grouped(told, follows).items():
        often = "" if _count(group) == 1 else f", {times(_count(group))}"
        if situation is not None:
            own[situation, rule] = group
        elif at is not None and (often or rule not in _SAID):
            out[at] = replace(out[at], follows=(*out[at].follows, f"{group[0][0].message} ({rule}{often})"))
    mine = [_trouble(situation, rule, group) for (situation, rule), group in own.items()]
    notes = {at for at, each in enumerate(out) if any(_has(one, own[one.situation, one.cause], each) for one in mine)}
    return [*mine, *(each for at, each in enumerate(out) if at not in notes)]


def _has(trouble: Trouble, group: _Group, note: Trouble) -> bool:
    """Return whether a note of rollbacks is about those that a rule finds wrong."""
    streamed = {(finding.connection, finding.vbucket) for finding, _ in group}
    streams = {(stream.connection.number, stream.vbucket) for stream in note.streams}
    return note.situation is Situation.ROLLBACKS and trouble.cause in _OF_ROLLBACKS and streams <= streamed


def _explains(trouble: Trouble, finding: Finding) -> bool:
    """Return whether a finding follows from a trouble."""
    if trouble.situation not in _SIGNS.get(finding.rule.code, ()) or finding.connection not in trouble.connections:
        return False
    if trouble.situation is Situation.STUCK:
        if trouble.cause not in [cause.value for cause in _STUCK[finding.rule.code]]:
            return False
        if finding.rule.code == "DCP107" and finding.vbucket is None:
            return False
    vbuckets = {each.vbucket for each in trouble.streams if each.connection.number == finding.connection}
    return finding.vbucket is None or not vbuckets or finding.vbucket in vbuckets


def _count(group: _Group) -> int:
    return sum(1 + more for _, more in group)


def _trouble(situation: Situation, rule: str, group: _Group) -> Trouble:
    first, count = group[0][0], _count(group)
    connections = tuple(sorted({finding.connection for finding, _ in group}))
    often = "" if count == 1 else f", {times(count)}" + _spread(group, connections)
    chosen = (str(connections[0]),) if len(connections) == 1 else ()
    where = f"c{first.connection}" + (f" vb {first.vbucket}" if first.vbucket is not None else "")
    return Trouble(
        situation,
        f"{first.rule.title} ({rule}{often})",
        Command("check", ("--select", rule), chosen),
        f"{'' if count == 1 else 'first in '}frame {first.frame}, {where}: {first.message}",
        rule,
        count,
        connections,
        frames=tuple(finding.frame for finding, _ in group)[: words.FRAMES],
        ts_ns=first.ts_ns,
    )


def _spread(group: _Group, connections: tuple[int, ...]) -> str:
    """Say over how many vbuckets or connections findings spread, where those are several."""
    if len(connections) > 1:
        return f" on {counted(len(connections), 'connection')}"
    vbuckets = {finding.vbucket for finding, _ in group} - {None}
    return f" in {counted(len(vbuckets), 'vbucket')}" if len(vbuckets) > 1 else ""


# -- what was not judged, and why: what the capture does not show of connections, streams and rules ---


def unjudged(evidence: Evidence) -> Iterator[Unjudged]:
    """Yield what was not judged, and why."""
    yield from _connections(evidence)
    yield from setup_unjudged(evidence)
    yield from streams_unjudged(evidence)
    yield from _rules(evidence)
    yield from _encrypted(evidence)
    for server, attempts in words.by_server(evidence.unanswered).items():
        yield Unjudged(UnjudgedCode.SYN, words.not_opened(server, attempts), len(attempts))


def _connections(evidence: Evidence) -> Iterator[Unjudged]:
    half = [each for each in evidence.dcp if not each.has_both_sides]
    late = [each for each in evidence.dcp if each.has_both_sides and each.starts_late]
    sent = [each for each in evidence.dcp if each.has_both_sides and each.window.counted.wire]
    flow = [each for each in sent if _may_block(each, evidence.now_ns)]
    one = f"{ONE_DIRECTION}: requests, answers, NOOPs and acknowledgements cannot be compared"
    begins = "the capture starts after the connection: what was negotiated and requested before is not known"
    for code, found, text, command in (
        (UnjudgedCode.ONE_DIRECTION, half, one, "conns"),
        (UnjudgedCode.STARTS_LATE, late, begins, "conns"),
        (UnjudgedCode.FLOW, flow, f"flow control: {why_unknown(flow[0])}" if flow else "", "flow"),
    ):
        if found:
            numbers = tuple(each.number for each in found)
            texts = tuple(text for text, _ in ranges(numbers))
            few = len(numbers) < len(evidence.connections) and len(texts) <= words.LISTED
            which = Command(command, (), texts if few else ())
            yield Unjudged(code, f"{words.named(found, evidence.several)}: {text}", len(found), numbers, which)


def _may_block(connection: ConnectionState, now_ns: int | None) -> bool:
    """Return whether the producer may be blocked while no frame shows it, or may have been before."""
    found = flow_status(connection, now_ns)
    if found.state is FlowState.OPEN:
        return found.evidence is FlowEvidence.INFERRED and connection.window.size is None
    return found.state is FlowState.UNKNOWN


def _rules(evidence: Evidence) -> Iterator[Unjudged]:
    unknown: list[tuple[Finding, int]] = [each for each in evidence.findings if each[0].severity is Severity.UNKNOWN]
    if unknown:
        count = sum(1 + more for _, more in unknown)
        rules = sorted({finding.rule.code for finding, _ in unknown})
        more = f" and {len(rules) - words.NAMED} more" if len(rules) > words.NAMED else ""
        named, first = ", ".join(rules[: words.NAMED]) + more, unknown[0][0]
        yield Unjudged(
            UnjudgedCode.RULES,
            f"rule{'s' * (len(rules) > 1)} {named}, {times(count)}: {first.reason}",
            count,
            tuple(sorted({finding.connection for finding, _ in unknown})),
            Command("check", ("--select", ",".join(rules))),
        )


def _encrypted(evidence: Evidence) -> Iterator[Unjudged]:
    for (name, port), count in evidence.tally.foreign.items():
        if name == TLS and count:
            yield Unjudged(
                UnjudgedCode.ENCRYPTED,
                f"{counted(count, 'connection')} on port {port} {'is' if count == 1 else 'are'} TLS: "
                "nothing in there was read",
                count,
            )


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
    def ranks(self) -> dict[int, int]:
        """Return the connections in trouble, each with its rank: 0 for the first of the worst."""
        numbers = dict.fromkeys(number for trouble in self.troubles for number in trouble.connections)
        return {number: rank for rank, number in enumerate(numbers)}

    @property
    def _tells(self) -> bool:
        """Return whether there is anything of which it can be said that nothing is wrong with it."""
        known = any(kind != VerdictKind.UNKNOWN.value for kind in self.evidence.kinds())
        return known or (
            not self.evidence.ledger.stream_count and any(each.setup.is_open for each in self.evidence.dcp)
        )

    @property
    def _is_choice_empty(self) -> bool:
        """Return whether there are connections or streams, but none that the filters choose."""
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
            case DiagnosisOutcome.UNKNOWN if evidence.streams:
                return f"no verdict: what became of {counted(evidence.streams, 'stream')} is unknown"
            case DiagnosisOutcome.UNKNOWN:
                return "no verdict: the capture holds too little to judge"
            case DiagnosisOutcome.WRONG:
                count = sum(trouble.wrong for trouble in self.troubles)
                return f"{counted(count, 'problem')}: {self.looked_at}"
            case _:
                far = ", as far as was captured" if self.unjudged else ""
                said = [f"{counted(self.rolled_back, 'stream')} rolled back"] if self.rolled_back else []
                odd = _count([each for each in evidence.findings if each[0].severity is Severity.SUSPICIOUS])
                said += [counted(odd, "suspicious finding")] if odd else []
                wrong = self._around_wrong.format("is certain to be wrong" if odd else "is wrong")
                return f"{', '.join(said)}{', and ' * bool(said)}nothing {wrong}{far}: {self.looked_at}"

    @property
    def rolled_back(self) -> int:
        """Return how many streams were rolled back, or how many times those that were evicted."""
        return (
            sum(bool(stream.requests.rolled_back) for stream, _ in self.evidence.judged)
            + self.evidence.evicted.rollbacks
        )

    @property
    def _around_wrong(self) -> str:
        """Return the words around "is wrong": of streams that were rolled back, whether they are known to go on."""
        if not self.rolled_back:
            return "{}"
        unknown = any(verdict.situation is Situation.ROLLED_BACK for _, verdict in self.evidence.judged)
        return "else {}" if unknown else "{} since"

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
    troubles = [*stream_troubles(evidence), *repeated_ends(evidence), *rollbacks.troubles()]
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
    for trouble in troubles:
        at = _series(ends, trouble, rollbacks.evidence)
        if at is not None:
            ends[at] = replace(ends[at], follows=(*ends[at].follows, trouble.text))
        elif trouble.situation in _ROLLED_BACK:
            led = rollbacks.ends_before(trouble)
            loop = next((at for at, each in enumerate(out) if _loop_explains(each, trouble)), None)
            if loop is None:
                out.append(rollbacks.with_causes(trouble, led.values()))
            else:
                out[loop] = replace(out[loop], follows=(*out[loop].follows, trouble.text))
            told.update(led)
        else:
            out.append(trouble)
    return [*out, *(each for each in ends if each.situation is _NAME_TAKEN or not told.issuperset(each.connections))]


def _series(ends: Sequence[Trouble], trouble: Trouble, evidence: Evidence) -> int | None:
    """Return which names taken, or reconnects, connections are more of that ended with streams open; None of none."""
    if trouble.situation is not Situation.CLOSED:
        return None
    consumers = {consumer_of(stream.connection) for stream in trouble.streams}
    for at, each in enumerate(ends):
        if each.situation is _NAME_TAKEN and set(each.connections) >= set(trouble.connections):
            return at
        first = evidence.ledger.connections.get(each.connections[0])
        if each.situation is Situation.RECONNECTS and first is not None and consumers == {consumer_of(first)}:
            return at if each.wrong or not trouble.wrong else None
    return None


def _loop_explains(loop: Trouble, trouble: Trouble) -> bool:
    """Return whether rollbacks of a connection have the cause of a loop on it."""
    both = set(loop.connections) & set(trouble.connections)
    return loop.situation is Situation.LOOP and trouble.situation is Situation.ROLLBACKS and bool(both)


# -- consumers that are behind: of each connection the vbuckets with the most lag ---------------------
# Lag is neither wrong nor a note: it is the first question of those who run a consumer.

#: Vbuckets of a connection.
_WORST = 10
#: What shows all of them.
COMMAND = Command("streams", ("--sort", "lag"))


class Behind(NamedTuple):
    """A connection whose consumer is behind."""

    connection: ConnectionState
    streams: Sequence[Judged]  #: that are known to be behind
    now_ns: int | None

    @property
    def worst(self) -> list[Judged]:
        """Return those with the most lag, the worst first."""
        return nsmallest(_WORST, self.streams, key=lambda each: _lag(each).rank or 0)

    @property
    def text(self) -> str:
        """Return who is behind, and by how much, as a sentence."""
        total = Lag(
            sum(_lag(each).seqnos or 0 for each in self.streams), all(_lag(each).exact for each in self.streams)
        )
        worst = ", ".join(f"{name_stream(each)}: {lag_text(verdict.lag, self.now_ns)}" for each, verdict in self.worst)
        more = f" and {len(self.streams) - _WORST:,} more" if len(self.streams) > _WORST else ""
        several = f"by {lag_text(total, None)} seqnos in {counted(len(self.streams), 'stream')}"
        return f"{client(self.connection)} (c{self.connection.number}) is behind {several}: {worst}{more}"


def behind(evidence: Evidence) -> list[Behind]:
    """Return the connections whose consumers are behind, by number."""
    judged = [each for each in evidence.judged if _lag(each).seqnos]
    found = grouped(judged, lambda each: each[0].connection)
    known = [Behind(connection, streams, evidence.now_ns) for connection, streams in found.items()]
    return sorted(known, key=lambda each: each.connection.number)


def _lag(judged: Judged) -> Lag:
    return judged[1].lag or Lag()
