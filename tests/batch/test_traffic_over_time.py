"""TrafficOverTime: whatever the times and sizes of frames, each is counted once, in its step."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.batch import traffic_over_time
from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.traffic_over_time import STEPS, Axis, Grid, Kind, TrafficOverTime
from tests.support.conversation import opening, packets, said
from tests.support.pieces import parts_of


def batches(text: str) -> list[FrameBatch]:
    return parts_of(packets(said(text)))


def traffic(text: str) -> tuple[TrafficOverTime, Sequence[FrameBatch]]:
    found, seen = TrafficOverTime(), batches(text)
    for batch in seen:
        found.feed(batch)
    return found, seen


TALK = opening() + (
    "STREAM vb=5\nRX snapshot-marker{start=0, end=3, flags=0x5}\nRX mutation{seqno:1}\nWAIT 40\nRX mutation{seqno:2}\n"
    "STREAM vb=7\nRX snapshot-marker{start=0, end=9, flags=0x5}\nRX mutation{seqno:8}\nWAIT 100\nRX mutation{seqno:9}\n"
)


def test_the_sum_of_a_lane_is_the_bytes_of_all_frames() -> None:
    found, seen = traffic(TALK)
    assert int(found.bytes_of(0).sum()) == sum(int(batch.length.sum()) for batch in seen)


def test_a_step_may_have_more_than_four_gigabytes() -> None:
    found, seen = TrafficOverTime(), batches(TALK)
    for batch in seen:
        found.feed(replace(batch, length=batch.length + (3 << 30)))
    assert int(found.bytes_of(0).sum()) == sum(int(batch.length.sum()) + (len(batch) * 3 << 30) for batch in seen)


def test_messages_and_seqnos_are_counted_by_stream() -> None:
    found, _ = traffic(TALK)
    five, seven, nine = (0, 5, 0), (0, 7, 0), (0, 9, 0)
    assert [int(found.messages_of([each]).sum()) for each in (five, seven, nine)] == [3, 3, 0]
    alone = [found.messages_of([each]).tolist() for each in (five, seven)]
    assert found.messages_of([five, seven, nine]).tolist() == [sum(each) for each in zip(*alone, strict=True)]
    assert [seqno for seqno in found.seqno((0, 5, 0)).tolist() if seqno] == [1, 2]
    assert [seqno for seqno in found.seqno((0, 7, 0)).tolist() if seqno] == [8, 9]
    assert not found.seqno((0, 9, 0)).any()


def test_what_came_later_is_in_a_later_step() -> None:
    found, _ = traffic(TALK)
    first, last = np.flatnonzero(found.messages_of([(0, 7, 0)]))[[0, -1]].tolist()
    assert 99 <= (last - first) * found.axis.step_ns / 1e9 <= 101


def test_connections_beyond_those_with_a_row_of_their_own_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = "".join(f"CONNECT 10.0.0.1:5000{at} 10.0.0.2:11210\n{opening(name='n' * at)}" for at in range(1, 5))
    plenty, _ = traffic(talk)
    monkeypatch.setattr(traffic_over_time, "CONNECTIONS", 2)
    found, _ = traffic(talk)
    assert [found.has_row(number) for number in range(4)] == [True, True, False, False]
    assert [plenty.has_row(number) for number in range(5)] == [True] * 5
    assert found.bytes_of(0).tolist() == plenty.bytes_of(0).tolist()
    rest = plenty.bytes_of(2) + plenty.bytes_of(3)
    assert found.added_up([2, 3]).tolist() == plenty.added_up([2, 3]).tolist() == rest.tolist()
    assert found.added_up([1, 2, 3]).tolist() == (plenty.bytes_of(1) + rest).tolist()
    assert int(rest.sum()) > 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**13), st.integers(0, 1000)), min_size=1, max_size=40))
def test_sums_and_maxima_survive_whatever_doubling(rows: list[tuple[int, int, int]]) -> None:
    sums, most, last = Grid(Kind.SUM), Grid(Kind.MOST), Grid(Kind.LAST)
    axis = Axis(sums, most, last)
    for row, ts_ns, value in rows:
        axis.cover(ts_ns, ts_ns)
        place = np.array([row]), axis.steps(np.array([ts_ns])), np.array([value])
        for grid in (sums, most, last):
            grid.put(*place)
    assert axis.used <= STEPS
    assert (last.cells <= most.cells).all()
    assert ((last.cells > 0) | (sums.cells == 0) | (most.cells > 0)).all()
    for row in range(4):
        mine = [value for each, _, value in rows if each == row]
        assert int(sums.cells[row].sum()) == sum(mine)
        assert int(most.cells[row].max()) == max(mine, default=0)


def test_a_capture_of_one_instant_has_one_step() -> None:
    axis = Axis()
    axis.cover(77, 77)
    assert (axis.used, axis.steps(np.array([77])).tolist(), axis.begins_ns(0)) == (1, [0], 77)
