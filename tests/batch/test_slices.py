"""Slices: blocks are fed whole, but where their frames are so tiny that the records of all would be large."""

from dcpdump.batch.block import blocks
from dcpdump.batch.dissection import Dissection
from dcpdump.batch.slices import MOST_FRAMES, Slicer
from dcpdump.wire.encode import encode
from tests.support.packets import TcpTalk


def frames_of_slices(frame: bytes, count: int) -> list[list[int]]:
    """Return, of each block of a capture with so many times one frame, how many frames each slice completed."""
    talk, slicer = TcpTalk(acks=False).send(1, frame * count), Slicer(Dissection())
    return [[sum(map(len, parts)) for parts in slicer.feed(block)] for block in blocks(talk.packets)]


def test_blocks_of_ordinary_frames_are_fed_whole_but_the_first() -> None:
    slices = frames_of_slices(encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=bytes(1000)), 8_000)
    assert [len(each) for each in slices] == [2, 1, 1, 1, 1]
    assert sum(map(sum, slices)) == 8_000


def test_a_slice_of_tiny_frames_has_no_more_frames_than_may_be_kept() -> None:
    tiny = encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k")
    slices = [count for each in frames_of_slices(tiny, 100_000) for count in each]
    assert sum(slices) == 100_000
    assert max(slices) <= MOST_FRAMES
