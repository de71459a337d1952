"""Slices of blocks: as many packets at once as do not bring too many frames, whose records are kept together."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from dcpdump.batch.block import Block
from dcpdump.batch.packet_sequence import PacketSlice

if TYPE_CHECKING:
    from dcpdump.batch.dissector import BlockDissector

P = TypeVar("P")

#: Frames of a slice, about. A frame that is decoded by itself uses some 3 KB until its slice is done.
MOST_FRAMES = 16_384
#: What the first slice has.
_FIRST_BYTES = 256 * 1024


class Slicer(Generic[P]):
    """Feeds blocks to a dissection: whole, or in slices where the bytes before had very many frames."""

    def __init__(self, dissection: "BlockDissector[P]") -> None:
        self._dissection = dissection
        self._most = _FIRST_BYTES  # bytes of a slice

    def feed(self, block: Block) -> Iterator[list[P]]:
        """Feed a block, and yield the pieces that each slice of it completes."""
        dissection, count = self._dissection, len(block)
        size = block.batch.ends[-1] - block.batch.starts[0] if count else 0
        at = 0
        while at < count:
            left = size * (count - at) // count
            slices = max(1, -(-left // self._most))
            step = -(-(count - at) // slices)
            before = dissection.next_frame
            yield dissection.feed_block(cut(block, at, at + step) if step < count else block)
            made = dissection.next_frame - before
            self._most = max(1, (left // slices) * MOST_FRAMES // max(made, 1))
            at += step


def cut(block: Block, at: int, stop: int) -> Block:
    """Return the packets ``at`` … ``stop``-1 of a block."""
    batch = block.batch
    rows = slice(at, stop)
    columns = {name: getattr(batch, name)[rows] for name in ("starts", "ends", "links", "numbers", "times", "file")}
    return Block(replace(batch, **columns), PacketSlice(block.packets, range(at, min(stop, len(block)))))
