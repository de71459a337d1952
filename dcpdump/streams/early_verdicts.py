"""Judge streams before the input ends, as they are about to be evicted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dcpdump.spec.statuses import ROLLBACK
from dcpdump.startup import dataclass, field
from dcpdump.streams.consumer import NAMELESS
from dcpdump.streams.frame_event import NOTHING_MISSED, Missed
from dcpdump.streams.ledger import Ledger, compare, conclude
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge


@contextmanager
def judging_early(ledger: Ledger, streams: Sequence[Stream]) -> Iterator[Judge]:
    """Provide a judge of streams that are over. What connections say of one another is compared only meanwhile."""
    by_connection: dict[ConnectionState, list[Stream]] = {}
    for stream in streams:
        by_connection.setdefault(stream.connection, []).append(stream)
    for connection, mine in by_connection.items():
        conclude(connection, mine)
    connections = ledger.connections.values()
    compare(connections, ledger.logs)
    try:
        yield Judge(ledger, early=True)
    finally:
        for connection in connections:
            connection.identity, connection.inferred = NAMELESS, None


@dataclass(slots=True)
class EvictedStreams:
    """What is still known of streams that were evicted, and of their connections."""

    kinds: Counter[str] = field(default_factory=Counter)  #: how many there were by the kinds of their verdicts
    troubled: Counter[str] = field(default_factory=Counter)  #: those in trouble
    rollbacks: int = 0
    connections: int = 0  #: that are evicted too
    missed: Missed = NOTHING_MISSED  #: what of these is in no frame
    by_connection: dict[int, Counter[str]] = field(default_factory=dict)  #: the kinds of those whose connection is not

    @property
    def streams(self) -> int:
        """How many streams there were."""
        return self.kinds.total()

    def evict(self, connection: ConnectionState) -> None:
        """Count a connection of streams that were evicted, and which is evicted itself."""
        self.connections += 1
        self.missed = self.missed.plus(connection.missing)
        self.by_connection.pop(connection.number, None)

    def add(self, streams: Sequence[Stream], judge: Judge) -> None:
        """Count streams that are about to be evicted."""
        for stream in streams:
            verdict = judge.verdict(stream)
            self.kinds[verdict.kind.value] += 1
            self.by_connection.setdefault(stream.connection.number, Counter())[verdict.kind.value] += 1
            self.troubled[verdict.kind.value] += verdict.trouble
            self.rollbacks += stream.count_requests(ROLLBACK)
