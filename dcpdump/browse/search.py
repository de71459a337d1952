"""Search the frames that pass a filter, the next row with a text or a problem, the next frame of a stream."""

from array import array
from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpdump.browse.indexed_frames import Failed, FoundFrames, IndexedFrames
from dcpdump.browse.rows import ListedFrames, has_vbucket
from dcpdump.index.columns import HAS_VBUCKET, RESPONSE
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER

# -- what columns alone answer ------------------------------------------------------------------------
# Columns find the next frame of a stream, its snapshots, and frames with problems.

Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[np.integer[Any]]
#: How many frames are searched at once.
_CHUNK = 1 << 16


class StreamScan:
    """A search of the columns for the frames of a frame's stream; without a stream, of its connection."""

    def __init__(self, frames: IndexedFrames, number: int) -> None:
        self._columns, self._number, facts = frames.columns, number, frames.facts(number)
        self._streamless = not has_vbucket(facts.opcode, facts.server)
        self._directions = [at for at, each in enumerate(frames.directions) if each.connection == facts.connection]

    def next(self, step: int, *, marker: bool = False) -> int | None:
        """Return the next frame after this one or (``step`` -1) before it; ``marker``: the next snapshot marker."""
        count, wanted = self._columns.frames, self._markers if marker else self._of_stream
        for at in range(self._number, count, _CHUNK) if step > 0 else range(self._number - 1, 0, -_CHUNK):
            span = slice(at, min(at + _CHUNK, count)) if step > 0 else slice(max(0, at - _CHUNK), at)
            found = np.flatnonzero(wanted(span))
            if len(found):
                return span.start + int(found[0 if step > 0 else -1]) + 1
        return None

    def snapshots(self, after: int, before: int | None) -> list[tuple[int, int]]:
        """Return the snapshot markers between two frames, and how many messages follow each."""
        span = slice(after, (before or self._columns.frames + 1) - 1)
        of_stream = np.flatnonzero(self._of_stream(span)) + span.start + 1
        found = np.flatnonzero(self._markers(span)) + span.start + 1
        at = np.searchsorted(of_stream, [*found, span.stop + 1])
        return list(zip(found.tolist(), (np.diff(at) - 1).tolist(), strict=True))

    def _of_stream(self, span: slice) -> Mask:
        columns, at = self._columns, self._number - 1
        keep: Mask = np.isin(columns.direction[span], self._directions)
        if not self._streamless:
            keep &= (columns.vbucket[span] == columns.vbucket[at]) & (columns.flags[span] & HAS_VBUCKET != 0)
            keep &= columns.stream_id[span] == columns.stream_id[at]
        return keep

    def _markers(self, span: slice) -> Mask:
        columns = self._columns
        requests = columns.flags[span] & RESPONSE == 0
        found: Mask = self._of_stream(span) & (columns.opcode[span] == DCP_SNAPSHOT_MARKER) & requests
        return found


# -- the frames that a filter wants -------------------------------------------------------------------


class ChosenFrames(ListedFrames):
    """Frames that are appended as they are found."""

    def __init__(self) -> None:
        self.numbers = self._numbers = array("q")
        self.gaps = self._gaps = array("q")

    def extend(self, numbers: Array, lost: Array) -> None:
        """Append frames by their numbers, from 1. ``lost``: frames before which bytes were lost, listed or not."""
        at = np.searchsorted(numbers, lost)
        at = at[at < len(numbers)]
        self._gaps.extend((at[numbers[at] == lost[: len(at)]] + self.frames + 1).tolist())
        self._numbers.frombytes(numbers.astype("q", copy=False).tobytes())


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
            self._ticket = self._frames.ask(self._receive, "choose", self._text, self._next, self._until)

    def _receive(self, found: FoundFrames | Failed | None) -> None:
        if isinstance(found, Failed):
            self.failure = found.why
        elif found is None:
            self._next = self._until + 1
        else:
            columns, self._next = self._frames.columns, found.last + 1
            lost = slice(*(bisect_left(columns.values("gap_frame"), each) for each in (found.first, self._next)))
            self.listed.extend(found.numbers, columns.gap_frame[lost])

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
            self._ticket = self._frames.ask(self._receive, "pick", self._text, numbers)

    def _receive(self, value: int | Failed | None) -> None:
        if isinstance(value, Failed):
            self.failure = value.why
        elif value is not None:
            self.found = value
        elif self.found is None:
            self._ask()

    def close(self) -> None:
        """End the search."""
        self._frames.drop(self._ticket)
