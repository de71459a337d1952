"""Pair the connections of two captures: by what they carry, since addresses behind NAT differ; then by addresses."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dcpdump.batch.ends import Ends
from dcpdump.batch.gather import Array
from dcpdump.compare.alignment import messages
from dcpdump.compare.capture_rows import HAS_SEQNO, CaptureRows

#: Of larger captures only so many frames are looked up, chosen by their hashes.
_LOOKED_UP = 1 << 20
_ROWS = 1 << 16


class Pair(NamedTuple):
    """A connection of A and the one of B that it is; ``turned``: direction 0 of one is direction 1 of the other."""

    a: int
    b: int
    turned: bool

    def place_in_b(self, place: int) -> int:
        """Return the place in B of a direction of A."""
        return 2 * self.b + (place & 1 ^ self.turned)


def pairs(a: CaptureRows, b: CaptureRows) -> list[Pair]:
    """Return the connections that both captures have, in the order of A."""
    found: dict[int, Pair] = {}
    taken: set[int] = set()
    for column in ("hash", "message"):
        scores = _scores(a, b, column, found, taken)
        for pair, _ in sorted(scores.items(), key=lambda score: (-score[1], -_alike(a, b, score[0]), score[0])):
            if pair.a not in found and pair.b not in taken:
                found[pair.a] = pair
                taken.add(pair.b)
    for pair in _by_addresses(a, b):
        if pair.a not in found and pair.b not in taken:
            found[pair.a] = pair
            taken.add(pair.b)
    return [found[number] for number in sorted(found)]


def _scores(a: CaptureRows, b: CaptureRows, column: str, found: dict[int, Pair], taken: set[int]) -> dict[Pair, int]:
    """Count the frames that connections which are not paired yet have in common, and that no third one has."""
    mask = np.uint64((1 << max(0, (max(a.frames, b.frames) // _LOOKED_UP).bit_length())) - 1)
    known, places = _known(a, column, mask, found)
    counts: Counter[tuple[int, int]] = Counter()
    for place in [place for place in b.counts if place >> 1 not in taken]:
        for hashes in _hashes(b, place, column, mask):
            at = np.minimum(np.searchsorted(known, hashes), max(0, len(known) - 1))
            hit = at[known[at] == hashes] if len(known) else at[:0]
            others, sizes = np.unique(places[hit], return_counts=True)
            counts.update({(each, place): size for each, size in zip(others.tolist(), sizes.tolist(), strict=True)})
    scores: Counter[Pair] = Counter()
    for (place_a, place_b), count in counts.items():
        scores[Pair(place_a >> 1, place_b >> 1, bool((place_a ^ place_b) & 1))] += count
    return scores


def _known(a: CaptureRows, column: str, mask: np.uint64, found: dict[int, Pair]) -> tuple[Array, Array]:
    """Return hashes that one connection of A alone has, sorted, and in which direction."""
    hashes, places = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for place in [place for place in a.counts if place >> 1 not in found]:
        mine = np.unique(np.concatenate(list(_hashes(a, place, column, mask))))
        hashes.append(mine)
        places.append(np.full(len(mine), place))
    every, first, counts = np.unique(np.concatenate(hashes), return_index=True, return_counts=True)
    several = len({place >> 1 for place in a.counts}) > 1
    keep = counts == 1 if several and (counts == 1).any() else counts > 0
    return every[keep], np.concatenate(places)[first[keep]]


def _hashes(side: CaptureRows, place: int, column: str, mask: np.uint64) -> Iterator[Array]:
    for start in range(0, side.counts[place], _ROWS):
        rows = side.rows(place, start, start + _ROWS)
        hashes = rows["hash"] if column == "hash" else messages(rows[(rows["marks"] & HAS_SEQNO) != 0])
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
