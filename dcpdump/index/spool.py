"""Spool: blocks of packets that cannot be read a second time where they came from, in a temporary file.

The file is unlinked and bounded: it is a ring, in which the newest blocks overwrite the oldest. Its bytes are read only
by the processes that share it.
"""

import marshal
import os
import tempfile
import zlib
from struct import Struct
from typing import Any

from dcpdump.batch.block import Block, Packets
from dcpdump.errors import OutputError
from dcpdump.index.spool_size import SPOOL_BYTES
from dcpdump.net.batch import Batch

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
