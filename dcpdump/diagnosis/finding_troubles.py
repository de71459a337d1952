"""Troubles of rules: what ``check`` finds, a trouble for each rule that is broken."""

from collections.abc import Iterator

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
from dcpdump.diagnosis.evidence import Evidence
from dcpdump.diagnosis.trouble import Command, Trouble, TroubleCode
from dcpdump.plural import counted
from dcpdump.streams.wording import times

_CODES = {Severity.VIOLATION: TroubleCode.VIOLATION, Severity.SUSPICIOUS: TroubleCode.RULE}
_FRAMES = 8
#: Rules whose findings are the signs of a trouble that is named by itself.
_SIGNS = {
    "DCP226": TroubleCode.LOOP,
    "DCP227": TroubleCode.LOOP,
    "DCP503": TroubleCode.EXCEEDED,
    "DCP505": TroubleCode.BLOCKED,
}

#: A trouble, and a connection that has it.
Named = tuple[TroubleCode, int]


def finding_troubles(evidence: Evidence, named: frozenset[Named]) -> Iterator[Trouble]:
    """Yield a trouble for each rule and severity. ``named``: troubles of which some rules only show the signs."""
    found: dict[tuple[TroubleCode, str], list[tuple[Finding, int]]] = {}
    for finding, more in evidence.findings:
        code = _CODES.get(finding.severity)
        sign = _SIGNS.get(finding.rule.code)
        known = sign is not None and (sign, finding.connection) in named
        if code is not None and not known:
            found.setdefault((code, finding.rule.code), []).append((finding, more))
    for (code, rule), group in found.items():
        yield _trouble(code, rule, group)


def _trouble(code: TroubleCode, rule: str, group: list[tuple[Finding, int]]) -> Trouble:
    first = group[0][0]
    count = sum(1 + more for _, more in group)
    connections = tuple(sorted({finding.connection for finding, _ in group}))
    often = "" if count == 1 else f", {times(count)}" + _spread(group, connections)
    chosen = ("--connection", str(connections[0])) if len(connections) == 1 else ()
    where = f"c{first.connection}" + (f" vb {first.vbucket}" if first.vbucket is not None else "")
    return Trouble(
        code,
        f"{first.rule.title} ({rule}{often})",
        Command("check", (*chosen, "--select", rule)),
        f"{'' if count == 1 else 'first in '}frame {first.frame}, {where}: {first.message}",
        rule,
        count,
        connections,
        frames=tuple(finding.frame for finding, _ in group)[:_FRAMES],
        ts_ns=first.ts_ns,
    )


def _spread(group: list[tuple[Finding, int]], connections: tuple[int, ...]) -> str:
    """Say over how many vbuckets or connections findings spread, where those are several."""
    if len(connections) > 1:
        return f" on {counted(len(connections), 'connection')}"
    places = {finding.vbucket for finding, _ in group} - {None}
    return f" in {counted(len(places), 'vbucket')}" if len(places) > 1 else ""
