"""Folding: of the same finding again and again the first few are shown, and the rest is counted."""

from collections import Counter

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
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
