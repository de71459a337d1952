"""Search the frames that pass a filter, the next row with a text or a problem, the next frame of a stream."""

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dcpdump.browse.reader import Choose, Failed, FoundFrames, Pick
from dcpdump.browse.rows import IndexedFrames, ListedFrames, has_vbucket
from dcpdump.index.columns import GAP_BEFORE, HAS_VBUCKET, ODD, PROBLEM, REFUSED, RESPONSE, SERVER
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER

if TYPE_CHECKING:
    from dcpdump.browse.rows import Numbers


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

    def troubled(self, numbers: "Numbers") -> Mask:
        """Return a mask of the frames that have a problem, refuse a request, or follow lost bytes."""
        found: Mask = self._columns.flags[np.asarray(numbers) - 1] & (PROBLEM | ODD | REFUSED | GAP_BEFORE) != 0
        return found

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
#: The filter of frames with a problem.
_WITH_PROBLEM = "problems"


class FrameSearch:
    """A running filter. ``listed``: the frames found so far."""

    def __init__(self, frames: IndexedFrames, text: str) -> None:
        self._frames, self._text = frames, text
        self.listed = ChosenFrames()
        self.failure = ""  #: the error that ended it
        self.ended_at: int | None = None  #: the last frame searched before it was closed
        self._next = 1  # the first frame that was not searched
        self._until = 0  # the frames of this run
        self._ticket: int | None = None

    @property
    def done(self) -> bool:
        """Return whether all frames were searched."""
        over = self.ended_at is not None or bool(self.failure)
        return self._ticket is None and (over or self._next > self._frames.count)

    @property
    def progress(self) -> int:
        """Return the progress in percent."""
        return min(99, 100 * (self._next - 1) // max(1, self._frames.count))

    def step(self) -> bool:
        """Read results, or ask for more; return whether there are more rows."""
        if self._ticket is None:
            if not self.done:
                self._until = self._frames.count
                self._ticket = self._frames.ask(Choose(self._text, self._next, self._until))
            return False
        grown = False
        for answer in self._frames.answers(self._ticket):
            if isinstance(answer.value, FoundFrames):
                grown |= self._take(answer.value)
            elif isinstance(answer.value, Failed):
                self.failure = answer.value.why
            if answer.done:
                self._ticket, self._next = None, self._until + 1
        return grown

    def _take(self, found: FoundFrames) -> bool:
        self._next = found.last + 1
        numbers, columns = found.numbers, self._frames.columns
        lost = slice(*(bisect_left(columns.values("gap_frame"), each) for each in (found.first, found.last + 1)))
        self.listed.extend(numbers, columns.gap_frame[lost])
        return bool(len(numbers))

    def close(self) -> None:
        """End the search; results stay, and new frames are not searched."""
        if not self.done:
            self.ended_at = self._next - 1
        if self._ticket is not None:
            self._frames.drop(self._ticket)
            self._ticket = None


# -- the next row with something ----------------------------------------------------------------------


class RowSearch:
    """A search for the next listed frame, in one direction, with a text; or, without a text, with a problem."""

    def __init__(self, frames: IndexedFrames, listed: ListedFrames, start: int, step: int, text: str = "") -> None:
        self._frames, self._listed, self._step, self._text = frames, listed, step, text
        self.start = start  #: the first frame
        self.at = start  #: the current frame
        self.found: int | None = None
        self.failure = ""
        self.done = False
        self._known: int | None = None  # the last frame in question has a problem known from columns
        self._hits: list[int] = []
        self._asked: Numbers = range(0)
        self._ticket: int | None = None

    @property
    def nothing(self) -> str:
        """Return the note for no such row."""
        if self._text:
            return f"{self._text!r} is not in the rows {'below' if self._step > 0 else 'above'}"
        return "no other problem is known" + " so far" * (not self._frames.complete)

    def step(self) -> None:
        """Read results, or continue."""
        if self.done:
            return
        if self._ticket is None:
            self._go_on()
        if self._ticket is None:
            return
        for answer in self._frames.answers(self._ticket):
            if isinstance(answer.value, Failed):
                self.failure = answer.value.why
            elif isinstance(answer.value, FoundFrames):
                numbers = answer.value.numbers
                self._hits += numbers[np.isin(numbers, self._asked)].tolist()
            elif answer.value is not None:
                self._hits.append(answer.value)
            if self.failure or answer.done or (self._hits and (self._text or self._step > 0)):
                self._settle()
                if not self.done:
                    self._go_on()
                return

    def _go_on(self) -> None:
        """Ask about the next rows."""
        numbers = self._listed.near(self.at, self._step, _TEXTS if self._text else _PROBLEMS)
        if not len(numbers):
            self.done = True
            return
        if self._text:
            self._asked = numbers
            self._ticket = self._frames.ask(Pick(self._text, numbers))
            return
        known = np.flatnonzero(FrameScan(self._frames).troubled(numbers))
        self._known = int(numbers[known[0]]) if len(known) else None
        self._asked = numbers[: known[0]] if len(known) else numbers
        if len(self._asked):
            first, last = sorted((int(self._asked[0]), int(self._asked[-1])))
            self._ticket = self._frames.ask(Choose(_WITH_PROBLEM, first, last))
        else:
            self.found, self.done = self._known, True

    def _settle(self) -> None:
        """Handle the answer about the rows in question."""
        self.close()
        if self._hits:
            self.found = self._hits[0 if self._text or self._step > 0 else -1]
        else:
            self.found, self.at = self._known, int(self._asked[-1])
        self.done = self.found is not None or bool(self.failure)

    def close(self) -> None:
        """End the search."""
        if self._ticket is not None:
            self._frames.drop(self._ticket)
            self._ticket = None
