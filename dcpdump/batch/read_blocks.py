"""Input: the packets of captures as blocks; of plain pcap files the short way, as far as one follows the other."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import NamedTuple

from dcpdump.batch.block import (
    BLOCK_BYTES,
    Block,
    BlockPlace,
    BlockSize,
    Packets,
    PacketsPlace,
    PcapPlace,
    blocks,
    gathered,
)
from dcpdump.capture import Capture, timeline
from dcpdump.capture.damage import Health
from dcpdump.capture.file import begin, packets_from
from dcpdump.capture.pcap import DISORDER, HEADER_SIZE, MAGICS, PACKET_USUAL, PCAPNG_MAGIC, PcapHeader
from dcpdump.capture.plain_pcap import SIZE, PlainRun, Records, is_plain
from dcpdump.capture.stream_queue import StreamQueue
from dcpdump.net.batch import Batch
from dcpdump.net.limits import IN_ORDER, OUT_OF_ORDER
from dcpdump.net.packet import Packet

# -- plain pcap and pcapng, many records at once ------------------------------------------------------
# Only what every well-made file has is read here: at anything else it stops, and the capture's own reader goes on.


class PlainPcap:
    """A pcap file, as far as it is plain."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.packets = 0  #: given so far
        self.at = 0  #: the offset behind these; 0: the file is no plain pcap
        self.seconds: int | None = None  #: of the last of them
        self.ended = False  #: the file was plain to its end

    def blocks(self, size: int | BlockSize = BLOCK_BYTES) -> Iterator[Block]:
        """Yield the packets, up to the end or to the first that is not plain, or that cannot be read."""
        sizes = BlockSize.of(size)
        with suppress(OSError), open(self._path, "rb", buffering=0) as file:
            header = PcapHeader.of(file.read(HEADER_SIZE))
            if header is None or not is_plain(header):
                return
            self.at, want = HEADER_SIZE, sizes.take()
            while True:
                file.seek(self.at)
                data = file.read(want)
                found = plain_block(data, header, self.seconds, self.packets, self._path)
                block, used = found.block, found.used
                if block is not None:
                    block.place = PcapPlace(self._path, self.at, used, self.packets, self.seconds)
                    self.packets += len(block)
                    yield block
                self.at, self.seconds = self.at + used, found.seconds
                if not found.plain or self.seconds is None or not data:
                    self.ended = found.plain and self.seconds is not None
                    return
                if len(data) < want and used < len(data):
                    return
                want = sizes.take() if used else want + sizes.usual

    def read_again(self, place: PcapPlace) -> Block | None:
        """Return a block that was yielded before; None where the file is not what it was."""
        with open(self._path, "rb", buffering=0) as file:
            header = PcapHeader.of(file.read(HEADER_SIZE))
            if header is None:
                return None
            file.seek(place.at)
            data = file.read(place.size)
        found = plain_block(data, header, place.seconds, place.passed, self._path)
        return found.block if found.used == place.size else None


class PlainBlock(NamedTuple):
    """What stands at some place of a pcap."""

    block: Block | None  #: of the whole records; None where there is none
    used: int  #: bytes of these
    seconds: int | None  #: of the last record so far
    plain: bool  #: what follows is plain, as far as it is there


def plain_block(data: bytes, header: PcapHeader, seconds: int | None, passed: int, name: str) -> PlainBlock:
    """Make a block of the whole records at the beginning of ``data``.

    ``seconds``: of the record before, None where there is none; ``passed``: the packets of the file before.
    """
    if seconds is None and data[:4] in (*MAGICS, PCAPNG_MAGIC):
        return PlainBlock(None, 0, None, False)
    found = Records(data, header.order == ">", header.fractions, seconds)
    count = len(found.starts)
    if not count:
        return PlainBlock(None, 0, seconds, found.sound and len(data) < SIZE + PACKET_USUAL)
    numbers = list(range(passed + 1, passed + count + 1))
    batch = Batch(data, found.starts, found.ends, [header.link_type] * count, numbers, found.times, [0] * count, [name])
    return PlainBlock(Block(batch, Packets(batch, found.wire)), found.used, found.seconds, found.sound)


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
