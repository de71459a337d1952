"""The order of time across the directions of connections."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.streams.document_run import DocumentRun, Step
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.time_order import Order
from tests.support.conversation import packets, said, seen

(BLANK,) = (frame for frame in seen(packets(said("TX noop{}"))) if isinstance(frame, FrameEvent))


def at(second: float, direction: int) -> FrameEvent:
    """Return a frame of a direction at a time."""
    return BLANK._replace(ts_ns=int(second * 1e9), direction=direction)


def run(seconds: list[float], direction: int) -> DocumentRun:
    """Return documents of a direction that follow one another."""
    frames = [at(second, direction) for second in seconds]
    first, last = frames[0].ts_ns or 0, frames[-1].ts_ns or 0
    size = len(frames)
    return DocumentRun(
        0, size, BLANK.connection, direction, 0, 0, 0, 0, first, last, 1, size, size, (), 0, lambda: frames
    )


def times(steps: Sequence[Step]) -> list[tuple[float, int] | tuple[float, float, int]]:
    """Return when frames were seen, and of which direction they are; of runs the first and the last time."""
    return [
        (step.first_ns / 1e9, step.last_ns / 1e9, step.direction)
        if isinstance(step, DocumentRun)
        else ((step.ts_ns or 0) / 1e9, step.direction)
        for step in steps
    ]


def test_what_comes_in_order_is_passed_on_at_once() -> None:
    frames = [at(1, 0), at(2, 1)]
    assert Order().feed(frames, waiting=False, in_order=True) is frames


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


def test_a_run_stays_whole_beside_what_others_sent() -> None:
    elsewhere = at(2, 1)._replace(connection=BLANK.connection + 1)
    mixed: list[Step] = [run([1, 2, 3], 0), elsewhere, at(4, 1)]
    assert times(Order().feed(mixed, waiting=False, in_order=False)) == [(1, 3, 0), (2, 1), (4, 1)]


def test_a_run_is_taken_apart_where_the_other_direction_sent() -> None:
    mixed: list[Step] = [run([1, 2, 3], 0), at(2, 1)]
    assert times(Order().feed(mixed, waiting=False, in_order=False)) == [(1, 0), (2, 0), (2, 1), (3, 0)]


def test_of_two_runs_the_one_stays_whole_that_is_within_the_other() -> None:
    mixed: list[Step] = [run([1, 6], 0), run([2, 4], 1), run([3, 5], 0)]
    assert times(Order().feed(mixed, waiting=False, in_order=False)) == [(1, 0), (2, 4, 1), (6, 0), (3, 5, 0)]


def test_of_a_run_is_passed_on_what_is_old_enough() -> None:
    order = Order()
    mixed: list[Step] = [run([1, 2, 3], 0), at(4.5, 1)]
    assert times(order.feed(mixed, waiting=True, in_order=True)) == [(1, 0), (2, 0)]
    assert times(order.close()) == [(3, 0), (4.5, 1)]


def test_what_is_left_of_a_run_waits_among_the_others_by_its_time() -> None:
    order = Order()
    mixed: list[Step] = [run([1, 2, 5.2], 0), at(5, 1)]
    assert times(order.feed(mixed, waiting=True, in_order=True)) == [(1, 0), (2, 0)]
    assert times(order.close()) == [(5, 1), (5.2, 0)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), max_size=8), max_size=5), st.booleans())
def test_every_frame_comes_out_once_and_in_its_directions_order(
    batches: list[list[tuple[int, int]]], wait: bool
) -> None:
    order, came = Order(), list[FrameEvent]()
    gone: list[Step] = []
    for batch in batches:
        frames = [at(second, direction) for second, direction in batch]
        came += frames
        gone += order.feed(frames, waiting=wait, in_order=False)
    gone += order.close()
    for direction in (0, 1):
        assert [one for one in gone if one.direction == direction] == [
            one for one in came if one.direction == direction
        ]


def test_of_large_frames_fewer_wait() -> None:
    order = Order()
    frames = [at(1 + number / 1000, number % 2)._replace(length=1 << 20) for number in range(100)]
    passed = order.feed(frames, waiting=True, in_order=True)
    assert [*passed, *order.close()] == frames
    assert len(passed) == 100 - 55


def test_where_too_much_waits_more_than_that_is_passed_on_so_that_runs_are_seldom_taken_apart() -> None:
    order = Order()
    frames = [at(1 + number / 1000, number % 2)._replace(length=1 << 20) for number in range(80)]
    passed = [len(order.feed([frame], waiting=True, in_order=True)) for frame in frames]
    assert passed == [0] * 63 + [9] + [0] * 8 + [9] + [0] * 7


def test_of_frames_with_many_fields_fewer_wait() -> None:
    features = "|".join(str(feature) for feature in range(2048))
    (hello,) = (
        each for each in seen(packets(said(f"TX hello{{features={features}}}"))) if isinstance(each, FrameEvent)
    )
    assert hello.record is not None
    order = Order()
    frames = [hello._replace(ts_ns=number, direction=number % 2) for number in range(200)]
    passed = order.feed(frames, waiting=True, in_order=True)
    assert [*passed, *order.close()] == frames
    weight = 1 + hello.length // 256 + len(hello.record.frame.fields) + len(hello.record.frame.problems)
    assert len(frames) - len(passed) == 262_144 * 7 // 8 // weight


def test_frames_that_have_been_passed_on_no_longer_count() -> None:
    order = Order()
    large = [at(10 * number, number % 2)._replace(length=1 << 20) for number in range(1, 101)]
    passed = [step for frame in large for step in order.feed([frame], waiting=True, in_order=True)]
    assert passed == large[:-1]
    assert order.close() == large[-1:]


def test_what_comes_earlier_than_all_that_has_been_passed_on_waits_as_the_first_did() -> None:
    order = Order()
    (huge,) = order.feed([at(100, 0)._replace(length=1 << 27)], waiting=True, in_order=True)
    assert times([huge]) == [(100, 0)]
    assert times(order.feed([at(10, 1)], waiting=True, in_order=False)) == []
    assert times(order.close()) == [(10, 1)]
