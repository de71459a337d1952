"""Damaged inputs by the thousand, runs that are disturbed at random, and what is compiled as it is written."""

import subprocess
import sys

import pytest

from tests.chaos import main
from tests.fuzz import Target, failures, targets
from tests.support.legs import sizes

SEED = 20_251_120
TARGETS = targets()


def test_the_shares_of_the_targets_are_a_whole() -> None:
    assert sum(target.share for target in TARGETS.values()) == 100


@pytest.mark.parametrize("mutants", sizes(10_000, 100_000))
@pytest.mark.parametrize(("name", "target"), TARGETS.items(), ids=TARGETS)
def test_no_mutant_breaks(name: str, target: Target, mutants: int) -> None:
    failure = next(failures(name, target, SEED, range(mutants * target.share // 100)), None)
    assert failure is None, f"python -m tests.fuzz --replay {failure.name}\n{failure.why}"


@pytest.mark.parametrize(
    ("runs", "minutes"), [(10, 0), pytest.param(None, 10, marks=pytest.mark.nightly)], ids=["10 runs", "10 minutes"]
)
def test_a_disturbed_run_ends_with_a_documented_code_and_leaves_nothing_behind(runs: int | None, minutes: int) -> None:
    assert main(1, minutes, runs) == 0  # what was wrong is printed


#: Tests that pass through all modules that are compiled, but for those that take long.
_CORE = "test_docs net/test_bytestream net/test_connections wire/test_json_scan wire/test_split"
_CORE += " net/test_ahead net/test_ip net/test_reassembly net/test_tcp"
_LONG = "not (continues_from_its_state or seen_to_be_json or pictures)"
CORE = [*(f"tests/{name}.py" for name in _CORE.split()), "-k", _LONG]


@pytest.mark.parametrize("words", [CORE, pytest.param(["-n", "auto"], marks=pytest.mark.nightly)], ids=["core", "all"])
def test_the_tests_pass_where_nothing_is_compiled(words: list[str]) -> None:
    pytest_ = [sys.executable, "-m", "pytest", "-q", "--interpreted", "-p", "no:cacheprovider", *words]
    done = subprocess.run(pytest_, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
