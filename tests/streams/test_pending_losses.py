"""Losses wait for the frame that begins behind them, in its direction."""

import pytest

from dcpdump.batch.block import blocks
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.frame_batch import FrameBatch, joined
from dcpdump.net.event import Gap, Seen
from dcpdump.record import Lost
from dcpdump.streams.dissection import piece_of
from dcpdump.streams.feed import PendingLosses
from dcpdump.streams.frame_event import UNKNOWN_LOSS, Before, Missed
from tests.support.conversation import opening, packets, said
from tests.support.pieces import all_pieces


@pytest.fixture
def batch() -> FrameBatch:
    """The frames of a login, which are those of both directions."""
    dissection = Dissection()
    captured = packets(said(opening()))
    return joined([batch for block in blocks(captured) for batch in all_pieces(dissection.feed_block(block))])


def lost(batch: FrameBatch, row: int, past: int, length: int | None) -> Lost:
    """Return a loss in the direction of a row, so many bytes past its beginning."""
    gap = Gap(int(batch.offset[row]) + past, length, "", Seen(1, None))
    return Lost(batch.directions[int(batch.direction[row])], gap, (gap,))


def test_a_loss_of_unknown_size_stands_before_the_frame_that_begins_there(batch: FrameBatch) -> None:
    for row in (0, len(batch) - 1):
        pending = PendingLosses()
        pending.add([lost(batch, row, 0, None)])
        assert pending.before(piece_of(batch)) == {row: Before(UNKNOWN_LOSS, Missed(gaps=1, unknown=1))}
        assert pending.pop() == []


def test_a_loss_behind_all_frames_waits(batch: FrameBatch) -> None:
    pending, behind = PendingLosses(), [lost(batch, len(batch) - 1, 1, 5), lost(batch, len(batch) - 2, 1, 7)]
    pending.add(behind)
    assert (pending.before(piece_of(batch)), pending.pop()) == ({}, behind)
