"""Provide any frame of an input by its number, and the columns for a list of all frames."""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dcpdump.batch.filter import Masks, wanted_rows
from dcpdump.batch.gather import Array
from dcpdump.capture.file import Capture
from dcpdump.errors import CaptureError
from dcpdump.index.building import Builder, IndexInput, IndexOptions, Replay, Spool
from dcpdump.index.columns import HAS_STREAM_ID, HAS_VBUCKET, ODD, SERVER, Columns
from dcpdump.record import Direction, Record
from dcpdump.spec.header import STREAM_ID_LENGTH

# -- match --------------------------------------------------------------------------------------------
# Frames that pass a filter are found by columns where headers decide, else by decoding batches.

#: How many rows of columns one step reads.
_STEP = 1 << 20


class _Matched(NamedTuple):
    """The result of one step of a search."""

    first: int  #: the first frame that was searched
    wanted: Array  #: whether it passes, and the frames after it

    @property
    def last(self) -> int:
        """Return the last frame that was searched."""
        return self.first + len(self.wanted) - 1

    @property
    def numbers(self) -> Array:
        """Return the numbers of matching frames."""
        return np.flatnonzero(self.wanted) + self.first


class _Header:
    """The columns of some frames, by the names of Headers."""

    def __init__(self, columns: Columns, rows: slice) -> None:
        self.magic, self.opcode, self.opaque = columns.magic[rows], columns.opcode[rows], columns.opaque[rows]
        self.vbucket_or_status, self.status = columns.vbucket[rows], columns.status[rows]
        self._flags = columns.flags[rows]

    @property
    def framing(self) -> Array:
        return np.where(self._flags & HAS_STREAM_ID, STREAM_ID_LENGTH, 0)


class _ColumnRows:
    """Some rows of the columns, in the form of a batch for masks on headers."""

    def __init__(self, columns: Columns, directions: Sequence[Direction], rows: slice) -> None:
        self.directions = directions
        self.first = int(rows.start) + 1  #: the number of the first frame
        self.header = _Header(columns, rows)
        self.ts_ns, self.direction, self.flags = columns.ts_ns[rows], columns.direction[rows], columns.flags[rows]
        self._stream_ids = columns.stream_id[rows]

    def __len__(self) -> int:
        return len(self.flags)

    def stream_id(self) -> Array:
        """Return the stream ids; 0 without one."""
        return self._stream_ids.astype(np.int64)


def _by_columns(view: _ColumnRows, wanted: Masks) -> tuple[Array, Array]:
    """Return masks of the frames that pass by their columns, and of those to be decoded."""
    flags = view.flags
    keep = wanted.by_header(view)
    undecided = flags & (ODD | SERVER) != 0
    if wanted.vbucket:
        keep &= (flags & HAS_VBUCKET != 0) | undecided
    if wanted.header_only:
        return keep & ~undecided, undecided
    return np.zeros(len(keep), bool), keep | undecided


def _by_batches(view: _ColumnRows, replay: Replay, wanted: Masks, sure: Array, unsure: Array) -> Iterator[_Matched]:
    """Yield matching frames; decode those that columns cannot decide."""
    at, end = 0, len(view)
    while at < end:
        left = np.flatnonzero(unsure[at:])
        if not len(left):
            yield _Matched(at + view.first, sure[at:])
            return
        number = at + int(left[0]) + view.first
        batch = replay.batch(number)
        stop = min(batch.first + len(batch) - view.first, end)
        found = sure[at:stop].copy()
        if wanted.header_only:
            asked = np.flatnonzero(unsure[at:stop]) + at + view.first - batch.first
            rows: Sequence[int] = [row for row in asked.tolist() if wanted.frame_filter.accepts(batch.record(row))]
        else:
            rows = wanted_rows(batch, wanted)
        numbers = np.array(rows, np.int64) + batch.first
        near = numbers[(numbers >= at + view.first) & (numbers < stop + view.first)] - view.first
        found[near - at] = True
        yield _Matched(at + view.first, found)
        at = stop


class CaptureIndex:
    """An index of captures as one timeline, built while it is used.

    Call ``step`` again and again; ``frames`` grows until it is complete. Frames are numbered 1, 2, 3 … as ``read``
    numbers them; the columns begin with frame 1 in row 0. In a ``with`` it is closed.

    It is used by one thread of one process: no method may be called while another runs. Arrays that were taken from
    ``columns`` are read only, stay valid and as long as they were, and may be read by any thread. Errors of reading are
    those of ``read``: CaptureError, OSError; LookupError where there is no such frame (yet), or where it is no longer
    kept.
    """

    def __init__(
        self, captures: Sequence[Capture], options: IndexOptions | None = None, columns: Columns | None = None
    ) -> None:
        """``columns``: empty ones to fill; a process that made them before a fork sees them too."""
        options = IndexOptions() if options is None else options
        #: Of all files; None if one is not an ordinary file, or grows.
        self.bytes: int | None = None
        if all(capture.rereadable for capture in captures):
            self.bytes = sum(os.path.getsize(capture.name) for capture in captures)
        self.columns = Columns() if columns is None else columns  #: of all frames so far
        self._spool = Spool(options.spool_bytes)
        self.building = Builder(IndexInput(captures, self.columns, self._spool), options)

    @property
    def frames(self) -> int:
        """Return how many frames there are so far."""
        return self.columns.frames

    @property
    def directions(self) -> list[Direction]:
        """Return the directions by the numbers in ``columns.direction``."""
        return self.building.directions

    @property
    def progress(self) -> tuple[int, int | None]:
        """Return how many bytes were read, and of how many; None if unknown."""
        read = self.building.bytes_read
        return read if self.bytes is None else min(read, self.bytes), self.bytes

    def step(self) -> bool:
        """Index one more block; return whether there is more to do."""
        if self.building.complete:
            return False
        self.building.step()
        if self.building.frames != self.frames:
            self.columns.refresh(*self.building.counts)
        return not self.building.complete

    def finish(self) -> None:
        """Index the rest of the input."""
        while self.step():
            pass

    def record(self, number: int) -> Record:
        """Return a frame as ``read`` decodes it."""
        if not 1 <= number <= self.frames:
            raise LookupError(f"there is no frame {number:,}: {self.frames:,} are indexed")
        batch = self.building.replay.batch(number)
        row, at, columns = number - batch.first, number - 1, self.columns
        then = columns.opcode[at], columns.opaque[at], columns.length[at], columns.ts_ns[at]
        if then != (batch.header.opcode[row], batch.header.opaque[row], batch.length[row], batch.ts_ns[row]):
            raise CaptureError(f"frame {number:,} is not what it was: its capture or key log was changed meanwhile")
        return batch.record(row)

    def matching(self, wanted: Masks, first: int = 1) -> Iterator[_Matched]:
        """Yield the numbers of the frames from ``first`` on that pass a filter, rising, as they are found.

        Only frames indexed at the call are searched. Columns decide where headers suffice; for keys, seqnos,
        collections and problems batches are decoded, one in each step. A step may have no hit. Closing it ends the
        search.
        """
        if wanted.window is not None and wanted.window.start_ns is None:
            wanted.window.start_ns = self.building.begins_ns
        end = self.frames
        for start in range(max(first, 1) - 1, end, _STEP):
            view = _ColumnRows(self.columns, self.directions, slice(start, min(start + _STEP, end)))
            sure, unsure = _by_columns(view, wanted)
            if not unsure.any():
                yield _Matched(view.first, sure)
            else:
                yield from _by_batches(view, self.building.replay, wanted, sure, unsure)

    def close(self) -> None:
        """Free all memory and files."""
        self.building.close()
        self._spool.close()
        self.columns.close()

    def __enter__(self) -> "CaptureIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
