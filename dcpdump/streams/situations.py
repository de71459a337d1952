"""Situations: what can be said of a capture, how bad each is, and what it needs to be certain.

This is the one table of it. ``diagnose``, ``report`` and ``streams`` go by it: *wrong* is what is certain to be wrong;
a *note* is worth a look, and may be as it should be; *unknown* is what the capture does not show, with the reason.
"""

from enum import Enum
from typing import NamedTuple


class Degree(Enum):
    """How bad something is, the worst first. The values are codes."""

    WRONG = "wrong"
    NOTE = "note"
    UNKNOWN = "unknown"


class Situation(Enum):
    """What can be said of a capture, worst first: the order of the members is their rank. The values are codes."""

    LOOP = "rollback-loop"
    NAME_TAKEN = "name-taken"
    TLS_FAILED = "tls-failed"
    ENDED = "ended"
    STUCK = "stuck"
    NOT_SET_UP = "setup-refused"  #: a login, a bucket, DCP_OPEN or ADD_STREAM
    REFUSED = "refused"
    ROLLED_BACK = "rolled-back"
    MISCOUNTED = "acknowledged-wrongly"
    VIOLATION = "violation"
    BLOCKED = "blocked"
    ZERO_WINDOW = "zero-window"  #: an end does not read, and TCP lets the other send nothing
    NO_ANSWER = "no-answer"  #: an end acknowledges nothing, not even what is sent again
    EXCEEDED = "window-exceeded"
    CLOSED = "connection-closed"
    RECONNECTS = "reconnects"  #: connections of a consumer end again and again, with streams open
    CONFLICT = "overlaps"
    ROLLBACKS = "rollbacks"  #: of streams that are in no trouble since
    NOOP = "noop-not-answered"
    RULE = "suspicious"
    LOST = "bytes-lost"
    DAMAGED = "capture-damaged"

    @property
    def label(self) -> str:
        """Return it in a word or two, for people."""
        return SITUATIONS[self].label

    @property
    def rank(self) -> int:
        """Return its place among all, the worst first."""
        return _RANKS[self]


class Proof(NamedTuple):
    """What is said of a situation, and what proves it."""

    label: str  #: in a word or two
    certain: str  #: what it needs to be certain, so that it is wrong; empty: it never is
    otherwise: Degree | None = None  #: what it is where that does not hold; None: it is not said


_NOTE, _UNKNOWN = Degree.NOTE, Degree.UNKNOWN

SITUATIONS = {
    Situation.LOOP: Proof(
        "rolled back",
        "the same rollback more than three times for the same request, whatever was granted in between",
    ),
    Situation.NAME_TAKEN: Proof(
        "name taken",
        "the server closed three connections or more, each as the next was opened with its name",
        _NOTE,
    ),
    Situation.TLS_FAILED: Proof(
        "TLS failed",
        "a fatal alert ended a handshake, and no later connection of the same client to the server came through",
        _NOTE,
    ),
    Situation.ENDED: Proof(
        "ended",
        "a stream ended and was not asked for again in 10 s, and the capture holds its consumer's connections to the "
        "node that it would have asked",
        _UNKNOWN,
    ),
    Situation.STUCK: Proof(
        "stuck",
        "what has to come next is late by --idle, the producer sends nothing else either or has passed the stream over "
        "again and again, and flow control does not hold it back",
        _UNKNOWN,
    ),
    Situation.NOT_SET_UP: Proof(
        "refused",
        "a login, a bucket, DCP_OPEN or ADD_STREAM was refused and not accepted since, and no bytes were lost",
        _UNKNOWN,
    ),
    Situation.REFUSED: Proof(
        "refused",
        "a stream was refused and not granted since; not where another node may have the vbucket, or later tries help",
        _UNKNOWN,
    ),
    Situation.ROLLED_BACK: Proof(
        "rolled back",
        "a stream was rolled back and not asked for again in 10 s, and the capture holds its consumer's connections to "
        "other nodes",
        _UNKNOWN,
    ),
    Situation.MISCOUNTED: Proof(
        "miscounted",
        "messages or parts of them explain exactly what is acknowledged too much, or too little so that the window "
        "will fill",
        _NOTE,
    ),
    Situation.VIOLATION: Proof("violation", "a rule of severity violation is broken"),
    Situation.BLOCKED: Proof(
        "blocked",
        "the window stays full, nothing acknowledged for 10 s and for twice the longest wait before",
        _NOTE,
    ),
    Situation.ZERO_WINDOW: Proof(
        "not reading",
        "an end's TCP receive window stays zero, for 10 s and for twice the longest time before",
        _NOTE,
    ),
    Situation.NO_ANSWER: Proof(
        "no acks",
        "an end acknowledges nothing for 10 s, not even what is sent again, up to the end",
        _NOTE,
    ),
    Situation.EXCEEDED: Proof("overrun", "a producer sent 32 messages, or for a second, into a window that was full"),
    Situation.CLOSED: Proof(
        "closed",
        "a connection ended by its server with streams open that were not asked for again; or by its client, as the "
        "server was silent",
        _NOTE,
    ),
    Situation.RECONNECTS: Proof(
        "reconnects",
        "five connections of a consumer or more ended one after another with streams open, reset or closed by the "
        "server",
        _NOTE,
    ),
    Situation.CONFLICT: Proof("conflict", "bytes of one place in a connection were captured twice, and differ"),
    Situation.ROLLBACKS: Proof("rolled back", "", _NOTE),
    Situation.NOOP: Proof("no answer", "", _NOTE),
    Situation.RULE: Proof("suspicious", "", _NOTE),
    Situation.LOST: Proof("lost", "", _NOTE),
    Situation.DAMAGED: Proof("damaged", "", _NOTE),
}
_RANKS = {situation: rank for rank, situation in enumerate(Situation)}


def degree_of(situation: Situation, *, certain: bool) -> Degree | None:
    """Return how bad a situation is. ``certain``: what it needs to be certain holds."""
    row = SITUATIONS[situation]
    return Degree.WRONG if certain and row.certain else row.otherwise
