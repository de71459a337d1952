"""Matching two sequences of frames, whatever was dropped, repeated or put in another order."""

from collections import Counter
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcpdump.compare.capture_rows import ROW, CaptureRows
from dcpdump.compare.pairing import anchors, compared, rising

NUMBERS = st.lists(st.integers(0, 12), max_size=40)


def side_of(folder: str, numbers: list[int]) -> CaptureRows:
    """Return a capture of one direction, whose frames are these numbers."""
    side = CaptureRows(folder)
    table = np.zeros(len(numbers), ROW)
    table["hash"] = table["body"] = table["seqno"] = numbers
    table["offset"] = np.arange(len(numbers)) * 100
    if len(numbers):
        side.put(0, table)
    return side


def longest(a: list[int]) -> int:
    """Return the length of a longest rising subsequence, the slow way."""
    best: list[int] = []
    for at, number in enumerate(a):
        best.append(1 + max((best[before] for before in range(at) if a[before] < number), default=0))
    return max(best, default=0)


@given(st.permutations(range(9)))
def test_the_longest_rise_is_found(order: list[int]) -> None:
    pairs = rising(np.arange(len(order)), np.array(order))
    assert len(pairs) == longest(order)
    assert bool((np.diff(pairs.b) > 0).all())


@example(a=[0, 0, 0, 0, 0, 1, 0], b=[0, 0, 0, 1, 1, 0], window=1)  # equal frames, matched as messages at last
@given(a=NUMBERS, b=NUMBERS, window=st.sampled_from([1, 3, 8, 100]))
@settings(max_examples=150, deadline=None)
def test_a_frame_is_in_one_capture_only_as_often_as_it_is_there_more_often(
    a: list[int], b: list[int], window: int
) -> None:
    with TemporaryDirectory() as folder, side_of(folder, a) as first, side_of(folder, b) as second:
        way = compared(first, second, 0, 0, window)
    (only_a, _), (only_b, _) = way.only
    assert Counter(a[row] for row in only_a) == Counter(a) - Counter(b)
    assert Counter(b[row] for row in only_b) == Counter(b) - Counter(a)
    assert len(way.changed) == 0
    assert way.equal + way.moved == (Counter(a) & Counter(b)).total()


@given(count=st.integers(1, 300), gone=st.sets(st.integers(0, 299)), window=st.sampled_from([4, 16, 1000]))
@settings(max_examples=60, deadline=None)
def test_what_is_missing_in_b_is_found_whatever_the_window(count: int, gone: set[int], window: int) -> None:
    a = list(range(count))
    b = [each for each in a if each not in gone]
    with TemporaryDirectory() as folder, side_of(folder, a) as first, side_of(folder, b) as second:
        way = compared(first, second, 0, 0, window)
    assert (way.only[0][0].tolist(), way.only[1][0].tolist()) == (sorted(gone & set(a)), [])
    assert (way.equal, way.moved) == (len(b), 0)


def test_only_what_is_unique_is_an_anchor() -> None:
    a, b = np.array([1, 2, 2, 3], np.uint64), np.array([2, 1, 3, 3], np.uint64)
    pairs = anchors(a, b)
    assert (pairs.a.tolist(), pairs.b.tolist()) == ([0], [1])
