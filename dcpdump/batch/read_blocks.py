"""Read the packets of captures in blocks, as one timeline."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from dcpdump.batch.block import (
    BLOCK_BYTES,
    BLOCK_PACKETS,
    Block,
    BlockPosition,
    BlockSize,
    blocks,
    gathered,
    joined,
)
from dcpdump.capture.damage import Health
from dcpdump.capture.file import OPEN_LIMIT, Capture, CapturePosition, begin, timeline, too_many_overlap
from dcpdump.capture.pcap import DISORDER
from dcpdump.capture.stream_queue import StreamQueue
from dcpdump.net.limits import IN_ORDER, OUT_OF_ORDER
from dcpdump.net.packet import NO_TIME, Packet


def blocks_of(captures: Sequence[Capture], size: int | BlockSize = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the packets of all captures, as one timeline, in blocks of about ``size`` bytes."""
    if isinstance(size, int):
        # The first block is large: after memory of this size was freed once, malloc keeps it for later blocks.
        size = BlockSize(size, first=BLOCK_BYTES)
    if len(captures) > 1 and all(capture.rereadable for capture in captures):
        yield from TimelineBlocks([Begun(*begin(capture), capture) for capture in captures], size=size)
        return
    found = CaptureBlocks(captures[0], size) if len(captures) == 1 else blocks(timeline(captures), size)
    for block in found:
        block.carved = carved(capture.health for capture in captures)
        yield block


def carved(healths: Iterable[Health]) -> dict[str, int]:
    """Return, by name, the captures read so far that hold chosen packets only: IN_ORDER or OUT_OF_ORDER."""
    said = {each.file: each.carved for each in healths if each.carved}
    return {name: OUT_OF_ORDER if text.endswith(DISORDER) else IN_ORDER for name, text in said.items()}


class CaptureBlocks:
    """The packets of one capture in blocks, plain ones many at once. Each byte is read once.

    ``at``: the position after the blocks so far: first the one to begin at (None: the beginning), None at the end. A
    block has a position of its own if it can be read again without the bytes before it.
    """

    def __init__(self, capture: Capture, size: BlockSize, at: CapturePosition | None = None) -> None:
        self._capture, self._size, self.at = capture, size, at

    def __iter__(self) -> Iterator[Block]:
        for block in self._read():
            block.move(self._capture.moved_ns)
            yield block

    def _read(self) -> Iterator[Block]:
        capture = self._capture
        if capture.rereadable:
            capture.enter(self.at or CapturePosition(capture.name, False))
        try:
            position = capture.position if capture.enterable else None
            for block in blocks(capture.runs(), self._size, capture.read_ahead):
                if position is not None:
                    block.position = BlockPosition(position, len(block), block.batch.times[-1])
                self.at = capture.position
                position = self.at if capture.enterable else None
                yield block
        finally:
            self.at = None
            capture.close()


class Begun(NamedTuple):
    """A capture of a timeline, with its sort key from ``capture.file.begin``."""

    first_ns: int
    name: str
    capture: Capture


class TimelinePosition(NamedTuple):
    """The position of the next packet in a capture of a timeline, and how many packets to skip from there."""

    name: str
    last_ns: int  #: of the packet before it, or of the capture's beginning
    at: CapturePosition | None = None  #: None: its beginning
    packets: int = 0


class TimelineBlocks:
    """The packets of ordinary files in blocks, in the order of ``capture.file.timeline``.

    Where captures follow one another, blocks are those of their files; where several overlap, packets are gathered into
    blocks. Between two blocks, ``positions`` returns the position in each open capture. To continue there, pass them as
    ``begun``, with the captures not begun yet as ``waiting``.
    """

    def __init__(
        self,
        waiting: Sequence[Begun],
        begun: Sequence[tuple[Capture, TimelinePosition]] = (),
        size: int | BlockSize = BLOCK_BYTES,
    ) -> None:
        self._waiting = sorted(waiting, key=lambda each: each[:2], reverse=True)
        self._size, self._usual = BlockSize.of(size), BlockSize.of(size).usual
        self._active: list[tuple[tuple[int, str, int], int, _OpenCapture]] = []  # a heap
        self._order = 0  # distinguishes equal keys: one file, named twice
        self._carved: dict[str, int] = {}
        self.begun: list[Begun] = []  #: the captures that were begun; the owner empties it
        for capture, position in begun:
            self._push(_OpenCapture(capture, self._size, position))

    @property
    def positions(self) -> list[TimelinePosition]:
        """Return the position in each capture that was begun and has not ended."""
        found = [opened.position for _, _, opened in self._active]
        return [each for each in found if each is not None]

    def __iter__(self) -> Iterator[Block]:
        held: list[Packet] = []
        have = 0
        while (opened := self._next()) is not None:
            block, begin, end = opened.packets_before(self._limit())
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

    def _next(self) -> "_OpenCapture | None":
        """Return the capture with the next packet."""
        active, waiting = self._active, self._waiting
        while active and not active[0][2].ready:
            self._push(heapq.heappop(active)[2])
        while waiting and (not active or (*waiting[-1][:2], 0) <= active[0][0]):
            begun = waiting.pop()
            if len(active) == OPEN_LIMIT:
                raise too_many_overlap(begun.name, OPEN_LIMIT)
            self.begun.append(begun)
            self._push(_OpenCapture(begun.capture, self._size, TimelinePosition(begun.name, begun.first_ns)))
        self._size.usual = max(self._usual // max(len(active), 1), min(self._usual, _SMALL))  # each holds a block
        return active[0][2] if active else None

    def _push(self, opened: "_OpenCapture") -> None:
        """Queue the next packet of a capture, if there is one."""
        if opened.load():
            self._order += 1
            heapq.heappush(self._active, (opened.key, self._order, opened))
            self._carved.update(carved([opened.capture.health]))

    def _limit(self) -> tuple[int, str, int] | None:
        """Return the sort key of the next packet of another capture; None without another."""
        found = [each[0] for each in self._active[1:3]]
        if self._waiting:
            found.append((*self._waiting[-1][:2], 0))
        return min(found, default=None)


_SMALL = 64 * 1024  #: the least bytes of a block, where many captures are read at once


class _OpenCapture:
    """A capture of a timeline: its current block, and the next packet in that."""

    def __init__(self, capture: Capture, size: BlockSize, position: TimelinePosition) -> None:
        self.ready = False  #: ``key`` is that of the next packet
        self.last_ns = position.last_ns  #: of the packet before it
        self.capture = capture
        self.key = position.last_ns, position.name, 0  #: (time, file, number)
        self._name, self._begin, self._row = position.name, position.at, position.packets
        self._blocks = CaptureBlocks(capture, size, position.at)
        self._source = iter(self._blocks)
        self._block: Block | None = None

    @property
    def position(self) -> TimelinePosition | None:
        """Return the position of the next packet; None after the last."""
        if self._block is None or self._row < len(self._block):
            return TimelinePosition(self._name, self.last_ns, self._begin, self._row)
        return None if self._blocks.at is None else TimelinePosition(self._name, self.last_ns, self._blocks.at)

    def load(self) -> bool:
        """Load the block with the next packet; return whether there is one."""
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

    def packets_before(self, limit: tuple[int, str, int] | None) -> tuple[Block, int, int]:
        """Return the packets before ``limit``, at least one: their block, the first row, and the row after the last."""
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


def read_again(position: BlockPosition) -> Block | None:
    """Return a block that was read before; None if its file has changed. Raises CaptureError, OSError."""
    begins = position.begins
    with Capture(begins.path, salvage=begins.salvage) as capture:
        capture.enter(begins)
        block = gathered(list(islice(capture.remaining(), position.packets)))
    return block if len(block) == position.packets and block.batch.times[-1] == position.last_ns else None


def blocks_as_they_come(captures: Sequence[Capture]) -> Iterator[Block | None]:
    """Yield the packets of growing inputs as one timeline; None while none arrives."""
    packets = timeline(captures)
    if arrives_plain(captures):
        for run in captures[0].arriving(BLOCK_BYTES):
            yield None if run is None else joined([run])
        packets = captures[0].remaining()
    for batch in StreamQueue(packets).batches():
        block = gathered(batch) if batch else None
        if block is not None:
            block.carved = carved(capture.health for capture in captures)
        yield block


def arrives_plain(captures: Sequence[Capture]) -> bool:
    """Return whether a growing input is one plain pcap, which is read without a thread."""
    return len(captures) == 1 and captures[0].arrives_plain
