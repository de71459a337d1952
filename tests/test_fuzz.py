"""Damaged inputs by the thousand: nothing but the documented errors, nothing that takes long, no byte lost."""

import pytest

from tests.fuzz import Target, run, targets
from tests.support.legs import sizes

SEED = 20_251_120
TARGETS = targets()


def test_the_shares_of_the_targets_are_a_whole() -> None:
    assert sum(target.share for target in TARGETS.values()) == 100


@pytest.mark.parametrize("mutants", sizes(20_000, 100_000))
@pytest.mark.parametrize(("name", "target"), TARGETS.items(), ids=TARGETS)
def test_no_mutant_breaks(name: str, target: Target, mutants: int) -> None:
    failure = run(name, target, SEED, range(mutants * target.share // 100))
    assert failure is None, f"python -m tests.fuzz --replay {failure.name}\n{failure.why}"
