"""Digits: many texts at once have the digits that one alone has."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.batch.number_text import filled, of_day
from dcpdump.iso_time import iso_time

DAY_NS = 86_400 * 1_000_000_000


@given(st.integers(-3650, 36_500), st.lists(st.integers(0, DAY_NS // 1000 - 1), min_size=1), st.booleans())
def test_times_of_a_day_are_those_of_one_alone(day: int, micros: list[int], precise: bool) -> None:
    times = [micro * 1000 + (7 if precise else 0) for micro in micros]
    date, _, _ = iso_time(day * DAY_NS).partition("T")
    alone = [iso_time(day * DAY_NS + ns).encode() for ns in times]
    assert of_day(date, np.array(times, np.int64), precise) == alone


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1)), min_size=1))
def test_copies_of_a_text_have_their_own_numbers(numbers: list[tuple[int, int]]) -> None:
    long, short = (np.array(column, np.uint64) for column in zip(*numbers, strict=True))
    texts = filled("a 0x................ b ....", [(4, 8, long), (23, 2, short)], len(numbers))
    assert texts == [b"a 0x%016x b %04x" % pair for pair in numbers]
