"""Watching: a dissection that remembers how connections ended."""

from collections.abc import Iterator
from typing import NamedTuple

from dcpdump.batch.dissection import Dissection
from dcpdump.net.connections import Delivery
from dcpdump.net.event import End
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
from dcpdump.tls.secrets import Secrets


class Ended(NamedTuple):
    """A connection was ended by the sender of a direction."""

    connection: int
    direction: int
    reason: str
    ts_ns: int | None


class Watching(Dissection):
    """A dissection that also keeps how its connections ended, to be taken away by its owner."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self.ended: list[Ended] = []
        self.most_connections = limits.connections  #: that are to be remembered

    def is_over(self, number: int) -> bool:
        """Return whether no frame of a connection can come any more, by its number."""
        return number not in self._conversations and not self._connections.lives(number)

    def _take(self, deliveries: list[Delivery]) -> Iterator[Record]:
        for connection, direction, event in deliveries:
            if isinstance(event, End) and event.reason in _ENDS:
                by = 1 - direction if event.by_peer else direction
                when = event.seen.ts_ns if event.reset_ns is None else event.reset_ns
                self.ended.append(Ended(connection.number, by, event.reason, when))
        return super()._take(deliveries)


_ENDS = frozenset({"fin", "rst", "reused"})
