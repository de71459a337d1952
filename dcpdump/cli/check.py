"""dcpdump check: where conversations break the protocol's rules, and where nobody can tell."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import click

from dcpdump import __version__
from dcpdump.capture import expand, open_capture
from dcpdump.check.finding import Finding
from dcpdump.check.fold import SHOWN, Fold
from dcpdump.check.rule import Rule, Severity
from dcpdump.check.rules import BY_NAME, RULES
from dcpdump.check.run import TICKS, Referee
from dcpdump.cli import exit as code
from dcpdump.cli.ledger import Chosen, LedgerReading, choosing, choosing_options
from dcpdump.cli.options import Display, display, display_options
from dcpdump.cli.sink import Sink
from dcpdump.redact import Redactor
from dcpdump.render import findings as report
from dcpdump.render import ndjson
from dcpdump.render.style import Palette
from dcpdump.streams.burst import Burst, Step
from dcpdump.streams.feed import Feed
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.sight import Sight
from dcpdump.streams.watching import Watching

_SEVERITIES = [severity.value for severity in (Severity.VIOLATION, Severity.SUSPICIOUS, Severity.INFO)]


@click.command()
@click.argument("captures", nargs=-1, metavar="CAPTURE…")
@click.option("--explain", metavar="RULE", help="Print a rule's page: DCP301 or S1.")
@click.option("--list", "listed", is_flag=True, help="List the rules.")
@click.option("--select", metavar="RULES", help="Only these rules: DCP301,S12 · DCP4 · S.")
@click.option("--ignore", metavar="RULES", help="Not these rules.")
@click.option(
    "--fail-on",
    type=click.Choice([*_SEVERITIES, "never"]),
    default="violation",
    show_default=True,
    help="Exit with 1 for findings as bad as this.",
)
@click.option("--all", "everything", is_flag=True, help=f"All repeats, not {SHOWN} for each rule and stream.")
@choosing_options(streams=True)
@display_options(formats=("text", "ndjson", "sarif"))
@click.option("-q", "--quiet", is_flag=True, help="No summary on standard error.")
def check(
    captures: tuple[str, ...],
    explain: str | None,
    listed: bool,
    select: str | None,
    ignore: str | None,
    fail_on: str,
    everything: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Hold conversations against the protocol's rules.

    A finding is a violation, suspicious, or information; it is unknown where bytes that were not captured forbid a
    verdict. Filters choose findings; every frame is looked at, whatever they say.
    """
    rules = _chosen(select, ignore)
    chosen, shown = choosing(options), display(options)
    if explain is not None or listed:
        return _tell(rules if explain is None else _named(explain, "--explain"), explain is not None, shown)
    if not captures:
        raise click.UsageError("Missing argument 'CAPTURE…'.")
    paths = expand(captures)
    with Sink(shown.path, force=shown.force, inputs=paths) as sink:
        reading = Checking([open_capture(path) for path in paths], chosen, shown, sink, rules, everything)
        reading.read()
        reading.report(paths)
        status = reading.conclude("none" if quiet else "text")
    return code.FINDINGS if status in (code.DONE, code.DAMAGED) and reading.fails(fail_on) else status


class Checking(LedgerReading):
    """A reading that a referee watches."""

    def __init__(
        self,
        captures: Sequence[Any],
        chosen: Chosen,
        shown: Display,
        sink: Sink,
        rules: Sequence[Rule],
        everything: bool,
    ) -> None:
        super().__init__(captures, chosen, shown, sink)
        if not isinstance(self._dissector, Watching):
            raise TypeError("a check needs a dissection that watches")
        self.ledger = Ledger(closely=True)
        self._feed = Feed(self._dissector, self.ledger, closely=TICKS)
        self._rules = rules
        self._referee = Referee(rules, self.ledger)
        self._lose = self._referee.lose
        self._fold = Fold(None if everything else SHOWN)

    def _see(self, seen: list[Sight]) -> None:
        until = self._until
        if until is not None:
            seen = [sight for sight in seen if sight.ts_ns is None or sight.ts_ns <= until]
        self._shown += len(seen)
        feed = self._referee.feed
        for sight in seen:
            found = feed(sight)
            if found:
                self._keep(found)

    def _take(self, steps: Sequence[Step]) -> None:
        referee = self._referee
        for step in steps:
            if isinstance(step, Burst):
                self._shown += step.frames
                found = referee.feed_burst(step)
            else:
                self._shown += 1
                found = referee.feed(step)
            if found:
                self._keep(found)

    def _close(self) -> None:
        super()._close()
        self._keep(self._referee.close(self.ledger.watched(alone=len(self._captures) == 1)))

    def _hide(self, redactor: Redactor) -> None:
        super()._hide(redactor)
        self._fold.hide(redactor)

    def _keep(self, found: Iterable[Finding]) -> None:
        for finding in found:
            if self._wants(finding):
                self._fold.add(finding)

    def _wants(self, finding: Finding) -> bool:
        wanted, connection = self._wanted, self.ledger.connections[finding.connection]
        if not wanted.is_between(connection):
            return False
        if wanted.vbuckets is not None and (finding.vbucket is None or finding.vbucket not in wanted.vbuckets):
            return False
        if wanted.since is not None:
            since = wanted.since.ns + (self._begins or 0) * wanted.since.relative
            if finding.ts_ns is None or finding.ts_ns < since:
                return False
        return wanted.stream_ids is None or finding.stream_id in wanted.stream_ids

    def report(self, files: Sequence[str]) -> None:
        """It writes what was found; nothing where there was nothing to look at, which the summary tells."""
        if self._status() == code.UNUSABLE:
            return
        found = self._fold.findings()
        if self._form == "ndjson":
            for row in report.objects(found):
                self._sink.write(ndjson.dump(row) + "\n")
        elif self._form == "sarif":
            self._sink.write(ndjson.dump(report.sarif(found, self._rules, files, __version__)) + "\n")
        else:
            referee = self._referee
            total = report.total(self._fold.counts, len(self._rules), referee.streams, referee.partly)
            for line in (*report.lines(found), total):
                self._sink.write(self._view.palette.paint(line) + "\n")

    def fails(self, fail_on: str) -> bool:
        """It says whether there is a finding as bad as that."""
        if fail_on == "never":
            return False
        bad = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
        return any(self._fold.counts[Severity(severity)] for severity in bad)


def _tell(rules: Sequence[Rule], pages: bool, shown: Display) -> int:
    """It prints rules: as a list, or each with its page."""
    with Sink(shown.path, force=shown.force) as sink:
        palette = Palette(shown.coloured(sink.is_terminal))
        if shown.format != "text":
            for row in report.rule_objects(rules):
                sink.write(ndjson.dump(row) + "\n")
        for line in [line for rule in rules for line in report.page(rule)] if pages else report.table(rules):
            if shown.format == "text":
                sink.write(palette.paint(line) + "\n")
    return code.DONE


def _chosen(select: str | None, ignore: str | None) -> tuple[Rule, ...]:
    chosen = RULES if select is None else _named(select, "--select")
    left_out = () if ignore is None else _named(ignore, "--ignore")
    return tuple(rule for rule in chosen if rule not in left_out)


def _named(text: str, option: str) -> tuple[Rule, ...]:
    """It reads a list of rules: codes and ids, and beginnings of either."""
    found: dict[Rule, None] = {}
    for word in filter(None, (word.strip().upper() for word in text.split(","))):
        if word in BY_NAME:
            found[BY_NAME[word]] = None
            continue
        digits = len(word) > 3 and word.startswith("DCP")
        family = [
            rule for rule in RULES if (rule.code.startswith(word) if digits else rule.id.rstrip("0123456789") == word)
        ]
        if not family:
            near = get_close_matches(word, BY_NAME, n=3, cutoff=0.5)
            hint = f" (did you mean {', '.join(near)}?)" if near else " (dcpdump check --list has them)"
            raise click.UsageError(f"unknown rule {word!r} for {option}{hint}")
        found |= dict.fromkeys(family)
    return tuple(sorted(found, key=lambda rule: rule.code))
