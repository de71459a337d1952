"""What was not judged, and why: what the capture does not show of connections, streams and rules."""

from collections.abc import Iterator

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
from dcpdump.diagnosis import words
from dcpdump.diagnosis.evidence import Evidence
from dcpdump.diagnosis.setup_troubles import setup_unjudged
from dcpdump.diagnosis.stream_troubles import streams_unjudged
from dcpdump.diagnosis.trouble import Command, Unjudged, UnjudgedCode
from dcpdump.dissect import TLS
from dcpdump.plural import counted
from dcpdump.streams.flow_state import FlowEvidence, FlowState, standing, why_unknown
from dcpdump.streams.losses import ONE_DIRECTION
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import times

_LISTED = 40  #: ranges of connections in a command, at most


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
    dcp = evidence.dcp
    half = [each for each in dcp if not all(each.frames)]
    late = [each for each in dcp if each.starts_late and all(each.frames)]
    flow = [each for each in dcp if all(each.frames) and each.window.wire and _may_block(each, evidence.now_ns)]
    if half:
        yield _of(
            UnjudgedCode.ONE_DIRECTION,
            half,
            f"{ONE_DIRECTION}: requests, answers, NOOPs and acknowledgements cannot be compared",
            evidence,
        )
    if late:
        yield _of(
            UnjudgedCode.STARTS_LATE,
            late,
            "the capture starts after the connection: what was negotiated and asked for before is not known",
            evidence,
        )
    if flow:
        yield _of(UnjudgedCode.FLOW, flow, f"flow control: {why_unknown(flow[0])}", evidence, "flow")


def _may_block(connection: ConnectionState, now_ns: int | None) -> bool:
    """Return whether the producer may be blocked while no frame shows it, or may have been before."""
    found = standing(connection, now_ns)
    if found.state is FlowState.OPEN:
        return found.evidence is FlowEvidence.INFERRED and connection.window.size is None
    return found.state is FlowState.UNKNOWN


def _of(
    code: UnjudgedCode, found: list[ConnectionState], text: str, evidence: Evidence, command: str = "conns"
) -> Unjudged:
    named = words.named(found, len(evidence.dcp) > 1)
    numbers = tuple(each.number for each in found)
    ranges = [text for text, _ in words.ranges(numbers)]
    few = len(numbers) < len(evidence.connections) and len(ranges) <= _LISTED
    where = ("--connection", ",".join(ranges)) if few else ()
    return Unjudged(code, f"{named}: {text}", len(found), numbers, Command(command, where))


def _rules(evidence: Evidence) -> Iterator[Unjudged]:
    unknown: list[tuple[Finding, int]] = [each for each in evidence.findings if each[0].severity is Severity.UNKNOWN]
    if unknown:
        count = sum(1 + more for _, more in unknown)
        rules = sorted({finding.rule.code for finding, _ in unknown})
        first = unknown[0][0]
        yield Unjudged(
            UnjudgedCode.RULES,
            f"{_rule_names(rules)}, {times(count)}: {first.reason}",
            count,
            tuple(sorted({finding.connection for finding, _ in unknown})),
            Command("check", ("--select", ",".join(rules))),
        )


def _rule_names(rules: list[str]) -> str:
    """Name rules, the first few."""
    named = ", ".join(rules[: words.NAMED])
    more = f" and {len(rules) - words.NAMED} more" if len(rules) > words.NAMED else ""
    return f"rule{'s' * (len(rules) > 1)} {named}{more}"


def _encrypted(evidence: Evidence) -> Iterator[Unjudged]:
    for (name, port), count in evidence.tally.foreign.items():
        if name == TLS and count:
            yield Unjudged(
                UnjudgedCode.ENCRYPTED,
                f"{counted(count, 'connection')} on port {port} {'is' if count == 1 else 'are'} TLS: "
                "nothing in there was read",
                count,
            )
