"""Consumers: connections whose vbuckets are pictured together, since one client shares them out among them."""

from collections.abc import Sequence

from dcpdump.streams.consumer import alike, host, same
from dcpdump.streams.state import ConnectionState

#: Of the consumers on one host, so many are compared with a connection.
_COMPARED = 50

Group = tuple[list[ConnectionState], set[int]]  #: connections, and their vbuckets


def consumers(connections: Sequence[ConnectionState]) -> list[list[ConnectionState]]:
    """Return connections with streams by their consumers: of one client, and with vbuckets of their own."""
    out: list[list[ConnectionState]] = []
    by_owner: dict[str, list[Group]] = {}
    for connection in connections:
        mine = {stream.vbucket for stream in connection.streams if stream.known}
        if not mine:
            continue
        owners = [f"host {host(connection)}", f"id {connection.identity.client_id}"]
        near = (group for owner in owners for group in by_owner.get(owner, [])[-_COMPARED:])
        found = next((group for group in near if _shares(group, connection, mine)), None)
        if found is None:
            found = [], set()
            out.append(found[0])
            for owner in owners[: 1 + (connection.identity.client_id is not None)]:
                by_owner.setdefault(owner, []).append(found)
        found[0].append(connection)
        found[1].update(mine)
    return out


def _shares(group: Group, connection: ConnectionState, vbuckets: set[int]) -> bool:
    """Return whether a connection is of the consumer of others, and has vbuckets that are not theirs meanwhile.

    One that is restarted has other ids, and vbuckets that it had before.
    """
    members, theirs = group
    first, common = members[0], vbuckets & theirs
    if same(first, connection):
        return not common or _after(members, connection)
    restarted = host(first) == host(connection) and alike(first, connection)
    return restarted and bool(common) and _after(members, connection)


def _after(group: Sequence[ConnectionState], connection: ConnectionState) -> bool:
    """Return whether a connection begins when all of a group are over."""
    begins = connection.first_ns
    return begins is not None and all(each.ended_ns is not None and each.ended_ns <= begins for each in group)
