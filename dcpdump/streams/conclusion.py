"""Conclude what was learnt of streams and connections, so that they can be judged: at the end, or before that."""

from collections.abc import Collection, Iterable

from dcpdump.streams.consumer import identify
from dcpdump.streams.failover_logs import Logs
from dcpdump.streams.requests import doubt
from dcpdump.streams.roles import infer
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream


def conclude(connection: ConnectionState, streams: Iterable[Stream]) -> None:
    """Have streams of a connection know what was lost since their last messages, and which answers are in doubt."""
    if connection.carved:
        connection.leave_out()
    feeder, mine = connection.feeder, list(streams)
    for stream in mine:
        if feeder is not None and not stream.ended and stream.losses != connection.losses[feeder]:
            stream.lose(feeder)
    doubt(connection, mine)


def compare(connections: Collection[ConnectionState], logs: Logs) -> None:
    """Have connections know which consumers, servers and buckets they are of."""
    for connection in connections:
        connection.identity = identify(connection)
    infer(connections)
    logs.close(connections)
