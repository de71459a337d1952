"""Pair the connections of two captures: by what they carry, since addresses behind NAT differ; then by addresses.

Connections without evidence stay alone: to compare them would report all of their frames as differences.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dcpdump.batch.ends import Ends
from dcpdump.batch.gather import Array
from dcpdump.compare.alignment import messages
from dcpdump.compare.capture_rows import HAS_SEQNO, CaptureRows, mixed
from dcpdump.spec.opcodes import DCP_SEQNO_ADVANCED

#: Of larger captures only so many frames are looked up, chosen by their hashes.
_LOOKED_UP = 1 << 20
_ROWS = 1 << 16
#: Of the smaller of two connections without documents so many frames have to be in both.
_MOST = 0.75


#: What of some rows is looked up, as hashes.
_Column = Callable[[Array], Array]


class Pair(NamedTuple):
    """A connection of A and the one of B that it is; ``turned``: direction 0 of one is direction 1 of the other."""

    a: int
    b: int
    turned: bool

    def place_in_b(self, place: int) -> int:
        """Return the place in B of a direction of A."""
        return 2 * self.b + (place & 1 ^ self.turned)


class _Search:
    """The connections that are paired so far."""

    def __init__(self, a: CaptureRows, b: CaptureRows) -> None:
        self._a, self._b = a, b
        self.found: dict[int, Pair] = {}
        self._taken: set[int] = set()

    def by(self, column: _Column, share: float) -> None:
        """Pair what has most in common, and of the smaller connection at least that share, until nothing is found."""
        before = -1
        while len(self.found) > before:
            before = len(self.found)
            scores = self._scores(column)
            alike = {pair: count for pair, count in scores.items() if count >= share * self._smaller(pair)}
            order = sorted(alike.items(), key=lambda score: (-score[1], -_alike(self._a, self._b, score[0]), score[0]))
            self.take(pair for pair, _ in order)

    def take(self, pairs: Iterable[Pair]) -> None:
        """Pair those connections of which neither is paired yet."""
        for pair in pairs:
            if pair.a not in self.found and pair.b not in self._taken:
                self.found[pair.a] = pair
                self._taken.add(pair.b)

    def _smaller(self, pair: Pair) -> int:
        return min(self._a.frames_of(pair.a), self._b.frames_of(pair.b))

    def _scores(self, column: _Column) -> dict[Pair, int]:
        """Return how many frames connections that are not paired yet have in common, and no third one has: about."""
        left = [place for place in self._a.counts if place >> 1 not in self.found]
        others = [place for place in self._b.counts if place >> 1 not in self._taken]
        if not left or not others:
            return {}
        frames = max(sum(self._a.counts[each] for each in left), sum(self._b.counts[each] for each in others))
        mask = np.uint64((1 << (frames // _LOOKED_UP).bit_length()) - 1)
        known, places = _known(self._a, left, column, mask)
        counts: Counter[tuple[int, int]] = Counter()
        for place in others:
            for hashes in _hashes(self._b, place, column, mask):
                at = np.minimum(np.searchsorted(known, hashes), max(0, len(known) - 1))
                hit = at[known[at] == hashes] if len(known) else at[:0]
                ours, sizes = np.unique(places[hit], return_counts=True)
                counts.update({(each, place): size for each, size in zip(ours.tolist(), sizes.tolist(), strict=True)})
        scores: Counter[Pair] = Counter()
        for (place_a, place_b), count in counts.items():
            scores[Pair(place_a >> 1, place_b >> 1, bool((place_a ^ place_b) & 1))] += count * (int(mask) + 1)
        return scores


def pairs(a: CaptureRows, b: CaptureRows) -> list[Pair]:
    """Return the connections that both captures have, in the order of A.

    Only what other connections have not is evidence: changes of documents (their CAS is a time), both addresses, or
    most of all frames. A HELLO, an OPEN or a NOOP is the same in many, and so are the histories of vbuckets.
    """
    search = _Search(a, b)
    search.by(lambda rows: rows["hash"][_is_specific(rows)], 0)
    search.by(_documents, 0)
    search.take(_by_addresses(a, b))
    search.by(lambda rows: rows["hash"], _MOST)
    return [search.found[number] for number in sorted(search.found)]


def _documents(rows: Array) -> Array:
    """Return which changes of documents rows are, by seqno and CAS; without a CAS by their bytes.

    Another run of a client has other opaques, and something in between may compress values.
    """
    rows = rows[_is_specific(rows)]
    which = np.where(rows["cas"] != 0, rows["cas"], rows["body"])
    return mixed(messages(rows), which.view(np.int64))


def _is_specific(rows: Array) -> Array:
    found: Array = ((rows["marks"] & HAS_SEQNO) != 0) & (rows["opcode"] != DCP_SEQNO_ADVANCED)
    return found


def _known(a: CaptureRows, left: Sequence[int], column: _Column, mask: np.uint64) -> tuple[Array, Array]:
    """Return hashes that one connection of A alone has, sorted, and in which direction."""
    hashes, places = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for place in left:
        mine = np.unique(np.concatenate(list(_hashes(a, place, column, mask))))
        hashes.append(mine)
        places.append(np.full(len(mine), place))
    every, first, counts = np.unique(np.concatenate(hashes), return_index=True, return_counts=True)
    several = len({place >> 1 for place in a.counts}) > 1
    keep = counts == 1 if several and (counts == 1).any() else counts > 0
    return every[keep], np.concatenate(places)[first[keep]]


def _hashes(side: CaptureRows, place: int, column: _Column, mask: np.uint64) -> Iterator[Array]:
    for start in range(0, side.counts[place], _ROWS):
        hashes = column(side.rows(place, start, start + _ROWS))
        yield hashes[(hashes & mask) == 0]


def _by_addresses(a: CaptureRows, b: CaptureRows) -> Iterator[Pair]:
    """Yield the connections that have the same ends, the first with the first."""
    others: dict[frozenset[str], list[Ends]] = {}
    for number in b.connections:
        theirs = ends_of(b, number)
        others.setdefault(frozenset((theirs.src, theirs.dst)), []).append(theirs)
    for number in a.connections:
        mine = ends_of(a, number)
        for theirs in others.get(frozenset((mine.src, mine.dst)), ()):
            yield Pair(number, theirs.connection, mine.src != theirs.src)


def _alike(a: CaptureRows, b: CaptureRows, pair: Pair) -> int:
    """Return how many ends of two connections are the same."""
    mine, theirs = ends_of(a, pair.a), ends_of(b, pair.b)
    return len({mine.src, mine.dst} & {theirs.src, theirs.dst})


def ends_of(side: CaptureRows, number: int) -> Ends:
    """Return who a connection is between, as direction 0 has it."""
    ends = side.ends.get(2 * number)
    if ends is not None:
        return ends
    other = side.ends[2 * number + 1]
    return Ends(other.connection, 0, other.dst, other.src, other.syn)
