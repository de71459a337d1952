"""Blocks of a plain pcap, read many records at once.

Only what every well-made file has is read here: at anything else it stops, and the capture's own reader goes on from
there, and reports what is wrong.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from dcpdump.batch.block import BLOCK_BYTES, Block, BlockSize, Packets, PcapPlace
from dcpdump.capture.pcap import HEADER_SIZE, MAGICS, PACKET_USUAL, PCAPNG_MAGIC, PcapHeader
from dcpdump.capture.plain_pcap import SIZE, Records, is_plain
from dcpdump.net.batch import Batch


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
