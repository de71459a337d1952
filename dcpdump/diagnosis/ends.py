"""Ends of connections: those that end again and again, those that take each other's names, those that servers ended."""

from collections import Counter
from collections.abc import Iterable, Iterator
from statistics import median

from dcpdump.diagnosis import words
from dcpdump.diagnosis.evidence import Evidence
from dcpdump.diagnosis.trouble import Command, Trouble
from dcpdump.plural import counted
from dcpdump.streams.causes import Cause, Situation
from dcpdump.streams.consumer import host
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.verdict import ended_by, why_closed
from dcpdump.streams.wording import client, clock, short_name, span

#: So many connections of one consumer, one after another, are no accident.
_MANY = 5
#: So many that a server closed as others took their name are of two clients, or of one that does so again and again.
_TAKEN = 3
_AGAIN = frozenset({Cause.REOPENED, Cause.ASKED_AGAIN})
_BY_SERVER = frozenset({Cause.RESET_BY_SERVER, Cause.CLOSED_BY_SERVER})
_LISTED = 40  #: ranges of connections in a command, at most


def end_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield what becomes clear of the ends of connections: names that were taken, reconnects, ends by servers."""
    said: set[int] = set()
    for trouble in (*_names_taken(evidence), *_reconnects(evidence)):
        if said.isdisjoint(trouble.connections):
            yield trouble
            said.update(trouble.connections)
    yield from _by_servers(evidence, said)


def _names_taken(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the names for which connections were opened in turn, each of which the server closed for the next."""
    found: dict[tuple[str, str, str], list[ConnectionState]] = {}
    for each in evidence.connections:
        if each.place is not None and why_closed(each):
            found.setdefault(each.place, []).append(each)
    for (server, _, name), closed in found.items():
        if len(closed) < _TAKEN:
            continue
        closed.sort(key=lambda each: each.ended_ns or 0)
        first, last = closed[0], closed[-1]
        lasting = span((last.ended_ns or 0) - (first.ended_ns or 0))
        hosts = sorted({host(each) or "?" for each in closed})
        numbers = tuple(each.number for each in closed)
        yield Trouble(
            Situation.NAME_TAKEN,
            f"connections named {short_name(name)} close each other: {server} closed {len(closed):,} of them in "
            f"{lasting}, each as the next was opened with its name",
            Command("conns", ("--connection", _listed(numbers))),
            f"a name may be open once on a server and bucket; two clients have it, or one opens again before it closes "
            f"({', '.join(hosts[: words.NAMED])})",
            "name-taken",
            len(closed),
            numbers,
            ts_ns=first.ended_ns,
        )


def _reconnects(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the consumers that lost their connections to a server again and again."""
    for connections in _by_consumer(evidence):
        chain = _one_after_another(connections)
        if len(chain) >= _MANY:
            yield _reconnect(chain)


def _by_consumer(evidence: Evidence) -> Iterable[list[ConnectionState]]:
    """Return the connections that ended with a stream open which was asked for on another one, by consumer."""
    found: dict[object, dict[int, ConnectionState]] = {}
    for connection in _reopened(evidence):
        if None not in (connection.first_ns, connection.ended_ns):
            found.setdefault(_consumer(connection), {})[connection.number] = connection
    return (list(connections.values()) for connections in found.values())


def _reopened(evidence: Evidence) -> Iterator[ConnectionState]:
    """Yield, for each stream that was open as its connection ended and was asked for again, the connection."""
    for stream, verdict in evidence.judged:
        over = stream.end_frame is not None or stream.closed_ns is not None or stream.next is not None
        if verdict.cause in _AGAIN and not over:
            yield stream.connection


def _consumer(connection: ConnectionState) -> object:
    """Return what the connections of a consumer to a server have in common: not its id, if it is restarted."""
    identity = connection.identity
    name = host(connection), identity.agent, identity.numberless or identity.family
    return name, connection.bucket, connection.server_address


def _one_after_another(connections: Iterable[ConnectionState]) -> list[ConnectionState]:
    """Return the most connections of which each began when the one before it had ended."""
    chain: list[ConnectionState] = []
    for each in sorted(connections, key=lambda connection: connection.ended_ns or 0):
        if not chain or (each.first_ns or 0) >= (chain[-1].ended_ns or 0):
            chain.append(each)
    return chain


def _reconnect(chain: list[ConnectionState]) -> Trouble:
    first, last = chain[0], chain[-1]
    lasting = span((last.ended_ns or 0) - (first.first_ns or 0))
    lasted = span(int(median((each.ended_ns or 0) - (each.first_ns or 0) for each in chain)))
    causes = Counter(ended_by(each) for each in chain)
    how = ", ".join(f"{count:,} {words.ENDS[cause]}" for cause, count in causes.most_common())
    rivals = sum(bool(why_closed(each)) for each in chain)
    why = f"; {rivals:,} as another connection took the name" if rivals else ""
    numbers = tuple(each.number for each in chain)
    return Trouble(
        Situation.RECONNECTS,
        f"{len(chain):,} connections of {short_name(first.name) or host(first) or client(first)} to "
        f"{first.server_address or 'a server'} ended one after another in {lasting}, with streams open that were asked "
        "for again",
        Command("conns", ("--connection", _listed(numbers))),
        f"a connection lasted {lasted} (median); {how}{why}",
        "reconnects",
        len(chain),
        numbers,
        ts_ns=first.ended_ns,
        certain=len(chain) - causes[Cause.CLOSED_BY_CLIENT] - causes[Cause.CONNECTION_ENDED] >= _MANY,
    )


def _by_servers(evidence: Evidence, said: set[int]) -> Iterator[Trouble]:
    """Yield the connections that their servers ended with streams open, all of which were asked for again."""
    several = len(evidence.dcp) > 1
    open_streams = Counter(each.number for each in _reopened(evidence))
    lost = {stream.connection.number for stream, verdict in evidence.judged if verdict.situation is Situation.CLOSED}
    for each in evidence.connections:
        count, cause = open_streams[each.number], ended_by(each)
        if not count or cause not in _BY_SERVER or each.number in said or each.number in lost:
            continue
        yield Trouble(
            Situation.CLOSED,
            server_ended(each, count, several=several) + ", asked for again since",
            Command("conns", ("--connection", str(each.number))),
            why_closed(each),
            cause.value,
            connections=(each.number,),
            ts_ns=each.ended_ns,
            certain=False,
        )


def server_ended(connection: ConnectionState, streams: int, *, several: bool) -> str:
    """Say that a server ended a connection while streams were open on it."""
    how = words.ENDS[ended_by(connection)].partition(" ")[0]
    server = connection.server_address or "the server"
    who = words.who(connection, several)
    return (
        f"{server} {how} the connection of {who} at {clock(connection.ended_ns)} with {counted(streams, 'stream')} open"
    )


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(text for text, _ in words.ranges(numbers)[:_LISTED])
