"""Count findings by rule: how many, where, from which frame to which, and the first as an example."""

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
from dcpdump.quick_dataclass import dataclass, field
from dcpdump.redact import Redactor

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
