"""The history of a direction: the last bytes delivered, however they were added."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from dcpdump.net.retransmit_window import OVERHEAD, Kept, RetransmitWindow

SIZES = st.lists(st.integers(0, 900), max_size=30)


def pieces_of(sizes: list[int], offset: int) -> list[Kept]:
    """Return pieces of these sizes that follow one another."""
    starts = list(accumulate(sizes, initial=offset))[:-1]
    return [(start, bytes([size % 256]) * size, size) for start, size in zip(starts, sizes, strict=True)]


@given(st.integers(0, 4000), SIZES, SIZES)
def test_many_pieces_are_remembered_as_one_after_the_other(limit: int, before: list[int], sizes: list[int]) -> None:
    one_by_one, at_once = RetransmitWindow(limit), RetransmitWindow(limit)
    for history in (one_by_one, at_once):
        for piece in pieces_of(before, 0):
            history.add(*piece)
    pieces = pieces_of(sizes, sum(before))
    for piece in pieces:
        one_by_one.add(*piece)
    costs = list(accumulate((size + OVERHEAD for size in sizes), initial=0))
    at_once.extend(len(pieces), costs.__getitem__, lambda first: pieces[first:])
    assert (at_once._pieces, at_once.size) == (one_by_one._pieces, one_by_one.size)
