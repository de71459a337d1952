"""Trouble: something that is wrong, or not judged, as data. What decides reads its codes, sentences are for people."""

import shlex
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from dcpdump.escape import bytes_of
from dcpdump.quick_dataclass import dataclass
from dcpdump.streams.stream import Stream


class TroubleSeverity(Enum):
    """How bad a trouble is; the order is that of ``--fail-on``. The values are codes."""

    WRONG = "wrong"
    SUSPICIOUS = "suspicious"


class TroubleCode(Enum):
    """What is wrong, worst first: the order of the members is their rank. The values are codes."""

    LOOP = "rollback-loop"
    ENDED = "ended"
    STUCK = "stuck"
    NOT_SET_UP = "setup-refused"  #: a login, a bucket, DCP_OPEN or ADD_STREAM
    REFUSED = "refused"
    ROLLED_BACK = "rolled-back"
    VIOLATION = "violation"
    BLOCKED = "blocked"
    ZERO_WINDOW = "zero-window"  #: an end does not read, and TCP lets the other send nothing
    NO_ANSWER = "no-answer"  #: an end acknowledges nothing, not even what is sent again
    EXCEEDED = "window-exceeded"
    CLOSED = "connection-closed"
    NOOP = "noop-not-answered"
    RECONNECTS = "reconnects"  #: connections of a consumer end again and again, with streams open
    LOST = "bytes-lost"
    DAMAGED = "capture-damaged"
    UNCLEAR = "end-unclear"  #: a stream is over, and it is not known whether its consumer asked for it again
    MISCOUNTED = "acknowledged-wrongly"
    RULE = "suspicious"

    @property
    def label(self) -> str:
        """Return it in a word or two, for people."""
        return _LABELS.get(self, self.value)

    @property
    def severity(self) -> TroubleSeverity:
        """Return how bad it is."""
        return TroubleSeverity.SUSPICIOUS if self in _SUSPICIOUS else TroubleSeverity.WRONG


_LABELS = {
    TroubleCode.LOOP: "rolled back",
    TroubleCode.NOT_SET_UP: "refused",
    TroubleCode.ROLLED_BACK: "rolled back",
    TroubleCode.ZERO_WINDOW: "not reading",
    TroubleCode.NO_ANSWER: "no acks",
    TroubleCode.EXCEEDED: "overrun",
    TroubleCode.CLOSED: "closed",
    TroubleCode.NOOP: "no answer",
    TroubleCode.LOST: "lost",
    TroubleCode.DAMAGED: "damaged",
    TroubleCode.UNCLEAR: "stopped",
    TroubleCode.MISCOUNTED: "miscounted",
}
_SUSPICIOUS = frozenset(
    {
        TroubleCode.RECONNECTS,
        TroubleCode.LOST,
        TroubleCode.DAMAGED,
        TroubleCode.UNCLEAR,
        TroubleCode.MISCOUNTED,
        TroubleCode.RULE,
    }
)
_RANKS = {code: rank for rank, code in enumerate(TroubleCode)}


class Command(NamedTuple):
    """What to run, to be shown more: a command of this program and its options."""

    name: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong: all of one cause, as one sentence."""

    code: TroubleCode
    text: str  #: the sentence
    command: Command
    detail: str = ""  #: what else there is to say, in a second one
    cause: str = ""  #: the code of the verdict's cause, or of the rule
    count: int = 1  #: of streams, findings or connections
    connections: tuple[int, ...] = ()
    streams: tuple[Stream, ...] = ()
    frames: tuple[int, ...] = ()  #: that prove it, the first few
    ts_ns: int | None = None  #: when it was seen first

    @property
    def rank(self) -> tuple[int, int, int]:
        """Return what troubles are ordered by: what they are, how many there are, when they began."""
        return _RANKS[self.code], -self.count, self.ts_ns or 0


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
    more = [
        word
        for name, text in options
        if name not in command.options and command.name in _TAKEN_BY.get(name, (command.name,))
        for word in (name, text)
        if word
    ]
    files = [f"./{name}" if name.startswith("-") and name != "-" else name for name in captures]
    return " ".join(["dcpdump", command.name, *map(quoted, (*files, *command.options, *more))])


def quoted(word: str) -> str:
    """Quote a word for a shell; what cannot be printed is written as its bytes."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, bytes_of(word)))}'"


def _escaped(byte: int) -> str:
    char = chr(byte)
    return char if char.isascii() and char.isprintable() and char not in "'\\" else f"\\x{byte:02x}"
