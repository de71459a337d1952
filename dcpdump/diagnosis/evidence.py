"""Evidence: all that a diagnosis is made from, of one input that was read to its end."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dcpdump.capture.damage import Health
from dcpdump.check.finding import Finding
from dcpdump.conversation import Tally
from dcpdump.net.counters import Counters
from dcpdump.quick_dataclass import dataclass, field
from dcpdump.streams.causes import Verdict
from dcpdump.streams.early_verdicts import EvictedStreams
from dcpdump.streams.ends_watching import Unanswered
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

if TYPE_CHECKING:
    from dcpdump.tls.sealing import Sealing

Judged = tuple[Stream, Verdict]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was learnt of an input, and which of it is wanted."""

    ledger: Ledger  #: closed
    judged: Sequence[Judged]  #: the streams that are wanted, with their verdicts
    connections: Sequence[ConnectionState]  #: that are wanted
    findings: Sequence[tuple[Finding, int]]  #: that are wanted, and how many more there are of each
    rules: int  #: that were asked
    tally: Tally
    counters: Counters
    health: Sequence[Health]  #: of each capture
    begins_ns: int | None  #: the earliest time of a packet
    ends_ns: int | None  #: the latest
    unanswered: Sequence[Unanswered] = ()  #: SYNs without an answer, of which no connection came
    failed: Sequence[tuple[int, "Sealing"]] = ()  #: connections of TLS that are wanted and failed, by number
    evicted: EvictedStreams = field(default_factory=EvictedStreams)  #: streams that are wanted, and were evicted

    @property
    def last_ns(self) -> int | None:
        """When the input ends: at the latest packet, or, where it was cut, later."""
        return max((each for each in (self.now_ns, self.ends_ns) if each is not None), default=None)

    @property
    def now_ns(self) -> int | None:
        """The time of the last packet, by which streams are judged."""
        return self.ledger.last_ns

    @property
    def dcp(self) -> list[ConnectionState]:
        """The connections that speak DCP."""
        return [each for each in self.connections if speaks_dcp(each)]

    @property
    def frame_bytes(self) -> int:
        """Return how long all frames are together: what was captured twice counts once."""
        ledger = self.ledger
        return ledger.evicted_bytes + sum(sum(each.bytes) for each in ledger.connections.values())

    @property
    def streams(self) -> int:
        """How many streams are wanted, with those that were evicted."""
        return len(self.judged) + self.evicted.streams

    @property
    def damage(self) -> int:
        """How many faults the captures have."""
        return sum(each.damage_count for each in self.health)

    @property
    def carved(self) -> list[str]:
        """What the captures say of themselves of which only chosen packets are there."""
        return [each.carved for each in self.health if each.carved]

    @property
    def drops(self) -> int:
        """How many packets were dropped while capturing."""
        return sum(each.drops for each in self.health)

    def kinds(self, number: int | None = None) -> "Counter[str]":
        """Count verdicts by their kinds: of all streams, or of those of a connection."""
        chosen = (verdict for stream, verdict in self.judged if number in (None, stream.connection.number))
        found = Counter(verdict.kind.value for verdict in chosen)
        found.update(self.evicted.kinds if number is None else self.evicted.by_connection.get(number, Counter()))
        return found


def speaks_dcp(connection: ConnectionState) -> bool:
    """Return whether DCP was spoken on a connection, as far as it was captured."""
    return connection.opened_by is not None or bool(connection.streams) or connection.feeder is not None
