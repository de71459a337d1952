"""Build an index: dissect an input block by block, write its columns, and note where it can be entered again."""

import marshal
import os
import pickle
import tempfile
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple

import cramjam
import numpy as np

import dcpdump.batch.learning as state
from dcpdump.batch.block import BLOCK_BYTES, Block, BlockPlace, BlockSize, Packets, PcapPlace
from dcpdump.batch.ends import Ends
from dcpdump.batch.gather import Array
from dcpdump.batch.part import Part
from dcpdump.batch.read_blocks import blocks_as_they_come, blocks_of, read_again
from dcpdump.batch.resumable import DissectionState, ResumableDissection
from dcpdump.capture import Capture
from dcpdump.capture.damage import Damage
from dcpdump.capture.source import bytes_read
from dcpdump.conversation import MissingValues
from dcpdump.errors import CaptureError, OutputError
from dcpdump.index.columns import (
    GAP_BEFORE,
    HAS_SEQNO,
    HAS_STREAM_ID,
    HAS_VBUCKET,
    INFERRED,
    ODD,
    PLANNED,
    PROBLEM,
    REFUSED,
    RESPONSE,
    SERVER,
    SPOOL_BYTES,
    WEAK,
    Columns,
)
from dcpdump.net.batch import Batch
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record, own_seqno
from dcpdump.spec.header import STREAM_ID_LENGTH
from dcpdump.startup import dataclass, field
from dcpdump.tls.secrets import Secrets

# Take the columns of frames from the parts that a dissection makes of them.

_START = "start_seqno"


class _KnownEnds:
    """The directions that frames are of, numbered as they are met."""

    def __init__(self) -> None:
        self.ends: list[Ends] = []
        self._numbers: dict[tuple[int, int], int] = {}

    def of(self, part: Part) -> Array:
        """Return the number of each frame's direction."""
        return np.array([self._number(ends) for ends in part.places], np.uint32)[part.place]

    def _number(self, ends: Ends) -> int:
        number = self._numbers.setdefault((ends.connection, ends.direction), len(self.ends))
        if number == len(self.ends):
            self.ends.append(ends)
        return number


def _columns_of(part: Part, places: _KnownEnds) -> dict[str, Array]:
    """Return the columns of a part."""
    header, count = part.header, len(part)
    response = header.response
    planned, seqno, has_seqno = part.plan >= 0, np.zeros(count, np.uint64), np.zeros(count, bool)
    for group in part.groups:
        own = group.plan.own_seqno or (_START if group.plan.has(_START) else None)
        if own is not None:
            seqno[group.rows], has_seqno[group.rows] = group.column(own), True
    stream_id = np.zeros(count, np.uint16)
    tagged = np.flatnonzero(planned & (header.framing == STREAM_ID_LENGTH))
    stream_id[tagged] = part.stream_id(tagged)
    flags = (
        response * np.uint16(RESPONSE)
        | header.server * np.uint16(SERVER)
        | (part.gap_before > 0) * np.uint16(GAP_BEFORE)
        | part.weak.astype(bool) * np.uint16(WEAK)
        | planned * np.uint16(PLANNED)
        | part.knows(state.INFERRED) * np.uint16(INFERRED)
        | ~response * np.uint16(HAS_VBUCKET)
        | has_seqno * np.uint16(HAS_SEQNO)
        | (response & (header.word != 0)) * np.uint16(REFUSED)
    )
    flags[tagged] |= HAS_STREAM_ID
    columns: dict[str, Any] = {
        "ts_ns": part.ts_ns,
        "opcode": header.opcode,
        "magic": header.magic,
        "vbucket": np.where(response, 0, header.word),
        "status": np.where(response, header.word, 0),
        "place": places.of(part),
        "opaque": header.opaque,
        "stream_id": stream_id,
        "seqno": seqno,
        "length": part.length,
        "flags": flags,
    }
    flags[list(part.odd)] |= ODD
    columns |= _take_records(part, columns)
    torn = np.flatnonzero(part.gap_before)
    columns |= {"gap_frame": torn + part.first, "gap_bytes": part.gap_before[torn]}
    return columns


def _take_records(part: Part, columns: dict[str, Array]) -> dict[str, Array]:
    """Put what only records know into the columns; return which answer which."""
    flags, vbucket = columns["flags"], columns["vbucket"]
    answers: list[tuple[int, int]] = []
    for row, known in part.records.items():
        if known.request is not None:
            answers.append((part.first + row, known.request.frame))
        if known.vbucket is not None:
            vbucket[row] = known.vbucket
            flags[row] |= HAS_VBUCKET
        else:
            vbucket[row] = 0
            flags[row] &= 0xFFFF ^ HAS_VBUCKET
        if isinstance(known, Record):
            _take_record(known, row, columns)
    answers.sort()
    numbers = np.array(answers, np.int64).reshape(len(answers), 2)
    return {"answer": numbers[:, 0], "request": numbers[:, 1]}


def _take_record(record: Record, row: int, columns: dict[str, Array]) -> None:
    flags = columns["flags"]
    if record.problems:
        flags[row] |= PROBLEM
    if record.stream_id is not None:
        columns["stream_id"][row] = record.stream_id & 0xFFFF
        flags[row] |= HAS_STREAM_ID if 0 <= record.stream_id <= 0xFFFF else ODD
    own = own_seqno(record.frame)
    seqno = record.frame.get(_START) if own is None else own
    if seqno is not None:
        columns["seqno"][row] = seqno
        flags[row] |= HAS_SEQNO


# -- replay -------------------------------------------------------------------------------------------
# Dissect a stretch of the input once more, from the checkpoint before it, to have its frames again.

# -- checkpoints --------------------------------------------------------------------------------------
# The states from which a dissection continues, so that any frame is reached without what came before.
#
# They are held in memory, compressed, by the process that made them or its parent, and are never written to a disk.

#: Bytes of packets between two checkpoints, at first.
_DISTANCE = 4 * 1024 * 1024
#: Bytes that checkpoints take together, at most.
_MEMORY = 48 * 1024 * 1024


class Checkpoint(NamedTuple):
    """A state between two blocks."""

    frame: int  #: the number of the next frame
    block: int  #: which block comes next
    state: bytes  #: b"" at the beginning of the input

    def unpacked(self) -> DissectionState:
        """Return the state."""
        state: DissectionState = pickle.loads(bytes(cramjam.lz4.decompress_block(self.state)))
        return state


def packed(state: DissectionState) -> bytes:
    """Pack a state."""
    return bytes(cramjam.lz4.compress_block(pickle.dumps(state, pickle.HIGHEST_PROTOCOL)))


class Checkpoints:
    """The checkpoints of an input, in its order. The first is its beginning, and always there."""

    def __init__(self, memory: int = _MEMORY) -> None:
        self._memory = memory
        self._size = 0
        self._all = [Checkpoint(1, 0, b"")]
        self._frames = [1]

    def __len__(self) -> int:
        return len(self._all)

    def add(self, checkpoint: Checkpoint) -> bool:
        """Add one behind the others; return whether every second had to be dropped to make space."""
        self._all.append(checkpoint)
        self._frames.append(checkpoint.frame)
        self._size += len(checkpoint.state)
        if self._size <= self._memory or len(self._all) < 3:
            return False
        self._keep(self._all[::2])
        return True

    def clear(self) -> None:
        """Drop all but the beginning."""
        self._keep(self._all[:1])

    def before(self, frame: int) -> Checkpoint:
        """Return the last one from which a frame is reached."""
        return self._all[bisect_right(self._frames, frame) - 1]

    def _keep(self, kept: list[Checkpoint]) -> None:
        self._all = kept
        self._frames = [each.frame for each in kept]
        self._size = sum(len(each.state) for each in kept)


# -- spool --------------------------------------------------------------------------------------------
# Blocks of packets that cannot be read a second time where they came from, in a temporary file.
#
# The file is unlinked and bounded: it is a ring, in which the newest blocks overwrite the oldest. Its bytes are read
# only by the processes that share it.

#: In front of each block: its place in all that was written, its length, and a checksum.
_HEAD = Struct(">QQI")


class Spool:
    """A ring of blocks. Made before a process is forked, it is shared: one writes, both read."""

    def __init__(self, limit: int = SPOOL_BYTES) -> None:
        self._limit = limit
        self._end = 0  # of all that was written
        try:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise _no_place(error) from error

    def write(self, block: Block) -> int:
        """Write a block, and return its place."""
        data = marshal.dumps(_values(block))
        size = _HEAD.size + len(data)
        at = self._end
        if at % self._limit + size > self._limit and size <= self._limit:
            at += self._limit - at % self._limit  # a block is never in two pieces
        self._end = at + size
        try:
            _write(self._file.fileno(), at % self._limit, _HEAD.pack(at, len(data), zlib.crc32(data)))
            _write(self._file.fileno(), at % self._limit + _HEAD.size, data)
        except OSError as error:
            raise _no_place(error) from error
        return at

    def read(self, place: int) -> Block | None:
        """Return the block at a place; None where newer ones have overwritten it."""
        at = place % self._limit
        head = _read(self._file.fileno(), at, _HEAD.size)
        if len(head) < _HEAD.size:
            return None
        found, size, checksum = _HEAD.unpack(head)
        if found != place:
            return None
        data = _read(self._file.fileno(), at + _HEAD.size, size)
        if len(data) < size or zlib.crc32(data) != checksum:
            return None
        batch, wire = marshal.loads(data)
        made = Batch(*batch)
        return Block(made, Packets(made, wire.__getitem__))

    def close(self) -> None:
        """Close the file, which frees its space."""
        self._file.close()


def _values(block: Block) -> tuple[Any, list[int]]:
    batch = block.batch
    wire = [packet.wire_length for packet in block.packets]
    return (
        (batch.data, batch.starts, batch.ends, batch.links, batch.numbers, batch.times, batch.file, batch.files),
        wire,
    )


def _write(fd: int, at: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        count = os.pwrite(fd, left, at)
        left, at = left[count:], at + count


def _read(fd: int, at: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size and (piece := os.pread(fd, size, at)):
        pieces.append(piece)
        size, at = size - len(piece), at + len(piece)
    return b"".join(pieces)


def _no_place(error: OSError) -> OutputError:
    folder = tempfile.gettempdir()
    return OutputError(
        f"the packets cannot be kept to be read again: {error.strerror or error}", folder, "TMPDIR=/a/larger/folder"
    )


#: Where a block can be read again: in its file, or in the spool.
KeptPlace = BlockPlace | int


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How an input is indexed."""

    limits: Limits = DEFAULT
    secrets: Secrets | None = None  #: what opens TLS
    show_secrets: bool = False  #: in records
    block_bytes: int = BLOCK_BYTES
    first_bytes: int = 64 * 1024  #: of the first block: its frames are waited for
    distance: int = _DISTANCE  #: bytes of packets between two checkpoints, at least
    #: The same for each connection that there is, so that saving them takes little of the time.
    connection_distance: int = 32 * 1024
    #: What is decoded one by one, as a request is, takes as long as so many bytes that are not.
    record_bytes: int = 16 * 1024
    memory: int = _MEMORY  #: bytes of checkpoints, at most
    spool_bytes: int = SPOOL_BYTES
    parts: int = 16  #: decoded parts that are kept

    def dissection(self, secrets: Secrets | None) -> ResumableDissection:
        """Return a dissection that nothing was fed to."""
        return ResumableDissection(self.limits, show_secrets=self.show_secrets, secrets=secrets)


class NoLongerKept(LookupError):
    """The packets of a frame were overwritten in the spool by newer ones."""


class Replay:
    """The parts of an indexed input. ``blocks`` and ``checkpoints`` grow while it is indexed."""

    def __init__(self, blocks: list[KeptPlace], checkpoints: Checkpoints, spool: Spool, options: IndexOptions) -> None:
        self._blocks, self._checkpoints, self._spool, self._options = blocks, checkpoints, spool, options
        self._kept: OrderedDict[int, Part] = OrderedDict()  # by first frame, least recently used first
        self._dissection: ResumableDissection | None = None  # that made the last part
        self._coming: Iterator[Part] = iter(())  # the next parts that it makes
        self.complete = False  #: the input has ended, so that what is open at its end is made too

    def part(self, number: int) -> Part:
        """Return the part that holds a frame. Raises LookupError where there is none, OSError, CaptureError."""
        for first, part in self._kept.items():
            if first <= number < first + len(part):
                self._kept.move_to_end(first)
                return part
        for part in self.parts(number):
            return part
        raise LookupError(f"there is no frame {number:,}")

    def parts(self, number: int) -> Iterator[Part]:
        """Yield the part that holds a frame, and those that follow it, while nothing else is asked for."""
        coming = self._enter(number)
        while self._coming is coming:
            part = next(coming, None)
            if part is not None and number < part.first + len(part):
                yield part

    def forget(self) -> None:
        """Drop what is kept, after checkpoints were dropped that it came from."""
        self._dissection, self._coming = None, iter(())

    def _enter(self, number: int) -> Iterator[Part]:
        """Return the next parts of a dissection that is at the frame or before it."""
        checkpoint, dissection = self._checkpoints.before(number), self._dissection
        if dissection is None or not checkpoint.frame <= dissection.next_frame <= number:
            state = checkpoint.unpacked() if checkpoint.state else None
            dissection = self._options.dissection(self._secrets(now=state is not None and bool(state.tls)))
            if state is not None:
                dissection.restore(state)
            self._dissection, self._coming = dissection, self._more(dissection, checkpoint.block)
        return self._coming

    def _secrets(self, *, now: bool) -> Secrets | None:
        """Return the same secrets for another reading, ``now`` or once they are asked for: captures hold some."""
        secrets = self._options.secrets
        if secrets is None or now:
            return None if secrets is None else secrets.renewed()
        later = Secrets()
        later.add_source(lambda: later.take_all(secrets.renewed()))
        return later

    def _more(self, dissection: ResumableDissection, number: int) -> Iterator[Part]:
        """Yield the parts from a block on, to the end of what is indexed."""
        try:
            while number < len(self._blocks):
                block = self._read(self._blocks[number])
                number += 1
                yield from self._keep(dissection, dissection.feed_block(block))
            if self.complete:
                yield from self._keep(dissection, dissection.close_blocks())
        finally:
            if self._dissection is dissection:
                self.forget()  # it cannot make more

    def _keep(self, dissection: ResumableDissection, some: Iterator[list[Part]]) -> Iterator[Part]:
        """Keep the parts that were used last."""
        for parts in some:
            dissection.gaps.clear()
            for part in parts:
                self._kept[part.first] = part
                self._kept.move_to_end(part.first)
            while len(self._kept) > self._options.parts:
                self._kept.popitem(last=False)
            yield from parts

    def _read(self, place: KeptPlace) -> Block:
        if isinstance(place, int):
            block = self._spool.read(place)
            if block is None:
                raise NoLongerKept("the packets of this frame are no longer kept")
            return block
        block = read_again(place)
        if block is None:
            path = place.path if isinstance(place, PcapPlace) else place.begins.path
            raise CaptureError("this file was changed or cut after it was read", path)
        return block


#: A block has about so many frames at most that are decoded one by one, as the one before has shown; and at least so
#: many bytes. It is twice as large as that one at most.
_RECORDS, _LEAST_BYTES = 256, 16 * 1024


@dataclass(slots=True)
class Update:
    """What a block added to an index."""

    frames: int = 0  #: rows of the columns
    answers: int = 0
    gaps: int = 0  #: frames before which bytes were lost or skipped
    lost: MissingValues = (0, 0, {})
    skipped_bytes: int = 0
    bytes_read: int = 0
    begins_ns: int | None = None  #: the time of the first packet
    blocks: list[KeptPlace] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    evicted: bool = False  #: memory had to be freed: frames so far are reached from the beginning only
    ends: list[Ends] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    idle: bool = False  #: nothing comes at the moment
    complete: bool = False
    key_log: bytes = b""  #: secrets that the input carried, where another process is to know them
    failure: str = ""  #: why nothing more is indexed before the end, in words


class IndexInput(NamedTuple):
    """What is indexed: the captures, and where their columns and packets go."""

    captures: Sequence[Capture]
    columns: Columns
    spool: Spool


class Builder:
    """Indexes an input: call ``step`` until it says that the index is complete."""

    def __init__(self, given: IndexInput, options: IndexOptions) -> None:
        self._given, self._options = given, options
        self._dissection = options.dissection(options.secrets)
        self._places = _KnownEnds()
        self._size = BlockSize(options.block_bytes, min(options.first_bytes, options.block_bytes))
        self._blocks = self._read()
        self._number = 0  # of blocks
        self._since = 0  # bytes since the last checkpoint
        self._distance = options.distance
        self._frames = self._answers = self._gaps = 0
        self._begins_ns: int | None = None
        self._before = bytes_read()
        self._known_ends = self._known_damage = self._evictions = 0

    @property
    def waits_for(self) -> int | None:
        """Return None: there is something to do at any time."""
        return None

    def updates(self, wait: float = 0.0) -> list[Update]:
        """Index the next block, however long that takes."""
        return [self.step()]

    def double_distance(self) -> None:
        """Make half as many checkpoints from here on."""
        self._distance *= 2

    def step(self) -> Update:
        """Index the next block, or the end of the input."""
        block = next(self._blocks, self)
        update = Update()
        if block is None:
            self._append_all(self._dissection.idle())
            update.idle = True
        elif isinstance(block, Block):
            self._feed(block, update)
        else:
            self._append_all(self._dissection.close_blocks())
            update.complete = True
        self._sum_up(update)
        return update

    def close(self) -> None:
        """Close the captures."""
        self._blocks.close()
        for capture in self._given.captures:
            capture.close()

    def _read(self) -> Generator[Block | None, None, None]:
        captures = self._given.captures
        if all(capture.rereadable for capture in captures):
            yield from blocks_of(captures, self._size)
        else:
            yield from blocks_as_they_come(captures)

    def _feed(self, block: Block, update: Update) -> None:
        if self._begins_ns is None:
            self._begins_ns = block.begins_ns
        records = self._append_all(self._dissection.feed_block(block))
        update.blocks.append(self._given.spool.write(block) if block.place is None else block.place)
        self._number += 1
        self._since += max(len(block.data), records * self._options.record_bytes)
        size = len(block.data) * min(2 * max(records, 1), _RECORDS) // max(records, 1)
        self._size.choose(min(max(size, _LEAST_BYTES), self._options.block_bytes))
        evictions = self._dissection.balance.evictions
        if evictions != self._evictions:
            # What a dissection forgets depends on how much it holds, of which a state knows only what is needed.
            self._evictions, update.evicted, self._since = evictions, True, 0
        elif self._since >= max(self._distance, self._options.connection_distance * self._connections):
            self._note_checkpoint(update)

    @property
    def _connections(self) -> int:
        return len(self._dissection.conversations)

    def _note_checkpoint(self, update: Update) -> None:
        if not self._dissection.resumable:
            return
        self._since = 0
        state = self._dissection.state()
        update.checkpoints.append(Checkpoint(state.first, self._number, packed(state)))

    def _append_all(self, some: Iterable[list[Part]]) -> int:
        """Append the columns of parts, some at a time; return how many of their frames were decoded one by one."""
        records = 0
        for parts in some:
            self._append(parts)
            records += sum(len(part.records) for part in parts)
        return records

    def _append(self, parts: Sequence[Part]) -> None:
        for part in parts:
            columns = _columns_of(part, self._places)
            self._given.columns.append(columns)
            self._frames += len(part)
            self._answers += len(columns["answer"])
            self._gaps += len(columns["gap_frame"])
        self._dissection.gaps.clear()

    def _sum_up(self, update: Update) -> None:
        update.frames, update.answers, update.gaps = self._frames, self._answers, self._gaps
        tally = self._dissection.tally
        update.lost, update.skipped_bytes = tally.lost.values, tally.skipped_bytes
        update.begins_ns = self._begins_ns
        update.bytes_read = bytes_read() - self._before
        update.ends, self._known_ends = self._places.ends[self._known_ends :], len(self._places.ends)
        damage = [each for capture in self._given.captures for each in capture.damage]
        update.damage, self._known_damage = damage[self._known_damage :], len(damage)


def input_bytes(captures: Sequence[Capture]) -> int | None:
    """Return how many bytes the files of captures have; None where one is no file, or grows."""
    if not all(capture.rereadable for capture in captures):
        return None
    return sum(os.path.getsize(capture.name) for capture in captures)
