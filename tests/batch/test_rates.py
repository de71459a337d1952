"""Rates: how many messages of a stream came when, in equal steps of a time."""

from collections.abc import Sequence
from functools import partial

import pytest

from dcpdump.batch.block import blocks
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.traffic_over_time import Rates
from dcpdump.wire.encode import encode
from tests.support.packets import NOON, TcpTalk
from tests.test_bounds import steps

MS = 1_000_000


def rates(times: Sequence[int], vbuckets: Sequence[int], *, at_once: bool = True) -> Rates:
    """Return the rates of documents that come so many ns after noon. Not ``at_once``: each in a block of its own."""
    talk = TcpTalk(acks=False).send(1, encode("DCP_NOOP"))
    opening = len(talk.packets)
    for seqno, vbucket in enumerate(vbuckets, 1):
        talk.send(1, encode("DCP_MUTATION", {"by_seqno": seqno}, key=b"key", value=b"{}", vbucket=vbucket))
    packets = [
        packet._replace(ts_ns=NOON + (0 if number < opening else times[number - opening]))
        for number, packet in enumerate(talk.packets)
    ]
    found, dissection = Rates(), Dissection()
    for block in blocks(packets, 1 << 20 if at_once else 1):
        for parts in dissection.feed_block(block):
            for part in parts:
                found.feed(part)
    return found


@pytest.mark.parametrize("at_once", [True, False])
def test_messages_are_counted_in_the_step_in_which_they_came(at_once: bool) -> None:
    times = [20, 100, 230, 510, 520, 600, 700, 740, 990]  # ms
    found = rates([ms * MS for ms in times], [7, 7, 7, 7, 9, 7, 9, 7, 7], at_once=at_once)
    assert found.of(0, 7 << 16, NOON, NOON + 1_000 * MS - 1, 4) == [3, 0, 3, 1]
    assert found.of(0, 9 << 16, NOON, NOON + 1_000 * MS - 1, 4) == [0, 0, 2, 0]
    assert found.of(0, 8 << 16, NOON, NOON + 1_000 * MS - 1, 4) == [0, 0, 0, 0]


def test_messages_of_an_hour_are_counted_in_larger_steps_and_none_is_lost() -> None:
    hour = 3_600_000 * MS
    found = rates([hour * (2 * number + 1) // 200 for number in range(100)], [7] * 100, at_once=False)
    assert found.of(0, 7 << 16, NOON, NOON + hour - 1, 10) == [10] * 10


def test_streams_that_are_known_add_no_work_to_a_part() -> None:
    rates([0], [7])  # what is made once is made now
    once, twice, four = (steps(partial(rates, range(n), range(n), at_once=False)) for n in (40, 80, 160))
    assert four - twice <= 2.2 * (twice - once)


def test_of_more_streams_than_are_kept_those_are_forgotten_that_were_silent_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpdump.batch.traffic_over_time._MOST_STREAMS", 2)
    found = rates(range(4), [7, 8, 7, 9], at_once=False)
    assert [sum(found.of(0, vbucket << 16, NOON, NOON + MS, 1)) for vbucket in (7, 8, 9)] == [2, 0, 1]


def test_what_came_in_the_step_of_the_beginning_is_of_the_first_and_after_the_end_of_none() -> None:
    found = rates([0, 900 * MS], [7, 7])
    assert found.of(0, 7 << 16, NOON + 1, NOON + 500 * MS, 2) == [1, 0]
