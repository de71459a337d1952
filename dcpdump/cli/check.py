"""Provide ``dcpdump check``: report where connections break the protocol's rules, and where that is unknown."""

from collections.abc import Iterable, Sequence

import click

from dcpdump import __version__
from dcpdump.check.engine import RuleEngine
from dcpdump.check.finding import SHOWN, Finding, Fold, RuleTotal
from dcpdump.check.rule import Rule, Severity
from dcpdump.check.rules import BY_NAME, RULES
from dcpdump.cli.analysis import AnalysisResult, LedgerConsumer, analysis
from dcpdump.cli.listing import FORMATS, report
from dcpdump.cli.options import Invocation, option
from dcpdump.dissect import Dissector
from dcpdump.errors import ExitCode
from dcpdump.redact import Redactor
from dcpdump.render import findings
from dcpdump.render.objects import dump
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting
from dcpdump.streams.verdict import Judge
from dcpdump.text import counted, nearest

_SEVERITIES = [severity.value for severity in (Severity.VIOLATION, Severity.SUSPICIOUS, Severity.INFO)]


class Checking(LedgerConsumer):
    """The rules over all frames, and what they find of the connections to show."""

    with_rules = True
    evicted_are = "judged by the rules, but not listed"

    def __init__(self, asked: Invocation) -> None:
        super().__init__(asked)
        self.rules = self._rules_of()  #: that are asked
        everything = asked.options.get("everything", False)
        limit = None if everything else SHOWN
        # What is only counted has no time of its own.
        kept = limit if self._wanted.since is None else None
        self._engine = self._learner = RuleEngine(self._keep, self.rules, self.ledger, shown=kept)
        self._fold = Fold(limit)
        self._everything = everything

    def _rules_of(self) -> Sequence[Rule]:
        """Return the rules that are chosen."""
        return _chosen(self._asked)

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return also how many keys were not compared."""
        yield from super().remarks(dissection)
        missed = self.ledger.memory.keys.missed
        if missed:
            yield f"dcpdump: note: {counted(missed, 'key')} were not compared with later ones: so many are not kept"
        if dissection.balance.conflicts:
            text = "bytes were captured twice, and were others the second time: what was first is judged"
            yield f"dcpdump: note: {text}; a violation in there may be one of a damaged copy"

    def _end(self) -> None:
        self._engine.close(single_capture=self.ledger.single_capture)

    def _hide(self, redactor: Redactor) -> None:
        super()._hide(redactor)
        self._fold.hide(redactor)

    def _keep(self, finding: Finding) -> None:
        if self._wants(finding):
            self._fold.add(finding)

    def _wants(self, finding: Finding) -> bool:
        wanted, connection = self._wanted, self.ledger.connections[finding.connection]
        if not wanted.is_between(connection):
            return False
        if wanted.vbuckets is not None and (finding.vbucket is None or finding.vbucket not in wanted.vbuckets):
            return False
        since = None if wanted.since is None else wanted.since.at(self.begins_ns)
        if since is not None and (finding.ts_ns is None or finding.ts_ns < since):
            return False
        return wanted.stream_ids is None or finding.stream_id in wanted.stream_ids

    @property
    def findings(self) -> list[tuple[Finding, int]]:
        """Return what was found, and how many more there are of each."""
        return self._fold.findings()

    @property
    def total(self) -> Line:
        """Return the sum of all findings."""
        return findings.total(self._fold.counts(), len(self.rules), self._engine.streams, self._engine.partly)

    @property
    def totals(self) -> list[RuleTotal] | None:
        """Return what was found rule by rule; None where each finding is to be listed."""
        return None if self._everything else self._fold.totals()


class CheckReading(Checking):
    """The rules over all frames; or else what these say, or their list."""

    def __init__(self, asked: Invocation) -> None:
        super().__init__(asked)
        fail_on = asked.options["fail_on"]
        count = 0 if fail_on == "never" else _SEVERITIES.index(fail_on) + 1
        self._bad = [Severity(each) for each in _SEVERITIES[:count]]  # findings with which the command fails

    def wrong(self, judge: Judge | None = None) -> str | None:
        """Return the first finding that is as bad as --fail-on names, in words; None where none is."""
        first = next((finding for finding, _ in self.findings if finding.severity in self._bad), None)
        return (
            None if first is None else f"{first.rule.title} ({first.rule.code}), frame {first.frame}: {first.message}"
        )

    @classmethod
    def instead(cls, asked: Invocation) -> int | None:
        """Print the pages of rules, or their list, where that is requested."""
        explain = asked.options["explain"]
        if explain is None and not asked.options["listed"]:
            return None
        rules = _chosen(asked) if explain is None else _named(explain, "--explain")
        with asked.sink(paged=False) as sink:
            if asked.format == "sarif":
                sink.write(dump(findings.sarif((), rules, (), __version__)) + "\n")
                return ExitCode.DONE
            text = (
                findings.table(rules) if explain is None else (line for rule in rules for line in findings.page(rule))
            )
            report(sink, asked, [findings.RULES], lambda: text, lambda: map(findings.RULES.object, rules))
        return ExitCode.DONE


@analysis(
    [findings.FINDINGS],
    "dcpdump check node1.pcap",
    "dcpdump check captures/ --ignore DCP418 --fail-on suspicious",
    "dcpdump check --explain DCP402",
    params=[
        option("--explain RULE", "Print a rule's page: DCP301 or S1."),
        option("--list", "List the rules.", name="listed"),
        option("--select RULES", "Only these rules: DCP301,S12 · DCP4 · S."),
        option("--ignore RULES", "Not these rules."),
        option(
            f"--fail-on [{'|'.join(_SEVERITIES)}|never]",
            "Exit with 1 for findings as bad as this.",
            default="violation",
        ),
        option("--all", "One line per finding, not per rule.", name="everything"),
    ],
    reader=CheckReading,
    formats=(*FORMATS, "sarif"),
)
def check(reading: CheckReading, asked: Invocation, **_: object) -> AnalysisResult:
    """Hold conversations against the protocol's rules.

    A finding is a violation, suspicious, or information; it is unknown where bytes that were not captured forbid a
    verdict. Text has a line a rule, with the first finding as an example; objects are findings, the first ones of each
    rule and stream. Filters choose findings; every frame is judged nevertheless.
    """
    found = reading.findings

    def lines() -> list[Line | Fitting]:
        totals = reading.totals
        if totals is None:
            return [*findings.lines(found), reading.total]
        more: list[Line] = []
        if totals and asked.terminal:
            code = totals[0].example.rule.code
            text = f"each finding: --all · what a rule says: dcpdump check --explain {code}"
            more.append(Line(LineKind.COLUMNS, text))
        return [findings.BY_RULE.table(totals), *more, reading.total]

    return AnalysisResult(
        lines,
        lambda: map(findings.FINDINGS.object, found),
        reading.wrong() is not None,
        sarif=lambda: findings.sarif(found, reading.rules, asked.paths, __version__),
    )


def _chosen(asked: Invocation) -> tuple[Rule, ...]:
    select, ignore = asked.options.get("select"), asked.options.get("ignore")
    chosen = RULES if select is None else _named(select, "--select")
    left_out = () if ignore is None else _named(ignore, "--ignore")
    return tuple(rule for rule in chosen if rule not in left_out)


def _named(text: str, option: str) -> tuple[Rule, ...]:
    """Return the rules that a list names: by codes, ids, or beginnings of either."""
    found: dict[Rule, None] = {}
    words = [word for word in (word.strip().upper() for word in text.split(",")) if word]
    if not words:
        raise click.UsageError(f"{option} names no rule (dcpdump check --list has them)")
    for word in words:
        if word in BY_NAME:
            found[BY_NAME[word]] = None
            continue
        digits = len(word) > 3 and word.startswith("DCP")
        family = [
            rule for rule in RULES if (rule.code.startswith(word) if digits else rule.id.rstrip("0123456789") == word)
        ]
        if not family:
            near = nearest(word, BY_NAME, n=3, cutoff=0.5)
            hint = f" (did you mean {', '.join(near)}?)" if near else " (dcpdump check --list has them)"
            raise click.UsageError(f"unknown rule {word!r} for {option}{hint}")
        found |= dict.fromkeys(family)
    return tuple(sorted(found, key=lambda rule: rule.code))
