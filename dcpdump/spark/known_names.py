"""Carry the names of collections from split to split: what each says is taken upon what was known before it.

Names are shared by all connections to a bucket, so they are no part of what is known of one connection. The forms here
are values only, as all that tasks are given and return.
"""

from collections.abc import Collection, Iterable

from dcpdump.wire.collection_names import LAST, ConnectionNames, ConnectionState, Said, ServerNames, TableState

Ends = tuple[str, str]  #: the two ends of a connection, in order
#: What is known at a place: by server and bucket, and by connection.
NamesState = tuple[tuple[tuple[tuple[str, str], TableState], ...], tuple[tuple[Ends, ConnectionState], ...]]
#: What was said on which connection, in which frame; the number of one that began in the split, else -1.
Told = tuple[Ends, int, int, tuple[object, ...]]
NOTHING: NamesState = ((), ())


class KnownNames:
    """What is known of names between two splits, from a state that ``state`` returned."""

    def __init__(self, state: NamesState = NOTHING) -> None:
        buckets, connections = state
        self.servers = ServerNames()
        for place, table in buckets:
            found = self.servers.of_bucket(place)
            if found is not None:
                self.servers.restore_table(found, table)
        self._connections: dict[Ends, ConnectionNames] = {}
        for ends, known in connections:
            self.on(ends).restore(known, self.servers)
        self._frame = 0

    def on(self, ends: Ends) -> ConnectionNames:
        """Return the names of the connection between two ends."""
        return self._connections.setdefault(ends, ConnectionNames())

    def follow(self, told: Iterable[Told]) -> None:
        """Take what a split says. Of a connection that begins there, what was said before between its ends is gone."""
        begun: dict[Ends, int] = {}
        for ends, number, _, said in told:
            if number >= 0 and begun.get(ends) != number:
                begun[ends] = number
                self._connections.pop(ends, None)
            if said:
                self._frame += 1
                self.on(ends).take(Said(*said), self.servers, self._frame)  # type: ignore[arg-type]

    def state(self, connections: Collection[Ends]) -> NamesState:
        """Return what is known, as values: by bucket, and of these connections."""
        found = ((ends, self._connections[ends].state()) for ends in connections if ends in self._connections)
        buckets = ((place, table.state()) for place, table in self.servers.by_bucket.items())
        return tuple(sorted(buckets)), tuple(sorted(found, key=lambda each: each[0]))


def begun(ends: Ends, number: int) -> Told:
    """Return that a connection that began in a split is there at its end."""
    return ends, number, LAST, ()
