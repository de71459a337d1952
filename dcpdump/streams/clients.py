"""Index the streams and requests of each client, over all its connections, in a closed ledger.

For a stream that ended or was refused, the index tells where its consumer, or a possible one, requested it again;
whether that consumer has it open on another connection; and what may hide such a request: lost bytes, or nodes that
were not captured. For a granted stream, it tells which changes the client skipped. Each question costs a few steps. A
client that had a stream of the vbucket open all the time is another consumer on the same host.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import accumulate, islice
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from dcpdump.spec.names import CLOSED, FILTER_EMPTY, FROM_LATEST, OK
from dcpdump.streams.causes import Reason, Unknown
from dcpdump.streams.frame_event import NEVER, stream_key
from dcpdump.streams.identity import Owner, alike, host, hosts, owners, same, same_by_name, same_or_alike
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.request import Request
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.window import OUT_OF_ORDER_NS
from dcpdump.streams.wording import clock

#: How many streams, connections or requests before or after a moment are searched for one of the same consumer. If
#: none is found, and there are more, the answer is unknown.
FURTHER = 100
#: With more than this many others of one name that had a vbucket open, it is not judged which continues which.
_COMPETITORS = 10
#: Before everything that was captured, and after.
_BEFORE, _AFTER = -1, 1 << 64
#: A client that asks again within this time was not served elsewhere meanwhile.
_SOON_NS = 10 * 1_000_000_000
#: Of a vbucket with more streams nothing is said of skips: each request would have to be compared with all before it.
_MOST = 128
#: Ends that a client wanted: it may have handed the vbucket over to another, or reads in parts.
_WANTED = (OK, CLOSED, FILTER_EMPTY)
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
UNSEEN = Unknown(Reason.OTHER_NODES, "another node may know, and this capture has no connection of its client to one")


class Reopening(NamedTuple):
    """A stream in the place of another, and when it was requested after that one."""

    stream: Stream
    ts_ns: int | None
    evidence: str = ""  #: where not all of what it says of itself shows that it is the same consumer
    doubt: str = ""  #: why it may be another consumer, if it may

    @property
    def is_certain(self) -> bool:
        """Return whether both say that they are of one consumer."""
        return not (self.evidence or self.doubt)

    def in_words(self, lost: Stream) -> str:
        """Return in words when and where the stream in the place of a lost one was requested."""
        connection = self.stream.connection
        where = "" if connection is lost.connection else f" on connection {connection.number}"
        verb = "reopened" if self.stream.reopened else "requested again"
        text = f"{verb}{where} at {clock(self.ts_ns)}{self.evidence}"
        return f"may have been {text}: {self.doubt}" if self.doubt else text


class Skip(NamedTuple):
    """A request from a seqno beyond all that its client had received."""

    request: Request
    received: int  #: the highest seqno that it can have had
    last: Stream  #: the stream that it had before

    @property
    def text(self) -> str:
        """Return what is skipped, in words."""
        number, start = self.last.connection.number, self.request.start
        return (
            f"resumed from seqno {start}, and had received up to {self.received} on connection {number}: "
            f"{self.received + 1}..{start} are not sent to it"
        )


class Chronology(Generic[T]):
    """Items in the order of time."""

    def __init__(self, items: Iterable[tuple[Any, T]] = ()) -> None:
        order = sorted(items, key=itemgetter(0))
        self._times, self._items = [time for time, _ in order], [item for _, item in order]

    def after(self, time: Any) -> list[T]:
        """Return the first items at a time or later."""
        at = bisect_left(self._times, time)
        return self._items[at : at + FURTHER]

    def has_more_after(self, time: Any) -> bool:
        """Return whether there are more items at a time or later than ``after`` returns."""
        return len(self._times) - bisect_left(self._times, time) > FURTHER


class _Order(Chronology[Stream]):
    """Streams in the orders in which they began and were last requested; a refused one is requested again."""

    def __init__(self, streams: Iterable[Stream] = ()) -> None:
        streams = list(streams)
        asked = [(each.requests[-1].ts_ns or 0, each) for each in streams if len(each.requests) > 1]
        super().__init__([*((_began(stream), stream) for stream in streams), *asked])
        self._ends = list(accumulate(map(_ended, self._items), max))  # of those so far, the latest

    def before(self, ts_ns: int, open_ns: int) -> list[Stream]:
        """Return the last streams that began, or were requested, before a time, latest first.

        ``open_ns``: those are left out before which all had ended by this time.
        """
        at = bisect_left(self._times, ts_ns)
        return self._items[max(bisect_right(self._ends, open_ns, hi=at), at - FURTHER) : at][::-1]

    def has_more_before(self, ts_ns: int) -> bool:
        """Return whether more streams than ``before`` gives began before a time, and may be open then."""
        at = bisect_left(self._times, ts_ns)
        return at - bisect_right(self._ends, ts_ns, hi=at) > FURTHER


_Index = Callable[[Hashable], _Order]


def indexed(items: Iterable[T], keys: Callable[[T], Iterable[K]]) -> dict[K, list[T]]:
    """Return items by each of their keys."""
    found = defaultdict[K, list[T]](list)
    for item in items:
        for key in keys(item):
            found[key].append(item)
    return found


def _index(streams: Iterable[Stream], keys: Callable[[Stream], Iterable[Hashable]]) -> _Index:
    """Return a function that returns the streams with a key; their order is made on request."""
    groups = indexed(streams, keys)
    return cache(lambda key: _Order(groups.get(key, ())))


class Clients:
    """The streams and connections of a closed ledger, by client."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        # A cache of a method would keep this, and all streams, until garbage is collected, which may be never.
        self._succeeds = cache(partial(_has_succeeded, cache(_last_streams)))

    # These are made on request: if no stream ended, none is made.

    @cached_property
    def _seen_until(self) -> Callable[[ConnectionState], int]:
        """Return a function that returns up to when the consumer of a connection is seen on one to another node."""
        last_ns = self._ledger.last_ns if self._ledger.single_capture else None
        return cache(partial(_seen_elsewhere_until, self._connections, last_ns))

    @cached_property
    def _of_consumers(self) -> _Index:
        """Return the streams of each vbucket by consumer, and those of each connection by place."""
        of = cache(owners)

        def keys(stream: Stream) -> Iterator[Hashable]:
            yield from ((owner, stream.vbucket) for owner in of(stream.connection))
            yield place_of(stream.connection, stream)

        return _index(self._ledger.streams, keys)

    @cached_property
    def _of_names(self) -> _Index:
        """Return the streams of each vbucket by the name of their client, without what differs between clients."""
        return _index(self._ledger.streams, lambda stream: (_name_key(stream),))

    @cached_property
    def _connections(self) -> dict[Owner, list[ConnectionState]]:
        """Return the connections of each consumer."""
        return indexed(self._ledger.connections.values(), owners)

    # -- requested again, or open elsewhere ----------------------------------------------------------------

    def again(self, stream: Stream, after_ns: int | None) -> Reopening | None:
        """Return where the stream's consumer, or a possible one, requested it after a time."""
        return self._reopened(stream, after_ns) or self._continued(stream, after_ns)

    def elsewhere(self, stream: Stream, at_ns: int | None) -> Stream | None:
        """Return the stream that its consumer had open in its place at a time: of one that names itself, or asked then.

        A request may be captured a little before what it follows.
        """
        if at_ns is None:
            return None
        candidates = self._candidates(stream, lambda order: order.before(at_ns, at_ns))
        mine = (
            each
            for each in candidates
            if (_names_itself(stream, each) or _began(each) >= at_ns - OUT_OF_ORDER_NS) and _open_at(each, at_ns)
        )
        for each in mine:
            last_ns = each.traffic.last_ns  # it had surely not ended: no end of it can have been lost before
            if (last_ns or 0) >= at_ns or not each.connection.lost_after(last_ns):
                return each
        return None

    def _reopened(self, stream: Stream, after_ns: int | None) -> Reopening | None:
        """Return where its consumer asked in its place after a time: for what was granted first, if anything was."""
        here = stream.next
        if after_ns is None:
            return None if here is None else Reopening(here, here.traffic.first_ns)
        if here is None:  # one that was captured as requested before the end of this one, and again since
            place = self._of_consumers(place_of(stream.connection, stream))
            here = next((each for each in place.after(after_ns) if each is not stream), None)
        first: Stream | None = None
        granted = here if here is not None and here.reopened else None

        def better(order: _Order) -> Iterator[Stream]:
            """Yield streams that would change what is found."""
            for each in order.after(after_ns):
                if granted is not None and _began(each) >= _granted(granted):
                    return  # so did those behind it
                if first is None or (each.reopened and (granted is None or _granted(each) < _granted(granted))):
                    yield each

        for each in self._candidates(stream, better):
            if not self._was_open(each.connection, stream, after_ns):
                first = first or each
                granted = each if each.reopened else granted
        found = granted or here or first
        if found is None:
            return None
        if found is here:
            return Reopening(here, here.traffic.first_ns)
        evidence = "" if _say(stream.connection, found.connection) else " (inferred from the host alone)"
        asked = (each.ts_ns for each in found.requests if each.ts_ns is not None and each.ts_ns >= after_ns)
        return Reopening(found, next(asked, found.traffic.first_ns), evidence)

    def _candidates(self, stream: Stream, chosen: Callable[[_Order], Iterable[Stream]]) -> Iterator[Stream]:
        """Yield streams of the same consumer in the same place on other connections, in the order of a choice."""
        connection = stream.connection
        for owner in owners(connection):
            for each in chosen(self._of_consumers((owner, stream.vbucket))):
                if each.connection is not connection and _fits(stream, each) and same(connection, each.connection):
                    yield each

    def _was_open(self, connection: ConnectionState, stream: Stream, at_ns: int) -> bool:
        """Return whether a stream in the same place was open on a connection at a time."""
        latest = next(iter(self._of_consumers(place_of(connection, stream)).before(at_ns, at_ns)), None)
        return latest is not None and _open_at(latest, at_ns)

    # -- continued by a client that was restarted, and has other ids since -----------------------------------
    # It has the same name and agent but for ids, and asks for a seqno, of the same history, that the lost stream came
    # to. That it is on the same host, and the old connection was over before the new one began, makes it the same
    # client. Without that, or where several such clients had the vbucket open at one time, it may be another one, as of
    # a group.

    def _continued(self, stream: Stream, ended_ns: int | None) -> Reopening | None:
        """Return where a client that may be the restarted one asked for a stream in place of one that ended."""
        if ended_ns is None or stream.end_status in (OK, FILTER_EMPTY):
            return None  # what finished needs no other to continue it
        connection, order = stream.connection, self._of_names(_name_key(stream))
        gone_ns = _client_gone_ns(connection, ended_ns)
        competitors: list[Stream] | None = None
        for each in order.after(gone_ns):
            request = next((one for one in each.requests if (one.ts_ns or 0) >= gone_ns), None)
            if request is None or each.connection is connection or not alike(connection, each.connection):
                continue
            if not _continues(stream, request):
                continue
            if competitors is None:
                competitors = _competitors(order, stream, ended_ns)
            others = [one for one in competitors if one is not each]
            if len(competitors) < _COMPETITORS and any(same(one.connection, each.connection) for one in others):
                continue  # it continues its own
            doubt = _doubt(connection, each.connection, others)
            if not request.start and not self._succeeds(connection, each.connection):
                if doubt:
                    continue  # who asks for all does not depend on what others came to
                doubt = "its name agrees, but it asked for all"
            evidence = f" from seqno {request.start}" + (" (inferred from host, name and seqno)" * (not doubt))
            return Reopening(each, request.ts_ns, evidence, doubt)
        return None

    # -- what may hide it --------------------------------------------------------------------------------

    def hidden(self, stream: Stream, after_ns: int | None) -> Unknown | None:
        """Return what may hide a request of the stream's consumer after a time."""
        lost = self.lost_since(stream.connection, after_ns)
        if lost is not None or after_ns is None:
            return lost
        connection = stream.connection
        orders = [self._of_consumers((owner, stream.vbucket)) for owner in owners(connection)]
        more = any(order.has_more_after(after_ns) or order.has_more_before(after_ns) for order in orders)
        if not more and connection.identity.family is not None:
            more = self._of_names(_name_key(stream)).has_more_after(_client_gone_ns(connection, after_ns))
        text = f"over {FURTHER} streams of vbucket {stream.vbucket} may be its consumer's, not all were compared"
        return Unknown(Reason.TOO_MANY, text) if more else None

    def lost_since(self, connection: ConnectionState, ts_ns: int | None) -> Unknown | None:
        """Return what may hide a request of a connection's consumer after a time.

        That it did not is said only where each request of it would have been captured: on any of its connections, on
        any between the same two hosts, and on any that has its name, as it may be restarted elsewhere.
        """
        found = connection.lost_since(ts_ns)
        if found is not None or ts_ns is None:
            return found
        gapped = [self._with_gaps[owner] for owner in _maybe_owners(connection) if owner in self._with_gaps]
        others = (each for timeline in gapped for each in timeline.after(ts_ns) if each is not connection)
        ends = hosts(connection)
        other = next((each for each in others if same_or_alike(connection, each) or ends == hosts(each)), None)
        if other is None and self._ledger.evicted_lost_ns >= ts_ns:
            return Unknown(Reason.BYTES_LOST, "bytes of connections that were not kept in memory were lost or skipped")
        if other is None:
            many = any(timeline.has_more_after(ts_ns) for timeline in gapped)
            text = f"bytes of over {FURTHER} connections of its host were lost, not all were compared"
            return Unknown(Reason.TOO_MANY, text) if many else None
        if other.lost_after(ts_ns):
            return other.missing_of(f" of connection {other.number}")
        return Unknown(Reason.STARTS_LATE, f"the beginning of connection {other.number} was not captured")

    @cached_property
    def _with_gaps(self) -> dict[Owner, Chronology[ConnectionState]]:
        """Return the connections of each consumer of which something is missing, by when that was sent at the latest.

        Where nothing was lost, what begins late was merely silent before.
        """
        connections = self._ledger.connections.values()
        if not any(each.losses for each in connections):
            return {}
        # one that starts late may have been used before
        gaps = ((max(each.last_loss_ns, (each.first_ns or 0) * each.starts_late), each) for each in connections)
        found = indexed((each for each in gaps if each[0]), lambda each: _maybe_owners(each[1]))
        return {owner: Chronology(those) for owner, those in found.items()}

    def unseen(self, connection: ConnectionState, after_ns: int | None) -> Unknown | None:
        """Return that another node may know what a consumer did after a time; None where the capture shows others.

        A vbucket moves between nodes, and its consumer follows it: a capture of one node's traffic does not show that.
        """
        return UNSEEN if after_ns is None or self._seen_until(connection) < after_ns else None

    # -- skips: a client resumes behind what it has received, and the changes in between are never sent to it ----
    # It may have got them elsewhere, so nothing is said unless each stream of the vbucket that may be of this client
    # was captured from its beginning without loss, and it asks again at once: another of its group, or another server,
    # may have served the vbucket meanwhile. The end of each snapshot that was announced counts as received. Who asks
    # from now on names a seqno that the server reported.

    def skip(self, stream: Stream) -> Skip | None:
        """Return what a client skips by the stream that it was granted; None where nothing is certain."""
        request, ledger = stream.grant, self._ledger
        if request is None or ledger.evicted_streams or not ledger.single_capture or not _is_plain(stream, request):
            return None
        if not request.start or request.ts_ns is None or request.bits & FROM_LATEST:
            return None
        last = self._last_before(stream, request)
        if last is None or self.lost_since(last.connection, last.traffic.first_ns) is not None:
            return None
        received = self._received(stream, request)
        if received is None or request.start <= received or ledger.logs.reports(stream.vbucket, request.start):
            return None
        return Skip(request, received, last)

    @cached_property
    def _of_vbuckets(self) -> dict[int, list[Stream]]:
        """Return the streams of each vbucket that has not too many."""
        found = indexed(self._ledger.streams, lambda stream: (stream.vbucket,))
        return {vbucket: streams for vbucket, streams in found.items() if len(streams) <= _MOST}

    def _last_before(self, stream: Stream, request: Request) -> Stream | None:
        """Return the stream that a client had, of those that ended shortly before a request the latest."""
        asked_ns, found = request.ts_ns or 0, list[tuple[int, int]]()
        streams = self._of_vbuckets.get(stream.vbucket, [])
        for at, each in enumerate(streams):
            ns = _gone_ns(each)
            if ns is not None and 0 <= asked_ns - ns <= _SOON_NS and _precedes(each, stream, request):
                found.append((ns, at))
        return streams[max(found)[1]] if found else None

    def _received(self, stream: Stream, request: Request) -> int | None:
        """Return the highest seqno that a client can have received before a request; None where that is not known."""
        received = 0
        for each in self._of_vbuckets[stream.vbucket]:
            if each is stream or not each.is_sending or not _may_be_same(each.connection, stream.connection):
                continue
            if each.requests and each.requests[0].frame > request.frame:
                continue
            if each.doubtful:
                return None
            received = max(received, each.seqnos.reached)
        return received


# -- when a stream began, was granted, requested, open, over --------------------------------------------


def place_of(connection: ConnectionState, stream: Stream) -> Hashable:
    """Return the key of a connection's streams that have the vbucket and the stream id of a stream."""
    return connection.number, stream_key(stream.vbucket, stream.stream_id)


def _has_succeeded(
    last_streams: Callable[[ConnectionState], dict[int, Stream]], old: ConnectionState, new: ConnectionState
) -> bool:
    """Return whether one of the streams of a connection continues, beyond seqno 0, where one of another ended."""
    before, after = last_streams(old), last_streams(new)
    pairs = ((before[key], after[key].requests) for key in before.keys() & after.keys())
    return any(asked and asked[0].start and _continues(each, asked[0]) for each, asked in pairs)


def _seen_elsewhere_until(
    connections: Mapping[Owner, Sequence[ConnectionState]], last_ns: int | None, connection: ConnectionState
) -> int:
    """Return up to when the consumer of a connection is seen on one to another node; 0 where it is on none."""
    here = connection.server_address
    ends = [
        each.end.ts_ns or last_ns or each.last_ns
        for owner in owners(connection)
        for each in connections.get(owner, ())
        if each.server_address not in (None, here) and each.setup.opened_by is not None and same(connection, each)
    ]
    return max((each for each in ends if each is not None), default=0)


def _last_streams(connection: ConnectionState) -> dict[int, Stream]:
    """Return the last streams of a connection by vbucket and stream id."""
    return {stream_key(each.vbucket, each.stream_id): each for each in connection.streams}


def _name_key(stream: Stream) -> Hashable:
    """Return the name of a stream's client without what differs between clients, and the vbucket."""
    identity = stream.connection.identity
    return identity.numberless or identity.family or "", stream.vbucket


def _began(stream: Stream) -> int:
    """Return when a stream began; of one that was open when the capture began, before everything."""
    if not stream.requests and stream.number == 1 and not stream.connection.losses:
        return _BEFORE
    return stream.traffic.first_ns or 0


def _granted(stream: Stream) -> int:
    """Return when a stream was granted; one that was not captured so, when it began."""
    return stream.traffic.first_ns or 0 if stream.granted_ns is None else stream.granted_ns


def _open_at(stream: Stream, ts_ns: int) -> bool:
    """Return whether a stream that began before a time was open then, or requested."""
    if stream.requests and (not stream.granted or (stream.requests[-1].ts_ns or 0) >= ts_ns):
        return False
    if stream.replaced and stream.connection.losses and (stream.traffic.last_ns or 0) < ts_ns:
        return False  # its end was lost, or else no other would have been granted
    return _ended(stream) > ts_ns


def _ended(stream: Stream) -> int:
    """Return when a stream ended, or was closed, or its connection; later than everything where none of it came."""
    ends = (stream.ended_ns, stream.closed_ns, stream.connection.end.ts_ns)
    return min((end for end in ends if end is not None), default=_AFTER)


def _gone_ns(stream: Stream) -> int | None:
    """Return when a stream ended against its client's will; None where it did not."""
    if stream.closed:
        return None
    if stream.end is not None:
        return None if stream.end_status in _WANTED else stream.ended_ns
    return stream.connection.end.ts_ns


def _client_gone_ns(connection: ConnectionState, ended_ns: int) -> int:
    """Return since when the client of a stream that ended may be gone: a server notices later that a host is lost."""
    if ended_ns != connection.end.ts_ns or connection.producer_direction is None:
        return ended_ns
    return min(ended_ns, connection.sides[1 - connection.producer_direction].latest_ns or ended_ns)


# -- whose it may be --------------------------------------------------------------------------------------


def _fits(stream: Stream, other: Stream) -> bool:
    """Return whether two streams of one vbucket have one purpose: the same id, or the same collections."""
    if stream.stream_id == other.stream_id:
        return True
    mine, theirs = stream.request, other.request
    return (
        mine is not None and theirs is not None and (mine.collections, mine.scope) == (theirs.collections, theirs.scope)
    )


def _maybe_owners(connection: ConnectionState) -> tuple[Owner, ...]:
    """Return the keys of connections that may belong to a connection's consumer."""
    name = connection.identity.numberless or connection.identity.family
    return owners(connection) if name is None else (*owners(connection), ("name", name))


def _say(one: ConnectionState, other: ConnectionState) -> bool:
    """Return whether two connections of one consumer both say who it is."""
    mine, theirs = one.identity, other.identity
    named = mine.family is not None and theirs.family is not None
    return named or (mine.client_id is not None and theirs.client_id is not None)


def _names_itself(stream: Stream, other: Stream) -> bool:
    """Return whether more than the host shows that both are of one consumer. A name is unique only on its server."""
    mine, theirs = stream.connection, other.connection
    if mine.identity.client_id is not None and theirs.identity.client_id is not None:
        return True
    return (
        mine.setup.name is not None
        and mine.setup.name == theirs.setup.name
        and mine.server_address != theirs.server_address
    )


def _may_be_same(one: ConnectionState, other: ConnectionState) -> bool:
    """Return whether two connections may be of one client: also those that do not say who they are."""
    nameless = None in (one.identity.family, other.identity.family)
    return one is other or nameless or same_or_alike(one, other)


def _doubt(old: ConnectionState, new: ConnectionState, competitors: list[Stream]) -> str:
    """Return why a client of the same name may be another than the one that is over; empty where nothing says so."""
    if host(old) != host(new):
        return "its name and the seqno agree, but its host is another"
    if old.end.ts_ns is None or (new.first_ns or 0) < old.end.ts_ns:
        return "its name and the seqno agree, but both connections were open at one time"
    if competitors:
        return f"connection {competitors[0].connection.number}, of the same name, had the vbucket open meanwhile"
    return ""


def _competitors(order: _Order, stream: Stream, ended_ns: int) -> list[Stream]:
    """Return streams of clients of the same name that were open beside one before that ended, the latest first."""
    begins_ns, connection = stream.granted_ns or stream.traffic.first_ns or 0, stream.connection
    beside = (each for each in order.before(ended_ns, begins_ns) if each.reopened and _ended(each) > begins_ns)
    others = (each for each in beside if each.connection is not connection and alike(each.connection, connection))
    return list(islice(others, _COMPETITORS))


# -- what a request continues -----------------------------------------------------------------------------


def _continues(stream: Stream, request: Request) -> bool:
    """Return whether a request is for what comes after a seqno that a stream came to, of the same history; or for all.

    It is for the same documents. A client that resumes may have saved an older seqno than it has received, and never
    a later one.
    """
    last, log = stream.grant or stream.request, stream.failover_log or ()
    if last is None or request.start_seqno is None or request.start > max(last.start, stream.seqnos.high or 0):
        return False
    if set(last.collections or ()) != set(request.collections or ()) or last.scope != request.scope:
        return False
    return not request.start or request.vbucket_uuid in {last.vbucket_uuid, *(each.uuid for each in log[:1])}


def _is_plain(stream: Stream, request: Request) -> bool:
    """Return whether a stream brings each change of its vbucket, and no takeover ends it."""
    return not request.filtered and not stream.takeover


def _precedes(before: Stream, stream: Stream, request: Request) -> bool:
    """Return whether a client surely had a stream which it continues from beyond what that has brought."""
    first, log = before.grant, before.failover_log or ()
    if first is None or before.seqnos.high is None or request.start <= before.seqnos.reached:
        return False
    if before.stream_id != stream.stream_id or not _is_plain(before, first) or first.end_seqno != NEVER:
        return False
    branch = request.vbucket_uuid in {each.uuid for each in log}
    named = request.start in {each.seqno for each in stream.failover_log or ()}
    return branch and not named and same_by_name(before.connection, stream.connection)
