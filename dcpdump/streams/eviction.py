"""Choose streams and connections that have ended and may be forgotten, so that memory is bounded.

The longest silent ones come first. A stream that was requested in place of another is never forgotten before that one,
so that no kept stream seems abandoned. The latest ones are always kept.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from dcpdump.net.limits import CONNECTION, LEAST, LIVING, STREAM
from dcpdump.spec.statuses import ROLLBACK
from dcpdump.startup import dataclass, field
from dcpdump.streams.dissection import Ended, EndsWatching
from dcpdump.streams.frame_event import NOTHING_MISSED, Missed
from dcpdump.streams.identity import NAMELESS, replicates
from dcpdump.streams.knowledge import ANY_TIME
from dcpdump.streams.ledger import Ledger, compare, conclude
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge

#: Connections are examined again when their number exceeds the limit by this share.
_LOOKS = 8
#: The share of the memory that is freed at a time, since each examination costs a few steps for each stream.
_FREED = 4


class Evictable(NamedTuple):
    """Streams and connections that may be forgotten."""

    streams: list[Stream]
    connections: list[ConnectionState]  #: without a stream, once these are evicted
    ended: list[Ended]  #: of connections of these that were reset, which the ledger does not know yet


class Eviction:
    """The choice of the streams and connections that a ledger forgets."""

    def __init__(self, dissection: EndsWatching[Any], ledger: Ledger) -> None:
        self._dissection, self._ledger = dissection, ledger
        self._most, self._state = dissection.most_connections, dissection.most_state
        self._most_open = self._most  # connections at the same time: fewer where each has many streams
        self._crowded, self._full = self._most, self._state  # beyond so much some may be evicted
        self._resets: dict[int, Ended] = {}  # by connection: those of which nothing came since

    @property
    def due(self) -> bool:
        """Return whether the ledger exceeds its limit."""
        return len(self._ledger.connections) > self._crowded or self._size > self._full

    @property
    def _size(self) -> int:
        """Return the memory that connections and streams may take."""
        connections = len(self._ledger.connections)
        unknown = max(0, self._dissection.living - connections)  # to the ledger, any more or not yet
        return connections * CONNECTION + unknown * LIVING + len(self._ledger.streams) * STREAM

    def choose(self) -> Evictable:
        """Return connections and streams to forget."""
        ledger, chosen = self._ledger, Evictable([], [], [])
        size = self._size
        self._resets = {
            each.connection: each
            for each in self._dissection.resets(ANY_TIME)
            if (known := ledger.connections.get(each.connection)) is not None
            and (known.last_ns or 0) <= (each.ts_ns or 0)
        }
        crowd = len(ledger.connections) - self._most
        for connection in self._idle():
            if size <= self._state and len(chosen.connections) >= crowd:
                break
            chosen.connections.append(connection)
            size -= self._freed_by(connection)
        if size > self._state:
            size = self._choose_streams(chosen, size)
            if size > self._state:
                self._close_some(size)
        self._crowded = max(self._most, len(ledger.connections) - len(chosen.connections) + self._most // _LOOKS)
        self._full = max(self._state, size + self._state // _LOOKS)
        numbers = {each.number for each in chosen.connections} | {each.connection.number for each in chosen.streams}
        chosen.ended.extend(each for number, each in self._resets.items() if number in numbers)
        return chosen

    def _idle(self) -> Iterator[ConnectionState]:
        """Yield the ended connections without a stream, in the order in which they began."""
        connections = list(self._ledger.connections.values())
        for at, connection in enumerate(connections):
            old = at < len(connections) - LEAST
            if not connection.streams and (self._ends(connection) if old else self._is_over(connection)):
                yield connection

    def _choose_streams(self, chosen: Evictable, size: int) -> int:
        """Choose streams, and the connections that have no others, and return how much is left then."""
        left = Counter[ConnectionState]()
        goal = self._state - self._state // _FREED
        for stream in _silent(self._ledger.streams):
            if size <= goal:
                break
            connection = stream.connection
            ends = self._ends(connection)
            if not ends and not _is_over(stream):
                continue
            chosen.streams.append(stream)
            size -= STREAM
            left[connection] += 1
            if ends and left[connection] == len(connection.streams):
                chosen.connections.append(connection)
                size -= self._freed_by(connection)
        return size

    def _close_some(self, size: int) -> None:
        """Have open connections closed, where evicting those that are over is not enough."""
        fitting = self._dissection.living * self._state // size
        self._most_open = max(LEAST, min(self._most_open, fitting))
        self._dissection.remember(self._most_open)

    def _freed_by(self, connection: ConnectionState) -> int:
        return CONNECTION if self._is_over(connection) else CONNECTION - LIVING

    def _ends(self, connection: ConnectionState) -> bool:
        """Return whether a connection has ended, as far as its packets show; frames may still be on their way."""
        ends = connection.end.by is not None or connection.number in self._resets
        return ends or self._is_over(connection)

    def _is_over(self, connection: ConnectionState) -> bool:
        """Return whether no frame of a connection can come any more."""
        return self._dissection.is_over(connection.number)


def _silent(streams: Sequence[Stream]) -> list[Stream]:
    """Return the streams that have been silent since before the latest ones began, silent for longest first."""
    since = min(map(_latest, streams[-LEAST:]), default=0)
    return sorted((each for each in streams[:-LEAST] if _latest(each) < since), key=_latest)


def _latest(stream: Stream) -> int:
    """Return the number of the latest frame of a stream."""
    request = stream.request
    return max(stream.traffic.last_frame, 0 if request is None else request.answer_frame or request.frame)


def _is_over(stream: Stream) -> bool:
    """Return whether nothing more is to be expected of a stream on an open connection, unless it is requested again."""
    if stream.ended or stream.replaced or stream.next is not None:
        return True
    if not stream.waits:
        return False
    request = stream.requests[-1]
    return request.status is not None or not stream.connection.exchanges.awaits(request)


def evict_streams(ledger: Ledger, streams: Sequence[Stream]) -> None:
    """Forget streams. A later request in their place begins a new one."""
    gone = set(streams)
    for connection in {stream.connection for stream in streams}:
        before = len(connection.streams)
        connection.replicates = replicates(connection)
        connection.streams = [each for each in connection.streams if each not in gone]
        connection.evicted += before - len(connection.streams)
        for key in [key for key, each in connection.lookup.current.items() if each in gone]:
            del connection.lookup.current[key]
        for opaque in [opaque for opaque, each in connection.lookup.by_opaque.items() if each in gone]:
            del connection.lookup.by_opaque[opaque]
        for each in connection.lookup.current.values():
            if each.duplicate in gone:
                each.duplicate = None
    for stream in streams:
        producing = stream.connection.setup.bucket or "", stream.vbucket
        if ledger.memory.producing.get(producing) is stream:
            del ledger.memory.producing[producing]
        _unlink(stream)
    ledger.streams = [each for each in ledger.streams if each not in gone]
    ledger.evicted_streams += len(gone)


def _unlink(stream: Stream) -> None:
    """Have a stream keep neither keys nor other streams in memory."""
    stream.forget_keys()
    stream.before = stream.next = stream.duplicate = None
    for request in stream.requests:
        request.still_open = None


# -- verdicts on streams that are about to be evicted, before the input ends --------------------------


@contextmanager
def judging_early(ledger: Ledger, streams: Sequence[Stream]) -> Iterator[Judge]:
    """Provide a judge of streams that are over. What connections say of one another is compared only meanwhile."""
    by_connection: dict[ConnectionState, list[Stream]] = {}
    for stream in streams:
        by_connection.setdefault(stream.connection, []).append(stream)
    for connection, mine in by_connection.items():
        conclude(connection, mine)
    connections = ledger.connections.values()
    compare(connections, ledger.logs)
    try:
        yield Judge(ledger, early=True)
    finally:
        for connection in connections:
            connection.identity, connection.inferred = NAMELESS, None


@dataclass(slots=True)
class EvictedStreams:
    """The counts that are kept of forgotten streams, and of their connections."""

    kinds: Counter[str] = field(default_factory=Counter)  #: how many there were by the kinds of their verdicts
    troubled: Counter[str] = field(default_factory=Counter)  #: those in trouble
    rollbacks: int = 0
    connections: int = 0  #: that are evicted too
    missed: Missed = NOTHING_MISSED  #: what of these is in no frame
    by_connection: dict[int, Counter[str]] = field(default_factory=dict)  #: the kinds of those whose connection is not

    @property
    def streams(self) -> int:
        """How many streams there were."""
        return self.kinds.total()

    def evict(self, connection: ConnectionState) -> None:
        """Count a connection that is forgotten after its streams."""
        self.connections += 1
        self.missed = self.missed.plus(connection.missing)
        self.by_connection.pop(connection.number, None)

    def add(self, streams: Sequence[Stream], judge: Judge) -> None:
        """Count streams that are about to be forgotten."""
        for stream in streams:
            verdict = judge.verdict(stream)
            self.kinds[verdict.kind.value] += 1
            self.by_connection.setdefault(stream.connection.number, Counter())[verdict.kind.value] += 1
            self.troubled[verdict.kind.value] += verdict.trouble
            self.rollbacks += stream.requests.count(ROLLBACK)
