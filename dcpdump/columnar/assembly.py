"""Assembly: a stretch of packets in, the bytes out that they bring to each direction, in order.

Segments that continue their stream are taken many at once. Where one does not (it comes late, or again, or after a
hole), its connection alone goes packet by packet where something is to be decided; the others do not notice.
"""

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

import numpy as np

from dcpdump.columnar.block import Block
from dcpdump.columnar.flows import FlowRun, Place, RunConnections
from dcpdump.columnar.plan import Array
from dcpdump.net.connections import Delivery
from dcpdump.net.event import Bytes
from dcpdump.net.flow import Connection
from dcpdump.net.seqnum import MASK
from dcpdump.net.tcp import ACK


class Brought(NamedTuple):
    """The next bytes of one direction, in pieces. ``rows``: the packet of the block that made each known."""

    place: Place
    rows: list[int]
    pieces: list[bytes | memoryview]

    def before(self, row: int) -> "Brought":
        """It leaves out what the packet ``row`` and those behind it brought."""
        count = bisect_left(self.rows, row)
        return Brought(self.place, self.rows[:count], self.pieces[:count])

    def after(self, count: int) -> "Brought":
        """It leaves out the first ``count`` pieces."""
        place = self.place._replace(offset=self.place.offset + sum(map(len, self.pieces[:count])))
        return Brought(place, self.rows[count:], self.pieces[count:])


class Assembled(NamedTuple):
    """What came of a stretch: what was brought by the packets before ``stop``, and then what else was told."""

    brought: list[Brought]
    told: list[Delivery]
    stop: int


def chained(flow: Array, seq: Array, size: Array) -> Array:
    """It says which packets continue the one before them of the same flow; those without payload always do."""
    loaded = np.flatnonzero(size > 0)
    loaded = loaded[np.argsort(flow[loaded], kind="stable")]
    follows = flow[loaded][1:] == flow[loaded][:-1]
    meets = (seq[loaded][:-1] + size[loaded][:-1]) & MASK == seq[loaded][1:]
    found = np.ones(len(flow), bool)
    found[loaded[1:]] = ~follows | meets
    return found


def assemble(runs: RunConnections, block: Block, chain: Array, at: int, stop: int) -> Assembled:
    """It takes packets ``at`` … ``stop``-1, or as many of the first as it can; all of them plain, and no control.

    ``chain`` is what ``chained`` says of the block. Nothing is taken where the first packet is of no connection
    that is known, or where something else is due before it.
    """
    deadline = runs.deadline()
    stop = _due(block, deadline, at, stop)
    exchanges, stop = _exchanges(runs, block, chain, at, stop)
    queue = [(row, number) for number, each in enumerate(exchanges) if (row := each.trouble(at)) < stop]
    heapify(queue)
    told: list[Delivery] = []
    single = 0
    while queue and queue[0][0] < stop:
        row, number = heappop(queue)
        exchange = exchanges[number]
        exchange.take(row)
        single += 1
        deliveries = runs.feed(block.packets[row])
        if not exchange.keep(row, deliveries):
            told, stop = deliveries, row + 1
            break
        before, deadline = deadline, runs.deadline()
        if deadline != before:
            stop = _due(block, deadline, row + 1, stop)
        heappush(queue, (exchange.trouble(row + 1), number))
    for exchange in exchanges:
        exchange.take(stop)
    used = sorted((exchange for exchange in exchanges if exchange.last >= 0), key=lambda each: each.last)
    if stop > at:
        latest = [exchange.connection for exchange in used]
        told += runs.count(stop - at - single, latest, block.seen(stop - 1))
    return Assembled([each for exchange in exchanges for each in exchange.brought()], told, stop)


def _due(block: Block, deadline: int | None, at: int, stop: int) -> int:
    """It gives the first packet at whose time something is due; ``stop`` where there is none before it."""
    if deadline is None:
        return stop
    late = np.flatnonzero(block.ts_ns[at:stop] >= deadline)
    return at + int(late[0]) if len(late) else stop


def _exchanges(runs: RunConnections, block: Block, chain: Array, at: int, stop: int) -> "tuple[list[_Exchange], int]":
    """It sorts packets by connection, up to the first of a connection that is not known."""
    facts = block.facts
    flow = facts.flow[at:stop]
    order = np.argsort(flow, kind="stable")
    edges = np.flatnonzero(np.diff(flow[order])) + 1
    exchanges: dict[int, _Exchange] = {}
    for rows in np.split(order + at, edges) if len(order) else ():
        key = facts.keys[int(facts.flow[rows[0]])]
        connection = runs.connection(key)
        if connection is None:
            stop = min(stop, int(rows[0]))
            continue
        exchange = exchanges.get(connection.number)
        if exchange is None:
            exchange = exchanges[connection.number] = _Exchange(runs, block, connection)
        exchange.ways.append(_Way(block, chain, key, rows))
    return list(exchanges.values()), stop


class _Way:
    """The packets of one direction in a stretch, and how many of them were taken."""

    __slots__ = ("at", "breaks", "ends", "key", "load", "loaded", "rows", "starts")

    def __init__(self, block: Block, chain: Array, key: bytes, rows: Array) -> None:
        facts = block.facts
        loaded = rows[facts.size[rows] > 0]
        self.key = key
        self.rows: list[int] = rows.tolist()
        self.loaded: list[int] = loaded.tolist()
        self.starts: list[int] = facts.start[loaded].tolist()
        self.ends: list[int] = (facts.start[loaded] + facts.size[loaded]).tolist()
        self.breaks: list[int] = loaded[~chain[loaded]].tolist()
        self.at = 0  #: packets
        self.load = 0  #: those with payload


class _Exchange:
    """The packets of one connection in a stretch."""

    def __init__(self, runs: RunConnections, block: Block, connection: Connection) -> None:
        self.connection = connection
        self.ways: list[_Way] = []
        self.last = -1  #: the last packet that was taken
        self._runs = runs
        self._block = block
        self._brought: dict[int, Brought] = {}  # by direction

    def trouble(self, row: int) -> int:
        """It gives the first packet, from ``row`` on, that may not simply continue its stream."""
        never = first = len(self._block.ts_ns)
        for way in self.ways:
            at = bisect_left(way.rows, row, way.at)
            if at == len(way.rows):
                continue
            if not self._runs.calm(way.key):
                first = min(first, self._telling(way, at, never))
            load = bisect_left(way.loaded, row, way.load)
            if load < len(way.loaded):
                first = min(first, self._breaking(way, load, never))
        return first

    def _telling(self, way: "_Way", at: int, never: int) -> int:
        """It gives the first packet of a way, from the place ``at`` on, that tells the other one something."""
        hold = self._runs.hold(way.key, other=True)
        if hold is None:
            return way.rows[at]
        facts, rows = self._block.facts, np.array(way.rows[at:])
        ahead = (facts.ack[rows] - hold.ack) & MASK
        telling = rows[(facts.flags[rows] & ACK != 0) & (ahead <= MASK // 2)]
        return int(telling[0]) if len(telling) else never

    def _breaking(self, way: "_Way", load: int, never: int) -> int:
        """It gives the first packet of a way, from the payload ``load`` on, that does not simply go on with it."""
        following = way.loaded[load]
        seq = int(self._block.facts.seq[following])
        if self._runs.expects(way.key, seq):
            return next(iter(way.breaks[bisect_left(way.breaks, following + 1) :]), never)
        hold = self._runs.hold(way.key)
        if hold is None or hold.seq != seq:
            return following
        stop = bisect_left(way.loaded, next(iter(way.breaks[bisect_left(way.breaks, following + 1) :]), never), load)
        stop = min(stop, load + hold.segments)
        sizes = np.array(way.ends[load:stop]) - np.array(way.starts[load:stop])
        stop = load + int(np.searchsorted(np.cumsum(sizes), hold.room, "right"))
        return way.loaded[stop] if stop < len(way.loaded) else never

    def take(self, row: int) -> None:
        """It takes the packets before ``row`` that are left: they continue their streams."""
        facts, data = self._block.facts, memoryview(self._block.data)
        for way in self.ways:
            stop = bisect_left(way.rows, row, way.at)
            if stop == way.at:
                continue
            load = bisect_left(way.loaded, row, way.load)
            loaded, mine = way.loaded[way.load : load], slice(way.load, load)
            acking = (each for each in reversed(way.rows[way.at : stop]) if facts.flags[each] & ACK)
            acked = list(islice(acking, 1) if self._runs.calm(way.key) else acking)
            pieces: list[bytes | memoryview] = [
                data[start:end] for start, end in zip(way.starts[mine], way.ends[mine], strict=True)
            ]
            if loaded and self._runs.delivers(way.key):
                self._bring(self._runs.place(way.key), loaded, pieces)
            self._runs.advance(FlowRun(way.key, loaded, pieces, self._block, facts.ack[acked[::-1]].tolist()))
            self.last = max(self.last, way.rows[stop - 1])
            way.at, way.load = stop, load

    def keep(self, row: int, deliveries: Sequence[Delivery]) -> bool:
        """It keeps what a packet told that was fed by itself, if that is only bytes of one direction, seen in it.

        If it is anything else, that has to be told to others in its place.
        """
        self.last = row
        for way in self.ways:
            way.at = bisect_left(way.rows, row + 1, way.at)
            way.load = bisect_left(way.loaded, row + 1, way.load)
        seen, pieces = self._block.seen(row), []
        place: Place | None = None
        for connection, direction, event in deliveries:
            if not isinstance(event, Bytes) or event.seen[:3] != seen[:3] or connection is not self.connection:
                return False
            if place is None:
                place = Place(connection, direction, event.joined_late, event.offset)
            elif place.direction != direction:
                return False
            pieces.append(event.data)
        if place is not None:
            self._bring(place, [row] * len(pieces), pieces)
        return True

    def brought(self) -> list[Brought]:
        """It gives what was brought to each direction."""
        return list(self._brought.values())

    def _bring(self, place: Place, rows: list[int], pieces: Sequence[bytes | memoryview]) -> None:
        brought = self._brought.setdefault(place.direction, Brought(place, [], []))
        brought.rows.extend(rows)
        brought.pieces.extend(pieces)
