"""Runs that are disturbed at random end as they may: :mod:`tests.chaos`."""

import pytest

from tests.chaos import main


@pytest.mark.parametrize(
    ("runs", "minutes"), [(30, 0), pytest.param(None, 10, marks=pytest.mark.nightly)], ids=["30 runs", "10 minutes"]
)
def test_a_disturbed_run_ends_with_a_documented_code_and_leaves_nothing_behind(runs: int | None, minutes: int) -> None:
    assert main(1, minutes, runs) == 0  # what was wrong is printed
