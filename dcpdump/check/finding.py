"""Define findings: where a conversation breaks a rule, or may break it, if bytes are missing."""

import re
from collections import Counter
from dataclasses import replace
from operator import attrgetter

from dcpdump.check.rule import Rule, Severity
from dcpdump.escape import safe
from dcpdump.redact import LARGE_NUMBER, Redactor
from dcpdump.spec import MESSAGES
from dcpdump.spec.opcodes import DCP_CONTROL
from dcpdump.startup import dataclass, field, lazy_pattern

# -- quotes -------------------------------------------------------------------------------------------
# What sentences of rules repeat of texts and numbers in frames, marked so that it can be hidden.

_BEGIN, _END = "\x02", "\x03"  # no text that is safe to print has them
_QUOTE = lazy_pattern(f"{_BEGIN}([^{_END}]*){_END}")
_NUMBER_BEGIN, _NUMBER_END = "\x04", "\x05"
_NUMBER = lazy_pattern(f"{_NUMBER_BEGIN}([^{_NUMBER_END}]*){_NUMBER_END}")


def quoted(text: str | bytes) -> str:
    """Return a text from a frame, marked as data; text without the mark is shown at every level of redaction."""
    return f"{_BEGIN}{safe(text)}{_END}"


def repeated(problem: str, numbers: re.Pattern[str] = LARGE_NUMBER) -> str:
    """Return a decoder's problem with a key or a value, marked: its numbers may be bytes of these."""
    return numbers.sub(lambda number: f"{_NUMBER_BEGIN}{number[0]}{_NUMBER_END}", problem)


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule's result for a frame."""

    rule: Rule
    severity: Severity
    marked: str  #: the message, with what it quotes marked
    connection: int
    frame: int
    ts_ns: int | None
    vbucket: int | None = None  #: None: it is about the connection
    stream_id: int = 0
    status: str = ""  #: what a conforming peer would have answered
    reason: str = ""  #: of an unknown one: why there is no verdict
    times: int = field(default=1, compare=False)  #: above 1: it stands for so many that are only counted
    last: int = field(default=0, compare=False)  #: the frame of the last of those

    @property
    def message(self) -> str:
        """Return the sentence that says what was found."""
        sentence = _NUMBER.sub(r"\1", self.marked) if _NUMBER_BEGIN in self.marked else self.marked
        return _QUOTE.sub(r"\1", sentence) if _BEGIN in sentence else sentence

    @property
    def group_key(self) -> tuple[str, int, int | None, int, bool]:
        """Return the key of repeated findings: the rule and the stream; of unknown ones, the connection."""
        if self.severity is Severity.UNKNOWN:
            return self.rule.code, self.connection, None, 0, True
        return self.rule.code, self.connection, self.vbucket, self.stream_id, False

    def hidden(self, redactor: Redactor) -> "Finding":
        """Return it with what its message quotes hashed, but for the words and numbers that controls are set to.

        Numbers that may be bytes of values are left out, as they are where records are redacted.
        """
        sentence = _NUMBER.sub("…", self.marked)
        control = MESSAGES[DCP_CONTROL]
        return replace(self, marked=_QUOTE.sub(lambda quote: redactor.value(control, quote[1]), sentence))


# -- folding ------------------------------------------------------------------------------------------
# Of the same finding again and again the first few are shown, and the rest is counted; or all, by rule.

SHOWN = 20
_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(slots=True)
class RuleTotal:
    """The number of one rule's findings of one severity, with an example."""

    example: Finding  #: the first of them
    last: int = 0  #: frame
    count: int = 0
    connections: set[int] = field(default_factory=set)
    vbuckets: set[int] = field(default_factory=set)

    def add(self, finding: Finding) -> None:
        """Count a finding."""
        if finding.marked and (finding.frame < self.example.frame or not self.example.marked):
            self.example = finding
        self.count += finding.times
        self.last = max(self.last, finding.frame, finding.last)
        self.connections.add(finding.connection)
        if finding.vbucket is not None:
            self.vbuckets.add(finding.vbucket)


class Fold:
    """Findings, of which the first ``shown`` (None: all) of each rule and stream are kept, and all are counted."""

    def __init__(self, shown: int | None = SHOWN) -> None:
        self._limit = shown
        self._met: Counter[tuple[str, int, int | None, int, bool]] = Counter()
        self._kept: list[Finding] = []
        self._totals: dict[tuple[str, Severity], RuleTotal] = {}

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        group_key = finding.group_key
        met = self._met[group_key] = self._met[group_key] + finding.times
        if self._limit is None or met <= self._limit:
            self._kept.append(finding)
        key = finding.rule.code, finding.severity
        if key not in self._totals:
            self._totals[key] = RuleTotal(finding)
        self._totals[key].add(finding)

    def hide(self, redactor: Redactor) -> None:
        """Hash the data in messages."""
        self._kept = [finding.hidden(redactor) for finding in self._kept]
        for total in self._totals.values():
            total.example = total.example.hidden(redactor)

    def findings(self) -> list[tuple[Finding, int]]:
        """Return the kept findings in the order of frames; the last of each kind has the number of further ones."""
        left = Counter(finding.group_key for finding in self._kept)
        out: list[tuple[Finding, int]] = []
        for finding in sorted(self._kept, key=lambda finding: (finding.frame, finding.rule.code)):
            left[finding.group_key] -= 1
            more = 0 if left[finding.group_key] or self._limit is None else self._met[finding.group_key] - self._limit
            out.append((finding, max(0, more)))
        return out

    def totals(self) -> list[RuleTotal]:
        """Return the findings by rule and severity, the worst first, then as they begin."""
        key = attrgetter("example.frame", "example.rule.code")
        return sorted(sorted(self._totals.values(), key=key), key=lambda total: _RANKS[total.example.severity])

    def counts(self) -> Counter[Severity]:
        """Return how many findings there are of each severity."""
        found: Counter[Severity] = Counter()
        for (_, severity), total in self._totals.items():
            found[severity] += total.count
        return found
