"""Silence: for each vbucket and step, for how long nothing had come on its streams; and how many messages came."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dcpdump.batch.course import Course
from dcpdump.batch.gather import Array
from dcpdump.report.axis import TimeAxis
from dcpdump.report.png import Colour
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

#: The levels of a map, from pale to strong; 0 is empty, and the one behind them is grey.
LEVELS = 13
ENDED = LEVELS + 1
_INK = (37, 99, 205)
_GREY = (128, 128, 128, 90)
COLOURS: list[Colour] = [
    (0, 0, 0, 0),
    *((*_INK, round(18 + 237 * (level / (LEVELS - 1)) ** 1.4)) for level in range(LEVELS)),
    _GREY,
    (0, 0, 0, 0),
]
#: Rows and columns of a picture, at most; where there are more, it has the largest of neighbours.
ROWS, COLUMNS = 1024, 600
#: The palest level is silence below this part of the time.
_SHORT = 128


class Map(NamedTuple):
    """The vbuckets of one consumer over time."""

    vbuckets: list[int]  #: a row each
    silence: Array  #: levels
    messages: Array  #: levels
    limits: list[float]  #: seconds of silence at which each level begins
    most: int  #: messages in a cell


def silence_map(course: Course, group: Sequence[ConnectionState], times: TimeAxis) -> Map:
    """Return the map of a consumer's streams."""
    by_vbucket: dict[int, list[Stream]] = {}
    for connection in group:
        for stream in connection.streams:
            if stream.known:
                by_vbucket.setdefault(stream.vbucket, []).append(stream)
    vbuckets = sorted(by_vbucket)
    used, step_s = course.axis.used, course.axis.step_ns / 1e9
    total = used * step_s
    short = max(step_s, total / _SHORT)
    limits = [short * (total / short) ** (level / LEVELS) for level in range(LEVELS)]
    each = max(1, -(-len(vbuckets) // ROWS))  # of so many neighbours a row has the largest
    silence = np.zeros((-(-len(vbuckets) // each), used), np.uint8)
    came = np.zeros(silence.shape, np.uint32)
    for at, vbucket in enumerate(vbuckets):
        row, streams = at // each, by_vbucket[vbucket]
        now = course.came({(stream.connection.number, vbucket, stream.stream_id) for stream in streams})
        came[row] = np.maximum(came[row], now)
        silence[row] = np.maximum(silence[row], _row(now, streams, times, used, np.array(limits) / step_s))
    most = int(came.max(initial=0))
    return Map(vbuckets, _shrunk(silence), _shrunk(_heat(came, most)), limits, most)


def _row(came: Array, streams: Sequence[Stream], times: TimeAxis, used: int, limits: Array) -> Array:
    """Return the levels of one vbucket."""
    alive = np.zeros(used, bool)
    begins = used
    for stream in streams:
        begin, end = _life(stream, times, used)
        if begin is not None:
            alive[begin:end] = True
            begins = min(begins, begin)
    steps = np.arange(used)
    last = np.maximum.accumulate(np.where(came > 0, steps, begins))
    level = np.searchsorted(limits, np.maximum(steps - last, 0), side="right")
    levels = np.clip(level, 1, LEVELS)
    return np.where(alive, levels, np.where(steps > begins, ENDED, 0)).astype(np.uint8)


def _life(stream: Stream, times: TimeAxis, used: int) -> tuple[int | None, int]:
    """Return the steps in which a stream was open."""
    if stream.requests and not stream.granted and not stream.traffic.any:
        return None, 0
    first = stream.granted_ns if stream.granted_ns is not None else stream.traffic.first_ns
    ends = [ts for ts in (stream.ended_ns, stream.closed_ns, stream.connection.end.ts_ns) if ts is not None]
    begin = 0 if not stream.requests or first is None else min(used - 1, int(times.place(first) * used))
    return begin, min(used, int(times.place(min(ends)) * used) + 1) if ends else used


def _heat(came: Array, most: int) -> Array:
    """Return the levels of numbers of messages: logarithms, and 0 where none came."""
    if not most:
        return np.zeros(came.shape, np.uint8)
    scaled = np.log1p(came) / np.log1p(most) * (LEVELS - 1)
    return np.where(came > 0, 1 + scaled.astype(np.uint8), 0).astype(np.uint8)


def _shrunk(cells: Array) -> Array:
    """Return cells with the largest of neighbours where there are too many in a row."""
    count = cells.shape[1]
    if count > COLUMNS:
        cells = np.maximum.reduceat(cells, np.arange(0, count, -(-count // COLUMNS)), axis=1)
    return cells
