"""Trouble: what is wrong, worth a look, or not judged, as data. What decides reads codes, sentences are for people."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dcpdump.capture.damage import Health
from dcpdump.check.finding import Finding
from dcpdump.conversation import Tally
from dcpdump.escape import bytes_of
from dcpdump.net.reassembly import Counters
from dcpdump.startup import dataclass, field
from dcpdump.streams.causes import Degree, Situation, Verdict, degree_of
from dcpdump.streams.dissection import Unanswered
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import EvictedStreams

if TYPE_CHECKING:
    from dcpdump.tls.outcome import TlsReport


class Command(NamedTuple):
    """What to run, to be shown more: a command of this program, its options, and on which connections."""

    name: str
    options: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()  #: numbers, or ranges of them; empty: all


T = TypeVar("T")
K = TypeVar("K")


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by a key, in the order in which they come."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def on(name: str, connections: Iterable[int], *options: str) -> Command:
    """Return a command on connections."""
    return Command(name, options, tuple(map(str, connections)))


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong, or worth a look: all of one cause, as one sentence, and what follows from it."""

    situation: Situation
    text: str  #: the sentence
    command: Command
    detail: str = ""  #: what else there is to say, in a second one
    cause: str = ""  #: the code of the verdict's cause, or of the rule
    count: int = 1  #: of streams, findings or connections
    connections: tuple[int, ...] = ()
    streams: tuple[Stream, ...] = ()
    frames: tuple[int, ...] = ()  #: that prove it, the first few
    ts_ns: int | None = None  #: when it was seen first
    certain: bool = True  #: what its situation needs to be certain holds
    follows: tuple[str, ...] = ()  #: what follows from it, or led to it, each as a sentence

    @property
    def degree(self) -> Degree | None:
        """Return how bad it is; None: nothing is to be said of it."""
        return degree_of(self.situation, certain=self.certain)

    @property
    def wrong(self) -> bool:
        """Return whether it is certain to be wrong."""
        return self.degree is Degree.WRONG

    @property
    def label(self) -> str:
        """Return what it is, in a word or two."""
        return self.situation.label if self.wrong else "note"

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """Return what troubles are ordered by: how bad, what they are, how many there are, when they began."""
        return not self.wrong, self.situation.rank, -self.count, self.ts_ns or 0


class UnjudgedCode(Enum):
    """Why something was not judged. The values are codes."""

    ONE_DIRECTION = "one-direction"
    STARTS_LATE = "starts-late"
    SETUP = "setup-unknown"  #: a step was refused, and bytes were lost since
    STREAMS = "streams-unknown"
    FLOW = "flow-control-unknown"
    RULES = "rules-unknown"
    ENCRYPTED = "encrypted"
    SYN = "syn-not-answered"


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Something that the capture does not show."""

    code: UnjudgedCode
    text: str
    count: int = 1
    connections: tuple[int, ...] = ()
    command: Command | None = None


#: Options that not every command takes, and which do.
_TAKEN_BY = {
    "--vbucket": frozenset({"streams", "check", "rollbacks", "read", "stats"}),
    "--stream-id": frozenset({"streams", "check", "rollbacks", "read", "stats"}),
    "--idle": frozenset({"streams"}),
}


def command_line(command: Command, captures: Sequence[str], options: Sequence[tuple[str, str]]) -> str:
    """Return a command line. ``options``: with which the captures were read; where the command has its own, that."""
    own = ("--connection", ",".join(command.connections), *command.options) if command.connections else command.options
    more = [
        word
        for name, text in options
        if name not in own and command.name in _TAKEN_BY.get(name, (command.name,))
        for word in (name, text)
        if word
    ]
    files = [f"./{name}" if name.startswith("-") and name != "-" else name for name in captures]
    return " ".join(["dcpdump", command.name, *map(quoted, (*files, *own, *more))])


def quoted(word: str) -> str:
    """Quote a word for a shell; what cannot be printed is written as its bytes."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, bytes_of(word)))}'"


def _escaped(byte: int) -> str:
    char = chr(byte)
    return char if char.isascii() and char.isprintable() and char not in "'\\" else f"\\x{byte:02x}"


# -- evidence: all that a diagnosis is made from, of one input that was read to its end ---------------

Judged = tuple[Stream, Verdict]


@dataclass(frozen=True)
class Evidence:
    """The ledger and findings of an input, and the filters on them."""

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
    failed: Sequence[tuple[int, "TlsReport"]] = ()  #: connections of TLS that are wanted and failed, by number
    evicted: EvictedStreams = field(default_factory=EvictedStreams)  #: streams that are wanted, and were evicted

    @property
    def last_ns(self) -> int | None:
        """When the input ends: at the latest packet, or, where it was cut, later."""
        return max((each for each in (self.now_ns, self.ends_ns) if each is not None), default=None)

    @property
    def now_ns(self) -> int | None:
        """The time of the last packet, by which streams are judged."""
        return self.ledger.last_ns

    @cached_property
    def dcp(self) -> list[ConnectionState]:
        """The connections that speak DCP."""
        return [each for each in self.connections if speaks_dcp(each)]

    @property
    def several(self) -> bool:
        """Return whether there are connections to tell from one another."""
        return len(self.dcp) > 1

    @property
    def frame_bytes(self) -> int:
        """Return how long all frames are together: what was captured twice counts once."""
        ledger = self.ledger
        return ledger.evicted_bytes + sum(each.bytes for each in ledger.connections.values())

    @property
    def streams(self) -> int:
        """Return how many streams are chosen, forgotten ones included."""
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
    return connection.setup.speaks_dcp or bool(connection.stream_count)
