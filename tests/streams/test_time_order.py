"""The order of time across the directions of connections."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.streams.document_run import DocumentRun, Step
from dcpdump.streams.feed import Order
from dcpdump.streams.frame_event import FrameEvent
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


ELSEWHERE = at(2, 1)._replace(connection=BLANK.connection + 1)
#: Steps, whether a request may still come, and what is passed on at once and at the end.
CASES: dict[str, tuple[list[Step], bool, list[Any], list[Any]]] = {
    "nothing waits longer than a hole does": ([at(1, 0), at(2, 1), at(4, 1)], True, [(1, 0)], [(2, 1), (4, 1)]),
    "within a direction nothing changes places": ([at(5, 0), at(2, 0), at(3, 1)], False, [(3, 1), (5, 0), (2, 0)], []),
    "a run stays whole beside what others sent": (
        [run([1, 2, 3], 0), ELSEWHERE, at(4, 1)], False, [(1, 3, 0), (2, 1), (4, 1)], []),
    "a run is taken apart where the other direction sent": (
        [run([1, 2, 3], 0), at(2, 1)], False, [(1, 0), (2, 0), (2, 1), (3, 0)], []),
    "of two runs the one stays whole that is within the other": (
        [run([1, 6], 0), run([2, 4], 1), run([3, 5], 0)], False, [(1, 0), (2, 4, 1), (6, 0), (3, 5, 0)], []),
    "of a run is passed on what is old enough": (
        [run([1, 2, 3], 0), at(4.5, 1)], True, [(1, 0), (2, 0)], [(3, 0), (4.5, 1)]),
    "what is left of a run waits among the others by its time": (
        [run([1, 2, 5.2], 0), at(5, 1)], True, [(1, 0), (2, 0)], [(5, 1), (5.2, 0)]),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "waiting", "passed", "rest"), CASES.values(), ids=CASES)
def test_steps_are_put_in_order(steps: list[Step], waiting: bool, passed: list[Any], rest: list[Any]) -> None:
    order = Order()
    assert times(order.feed(steps, waiting=waiting, in_order=waiting)) == passed
    assert times(order.close()) == rest


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
