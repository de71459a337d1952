"""Latencies: how long answers took, over time: counts by step and by logarithm, and the slowest ones exactly."""

import heapq
from typing import NamedTuple

import numpy as np

from dcpdump.batch.course import Axis, Grid, Kind
from dcpdump.batch.gather import Array
from dcpdump.batch.part import Part
from dcpdump.net.no_time import NO_TIME

#: Rows for each power of ten, from a microsecond on.
PER_DECADE = 12
DECADES = 9
_SLOWEST = 50


class AnswerTime(NamedTuple):
    """An answer, and how long it took."""

    latency_ns: int
    ts_ns: int
    frame: int
    asked: int  #: the number of the request


class Latencies:
    """Feed it parts; it keeps the latencies of their answers, by opcode."""

    def __init__(self) -> None:
        self.axis = Axis()
        self.grids: dict[int, Grid] = {}
        self.slowest: dict[int, list[AnswerTime]] = {}

    def feed(self, part: Part, rows: set[int] | None = None) -> None:
        """Take the answers of a part, or of some of its rows."""
        found: dict[int, list[AnswerTime]] = {}
        for row, record in part.records.items():
            asked, ts = record.request, int(part.ts_ns[row])
            if asked is None or asked.ts_ns is None or ts == NO_TIME or ts < asked.ts_ns:
                continue
            if rows is None or row in rows:
                answer = AnswerTime(ts - asked.ts_ns, ts, part.first + row, asked.frame)
                found.setdefault(int(part.header.opcode[row]), []).append(answer)
        for opcode, answers in found.items():
            self._put(opcode, answers)

    def _put(self, opcode: int, answers: list[AnswerTime]) -> None:
        times = np.array([answer.ts_ns for answer in answers], np.int64)
        for _ in range(self.axis.meet(int(times[0]), int(times.max()))):
            for grid in self.grids.values():
                grid.fold()
        grid = self.grids.setdefault(opcode, Grid(Kind.SUM))
        grid.reserve(PER_DECADE * DECADES)
        rows = level(np.array([answer.latency_ns for answer in answers], np.int64))
        steps = self.axis.steps(times)
        grid.put(rows, steps, np.ones(len(answers), np.int64))
        self.slowest[opcode] = heapq.nlargest(_SLOWEST, [*self.slowest.get(opcode, []), *answers])

    def cells(self, opcode: int) -> Array:
        """Return how many answers took how long in which step: a row for each level."""
        return self.grids[opcode].cells[: PER_DECADE * DECADES, : self.axis.used]


def level(latency_ns: Array) -> Array:
    """Return the rows of latencies."""
    powers = np.log10(np.maximum(latency_ns, 1000) / 1000) * PER_DECADE
    return np.minimum(powers.astype(np.int64), PER_DECADE * DECADES - 1)
