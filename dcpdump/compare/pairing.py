"""Pair the connections of two captures: by their content, since NAT changes addresses; then by addresses.

Connections without evidence are not paired: comparing them would report all of their frames as differences.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dcpdump.batch.gather import Array
from dcpdump.compare.capture_rows import HAS_SEQNO, CaptureRows, mixed, numbered
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Direction
from dcpdump.spec.opcodes import DCP_SEQNO_ADVANCED
from dcpdump.startup import dataclass

# -- alignment of two sequences of frames -------------------------------------------------------------
# Within a pair, frames are matched in order by their hashes; unmatched frames lie between.

_NONE = np.zeros(0, np.int64)


class Pairs(NamedTuple):
    """Matched indexes in A and B; both rise."""

    a: Array
    b: Array

    def __len__(self) -> int:
        return len(self.a)

    def chosen(self, which: Array) -> "Pairs":
        """Return the pairs for which ``which`` is true."""
        return Pairs(self.a[which], self.b[which])

    def joined(self, other: "Pairs") -> "Pairs":
        """Return these pairs and others, in order."""
        if not len(other.a):
            return self
        a, b = np.concatenate([self.a, other.a]), np.concatenate([self.b, other.b])
        order = np.argsort(a, kind="stable")
        return Pairs(a[order], b[order])


NO_PAIRS = Pairs(_NONE, _NONE)


def matched(a: Array, b: Array) -> tuple[Pairs, Pairs]:
    """Match rows of two directions: equal frames, and the same messages with different bytes.

    Frames with unique bytes are anchors. Between two anchors, repeated frames are matched by their offsets, as in two
    captures of one connection, then by their order; the rest by message, vbucket, stream and seqno.
    """
    pairs = anchors(a["hash"], b["hash"])
    pairs = pairs.joined(between(pairs, _behind(a, pairs.a), _behind(b, pairs.b)))
    pairs = pairs.joined(between(pairs, a["hash"], b["hash"]))
    found = between(pairs, messages(a), messages(b))
    equal = a["hash"][found.a] == b["hash"][found.b]  # candidates not matched before
    return pairs.joined(found.chosen(equal)), found.chosen(~equal)


def strays(a: Array, b: Array) -> tuple[Pairs, Pairs]:
    """Match the rest of a direction regardless of order, as ``matched`` does."""
    moved = _anywhere(a["hash"], b["hash"])
    left_a, left_b = _others(len(a), moved.a), _others(len(b), moved.b)
    left_a, left_b = (left[(rows["marks"][left] & HAS_SEQNO) != 0] for left, rows in ((left_a, a), (left_b, b)))
    found = _anywhere(messages(a[left_a]), messages(b[left_b]))
    return moved, Pairs(left_a[found.a], left_b[found.b])


def _anywhere(a: Array, b: Array) -> Pairs:
    if not len(a) or not len(b):
        return NO_PAIRS
    _, in_a, in_b = np.intersect1d(numbered(a), numbered(b), assume_unique=True, return_indices=True)
    order = np.argsort(in_a)
    return Pairs(in_a[order], in_b[order])


def anchors(a: Array, b: Array) -> Pairs:
    """Match the values that are unique on each side, as many as have the same order on both."""
    if len(a) == len(b) and bool((a == b).all()):
        return Pairs(np.arange(len(a)), np.arange(len(b)))
    mine, at_a = _once(a)
    other, at_b = _once(b)
    _, in_a, in_b = np.intersect1d(mine, other, assume_unique=True, return_indices=True)
    places_a, places_b = at_a[in_a], at_b[in_b]
    order = np.argsort(places_a, kind="stable")
    return rising(places_a[order], places_b[order])


def between(pairs: Pairs, a: Array, b: Array) -> Pairs:
    """Match equal values between the same two pairs: the first with the first, the second with the second."""
    left_a, left_b = _others(len(a), pairs.a), _others(len(b), pairs.b)
    if not len(left_a) or not len(left_b):
        return NO_PAIRS
    keys_a = numbered(mixed(a[left_a], np.searchsorted(pairs.a, left_a)))
    keys_b = numbered(mixed(b[left_b], np.searchsorted(pairs.b, left_b)))
    found = anchors(keys_a, keys_b)
    return Pairs(left_a[found.a], left_b[found.b])


def rising(a: Array, b: Array) -> Pairs:
    """Return the longest run of pairs whose indexes rise in B as in A; ``a`` rises."""
    if not len(b) or bool((np.diff(b) > 0).all()):
        return Pairs(a, b)
    # Where all before is below all after, the parts can be solved separately.
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
    """Return the indexes of a longest rising subsequence."""
    ends: list[int] = []  # the smallest value that ends a rise of each length
    where: list[int] = []
    before = np.full(len(numbers), -1, np.int64)
    for at, number in enumerate(numbers.tolist()):
        length = bisect_left(ends, number)
        if length == len(ends):
            ends.append(number)
            where.append(at)
        else:
            ends[length], where[length] = number, at
        if length:
            before[at] = where[length - 1]
    out, at = [], where[-1]
    while at >= 0:
        out.append(at)
        at = int(before[at])
    return np.array(out[::-1], np.int64)


def _once(values: Array) -> tuple[Array, Array]:
    """Return the values that occur once, sorted, and their indexes."""
    found, first, counts = np.unique(values, return_index=True, return_counts=True)
    return found[counts == 1], first[counts == 1]


def _others(count: int, rows: Array) -> Array:
    """Return the indexes below ``count`` that are not given."""
    left = np.ones(count, bool)
    left[rows] = False
    return np.flatnonzero(left)


def _behind(rows: Array, at: Array) -> Array:
    """Return keys that are equal for equal frames at the same distance (bytes) from the pair before them."""
    offset = rows["offset"]
    if len(at):
        offset = offset - offset[at][np.maximum(np.searchsorted(at, np.arange(len(rows))) - 1, 0)]
    return mixed(rows["hash"].copy(), offset)


def messages(rows: Array) -> Array:
    """Return keys that are equal for the same message, independent of its opaque, CAS, key and value."""
    what = rows["opcode"].astype(np.int64) << 8 | rows["magic"]
    return mixed(rows["seqno"].copy(), what << 32 | rows["vbucket_or_status"].astype(np.int64) << 16 | rows["sid"])


#: The most frames of a capture that are looked up; of more, a sample by hash is used.
_LOOKED_UP = 1 << 20
_ROWS = 1 << 16
#: The share of the smaller connection's frames that both must have, without documents.
_MOST = 0.75


#: Returns the hashes of rows that are looked up.
_Column = Callable[[Array], Array]


class Pair(NamedTuple):
    """A connection of A and the same one in B; ``turned``: direction 0 of one is direction 1 of the other."""

    a: int
    b: int
    turned: bool

    def direction_in_b(self, direction_id: int) -> int:
        """Return the id in B for a direction of A."""
        return 2 * self.b + (direction_id & 1 ^ self.turned)


class _Search:
    """The search for pairs, with those found so far."""

    def __init__(self, a: CaptureRows, b: CaptureRows) -> None:
        self._a, self._b = a, b
        self.found: dict[int, Pair] = {}
        self._paired: set[int] = set()

    def by(self, column: _Column, share: float) -> None:
        """Pair connections with most frames in common, at least a ``share`` of the smaller one, until none is left."""
        before = -1
        while len(self.found) > before:
            before = len(self.found)
            scores = self._scores(column)
            alike = {pair: count for pair, count in scores.items() if count >= share * self._smaller(pair)}
            order = sorted(alike.items(), key=lambda score: (-score[1], -_alike(self._a, self._b, score[0]), score[0]))
            self.add(pair for pair, _ in order)

    def add(self, pairs: Iterable[Pair]) -> None:
        """Add pairs of which neither connection is paired yet."""
        for pair in pairs:
            if pair.a not in self.found and pair.b not in self._paired:
                self.found[pair.a] = pair
                self._paired.add(pair.b)

    def _smaller(self, pair: Pair) -> int:
        return min(self._a.frames_of(pair.a), self._b.frames_of(pair.b))

    def _scores(self, column: _Column) -> dict[Pair, int]:
        """Return about how many frames two unpaired connections have in common that no third one has."""
        left = [direction_id for direction_id in self._a.counts if direction_id >> 1 not in self.found]
        others = [direction_id for direction_id in self._b.counts if direction_id >> 1 not in self._paired]
        if not left or not others:
            return {}
        frames = max(sum(self._a.counts[each] for each in left), sum(self._b.counts[each] for each in others))
        mask = np.uint64((1 << (frames // _LOOKED_UP).bit_length()) - 1)
        known, direction_ids = _known(self._a, left, column, mask)
        counts: Counter[tuple[int, int]] = Counter()
        for direction_id in others:
            for hashes in _hashes(self._b, direction_id, column, mask):
                at = np.minimum(np.searchsorted(known, hashes), max(0, len(known) - 1))
                hit = at[known[at] == hashes] if len(known) else at[:0]
                ours, sizes = np.unique(direction_ids[hit], return_counts=True)
                found = zip(ours.tolist(), sizes.tolist(), strict=True)
                counts.update({(each, direction_id): size for each, size in found})
        scores: Counter[Pair] = Counter()
        for (id_a, id_b), count in counts.items():
            scores[Pair(id_a >> 1, id_b >> 1, bool((id_a ^ id_b) & 1))] += count * (int(mask) + 1)
        return scores


def pairs(a: CaptureRows, b: CaptureRows) -> list[Pair]:
    """Return the connections in both captures, in the order of A.

    Evidence must be unique to a connection: changes of documents (their CAS is a time), both addresses, or most of all
    frames. A HELLO, an OPEN or a NOOP is equal in many connections, and so are failover logs.
    """
    search = _Search(a, b)
    search.by(lambda rows: rows["hash"][_is_specific(rows)], 0)
    search.by(_documents, 0)
    search.add(_by_addresses(a, b))
    search.by(lambda rows: rows["hash"], _MOST)
    return [search.found[number] for number in sorted(search.found)]


def _documents(rows: Array) -> Array:
    """Return hashes of document changes, by seqno and CAS; without a CAS by their bytes.

    Another run of a client has other opaques, and a proxy may compress values.
    """
    rows = rows[_is_specific(rows)]
    which = np.where(rows["cas"] != 0, rows["cas"], rows["body"])
    return mixed(messages(rows), which.view(np.int64))


def _is_specific(rows: Array) -> Array:
    found: Array = ((rows["marks"] & HAS_SEQNO) != 0) & (rows["opcode"] != DCP_SEQNO_ADVANCED)
    return found


def _known(a: CaptureRows, left: Sequence[int], column: _Column, mask: np.uint64) -> tuple[Array, Array]:
    """Return hashes that only one connection of A has, sorted, and their direction."""
    hashes, direction_ids = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for direction_id in left:
        mine = np.unique(np.concatenate(list(_hashes(a, direction_id, column, mask))))
        hashes.append(mine)
        direction_ids.append(np.full(len(mine), direction_id))
    every, first, counts = np.unique(np.concatenate(hashes), return_index=True, return_counts=True)
    several = len({direction_id >> 1 for direction_id in a.counts}) > 1
    keep = counts == 1 if several and (counts == 1).any() else counts > 0
    return every[keep], np.concatenate(direction_ids)[first[keep]]


def _hashes(side: CaptureRows, direction_id: int, column: _Column, mask: np.uint64) -> Iterator[Array]:
    for start in range(0, side.counts[direction_id], _ROWS):
        hashes = column(side.rows(direction_id, start, start + _ROWS))
        yield hashes[(hashes & mask) == 0]


def _by_addresses(a: CaptureRows, b: CaptureRows) -> Iterator[Pair]:
    """Yield connections with the same endpoints, the first with the first."""
    others: dict[frozenset[str], list[Direction]] = {}
    for number in b.connections:
        theirs = direction_of(b, number)
        others.setdefault(frozenset((theirs.src, theirs.dst)), []).append(theirs)
    for number in a.connections:
        mine = direction_of(a, number)
        for theirs in others.get(frozenset((mine.src, mine.dst)), ()):
            yield Pair(number, theirs.connection, mine.src != theirs.src)


def _alike(a: CaptureRows, b: CaptureRows, pair: Pair) -> int:
    """Return how many endpoints two connections have in common."""
    mine, theirs = direction_of(a, pair.a), direction_of(b, pair.b)
    return len({mine.src, mine.dst} & {theirs.src, theirs.dst})


def direction_of(side: CaptureRows, number: int) -> Direction:
    """Return the endpoints of a connection, in the order of direction 0."""
    found = side.directions.get(2 * number)
    if found is not None:
        return found
    other = side.directions[2 * number + 1]
    return Direction(other.connection, 0, other.dst, other.src, other.syn)


# -- way: one direction of a connection in both captures, frame against frame, window by window -------

#: How many frames of a direction are matched at once, of each side.
WINDOW = 1 << 17
#: The share of a window's frames that must match; otherwise it was too small.
_ENOUGH = 4


class Differences(NamedTuple):
    """The delay of a direction's frames in B, in ns, by both clocks."""

    frames: int
    p1: int
    p50: int
    p99: int


class Unmatched(NamedTuple):
    """Unmatched frames between two matched ones: rows of A and of B, one of which may be empty."""

    a_start: int
    a_stop: int
    b_start: int
    b_stop: int


class _Window(NamedTuple):
    """Rows of both sides from ``a`` and ``b`` on, with the equal and the changed ones."""

    a: int
    b: int
    rows_a: Array
    rows_b: Array
    same: Pairs
    other: Pairs


@dataclass(frozen=True, slots=True)
class Way:
    """The comparison of one direction. ``a`` and ``b``: its ids in both captures.

    ``only``: for A and B, the rows of frames that the other lacks, and the index in ``runs`` of each.
    """

    a: int
    b: int
    equal: int  #: frames in both, in the same order
    moved: int  #: frames in both, in another order
    changed: Array  #: rows of A, rising, and of B: the same message with different bytes
    only: tuple[tuple[Array, Array], tuple[Array, Array]]
    runs: Array
    later: Differences | None  #: None if no frame with a time is in both

    @property
    def differs(self) -> bool:
        """Return whether a frame is only in one capture, or has different bytes."""
        return bool(len(self.changed) or any(len(rows) for rows, _ in self.only))


def compared(side_a: CaptureRows, side_b: CaptureRows, id_a: int, id_b: int, window: int = WINDOW) -> Way:
    """Compare one direction."""
    equal, changed, runs, later = 0, [_pairs([], [])], [], [np.zeros(0, np.int64)]
    for a, b, rows_a, rows_b, same, other in _windows(side_a, side_b, id_a, id_b, window):
        equal += len(same)
        changed.append(_pairs(a + other.a, b + other.b))
        both = same.joined(other)
        runs.append(_runs(both.a, both.b, a, b, len(rows_a), len(rows_b)))
        earlier, then = rows_a["ts"][same.a], rows_b["ts"][same.b]
        later.append((then - earlier)[(earlier != NO_TIME) & (then != NO_TIME)])
    found = np.concatenate(runs) if runs else np.zeros((0, 4), np.int64)
    only = _rows_in(found[:, 0], found[:, 1]), _rows_in(found[:, 2], found[:, 3])
    moved, other = strays(side_a.chosen(id_a, only[0][0]), side_b.chosen(id_b, only[1][0]))
    gone = moved.joined(other)
    changed.append(_pairs(only[0][0][other.a], only[1][0][other.b]))
    every = np.concatenate(changed)
    return Way(
        id_a,
        id_b,
        equal,
        len(moved),
        every[np.argsort(every[:, 0])],
        (_without(only[0], gone.a), _without(only[1], np.sort(gone.b))),
        found,
        differences(np.concatenate(later)),
    )


def _windows(side_a: CaptureRows, side_b: CaptureRows, id_a: int, id_b: int, size: int) -> "Iterator[_Window]":
    """Yield windows: their beginnings, their rows up to the last matched frame, and the matches."""
    count_a, count_b = side_a.counts.get(id_a, 0), side_b.counts.get(id_b, 0)
    a = b = 0
    wide = size
    while a < count_a or b < count_b:
        rows_a, rows_b = side_a.rows(id_a, a, a + wide), side_b.rows(id_b, b, b + wide)
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
    """Return the unmatched runs around the pairs of a window that begins at ``from_a`` and ``from_b``."""
    edge = np.array([-1])
    starts_a, starts_b = np.concatenate([edge, a]) + 1, np.concatenate([edge, b]) + 1
    stops_a, stops_b = np.concatenate([a, [count_a]]), np.concatenate([b, [count_b]])
    found = np.column_stack([starts_a + from_a, stops_a + from_a, starts_b + from_b, stops_b + from_b])
    runs: Array = found[(starts_a < stops_a) | (starts_b < stops_b)]
    return runs


def _rows_in(starts: Array, stops: Array) -> tuple[Array, Array]:
    """Return all rows of runs, and the index of each row's run."""
    sizes = stops - starts
    which = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[which]
    return rows, which


def _without(rows: tuple[Array, Array], gone: Array) -> tuple[Array, Array]:
    keep = np.ones(len(rows[0]), bool)
    keep[gone] = False
    return rows[0][keep], rows[1][keep]


def differences(later: Array) -> Differences | None:
    """Return how much later something is, by how much each of it is; None where there is nothing."""
    if not len(later):
        return None
    return Differences(len(later), *(int(each) for each in np.percentile(later, (1, 50, 99), method="nearest")))
