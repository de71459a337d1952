"""What servers said of their vbuckets: failover logs, high seqnos, purge seqnos; and how far consumers lag behind.

It is kept as connections brought it, with frame and time, and asked for by server. Which end of a connection is the
server may be known only after it spoke, so servers (address and port) and buckets are resolved when the input is
closed. Where the bucket of a connection was not captured, only what cannot be of another bucket counts: what came on
that very connection, or on others to the same server whose bucket was not captured either.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dcpdump.spec.names import DISK_ONLY, TO_LATEST
from dcpdump.spec.statuses import ROLLBACK
from dcpdump.startup import dataclass, field
from dcpdump.streams.exchanges import UnansweredRequest
from dcpdump.streams.frame_event import NEVER, Entry, FrameEvent, failover_log
from dcpdump.streams.opcode_kinds import ALL_SEQNOS, MARKER, STREAM_REQ
from dcpdump.streams.request import number_of
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import whole_number

if TYPE_CHECKING:
    from dcpdump.streams.ledger import Ledger


#: So many of a kind are kept for a vbucket of a connection, the latest; fewer where all are too many. Then what the
#: connections brought is forgotten that came first.
_KEPT = 32
#: Facts of all connections, with the entries of logs.
_MOST = 1 << 18
#: High seqnos of single collections are kept up to so many of a connection, the latest of each.
_COLLECTIONS = 16 * 1024
#: How STAT vbucket-seqno and vbucket-details call the high seqno of a vbucket: vb_12:high_seqno.
_STAT_BEGIN, _STAT_END = b"vb_", b":high_seqno"
_VBUCKET_DIGITS, _DIGITS = 5, 20

#: What a high seqno is of, where it is not the number of a collection: of the whole vbucket; of what a client without
#: collections sees of the default one; of either of these, as the HELLO of its connection was not captured.
WHOLE, VISIBLE, EITHER = -1, -2, -3

#: When a frame came: of two, the earlier is the smaller.
Moment = tuple[int, int]


def moment(ts_ns: int | None, frame: int) -> Moment:
    """Return when a frame came, by its time; frames of one time follow one another by their numbers."""
    return ts_ns or 0, frame


class Log(NamedTuple):
    """A failover log of a vbucket, newest entry first, and the frame that brought it. No entries: it was cut."""

    frame: int
    entries: tuple[Entry, ...]
    ts_ns: int | None = None


class High(NamedTuple):
    """A seqno that a vbucket has reached: the high seqno that the server reported, or what shows one at least."""

    seqno: int
    ts_ns: int | None = None
    opcode: int | None = None  #: of the answer, or the marker; None: of documents
    frame: int = 0  #: of an answer, as what follows
    connection: int = 0  #: the number of the one that brought it
    what: int = WHOLE  #: whose high seqno it is: the number of a collection, WHOLE, VISIBLE or EITHER


class Purge(NamedTuple):
    """A purge seqno that a snapshot marker brought, and when its stream was granted, where that was captured."""

    frame: int
    seqno: int
    ts_ns: int | None = None
    granted: Moment | None = None


def shared_data(connection: ConnectionState) -> tuple[str, str] | None:
    """Return the server and bucket of a connection, where what others bring of these holds for it; else None."""
    address, bucket = connection.server_address, connection.setup.bucket
    return None if address is None or bucket is None or connection.role == "consumer" else (address, bucket)


Fact = TypeVar("Fact", Log, High, Purge)


@dataclass(slots=True)
class _Facts:
    """What is known of the vbuckets of one place, oldest first."""

    logs: dict[int, list[Log]] = field(default_factory=dict)
    highs: dict[int, list[High]] = field(default_factory=dict)
    purges: dict[int, list[Purge]] = field(default_factory=dict)
    collections: dict[tuple[int, int], High] = field(default_factory=dict)  #: by vbucket and collection: the latest

    @property
    def weight(self) -> int:
        """How many facts there are, with the entries of logs."""
        every = (fact for of in (self.logs, self.highs, self.purges) for kept in of.values() for fact in kept)
        return len(self.collections) + sum(map(_weight, every))

    def keep(self, most: int) -> None:
        """Forget all but the latest of each kind and vbucket."""
        for of in (self.logs, self.highs, self.purges):
            for kept in of.values():
                del kept[:-most]

    @classmethod
    def merged(cls, members: Sequence["_Facts"]) -> "_Facts":
        """Return what several connections to one place brought, in the order of time."""
        return cls(
            _merged([each.logs for each in members]),
            _merged([each.highs for each in members]),
            _merged([each.purges for each in members]),
            dict(
                sorted((item for each in members for item in each.collections.items()), key=lambda item: _when(item[1]))
            ),
        )


class Logs:
    """Learn from frames as they come; ``close`` before you ask."""

    def __init__(self) -> None:
        self._by_connection: defaultdict[ConnectionState, _Facts] = defaultdict(_Facts)
        self._kept, self._weight = _KEPT, 0
        self._reported: set[tuple[int, int]] | None = None  #: vbuckets and their high seqnos, once that is requested
        self._members: dict[ConnectionState, list[_Facts]] = {}  #: of the place of a connection
        self._merged: dict[int, _Facts] = {}  #: by identity of a list of members

    # -- learning ----------------------------------------------------------------------------------------

    def learn_log(self, connection: ConnectionState, vbucket: int, frame: FrameEvent) -> None:
        """Keep the failover log of an answer, if it has one.

        One that was cut is kept without entries: what it lacks is unknown, and earlier logs may no longer hold.
        """
        incomplete = not frame.complete
        entries = () if incomplete or frame.status else tuple(failover_log(frame))
        if entries or (incomplete and not frame.status):
            kept = self._by_connection[connection].logs.setdefault(vbucket, [])
            self._keep(kept, Log(frame.number, entries, frame.ts_ns))

    def learn_highs(self, connection: ConnectionState, frame: FrameEvent, waiting: UnansweredRequest | None) -> None:
        """Keep the high seqnos of an answer to GET_ALL_VB_SEQNOS or OBSERVE_SEQNO; only a server answers these.

        The first are of what the client sees: of the default collection, if it has no collections (ep_engine.cc,
        getAllVBucketSequenceNumbers).
        """
        record = frame.record
        if record is None or frame.status or (waiting is None and frame.opcode == ALL_SEQNOS):
            return
        facts = self._by_connection[connection]
        vbucket, current = record.frame.get("observed_vbucket"), record.frame.get("current_seqno")
        if vbucket is not None and current is not None:
            self._learn_high(connection, vbucket, frame, current)
        seen = {True: WHOLE, False: VISIBLE, None: EITHER}[connection.setup.has_collections]
        collection = int(waiting.value) if waiting is not None and waiting.value else None
        for each in record.frame.fields:
            if each.group != "seqnos" or not isinstance(each.value, int):
                continue
            if each.field.name == "vbucket":
                vbucket = each.value
            elif vbucket is not None and collection is None:
                self._learn_high(connection, vbucket, frame, each.value, seen)
            elif vbucket is not None and collection is not None:
                self._weight += facts.collections.pop((vbucket, collection), None) is None  # the next is the youngest
                facts.collections[vbucket, collection] = _high(connection, frame, each.value, collection)
                if len(facts.collections) > _COLLECTIONS:
                    del facts.collections[next(iter(facts.collections))]
                    self._weight -= 1

    def learn_stat(self, connection: ConnectionState, frame: FrameEvent) -> None:
        """Keep the high seqno of a vbucket that an answer to STAT brings, if it does."""
        key = frame.key
        if key.startswith(_STAT_BEGIN) and key.endswith(_STAT_END) and not frame.status and frame.complete:
            vbucket, text = key[len(_STAT_BEGIN) : -len(_STAT_END)], frame.value[: _DIGITS + 1].decode("latin-1")
            seqno = whole_number(text)
            if vbucket.isdigit() and len(vbucket) <= _VBUCKET_DIGITS and seqno is not None and seqno <= NEVER:
                self._learn_high(connection, int(vbucket), frame, seqno)

    def _learn_high(
        self, connection: ConnectionState, vbucket: int, frame: FrameEvent, seqno: int, what: int = WHOLE
    ) -> None:
        kept = self._by_connection[connection].highs.setdefault(vbucket, [])
        self._keep(kept, _high(connection, frame, seqno, what))

    def learn_purge(self, stream: Stream, frame: FrameEvent) -> None:
        """Keep the purge seqno of a snapshot marker. A 0 may mean that none was sent."""
        seqno = frame.get("purge_seqno")
        if seqno:
            granted = stream.granted_frame
            when = None if granted is None else moment(stream.granted_ns, granted)
            kept = self._by_connection[stream.connection].purges.setdefault(stream.vbucket, [])
            self._keep(kept, Purge(frame.number, seqno, frame.ts_ns, when))

    def forget(self, connection: ConnectionState) -> None:
        """Forget what a connection brought."""
        facts = self._by_connection.pop(connection, None)
        self._weight -= 0 if facts is None else facts.weight
        self._members.pop(connection, None)

    def _keep(self, kept: list[Fact], fact: Fact) -> None:
        """Add a fact; of those in a row that say the same, only the first and the last stay."""
        if len(kept) > 1 and _says(fact) == _says(kept[-1]) == _says(kept[-2]):
            kept[-1] = fact
            return
        kept.append(fact)
        self._weight += _weight(fact)
        if len(kept) > self._kept:
            self._weight -= sum(map(_weight, kept[: -self._kept]))
            del kept[: -self._kept]
        if self._weight > _MOST:
            self._make_room()

    def _make_room(self) -> None:
        """Keep fewer logs for each vbucket, then for fewer connections, until at most half of the limit is used."""
        every = self._by_connection
        self._weight = sum(each.weight for each in every.values())
        while self._kept > 1 and self._weight > _MOST // 2:
            self._kept //= 2
            for facts in every.values():
                facts.keep(self._kept)
            self._weight = sum(each.weight for each in every.values())
        for connection in list(every):
            if self._weight <= _MOST // 2:
                break
            self.forget(connection)

    def close(self, connections: Iterable[ConnectionState]) -> None:
        """Resolve which connections lead to one bucket of one server, as far as that is known by now.

        Where the server is the consumer, a proxy brings what another server said: that is of this connection alone.
        """
        owners: dict[Hashable, list[_Facts]] = {}
        self._members.clear()
        self._merged.clear()
        self._reported = None
        for connection in connections:
            address = connection.server_address
            alone = address is None or connection.role == "consumer"
            owner: Hashable = connection if alone else (address, connection.setup.bucket)
            members = self._members[connection] = owners.setdefault(owner, [])
            facts = self._by_connection.get(connection)
            if facts is not None:
                members.append(facts)

    # -- asking ------------------------------------------------------------------------------------------

    def logs(self, connection: ConnectionState, vbucket: int) -> Sequence[Log]:
        """Return the failover logs of a vbucket of a connection's server and bucket, oldest first."""
        return self._of(connection).logs.get(vbucket, ())

    def around(self, connection: ConnectionState, vbucket: int, when: Moment) -> tuple[Log | None, Log | None]:
        """Return the newest failover log up to a moment, and the first that was captured after it."""
        known = self.logs(connection, vbucket)
        at = bisect_right(known, when, key=_when)
        return known[at - 1] if at else None, known[at] if at < len(known) else None

    def highs(self, connection: ConnectionState, vbucket: int) -> Sequence[High]:
        """Return the high seqnos of a vbucket that the server reported, oldest first."""
        return self._of(connection).highs.get(vbucket, ())

    def collection_high(self, connection: ConnectionState, vbucket: int, collection: int) -> High | None:
        """Return the latest high seqno of a collection in a vbucket that the server reported."""
        return self._of(connection).collections.get((vbucket, collection))

    def reports(self, vbucket: int, seqno: int) -> bool:
        """Return whether any server reported a seqno as the high seqno of a vbucket."""
        if self._reported is None:
            every = (item for facts in self._by_connection.values() for item in facts.highs.items())
            self._reported = {(number, high.seqno) for number, highs in every for high in highs}
        return (vbucket, seqno) in self._reported

    def reached(self, connection: ConnectionState, vbucket: int, when: Moment, uuid: int) -> int:
        """Return the seqno that a vbucket had surely reached at a moment, on the branch of the newest uuid."""
        highs = self.highs(connection, vbucket)
        at = bisect_right(highs, when, key=_when)
        if not at:
            return 0
        log, _ = self.around(connection, vbucket, _when(highs[at - 1]))
        return highs[at - 1].seqno if log is not None and log.entries and log.entries[0].uuid == uuid else 0

    def purged(self, connection: ConnectionState, vbucket: int, asked: Moment, answered: Moment) -> "Purged":
        """Return the bounds of a vbucket's purge seqno when a request was answered.

        It only rises: what a marker brought before is at most what it was. What a stream that was granted later
        brought is at least that; the backfill of an earlier stream may have opened its file before.
        """
        known = self._of(connection).purges.get(vbucket, ())
        at = bisect_right(known, asked, key=_when)
        least = known[at - 1] if at else None
        later = (known[each] for each in range(at, len(known)))
        most = next((each for each in later if each.granted is not None and each.granted > answered), None)
        if least is not None and most is not None and least.seqno > most.seqno:
            return Purged(None, None)  # it fell: the vbucket was made anew in between
        return Purged(least, most)

    def _of(self, connection: ConnectionState) -> _Facts:
        members = self._members.get(connection, [])
        if len(members) == 1:
            return members[0]
        merged = self._merged.get(id(members)) if members else _NOTHING
        if merged is None:
            merged = self._merged[id(members)] = _Facts.merged(members)
        return merged


class Purged(NamedTuple):
    """The purge seqno of a vbucket at some moment was not below ``least`` and not above ``most``; None: not known."""

    least: Purge | None
    most: Purge | None


_NOTHING = _Facts()


def _high(connection: ConnectionState, frame: FrameEvent, seqno: int, what: int) -> High:
    return High(seqno, frame.ts_ns, frame.opcode, frame.number, connection.number, what)


def _weight(fact: Log | High | Purge) -> int:
    return 1 + len(fact.entries) if isinstance(fact, Log) else 1


def _when(fact: Log | High | Purge) -> Moment:
    return moment(fact.ts_ns, fact.frame)


def _says(fact: Log | High | Purge) -> object:
    if isinstance(fact, High):
        return fact.seqno, fact.opcode, fact.what
    return fact.entries if isinstance(fact, Log) else fact.seqno


def _merged(several: Sequence[dict[int, list[Fact]]]) -> dict[int, list[Fact]]:
    together: defaultdict[int, list[Fact]] = defaultdict(list)
    for facts in several:
        for vbucket, kept in facts.items():
            together[vbucket] += kept
    for kept in together.values():
        kept.sort(key=_when)
    return together


# -- lag: how many seqnos of those that the server is known to have had were not sent to a consumer yet
# The server's high seqno of a vbucket is known exactly where the server said it: in answers to GET_ALL_VB_SEQNOS,
# OBSERVE_SEQNO and STAT, on any connection to the same server and bucket. All else shows only what it has at least:
# snapshot markers, the failover log, what other consumers were sent. What was said before a failover, or before the
# client was rolled back, is of no use: the server may have had more then than it has now.

_seqno = attrgetter("seqno")
#: Of a vbucket's reported seqnos, the latest that are looked at.
_LOOKED_AT = 64
#: Server and bucket, vbucket, uuid of the branch, and what seqnos are of.
_HighKey = tuple[tuple[str, str], int, int | None, int]


class Lag(NamedTuple):
    """How far a consumer is behind, and the high seqno by which that is known."""

    seqnos: int | None = None  #: None: not known
    exact: bool = False  #: False: ``seqnos`` is the least that it can be
    high: int | None = None  #: what the server had; where that is not exact, at least
    high_ns: int | None = None  #: when that was said
    opcode: int | None = None  #: by which message; None: by documents

    @property
    def rank(self) -> int | None:
        """Return what lags are sorted by, the worst first; None where it is not known."""
        return None if self.seqnos is None else -self.seqnos


class _Wanted(NamedTuple):
    """What a stream is to bring."""

    what: int  #: of a collection, by its number; WHOLE, VISIBLE or EITHER
    part: bool  #: it may bring less than all of that
    end: int  #: it ends there; NEVER: it does not


class Lags:
    """The lags of the streams of a ledger that is closed. Each question costs a few steps."""

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger, self._logs = ledger, ledger.logs
        self._shared = cache(shared_data)
        self._changes: dict[int, list[Moment]] = {}  #: of branches, by identity of a vbucket's logs

    def of(self, stream: Stream) -> Lag | None:
        """Return how far the consumer of a stream is behind; None where it was never opened, or another follows it."""
        if not stream.is_sending or stream.replaced or stream.next is not None:
            return None
        wanted, position = _wanted(stream), stream.position
        ceiling, floor, exact = self._reported(stream, wanted)
        said = Lag() if ceiling is None else Lag(None, False, *ceiling[:3])
        if position is None:
            return said
        if position >= wanted.end:
            return said._replace(seqnos=0, exact=True)
        bound = max(self._floors(stream, wanted, floor), key=_seqno, default=High(0))
        least = max(bound.seqno, position)
        # of a collection: the stream was beyond its last change when that was reported
        passed = exact is not None and exact.what >= 0 and _time(exact) >= (stream.seqnos.last_ns or 0)
        if exact is not None and (exact.seqno >= least or (least == position and passed)):
            return Lag(max(0, min(exact.seqno, wanted.end) - position), True, *exact[:3])
        if ceiling is not None and ceiling.seqno == least == position:
            return said._replace(seqnos=0, exact=True)
        return Lag(min(least, wanted.end) - position, False, *bound[:3]) if least > position else said

    def _reported(self, stream: Stream, wanted: _Wanted) -> tuple[High | None, High | None, High | None]:
        """Return the latest high seqnos that the server reported: below which the stream is to stay, to bring, both."""
        ceiling = floor = None
        for high in self._holding(stream, wanted):
            # When it was reported, the stream was to bring nothing above it; all up to it.
            here = wanted.what != EITHER or high.connection == stream.connection.number
            is_same = high.what == wanted.what and here
            is_ceiling, is_floor = is_same or high.what == WHOLE, is_same or wanted.what == WHOLE
            is_floor &= not wanted.part
            if is_ceiling:
                ceiling = ceiling or high
            if is_floor:
                floor = floor or high
            if is_ceiling and is_floor:
                return ceiling, floor, high
        return ceiling, floor, None

    def _holding(self, stream: Stream, wanted: _Wanted) -> Iterator[High]:
        """Yield the high seqnos that the server reported and that hold, that of a collection, then the latest first."""
        connection = stream.connection
        since, until, alone = self._voided(stream), _over_ns(stream), self._shared(connection) is None
        highs = self._logs.highs(connection, stream.vbucket)
        at = len(highs) if until is None else bisect_right(highs, until, key=_time)
        one = self._logs.collection_high(connection, stream.vbucket, wanted.what)
        several = (highs[each] for each in range(at - 1, max(-1, at - 1 - _LOOKED_AT), -1))
        for high in several if one is None else chain((one,), several):
            if moment(high.ts_ns, high.frame) <= since:
                continue
            if (until is None or _time(high) <= until) and (not alone or high.connection == connection.number):
                yield high

    def _voided(self, stream: Stream) -> Moment:
        """Return when the vbucket came to be on another branch, or its client on an earlier one, as far as is known."""
        logs, since = self._logs.logs(stream.connection, stream.vbucket), (0, 0)
        if len(logs) > 1:
            changes = self._changes.get(id(logs))
            if changes is None:
                changes = self._changes[id(logs)] = _changes(logs)
            until = _over_ns(stream)
            at = len(changes) if until is None else bisect_right(changes, (until, NEVER))
            since = changes[at - 1] if at else since
        for request in stream.requests if len(stream.requests) > 1 else ():
            if request.status == ROLLBACK:
                since = max(since, moment(request.answered_ns, request.answer_frame or 0))
            if request.after_omitted:  # one of those before it may have been rolled back
                since = max(since, moment(request.ts_ns, request.frame))
        return since

    def _floors(self, stream: Stream, wanted: _Wanted, reported: High | None) -> Iterator[High]:
        """Yield what a stream is to bring at least, as far as its connection and others show."""
        if stream.marker is not None and not stream.end_may_be_filtered:
            yield High(stream.marker.end, stream.marker.ts_ns, MARKER)
        if stream.failover_log and wanted.what == WHOLE and not wanted.part:
            yield High(max(each.seqno for each in stream.failover_log), stream.granted_ns, STREAM_REQ)
        if reported is not None:
            yield reported
        shared = self._shared(stream.connection)
        if shared is not None and not wanted.part and wanted.what != EITHER and _over_ns(stream) is None:
            other = self._reached.get((shared, stream.vbucket, _branch(stream), wanted.what))
            if other is not None:
                yield other

    @cached_property
    def _reached(self) -> dict[_HighKey, High]:
        """Return what the consumers of vbuckets were sent at most, by branch."""
        out: dict[_HighKey, High] = {}
        streams = self._ledger.streams
        several = Counter(stream.vbucket for stream in streams)
        for stream in streams:
            shared = self._shared(stream.connection) if several[stream.vbucket] > 1 else None
            if shared is None or not stream.is_sending:
                continue
            for what in {WHOLE, _wanted(stream).what} - {EITHER}:
                key = shared, stream.vbucket, _branch(stream), what
                known = _sent(stream, what)
                if known is not None and (key not in out or out[key].seqno < known.seqno):
                    out[key] = known
        return out


def _changes(logs: Sequence[Log]) -> list[Moment]:
    """Return when failover logs began to have another newest branch."""
    known = [log for log in logs if log.entries]
    changed = (log for before, log in pairwise(known) if before.entries[0].uuid != log.entries[0].uuid)
    return [moment(log.ts_ns, log.frame) for log in changed]


def _sent(stream: Stream, what: int) -> High | None:
    """Return the highest seqno that a stream brought or announced of something."""
    marker, high = stream.marker, stream.seqnos.high
    if marker is not None and marker.end >= (high or 0) and (what == WHOLE or not stream.end_may_be_filtered):
        return High(marker.end, marker.ts_ns, MARKER)
    return None if high is None else High(high, stream.seqnos.last_ns, None)


def _wanted(stream: Stream) -> _Wanted:
    """Return what a stream is to bring.

    With durable writes but without collections, it brings more than the server's answers to such a client count.
    """
    connection, request = stream.connection, stream.request
    has = connection.setup.has_collections
    what = WHOLE if has else VISIBLE if has is False and not connection.setup.on("enable_sync_writes") else EITHER
    if request is None or request.flags is None:
        return _Wanted(what, True, NEVER)
    end = request.fixed_end
    part = bool(request.flags & (DISK_ONLY | TO_LATEST))
    if request.filtered:
        alone = has and request.scope is None and request.readable and len(request.collections or ()) == 1
        single = number_of((request.collections or ("",))[0]) if alone else None
        what, part = (what, True) if single is None else (single, part)
    return _Wanted(what, part, NEVER if end is None else end)


def _time(high: High) -> int:
    return high.ts_ns or 0


def _branch(stream: Stream) -> int | None:
    return stream.failover_log[0].uuid if stream.failover_log else None


def _over_ns(stream: Stream) -> int | None:
    """Return when a stream ended, or its connection did; None where it is open."""
    return stream.ended_ns if stream.end is not None else stream.connection.end.ts_ns
