"""Stream queue: packets are yielded as they arrive, all of them, without waiting for the next."""

from collections.abc import Iterator
from threading import Event

import pytest

from dcpdump.capture.stream_queue import BUFFER_BYTES, StreamQueue
from dcpdump.net.packet import Packet


def packets(count: int, size: int = 100) -> list[Packet]:
    return [Packet(number, number, 1, bytes(size), size) for number in range(1, count + 1)]


def test_an_empty_batch_says_that_nothing_comes_just_now() -> None:
    first, last = packets(2)
    go_on = Event()

    def slowly() -> Iterator[Packet]:
        yield first
        go_on.wait()
        yield last

    given: list[Packet] = []
    for batch in StreamQueue(slowly()).batches():
        if given and not batch:
            go_on.set()
        given += batch
    assert given == [first, last]


def test_what_goes_wrong_is_raised_after_what_came_before() -> None:
    some = packets(3)

    def badly() -> Iterator[Packet]:
        yield from some
        raise OSError("the disk is gone")

    given: list[Packet] = []
    with pytest.raises(OSError, match="the disk is gone"):
        given.extend(packet for batch in StreamQueue(badly()).batches() for packet in batch)
    assert given == some


def test_all_packets_are_given_in_their_order_and_who_writes_is_slowed_down_when_too_much_waits() -> None:
    size = 1 << 16
    some = packets(300, size)
    batches = list(StreamQueue(some).batches())
    assert [packet for batch in batches for packet in batch] == some
    assert max(len(batch) * size for batch in batches) <= BUFFER_BYTES


def test_who_asks_no_more_ends_it() -> None:
    ended = Event()

    def endless() -> Iterator[Packet]:
        try:
            while True:
                yield from packets(1)
        finally:
            ended.set()

    for batch in StreamQueue(endless()).batches():
        if batch:
            break
    assert ended.wait(30)
