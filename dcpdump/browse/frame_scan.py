"""FrameScan: search the columns of frames for the next of a stream, the snapshots of a stream, what has a problem."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcpdump.browse.indexed_frames import IndexedFrames
from dcpdump.browse.row_text import has_vbucket
from dcpdump.index.columns import GAP_BEFORE, HAS_VBUCKET, ODD, PROBLEM, REFUSED, RESPONSE, SERVER
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER

if TYPE_CHECKING:
    from dcpdump.browse.listed import Numbers

Mask = npt.NDArray[np.bool_]
Wanted = Callable[[slice], Mask]
#: So many frames are searched at once.
_CHUNK = 1 << 16


class FrameScan:
    """A search of columns, without decoding any frame."""

    def __init__(self, frames: IndexedFrames) -> None:
        self._frames, self._columns = frames, frames.index.columns

    def next_of_stream(self, number: int, step: int) -> int | None:
        """Return the next frame of the same stream, behind a frame or (``step`` -1) before it."""
        return self._next(number, step, self._of_stream(number))

    def next_marker(self, number: int, step: int) -> int | None:
        """Return the next snapshot marker of the same stream, behind a frame or (``step`` -1) before it."""
        return self._next(number, step, self._markers(number))

    def snapshots(self, after: int, before: int | None) -> list[tuple[int, int]]:
        """Return the snapshot markers of a stream between two frames of it, and how many messages follow each."""
        span = slice(after, (before or self._frames.count + 1) - 1)
        of_stream = np.flatnonzero(self._of_stream(after)(span)) + span.start + 1
        found = np.flatnonzero(self._markers(after)(span)) + span.start + 1
        places = np.searchsorted(of_stream, [*found, span.stop + 1])
        return list(zip(found.tolist(), (np.diff(places) - 1).tolist(), strict=True))

    def troubled(self, numbers: "Numbers") -> Mask:
        """Return which of some frames have a problem, refuse something, or follow lost bytes."""
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
        """Return which frames are of the same stream as a frame; of one that is of no stream, of its connection."""
        at, columns = number - 1, self._columns
        places = self._frames.connection_places(self._frames.facts(number).connection)
        vbucket, stream_id = columns.vbucket[at], columns.stream_id[at]
        streamless = not has_vbucket(int(columns.opcode[at]), bool(columns.flags[at] & SERVER))

        def wanted(span: slice) -> Mask:
            if streamless:
                return np.isin(columns.place[span], places)
            keep: Mask = (columns.vbucket[span] == vbucket) & (columns.flags[span] & HAS_VBUCKET != 0)
            keep &= columns.stream_id[span] == stream_id
            return keep & np.isin(columns.place[span], places)

        return wanted

    def _markers(self, number: int) -> Wanted:
        """Return which frames are snapshot markers of the same stream as a frame."""
        stream, columns = self._of_stream(number), self._columns

        def wanted(span: slice) -> Mask:
            requests = columns.flags[span] & RESPONSE == 0
            found: Mask = stream(span) & (columns.opcode[span] == DCP_SNAPSHOT_MARKER) & requests
            return found

        return wanted
