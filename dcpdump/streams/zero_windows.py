"""Zero windows: when TCP let an end of a connection send nothing, because the other did not read what came."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from dcpdump.streams.intervals import Interval, Intervals, between
from dcpdump.streams.state import ConnectionState

#: Frames that come so long after a window was zero show that it opened: its packet was not captured.
_STALE_NS = 1_000_000_000


class ZeroWindows(NamedTuple):
    """When the receive window of one end was zero."""

    end: str  #: which end: producer or consumer, server or client; else one end
    intervals: Intervals  #: the last is up to the end, where it still is zero
    since_ns: int | None  #: it still is


def zero_windows(connection: ConnectionState, until_ns: int | None) -> Iterator[ZeroWindows]:
    """Yield the ends whose receive windows were zero, up to a time or the end of the connection."""
    if connection.ended_ns is not None and until_ns is not None:
        until_ns = min(until_ns, connection.ended_ns)
    for direction, window in sorted(connection.receive_windows.items()):
        since = zero_since(connection, direction)
        still = [] if since is None else [Interval(since, until_ns)]
        if window.zero or still:
            intervals = replace(window.zero, kept=[*window.zero.kept, *still])
            yield ZeroWindows(_end(connection, direction), intervals, since)


def zero_since(connection: ConnectionState, direction: int) -> int | None:
    """Return since when the receive window of the sender of a direction is zero; None where it is not."""
    window = connection.receive_windows.get(direction)
    if window is None or window.since_ns is None:
        return None
    later = between(window.since_ns, connection.latest_ns[1 - direction])
    return None if later is not None and later >= _STALE_NS else window.since_ns


def _end(connection: ConnectionState, direction: int) -> str:
    if connection.feeder is not None:
        return "producer" if direction == connection.feeder else "consumer"
    server = connection.roles.server
    return "one end" if server is None else "server" if direction == server else "client"
