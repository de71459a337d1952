"""Findings, by rule, worst first, each with its frame."""

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Rule, Severity
from dcpdump.diagnosis.trouble import Command
from dcpdump.report.context import Context, row, section, table
from dcpdump.report.html import Markup, element
from dcpdump.streams.wording import clock
from dcpdump.text import counted

_MOST = 30
_ORDER = (Severity.VIOLATION, Severity.SUSPICIOUS, Severity.INFO, Severity.UNKNOWN)


def findings(context: Context) -> Markup | None:
    """Return the section; None where there are none."""
    by_rule: dict[Rule, list[tuple[Finding, int]]] = {}
    order = sorted(context.evidence.findings, key=lambda each: _ORDER.index(each[0].severity))
    for finding, more in order:
        by_rule.setdefault(finding.rule, []).append((finding, more))
    if not by_rule:
        return None
    return section(
        "findings",
        "Findings",
        [_rule(context, rule, group) for rule, group in by_rule.items()],
        lead=f"What {counted(context.evidence.rules, 'rule')} of the protocol say, worst first.",
    )


def _rule(context: Context, rule: Rule, group: list[tuple[Finding, int]]) -> Markup:
    count = sum(1 + more for _, more in group)
    worst = group[0][0].severity
    shown = group[:_MOST]
    rows = [_row(context, finding, more) for finding, more in shown]
    rest = count - sum(1 + more for _, more in shown)
    command = Command("check", ("--select", rule.code))
    return element(
        "details",
        element(
            "summary",
            element("span", worst.value, class_=f"label {worst.value}"),
            element("b", f" {rule.title} "),
            element("span", f"{rule.code}, {count:,}", class_="detail"),
        ),
        element("p", f"Source: {rule.source}", class_="detail") if rule.source else None,
        table(("frame", "time", "where", "what"), rows),
        element("p", f"{rest:,} more: ", element("code", context.line(command))) if rest > 0 else None,
        id=f"rule-{rule.code}",
        open=worst is Severity.VIOLATION,
    )


def _row(context: Context, finding: Finding, more: int) -> Markup:
    where = f"c{finding.connection}" + ("" if finding.vbucket is None else f" vb {finding.vbucket}")
    text = finding.message + (f" [no verdict: {finding.reason}]" if finding.reason else "")
    again = f" … {more:,} more like this" if more else ""
    return row(context.frame(finding.frame, f"{finding.frame:,}"), clock(finding.ts_ns), where, text + again)
