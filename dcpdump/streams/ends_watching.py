"""Remember of a dissection how its connections ended, and when TCP held them up, whatever its pieces are."""

from abc import ABC
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dcpdump.batch.dissector import BlockDissector, Dissection
from dcpdump.net.connections import Delivery
from dcpdump.net.event import End, TcpChange
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
from dcpdump.tls.secrets import Secrets

if TYPE_CHECKING:
    from dcpdump.batch.part import Part  # noqa: F401 - named below, in a string

P = TypeVar("P")

#: Systems send a SYN again after a second.
_AGAIN_NS = 500_000_000


class Ended(NamedTuple):
    """A connection was ended by the sender of a direction."""

    connection: int
    direction: int
    reason: str
    ts_ns: int | None


class Unanswered(NamedTuple):
    """Who asked whom for a connection, again and again, and got no answer."""

    number: int
    src: str
    dst: str
    lasting_ns: int  #: from the first SYN to the last


class EndsWatching(BlockDissector[P], ABC):
    """A dissector that also keeps how its connections ended, to be taken away by its owner."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self.ended: list[Ended] = []
        self.unanswered: list[Unanswered] = []  #: once the input has ended
        self.most_connections = limits.connections  #: that are to be remembered
        self.most_state = limits.state  #: bytes that connections and streams may take

    def watch(self, *, closely: bool) -> None:
        """Keep from now on when ends of connections begin or cease to hold the other up.

        ``closely``: pieces are for rules too.
        """
        self._connections.tcp_changes = []

    @property
    def tcp_changes(self) -> list[TcpChange]:
        """Which ends began or ceased to hold the other up, to be taken away by its owner; none where not watched."""
        changes = self._connections.tcp_changes
        return [] if changes is None else changes

    def close_blocks(self) -> Iterator[list[P]]:
        """End the input, and yield the pieces that are left; note which SYNs were not answered.

        A single one may have been answered after the capture; one that is captured twice is not sent again.
        """
        for connection, lasting_ns in self._connections.unanswered:
            if lasting_ns >= _AGAIN_NS:
                src, dst = map(str, connection.flow)
                self.unanswered.append(Unanswered(connection.number, src, dst, lasting_ns))
        yield from super().close_blocks()

    def resets(self, until_ns: int) -> Iterator[Ended]:
        """Yield who reset the connections that were reset by a time, and are not closed: more may follow a RST."""
        for number, direction, ts_ns in self._connections.resets:
            if ts_ns <= until_ns:
                yield Ended(number, direction, "rst", ts_ns)

    @property
    def living(self) -> int:
        """How many connections packets may still be of."""
        return len(self._connections.halves) // 2

    def remember(self, most: int) -> None:
        """Remember no more connections than so many: those that were used least recently are closed."""
        self._connections.remember(most)

    def is_over(self, number: int) -> bool:
        """Return whether no frame of a connection can come any more, by its number."""
        return number not in self._conversations and not self._connections.remembers(number)

    def _take(self, deliveries: list[Delivery]) -> Iterator[Record]:
        for connection, direction, event in deliveries:
            if isinstance(event, End) and event.reason in _ENDS:
                by = 1 - direction if event.by_peer else direction
                when = event.seen.ts_ns if event.reset_ns is None else event.reset_ns
                self.ended.append(Ended(connection.number, by, event.reason, when))
        return super()._take(deliveries)


_ENDS = frozenset({"fin", "rst", "reused"})


class Watching(EndsWatching["Part"], Dissection):
    """A dissection that also keeps how its connections ended, to be taken away by its owner."""
