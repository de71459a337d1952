"""Input: the packets of captures as blocks; of a single plain pcap the short way, as far as that leads."""

from collections.abc import Iterator, Sequence
from itertools import islice

from dcpdump.capture import Capture, timeline
from dcpdump.columnar.block import Block, blocks
from dcpdump.columnar.pcap import PlainPcap


def blocks_of(captures: Sequence[Capture]) -> Iterator[Block]:
    """It gives the packets of all captures, as one timeline. A block is good until the next one is asked for."""
    packets = timeline(captures)
    if len(captures) == 1 and captures[0].rereadable:
        plain = PlainPcap(captures[0].name)
        yield from plain.blocks()
        if plain.ended:
            return
        packets = islice(packets, plain.packets, None)
    yield from blocks(packets)
