"""Align captures: find by how much their clocks differ, by the segments that two of them have.

A packet that passes two points is the same at both: its addresses and ports, its sequence number, how its payload
begins (where network cards cut segments, what follows differs). Of the connection that two captures have most of, the
times of both directions say how far their clocks are apart, as those of frames say in ``comparison``.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.batch.gather import Array, records_at
from dcpdump.batch.read_blocks import blocks_of
from dcpdump.capture.file import Capture
from dcpdump.compare.capture_rows import mixed
from dcpdump.compare.comparison import clock
from dcpdump.compare.pairing import differences
from dcpdump.net.layers import Layers
from dcpdump.net.packet import NO_TIME
from dcpdump.net.tcp import Segment

_WAY = np.dtype([("connection", "u8"), ("turned", "?")])
#: ``key``: of what is the same in each capture; ``turned``: which way it goes.
_SEGMENT = np.dtype([("key", "u8"), *_WAY.descr, ("file", "u4"), ("ts_ns", "i8")])
_BEGINNING = 8  #: bytes of a payload that are compared
_U64 = np.dtype(">u8")
#: The share of the memory that is for segments, as a divisor.
_SHARE = 8
#: How many segments of a connection both captures must have: this number, and of one capture a hundredth of all that it
#: has, and half of those between the first and the last. Fewer are retransmissions, which the next file of a set has.
_LEAST, _HUNDREDTH, _HALF = 10, 100, 2


class Move(NamedTuple):
    """By how much the times of a capture are to be moved."""

    ns: int = 0
    like: int | None = None  #: so that they are like those of that capture; None: those of no other are
    segments: int = 0  #: that are in both


class _Link(NamedTuple):
    """How far the clock of capture ``b`` is ahead of that of ``a``, which has the same segments."""

    a: int
    b: int
    ahead_ns: int
    segments: int


def moves(captures: Sequence[Capture], memory: int) -> list[Move]:
    """Read captures, and return by how much each is to be moved so that all have one clock, that of the first.

    ``memory``: bytes of the command's. What no other capture has anything in common with stays where it is.
    """
    segments = _Segments(memory // _SHARE // _SEGMENT.itemsize)
    for number, capture in enumerate(captures):
        layers = Layers()
        for block in blocks_of([capture]):
            segments.add(number, block, layers)
    links = list(_links(segments.all(), len(captures)))
    found: dict[int, Move] = {}
    for number in range(len(captures)):
        if number not in found:
            found[number] = Move()
            _follow(links, found)
    return [found[number] for number in range(len(captures))]


def _follow(links: Sequence[_Link], found: dict[int, Move]) -> None:
    """Find the moves of all captures that are linked with those found, by the links with most segments."""
    while ways := [link for link in links if (link.a in found) is not (link.b in found)]:
        a, b, ahead_ns, count = max(ways, key=lambda link: link.segments)
        if a in found:
            found[b] = Move(found[a].ns - ahead_ns, a, count)
        else:
            found[a] = Move(found[b].ns + ahead_ns, b, count)


class _Segments:
    """The segments with payload of captures. Of more than ``most`` some are kept: in each capture the same ones."""

    def __init__(self, most: int) -> None:
        self._most = max(most, 1 << 10)
        self._kept = [np.zeros(0, _SEGMENT)]
        self._count = 0
        self._mask = np.uint64(0)

    def all(self) -> Array:
        """Return them."""
        return np.concatenate(self._kept)

    def add(self, file: int, block: Block, layers: Layers) -> None:
        """Add those of a block; ``layers``: reads what is not plain of its file."""
        facts = block.facts
        rows = np.flatnonzero((facts.flow >= 0) & (facts.size > 0) & (block.ts_ns != NO_TIME))
        found = np.zeros(len(rows), _SEGMENT)
        ways = np.array([_way(key) for key in facts.keys], _WAY)[facts.flow[rows]]
        found["connection"], found["turned"], found["ts_ns"] = ways["connection"], ways["turned"], block.ts_ns[rows]
        data = np.frombuffer(block.data + bytes(_BEGINNING), np.uint8)
        begins = records_at(data, _U64, facts.start[rows]).astype(np.uint64)
        begins >>= (64 - 8 * np.minimum(facts.size[rows], _BEGINNING)).astype(np.uint64)
        self._keep(file, found, facts.seq[rows], begins)
        others = []
        for row in np.flatnonzero((facts.flow < 0) & (block.ts_ns != NO_TIME)).tolist():
            segment = layers.feed(block.packets[row])
            if isinstance(segment, Segment) and segment.payload:
                begin = int.from_bytes(segment.payload[:_BEGINNING], "big")
                others.append((begin, *_way(segment.key), segment.seq, block.batch.times[row]))
        if others:
            found = np.array(others, _SEGMENT)  # the others' beginnings and numbers are in its columns meanwhile
            self._keep(file, found, found["file"].astype(np.int64), found["key"].copy())

    def _keep(self, file: int, found: Array, seq: Array, begins: Array) -> None:
        found["file"] = file
        found["key"] = mixed(mixed(found["connection"], 2 * seq + found["turned"]), begins.view(np.int64))
        self._kept.append(found[found["key"] & self._mask == 0])
        self._count += len(self._kept[-1])
        while self._count > self._most:
            self._mask = self._mask << np.uint64(1) | np.uint64(1)
            found = self.all()
            self._kept = [found[found["key"] & self._mask == 0]]
            self._count = len(self._kept[0])


@lru_cache(1 << 12)
def _way(key: bytes) -> tuple[int, bool]:
    """Return a number for the connection that has a flow with that key, and which of both directions it is."""
    half = len(key) // 2 - 2
    src, dst = key[:half] + key[-4:-2], key[half:-4] + key[-2:]
    return int.from_bytes(blake2b(min(src, dst) + max(src, dst), digest_size=8).digest(), "big"), src > dst


def _links(rows: Array, files: int) -> Iterator[_Link]:
    """Yield which captures have segments in common. Of a segment that one has several times the first counts."""
    rows = rows[np.lexsort((rows["ts_ns"], rows["file"], rows["key"]))]
    again = (rows["key"][1:] == rows["key"][:-1]) & (rows["file"][1:] == rows["file"][:-1])
    rows = rows[np.concatenate([[True], ~again])[: len(rows)]]
    at = np.flatnonzero(rows["key"][1:] == rows["key"][:-1])
    pairs = rows["file"][at] * np.int64(files) + rows["file"][at + 1]
    order = np.argsort(pairs, kind="stable")
    every = rows[np.argsort(rows["file"], kind="stable")]
    begins = np.searchsorted(every["file"], np.arange(files + 1)).tolist()
    for both in np.split(at[order], np.flatnonzero(np.diff(pairs[order])) + 1):
        if len(both) >= _LEAST:
            a, b = (int(rows["file"][row]) for row in (both[0], both[0] + 1))
            all_a, all_b = (every[begins[file] : begins[file + 1]] for file in (a, b))
            ahead_ns = _ahead(all_a, all_b, rows[both], rows[both + 1])
            if ahead_ns is not None:
                yield _Link(a, b, ahead_ns, len(both))


def _ahead(all_a: Array, all_b: Array, a: Array, b: Array) -> int | None:
    """Return how far the clock of B is ahead, by the segments that both have; None where it is no evidence of one."""
    connections, which = np.unique(a["connection"], return_inverse=True)
    there, back = np.bincount(which, ~a["turned"]), np.bincount(which, a["turned"])
    both_ways = (np.minimum(there, back) > 0) & (there + back >= _LEAST)
    best = int(np.lexsort((there + back, both_ways))[-1])
    a, b = a[which == best], b[which == best]
    needed = []
    for every, both in ((all_a, a), (all_b, b)):
        mine = every[every["connection"] == connections[best]]["ts_ns"]
        between = np.count_nonzero((mine >= both["ts_ns"].min()) & (mine <= both["ts_ns"].max()))
        needed.append(max(len(mine) / _HUNDREDTH, between / _HALF))
    if len(a) < max(_LEAST, min(needed)):
        return None
    later = b["ts_ns"] - a["ts_ns"]
    ways = differences(later[~a["turned"]]), differences(later[a["turned"]])
    found = clock(*ways)
    if found is not None:
        return found.offset
    return next(way.p50 for way in ways if way is not None)
