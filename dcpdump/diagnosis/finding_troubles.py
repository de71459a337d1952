"""Troubles of rules: what ``check`` finds, one for each rule that is broken; or a line of another trouble."""

from collections.abc import Sequence
from dataclasses import replace

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
from dcpdump.diagnosis.evidence import Evidence
from dcpdump.diagnosis.trouble import Command, Trouble
from dcpdump.plural import counted
from dcpdump.streams.causes import Situation
from dcpdump.streams.wording import times

_SITUATIONS = {Severity.VIOLATION: Situation.VIOLATION, Severity.SUSPICIOUS: Situation.RULE}
_FRAMES = 8
_SETUP = (Situation.NOT_SET_UP,)
#: Rules whose findings follow from something that has a name of its own, on the same connection.
_SIGNS: dict[str, tuple[Situation, ...]] = {
    "DCP201": _SETUP,
    "DCP202": _SETUP,
    "DCP203": _SETUP,
    "DCP221": (Situation.REFUSED,),
    "DCP226": (Situation.LOOP, Situation.ROLLED_BACK),
    "DCP227": (Situation.LOOP,),
    "DCP503": (Situation.EXCEEDED,),
    "DCP504": (Situation.MISCOUNTED,),
    "DCP505": (Situation.BLOCKED,),
    "DCP513": (Situation.STUCK, Situation.CLOSED),
}

#: Rules that say what is wrong with a rollback.
_OF_ROLLBACKS = ("DCP225", "DCP241")

_Group = list[tuple[Finding, int]]  #: findings, and how many more there are of each


def with_findings(evidence: Evidence, troubles: Sequence[Trouble]) -> list[Trouble]:
    """Return troubles with those of rules: one for each rule and severity, but for those that follow from another."""
    out = list(troubles)
    own: dict[tuple[Situation, str], _Group] = {}
    signs: dict[tuple[int, str], _Group] = {}
    for finding, more in evidence.findings:
        situation, rule = _SITUATIONS.get(finding.severity), finding.rule.code
        if situation is None:
            continue
        at = next((at for at, each in enumerate(out) if _explains(each, finding)), None)
        if at is None:
            own.setdefault((situation, rule), []).append((finding, more))
        else:
            signs.setdefault((at, rule), []).append((finding, more))
    for (at, rule), group in signs.items():
        often = "" if _count(group) == 1 else f", {times(_count(group))}"
        line = f"{group[0][0].message} ({rule}{often})"
        out[at] = replace(out[at], follows=(*out[at].follows, line))
    mine = [_trouble(situation, rule, group) for (situation, rule), group in own.items()]
    notes = {at for at, each in enumerate(out) if any(_has(one, own[one.situation, one.cause], each) for one in mine)}
    return [*mine, *(each for at, each in enumerate(out) if at not in notes)]


def _has(trouble: Trouble, group: _Group, note: Trouble) -> bool:
    """Return whether a note of rollbacks is about those that a rule finds wrong."""
    places = {(finding.connection, finding.vbucket) for finding, _ in group}
    streams = {(stream.connection.number, stream.vbucket) for stream in note.streams}
    return note.situation is Situation.ROLLBACKS and trouble.cause in _OF_ROLLBACKS and streams <= places


def _explains(trouble: Trouble, finding: Finding) -> bool:
    """Return whether a finding follows from a trouble."""
    if trouble.situation not in _SIGNS.get(finding.rule.code, ()) or finding.connection not in trouble.connections:
        return False
    if trouble.situation is Situation.STUCK and trouble.cause != "noops-missing":
        return False
    places = {each.vbucket for each in trouble.streams if each.connection.number == finding.connection}
    return finding.vbucket is None or not places or finding.vbucket in places


def _count(group: _Group) -> int:
    return sum(1 + more for _, more in group)


def _trouble(situation: Situation, rule: str, group: _Group) -> Trouble:
    first, count = group[0][0], _count(group)
    connections = tuple(sorted({finding.connection for finding, _ in group}))
    often = "" if count == 1 else f", {times(count)}" + _spread(group, connections)
    chosen = ("--connection", str(connections[0])) if len(connections) == 1 else ()
    where = f"c{first.connection}" + (f" vb {first.vbucket}" if first.vbucket is not None else "")
    return Trouble(
        situation,
        f"{first.rule.title} ({rule}{often})",
        Command("check", (*chosen, "--select", rule)),
        f"{'' if count == 1 else 'first in '}frame {first.frame}, {where}: {first.message}",
        rule,
        count,
        connections,
        frames=tuple(finding.frame for finding, _ in group)[:_FRAMES],
        ts_ns=first.ts_ns,
    )


def _spread(group: _Group, connections: tuple[int, ...]) -> str:
    """Say over how many vbuckets or connections findings spread, where those are several."""
    if len(connections) > 1:
        return f" on {counted(len(connections), 'connection')}"
    places = {finding.vbucket for finding, _ in group} - {None}
    return f" in {counted(len(places), 'vbucket')}" if len(places) > 1 else ""
