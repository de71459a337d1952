"""Hold many captured packets as one block: as a Batch for reassembly, as columns for counting."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, overload

from dcpdump.capture.file import CapturePosition
from dcpdump.capture.plain_pcap import PACKET_USUAL, PlainRun
from dcpdump.net.batch import Batch
from dcpdump.net.packet import NO_TIME, Packet
from dcpdump.wire.frame import Where

if TYPE_CHECKING:
    from dcpdump.batch.gather import Array, Facts


#: Bytes of packets in a block: enough for NumPy to be faster, few enough for memory.
BLOCK_BYTES = 2 * 1024 * 1024
BLOCK_PACKETS = 65_536


class BlockPosition(NamedTuple):
    """The position of a block's packets in a capture."""

    begins: CapturePosition
    packets: int
    last_ns: int  #: of the last packet: if it has another time later, the file was changed


class Packets(Sequence[Packet]):
    """The packets of a batch, each made when it is requested.

    ``wire``: the length of each on the wire; ``interfaces``: the interface of each, if there are several.
    """

    def __init__(self, batch: Batch, wire: Callable[[int], int], interfaces: Sequence[int] = ()) -> None:
        self._batch, self._wire, self._interfaces = batch, wire, interfaces

    def __len__(self) -> int:
        return len(self._batch)

    @overload
    def __getitem__(self, index: int) -> Packet: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Packet]: ...

    def __getitem__(self, index: int | slice) -> Packet | Sequence[Packet]:
        if isinstance(index, slice):
            return [self._packet(position) for position in range(*index.indices(len(self)))]
        return self._packet(index)

    def _packet(self, index: int) -> Packet:
        batch = self._batch
        data = batch.data[batch.starts[index] : batch.ends[index]]
        ts = batch.times[index]
        name, by = batch.files[batch.file[index]], self._interfaces[index] if self._interfaces else 0
        time = None if ts == NO_TIME else ts
        return Packet(batch.numbers[index], time, batch.links[index], data, self._wire(index), name, "", by)


class Block:
    """Packets in the order of the input. ``packets`` makes a Packet of one on request.

    ``position``: where they can be read again; None if unknown. ``carved``: by file that holds chosen packets only,
    IN_ORDER or OUT_OF_ORDER.
    """

    carved: Mapping[str, int] = {}

    def __init__(self, batch: Batch, packets: Sequence[Packet], position: BlockPosition | None = None) -> None:
        self.batch = batch
        self.packets = packets
        self.position = position

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def data(self) -> bytes:
        """Return the bytes of all packets."""
        return self.batch.data

    @property
    def files(self) -> list[str]:
        """Return the files of the packets."""
        return self.batch.files

    @cached_property
    def numbers(self) -> "Array":
        """Return the number of each packet in its file."""
        return _column(self.batch.numbers)

    @cached_property
    def ts_ns(self) -> "Array":
        """Return the time of each packet in ns; NO_TIME where it has none."""
        return _column(self.batch.times)

    @cached_property
    def file(self) -> "Array":
        """Return the index in ``files`` of each packet's file."""
        return _column(self.batch.file)

    @cached_property
    def facts(self) -> "Facts":
        """Facts of each plain packet, as columns."""
        from dcpdump.batch.gather import facts_of

        return facts_of(self.batch)

    @cached_property
    def rises(self) -> bool:
        """Return whether all packets have times, and these never go back."""
        times = self.batch.times
        return NO_TIME not in times[:1] and sorted(times) == times

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """Return the earliest and the latest time of its packets; None if none has a time."""
        times = self.batch.times
        if self.rises:
            return (times[0], times[-1]) if times else None
        known = [ts_ns for ts_ns in times if ts_ns != NO_TIME]
        return (min(known), max(known)) if known else None

    @property
    def begins_ns(self) -> int | None:
        """Return the time of the first packet with a time."""
        return next((ts for ts in self.batch.times if ts != NO_TIME), None)

    def move(self, ns: int) -> None:
        """Add to the times of all packets. The block cannot be read again then, as the file has the old times."""
        if ns:
            self.position = None
            self.batch.times = [ts if ts == NO_TIME else ts + ns for ts in self.batch.times]
            if not isinstance(self.packets, Packets):  # these have the times of the batch
                times = [None if ts == NO_TIME else ts for ts in self.batch.times]
                self.packets = [each._replace(ts_ns=ts) for each, ts in zip(self.packets, times, strict=True)]

    def where(self, row: int) -> Where:
        """Return where a packet was found."""
        number, ts_ns, file, _ = self.batch.seen(row)
        return Where(number, ts_ns, file)


def _column(numbers: list[int]) -> "Array":
    import numpy as np  # here: NumPy takes longer to import than most filtered reads take

    return np.array(numbers, np.int64)


class BlockSize:
    """The size of blocks in bytes; a reader of blocks may choose another size for the next block."""

    def __init__(self, usual: int = BLOCK_BYTES, first: int | None = None) -> None:
        self.usual = usual
        self._next = usual if first is None else first

    @classmethod
    def of(cls, size: "int | BlockSize") -> "BlockSize":
        """Return a number of bytes as a BlockSize; a BlockSize as it is."""
        return cls(size) if isinstance(size, int) else size

    def next_size(self) -> int:
        """Return the size of the next block."""
        found, self._next = self._next, self.usual
        return found

    def choose(self, size: int) -> None:
        """Choose the size of the next block."""
        self._next = size


def blocks(
    packets: Iterable[Packet | PlainRun],
    size: int | BlockSize = BLOCK_BYTES,
    read_ahead: Callable[[int], None] = lambda size: None,
) -> Iterator[Block]:
    """Gather packets, and runs of them, into blocks of about ``size`` bytes.

    ``read_ahead``: is called with the size of the block that is read next.
    """
    sizes = BlockSize.of(size)
    want = sizes.next_size()
    read_ahead(want)
    held: list[Packet] = []
    runs: list[PlainRun] = []
    have = 0
    for each in packets:
        # All packets so far are in the next block: none waits for the one after it.
        if isinstance(each, PlainRun):
            if held:
                held += map(each.packet, range(len(each)))
            else:
                runs.append(each)
            have += each.ends[-1] - each.starts[0]
        else:
            held += [run.packet(row) for run in runs for row in range(len(run))]
            runs = []
            held.append(each)
            have += len(each[3])
        # A run ends before a record that was read in part. Behind the last run there may be damage, which is not read
        # unless more packets are requested.
        enough = want if held else want - PACKET_USUAL
        if have >= enough or len(held) >= BLOCK_PACKETS or (isinstance(each, PlainRun) and not each.sound):
            yield gathered(held) if held else joined(runs)
            held, runs, have, want = [], [], 0, sizes.next_size()
            read_ahead(want)
    if held or runs:
        yield gathered(held) if held else joined(runs)


def joined(runs: Sequence[PlainRun]) -> Block:
    """Join contiguous runs of packets of one file into a block."""
    run = runs[0] if len(runs) == 1 else PlainRun.joined(runs)
    count = len(run)
    numbers = list(range(run.first, run.first + count))
    batch = Batch(run.data, run.starts, run.ends, run.links, numbers, run.times, [0] * count, [run.file])
    return Block(batch, Packets(batch, run.wire, run.interfaces))


def gathered(packets: Sequence[Packet]) -> Block:
    """Make a block of packets, at least one."""
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for packet in packets:
        starts.append(at)
        at += len(packet[3])
        ends.append(at)
    files: dict[str, int] = {}
    file = [files.setdefault(packet[5], len(files)) for packet in packets]
    batch = Batch(
        b"".join([packet[3] for packet in packets]),
        starts,
        ends,
        [packet[2] for packet in packets],
        [packet[0] for packet in packets],
        [NO_TIME if packet[1] is None else packet[1] for packet in packets],
        file,
        list(files),
    )
    return Block(batch, packets)


# -- from when to when an input has packets -----------------------------------------------------------
# A capture with several threads writes packets out of order by less than a second: that is no change of the clock.

_BACK_NS: Final = 1_000_000_000


class TimeSpan:
    """The range of time of the blocks that it is fed, and the first step back of the clock."""

    def __init__(self) -> None:
        self.first_ns: int | None = None  #: the earliest time
        self.last_ns: int | None = None  #: the latest
        self.back: Where | None = None  #: the first packet that is a second or more before the one ahead of it
        self.back_ns = 0  #: by how much
        self._before: int | None = None

    def observe(self, block: Block) -> None:
        """Note the times of a block's packets."""
        if block.span is None:
            return
        first, last = block.span
        self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
        self.last_ns = last if self.last_ns is None else max(last, self.last_ns)
        if self.back is None and ((self._before or 0) > first or not block.rises):
            self._look_back(block)
        self._before = (
            block.batch.times[-1]
            if block.rises
            else next(ts_ns for ts_ns in reversed(block.batch.times) if ts_ns != NO_TIME)
        )

    def _look_back(self, block: Block) -> None:
        """Find where the clock goes back, if anywhere."""
        before = self._before
        for row, ts_ns in enumerate(block.batch.times):
            if ts_ns == NO_TIME:
                continue
            if before is not None and before - ts_ns >= _BACK_NS:
                self.back, self.back_ns = block.where(row), before - ts_ns
                return
            before = ts_ns


# -- the packets up to a time -------------------------------------------------------------------------


class PacketsUntil:
    """A cutter that drops packets later than a time, each by its own time, even if the clock goes back.

    ``end``: returns the last time (ns) to keep, given the time of the capture's first packet.
    """

    def __init__(self, end: Callable[[int | None], int]) -> None:
        self._end = end
        self._begins_ns: int | None = None
        self.end_ns: int | None = None  #: the last time to keep, once packets were dropped

    def cut(self, block: Block) -> Block | None:
        """Return a block without packets that are too late; None if none is left. Packets without a time stay."""
        if self._begins_ns is None:
            self._begins_ns = block.begins_ns
        end_ns = self._end(self._begins_ns)
        early = block.ts_ns <= end_ns
        if early.all():
            return block
        self.end_ns = end_ns
        rows = early.nonzero()[0].tolist()
        return gathered([block.packets[row] for row in rows]) if rows else None
