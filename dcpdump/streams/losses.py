"""Losses: what was not captured of a connection, or of the others of its consumer, and may be what is looked for.

That a consumer did not ask again is said only where each request of it would have been captured: on any of its
connections, and on any between the same two hosts.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter

from dcpdump.streams.consumer import host, same
from dcpdump.streams.knowledge import Reason, Unknown, lost_since, missing_of
from dcpdump.streams.state import ConnectionState

#: So many connections that lost bytes after a moment are looked through for one of the same consumer.
_FURTHER = 100

_Torn = tuple[int, ConnectionState]  #: when something of a connection was lost last


class Losses:
    """What was lost of the connections of a ledger that is closed, by their consumers."""

    def __init__(self, connections: Iterable[ConnectionState], evicted_ns: int = 0) -> None:
        """``evicted_ns``: when bytes were lost last of a connection that is none of these any more."""
        self._evicted_ns = evicted_ns
        self._by_owner: dict[str, list[_Torn]] = {}
        every = list(connections)
        if not any(each.lossy for each in every):
            return  # where nothing was lost, what begins late was merely silent before
        for connection in every:
            begins_ns = connection.first_ns or 0 if connection.starts_late else 0
            torn = max(connection.last_loss_ns, begins_ns)
            for owner in _owners(connection) if torn else ():
                self._by_owner.setdefault(owner, []).append((torn, connection))
        for each in self._by_owner.values():
            each.sort(key=itemgetter(0))

    def since(self, connection: ConnectionState, ts_ns: int | None) -> Unknown | None:
        """Return what may hide that the consumer of a connection asked for something after a time."""
        found = lost_since(connection, ts_ns)
        if found is not None or ts_ns is None:
            return found
        mate = next(self._mates(connection, ts_ns), None)
        if mate is None and self._evicted_ns >= ts_ns:
            return Unknown(Reason.BYTES_LOST, "bytes of connections that were not kept in memory were lost or skipped")
        if mate is None:
            many = any(len(torn) - at > _FURTHER for torn, at in self._torn(connection, ts_ns))
            text = f"bytes of over {_FURTHER} connections of its host were lost, not all were compared"
            return Unknown(Reason.TOO_MANY, text) if many else None
        if mate.lost_after(ts_ns):
            return missing_of(mate, f" of connection {mate.number}")
        return Unknown(Reason.STARTS_LATE, f"the beginning of connection {mate.number} was not captured")

    def _mates(self, connection: ConnectionState, ts_ns: int) -> Iterator[ConnectionState]:
        """Yield other connections on which the consumer of one may have asked, and which lost bytes after a time."""
        for torn, at in self._torn(connection, ts_ns):
            for _, mate in islice(torn, at, at + _FURTHER):
                if mate is not connection and (same(connection, mate) or hosts(connection) == hosts(mate)):
                    yield mate

    def _torn(self, connection: ConnectionState, ts_ns: int) -> Iterator[tuple[list[_Torn], int]]:
        """Yield the connections of each owner of one, and from where on they lost bytes after a time."""
        for owner in _owners(connection):
            torn = self._by_owner.get(owner, [])
            yield torn, bisect_left(torn, ts_ns, key=itemgetter(0))


def _owners(connection: ConnectionState) -> list[str]:
    """Return what the connections of one consumer have in common: its client id, or its host."""
    client_id, address = connection.identity.client_id, host(connection)
    return ([] if client_id is None else [f"id {client_id}"]) + ([] if address is None else [f"host {address}"])


def hosts(connection: ConnectionState) -> frozenset[str]:
    """Return the addresses of both ends, without ports."""
    return frozenset(each.rpartition(":")[0] for each in (connection.src, connection.dst))
