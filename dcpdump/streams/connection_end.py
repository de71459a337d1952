"""How a connection ended, by whom and why: what its streams and its reconnects are judged by."""

from dcpdump.streams.causes import Cause
from dcpdump.streams.intervals import between
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import clock

#: By the end of a connection: by its client, and by its server.
_ENDS = {
    "fin": (Cause.CLOSED_BY_CLIENT, Cause.CLOSED_BY_SERVER),
    "rst": (Cause.RESET_BY_CLIENT, Cause.RESET_BY_SERVER),
}
#: A server closes a connection whose name is taken at once; what came long before explains nothing.
_SOON_NS = 60 * 1_000_000_000


def closing(connection: ConnectionState) -> str:
    """Return how, by whom and when a connection ended, in words."""
    server = connection.roles.server if connection.ended_surely else None
    who = "one side" if server is None else "its server" if connection.ended_by == server else "its client"
    how = {"rst": "reset", "reused": "replaced"}.get(connection.end_reason, "closed")
    return f"connection {how} by {who} at {clock(connection.ended_ns)}"


def ended_by(connection: ConnectionState) -> Cause:
    """Return how a connection ended, and by whom, as far as that is known."""
    server = connection.roles.server if connection.ended_surely else None
    if server is None or connection.end_reason not in _ENDS:
        return Cause.CONNECTION_ENDED
    return _ENDS[connection.end_reason][connection.ended_by == server]


def why_closed(connection: ConnectionState) -> str:
    """Return that a server closed a connection for another of the same name, in words; empty where it did not."""
    taken, server = connection.name_taken, connection.roles.server
    if taken is None or not connection.ended_surely or connection.ended_by != server:
        return ""
    passed = between(taken.ts_ns, connection.ended_ns)
    if passed is None or not 0 <= passed <= _SOON_NS:
        return ""
    return f"connection {taken.by} took its name at {clock(taken.ts_ns)}, and a server closes the older"
