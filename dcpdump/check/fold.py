"""Folding: of the same finding again and again the first few are shown, and the rest is counted; or all, by rule."""

from collections import Counter

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
from dcpdump.quick_dataclass import dataclass, field
from dcpdump.redact import Redactor

SHOWN = 20


class Fold:
    """Fold findings: keep of each rule and stream the first ``shown`` (None: all), and count everything."""

    def __init__(self, shown: int | None = SHOWN) -> None:
        self._limit = shown
        self._met: Counter[tuple[str, int, int | None, int, bool]] = Counter()
        self.kept: list[Finding] = []
        self.counts: Counter[Severity] = Counter()

    def add(self, finding: Finding) -> None:
        """Take a finding."""
        place = finding.place
        self.counts[finding.severity] += finding.times
        met = self._met[place] = self._met[place] + finding.times
        if self._limit is None or met <= self._limit:
            self.kept.append(finding)

    def hide(self, redactor: Redactor) -> None:
        """Hash what messages quote."""
        self.kept = [finding.hidden(redactor) for finding in self.kept]

    def findings(self) -> list[tuple[Finding, int]]:
        """Return what was kept in the order of frames, and with the last of each kind how many more there were."""
        left = Counter(finding.place for finding in self.kept)
        out: list[tuple[Finding, int]] = []
        for finding in sorted(self.kept, key=lambda finding: (finding.frame, finding.rule.code)):
            left[finding.place] -= 1
            more = 0 if left[finding.place] or self._limit is None else self._met[finding.place] - self._limit
            out.append((finding, max(0, more)))
        return out


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(slots=True)
class RuleTotal:
    """The findings of one rule that are equally bad."""

    example: Finding  #: the first of them
    last: int  #: frame
    count: int = 0
    connections: set[int] = field(default_factory=set)
    vbuckets: set[int] = field(default_factory=set)


class RuleTotals:
    """The findings of all rules, counted."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, Severity], RuleTotal] = {}

    def add(self, finding: Finding) -> None:
        """Count a finding."""
        key = finding.rule.code, finding.severity
        total = self._totals.get(key)
        if total is None:
            total = self._totals[key] = RuleTotal(finding, finding.frame)
        elif finding.message and (finding.frame < total.example.frame or not total.example.message):
            total.example = finding
        total.count += finding.times
        total.last = max(total.last, finding.frame, finding.last)
        total.connections.add(finding.connection)
        if finding.vbucket is not None:
            total.vbuckets.add(finding.vbucket)

    def all(self) -> list[RuleTotal]:
        """Return the totals, the worst first, then as they begin."""
        found = self._totals.values()
        return sorted(
            found, key=lambda each: (_RANKS[each.example.severity], each.example.frame, each.example.rule.code)
        )

    def hide(self, redactor: Redactor) -> None:
        """Hash what examples quote."""
        for total in self._totals.values():
            total.example = total.example.hidden(redactor)
