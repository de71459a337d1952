"""Way: one direction of a connection in both captures, frame against frame, window by window."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dcpdump.batch.gather import Array
from dcpdump.compare.alignment import Pairs, matched, strays
from dcpdump.compare.capture_rows import CaptureRows
from dcpdump.net.no_time import NO_TIME
from dcpdump.quick_dataclass import dataclass

#: Frames of a direction that are matched at once, of each side.
WINDOW = 1 << 17
#: Of the frames of a window so many have to match, or it was too small.
_ENOUGH = 4


class Differences(NamedTuple):
    """How much later the frames of a direction are in B than in A, in ns, as the clocks of both say."""

    frames: int
    p1: int
    p50: int
    p99: int


class Unmatched(NamedTuple):
    """Frames between two that are matched: rows of A and of B. One of both may have none."""

    a_start: int
    a_stop: int
    b_start: int
    b_stop: int


class _Window(NamedTuple):
    """Rows of both sides from ``a`` and ``b`` on: which are equal, and which are changed."""

    a: int
    b: int
    rows_a: Array
    rows_b: Array
    same: Pairs
    other: Pairs


@dataclass(frozen=True, slots=True)
class Way:
    """One direction, compared. ``a`` and ``b``: its places in both captures.

    ``only``: of A and of B the rows of frames that the other has not, and in which of ``runs`` each is.
    """

    a: int
    b: int
    equal: int  #: frames that both have, in one order
    moved: int  #: frames that both have, but not in one order
    changed: Array  #: rows of A, rising, and of B: the same message with other bytes
    only: tuple[tuple[Array, Array], tuple[Array, Array]]
    runs: Array
    later: Differences | None  #: None where no frame with a time is in both

    @property
    def differs(self) -> bool:
        """Return whether a frame is in one of both only, or has other bytes."""
        return bool(len(self.changed) or any(len(rows) for rows, _ in self.only))


def compared(side_a: CaptureRows, side_b: CaptureRows, place_a: int, place_b: int, window: int = WINDOW) -> Way:
    """Compare one direction."""
    equal, changed, runs, later = 0, [_pairs([], [])], [], [np.zeros(0, np.int64)]
    for a, b, rows_a, rows_b, same, other in _windows(side_a, side_b, place_a, place_b, window):
        equal += len(same)
        changed.append(_pairs(a + other.a, b + other.b))
        both = same.joined(other)
        runs.append(_runs(both.a, both.b, a, b, len(rows_a), len(rows_b)))
        earlier, then = rows_a["ts"][same.a], rows_b["ts"][same.b]
        later.append((then - earlier)[(earlier != NO_TIME) & (then != NO_TIME)])
    found = np.concatenate(runs) if runs else np.zeros((0, 4), np.int64)
    only = _rows_in(found[:, 0], found[:, 1]), _rows_in(found[:, 2], found[:, 3])
    left = strays(side_a.chosen(place_a, only[0][0]), side_b.chosen(place_b, only[1][0]))
    gone = left.moved.joined(left.changed)
    changed.append(_pairs(only[0][0][left.changed.a], only[1][0][left.changed.b]))
    every = np.concatenate(changed)
    return Way(
        place_a,
        place_b,
        equal,
        len(left.moved),
        every[np.argsort(every[:, 0])],
        (_without(only[0], gone.a), _without(only[1], np.sort(gone.b))),
        found,
        _differences(np.concatenate(later)),
    )


def _windows(side_a: CaptureRows, side_b: CaptureRows, place_a: int, place_b: int, size: int) -> "Iterator[_Window]":
    """Yield windows: where they begin, their rows up to the last matched frame, and which are matched."""
    count_a, count_b = side_a.counts.get(place_a, 0), side_b.counts.get(place_b, 0)
    a = b = 0
    wide = size
    while a < count_a or b < count_b:
        rows_a, rows_b = side_a.rows(place_a, a, a + wide), side_b.rows(place_b, b, b + wide)
        same, other = matched(rows_a, rows_b)
        last = a + wide >= count_a and b + wide >= count_b
        if not last:
            both = same.joined(other)
            if _ENOUGH * len(both) < min(len(rows_a), len(rows_b)) or not len(both):
                wide *= 2
                continue
            rows_a, rows_b = rows_a[: both.a[-1] + 1], rows_b[: both.b[-1] + 1]
        yield _Window(a, b, rows_a, rows_b, same, other)
        a, b, wide = a + len(rows_a), b + len(rows_b), size


def _pairs(a: "Array | list[int]", b: "Array | list[int]") -> Array:
    return np.column_stack([np.asarray(a, np.int64), np.asarray(b, np.int64)])


def _runs(a: Array, b: Array, from_a: int, from_b: int, count_a: int, count_b: int) -> Array:
    """Return the runs around pairs of a window, which begins at ``from_a`` and ``from_b``."""
    edge = np.array([-1])
    starts_a, starts_b = np.concatenate([edge, a]) + 1, np.concatenate([edge, b]) + 1
    stops_a, stops_b = np.concatenate([a, [count_a]]), np.concatenate([b, [count_b]])
    found = np.column_stack([starts_a + from_a, stops_a + from_a, starts_b + from_b, stops_b + from_b])
    runs: Array = found[(starts_a < stops_a) | (starts_b < stops_b)]
    return runs


def _rows_in(starts: Array, stops: Array) -> tuple[Array, Array]:
    """Return all rows of runs, and of each in which run it is."""
    sizes = stops - starts
    which = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[which]
    return rows, which


def _without(rows: tuple[Array, Array], gone: Array) -> tuple[Array, Array]:
    keep = np.ones(len(rows[0]), bool)
    keep[gone] = False
    return rows[0][keep], rows[1][keep]


def _differences(later: Array) -> Differences | None:
    if not len(later):
        return None
    return Differences(len(later), *(int(each) for each in np.percentile(later, (1, 50, 99), method="nearest")))
