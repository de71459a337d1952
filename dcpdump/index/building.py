"""Build an index: dissect an input block by block, write its columns, and save checkpoints."""

import marshal
import pickle
import tempfile
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple

import cramjam
import numpy as np

from dcpdump.batch.block import BLOCK_BYTES, Block, BlockPosition, BlockSize, Packets
from dcpdump.batch.dissector import Dissection, DissectionState
from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.gather import Array
from dcpdump.batch.read_blocks import blocks_as_they_come, blocks_of, read_again
from dcpdump.capture.damage import Damage
from dcpdump.capture.file import Capture
from dcpdump.capture.source import bytes_read
from dcpdump.conversation import MissingValues
from dcpdump.errors import CaptureError
from dcpdump.index.columns import (
    GAP_BEFORE,
    HAS_SEQNO,
    HAS_STREAM_ID,
    HAS_VBUCKET,
    ODD,
    PROBLEM,
    REFUSED,
    RESPONSE,
    SERVER,
    SPOOL_BYTES,
    Columns,
    not_kept,
)
from dcpdump.net.batch import Batch
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.processes import write_all
from dcpdump.record import Direction, Record, own_seqno
from dcpdump.spec.header import STREAM_ID_LENGTH
from dcpdump.startup import dataclass
from dcpdump.tls.secrets import Secrets

# The columns of frames are made from the batches of a dissection.

_START = "start_seqno"


def _columns_of(batch: FrameBatch, direction_ids: Array) -> dict[str, Array]:
    """Return the columns of a batch. ``direction_ids``: of its directions, the numbers among those of the index."""
    header, count = batch.header, len(batch)
    response = header.response
    seqno, has_seqno = np.zeros(count, np.uint64), np.zeros(count, bool)
    for group in batch.groups:
        own = group.plan.own_seqno or (_START if group.plan.has(_START) else None)
        if own is not None:
            seqno[group.rows], has_seqno[group.rows] = group.column(own), True
    stream_id = np.zeros(count, np.uint16)
    tagged = np.flatnonzero((batch.plan >= 0) & (header.framing == STREAM_ID_LENGTH))
    stream_id[tagged] = batch.stream_id(tagged)
    flags = (
        response * np.uint16(RESPONSE)
        | header.server * np.uint16(SERVER)
        | (batch.gap_before > 0) * np.uint16(GAP_BEFORE)
        | ~response * np.uint16(HAS_VBUCKET)
        | has_seqno * np.uint16(HAS_SEQNO)
        | (response & (header.vbucket_or_status != 0)) * np.uint16(REFUSED)
    )
    flags[tagged] |= HAS_STREAM_ID
    columns: dict[str, Any] = {
        "ts_ns": batch.ts_ns,
        "opcode": header.opcode,
        "magic": header.magic,
        "vbucket": np.where(response, 0, header.vbucket_or_status),
        "status": np.where(response, header.vbucket_or_status, 0),
        "direction": direction_ids[batch.direction],
        "opaque": header.opaque,
        "stream_id": stream_id,
        "seqno": seqno,
        "length": batch.length,
        "flags": flags,
    }
    flags[list(batch.odd)] |= ODD
    columns |= _with_records(batch, columns)
    gaps = np.flatnonzero(batch.gap_before)
    columns |= {"gap_frame": gaps + batch.first, "gap_bytes": batch.gap_before[gaps]}
    return columns


def _with_records(batch: FrameBatch, columns: dict[str, Array]) -> dict[str, Array]:
    """Write the columns of frames with records; return the responses and their requests."""
    flags, vbucket = columns["flags"], columns["vbucket"]
    answers: list[tuple[int, int]] = []
    for row, known in batch.records.items():
        if known.request is not None:
            answers.append((batch.first + row, known.request.frame))
        if known.vbucket is not None:
            vbucket[row] = known.vbucket
            flags[row] |= HAS_VBUCKET
        else:
            vbucket[row] = 0
            flags[row] &= 0xFFFF ^ HAS_VBUCKET
        if isinstance(known, Record):
            _set_record(known, row, columns)
    answers.sort()
    numbers = np.array(answers, np.int64).reshape(len(answers), 2)
    return {"answer": numbers[:, 0], "request": numbers[:, 1]}


def _set_record(record: Record, row: int, columns: dict[str, Array]) -> None:
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


# -- checkpoints --------------------------------------------------------------------------------------
# A checkpoint is a state from which a dissection continues, so that a frame needs no earlier packets.
#
# Checkpoints are held in memory, compressed, by the process that made them or its parent; never on disk.

#: Bytes of packets between two checkpoints, initially.
_DISTANCE = 4 * 1024 * 1024
#: The most bytes of all checkpoints.
_MEMORY = 48 * 1024 * 1024


class Checkpoint(NamedTuple):
    """A state between two blocks."""

    frame: int  #: the number of the next frame
    block: int  #: the number of the next block
    state: bytes  #: b"" at the beginning of the input

    def unpacked(self) -> DissectionState:
        """Return the state."""
        state: DissectionState = pickle.loads(bytes(cramjam.lz4.decompress_block(self.state)))
        return state


def packed(state: DissectionState) -> bytes:
    """Pack a state."""
    return bytes(cramjam.lz4.compress_block(pickle.dumps(state, pickle.HIGHEST_PROTOCOL)))


class Checkpoints:
    """The checkpoints of an input, in order. The first is the beginning, and is always kept."""

    def __init__(self, memory: int = _MEMORY) -> None:
        self._memory = memory
        self._size = 0
        self._all = [Checkpoint(1, 0, b"")]
        self._frames = [1]

    def __len__(self) -> int:
        return len(self._all)

    def add(self, checkpoint: Checkpoint) -> bool:
        """Append a checkpoint; return whether every second one was dropped to make space."""
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
        """Return the last checkpoint at or before a frame."""
        return self._all[bisect_right(self._frames, frame) - 1]

    def _keep(self, kept: list[Checkpoint]) -> None:
        self._all = kept
        self._frames = [each.frame for each in kept]
        self._size = sum(len(each.state) for each in kept)


# -- spool --------------------------------------------------------------------------------------------
# The spool is a temporary file of blocks of packets whose input cannot be read a second time.
#
# The file is unlinked and bounded: a ring, in which new blocks overwrite the oldest.

#: The header of a block: its offset in all bytes written, and its length.
_HEAD = Struct(">QQ")


class Spool:
    """A ring of blocks. None begins inside an older one, so the header of what is overwritten is lost first."""

    def __init__(self, limit: int = SPOOL_BYTES) -> None:
        self._limit = limit
        self._end = 0  # of all bytes written
        try:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise not_kept("the packets cannot be kept to be read again", error) from error

    def write(self, block: Block) -> int:
        """Write a block, and return its offset."""
        data = marshal.dumps(_values(block))
        size = _HEAD.size + len(data)
        at = self._end
        if at % self._limit + size > self._limit:
            at += -at % self._limit  # a block is never split
        self._end = at + size
        if size > self._limit:
            self._end += -size % self._limit  # the next one begins where this one does
        try:
            self._file.seek(at % self._limit)
            write_all(self._file.fileno(), _HEAD.pack(at, len(data)) + data)
        except OSError as error:
            raise not_kept("the packets cannot be kept to be read again", error) from error
        return at

    def read(self, position: int) -> Block | None:
        """Return the block at an offset; None if newer ones have overwritten it."""
        self._file.seek(position % self._limit)
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        found, size = _HEAD.unpack(head)
        if found != position:
            return None
        batch, wire = marshal.loads(self._file.read(size))
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


#: The position from which a block can be read again: in its file, or in the spool.
KeptBlock = BlockPosition | int


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The options of indexing."""

    limits: Limits = DEFAULT
    secrets: Secrets | None = None  #: secrets of TLS
    block_bytes: int = BLOCK_BYTES
    first_bytes: int = 64 * 1024  #: bytes of the first block, small, since its frames are waited for
    distance: int = _DISTANCE  #: bytes of packets between two checkpoints, at least
    #: The same for each connection, so that saving their states takes a small part of the time.
    connection_distance: int = 32 * 1024
    #: Decoding one frame as a record takes as long as so many bytes of ordinary frames.
    record_bytes: int = 16 * 1024
    memory: int = _MEMORY  #: the most bytes of checkpoints
    spool_bytes: int = SPOOL_BYTES
    batches: int = 16  #: decoded batches that are kept

    def dissection(self, secrets: Secrets | None) -> Dissection:
        """Return a new dissection."""
        return Dissection(self.limits, secrets=secrets)


# -- replay -------------------------------------------------------------------------------------------
# Frames are made again by dissecting the input from the checkpoint before them.


class Replay:
    """A source of the batches of an indexed input. ``blocks`` and ``checkpoints`` grow during indexing."""

    def __init__(self, blocks: list[KeptBlock], checkpoints: Checkpoints, spool: Spool, options: IndexOptions) -> None:
        self._blocks, self._checkpoints, self._spool, self._options = blocks, checkpoints, spool, options
        self._kept: OrderedDict[int, FrameBatch] = OrderedDict()  # by first frame, least recently used first
        self._dissection: Dissection | None = None  # the dissection of the last batch
        self._coming: Iterator[FrameBatch] = iter(())  # its next batches
        self.complete = False  #: the input has ended: frames open at its end are made too

    def batch(self, number: int) -> FrameBatch:
        """Return the batch with a frame. Raises LookupError without such a frame, OSError, CaptureError."""
        for first, batch in self._kept.items():
            if first <= number < first + len(batch):
                self._kept.move_to_end(first)
                return batch
        for batch in self.batches(number):
            return batch
        raise LookupError(f"there is no frame {number:,}")

    def batches(self, number: int) -> Iterator[FrameBatch]:
        """Yield the batch with a frame, and the batches after it; no other call may come between."""
        coming = self._enter(number)
        while self._coming is coming:
            batch = next(coming, None)
            if batch is not None and number < batch.first + len(batch):
                yield batch

    def forget(self) -> None:
        """Drop the batches that are kept, after their checkpoints were dropped."""
        self._dissection, self._coming = None, iter(())

    def _enter(self, number: int) -> Iterator[FrameBatch]:
        """Return the batches from a checkpoint at or before a frame on."""
        checkpoint, dissection = self._checkpoints.before(number), self._dissection
        if dissection is None or not checkpoint.frame <= dissection.next_frame <= number:
            state = checkpoint.unpacked() if checkpoint.state else None
            dissection = self._options.dissection(self._secrets(now=state is not None and bool(state.tls)))
            if state is not None:
                dissection.restore(state)
            self._dissection, self._coming = dissection, self._more(dissection, checkpoint.block)
        return self._coming

    def _secrets(self, *, now: bool) -> Secrets | None:
        """Return the secrets for a new reading; those in captures are gathered ``now``, or when needed."""
        secrets = self._options.secrets
        if secrets is None or now:
            return None if secrets is None else secrets.renewed()
        later = Secrets()
        later.add_source(lambda: later.add_all(secrets.renewed()))
        return later

    def _more(self, dissection: Dissection, number: int) -> Iterator[FrameBatch]:
        """Yield the batches from a block on, up to the last indexed block."""
        try:
            while number < len(self._blocks):
                block = self._read(self._blocks[number])
                number += 1
                yield from self._keep(dissection, dissection.feed_block(block))
            if self.complete:
                yield from self._keep(dissection, dissection.close_blocks())
        finally:
            if self._dissection is dissection:
                self.forget()  # it is at its end

    def _keep(self, dissection: Dissection, some: Iterator[list[FrameBatch]]) -> Iterator[FrameBatch]:
        """Keep the most recently used batches."""
        for batches in some:
            dissection.gaps.clear()
            for batch in batches:
                self._kept[batch.first] = batch
                self._kept.move_to_end(batch.first)
            while len(self._kept) > self._options.batches:
                self._kept.popitem(last=False)
            yield from batches

    def _read(self, position: KeptBlock) -> Block:
        if isinstance(position, int):
            block = self._spool.read(position)
            if block is None:
                raise LookupError("the packets of this frame are no longer kept")
            return block
        block = read_again(position)
        if block is None:
            raise CaptureError("this file was changed or cut after it was read", position.begins.path)
        return block


#: The most frames of a block to decode as records, estimated from the block before; and the least bytes of a block. A
#: block is at most twice as large as the one before.
_RECORDS, _LEAST_BYTES = 256, 16 * 1024


class IndexInput(NamedTuple):
    """The captures to index, and the columns and spool to write."""

    captures: Sequence[Capture]
    columns: Columns
    spool: Spool


class Builder:
    """An indexer of an input: call ``step`` until it is ``complete``."""

    def __init__(self, given: IndexInput, options: IndexOptions) -> None:
        self._given, self._options = given, options
        self._dissection = options.dissection(options.secrets)
        self._numbers: dict[int, int] = {}  # of directions, in the order seen
        self._size = BlockSize(options.block_bytes, min(options.first_bytes, options.block_bytes))
        self._input = self._read()
        self._since = 0  # bytes since the last checkpoint
        self._distance = options.distance
        self._before = bytes_read()
        self._evictions = 0
        self.blocks: list[KeptBlock] = []
        self.checkpoints = Checkpoints(options.memory)
        self.replay = Replay(self.blocks, self.checkpoints, given.spool, options)
        self.directions: list[Direction] = []  #: the directions by the numbers in the columns
        self.frames = self.answers = self.gaps = 0  #: rows of the columns; gaps: frames after lost or skipped bytes
        self.begins_ns: int | None = None  #: the time of the first packet
        self.idle = False  #: no bytes come at the moment
        self.complete = False

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return how many frames, responses and gaps the columns have."""
        return self.frames, self.answers, self.gaps

    @property
    def lost(self) -> MissingValues:
        """Return what was lost so far."""
        return self._dissection.tally.lost.values

    @property
    def skipped_bytes(self) -> int:
        """Return how many bytes were skipped so far."""
        return self._dissection.tally.skipped_bytes

    @property
    def bytes_read(self) -> int:
        """Return how many bytes of the captures were read."""
        return bytes_read() - self._before

    @property
    def damage(self) -> list[Damage]:
        """Return the damage of the captures so far."""
        return [each for capture in self._given.captures for each in capture.damage]

    def step(self) -> None:
        """Index the next block, or the end of the input."""
        block = next(self._input, self)
        self.idle = block is None
        if isinstance(block, Block):
            self._feed(block)
        elif block is None:
            self._append_all(self._dissection.idle())
        else:
            self._append_all(self._dissection.close_blocks())
            self.complete = self.replay.complete = True

    def close(self) -> None:
        """Close the captures."""
        self._input.close()
        for capture in self._given.captures:
            capture.close()

    def _read(self) -> Generator[Block | None, None, None]:
        captures = self._given.captures
        if all(capture.rereadable for capture in captures):
            yield from blocks_of(captures, self._size)
        else:
            yield from blocks_as_they_come(captures)

    def _feed(self, block: Block) -> None:
        if self.begins_ns is None:
            self.begins_ns = block.begins_ns
        records = self._append_all(self._dissection.feed_block(block))
        self.blocks.append(self._given.spool.write(block) if block.position is None else block.position)
        self._since += max(len(block.data), records * self._options.record_bytes)
        size = len(block.data) * min(2 * max(records, 1), _RECORDS) // max(records, 1)
        self._size.choose(min(max(size, _LEAST_BYTES), self._options.block_bytes))
        evictions = self._dissection.balance.evictions
        if evictions != self._evictions:
            # A dissection forgets by how much memory it uses; a state has only what later frames need. So earlier
            # frames are made from the beginning.
            self._evictions, self._since = evictions, 0
            self.checkpoints.clear()
            self.replay.forget()
            return
        distance = max(self._distance, self._options.connection_distance * len(self._dissection.conversations))
        if self._since >= distance and self._dissection.resumable:
            self._since = 0
            state = self._dissection.state()
            if self.checkpoints.add(Checkpoint(state.first, len(self.blocks), packed(state))):
                self._distance *= 2

    def _append_all(self, some: Iterable[list[FrameBatch]]) -> int:
        """Append the columns of batches, some at a time; return how many of their frames have records."""
        records = 0
        for batches in some:
            records += sum(len(batch.records) for batch in batches)
            for batch in batches:
                self._append(batch)
            self._dissection.gaps.clear()
        return records

    def _append(self, batch: FrameBatch) -> None:
        self.directions += [direction for direction in batch.directions if direction.id not in self._numbers]
        numbers = [self._numbers.setdefault(direction.id, len(self._numbers)) for direction in batch.directions]
        columns = _columns_of(batch, np.array(numbers, np.uint32))
        self._given.columns.append(columns)
        self.frames += len(batch)
        self.answers += len(columns["answer"])
        self.gaps += len(columns["gap_frame"])
