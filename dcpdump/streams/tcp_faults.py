"""TCP faults: when an end of a connection held the other up: it did not read, or did not answer at all."""

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from dcpdump.net.event import NO_ANSWER, ZERO_WINDOW
from dcpdump.streams.intervals import Interval, Intervals, between
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import clock

#: Frames that come so long after it show that it is over: what ended it was not captured.
_STALE_NS = 1_000_000_000
#: An end that has not read for so long does not read; a window that is zero for less is what a busy one has.
_LONG_NS = 1_000_000_000


class FaultWords(NamedTuple):
    """What is said of an end that holds the other up."""

    does: str
    seen: str  #: by what that is known
    so: str  #: what it comes to, or from


class TcpFault(Enum):
    """How an end holds the other up. The values are codes."""

    ZERO_WINDOW = ZERO_WINDOW  #: it does not read: its receive window is zero
    NO_ANSWER = NO_ANSWER  #: it does not acknowledge what is sent to it again and again

    def words(self, *, past: bool) -> FaultWords:
        """Return what is said of an end that does so, or did."""
        return _WORDS[self][past]


#: By fault: while it lasts, and when it is over.
_WORDS = {
    TcpFault.ZERO_WINDOW: (
        FaultWords("does not read", "its TCP receive window is zero", "nothing can be sent to it"),
        FaultWords("did not read", "its TCP receive window was zero", "nothing could be sent to it"),
    ),
    TcpFault.NO_ANSWER: (
        FaultWords("acknowledges nothing", "what is sent is sent again", "its host or the network is down"),
        FaultWords("acknowledged nothing", "what was sent was sent again", "its host or the network was down"),
    ),
}


class TcpFaults(NamedTuple):
    """When an end held the other up in one way."""

    fault: TcpFault
    end: str  #: which end: producer or consumer, server or client; else one end
    intervals: Intervals  #: the last is up to the end, where it still does
    since_ns: int | None  #: it still does


def tcp_faults(connection: ConnectionState, until_ns: int | None) -> Iterator[TcpFaults]:
    """Yield how the ends held each other up, to a time or the end of the connection."""
    if connection.ended_ns is not None and until_ns is not None:
        until_ns = min(until_ns, connection.ended_ns)
    for (fault, direction), known in sorted(connection.tcp_faults.items()):
        since = fault_since(connection, TcpFault(fault), direction)
        still = [] if since is None else [Interval(since, until_ns)]
        if known.over or still:
            intervals = replace(known.over, kept=[*known.over.kept, *still])
            yield TcpFaults(TcpFault(fault), _end(connection, direction), intervals, since)


def fault_since(connection: ConnectionState, fault: TcpFault, direction: int) -> int | None:
    """Return since when the sender of a direction holds the other end up; None where it does not."""
    known = connection.tcp_faults.get((fault.value, direction))
    if known is None or known.since_ns is None:
        return None
    later = between(known.since_ns, connection.latest_ns[1 - direction])
    return None if later is not None and later >= _STALE_NS else known.since_ns


def held_until(connection: ConnectionState, direction: int, until_ns: int) -> int:
    """Return the latest time up to another at which the sender of a direction held the other end up; else 0."""
    return max(_held_until(connection, fault, direction, until_ns) for fault in TcpFault)


def _held_until(connection: ConnectionState, fault: TcpFault, direction: int, until_ns: int) -> int:
    since = fault_since(connection, fault, direction)
    if since is not None and since <= until_ns:
        return until_ns
    known = connection.tcp_faults.get((fault.value, direction))
    over = reversed(known.over.kept) if known is not None else ()
    return next((min(each.end_ns or 0, until_ns) for each in over if (each.start_ns or 0) <= until_ns), 0)


class HeldUp(NamedTuple):
    """One end has held the other up for long."""

    fault: TcpFault
    since_ns: int
    text: str
    before: Intervals  #: when it did before


def held_up(connection: ConnectionState, until_ns: int | None, *, by_producer: bool = False) -> HeldUp | None:
    """Return how the consumer, or the producer, holds the other end up at a time; None where that is not known."""
    if connection.feeder is None:
        return None
    direction, end = (connection.feeder, "producer") if by_producer else (1 - connection.feeder, "consumer")
    for fault in TcpFault:
        since = fault_since(connection, fault, direction)
        if since is not None and (between(since, until_ns) or 0) >= _LONG_NS:
            said = fault.words(past=connection.ended_ns is not None)
            text = f"its {end} {said.does}: {said.seen} since {clock(since)}"
            return HeldUp(fault, since, text, connection.tcp_faults[fault.value, direction].over)
    return None


def _end(connection: ConnectionState, direction: int) -> str:
    if connection.feeder is not None:
        return "producer" if direction == connection.feeder else "consumer"
    server = connection.roles.server
    return "one end" if server is None else "server" if direction == server else "client"
