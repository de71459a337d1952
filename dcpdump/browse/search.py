"""Search the frames that pass a filter, the next row with a text or a problem, the next frame of a stream."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpdump.browse.reader import Choose, Failed, FoundFrames, Pick
from dcpdump.browse.rows import IndexedFrames, ListedFrames, has_vbucket
from dcpdump.index.columns import HAS_VBUCKET, RESPONSE, SERVER
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER

# -- what columns alone answer ------------------------------------------------------------------------
# Columns find the next frame of a stream, its snapshots, and frames with problems.

Mask = npt.NDArray[np.bool_]
Wanted = Callable[[slice], Mask]
#: How many frames are searched at once.
_CHUNK = 1 << 16


class FrameScan:
    """A search of columns, without decoding any frame."""

    def __init__(self, frames: IndexedFrames) -> None:
        self._frames, self._columns = frames, frames.columns

    def next_of_stream(self, number: int, step: int) -> int | None:
        """Return the next frame of the same stream, after a frame or (``step`` -1) before it."""
        return self._next(number, step, self._of_stream(number))

    def next_marker(self, number: int, step: int) -> int | None:
        """Return the next snapshot marker of the same stream, after a frame or (``step`` -1) before it."""
        return self._next(number, step, self._markers(number))

    def snapshots(self, after: int, before: int | None) -> list[tuple[int, int]]:
        """Return the snapshot markers of a stream between two frames of it, and how many messages follow each."""
        span = slice(after, (before or self._frames.count + 1) - 1)
        of_stream = np.flatnonzero(self._of_stream(after)(span)) + span.start + 1
        found = np.flatnonzero(self._markers(after)(span)) + span.start + 1
        at = np.searchsorted(of_stream, [*found, span.stop + 1])
        return list(zip(found.tolist(), (np.diff(at) - 1).tolist(), strict=True))

    def _next(self, number: int, step: int, wanted: Wanted) -> int | None:
        count = self._frames.count
        at = number if step > 0 else number - 1
        while (at < count) if step > 0 else (at > 0):
            span = slice(at, min(at + _CHUNK, count)) if step > 0 else slice(max(0, at - _CHUNK), at)
            found = np.flatnonzero(wanted(span))
            if len(found):
                return span.start + int(found[0 if step > 0 else -1]) + 1
            at = span.stop if step > 0 else span.start
        return None

    def _of_stream(self, number: int) -> Wanted:
        """Return the frames of the same stream as a frame; without a stream, those of its connection."""
        at, columns = number - 1, self._columns
        directions = self._frames.directions_of(self._frames.facts(number).connection)
        vbucket, stream_id = columns.vbucket[at], columns.stream_id[at]
        streamless = not has_vbucket(int(columns.opcode[at]), bool(columns.flags[at] & SERVER))

        def wanted(span: slice) -> Mask:
            if streamless:
                return np.isin(columns.place[span], directions)
            keep: Mask = (columns.vbucket[span] == vbucket) & (columns.flags[span] & HAS_VBUCKET != 0)
            keep &= columns.stream_id[span] == stream_id
            return keep & np.isin(columns.place[span], directions)

        return wanted

    def _markers(self, number: int) -> Wanted:
        """Return the snapshot markers of the same stream as a frame."""
        stream, columns = self._of_stream(number), self._columns

        def wanted(span: slice) -> Mask:
            requests = columns.flags[span] & RESPONSE == 0
            found: Mask = stream(span) & (columns.opcode[span] == DCP_SNAPSHOT_MARKER) & requests
            return found

        return wanted


Array = npt.NDArray[np.int64]


# -- the frames that a filter wants -------------------------------------------------------------------


class GrowingArray:
    """Numbers that are appended to, in one array."""

    def __init__(self) -> None:
        self._array: Array = np.empty(1024, np.int64)
        self._count = 0

    @property
    def all(self) -> Array:
        """Return all numbers."""
        return self._array[: self._count]

    def append(self, more: npt.NDArray[np.integer[Any]]) -> None:
        """Append numbers."""
        need = self._count + len(more)
        if need > len(self._array):
            larger: Array = np.empty(max(need, 2 * len(self._array)), np.int64)
            larger[: self._count] = self.all
            self._array = larger
        self._array[self._count : need] = more
        self._count = need


class ChosenFrames(ListedFrames):
    """Frames that are appended as they are found."""

    def __init__(self) -> None:
        self._numbers, self._gaps = GrowingArray(), GrowingArray()

    def extend(self, numbers: npt.NDArray[np.integer[Any]], lost: npt.NDArray[np.integer[Any]]) -> None:
        """Append frames by their numbers, from 1. ``lost``: frames before which bytes were lost, listed or not."""
        at = np.searchsorted(numbers, lost)
        at = at[at < len(numbers)]
        self._numbers.append(numbers)
        self._gaps.append(at[numbers[at] == lost[: len(at)]] + self.frames + 1)
        self.gaps = self._gaps.all.data
        self.frames += len(numbers)

    @property
    def numbers(self) -> Array:
        """Return the numbers of all frames."""
        return self._numbers.all

    def position(self, number: int) -> int:
        """Return how many frames are listed before one."""
        return int(np.searchsorted(self._numbers.all, number))


#: How many rows one question searches: for a text, and for a problem.
_TEXTS, _PROBLEMS = 2_000, 16_384


class FrameSearch:
    """A running filter. ``listed``: the frames found so far."""

    def __init__(self, frames: IndexedFrames, text: str) -> None:
        self._frames, self._text = frames, text
        self.listed = ChosenFrames()
        self.failure = ""  #: the error that ended it
        self.ended_at: int | None = None  #: the last frame searched before it was closed
        self._next = 1  # the first frame that was not searched
        self._until = 0  # the frames of this run
        self._ticket = 0
        self.step()

    @property
    def done(self) -> bool:
        """Return whether all frames were searched."""
        over = self.ended_at is not None or bool(self.failure) or self._next > self._frames.count
        return over and not self._frames.awaits(self._ticket)

    @property
    def progress(self) -> int:
        """Return the progress in percent."""
        return min(99, 100 * (self._next - 1) // max(1, self._frames.count))

    def step(self) -> None:
        """Search the frames that have come since."""
        if not self.done and not self._frames.awaits(self._ticket):
            self._until = self._frames.count
            self._ticket = self._frames.ask(Choose(self._text, self._next, self._until), self._take)

    def _take(self, found: FoundFrames | Failed | None, done: bool) -> None:
        if isinstance(found, Failed):
            self.failure = found.why
        elif found is not None:
            columns, self._next = self._frames.columns, found.last + 1
            lost = slice(*(bisect_left(columns.values("gap_frame"), each) for each in (found.first, self._next)))
            self.listed.extend(found.numbers, columns.gap_frame[lost])
        if done:
            self._next = self._until + 1

    def close(self) -> None:
        """End the search; results stay, and new frames are not searched."""
        if not self.done:
            self.ended_at = self._next - 1
        self._frames.drop(self._ticket)


# -- the next row with something ----------------------------------------------------------------------


class RowSearch:
    """A search for the next listed frame, in one direction, with a text; or, without a text, with a problem."""

    def __init__(self, frames: IndexedFrames, listed: ListedFrames, start: int, step: int, text: str = "") -> None:
        self._frames, self._listed, self._step, self._text = frames, listed, step, text
        self.start = self.at = start  #: the first frame, and the current one
        self.found: int | None = None
        self.failure = ""
        self._ticket = 0
        self._ask()

    @property
    def done(self) -> bool:
        """Return whether a row was found, or there is none."""
        return not self._frames.awaits(self._ticket)

    @property
    def nothing(self) -> str:
        """Return the note for no such row."""
        if self._text:
            return f"{self._text!r} is not in the rows {'below' if self._step > 0 else 'above'}"
        return "no other problem is known" + " so far" * (not self._frames.complete)

    def _ask(self) -> None:
        """Ask about the next rows, if there are any."""
        numbers = self._listed.near(self.at, self._step, _TEXTS if self._text else _PROBLEMS)
        if len(numbers):
            self.at = int(numbers[-1])
            self._ticket = self._frames.ask(Pick(self._text, numbers), self._take)

    def _take(self, value: int | Failed | None, done: bool) -> None:
        if isinstance(value, Failed):
            self.failure = value.why
        elif value is not None:
            self.found = value
        elif done and self.found is None:
            self._ask()

    def close(self) -> None:
        """End the search."""
        self._frames.drop(self._ticket)
