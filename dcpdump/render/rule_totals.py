"""Write findings counted by rule as a table: a line a rule."""

from collections.abc import Iterable

from dcpdump.check.rule_totals import RuleTotal
from dcpdump.diagnosis.words import ranges
from dcpdump.render.findings import SEVERITY_KINDS, sentence
from dcpdump.render.text_columns import Table
from dcpdump.streams.wording import clock

_HEADS = ("severity", "rule", "count", "conn", "vb", "frames", "first at", "finding")
_RIGHT = ("count",)
#: What a narrow terminal has no room for, the least first.
_LEAST = ("first at", "conn", "vb", "frames")
#: Of a list of numbers, so many entries are shown.
_SHOWN = 4


def table(totals: Iterable[RuleTotal]) -> Table:
    """Return a table of rules, each with its findings counted, and the first as an example."""
    found = list(totals)
    rows = [
        (
            each.example.severity.value,
            each.example.rule.code,
            f"{each.count:,}",
            _numbers(each.connections),
            _numbers(each.vbuckets),
            _frames(each),
            "" if each.example.ts_ns is None else clock(each.example.ts_ns),
            f"{each.example.rule.title}{', e.g. ' if each.count > 1 else ': '}{sentence(each.example)}",
        )
        for each in found
    ]
    return Table(_HEADS, rows, _RIGHT, _LEAST, [SEVERITY_KINDS[each.example.severity] for each in found])


def _numbers(numbers: Iterable[int]) -> str:
    """Return numbers as ranges, the first few, and how many there are if those are not all."""
    found = ranges(numbers)
    text = ",".join(each for each, _ in found[:_SHOWN])
    count = sum(count for _, count in found)
    return text if len(found) <= _SHOWN else f"{text},… ({count:,})"


def _frames(each: RuleTotal) -> str:
    first = each.example.frame
    return f"#{first}" if each.last == first else f"#{first}..{each.last}"
