"""Build an index: dissect an input block by block, write its columns, and note where it can be entered again."""

import os
from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from dcpdump.batch.block import BLOCK_BYTES, Block, BlockPlace, BlockSize, PcapPlace
from dcpdump.batch.ends import Ends
from dcpdump.batch.part import Part
from dcpdump.batch.read_blocks import blocks_as_they_come, blocks_of
from dcpdump.batch.resumable import ResumableDissection
from dcpdump.capture import Capture
from dcpdump.capture.damage import Damage
from dcpdump.capture.source import bytes_read
from dcpdump.conversation import MissingValues
from dcpdump.index.checkpoints import DISTANCE, MEMORY, Checkpoint, packed
from dcpdump.index.columns import Columns
from dcpdump.index.part_columns import KnownEnds, columns_of
from dcpdump.index.spool import Spool
from dcpdump.index.spool_size import SPOOL_BYTES
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.quick_dataclass import dataclass, field
from dcpdump.tls.secrets import Secrets

#: A block has about so many frames at most that are decoded one by one, as the one before has shown; and at least so
#: many bytes. It is twice as large as that one at most.
_RECORDS, _LEAST_BYTES = 256, 16 * 1024

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
    distance: int = DISTANCE  #: bytes of packets between two checkpoints, at least
    #: The same for each connection that there is, so that saving them takes little of the time.
    connection_distance: int = 32 * 1024
    #: What is decoded one by one, as a request is, takes as long as so many bytes that are not.
    record_bytes: int = 16 * 1024
    memory: int = MEMORY  #: bytes of checkpoints, at most
    spool_bytes: int = SPOOL_BYTES
    parts: int = 16  #: decoded parts that are kept

    def dissection(self, secrets: Secrets | None) -> ResumableDissection:
        """Return a dissection that nothing was fed to."""
        return ResumableDissection(self.limits, show_secrets=self.show_secrets, secrets=secrets)


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
        self._places = KnownEnds()
        self._size = BlockSize(options.block_bytes, min(options.first_bytes, options.block_bytes))
        self._blocks = self._read()
        self._number = 0  # of blocks
        self._since = 0  # bytes since the last checkpoint
        self._distance = options.distance
        self._frames = self._answers = self._gaps = 0
        self._begins_ns: int | None = None
        self._before = bytes_read()
        self._plain_bytes = 0
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
        if isinstance(block.place, PcapPlace):
            self._plain_bytes += block.place.size
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
            columns = columns_of(part, self._places)
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
        update.bytes_read = self._plain_bytes + bytes_read() - self._before
        update.ends, self._known_ends = self._places.ends[self._known_ends :], len(self._places.ends)
        damage = [each for capture in self._given.captures for each in capture.damage]
        update.damage, self._known_damage = damage[self._known_damage :], len(damage)


def input_bytes(captures: Sequence[Capture]) -> int | None:
    """Return how many bytes the files of captures have; None where one is no file, or grows."""
    if not all(capture.rereadable for capture in captures):
        return None
    return sum(os.path.getsize(capture.name) for capture in captures)
