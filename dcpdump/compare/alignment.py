"""Match two sequences of frames: the same frames in the same order, by their hashes, and what lies between them."""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from dcpdump.batch.gather import Array
from dcpdump.compare.capture_rows import HAS_SEQNO, mixed, numbered

_NONE = np.zeros(0, np.int64)


class Pairs(NamedTuple):
    """Places in A and B that are matched; both rise."""

    a: Array
    b: Array

    def __len__(self) -> int:
        return len(self.a)

    def chosen(self, which: Array) -> "Pairs":
        """Return those of these pairs for which ``which`` is true."""
        return Pairs(self.a[which], self.b[which])

    def joined(self, other: "Pairs") -> "Pairs":
        """Return these and others between them, in order."""
        if not len(other.a):
            return self
        a, b = np.concatenate([self.a, other.a]), np.concatenate([self.b, other.b])
        order = np.argsort(a, kind="stable")
        return Pairs(a[order], b[order])


NO_PAIRS = Pairs(_NONE, _NONE)


def matched(a: Array, b: Array) -> tuple[Pairs, Pairs]:
    """Match rows of two directions: those that are equal, and those that are the same message with other bytes.

    Frames whose bytes are unique are anchors. Between two anchors repeated frames are matched by their offsets, as in
    two captures of one connection, then by their order; what is left by message, vbucket, stream and seqno.
    """
    pairs = anchors(a["hash"], b["hash"])
    pairs = pairs.joined(between(pairs, _behind(a, pairs.a), _behind(b, pairs.b)))
    pairs = pairs.joined(between(pairs, a["hash"], b["hash"]))
    found = between(pairs, messages(a), messages(b))
    equal = a["hash"][found.a] == b["hash"][found.b]  # in an order in which nothing was matched before
    return pairs.joined(found.chosen(equal)), found.chosen(~equal)


class Strays(NamedTuple):
    """Matches that are not in one order: equal frames, and the same messages with other bytes."""

    moved: Pairs
    changed: Pairs


def strays(a: Array, b: Array) -> Strays:
    """Match what is left of a direction wherever it stands: frames may have come in another order."""
    moved = _anywhere(a["hash"], b["hash"])
    left_a, left_b = _others(len(a), moved.a), _others(len(b), moved.b)
    left_a, left_b = (left[(rows["marks"][left] & HAS_SEQNO) != 0] for left, rows in ((left_a, a), (left_b, b)))
    found = _anywhere(messages(a[left_a]), messages(b[left_b]))
    return Strays(moved, Pairs(left_a[found.a], left_b[found.b]))


def _anywhere(a: Array, b: Array) -> Pairs:
    if not len(a) or not len(b):
        return NO_PAIRS
    _, in_a, in_b = np.intersect1d(numbered(a), numbered(b), assume_unique=True, return_indices=True)
    order = np.argsort(in_a)
    return Pairs(in_a[order], in_b[order])


def anchors(a: Array, b: Array) -> Pairs:
    """Match the values that each side has once, as many as are in the same order on both."""
    if len(a) == len(b) and bool((a == b).all()):
        return Pairs(np.arange(len(a)), np.arange(len(b)))
    mine, at_a = _once(a)
    other, at_b = _once(b)
    _, in_a, in_b = np.intersect1d(mine, other, assume_unique=True, return_indices=True)
    places_a, places_b = at_a[in_a], at_b[in_b]
    order = np.argsort(places_a, kind="stable")
    return rising(places_a[order], places_b[order])


def between(pairs: Pairs, a: Array, b: Array) -> Pairs:
    """Match equal values that lie between the same two pairs: the first with the first, the second with the second."""
    left_a, left_b = _others(len(a), pairs.a), _others(len(b), pairs.b)
    if not len(left_a) or not len(left_b):
        return NO_PAIRS
    keys_a = numbered(mixed(a[left_a], np.searchsorted(pairs.a, left_a)))
    keys_b = numbered(mixed(b[left_b], np.searchsorted(pairs.b, left_b)))
    found = anchors(keys_a, keys_b)
    return Pairs(left_a[found.a], left_b[found.b])


def rising(a: Array, b: Array) -> Pairs:
    """Return the longest run of pairs whose places in B rise as those in A do; ``a`` rises."""
    if not len(b) or bool((np.diff(b) > 0).all()):
        return Pairs(a, b)
    # Where everything before is below everything behind, the parts can be solved by themselves.
    lowest_behind = np.minimum.accumulate(b[::-1])[::-1]
    cuts = np.flatnonzero(np.maximum.accumulate(b)[:-1] < lowest_behind[1:]) + 1
    bounds = np.concatenate([[0], cuts, [len(b)]])
    keep = np.ones(len(b), bool)
    for at in np.flatnonzero(np.diff(bounds) > 1).tolist():
        start, stop = int(bounds[at]), int(bounds[at + 1])
        keep[start:stop] = False
        keep[start + _longest_rising(b[start:stop])] = True
    return Pairs(a[keep], b[keep])


def _longest_rising(numbers: Array) -> Array:
    """Return the places of a longest rising subsequence."""
    ends: list[int] = []  # the least value that ends a rise of each length
    where: list[int] = []
    before = np.full(len(numbers), -1, np.int64)
    for place, number in enumerate(numbers.tolist()):
        length = bisect_left(ends, number)
        if length == len(ends):
            ends.append(number)
            where.append(place)
        else:
            ends[length], where[length] = number, place
        if length:
            before[place] = where[length - 1]
    out, place = [], where[-1]
    while place >= 0:
        out.append(place)
        place = int(before[place])
    return np.array(out[::-1], np.int64)


def _once(values: Array) -> tuple[Array, Array]:
    """Return the values that are there once, sorted, and their places."""
    found, first, counts = np.unique(values, return_index=True, return_counts=True)
    return found[counts == 1], first[counts == 1]


def _others(count: int, places: Array) -> Array:
    """Return the places up to ``count`` that are not among some."""
    left = np.ones(count, bool)
    left[places] = False
    return np.flatnonzero(left)


def _behind(rows: Array, places: Array) -> Array:
    """Return keys that are equal for equal frames as far behind the pair before them, in bytes."""
    offset = rows["offset"]
    if len(places):
        offset = offset - offset[places][np.maximum(np.searchsorted(places, np.arange(len(rows))) - 1, 0)]
    return mixed(rows["hash"].copy(), offset)


def messages(rows: Array) -> Array:
    """Return keys that are equal for what may be one message: whatever its opaque, CAS, key and value are."""
    what = rows["opcode"].astype(np.int64) << 8 | rows["magic"]
    return mixed(rows["seqno"].copy(), what << 32 | rows["word"].astype(np.int64) << 16 | rows["sid"])
