"""The two legs of the tests: what each change runs, and what ``pytest -m nightly`` runs."""

import pytest


def sizes(daily: int, nightly: int) -> list[object]:
    """Return two sizes for one test: a small one, and that at which only ``-m nightly`` runs it."""
    return [daily, pytest.param(nightly, marks=pytest.mark.nightly)]
