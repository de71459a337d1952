"""Read the packets of one file from a given record on, up to a given offset."""

from collections.abc import Iterator
from typing import BinaryIO

from dcpdump.batch.block import BLOCK_BYTES, Block, BlockSize
from dcpdump.batch.read_blocks import PlainPcap, plain_block
from dcpdump.capture.damage import Health
from dcpdump.capture.pcap import HEADER_SIZE, PcapHeader
from dcpdump.capture.pcapng import SECTION, Pcapng
from dcpdump.capture.plain_pcap import boundaries, is_plain
from dcpdump.capture.source import SourceWindow
from dcpdump.net.packet import Packet
from dcpdump.spark.record_finder import PcapForm
from dcpdump.spark.splits import FilePiece, Opener


class FileSlice(PlainPcap):
    """The packets of a pcap from one record on, up to the first that is not plain. Blocks do not share memory."""

    def __init__(self, piece: FilePiece, open_file: Opener) -> None:
        super().__init__(piece.path)
        self._piece = piece
        self._open = open_file
        self.packets = piece.packets
        self.stop = piece.start  #: where the next record begins

    def blocks(self, size: int | BlockSize = BLOCK_BYTES) -> Iterator[Block]:
        """Yield the packets, up to the piece's end or to the first that is not plain."""
        sizes = BlockSize.of(size)
        with self._open(self._piece.path) as file:
            header = PcapHeader.of(file.read(HEADER_SIZE))
            if header is None or not is_plain(header):
                return
            place = self._piece.start or HEADER_SIZE
            limit = self._piece.stop
            file.seek(place)
            before: int | None = None
            rest = b""
            while limit is None or place < limit:
                data = rest + file.read(sizes.take())
                fresh = len(data) > len(rest)
                if limit is not None and place + len(data) > limit:
                    data = data[: _end(data, limit - place, header)]
                found = plain_block(data, header, before, self.packets, self._piece.path)
                if found.block is not None:
                    self.packets += len(found.block)
                    yield found.block
                rest, place, before = data[found.used :], place + found.used, found.seconds
                self.stop = place
                if not found.plain or before is None or (not fresh and rest):
                    if limit is not None and place >= limit:
                        break
                    return
                if not fresh:
                    break
                if limit is not None and place < limit:
                    file.seek(place + len(rest))
            self.ended = True


def _end(data: bytes, limit: int, header: PcapHeader) -> int:
    """Return the offset behind the last record that begins before ``limit``; all of ``data`` if it holds no more."""
    beyond = (place for place in boundaries(data, header.order == ">") if place >= limit)
    return next(beyond, len(data))


class SectionSlice:
    """The packets of a pcapng from some block on, with the interfaces described at its beginning."""

    def __init__(self, form: "PcapForm", file: BinaryIO, start: int, piece: FilePiece) -> None:
        self._form = form
        self._piece = piece
        head = form.head if start else b""
        file.seek(start)
        self._moved = start - len(head)  # added to offsets in what is read, gives offsets in the file
        self.stop = start
        self.plain = True
        self._window = SourceWindow(OpenFile(file, head))
        health = Health(piece.path, packets=piece.packets)
        self.health = health
        self._reader = _Sections(self._window, health, False)

    def packets(self) -> Iterator[Packet]:
        """Yield the packets of blocks that begin before the piece's end."""
        limit = self._piece.stop
        reader, window, health = self._reader, self._window, self.health
        for packet in reader.packets():
            begun = max(self.stop, reader.passed + self._moved)
            if limit is not None and begun >= limit:
                self.stop = begun
                break
            self.stop = window.offset + self._moved
            yield packet
            if limit is not None and self.stop >= limit:
                break
        else:
            self.stop = window.offset + self._moved
        self.plain = not health.damage and not reader.appended and reader.sections == 1
        self.plain = self.plain and reader.interfaces == self._form.interfaces


class _Sections(Pcapng):
    """A pcapng reader that notes where blocks without a packet end, and counts sections."""

    def __init__(self, window: SourceWindow, health: Health, salvage: bool) -> None:
        super().__init__(window, health, salvage)
        self.passed = 0
        self.sections = 0

    @property
    def interfaces(self) -> int:
        """Return how many interfaces the section describes."""
        return len(self._section.interfaces)

    def _read(self, kind: int, length: int, body: bytes, whole: bool) -> Packet | None:
        packet = super()._read(kind, length, body, whole)
        if packet is None:
            self.passed = self._window.offset + length
            self.sections += kind == SECTION
        return packet


class OpenFile:
    """A byte source: an open file from its current position on, behind what is taken for its beginning."""

    def __init__(self, file: BinaryIO, head: bytes = b"") -> None:
        self.failure = ""
        self._head = head
        self._file = file

    def read(self, size: int, /) -> bytes:
        head, self._head = self._head, b""
        return head or self._file.read(size)

    def close(self) -> None:
        self._file.close()
