"""Input: the packets of captures as blocks; of plain pcap files the short way, as far as one follows the other."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from typing import NamedTuple

from dcpdump.batch.block import (
    BLOCK_BYTES,
    BLOCK_PACKETS,
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
from dcpdump.capture.file import OPEN_LIMIT, CapturePlace, begin, packets_from
from dcpdump.capture.pcap import DISORDER, HEADER_SIZE, MAGICS, PACKET_USUAL, PCAPNG_MAGIC, PcapHeader, PcapState
from dcpdump.capture.plain_pcap import SIZE, Records, is_plain
from dcpdump.capture.source import ReopenedFile, count_read
from dcpdump.capture.stream_queue import StreamQueue
from dcpdump.errors import CaptureError
from dcpdump.net.batch import Batch
from dcpdump.net.limits import IN_ORDER, OUT_OF_ORDER
from dcpdump.net.packet import NO_TIME, Packet

# -- plain pcap and pcapng, many records at once ------------------------------------------------------
# Only what every well-made file has is read here: at anything else it stops, and the capture's own reader goes on.


class PlainPcap:
    """A pcap file, as far as it is plain; ``begin``: from a place on that ``place`` was; else from its beginning."""

    def __init__(self, path: str, begin: CapturePlace | None = None) -> None:
        self._path, self._salvage = path, begin is not None and begin.salvage
        self._state = None if begin is None else begin.reader
        self.packets = 0 if begin is None else begin.packets  #: of the file so far
        self.at = 0 if begin is None else begin.offset  #: the offset behind these; 0: the file is no plain pcap
        #: The seconds of the last of them.
        self.seconds = self._state.seconds if isinstance(self._state, PcapState) else None
        self.ended = False  #: the file was plain to its end

    @property
    def place(self) -> CapturePlace | None:
        """Return the place behind the packets so far; None where that is its end, or it is no plain pcap."""
        if self.ended or not isinstance(self._state, PcapState):
            return None
        state = PcapState(self._state.header, self.seconds, None)
        return CapturePlace(self._path, self._salvage, self.at, self.packets, state)

    def blocks(self, size: int | BlockSize = BLOCK_BYTES) -> Iterator[Block]:
        """Yield the packets, up to the end or to the first that is not plain, or that cannot be read."""
        sizes = BlockSize.of(size)
        with suppress(OSError), closing(ReopenedFile(self._path)) as file:
            head = file.read(HEADER_SIZE)
            header = PcapHeader.of(head)
            if header is None or not is_plain(header):
                return
            count_read(len(head))
            self._state = PcapState(head, None, None)
            self.at, want = self.at or HEADER_SIZE, sizes.take()
            while True:
                file.seek(self.at)
                data = file.read(want)
                found = plain_block(data, header, self.seconds, self.packets, self._path)
                block, used = found.block, found.used
                if block is not None:
                    block.place = PcapPlace(self._path, self.at, used, self.packets, self.seconds)
                    self.packets += len(block)
                self.at, self.seconds = self.at + used, found.seconds
                count_read(used)
                if block is not None:
                    yield block
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
    if isinstance(size, int):
        # The first block is large: what malloc has seen free in that size, it keeps for all that follow.
        size = BlockSize(size, first=BLOCK_BYTES)
    if len(captures) > 1 and all(capture.rereadable for capture in captures):
        yield from TimelineBlocks([Begun(*begin(capture), capture) for capture in captures], size=size)
        return
    found = CaptureBlocks(captures[0], size) if len(captures) == 1 else blocks(timeline(captures), size)
    for block in found:
        block.carved = carved(capture.health for capture in captures)
        yield block


def carved(healths: Iterable[Health]) -> dict[str, int]:
    """Return those of captures, read in part or whole, that hold chosen packets only: IN_ORDER or OUT_OF_ORDER."""
    said = {each.file: each.carved for each in healths if each.carved}
    return {name: OUT_OF_ORDER if text.endswith(DISORDER) else IN_ORDER for name, text in said.items()}


class CaptureBlocks:
    """The packets of one capture in blocks, what is plain of it the short way. Each byte is read once.

    ``at``: the place behind the blocks so far; at first where to begin, None: at the beginning. Of a capture that was
    read to its end it is None again. A block has its own place where it can be read again without what is before it.
    """

    def __init__(self, capture: Capture, size: BlockSize, at: CapturePlace | None = None) -> None:
        self._capture, self._size, self.at = capture, size, at

    def __iter__(self) -> Iterator[Block]:
        capture = self._capture
        if capture.enterable and (self.at is None or isinstance(self.at.reader, PcapState)):
            plain = PlainPcap(capture.name, self.at)
            for block in plain.blocks(self._size):
                self.at = plain.place
                yield block
            self.at = plain.place
            if plain.ended:
                return
        if self.at is not None:
            capture.enter(self.at)
        elif capture.rereadable:
            capture.enter(CapturePlace(capture.name, False))
        if not capture.enterable:
            for arrived in arriving_blocks(capture, self._size):
                self.at = capture.place
                if arrived is not None:
                    yield arrived
        try:
            place = capture.place if capture.enterable else None
            for block in blocks(capture.runs(), self._size):
                block.place = None if place is None else PacketsPlace(place, len(block))
                self.at = capture.place
                place = self.at if capture.enterable else None
                yield block
        finally:
            self.at = None
            capture.close()


class Begun(NamedTuple):
    """A capture of a timeline, by where it begins in that, as ``merge.begin`` has it."""

    first_ns: int
    name: str
    capture: Capture


class LanePlace(NamedTuple):
    """Where in one capture of a timeline the next packet is: packets behind a place that can be entered."""

    name: str
    last_ns: int  #: of the packet before it, or where it begins in the timeline
    at: CapturePlace | None = None  #: None: its beginning
    packets: int = 0


class TimelineBlocks:
    """The packets of captures that can be read again in blocks, in the order that ``merge.timeline`` has.

    As long as one capture follows the other, blocks are those of its file; where several overlap, they are gathered.
    Between two blocks ``places`` says where each capture that was begun is; ``lanes`` are such places, to continue from
    with the same ``waiting`` captures behind them.
    """

    def __init__(
        self,
        waiting: Sequence[Begun],
        lanes: Sequence[tuple[Capture, LanePlace]] = (),
        size: int | BlockSize = BLOCK_BYTES,
        open_limit: int = OPEN_LIMIT,
    ) -> None:
        self._waiting = sorted(waiting, key=lambda each: each[:2], reverse=True)
        self._size, self._usual, self._open_limit = BlockSize.of(size), BlockSize.of(size).usual, open_limit
        self._active: list[tuple[tuple[int, str, int], int, _Lane]] = []  # a heap
        self._order = 0  # distinguishes lanes with equal keys: one file, named twice
        self._carved: dict[str, int] = {}
        self.begun: list[Begun] = []  #: the captures that were begun, to be taken away by their owner
        for capture, place in lanes:
            self._push(_Lane(capture, self._size, place))

    @property
    def places(self) -> list[LanePlace]:
        """Return where each capture is that was begun and has not ended."""
        found = [lane.place for _, _, lane in self._active]
        return [each for each in found if each is not None]

    def __iter__(self) -> Iterator[Block]:
        held: list[Packet] = []
        have = 0
        while (lane := self._next()) is not None:
            block, begin, end = lane.take(self._limit())
            if held or end - begin < len(block):
                held += block.packets[begin:end]
                have += sum([len(packet[3]) for packet in held[begin - end :]])
                if have < self._usual and len(held) < BLOCK_PACKETS:
                    continue
                block, held, have = gathered(held), [], 0
            block.carved = self._carved
            yield block
        if held:
            block = gathered(held)
            block.carved = self._carved
            yield block

    def _next(self) -> "_Lane | None":
        """Return the capture whose packet is next."""
        active, waiting = self._active, self._waiting
        while active and not active[0][2].ready:
            self._push(heapq.heappop(active)[2])
        while waiting and (not active or (*waiting[-1][:2], 0) <= active[0][0]):
            begun = waiting.pop()
            if len(active) == self._open_limit:
                text = f"more than {self._open_limit} captures overlap in time"
                raise CaptureError(text, begun.name, "mergecap -w merged.pcapng FILES, and read that")
            self.begun.append(begun)
            self._push(_Lane(begun.capture, self._size, LanePlace(begun.name, begun.first_ns)))
        self._size.usual = max(self._usual // max(len(active), 1), min(self._usual, _SMALL))  # each holds a block
        return active[0][2] if active else None

    def _push(self, lane: "_Lane") -> None:
        """Have the next packet of a capture take its turn, if there is one."""
        if lane.load():
            self._order += 1
            heapq.heappush(self._active, (lane.key, self._order, lane))
            self._carved.update(carved([lane.capture.health]))

    def _limit(self) -> tuple[int, str, int] | None:
        """Return where in the timeline the next packet of another capture is; None where there is no other."""
        found = [each[0] for each in self._active[1:3]]
        if self._waiting:
            found.append((*self._waiting[-1][:2], 0))
        return min(found, default=None)


_SMALL = 64 * 1024  #: bytes of a block, at least, where many captures are read at once


class _Lane:
    """A capture of a timeline: a block of it, and which packet of that is next."""

    def __init__(self, capture: Capture, size: BlockSize, place: LanePlace) -> None:
        self.ready = False  #: ``key`` is that of the next packet
        self.last_ns = place.last_ns  #: of the packet before it
        self.capture = capture
        self.key = place.last_ns, place.name, 0  #: (time, file, number)
        self._name, self._begin, self._row = place.name, place.at, place.packets
        self._blocks = CaptureBlocks(capture, size, place.at)
        self._source = iter(self._blocks)
        self._block: Block | None = None

    @property
    def place(self) -> LanePlace | None:
        """Return where the next packet is; None behind the last."""
        if self._block is None or self._row < len(self._block):
            return LanePlace(self._name, self.last_ns, self._begin, self._row)
        return None if self._blocks.at is None else LanePlace(self._name, self.last_ns, self._blocks.at)

    def load(self) -> bool:
        """Have a block at hand with the next packet in it; return whether there is one."""
        while self._block is None or self._row >= len(self._block):
            self._row -= 0 if self._block is None else len(self._block)
            self._begin = self._blocks.at
            self._block = next(self._source, None)
            if self._block is None:
                return False
        self.last_ns, ts = self.key[0], self._block.batch.times[self._row]
        self.key = self.last_ns if ts == NO_TIME else ts, self._name, self._block.batch.numbers[self._row]
        self.ready = True
        return True

    def take(self, limit: tuple[int, str, int] | None) -> tuple[Block, int, int]:
        """Take the packets before ``limit``, one at least: return their block, the first row and that behind them."""
        block, begin = self._block, self._row
        assert block is not None
        times, numbers, end = block.batch.times, block.batch.numbers, len(block)
        if limit is not None and not (block.rises and (times[-1], self._name, numbers[-1]) < limit):
            row, now = begin + 1, self.key[0]
            while row < end:
                now = now if times[row] == NO_TIME else times[row]
                if (now, self._name, numbers[row]) >= limit:
                    break
                row += 1
            end = row
        self._row, self.ready = end, False
        self.last_ns = next((each for each in reversed(times[begin:end]) if each != NO_TIME), self.key[0])
        self.key = self.last_ns, self._name, numbers[end - 1]
        return block, begin, end


def read_again(place: BlockPlace) -> Block | None:
    """Return a block that was read before; None where its file is not what it was. Raises CaptureError, OSError."""
    if isinstance(place, PcapPlace):
        return PlainPcap(place.path).read_again(place)
    packets = list(islice(packets_from(place.begins), place.packets))
    return gathered(packets) if len(packets) == place.packets else None


def arriving_blocks(capture: Capture, size: int | BlockSize) -> Iterator[Block | None]:
    """Yield the packets of a plain pcap as they arrive, up to the first that is not plain; None while nothing comes.

    Its bytes are there once: they come through a pipe, or are decompressed. The capture's own reader goes on behind.
    """
    begun = capture.begin_plain()
    if begun is None:
        return
    window, header, seconds = begun
    sizes = BlockSize.of(size)
    want = sizes.take()
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
