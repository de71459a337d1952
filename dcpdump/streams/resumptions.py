"""Resumptions: where a client that is restarted, and has other ids since, continues a stream that it lost.

It has the same name and agent but for ids, and asks for a seqno, of the same history, that the lost stream came to.
That it is on the same host, and the old connection was over before the new one began, makes it the same client. Without
that, or where several such clients had the vbucket open at one time, it may be another one, as of a group.
"""

from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from dcpdump.spec.names import CLOSED, FILTER_EMPTY, FROM_LATEST, OK
from dcpdump.streams.consumer import Again, StreamOrder, alike, ended, host, same, same_by_name
from dcpdump.streams.facts import NEVER
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.losses import Losses
from dcpdump.streams.request import Request
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

#: With so many others of one name that had a vbucket open, which of them continues which is not asked.
_RIVALS = 10

_Place = tuple[str, int]  #: a name without what differs between clients, and a vbucket


class Resumptions:
    """The streams of a ledger that is closed, by the names of their clients. Each question costs a few steps."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        self._streams: dict[_Place, list[Stream]] = {}
        self._orders: dict[_Place, StreamOrder] = {}
        self._succeeds: dict[tuple[int, int], bool] = {}  # by the numbers of two connections
        self._places: dict[int, dict[tuple[int, int], Stream]] = {}  # by the number of a connection
        for stream in streams:
            self._streams.setdefault(_place(stream), []).append(stream)

    def of(self, stream: Stream, ended_ns: int | None) -> Again | None:
        """Return where a client that may be the restarted one asked for a stream in place of one that ended."""
        if ended_ns is None or stream.end_status in (OK, FILTER_EMPTY):
            return None  # what finished needs no other to continue it
        connection, order, gone_ns = stream.connection, self._order(stream), _gone(stream.connection, ended_ns)
        rivals: list[Stream] | None = None
        for mate in order.after(gone_ns):
            request = next((each for each in mate.requests if (each.ts_ns or 0) >= gone_ns), None)
            if request is None or mate.connection is connection or not alike(connection, mate.connection):
                continue
            if not _continues(stream, request):
                continue
            if rivals is None:
                rivals = _rivals(order, stream, ended_ns)
            others = [each for each in rivals if each is not mate]
            if len(rivals) < _RIVALS and any(same(each.connection, mate.connection) for each in others):
                continue  # it continues its own
            doubt = _doubt(connection, mate.connection, others)
            if not request.start and not self._has_succeeded(connection, mate.connection):
                if doubt:
                    continue  # who asks for all does not depend on what others came to
                doubt = "its name agrees, but it asked for all"
            evidence = f" from seqno {request.start}" + (" (inferred from host, name and seqno)" * (not doubt))
            return Again(mate, request.ts_ns, evidence, doubt)
        return None

    def has_more(self, stream: Stream, ended_ns: int) -> bool:
        """Return whether there were more streams that may continue one than are looked through."""
        named = stream.connection.identity.family is not None
        return named and self._order(stream).has_more_after(_gone(stream.connection, ended_ns))

    def _order(self, stream: Stream) -> StreamOrder:
        place = _place(stream)
        order = self._orders.get(place)
        if order is None:
            order = self._orders[place] = StreamOrder(self._streams[place])
        return order

    def _has_succeeded(self, old: ConnectionState, new: ConnectionState) -> bool:
        """Return whether one of the streams of a connection continues, beyond seqno 0, where one of another ended."""
        found = self._succeeds.get((old.number, new.number))
        if found is None:
            before, after = self._by_place(old), self._by_place(new)
            pairs = ((before[place], after[place].requests) for place in before.keys() & after.keys())
            found = any(asked and asked[0].start and _continues(each, asked[0]) for each, asked in pairs)
            self._succeeds[old.number, new.number] = found
        return found

    def _by_place(self, connection: ConnectionState) -> dict[tuple[int, int], Stream]:
        """Return the last streams of a connection by vbucket and stream id."""
        found = self._places.get(connection.number)
        if found is None:
            found = {(each.vbucket, each.stream_id): each for each in connection.streams}
            self._places[connection.number] = found
        return found


def _place(stream: Stream) -> _Place:
    identity = stream.connection.identity
    return identity.numberless or identity.family or "", stream.vbucket


def _gone(connection: ConnectionState, ended_ns: int) -> int:
    """Return since when the client of a stream that ended may be gone: a server notices later that a host is lost."""
    if ended_ns != connection.ended_ns or connection.feeder is None:
        return ended_ns
    return min(ended_ns, connection.sides[1 - connection.feeder].latest_ns or ended_ns)


def _doubt(old: ConnectionState, new: ConnectionState, rivals: list[Stream]) -> str:
    """Return why a client of the same name may be another than the one that is over; empty where nothing says so."""
    if host(old) != host(new):
        return "its name and the seqno agree, but its host is another"
    if old.ended_ns is None or (new.first_ns or 0) < old.ended_ns:
        return "its name and the seqno agree, but both connections were open at one time"
    if rivals:
        return f"connection {rivals[0].connection.number}, of the same name, had the vbucket open meanwhile"
    return ""


def _rivals(order: StreamOrder, stream: Stream, ended_ns: int) -> list[Stream]:
    """Return streams of clients of the same name that were open beside one before that ended, the latest first."""
    begins_ns, connection = stream.granted_ns or stream.first_ns or 0, stream.connection
    beside = (each for each in order.before(ended_ns, begins_ns) if each.reopened and ended(each) > begins_ns)
    others = (each for each in beside if each.connection is not connection and alike(each.connection, connection))
    return list(islice(others, _RIVALS))


def _continues(stream: Stream, request: Request) -> bool:
    """Return whether a request is for what comes after a seqno that a stream came to, of the same history; or for all.

    It is for the same documents. A client that resumes may have saved an older seqno than it has received, and never
    a later one.
    """
    last, log = stream.grant or stream.request, stream.failover_log or ()
    if last is None or request.start_seqno is None or request.start > max(last.start, stream.high_seqno or 0):
        return False
    if set(last.collections or ()) != set(request.collections or ()) or last.scope != request.scope:
        return False
    return not request.start or request.vbucket_uuid in {last.vbucket_uuid, *(each.uuid for each in log[:1])}


# -- skips --------------------------------------------------------------------------------------------
# Where a client resumes behind what it has received, so that the changes in between are never sent to it.
#
# It may have got them elsewhere, so nothing is said unless each stream of the vbucket that may be of this client was
# captured from its beginning without loss, and it asks again at once: another of its group, or another server, may have
# served the vbucket meanwhile. The end of each snapshot that was announced counts as received. Who asks from now on
# names a seqno that the server reported.

#: A client that asks again so soon was served by nobody else meanwhile.
_SOON_NS = 10 * 1_000_000_000
#: Of a vbucket with more streams nothing is said: each request would have to be compared with all before it.
_MOST = 128
#: Ends that a client wanted: it may have handed the vbucket over to another, or reads in parts.
_WANTED = (OK, CLOSED, FILTER_EMPTY)


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


class Skips:
    """The streams of a ledger that is closed, by vbucket. Each question costs a few steps."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def of(self, stream: Stream) -> Skip | None:
        """Return what a client skips by the stream that it was granted; None where nothing is certain."""
        request, ledger = stream.grant, self._ledger
        if request is None or not _resumes(stream, request) or ledger.evicted_streams or not ledger.alone:
            return None
        last = self._last(stream, request)
        if last is None or self._losses.since(last.connection, last.first_ns) is not None:
            return None
        received = self._received(stream, request)
        if received is None or request.start <= received or ledger.logs.reports(stream.vbucket, request.start):
            return None
        return Skip(request, received, last)

    @cached_property
    def _losses(self) -> Losses:
        return Losses(self._ledger.connections.values(), self._ledger.evicted_lost_ns)

    @cached_property
    def _streams(self) -> dict[int, list[Stream]]:
        """Return the streams of each vbucket that has not too many."""
        found: dict[int, list[Stream]] = {}
        for stream in self._ledger.streams:
            found.setdefault(stream.vbucket, []).append(stream)
        return {vbucket: streams for vbucket, streams in found.items() if len(streams) <= _MOST}

    def _last(self, stream: Stream, request: Request) -> Stream | None:
        """Return the stream that a client had, of those that ended shortly before a request the latest."""
        asked_ns, found = request.ts_ns or 0, list[tuple[int, int]]()
        streams = self._streams.get(stream.vbucket, [])
        for at, each in enumerate(streams):
            ns = _gone_ns(each)
            if ns is not None and 0 <= asked_ns - ns <= _SOON_NS and _precedes(each, stream, request):
                found.append((ns, at))
        return streams[max(found)[1]] if found else None

    def _received(self, stream: Stream, request: Request) -> int | None:
        """Return the highest seqno that a client can have received before a request; None where that is not known."""
        received = 0
        for each in self._streams[stream.vbucket]:
            if each is stream or each.waits or not _may_be_same(each.connection, stream.connection):
                continue
            if each.requests and each.requests[0].frame > request.frame:
                continue
            if each.doubtful:
                return None
            received = max(received, each.reached)
        return received


def _resumes(stream: Stream, request: Request) -> bool:
    """Return whether a stream is for all that comes after a seqno which its client names."""
    named = request.start and request.ts_ns is not None and not request.bits & FROM_LATEST
    return bool(named) and _is_plain(stream, request)


def _is_plain(stream: Stream, request: Request) -> bool:
    """Return whether a stream brings each change of its vbucket, and no takeover ends it."""
    return not request.filtered and not stream.takeover


def _gone_ns(stream: Stream) -> int | None:
    """Return when a stream ended against its client's will; None where it did not."""
    if stream.closed:
        return None
    if stream.end_frame is not None:
        return None if stream.end_status in _WANTED else stream.ended_ns
    return stream.connection.ended_ns


def _precedes(before: Stream, stream: Stream, request: Request) -> bool:
    """Return whether a client surely had a stream which it continues from beyond what that has brought."""
    first, log = before.grant, before.failover_log or ()
    if first is None or before.high_seqno is None or request.start <= before.reached:
        return False
    if before.stream_id != stream.stream_id or not _is_plain(before, first) or first.end_seqno != NEVER:
        return False
    branch = request.vbucket_uuid in {each.uuid for each in log}
    named = request.start in {each.seqno for each in stream.failover_log or ()}
    return branch and not named and same_by_name(before.connection, stream.connection)


def _may_be_same(one: ConnectionState, other: ConnectionState) -> bool:
    """Return whether two connections may be of one client: also those that do not say who they are."""
    nameless = None in (one.identity.family, other.identity.family)
    return one is other or nameless or same(one, other) or alike(one, other)
