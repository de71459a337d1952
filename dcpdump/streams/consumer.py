"""Consumers: which connections are of one consumer, and where it asked again for a stream that it lost.

A consumer has one client id where its agent or its names carry one, else one host, and names of one family there, or
that differ in one number. It has one bucket, and is on one side of a replication: the two legs of ns_server's proxy are
not one consumer. Who had a stream of the vbucket open all along is another consumer of the same host.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.startup import lazy_pattern
from dcpdump.streams.frame_event import stream_key
from dcpdump.streams.wording import clock
from dcpdump.wire.json_text import parse_json

if TYPE_CHECKING:
    from dcpdump.streams.state import ConnectionState
    from dcpdump.streams.stream import Stream

#: So many streams before or after a moment are looked through for one of the same consumer. What is not found among
#: these, and may be among more, is unknown.
FURTHER = 100
#: What differs between the names of one client's connections: a UUID; hexadecimal, with a digit, and not short; or a
#: longer word at the end, of small letters, capitals, and digits or padding, as base64 has them.
_COUNTER = lazy_pattern(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])(?=[0-9A-Fa-f]*[0-9])[0-9A-Fa-f]{4,}(?![0-9A-Za-z])"
    r"|(?<=:)(?=[^:]*[a-z])(?=[^:]*[A-Z])(?=[^:]*[0-9=])[0-9A-Za-z+/]{8,}={0,2}$"
)
#: A short number, by which connections, or workers, of one client are told apart where nothing else differs.
_NUMBER = lazy_pattern(r"(?<![0-9A-Za-z])[0-9]{1,3}(?![0-9A-Za-z])")
#: The address of a node, which names may have in them too, and the node that a replication has its changes from.
_NODE = lazy_pattern(r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]+)?(?:_[0-9]+)?(?![0-9.])")
_SOURCE = lazy_pattern(r"(?<=^replication:)[^>]*(?=->)")
#: In the JSON of agents and names, which may be cut short: the client's id, before that of the connection.
_ID = lazy_pattern(r'"i"\s*:\s*"([^"/]+)[^"]*')
#: Before everything that was captured.
_BEFORE = -1
#: Later than all that was captured.
_NEVER = 1 << 64


class Identity(NamedTuple):
    """What a connection says of who uses it. None: nothing."""

    client_id: str | None = None
    family: str | None = None  #: its name, without what its other connections would have otherwise
    agent: str | None = None
    counters: tuple[str, ...] = ()  #: what was left out of the name, but for addresses
    numberless: str | None = None  #: its family, without short numbers
    numbers: tuple[str, ...] = ()  #: those


NAMELESS = Identity()


def identify(connection: "ConnectionState") -> Identity:
    """Return what agent and name of a connection say."""
    agent, name = connection.agent, connection.name
    found = [_ID.search(text) for text in (agent, name) if text is not None]
    client_id = next((each[1] for each in found if each), None)
    if name is None:
        return Identity(client_id, agent=_product(agent))
    if name.startswith("replication:"):
        return Identity(client_id, _SOURCE.sub("#", name), _product(agent))
    placeless = _NODE.sub("#", _ID.sub("#", name))
    family, counters = _COUNTER.sub("#", placeless), tuple(_COUNTER.findall(placeless))
    numbers = tuple(_NUMBER.findall(family))
    return Identity(client_id, family, _product(agent), counters, _NUMBER.sub("#", family), numbers)


def same(one: "ConnectionState", other: "ConnectionState") -> bool:
    """Return whether two connections are of one consumer, as far as they say."""
    if one is other:
        return True
    if _apart(one, other):
        return False
    mine, theirs = one.identity, other.identity
    if mine.client_id is not None and theirs.client_id is not None:
        return mine.client_id == theirs.client_id
    return _fit(mine, theirs) and host(one) == host(other) is not None


def same_by_name(one: "ConnectionState", other: "ConnectionState") -> bool:
    """Return whether two connections are of one consumer, and its whole name or its id says so."""
    named = one.name is not None and one.name == other.name
    known = one.identity.client_id is not None and other.identity.client_id is not None
    return one is other or (same(one, other) and (named or known))


def alike(one: "ConnectionState", other: "ConnectionState") -> bool:
    """Return whether two connections have one name, but for ids: they may be of a client before and after a restart."""
    mine, theirs = one.identity, other.identity
    return None not in (mine.family, theirs.family) and not _apart(one, other) and _fit(mine, theirs)


def _apart(one: "ConnectionState", other: "ConnectionState") -> bool:
    return _differ(one.bucket, other.bucket) or _differ(one.role, other.role)


def _fit(mine: Identity, theirs: Identity) -> bool:
    """Return whether agents and names may be of one consumer, whatever client ids it has."""
    if _differ(mine.agent, theirs.agent):
        return False
    if _differ(mine.family, theirs.family) and not _renumbered(mine, theirs):
        return False
    counters = list(zip(mine.counters, theirs.counters, strict=False))
    # of several, one is of the connection, and another of the client
    return len(counters) < 2 or any(each == other for each, other in counters)


def _renumbered(mine: Identity, theirs: Identity) -> bool:
    """Return whether two names differ in one short number, and in nothing else."""
    if mine.numberless is None or mine.numberless != theirs.numberless or mine.counters != theirs.counters:
        return False
    return sum(each != other for each, other in zip(mine.numbers, theirs.numbers, strict=False)) == 1


def host(connection: "ConnectionState") -> str | None:
    """Return the address of the consumer's end: that which the changes are sent to."""
    end = connection.consumer_address
    return None if end is None else end.rpartition(":")[0]


class Consumers:
    """The streams of a ledger that is closed, by consumer. Each question costs a few steps."""

    def __init__(self, streams: Iterable["Stream"]) -> None:
        self._owners: dict[int, tuple[_Owner, ...]] = {}  # by the number of a connection
        self._streams: dict[tuple[_Owner, int], list[Stream]] = {}  # by vbucket; of a connection, by place
        self._orders: dict[tuple[_Owner, int], StreamOrder] = {}
        for stream in streams:
            connection = stream.connection
            owners = self._owners.get(connection.number)
            if owners is None:
                owners = self._owners[connection.number] = _owners(connection)
            for owner in owners:
                self._streams.setdefault((owner, stream.vbucket), []).append(stream)
            self._streams.setdefault(_place(connection, stream), []).append(stream)

    def again(self, stream: "Stream", after_ns: int | None) -> "Again | None":
        """Return where its consumer asked in its place after a time: for what was granted first, if anything was."""
        here = stream.next
        if here is not None and (here.reopened or after_ns is None):
            return Again(here, here.first_ns)
        if after_ns is None:
            return None
        first: Stream | None = None
        granted: Stream | None = None

        def better(order: "StreamOrder") -> "Iterator[Stream]":
            """Yield streams that would change what is found."""
            for mate in order.after(after_ns):
                if granted is not None and _began(mate) >= _granted(granted):
                    return  # so did those behind it
                if first is None or (mate.reopened and (granted is None or _granted(mate) < _granted(granted))):
                    yield mate

        for mate in self._mates(stream, better):
            if not self._was_open(mate.connection, stream, after_ns):
                first = first or mate
                granted = mate if mate.reopened else granted
        found = granted or here or first
        if found is None:
            return None
        said = _say(stream.connection, found.connection)
        return Again(found, _asked_after(found, after_ns), "" if said else " (inferred from the host alone)")

    def elsewhere(self, stream: "Stream", at_ns: int | None) -> "Stream | None":
        """Return the stream that its consumer, which names itself, had open in its place at a time."""
        if at_ns is None:
            return None
        mates = self._mates(stream, lambda order: order.before(at_ns, at_ns))
        mine = (mate for mate in mates if _names_itself(stream, mate) and _open_at(mate, at_ns))
        return next((mate for mate in mine if _was_sending(mate, at_ns)), None)

    def has_more(self, stream: "Stream", at_ns: int) -> bool:
        """Return whether more streams than are looked through began after a time, or were open then."""
        orders = [self._order_of((owner, stream.vbucket)) for owner in self._owners[stream.connection.number]]
        return any(order.has_more_after(at_ns) or order.has_more_before(at_ns) for order in orders)

    def _mates(self, stream: "Stream", chosen: "_Choice") -> Iterator["Stream"]:
        """Yield streams of the same consumer in the same place on other connections, in the order of a choice."""
        connection = stream.connection
        for owner in self._owners[connection.number]:
            for mate in chosen(self._order_of((owner, stream.vbucket))):
                if mate.connection is not connection and _fits(stream, mate) and same(connection, mate.connection):
                    yield mate

    def _was_open(self, connection: "ConnectionState", stream: "Stream", at_ns: int) -> bool:
        """Return whether a stream in the same place was open on a connection at a time."""
        key = _place(connection, stream)
        latest = next(iter(self._order_of(key).before(at_ns, at_ns)), None) if key in self._streams else None
        return latest is not None and _open_at(latest, at_ns)

    def _order_of(self, key: "tuple[_Owner, int]") -> "StreamOrder":
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = StreamOrder(self._streams[key])
        return order


class Again(NamedTuple):
    """A stream in the place of another, and when it was asked for after that."""

    stream: "Stream"
    ts_ns: int | None
    evidence: str = ""  #: where not all of what it says of itself shows that it is the same consumer
    doubt: str = ""  #: why it may be another consumer, if it may

    def in_words(self, lost: "Stream") -> str:
        """Return when and where the stream in the place of a lost one was asked for."""
        connection = self.stream.connection
        place = "" if connection is lost.connection else f" on connection {connection.number}"
        verb = "reopened" if self.stream.reopened else "asked for again"
        text = f"{verb}{place} at {clock(self.ts_ns)}{self.evidence}"
        return f"may have been {text}: {self.doubt}" if self.doubt else text


class StreamOrder:
    """Streams in the order in which they began, and were asked for last: after a refusal, one is asked for again."""

    def __init__(self, streams: "list[Stream]") -> None:
        asked = [(each.requests[-1].ts_ns or 0, each) for each in streams if len(each.requests) > 1]
        order = sorted([*((_began(stream), stream) for stream in streams), *asked], key=itemgetter(0))
        self._streams = [stream for _, stream in order]
        self._times = [ts_ns for ts_ns, _ in order]
        self._ends = list(accumulate(map(ended, self._streams), max))  # of those so far, the latest

    def after(self, ts_ns: int) -> "list[Stream]":
        """Return the first streams that began, or were asked for, at a time or later."""
        at = bisect_left(self._times, ts_ns)
        return self._streams[at : at + FURTHER]

    def before(self, ts_ns: int, open_ns: int) -> "list[Stream]":
        """Return the last streams that began, or were asked for, before a time, latest first.

        ``open_ns``: those are left out before which all had ended by this time.
        """
        at = bisect_left(self._times, ts_ns)
        return self._streams[max(bisect_right(self._ends, open_ns, hi=at), at - FURTHER) : at][::-1]

    def has_more_after(self, ts_ns: int) -> bool:
        """Return whether more streams than ``after`` gives began at a time or later."""
        return len(self._times) - bisect_left(self._times, ts_ns) > FURTHER

    def has_more_before(self, ts_ns: int) -> bool:
        """Return whether more streams than ``before`` gives began before a time, and may be open then."""
        at = bisect_left(self._times, ts_ns)
        return at - bisect_right(self._ends, ts_ns, hi=at) > FURTHER


#: Whose streams are kept together: a connection's, those of a client id, those of a host.
_Owner = tuple[str, int | str | None]
_Choice = Callable[[StreamOrder], "Iterable[Stream]"]


def _owners(connection: "ConnectionState") -> tuple[_Owner, ...]:
    client_id = connection.identity.client_id
    named: tuple[_Owner, ...] = () if client_id is None else (("id", client_id),)
    return (*named, ("host", host(connection)))


def _place(connection: "ConnectionState", stream: "Stream") -> "tuple[_Owner, int]":
    """Return what the streams of a connection are kept by that are in the place of a stream."""
    return ("connection", connection.number), stream_key(stream.vbucket, stream.stream_id)


def _began(stream: "Stream") -> int:
    """Return when a stream began; of one that was open when the capture began, before everything."""
    if not stream.requests and stream.number == 1 and not stream.connection.lossy:
        return _BEFORE
    return stream.first_ns or 0


def _granted(stream: "Stream") -> int:
    """Return when a stream was granted; one that was not captured so, when it began."""
    return stream.first_ns or 0 if stream.granted_ns is None else stream.granted_ns


def _asked_after(stream: "Stream", ts_ns: int) -> int | None:
    """Return when a stream was first asked for after a time; one that was not captured so, when it began."""
    asked = (each.ts_ns for each in stream.requests if each.ts_ns is not None and each.ts_ns >= ts_ns)
    return next(asked, stream.first_ns)


def _open_at(stream: "Stream", ts_ns: int) -> bool:
    """Return whether a stream that began before a time was open then, or asked for."""
    if stream.requests and (not stream.granted or (stream.requests[-1].ts_ns or 0) >= ts_ns):
        return False
    if stream.replaced and stream.connection.lossy and (stream.last_ns or 0) < ts_ns:
        return False  # its end was lost, or else no other would have been granted
    return ended(stream) > ts_ns


def ended(stream: "Stream") -> int:
    """Return when a stream ended, or was closed, or its connection; later than everything where none of it came."""
    ends = (stream.ended_ns, stream.closed_ns, stream.connection.ended_ns)
    return min((end for end in ends if end is not None), default=_NEVER)


def _was_sending(stream: "Stream", ts_ns: int) -> bool:
    """Return whether a stream had surely not ended by a time: no end of it can have been lost before."""
    return (stream.last_ns or 0) >= ts_ns or not stream.connection.lost_after(stream.last_ns)


def _fits(stream: "Stream", mate: "Stream") -> bool:
    """Return whether two streams of one vbucket have one purpose: the same id, or the same collections."""
    if stream.stream_id == mate.stream_id:
        return True
    one, other = stream.request, mate.request
    return one is not None and other is not None and one.purpose == other.purpose


def _say(one: "ConnectionState", other: "ConnectionState") -> bool:
    """Return whether two connections of one consumer both say who it is."""
    mine, theirs = one.identity, other.identity
    named = mine.family is not None and theirs.family is not None
    return one is other or named or (mine.client_id is not None and theirs.client_id is not None)


def _names_itself(stream: "Stream", mate: "Stream") -> bool:
    """Return whether not the host alone says that both are of one consumer. A name is unique on its server only."""
    one, other = stream.connection, mate.connection
    if one.identity.client_id is not None and other.identity.client_id is not None:
        return True
    return one.name is not None and one.name == other.name and one.server_address != other.server_address


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def _product(agent: str | None) -> str | None:
    """Return the agent of a HELLO, without what differs between its connections."""
    try:
        parsed = parse_json((agent or "").encode())
    except ValueError:
        return agent
    name = parsed.get("a") if isinstance(parsed, dict) else None
    return name if isinstance(name, str) else None
