"""How a connection ended, and by whom: what its streams and its reconnects are judged by."""

from dcpdump.streams.causes import Cause
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import clock

#: By the end of a connection: by its client, and by its server.
_ENDS = {
    "fin": (Cause.CLOSED_BY_CLIENT, Cause.CLOSED_BY_SERVER),
    "rst": (Cause.RESET_BY_CLIENT, Cause.RESET_BY_SERVER),
}


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
