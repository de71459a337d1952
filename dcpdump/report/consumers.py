"""Consumers: connections whose vbuckets are pictured together, since one client shares them out among them."""

from collections.abc import Sequence

from dcpdump.streams.consumer import same
from dcpdump.streams.state import ConnectionState


def consumers(connections: Sequence[ConnectionState]) -> list[list[ConnectionState]]:
    """Return connections with streams by their consumers: of one client, and with vbuckets of their own."""
    out: list[tuple[list[ConnectionState], set[int]]] = []
    for connection in connections:
        mine = {stream.vbucket for stream in connection.streams if stream.known}
        if not mine:
            continue
        for group, theirs in out:
            if same(group[0], connection) and (not mine & theirs or _after(group, connection)):
                group.append(connection)
                theirs |= mine
                break
        else:
            out.append(([connection], mine))
    return [group for group, _ in out]


def _after(group: Sequence[ConnectionState], connection: ConnectionState) -> bool:
    """Return whether a connection begins when all of a group are over."""
    begins = connection.first_ns
    return begins is not None and all(each.ended_ns is not None and each.ended_ns <= begins for each in group)
