"""The order of time across the directions of connections: how much waits for it, at most."""

from dcpdump.streams.feed import Order
from dcpdump.streams.frame_event import FrameEvent
from tests.support.conversation import packets, said, seen

(BLANK,) = (frame for frame in seen(packets(said("TX noop{}"))) if isinstance(frame, FrameEvent))


def at(second: float, direction: int) -> FrameEvent:
    """Return a frame of a direction at a time."""
    return BLANK._replace(ts_ns=int(second * 1e9), direction=direction)


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
    assert huge == at(100, 0)._replace(length=1 << 27)
    assert order.feed([at(10, 1)], waiting=True, in_order=False) == []
    assert order.close() == [at(10, 1)]
