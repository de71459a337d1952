"""Slices of blocks: as many packets at once as do not bring too many frames, whose records are kept together."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, overload

from dcpdump.batch.block import Block
from dcpdump.net.packet import Packet

if TYPE_CHECKING:
    from dcpdump.batch.dissector import BlockDissector, P

#: Frames of a slice, about. A frame that is decoded by itself uses some 3 KB until its slice is done.
MOST_FRAMES = 16_384
#: Blocks of fewer bytes are not sliced, and this is what a slice has before it is known how many frames that brings.
WHOLE_BYTES = 1024 * 1024


def pieces_of(dissection: "BlockDissector[P]", block: Block) -> "Iterator[list[P]]":
    """Feed a dissection a block, in slices where its frames are tiny, and yield the pieces that each completes."""
    count, size = len(block), block.batch.ends[-1] - block.batch.starts[0] if len(block) else 0
    if size < WHOLE_BYTES:
        yield dissection.feed_block(block)
        return
    at, step = 0, max(1, count * (WHOLE_BYTES // 4) // size)
    while at < count:
        before = dissection.next_frame
        yield dissection.feed_block(cut(block, at, at + step) if at or step < count else block)
        at += step
        made = dissection.next_frame - before
        step = max(1, min(count, step * MOST_FRAMES // made)) if made else count


def cut(block: Block, at: int, stop: int) -> Block:
    """Return the packets ``at`` … ``stop``-1 of a block."""
    batch = block.batch
    rows = slice(at, stop)
    columns = {name: getattr(batch, name)[rows] for name in ("starts", "ends", "links", "numbers", "times", "file")}
    return Block(replace(batch, **columns), _Window(block.packets, range(at, min(stop, len(block)))))


class _Window(Sequence[Packet]):
    """Some of the packets of a block, each made when it is looked at."""

    def __init__(self, packets: Sequence[Packet], rows: range) -> None:
        self._packets, self._rows = packets, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Packet: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Packet]: ...

    def __getitem__(self, index: int | slice) -> Packet | Sequence[Packet]:
        if isinstance(index, slice):
            return [self._packets[row] for row in self._rows[index]]
        return self._packets[self._rows[index]]
