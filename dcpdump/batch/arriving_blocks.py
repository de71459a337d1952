"""Blocks of a plain pcap whose bytes are there once: they arrive through a pipe, or are decompressed.

Only what every well-made file has is read here; the capture's own reader goes on behind it.
"""

from collections.abc import Iterator

from dcpdump.batch.block import Block, BlockSize
from dcpdump.batch.pcap_blocks import plain_block
from dcpdump.capture import Capture

#: Seconds of each wait for an input that brings nothing.
_IDLE_S = 0.1


def arriving_blocks(capture: Capture, size: int | BlockSize) -> Iterator[Block | None]:
    """Yield the packets of a plain pcap as they arrive, up to the first that is not plain; None while nothing comes."""
    begun = capture.begin_plain()
    if begun is None:
        return
    window, header = begun
    sizes = BlockSize.of(size)
    want, seconds = sizes.take(), None
    while True:
        window.gather(want)  # at first there may be records behind the header that was read
        found = plain_block(window.data, header, seconds, capture.health.packets, capture.name)
        window.at, seconds = found.used, found.seconds
        if found.block is not None:
            capture.passed(len(found.block), seconds)
            yield found.block
        # The next record may be larger than a block; more than it needs is not asked for, however slowly it comes.
        want = len(window.data) + sizes.usual if found.block is None else sizes.take()
        if not found.plain or (window.ended and found.block is None):
            return
        if not window.ready(0):
            yield None
            while not window.ready(_IDLE_S):
                yield None
