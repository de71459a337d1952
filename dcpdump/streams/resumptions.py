"""Resumptions: where a client that is restarted, and has other ids since, continues a stream that it lost.

It has the same name and agent but for ids, and asks for a seqno, of the same history, that the lost stream came to.
That it is on the same host, and the old connection was over before the new one began, makes it the same client. Without
that, or where several such clients had the vbucket open at one time, it may be another one, as of a group.
"""

from collections.abc import Iterable
from itertools import islice

from dcpdump.spec.names import FILTER_EMPTY, OK
from dcpdump.streams.consumer import Again, StreamOrder, alike, ended, host, same
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
    return min(ended_ns, connection.latest_ns[1 - connection.feeder] or ended_ns)


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
