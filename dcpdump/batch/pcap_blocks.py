"""Blocks of a plain pcap, read many records at once.

Only what every well-made file has is read here: at anything else it stops, and says how many packets it gave;
the capture's own reader goes on from there, and reports what is wrong.
"""

from collections.abc import Iterator

from dcpdump.batch.block import BLOCK_BYTES, Block, BlockSize, PcapPlace
from dcpdump.batch.packet_sequence import Packets
from dcpdump.capture.pcap import HEADER_SIZE, MAGICS, PACKET_USUAL, PCAPNG_MAGIC, PcapHeader
from dcpdump.capture.plain_pcap import SIZE, Records, is_plain
from dcpdump.net.batch import Batch


class PlainPcap:
    """A pcap file, as far as it is plain."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.packets = 0  #: given so far
        self.ended = False  #: the file was plain to its end

    def blocks(self, size: int | BlockSize = BLOCK_BYTES) -> Iterator[Block]:
        """Yield the packets, up to the end or to the first that is not plain."""
        sizes = BlockSize.of(size)
        with open(self._path, "rb", buffering=0) as file:
            head = file.read(HEADER_SIZE)
            if len(head) < HEADER_SIZE or head[:4] not in MAGICS:
                return
            header = PcapHeader.read(head)
            if not is_plain(header):
                return
            at, want, before = HEADER_SIZE, sizes.take(), None
            while True:
                file.seek(at)
                data = file.read(want)
                seconds = before
                block, used, before = self._block(data, header, before)
                if block is not None:
                    block.place = PcapPlace(self._path, at, used, self.packets, seconds)
                    self.packets += len(block)
                    yield block
                at += used
                if before is None or not data:
                    self.ended = before is not None
                    return
                if len(data) < want and used < len(data):
                    return
                want = sizes.take() if used else want + sizes.usual

    def read_again(self, place: PcapPlace) -> Block | None:
        """Return a block that was yielded before; None where the file is not what it was."""
        with open(self._path, "rb", buffering=0) as file:
            head = file.read(HEADER_SIZE)
            if len(head) < HEADER_SIZE or head[:4] not in MAGICS:
                return None
            file.seek(place.at)
            data = file.read(place.size)
        self.packets = place.passed
        block, used, _ = self._block(data, PcapHeader.read(head), place.seconds)
        return block if used == place.size else None

    def _block(self, data: bytes, header: PcapHeader, before: int | None) -> tuple[Block | None, int, int | None]:
        """Make a block of the whole records in ``data``: return it, the bytes used, and the last record's seconds.

        No seconds: what follows is not plain.
        """
        found = Records(data, header.order == ">", header.fractions, before)
        if before is None and data[:4] in (*MAGICS, PCAPNG_MAGIC):
            return None, 0, None
        count = len(found.starts)
        if not count:
            return None, 0, before if found.sound and len(data) < SIZE + PACKET_USUAL else None
        numbers = list(range(self.packets + 1, self.packets + count + 1))
        batch = Batch(
            data, found.starts, found.ends, [header.link_type] * count, numbers, found.times, [0] * count, [self._path]
        )
        return Block(batch, Packets(batch, found.wire)), found.used, found.seconds if found.sound else None
