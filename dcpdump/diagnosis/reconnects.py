"""Troubles of consumers: connections that end again and again, with streams open that are asked for on the next one."""

from collections import Counter
from collections.abc import Iterable, Iterator
from statistics import median

from dcpdump.diagnosis import words
from dcpdump.diagnosis.evidence import Evidence
from dcpdump.diagnosis.trouble import Command, Trouble, TroubleCode
from dcpdump.streams.causes import Cause
from dcpdump.streams.connection_end import ended_by, why_closed
from dcpdump.streams.consumer import host
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import client, short_name, span

#: So many connections of one consumer, one after another, are no accident.
_MANY = 5
_AGAIN = frozenset({Cause.REOPENED, Cause.ASKED_AGAIN})
_LISTED = 40  #: ranges of connections in a command, at most


def reconnect_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the consumers that lost their connections to a server again and again."""
    for connections in _by_consumer(evidence):
        chain = _one_after_another(connections)
        if len(chain) >= _MANY:
            yield _trouble(chain)


def _by_consumer(evidence: Evidence) -> Iterable[list[ConnectionState]]:
    """Return the connections that ended with a stream open which was asked for on another one, by consumer."""
    found: dict[object, dict[int, ConnectionState]] = {}
    for stream, verdict in evidence.judged:
        connection = stream.connection
        over = stream.end_frame is not None or stream.closed_ns is not None or stream.next is not None
        if verdict.cause in _AGAIN and not over and None not in (connection.first_ns, connection.ended_ns):
            found.setdefault(_consumer(connection), {})[connection.number] = connection
    return (list(connections.values()) for connections in found.values())


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


def _trouble(chain: list[ConnectionState]) -> Trouble:
    first, last = chain[0], chain[-1]
    lasting = span((last.ended_ns or 0) - (first.first_ns or 0))
    lasted = span(int(median((each.ended_ns or 0) - (each.first_ns or 0) for each in chain)))
    ways = Counter(words.ENDS[ended_by(each)] for each in chain)
    how = ", ".join(f"{count:,} {way}" for way, count in ways.most_common())
    rivals = sum(bool(why_closed(each)) for each in chain)
    why = f"; {rivals:,} as another connection took the name" if rivals else ""
    numbers = ",".join(text for text, _ in words.ranges(each.number for each in chain)[:_LISTED])
    return Trouble(
        TroubleCode.RECONNECTS,
        f"{len(chain):,} connections of {short_name(first.name) or host(first) or client(first)} to "
        f"{first.server_address or 'a server'} ended one after another in {lasting}, with streams open that were asked "
        "for again",
        Command("conns", ("--connection", numbers)),
        f"a connection lasted {lasted} (median); {how}{why}",
        "reconnects",
        len(chain),
        tuple(each.number for each in chain),
        ts_ns=first.ended_ns,
    )
