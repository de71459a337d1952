"""The order of time across the directions of connections."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.streams.order import Order
from dcpdump.streams.sight import Sight
from tests.conversation import packets, said, seen

(BLANK,) = (sight for sight in seen(packets(said("TX noop{}"))) if isinstance(sight, Sight))


def at(second: float, direction: int) -> Sight:
    """A frame of a direction at a time."""
    return BLANK._replace(ts_ns=int(second * 1e9), direction=direction)


def times(sights: list[Sight]) -> list[tuple[float, int]]:
    """It gives when frames were seen, and of which direction they are."""
    return [((sight.ts_ns or 0) / 1e9, sight.direction) for sight in sights]


def test_what_comes_in_order_goes_on_at_once() -> None:
    sights = [at(1, 0), at(2, 1)]
    assert Order().feed(sights, waiting=False, in_order=True) is sights


def test_an_answer_waits_for_its_request() -> None:
    order = Order()
    assert times(order.feed([at(1, 0), at(3, 1)], waiting=True, in_order=True)) == []
    assert times(order.feed([at(2, 0), at(4, 0)], waiting=False, in_order=False)) == [(1, 0), (2, 0), (3, 1), (4, 0)]


def test_nothing_waits_longer_than_a_hole_does() -> None:
    order = Order()
    assert times(order.feed([at(1, 0), at(2, 1), at(4, 1)], waiting=True, in_order=True)) == [(1, 0)]
    assert times(order.close()) == [(2, 1), (4, 1)]


def test_within_a_direction_nothing_changes_places() -> None:
    order = Order()
    mixed = [at(5, 0), at(2, 0), at(3, 1)]
    assert times(order.feed(mixed, waiting=False, in_order=False)) == [(3, 1), (5, 0), (2, 0)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), max_size=8), max_size=5), st.booleans())
def test_every_frame_comes_out_once_and_in_its_directions_order(
    batches: list[list[tuple[int, int]]], wait: bool
) -> None:
    order, came, gone = Order(), [], []
    for batch in batches:
        sights = [at(second, direction) for second, direction in batch]
        came += sights
        gone += order.feed(sights, waiting=wait, in_order=False)
    gone += order.close()
    for direction in (0, 1):
        assert [one for one in gone if one.direction == direction] == [
            one for one in came if one.direction == direction
        ]
