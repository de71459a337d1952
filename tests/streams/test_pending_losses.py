"""Losses wait for the frame that begins behind them, in its direction."""

import pytest

from dcpdump.batch.block import blocks
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.part import Part, joined
from dcpdump.net.event import Gap, Seen
from dcpdump.record import Lost
from dcpdump.streams.dissection import piece_of
from dcpdump.streams.feed import PendingLosses
from dcpdump.streams.frame_event import UNKNOWN_LOSS, Before, Missed
from tests.support.conversation import opening, packets, said
from tests.support.pieces import all_pieces


@pytest.fixture
def part() -> Part:
    """The frames of a login, which are those of both directions."""
    dissection = Dissection()
    captured = packets(said(opening()))
    return joined([part for block in blocks(captured) for part in all_pieces(dissection.feed_block(block))])


def lost(part: Part, row: int, past: int, length: int | None) -> Lost:
    """Return a loss in the direction of a row, so many bytes past its beginning."""
    gap = Gap(int(part.offset[row]) + past, length, "", Seen(1, None))
    return Lost(part.directions[int(part.direction[row])], gap, (gap,))


def test_a_loss_of_unknown_size_stands_before_the_frame_that_begins_there(part: Part) -> None:
    for row in (0, len(part) - 1):
        pending = PendingLosses()
        pending.add([lost(part, row, 0, None)])
        assert pending.before(piece_of(part)) == {row: Before(UNKNOWN_LOSS, Missed(gaps=1, unknown=1))}
        assert pending.pop() == []


def test_a_loss_behind_all_frames_waits(part: Part) -> None:
    pending, behind = PendingLosses(), [lost(part, len(part) - 1, 1, 5), lost(part, len(part) - 2, 1, 7)]
    pending.add(behind)
    assert (pending.before(piece_of(part)), pending.pop()) == ({}, behind)
