"""Gathered: what a page needs beside the ledger and the findings, taken in the same pass; bounded."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dcpdump.batch.course import Course
from dcpdump.batch.ends import Lost
from dcpdump.batch.part import Part
from dcpdump.batch.statistics import Statistics
from dcpdump.net.no_time import NO_TIME
from dcpdump.report.kept_frames import KeptFrames
from dcpdump.report.latencies import Latencies
from dcpdump.report.levels import Levels
from dcpdump.streams.document_run import DocumentRun, Step
from dcpdump.streams.ledger import Ledger

#: Gaps that are kept; beyond, they are counted.
_GAPS = 10_000


class LostBytes(NamedTuple):
    """Bytes that were never captured."""

    connection: int
    direction: int
    offset: int
    length: int | None  #: None: not known
    reason: str
    ts_ns: int | None


class Gathered:
    """Give it each block's parts and gaps, then each step that the ledger has learnt."""

    def __init__(self) -> None:
        self.course = Course()
        self.statistics = Statistics()
        self.levels = Levels()
        self.latencies = Latencies()
        self.frames = KeptFrames()
        self.gaps: list[LostBytes] = []
        self.more_gaps = 0  #: that were not kept
        self.since_ns: int | None = None  #: what comes before is not pictured

    def take(self, parts: Sequence[Part], gaps: Sequence[Lost]) -> None:
        """Take what a block brought."""
        for ends, gap in gaps:
            if len(self.gaps) < _GAPS:
                place = ends.connection, ends.direction, gap.offset, gap.length
                self.gaps.append(LostBytes(*place, gap.reason, gap.seen.ts_ns))
            else:
                self.more_gaps += 1
        self.frames.take(parts)
        for part in parts:
            rows = self._rows(part)
            self.course.feed(part, rows)
            self.statistics.feed(part, range(len(part)) if rows is None else rows.tolist())
            self.latencies.feed(part, None if rows is None else set(rows.tolist()))

    def _rows(self, part: Part) -> "np.ndarray[tuple[int], np.dtype[np.int64]] | None":
        """Return the frames that are to be pictured; None: all."""
        if self.since_ns is None:
            return None
        return np.flatnonzero((part.ts_ns != NO_TIME) & (part.ts_ns >= self.since_ns))

    def extend(self, last_ns: int) -> None:
        """Have the pictures end at a time, if frames do before."""
        self.course.extend(last_ns)
        self.levels.extend(last_ns)

    def learnt(self, step: Step, ledger: Ledger) -> None:
        """Take note of what flow control has outstanding after a step that the ledger has learnt."""
        connection = ledger.connections.get(step.connection)
        if connection is None or connection.window.size is None or not connection.window.complete:
            return
        ts_ns = step.last_ns if isinstance(step, DocumentRun) else step.ts_ns
        if ts_ns is not None:
            self.levels.note(step.connection, ts_ns, connection.window.outstanding)
