"""Trouble: what is wrong, worth a look, or not judged, as data. What decides reads codes, sentences are for people."""

import shlex
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from dcpdump.escape import bytes_of
from dcpdump.quick_dataclass import dataclass
from dcpdump.streams.causes import Degree, Situation, degree_of
from dcpdump.streams.stream import Stream


class Command(NamedTuple):
    """What to run, to be shown more: a command of this program and its options."""

    name: str
    options: tuple[str, ...] = ()


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
