"""Serial numbers: everything is relative, and the wrap at 2³² is nowhere special."""

from hypothesis import given
from hypothesis import strategies as st

from dcpdump.net.tcp import advance, distance

NUMBERS = st.integers(0, (1 << 32) - 1)
STEPS = st.integers(-(1 << 31), (1 << 31) - 1)


def test_the_number_after_the_last_is_zero() -> None:
    assert advance(0xFFFFFFFF, 1) == 0
    assert distance(0xFFFFFFFF, 0) == 1


@given(NUMBERS, STEPS)
def test_distance_undoes_advance(origin: int, steps: int) -> None:
    assert distance(origin, advance(origin, steps)) == steps


@given(NUMBERS, NUMBERS, NUMBERS)
def test_distances_do_not_depend_on_where_counting_starts(origin: int, seq: int, shift: int) -> None:
    assert distance(advance(origin, shift), advance(seq, shift)) == distance(origin, seq)
