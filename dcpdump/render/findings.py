"""Write findings as lines for people, as objects for programs, and as SARIF; and the pages of the rules."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from dcpdump.check.finding import Finding, RuleTotal
from dcpdump.check.rule import Rule, Severity
from dcpdump.clock import clock_in_use
from dcpdump.escape import safe
from dcpdump.record import Json
from dcpdump.render.column import INSTANT, INT, TEXT, Column, ColumnSet, at, of
from dcpdump.render.objects import FRAME
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import folded, nonzero
from dcpdump.streams.wording import clock
from dcpdump.text import counted, ranges

Folded = Iterable[tuple[Finding, int]]
SEVERITY_KINDS = {
    Severity.VIOLATION: LineKind.PROBLEM,
    Severity.SUSPICIOUS: LineKind.HINT,
    Severity.INFO: LineKind.FIELD,
    Severity.UNKNOWN: LineKind.ORIGIN,
}
_LEVELS = {Severity.VIOLATION: "error", Severity.SUSPICIOUS: "warning", Severity.INFO: "note"}
_WIDTH = 96


def _location(finding: Finding) -> str:
    words = f"c{finding.connection}"
    if finding.vbucket is not None:
        words += f" vb {finding.vbucket}"
    return words + (f" sid {finding.stream_id}" if finding.stream_id else "")


def sentence(finding: Finding) -> str:
    """Return what was found, with the answer of a conforming peer, or why there is no verdict."""
    text = safe(finding.message)
    if finding.reason:
        return f"{text} [no verdict: {finding.reason}]"
    return f"{text} (a conforming peer answers {finding.status})" if finding.status else text


def frame_lines(findings: Iterable[Finding], *, with_message: bool = True) -> Iterator[Line]:
    """Yield a line for each finding about a frame that is shown above it."""
    for finding in findings:
        text = f"{finding.rule.code} {finding.rule.title}"
        yield Line(
            SEVERITY_KINDS[finding.severity], f"rule: {text}: {sentence(finding)}" if with_message else f"rule: {text}"
        )


def lines(findings: Folded) -> Iterator[Line]:
    """Yield a line for each finding."""
    for finding, more in findings:
        rule = finding.rule
        when = "" if finding.ts_ns is None else f" {clock_in_use().row(finding.ts_ns)}"
        head = f"{finding.severity.value:<10} {rule.code} {rule.id:<3} {_location(finding)} #{finding.frame}{when}"
        yield Line(SEVERITY_KINDS[finding.severity], f"{head}  {sentence(finding)}")
        if more:
            where = f"c{finding.connection}" if finding.reason else _location(finding)
            yield Line(LineKind.ORIGIN, f"{'':<10} {rule.code} {rule.id:<3} {where}  … {more:,} more (--all)")


def total(counts: dict[Severity, int], rules: int, streams: int, partly: int) -> Line:
    """Return the sum of all findings; ``partly``: how many connections and streams were captured in part."""
    violations = counted(counts.get(Severity.VIOLATION, 0), "violation")
    others = (f"{counts.get(each, 0):,} {each.value}" for each in Severity if each is not Severity.VIOLATION)
    summary = ", ".join((violations, *others))
    text = f"{counted(streams, 'stream')} checked by {counted(rules, 'rule')}: {summary}"
    if partly:
        who = "connection or stream was" if partly == 1 else "connections and streams were"
        text += f"; {partly:,} {who} seen in part, and not judged by what is missing"
    return Line(LineKind.PLAIN, text)


def sarif(findings: Folded, rules: Sequence[Rule], files: Sequence[str], version: str) -> Json:
    """Return everything as one SARIF 2.1.0 log."""
    at_of = {rule.code: at for at, rule in enumerate(rules)}
    driver = {"name": "dcpdump", "version": version, "rules": [_sarif_rule(rule) for rule in rules]}
    results = [_result(finding, more, at_of[finding.rule.code], files) for finding, more in findings]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _sarif_rule(rule: Rule) -> Json:
    return {
        "id": rule.code,
        "name": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.page},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, more: int, index: int, files: Sequence[str]) -> Json:
    out: Json = {"ruleId": finding.rule.code, "ruleIndex": index}
    if finding.severity is Severity.UNKNOWN:
        out |= {"kind": "open", "level": "none"}
    else:
        out |= {"kind": "fail", "level": _LEVELS[finding.severity]}
    out["message"] = {"text": sentence(finding)}
    location: Json = {"logicalLocations": [{"fullyQualifiedName": _location(finding), "kind": "stream"}]}
    if len(files) == 1:
        location["physicalLocation"] = {"artifactLocation": {"uri": quote(os.fsencode(files[0]))}}
    out["locations"] = [location]
    out["properties"] = {"frame": finding.frame, "connection": finding.connection}
    if more:
        out["occurrenceCount"] = more + 1
    return out


# -- the rules themselves -----------------------------------------------------------------------------------


def table(rules: Iterable[Rule]) -> Iterator[Line]:
    """Yield a line for each rule."""
    for rule in rules:
        yield Line(LineKind.FIELD, f"{rule.code} {rule.id:<3} {rule.severity.value:<10} {rule.title}")


def page(rule: Rule, width: int | None = _WIDTH) -> Iterator[Line]:
    """Yield the lines of a rule's page. ``width``: of a line of text at most; None: a paragraph is one line."""
    yield Line(LineKind.TITLE, f"{rule.code} ({rule.id}) {rule.title}")
    yield Line(LineKind.PLAIN, "")
    for paragraph in rule.page.split("\n\n"):
        plain = " ".join(paragraph.split())
        for text in [plain] if width is None else folded(plain, width):
            yield Line(LineKind.FIELD, text)
        yield Line(LineKind.PLAIN, "")
    yield Line(LineKind.FIELD, f"Severity: {rule.severity.value}")
    if rule.status:
        yield Line(LineKind.FIELD, f"A conforming peer answers: {rule.status}")
    if rule.source:
        yield Line(LineKind.FIELD, f"Source: {rule.source}")
    for each in rule.unjudged:
        yield Line(LineKind.FIELD, f"Not judged when: {each.text}")


#: How many entries of a list of numbers are shown.
_SHOWN = 4


def _numbers(numbers: Iterable[int]) -> str:
    """Return numbers as ranges, the first few, and how many there are if those are not all."""
    found = ranges(numbers)
    text = ",".join(each for each, _ in found[:_SHOWN])
    count = sum(count for _, count in found)
    return text if len(found) <= _SHOWN else f"{text},… ({count:,})"


def _frames(each: RuleTotal) -> str:
    first = each.example.frame
    return f"#{first}" if each.last == first else f"#{first}..{each.last}"


# -- the columns of findings, of rules with their findings, and of rules -----------------------------------

_STATUS = "the status that a conforming peer answers"
_Found = tuple[Finding, int]
#: Findings; ``more`` is how many of the kind are left out.
FINDINGS = ColumnSet[_Found](
    *of("code rule=id", "0.rule"),
    *of("severity=severity.value:severity", "0"),
    Column(head="rule", text=lambda row: f"{row[0].rule.code} {row[0].rule.id}"),
    *of("title", "0.rule"),
    *of("connection:conn", "0", right=True),
    *of("vbucket?:vb", "0"),
    *of("stream_id??:sid", "0", drop_rank=1),
    *of("frame:frame", "0", stored=False),
    *of("time?=ts_ns:time", "0", shown=clock, type=INSTANT, drop_rank=2),
    Column(head="more", text=lambda row: nonzero(row[1]), right=True, drop_rank=3),
    *of("message", "0"),
    *of("status??", "0", type=TEXT, meaning=_STATUS),
    *of("reason??=0.reason spec=0.rule.source more??=1"),
    Column(head="message", text=lambda row: sentence(row[0])),
    kind=lambda row: SEVERITY_KINDS[row[0].severity],
)

#: Findings on a frame that was pasted, and that frame.
BROKEN = ColumnSet[Finding](
    *of("code=rule.code title=rule.title severity=severity.value"),
    Column("message?", lambda finding: safe(finding.message)),
    *of("status??", type=TEXT, meaning=_STATUS),
)
EXPLAINED = ColumnSet[Any](*FRAME, Column("rules?", columns=BROKEN), Column("suggestion?"))

#: Rules, each with its findings counted, and the first as an example.
BY_RULE = ColumnSet[RuleTotal](
    *of("=example.severity.value:severity =example.rule.code:rule"),
    *of("=count:count", type=INT),
    *of("=connections:conn", shown=_numbers, drop_rank=2),
    *of("=vbuckets:vb", shown=_numbers, drop_rank=3),
    Column(head="frames", text=_frames, drop_rank=4),
    Column(get=at("example.ts_ns"), head="first at", shown=clock, drop_rank=1),
    Column(
        head="finding",
        text=lambda row: f"{row.example.rule.title}{', e.g. ' if row.count > 1 else ': '}{sentence(row.example)}",
    ),
    kind=lambda row: SEVERITY_KINDS[row.example.severity],
)

#: The rules themselves.
RULES = ColumnSet[Rule](
    *of("code rule=id severity=severity.value title"),
    *of("status", type=TEXT, meaning=_STATUS),
    Column("off", lambda rule: [each.code for each in rule.unjudged], type="[text]", meaning="when it is not judged"),
    *of("spec=source"),
)
