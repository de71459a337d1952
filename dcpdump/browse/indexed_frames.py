"""Frames: what the screen asks of the index, by the numbers of frames, which begin with 1."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dcpdump.browse.listed import Numbers
from dcpdump.browse.reader import Reader
from dcpdump.browse.row_text import RowFacts, has_vbucket
from dcpdump.index.columns import (
    GAP_BEFORE,
    HAS_SEQNO,
    HAS_VBUCKET,
    ODD,
    PROBLEM,
    REFUSED,
    RESPONSE,
    SERVER,
)
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER

Mask = npt.NDArray[np.bool_]
#: So many frames are searched at once.
_CHUNK = 1 << 16


class IndexedFrames:
    """The frames of an index that may still be growing."""

    def __init__(self, index: Reader) -> None:
        self.index = index

    @property
    def count(self) -> int:
        """Return how many frames are known."""
        return self.index.frames

    def facts(self, number: int) -> RowFacts:
        """Return what is known of a frame without decoding it."""
        at, columns = number - 1, self.index.columns
        flags = int(columns.flags[at])
        ends = self.index.ends[int(columns.place[at])]
        return RowFacts(
            number,
            int(columns.ts_ns[at]),
            ends.connection,
            ends.direction,
            int(columns.opcode[at]),
            bool(flags & SERVER),
            bool(flags & RESPONSE),
            int(columns.vbucket[at]) if flags & HAS_VBUCKET else None,
            int(columns.stream_id[at]),
            int(columns.status[at]),
            int(columns.seqno[at]) if flags & HAS_SEQNO else None,
            int(columns.length[at]),
            bool(flags & (PROBLEM | ODD)),
        )

    def ts_ns(self, number: int) -> int:
        """Return a frame's time; NO_TIME (net.batch) where it has none."""
        return int(self.index.columns.ts_ns[number - 1])

    def gap_bytes(self, number: int) -> int:
        """Return how many bytes were lost or skipped before a frame."""
        columns = self.index.columns
        at = int(np.searchsorted(columns.gap_frame, number))
        return int(columns.gap_bytes[at]) if at < len(columns.gap_frame) and columns.gap_frame[at] == number else 0

    def connection_places(self, connection: int) -> list[int]:
        """Return the places of both directions of a connection."""
        return [place for place, ends in enumerate(self.index.ends) if ends.connection == connection]

    # -- searching ----------------------------------------------------------------------------------------

    def next(self, number: int, step: int, wanted: Callable[[slice], Mask]) -> int | None:
        """Return the next frame that is wanted, behind a frame or (``step`` -1) before it."""
        at = number if step > 0 else number - 1
        while (at < self.count) if step > 0 else (at > 0):
            span = slice(at, min(at + _CHUNK, self.count)) if step > 0 else slice(max(0, at - _CHUNK), at)
            found = np.flatnonzero(wanted(span))
            if len(found):
                return span.start + int(found[0 if step > 0 else -1]) + 1
            at = span.stop if step > 0 else span.start
        return None

    def of_stream(self, number: int) -> Callable[[slice], Mask]:
        """Return which frames are of the same stream as a frame; of one that is of no stream, of its connection."""
        at, columns = number - 1, self.index.columns
        places = self.connection_places(self.index.ends[int(columns.place[at])].connection)
        vbucket, stream_id = columns.vbucket[at], columns.stream_id[at]
        streamless = not has_vbucket(int(columns.opcode[at]), bool(columns.flags[at] & SERVER))

        def wanted(span: slice) -> Mask:
            if streamless:
                return np.isin(columns.place[span], places)
            keep: Mask = (columns.vbucket[span] == vbucket) & (columns.flags[span] & HAS_VBUCKET != 0)
            keep &= columns.stream_id[span] == stream_id
            return keep & np.isin(columns.place[span], places)

        return wanted

    def markers(self, number: int) -> Callable[[slice], Mask]:
        """Return which frames are snapshot markers of the same stream as a frame."""
        stream, columns = self.of_stream(number), self.index.columns

        def wanted(span: slice) -> Mask:
            requests = columns.flags[span] & RESPONSE == 0
            found: Mask = stream(span) & (columns.opcode[span] == DCP_SNAPSHOT_MARKER) & requests
            return found

        return wanted

    def trouble(self, span: slice) -> Mask:
        """Return which frames have a problem, refuse something, or follow lost bytes."""
        found: Mask = self.index.columns.flags[span] & (PROBLEM | ODD | REFUSED | GAP_BEFORE) != 0
        return found

    def troubled(self, numbers: Numbers) -> Mask:
        """Return which of some frames have."""
        found: Mask = self.index.columns.flags[numbers - 1] & (PROBLEM | ODD | REFUSED | GAP_BEFORE) != 0
        return found

    def partner(self, number: int) -> int | None:
        """Return the request of a response, or the first response to a request."""
        columns = self.index.columns
        answers = columns.answers_of(number)
        return answers[0] if answers else columns.request_of(number)

    def at_time(self, ts_ns: int) -> int:
        """Return the first frame at a time or later, as far as times rise."""
        found = int(np.searchsorted(self.index.columns.ts_ns, ts_ns)) + 1
        return max(1, min(found, self.count))
