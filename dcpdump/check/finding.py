"""Define findings: where a conversation breaks a rule, or may break it, if bytes are missing."""

import re
from collections import Counter
from dataclasses import replace

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


def unmarked(sentence: str) -> str:
    """Return a sentence without marks."""
    if _NUMBER_BEGIN in sentence:
        sentence = _NUMBER.sub(r"\1", sentence)
    return _QUOTE.sub(r"\1", sentence) if _BEGIN in sentence else sentence


def hidden(sentence: str, redactor: Redactor) -> str:
    """Return a sentence with what it quotes hashed, but for the words and numbers that controls are set to.

    Numbers that it repeats are left out, as they are where records are redacted.
    """
    sentence = _NUMBER.sub("…", sentence)
    return _QUOTE.sub(lambda quote: redactor.value(MESSAGES[DCP_CONTROL], quote[1]), sentence)


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule's result for a frame."""

    rule: Rule
    severity: Severity
    message: str
    connection: int
    frame: int
    ts_ns: int | None
    vbucket: int | None = None  #: None: it is about the connection
    stream_id: int = 0
    status: str = ""  #: what a conforming peer would have answered
    reason: str = ""  #: of an unknown one: why there is no verdict
    marked: str = field(default="", compare=False, repr=False)  #: the message, with what it quotes marked
    times: int = field(default=1, compare=False)  #: above 1: it stands for so many that are only counted
    last: int = field(default=0, compare=False)  #: the frame of the last of those

    @property
    def place(self) -> tuple[str, int, int | None, int, bool]:
        """Return the key of repeated findings: the rule and the stream; of unknown ones, the connection."""
        if self.severity is Severity.UNKNOWN:
            return self.rule.code, self.connection, None, 0, True
        return self.rule.code, self.connection, self.vbucket, self.stream_id, False

    def hidden(self, redactor: Redactor) -> "Finding":
        """Return it with what its message quotes hashed, and the numbers left out that may be bytes of values."""
        return replace(self, message=hidden(self.marked, redactor), marked="") if self.marked else self


# -- folding ------------------------------------------------------------------------------------------
# Of the same finding again and again the first few are shown, and the rest is counted; or all, by rule.

SHOWN = 20


class Fold:
    """A collection of findings that keeps the first ``shown`` (None: all) of each rule and stream, and counts all."""

    def __init__(self, shown: int | None = SHOWN) -> None:
        self._limit = shown
        self._met: Counter[tuple[str, int, int | None, int, bool]] = Counter()
        self.kept: list[Finding] = []
        self.counts: Counter[Severity] = Counter()

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        place = finding.place
        self.counts[finding.severity] += finding.times
        met = self._met[place] = self._met[place] + finding.times
        if self._limit is None or met <= self._limit:
            self.kept.append(finding)

    def hide(self, redactor: Redactor) -> None:
        """Hash the data in messages."""
        self.kept = [finding.hidden(redactor) for finding in self.kept]

    def findings(self) -> list[tuple[Finding, int]]:
        """Return the kept findings in the order of frames; the last of each kind has the number of further ones."""
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
    """The number of one rule's findings of one severity, with an example."""

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
        """Hash the data in examples."""
        for total in self._totals.values():
            total.example = total.example.hidden(redactor)
