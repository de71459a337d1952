"""Input: the packets of captures as blocks; of plain pcap files the short way, as far as one follows the other."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from dcpdump.batch.block import BLOCK_BYTES, Block, BlockPlace, BlockSize, PacketsPlace, PcapPlace, blocks, gathered
from dcpdump.batch.pcap_blocks import PlainPcap, plain_block
from dcpdump.capture import Capture, timeline
from dcpdump.capture.damage import Health
from dcpdump.capture.file import packets_from
from dcpdump.capture.merge import begin
from dcpdump.capture.plain_pcap import PlainRun
from dcpdump.capture.section import DISORDER
from dcpdump.capture.stream_queue import StreamQueue
from dcpdump.net.limits import IN_ORDER, OUT_OF_ORDER
from dcpdump.net.packet import Packet

#: Seconds of each wait for an input that brings nothing.
_IDLE_S = 0.1


def blocks_of(captures: Sequence[Capture], size: int | BlockSize = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the packets of all captures, as one timeline, in blocks of about ``size`` bytes."""
    for block in _blocks_of(captures, size):
        block.carved = carved(capture.health for capture in captures)
        yield block


def carved(healths: Iterable[Health]) -> dict[str, int]:
    """Return those of captures, read in part or whole, that hold chosen packets only: IN_ORDER or OUT_OF_ORDER."""
    said = {each.file: each.carved for each in healths if each.carved}
    return {name: OUT_OF_ORDER if text.endswith(DISORDER) else IN_ORDER for name, text in said.items()}


def _blocks_of(captures: Sequence[Capture], size: int | BlockSize) -> Iterator[Block]:
    if isinstance(size, int):
        # The first block is large: what malloc has seen free in that size, it keeps for all that follow.
        size = BlockSize(size, first=BLOCK_BYTES)
    queue = sorted(captures, key=begin) if len(captures) > 1 else list(captures)
    while queue and (len(queue) == 1 or queue[0].rereadable):
        capture, *others = queue
        until = begin(others[0]) if others else None
        found = _of_one(capture, size)
        for block in found:
            if until is not None and (max(block.batch.times), capture.name) >= until:  # the next file has begun
                left = (packet for each in chain([block], found) for packet in each.packets)
                yield from blocks(timeline(queue, left=left), size)
                return
            yield block
        queue = others
    if queue:
        yield from blocks(timeline(queue), size)


def _of_one(capture: Capture, size: BlockSize) -> Iterator[Block]:
    """Yield the packets of one capture, what is plain of it the short way. Each byte is read once."""
    if capture.place is None:
        yield from (block for block in arriving_blocks(capture, size) if block is not None)
        yield from blocks(_remaining(capture), size)
        return
    plain = PlainPcap(capture.name)
    yield from plain.blocks(size)
    if plain.ended:
        return
    capture.enter(plain.at, plain.packets, plain.seconds)
    place = capture.place
    for block in blocks(_remaining(capture), size):
        block.place = None if place is None else PacketsPlace(place, len(block))
        place = capture.place
        yield block


def read_again(place: BlockPlace) -> Block | None:
    """Return a block that was read before; None where its file is not what it was. Raises CaptureError, OSError."""
    if isinstance(place, PcapPlace):
        return PlainPcap(place.path).read_again(place)
    packets = list(islice(packets_from(place.begins), place.packets))
    return gathered(packets) if len(packets) == place.packets else None


def _remaining(capture: Capture) -> Iterator[Packet | PlainRun]:
    """Yield the packets of one capture that were not read yet, those in runs that were read at once."""
    try:
        yield from capture.runs()
    finally:
        capture.close()


def arriving_blocks(capture: Capture, size: int | BlockSize) -> Iterator[Block | None]:
    """Yield the packets of a plain pcap as they arrive, up to the first that is not plain; None while nothing comes.

    Its bytes are there once: they come through a pipe, or are decompressed. The capture's own reader goes on behind.
    """
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


def blocks_as_they_come(captures: Sequence[Capture]) -> Iterator[Block | None]:
    """Yield the packets of inputs that may still be written, as one timeline; None whenever nothing comes."""
    packets = timeline(captures)
    if arrives_plain(captures):
        yield from arriving_blocks(captures[0], BLOCK_BYTES)
        packets = captures[0].remaining()
    for batch in StreamQueue(packets).batches():
        block = gathered(batch) if batch else None
        if block is not None:
            block.carved = carved(capture.health for capture in captures)
        yield block


def arrives_plain(captures: Sequence[Capture]) -> bool:
    """Return whether an input that may still be written is one plain pcap, which is read without a thread."""
    return len(captures) == 1 and captures[0].arrives_plain
