"""All that a dissection yields, as one list."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from dcpdump.batch.block import BLOCK_BYTES, blocks
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.net.packet import Packet
from dcpdump.streams.feed import Feed
from dcpdump.streams.frame_event import Step, one_by_one

P = TypeVar("P")


def all_pieces(some: Iterable[list[P]]) -> list[P]:
    """Return the pieces of all lists that a dissection yields, each of which is emptied when the next comes."""
    return [piece for pieces in some for piece in pieces]


def fed(dissection: Any, packets: Iterable[Packet], size: int = BLOCK_BYTES) -> Iterator[list[Any]]:
    """Yield the lists that a dissection yields of packets, in blocks of ``size`` bytes, to its end."""
    for block in blocks(packets, size):
        yield from dissection.feed_block(block)
    yield from dissection.close_blocks()


def told(feed: Feed, dissection: Any, captured: Iterable[Packet], *, runs: bool = False) -> Iterator[Step]:
    """Yield what a feed tells of captured packets to their end: frame by frame, or with runs of documents."""
    for batches in fed(dissection, captured):
        for step in feed.steps(batches):
            yield from (step,) if runs else one_by_one(step)
    yield from feed.rest()


def parts_of(packets: Iterable[Packet], size: int = BLOCK_BYTES, *, show_secrets: bool = False) -> list[FrameBatch]:
    """Return the frames of packets, which are dissected in blocks of ``size`` bytes."""
    return all_pieces(fed(Dissection(show_secrets=show_secrets), packets, size))
