"""Failover logs, high seqnos and purge seqnos of vbuckets: kept as connections brought them, asked for by server.

Which end of a connection is the server may be known only after it spoke, so what came is kept by connection, with
frame and time, and servers (address and port) and buckets are resolved when the input is closed. Where the bucket of
a connection was not captured, only what cannot be of another bucket counts: what came on that very connection, or on
others to the same server whose bucket was not captured either.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import starmap
from typing import NamedTuple, TypeVar

from dcpdump.startup import dataclass, field
from dcpdump.streams.facts import NEVER, Entry, UnansweredRequest
from dcpdump.streams.frame_event import FrameEvent, failover_log
from dcpdump.streams.opcode_kinds import ALL_SEQNOS
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import whole_number

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
    """A high seqno of a vbucket that the server reported."""

    frame: int
    seqno: int
    ts_ns: int | None = None
    opcode: int = ALL_SEQNOS  #: of the answer
    connection: int = 0  #: the number of the one that brought it
    what: int = WHOLE  #: that it is the high seqno of: the number of a collection, WHOLE, VISIBLE or EITHER


class Purge(NamedTuple):
    """A purge seqno that a snapshot marker brought, and when its stream was granted, where that was captured."""

    frame: int
    seqno: int
    ts_ns: int | None = None
    granted: Moment | None = None


def shared_place(connection: ConnectionState) -> tuple[str, str] | None:
    """Return the server and bucket of a connection, where what others bring of these holds for it; else None.

    Where the server is the consumer, a proxy brings what another server said.
    """
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
        self._reported: set[tuple[int, int]] | None = None  #: vbuckets and their high seqnos, once that is asked for
        self._members: dict[ConnectionState, list[_Facts]] = {}  #: of the place of a connection
        self._merged: dict[int, _Facts] = {}  #: by identity of a list of members

    # -- learning ----------------------------------------------------------------------------------------

    def learn_log(self, connection: ConnectionState, vbucket: int, frame: FrameEvent) -> None:
        """Keep the failover log of an answer, if it has one. Of one that was cut nothing is known, nor of those before.

        What is not in a part of a log may be in the rest.
        """
        torn = not frame.whole
        entries = () if torn or frame.word else tuple(starmap(Entry, failover_log(frame)))
        if entries or (torn and not frame.word):
            kept = self._by_connection[connection].logs.setdefault(vbucket, [])
            self._keep(kept, Log(frame.number, entries, frame.ts_ns))

    def learn_highs(self, connection: ConnectionState, frame: FrameEvent, waiting: UnansweredRequest | None) -> None:
        """Keep the high seqnos of an answer to GET_ALL_VB_SEQNOS or OBSERVE_SEQNO; only a server answers these.

        The first are of what the client sees: of the default collection, if it has no collections (ep_engine.cc,
        getAllVBucketSequenceNumbers).
        """
        record = frame.record
        if record is None or frame.word or (waiting is None and frame.opcode == ALL_SEQNOS):
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
                high = High(frame.number, each.value, frame.ts_ns, frame.opcode, connection.number, collection)
                facts.collections[vbucket, collection] = high
                if len(facts.collections) > _COLLECTIONS:
                    del facts.collections[next(iter(facts.collections))]
                    self._weight -= 1

    def learn_stat(self, connection: ConnectionState, frame: FrameEvent) -> None:
        """Keep the high seqno of a vbucket that an answer to STAT brings, if it does."""
        key = frame.key
        if key.startswith(_STAT_BEGIN) and key.endswith(_STAT_END) and not frame.word and frame.whole:
            vbucket, text = key[len(_STAT_BEGIN) : -len(_STAT_END)], frame.value[: _DIGITS + 1].decode("latin-1")
            seqno = whole_number(text)
            if vbucket.isdigit() and len(vbucket) <= _VBUCKET_DIGITS and seqno is not None and seqno <= NEVER:
                self._learn_high(connection, int(vbucket), frame, seqno)

    def _learn_high(
        self, connection: ConnectionState, vbucket: int, frame: FrameEvent, seqno: int, what: int = WHOLE
    ) -> None:
        kept = self._by_connection[connection].highs.setdefault(vbucket, [])
        self._keep(kept, High(frame.number, seqno, frame.ts_ns, frame.opcode, connection.number, what))

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
        """Keep fewer for each vbucket, and then of fewer connections, until there is room for as many again."""
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
        places: dict[Hashable, list[_Facts]] = {}
        self._members.clear()
        self._merged.clear()
        self._reported = None
        for connection in connections:
            address = connection.server_address
            alone = address is None or connection.role == "consumer"
            place: Hashable = connection if alone else (address, connection.setup.bucket)
            members = self._members[connection] = places.setdefault(place, [])
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

    def high(self, connection: ConnectionState, vbucket: int) -> High | None:
        """Return the latest high seqno of a vbucket that the server reported."""
        known = self._of(connection).highs.get(vbucket, ())
        return known[-1] if known else None

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
        highs = self._of(connection).highs.get(vbucket, ())
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
        later = (known[place] for place in range(at, len(known)))
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
