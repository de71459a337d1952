"""A rule reads, and changes nothing: any subset of the rules finds what it finds among all of them."""

import ast
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.check import rules
from dcpdump.check.finding import Finding
from dcpdump.check.rules import RULES
from tests.support.check_cases import CASES
from tests.support.conversation import findings_of, packets, said
from tests.support.healthy import HEALTHY

TALKS = {**{id: case.trips for id, case in CASES.items()}, **HEALTHY}
#: What changes what it is called on.
CHANGES = frozenset(
    "add append appendleft clear discard extend insert pop popitem popleft remove setdefault update".split()
)
PAGES = sorted(Path(rules.__file__).parent.glob("*.py"))


def of(found: list[Finding], codes: set[str]) -> list[tuple[str, str, str, int, int | None, str]]:
    """Return what rules found, without which other rules were asked."""
    return sorted(
        (each.rule.code, each.severity.value, each.message, each.frame, each.vbucket, each.reason)
        for each in found
        if each.rule.code in codes
    )


@pytest.mark.parametrize("name", TALKS)
def test_a_rule_alone_finds_what_it_finds_among_all(name: str) -> None:
    captured = packets(said(TALKS[name]))
    everything = findings_of(captured)
    for rule in {each.rule for each in everything}:
        assert of(findings_of(captured, [rule]), {rule.code}) == of(everything, {rule.code})
    without = [rule for rule in RULES if rule.id != name]
    codes = {rule.code for rule in without}
    assert of(findings_of(captured, without), codes) == of(everything, codes)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(TALKS)), seed=st.integers(0, 1 << 20), data=st.data())
def test_any_rules_find_what_they_find_among_all_of_torn_captures_too(
    name: str, seed: int, data: st.DataObject
) -> None:
    captured = packets(said(TALKS[name]), 100)
    chance = random.Random(seed)
    order = sorted(range(len(captured)), key=lambda at: at + chance.random() * chance.choice((0, 3)))
    torn = [captured[at] for at in order if chance.random() > 0.05]
    some = data.draw(st.sets(st.sampled_from(RULES), min_size=1))
    codes = {rule.code for rule in some}
    assert of(findings_of(torn, some), codes) == of(findings_of(torn), codes)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_rule_assigns_to_what_it_is_given(path: Path) -> None:
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef):
            continue
        given = {argument.arg for argument in function.args.args}
        for node in ast.walk(function):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            changed: list[ast.expr] = [each for each in targets if isinstance(each, (ast.Attribute, ast.Subscript))]
            if isinstance(node, ast.Delete):
                changed = node.targets
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                changed = [node.func]
            for target in changed:
                names = {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
                assert not names & given, f"{path.name}:{target.lineno} {function.name} changes what it is given"
