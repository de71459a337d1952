"""Read the blocks of a split, through whatever opens its files."""

import heapq
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import BinaryIO

from dcpdump.batch.block import Block, blocks
from dcpdump.batch.read_blocks import carved
from dcpdump.capture import Capture, open_capture
from dcpdump.capture.damage import Health
from dcpdump.capture.pcap import HEADER_SIZE, MAGICS, PCAPNG_MAGIC, PcapHeader
from dcpdump.capture.source import is_regular
from dcpdump.errors import CaptureError
from dcpdump.net.packet import NO_TIME, Packet
from dcpdump.spark.file_slice import FileSlice, OpenFile, SectionSlice
from dcpdump.spark.record_finder import PcapForm
from dcpdump.spark.splits import FilePiece, Opener, Read, Source, Split


def inspect_file(path: str, size: int, open_file: Opener) -> Source:
    """Return what a capture's beginning, and where that is cheap its end, says of it. Raises CaptureError, OSError."""
    capture = _capture(path, open_file, salvage=False)
    first = begins = capture.first_time()
    if begins is None:
        with capture:
            begins = next((packet.ts_ns for packet in capture if packet.ts_ns is not None), None)
    source = Source(path, size, first, begins_ns=begins)
    with open_file(path) as file:
        head = file.read(4)
        if head not in MAGICS and head != PCAPNG_MAGIC:
            return source
        form = PcapForm(file)
        return source._replace(last_ns=form.last_time(size), divisible=True) if form.divisible else source


class SplitReading:
    """The blocks of a split; afterwards ``read`` returns what they were read from."""

    def __init__(self, split: Split, open_file: Opener, *, salvage: bool = False) -> None:
        self._split = split
        self._pieces = [PieceReading(piece, open_file, salvage) for piece in split.pieces]

    @property
    def read(self) -> tuple[Read, ...]:
        """Return what was read of each piece."""
        return tuple(piece.read for piece in self._pieces)

    def blocks(self) -> Iterator[Block]:
        """Yield the packets, in blocks."""
        for block in self._blocks():
            block.carved = carved(each.health for each in self._pieces if each.health is not None)
            yield block

    def _blocks(self) -> Iterator[Block]:
        if self._split.merged:
            lanes = [piece.keyed() for piece in self._pieces]
            yield from blocks(map(itemgetter(1), heapq.merge(*lanes, key=itemgetter(0))))
            return
        for piece in self._pieces:
            yield from piece.blocks()


class PieceReading:
    """The reading of one piece of a file."""

    def __init__(self, piece: FilePiece, open_file: Opener, salvage: bool) -> None:
        self._piece = piece
        self._open = open_file
        self._salvage = salvage
        self.health: Health | None = None  #: of the file, once packets were read from it one by one
        self._packets = 0
        self._times: tuple[int, int] | None = None
        self._start, self._stop = piece.start, piece.start
        self._plain = True
        self._problems: list[str] = []

    @property
    def read(self) -> Read:
        """Return what was read so far."""
        first, last = self._times or (None, None)
        problems = tuple(dict.fromkeys(self._problems))
        return Read(self._piece.path, self._start, self._stop, self._packets, first, last, self._plain, problems)

    def blocks(self) -> Iterator[Block]:
        """Yield the packets, in blocks."""
        try:
            for block in self._blocks():
                self._packets += len(block.ts_ns)
                times = block.ts_ns[block.ts_ns != NO_TIME]
                if len(times):
                    first, last = int(times.min()), int(times.max())
                    old = self._times or (first, last)
                    self._times = min(old[0], first), max(old[1], last)
                yield block
        except OSError as error:  # a bad disk, a network drive that went away
            self._problems.append(_words(error))
            self._plain = False

    def keyed(self) -> Iterator[tuple[tuple[int, str, int], Packet]]:
        """Yield the packets between the piece's times, each after its key in the timeline: (time, file, number)."""
        piece = self._piece
        time = -1
        begun = piece.since is None
        for packet in self._all():
            time = time if packet.ts_ns is None else packet.ts_ns
            begun = begun or time >= (piece.since or 0)
            if piece.until is not None and time >= piece.until:
                return
            if not begun:
                continue
            self._packets += 1
            if packet.ts_ns is not None:
                old = self._times or (time, time)
                self._times = min(old[0], time), max(old[1], time)
            yield (time, packet.file, packet.number), packet

    def _blocks(self) -> Iterator[Block]:
        piece = self._piece
        if not piece.start and piece.stop is None:
            plain = self._whole_pcap()
            if plain is not None:
                yield from plain.blocks()
                if plain.ended:
                    return
            given = 0 if plain is None else plain.packets
            yield from blocks(islice(self._all(), given, None))
            return
        with self._open(piece.path) as file:
            form = PcapForm(file)
            if form.pcap is not None:
                yield from self._slice(form)
            else:
                yield from blocks(self._sections(form, file))

    def _whole_pcap(self) -> FileSlice | None:
        try:
            with self._open(self._piece.path) as file:
                header = PcapHeader.of(file.read(HEADER_SIZE))
        except OSError:
            return None
        return None if header is None else FileSlice(self._piece, self._open)

    def _all(self) -> Iterator[Packet]:
        """Yield all packets of the file, as far as they can be read."""
        path = self._piece.path
        try:
            capture = _capture(path, self._open, salvage=self._salvage)
        except (CaptureError, OSError) as error:
            self._problems.append(_words(error))
            return
        try:
            packets = iter(capture)
            self.health = capture.health
            yield from packets
        except OSError as error:
            self._problems.append(_words(error))
        finally:
            self._problems += map(str, capture.damage)
            capture.close()

    def _find_start(self, form: PcapForm) -> int | None:
        """Return where the first packet of the piece begins, None where no packet begins in it."""
        piece = self._piece
        start = piece.start if piece.exact or not piece.start else form.find(piece.start, piece.stop)
        self._start = -1 if start is None else start
        self._stop = piece.start if start is None else start
        return start

    def _slice(self, form: PcapForm) -> Iterator[Block]:
        start = self._find_start(form)
        if start is None:
            return
        slice_ = FileSlice(self._piece._replace(start=start), self._open)
        yield from slice_.blocks()
        self._stop, self._plain = slice_.stop, slice_.ended
        if not self._piece.start:
            self._start = 0

    def _sections(self, form: PcapForm, file: BinaryIO) -> Iterator[Packet]:
        start = self._find_start(form)
        if start is None:
            return
        blocks_of_file = SectionSlice(form, file, start, self._piece)
        self.health = blocks_of_file.health
        yield from blocks_of_file.packets()
        self._stop, self._plain = blocks_of_file.stop, blocks_of_file.plain


def _capture(path: str, open_file: Opener, *, salvage: bool) -> Capture:
    if _is_here(path):
        return open_capture(path, salvage=salvage)
    return open_capture(path, salvage=salvage, source=lambda _: OpenFile(open_file(path)))


def _is_here(path: str) -> bool:
    try:
        return "://" not in path and is_regular(path)
    except OSError:
        return False


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"this cannot be read: {error.strerror or error}"
    return str(error)
