"""Reading: the blocks of a split, through whatever opens its files.

Knows how the first record of a piece is found that begins in the middle of a file. What is found there is a guess:
the piece before tells where it ended.
"""

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter
from struct import Struct
from typing import BinaryIO

import numpy as np

from dcpdump.capture import Capture, open_capture
from dcpdump.capture.damage import Health
from dcpdump.capture.pcap import DAY, HEADER_SIZE, MAGICS, PACKET_USUAL, PCAPNG_MAGIC, YEAR, Header
from dcpdump.capture.pcapng import BLOCK_KEPT, PACKET, Pcapng
from dcpdump.capture.plausible import LOOKED_AT, begins_like
from dcpdump.capture.source import Window, is_regular
from dcpdump.columnar.block import BLOCK_BYTES, NO_TIME, Block, blocks
from dcpdump.columnar.pcap import PlainPcap, _hop
from dcpdump.columnar.plan import overlapping
from dcpdump.errors import CaptureError
from dcpdump.net.packet import Packet
from dcpdump.spark.split import Opener, Piece, Read, Source, Split

_RECORD = 16  #: bytes of a pcap record's header
_CHAIN = 5  #: records that must follow one another before a place is believed
_WINDOW = 1 << 20
Unpack = Callable[[bytes, int], tuple[int, ...]]
_SECTIONS = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}


class Opened:
    """An open file, as captures read their bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self.failure = ""
        self._file = file

    def read(self, size: int, /) -> bytes:
        return self._file.read(size)

    def close(self) -> None:
        self._file.close()


class Joined:
    """The beginning of a file, and then what comes from some other place on."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self.failure = ""
        self._head = head
        self._file = file

    def read(self, size: int, /) -> bytes:
        head, self._head = self._head, b""
        return head or self._file.read(size)

    def close(self) -> None:
        self._file.close()


def look_at(path: str, size: int, open_file: Opener) -> Source:
    """It looks at a capture's beginning, and where that is cheap at its end. Raises CaptureError, OSError."""
    capture = _capture(path, open_file, salvage=False)
    first = capture.first_time()
    with open_file(path) as file:
        head = file.read(4)
        if head not in MAGICS and head != PCAPNG_MAGIC:
            return Source(path, size, first)
        form = Form(path, file)
        if not form.divisible:
            return Source(path, size, first)
        return Source(path, size, first, form.last_time(size), True)


class SplitReading:
    """The blocks of a split; afterwards ``read`` tells what they came from."""

    def __init__(self, split: Split, open_file: Opener, *, salvage: bool = False, size: int = BLOCK_BYTES) -> None:
        self._split = split
        self._pieces = [PieceReading(piece, open_file, salvage, size) for piece in split.pieces]
        self._size = size

    @property
    def read(self) -> tuple[Read, ...]:
        """What was read of each piece."""
        return tuple(piece.read for piece in self._pieces)

    def blocks(self) -> Iterator[Block]:
        """It gives the packets, in blocks."""
        if self._split.merged:
            lanes = [piece.keyed() for piece in self._pieces]
            yield from blocks(map(itemgetter(1), heapq.merge(*lanes, key=itemgetter(0))), self._size)
            return
        for piece in self._pieces:
            yield from piece.blocks()


class PieceReading:
    """One piece of a file."""

    def __init__(self, piece: Piece, open_file: Opener, salvage: bool, size: int) -> None:
        self._piece = piece
        self._open = open_file
        self._salvage = salvage
        self._size = size
        self._packets = 0
        self._times: tuple[int, int] | None = None
        self._start, self._stop = piece.start, piece.start
        self._plain = True
        self._problems: list[str] = []

    @property
    def read(self) -> Read:
        """What was read so far."""
        first, last = self._times or (None, None)
        problems = tuple(dict.fromkeys(self._problems))
        return Read(self._piece.path, self._start, self._stop, self._packets, first, last, self._plain, problems)

    def blocks(self) -> Iterator[Block]:
        """It gives the packets, in blocks."""
        for block in self._blocks():
            self._packets += len(block.ts_ns)
            times = block.ts_ns[block.ts_ns != NO_TIME]
            if len(times):
                first, last = int(times.min()), int(times.max())
                old = self._times or (first, last)
                self._times = min(old[0], first), max(old[1], last)
            yield block

    def keyed(self) -> Iterator[tuple[tuple[int, str, int], Packet]]:
        """It gives the packets between the piece's times, each with its place in the timeline."""
        piece = self._piece
        time = -1
        begun = piece.since is None
        for packet in self._all():
            time = time if packet.ts_ns is None else packet.ts_ns
            begun = begun or time >= (piece.since or 0)
            if piece.until is not None and time >= piece.until:
                # what comes before the first time of this piece and not before the end of it belongs to neither
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
                yield from plain.blocks(self._size)
                if plain.ended:
                    return
            given = 0 if plain is None else plain.packets
            yield from blocks(islice(self._all(), given, None), self._size)
            return
        with self._open(piece.path) as file:
            form = Form(piece.path, file)
            if form.pcap is not None:
                yield from self._stretch(form, file)
            else:
                yield from blocks(self._sections(form, file), self._size)

    def _whole_pcap(self) -> "Stretch | None":
        try:
            with self._open(self._piece.path) as file:
                head = file.read(HEADER_SIZE)
        except OSError:
            return None
        return Stretch(self._piece, self._open) if head[:4] in MAGICS and len(head) == HEADER_SIZE else None

    def _all(self) -> Iterator[Packet]:
        """It gives all packets of the file, as far as they can be read."""
        path = self._piece.path
        try:
            capture = _capture(path, self._open, salvage=self._salvage)
        except (CaptureError, OSError) as error:
            self._problems.append(_words(error))
            return
        try:
            yield from capture
        except OSError as error:
            self._problems.append(_words(error))
        finally:
            self._problems += map(str, capture.damage)
            capture.close()

    def _stretch(self, form: "Form", file: BinaryIO) -> Iterator[Block]:
        piece = self._piece
        start = piece.start if piece.exact or not piece.start else form.find(piece.start, piece.stop)
        self._start = self._stop = piece.start if start is None else start
        if start is None:
            self._start = -1
            return
        stretch = Stretch(piece._replace(start=start), self._open)
        yield from stretch.blocks(self._size)
        self._stop, self._plain = stretch.stop, stretch.ended
        if not piece.start:
            self._start = 0

    def _sections(self, form: "Form", file: BinaryIO) -> Iterator[Packet]:
        piece = self._piece
        start = piece.start if piece.exact or not piece.start else form.find(piece.start, piece.stop)
        self._start = self._stop = piece.start if start is None else start
        if start is None:
            self._start = -1
            return
        blocks_of_file = SectionStretch(form, file, start, piece)
        yield from blocks_of_file.packets()
        self._stop, self._plain = blocks_of_file.stop, blocks_of_file.plain


class Stretch(PlainPcap):
    """A stretch of a pcap, from a record on, as far as it is plain. Blocks do not share memory."""

    def __init__(self, piece: Piece, open_file: Opener) -> None:
        super().__init__(piece.path)
        self._piece = piece
        self._open = open_file
        self.packets = piece.packets
        self.stop = piece.start  #: where the next record begins

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[Block]:
        """It gives the packets, up to the piece's end or to the first that is not plain."""
        with self._open(self._piece.path) as file:
            head = file.read(HEADER_SIZE)
            if len(head) < HEADER_SIZE or head[:4] not in MAGICS:
                return
            header = Header.read(head)
            if not _is_plain(header):
                return
            place = self._piece.start or HEADER_SIZE
            limit = self._piece.stop
            file.seek(place)
            before: int | None = None
            rest = b""
            while limit is None or place < limit:
                data = rest + file.read(size)
                fresh = len(data) > len(rest)
                if limit is not None and place + len(data) > limit:
                    data = data[: _end(data, limit - place, header)]
                block, used, before = self._block(memoryview(data), header, before)
                if block is not None:
                    self.packets += len(block.ts_ns)
                    yield block
                rest, place = data[used:], place + used
                self.stop = place
                if before is None or (not fresh and rest):
                    if limit is not None and place >= limit:
                        break
                    return
                if not fresh:
                    break
                if limit is not None and place < limit:
                    file.seek(place + len(rest))
            self.ended = True


def _end(data: bytes, limit: int, header: Header) -> int:
    """It gives where the last record ends that begins before ``limit``; all of it where that is not there."""
    places = _hop(memoryview(data), Struct(header.order + "I"))
    beyond = np.flatnonzero(places >= limit)
    return int(places[beyond[0]]) if len(beyond) else len(data)


def _is_plain(header: Header) -> bool:
    return header.record_size == _RECORD and not header.fcs and header.version == (2, 4)


class SectionStretch:
    """A stretch of a pcapng: the interfaces of its head, and blocks from some place on."""

    def __init__(self, form: "Form", file: BinaryIO, start: int, piece: Piece) -> None:
        self._form = form
        self._piece = piece
        head = form.head if start else b""
        file.seek(start)
        self._moved = start - len(head)  # from places in what is read to places in the file
        self.stop = start
        self.plain = True
        self._window = Window(Joined(head, file))
        health = Health(piece.path, packets=piece.packets)
        self._health = health
        self._reader = _Sections(self._window, health, False)

    def packets(self) -> Iterator[Packet]:
        """It gives the packets of blocks that begin before the piece's end."""
        limit = self._piece.stop
        reader, window, health = self._reader, self._window, self._health
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
        described = reader._section.interfaces
        self.plain = not health.damage and not reader.appended and reader.sections == 1
        self.plain = self.plain and len(described) == self._form.interfaces


class _Sections(Pcapng):
    """A pcapng that notes where the blocks end that hold no packet, and how many sections there were."""

    def __init__(self, window: Window, health: Health, salvage: bool) -> None:
        super().__init__(window, health, salvage)
        self.passed = 0
        self.sections = 0

    def _read(self, kind: int, length: int, body: bytes, whole: bool) -> Packet | None:
        packet = super()._read(kind, length, body, whole)
        if packet is None:
            self.passed = self._window.offset + length
            self.sections += kind == 0x0A0D0D0A
        return packet


class Form:
    """What the beginning of a plain file says about all of it."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self._file = file
        file.seek(0)
        start = file.read(HEADER_SIZE + _RECORD)
        self.pcap = Header.read(start) if start[:4] in MAGICS and len(start) >= HEADER_SIZE else None
        self.head = start[:HEADER_SIZE]
        self.interfaces = 0
        self._seconds = 0
        self._order = "<"
        if self.pcap is not None:
            self._order = self.pcap.order
            if len(start) == HEADER_SIZE + _RECORD:
                (self._seconds,) = Struct(self._order + "I").unpack_from(start, HEADER_SIZE)
        elif start[:4] == PCAPNG_MAGIC:
            self._read_sections()

    @property
    def divisible(self) -> bool:
        """Whether pieces of it can be read without the rest."""
        return self.interfaces > 0 if self.pcap is None else _is_plain(self.pcap)

    def find(self, start: int, stop: int | None) -> int | None:
        """It gives where a record seems to begin, from ``start`` on, before ``stop``."""
        at = start if self.pcap is not None else start + -start % 4
        while stop is None or at < stop:
            self._file.seek(at)
            data = self._file.read(_WINDOW + PACKET_USUAL)
            found = self._records(data) if self.pcap is not None else self._blocks(data)
            if found is not None and found < max(_WINDOW, 1):
                place = at + found
                return place if stop is None or place < stop else None
            if len(data) < _WINDOW + PACKET_USUAL:
                return None
            at += _WINDOW
        return None

    def last_time(self, size: int) -> int | None:
        """It gives about the time of the last record, where that is easily seen."""
        if self.pcap is None:
            return None
        header = self.pcap
        at = self.find(max(HEADER_SIZE, size - 64 * 1024), None) if size > 128 * 1024 else HEADER_SIZE
        if at is None:
            return None
        self._file.seek(at)
        data = self._file.read(_WINDOW)
        places = _hop(memoryview(data), Struct(header.order + "I"))
        if len(places) < 2:
            return None
        seconds, fraction = Struct(header.order + "II").unpack_from(data, int(places[-2]))
        return int(seconds) * 1_000_000_000 + int(fraction) * (1_000_000_000 // header.fractions)

    def _records(self, data: bytes) -> int | None:
        header = self.pcap
        if header is None or len(data) < _RECORD:
            return None
        record = np.dtype([(name, f"{header.order}u4") for name in ("seconds", "fraction", "length", "wire")])
        heads = overlapping(np.frombuffer(data, np.uint8), record)
        seconds = heads["seconds"].astype(np.int64)
        good = (seconds >= self._seconds - DAY) & (seconds <= self._seconds + YEAR)
        places = np.flatnonzero(good)
        rest = heads[places]
        good = (rest["fraction"] < header.fractions) & (rest["length"] <= rest["wire"]) & (rest["length"] > 0)
        good &= rest["wire"] <= PACKET_USUAL
        unpack = Struct(header.order + "IIII").unpack_from
        for place in places[good].tolist():
            if self._follow(data, place, unpack, header):
                return int(place)
        return None

    def _follow(self, data: bytes, at: int, unpack: Unpack, header: Header) -> bool:
        """Whether records follow one another from a place, or end where the data does."""
        for number in range(_CHAIN):
            if at == len(data):
                return number > 0
            if at + _RECORD > len(data):
                return number > 1
            seconds, fraction, length, wire = unpack(data, at)
            if not (self._seconds - DAY <= seconds <= self._seconds + YEAR and fraction < header.fractions):
                return False
            if not 0 < length <= wire <= PACKET_USUAL:
                return False
            packet = data[at + _RECORD : at + _RECORD + min(length, LOOKED_AT)]
            if packet and not begins_like(header.link_type, packet):
                return False
            at += _RECORD + length
        return True

    def _blocks(self, data: bytes) -> int | None:
        """It looks for packet blocks of which three follow one another."""
        words = np.frombuffer(data[: len(data) // 4 * 4], f"{self._order}u4")
        for word in np.flatnonzero(words[:-1] == PACKET).tolist():
            at = 4 * word
            for number in range(3):
                if at == len(data):
                    if number:
                        return 4 * int(word)
                    break
                if at + 12 > len(data):
                    if number > 1:
                        return 4 * int(word)
                    break
                length = int(words[at // 4 + 1])
                if length % 4 or not 12 <= length <= BLOCK_KEPT:
                    break
                if at + length > len(data):
                    if number > 1:
                        return 4 * int(word)
                    break
                if words[(at + length) // 4 - 1] != length:
                    break
                at += length
            else:
                return 4 * int(word)
        return None

    def _read_sections(self) -> None:
        """It takes the section's header and the descriptions of interfaces right behind it."""
        self._file.seek(0)
        data = self._file.read(256 * 1024)
        order = _SECTIONS.get(data[8:12])
        if order is None:
            return
        self._order = order
        at = 0
        head = Struct(order + "II")
        while at + 12 <= len(data):
            kind, length = head.unpack_from(data, at)
            if length < 12 or length % 4 or at + length > len(data):
                break
            if kind == 1:
                self.interfaces += 1
            elif kind == PACKET or (kind == 0x0A0D0D0A and at):
                break
            at += length
        self.head = data[:at]


def _capture(path: str, open_file: Opener, *, salvage: bool) -> Capture:
    if _is_here(path):
        return open_capture(path, salvage=salvage)
    return open_capture(path, salvage=salvage, source=lambda: Opened(open_file(path)))


def _is_here(path: str) -> bool:
    try:
        return "://" not in path and is_regular(path)
    except OSError:
        return False


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"this cannot be read: {error.strerror or error}"
    return str(error)
