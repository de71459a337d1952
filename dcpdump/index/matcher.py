"""Match: which frames a filter wants. What headers say is answered from the columns; for the rest parts are decoded."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dcpdump.batch.ends import Ends
from dcpdump.batch.filter import Masks, wanted_rows
from dcpdump.batch.gather import Array
from dcpdump.index.columns import HAS_STREAM_ID, HAS_VBUCKET, ODD, SERVER, Columns
from dcpdump.index.replay import Replay
from dcpdump.spec.header import STREAM_ID_LENGTH

#: Rows of columns that are looked at in one step.
_STEP = 1 << 20


class Matched(NamedTuple):
    """What a step of a search has found."""

    first: int  #: the first frame that was searched
    wanted: Array  #: whether it is wanted, and those behind it

    @property
    def last(self) -> int:
        """Return the last frame that was searched."""
        return self.first + len(self.wanted) - 1

    @property
    def numbers(self) -> Array:
        """Return the numbers of the frames that are wanted."""
        return np.flatnonzero(self.wanted) + self.first


class _Header:
    """The columns of some frames, by the names that Headers have."""

    def __init__(self, columns: Columns, rows: slice) -> None:
        self.magic, self.opcode, self.opaque = columns.magic[rows], columns.opcode[rows], columns.opaque[rows]
        self.word, self.status = columns.vbucket[rows], columns.status[rows]
        self._flags = columns.flags[rows]

    @property
    def framing(self) -> Array:
        return np.where(self._flags & HAS_STREAM_ID, STREAM_ID_LENGTH, 0)


class ColumnRows:
    """Some frames of the columns, as masks of headers see a part."""

    def __init__(self, columns: Columns, places: Sequence[Ends], rows: slice) -> None:
        self.places = places
        self.first = int(rows.start) + 1  #: the number of the first frame
        self.header = _Header(columns, rows)
        self.ts_ns, self.place, self.flags = columns.ts_ns[rows], columns.place[rows], columns.flags[rows]
        self._stream_ids = columns.stream_id[rows]

    def __len__(self) -> int:
        return len(self.flags)

    def stream_id(self) -> Array:
        """Return the ids of streams; 0 where there is none."""
        return self._stream_ids.astype(np.int64)


def matching(columns: Columns, ends: Sequence[Ends], replay: Replay, wanted: Masks, first: int) -> Iterator[Matched]:
    """Yield the numbers of the frames from ``first`` on that are wanted, in steps."""
    end = columns.frames
    for start in range(max(first, 1) - 1, end, _STEP):
        view = ColumnRows(columns, ends, slice(start, min(start + _STEP, end)))
        sure, unsure = _by_columns(view, wanted)
        if not unsure.any():
            yield Matched(view.first, sure)
        else:
            yield from _by_parts(view, replay, wanted, sure, unsure)


def _by_columns(view: ColumnRows, wanted: Masks) -> tuple[Array, Array]:
    """Return which frames are wanted for sure, and for which that is to be seen in their parts."""
    flags = view.flags
    keep = wanted.by_header(view)
    undecided = flags & (ODD | SERVER) != 0
    if wanted.vbucket:
        keep &= (flags & HAS_VBUCKET != 0) | undecided
    if wanted.header_only:
        return keep & ~undecided, undecided
    return np.zeros(len(keep), bool), keep | undecided


def _by_parts(view: ColumnRows, replay: Replay, wanted: Masks, sure: Array, unsure: Array) -> Iterator[Matched]:
    """Yield what is wanted, decoding the parts of frames that are not sure."""
    at, end = 0, len(view)
    while at < end:
        left = np.flatnonzero(unsure[at:])
        if not len(left):
            yield Matched(at + view.first, sure[at:])
            return
        number = at + int(left[0]) + view.first
        part = replay.part(number)
        stop = min(part.first + len(part) - view.first, end)
        found = sure[at:stop].copy()
        if wanted.header_only:
            asked = np.flatnonzero(unsure[at:stop]) + at + view.first - part.first
            rows: Sequence[int] = [row for row in asked.tolist() if wanted.whole.accepts(part.record(row))]
        else:
            rows = wanted_rows(part, wanted)
        numbers = np.array(rows, np.int64) + part.first
        places = numbers[(numbers >= at + view.first) & (numbers < stop + view.first)] - view.first
        found[places - at] = True
        yield Matched(at + view.first, found)
        at = stop
