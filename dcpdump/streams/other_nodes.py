"""Other nodes: whether a capture holds the connections on which a consumer would have asked elsewhere for a vbucket.

A vbucket moves between nodes, and its consumer follows it. A capture of one node's traffic does not show that, so what
became of such a stream is known only where the consumer's connections to other nodes were captured too.
"""

from dcpdump.streams.causes import Reason, Unknown
from dcpdump.streams.consumer import host, same
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState

UNSEEN = Unknown(Reason.OTHER_NODES, "another node may know, and this capture has no connection of its client to one")


class OtherNodes:
    """The connections of a ledger that is closed, by their consumers."""

    def __init__(self, ledger: Ledger) -> None:
        self._until_ns = ledger.last_ns if ledger.alone else None
        self._by_owner: dict[str | None, list[ConnectionState]] = {}
        for connection in ledger.connections.values():
            for owner in _owners(connection):
                self._by_owner.setdefault(owner, []).append(connection)
        self._last: dict[int, int] = {}  # by the number of a connection

    def unseen(self, connection: ConnectionState, after_ns: int | None) -> Unknown | None:
        """Return that another node may know what a consumer did after a time; None where the capture shows others."""
        last_ns = self._last.get(connection.number)
        if last_ns is None:
            last_ns = self._last[connection.number] = self._seen_until(connection)
        return UNSEEN if after_ns is None or last_ns < after_ns else None

    def _seen_until(self, connection: ConnectionState) -> int:
        """Return up to when the consumer of a connection is seen on one to another node; 0 where it is on none."""
        mates = (each for owner in _owners(connection) for each in self._by_owner[owner])
        here = connection.server_address
        ends = [
            each.ended_ns or self._until_ns or each.last_ns
            for each in mates
            if each.server_address not in (None, here) and each.opened_by is not None and same(connection, each)
        ]
        return max((each for each in ends if each is not None), default=0)


def _owners(connection: ConnectionState) -> list[str | None]:
    client_id, address = connection.identity.client_id, host(connection)
    return [*([] if client_id is None else [f"id {client_id}"]), address]
