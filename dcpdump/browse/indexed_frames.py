"""Frames: what the screen asks of the index, by the numbers of frames, which begin with 1."""

from bisect import bisect_left

from dcpdump.browse.reader import Reader
from dcpdump.browse.row_text import RowFacts
from dcpdump.index.columns import HAS_SEQNO, HAS_VBUCKET, ODD, PROBLEM, RESPONSE, SERVER


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
        at, values = number - 1, self.index.columns.values
        flags = values("flags")[at]
        ends = self.index.ends[values("place")[at]]
        return RowFacts(
            number,
            values("ts_ns")[at],
            ends.connection,
            ends.direction,
            values("opcode")[at],
            bool(flags & SERVER),
            bool(flags & RESPONSE),
            values("vbucket")[at] if flags & HAS_VBUCKET else None,
            values("stream_id")[at],
            values("status")[at],
            values("seqno")[at] if flags & HAS_SEQNO else None,
            values("length")[at],
            bool(flags & (PROBLEM | ODD)),
        )

    def ts_ns(self, number: int) -> int:
        """Return a frame's time; NO_TIME (net.batch) where it has none."""
        return self.index.columns.values("ts_ns")[number - 1]

    def gap_bytes(self, number: int) -> int:
        """Return how many bytes were lost or skipped before a frame."""
        frames = self.index.columns.values("gap_frame")
        at = bisect_left(frames, number)
        return self.index.columns.values("gap_bytes")[at] if at < len(frames) and frames[at] == number else 0

    def connection_places(self, connection: int) -> list[int]:
        """Return the places of both directions of a connection."""
        return [place for place, ends in enumerate(self.index.ends) if ends.connection == connection]

    def partner(self, number: int) -> int | None:
        """Return the request of a response, or the first response to a request."""
        columns = self.index.columns
        answers = columns.answers_of(number)
        return answers[0] if answers else columns.request_of(number)

    def at_time(self, ts_ns: int) -> int:
        """Return the first frame at a time or later, as far as times rise."""
        found = bisect_left(self.index.columns.values("ts_ns"), ts_ns) + 1
        return max(1, min(found, self.count))
