"""Define the kinds and causes of verdicts, and why there is none, as codes for decisions; texts are for people."""

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dcpdump.streams.failover_logs import Lag

# -- why something is unknown --------------------------------------------------------------------------

#: Why nothing is judged by what is missing of a connection.
CARVED = "this file was carved: only chosen packets are in it"
#: The other direction may have been captured: who sends nothing but acknowledgements of TCP has no message in it.
ONE_DIRECTION = "messages of only one direction of the connection were captured"


class Reason(Enum):
    """Why something is unknown."""

    STARTS_LATE = "starts-late"
    BYTES_LOST = "bytes-lost"
    CARVED = "carved"  #: only chosen packets are in the file
    ONE_DIRECTION = "one-direction"
    CLOCK_GOES_BACK = "clock-goes-back"  #: so that how long nothing came is not known
    OTHER_NODES = "other-nodes"  #: of which the capture has nothing, and which its consumer may have asked
    TOO_MANY = "too-many"  #: of what may be requested by its consumer, not all was looked through
    FLOW_CONTROL = "flow-control-unknown"  #: it may hold the producer back
    SYSTEM_COLLECTIONS = "system-collections"  #: what did not come may be of these, which not every user gets


class Unknown(NamedTuple):
    """Why something is unknown, and that in words."""

    reason: Reason
    text: str


# -- situations: what can be said of a capture, how bad each is, and what it needs to be certain ------
# This is the one table of it. ``diagnose``, ``report`` and ``streams`` go by it: *wrong* is what is certain to be
# wrong; a *note* is worth a look, and may be as it should be; *unknown* is what the capture does not show, with the
# reason.


class Degree(Enum):
    """How bad something is, the worst first. The values are codes."""

    WRONG = "wrong"
    NOTE = "note"
    UNKNOWN = "unknown"


class Situation(Enum):
    """The situations that a capture may show, worst first: their order is their rank. The values are codes."""

    LOOP = "rollback-loop"
    NAME_TAKEN = "name-taken"
    TLS_FAILED = "tls-failed"
    ENDED = "ended"
    ENDS = "ended-repeatedly"  #: by its server, for one reason, and from where it began each time
    STUCK = "stuck"
    NOT_SET_UP = "setup-refused"  #: a login, a bucket, DCP_OPEN or ADD_STREAM
    REFUSED = "refused"
    ROLLED_BACK = "rolled-back"
    MISCOUNTED = "acknowledged-wrongly"
    VIOLATION = "violation"
    BLOCKED = "blocked"
    ZERO_WINDOW = "zero-window"  #: an end does not read, and TCP lets the other send nothing
    NO_ANSWER = "no-answer"  #: an end acknowledges nothing, not even retransmitted bytes
    EXCEEDED = "window-exceeded"
    CLOSED = "connection-closed"
    RECONNECTS = "reconnects"  #: connections of a consumer end again and again, with streams open
    CONFLICT = "overlaps"
    ROLLBACKS = "rollbacks"  #: of streams that are in no trouble since
    REFUSALS = "refusals"  #: of a stream that is requested again and again, and that may be right elsewhere or later
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
        return _SITUATION_RANKS[self]


class Proof(NamedTuple):
    """The text of a situation, and its proof."""

    label: str  #: in a word or two
    certain: str  #: the condition under which it is certain, and so wrong; empty: it never is
    otherwise: Degree | None = None  #: its degree if the condition does not hold; None: it is not reported


_NOTE, _UNKNOWN = Degree.NOTE, Degree.UNKNOWN

SITUATIONS = {
    Situation.LOOP: Proof(
        "rolled back",
        "the same rollback more than three times for the same request, or for the uuid that does not fit, whatever was "
        "granted in between",
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
        "a stream ended and was not requested again in 10 s, and the capture holds its consumer's connections to the "
        "node that it would have asked",
        _UNKNOWN,
    ),
    Situation.ENDS: Proof(
        "ended",
        "a server ended a stream more than three times for one reason, requested from one seqno each time, for 10 s, "
        "and the latest got no further",
        _NOTE,
    ),
    Situation.STUCK: Proof(
        "stuck",
        "what has to come next is late by --idle, the producer sends nothing else either or has passed the stream over "
        "again and again, and flow control does not hold it back",
        _UNKNOWN,
    ),
    Situation.NOT_SET_UP: Proof(
        "refused",
        "a login, a bucket, DCP_OPEN or ADD_STREAM was refused, not with a status of which later tries help, and not "
        "accepted since, nor on a later connection of its host and agent, and no bytes were lost",
        _NOTE,
    ),
    Situation.REFUSED: Proof(
        "refused",
        "a stream was refused and not granted since; not where another node may have the vbucket, or later tries help",
        _UNKNOWN,
    ),
    Situation.ROLLED_BACK: Proof(
        "rolled back",
        "a stream was rolled back and not requested again in 10 s, and the capture holds its consumer's connections to "
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
        "a connection ended by its server with streams open that were not requested again; or by its client, as the "
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
    Situation.REFUSALS: Proof("refused", "", _NOTE),
    Situation.NOOP: Proof("no answer", "", _NOTE),
    Situation.RULE: Proof("suspicious", "", _NOTE),
    Situation.LOST: Proof("lost", "", _NOTE),
    Situation.DAMAGED: Proof("damaged", "", _NOTE),
}
_SITUATION_RANKS = {situation: rank for rank, situation in enumerate(Situation)}


def degree_of(situation: Situation, *, certain: bool) -> Degree | None:
    """Return how bad a situation is. ``certain``: the condition for certainty holds."""
    row = SITUATIONS[situation]
    return Degree.WRONG if certain and row.certain else row.otherwise


class VerdictKind(Enum):
    """What became of a stream, in a word or two."""

    FLOWING = "open and flowing"
    QUIET = "quiet"
    STUCK = "stuck"
    BLOCKED = "blocked by flow control"
    HELD_UP = "blocked by TCP"  #: its consumer does not read, or does not answer
    REQUESTED = "requested"
    ROLLED_BACK = "rolled back"
    REFUSED = "refused"
    ENDED = "ended"
    TAKEN_OVER = "taken over"
    UNKNOWN = "unknown"


class Cause(Enum):
    """Why a stream is what it is; of one that ended, what came of it, or who ended its connection."""

    # open
    FLOWING = "flowing"
    NOTHING_SENT = "nothing-sent"
    IDLE = "idle"
    WAITS_FOR_TURN = "waits-for-turn"  #: in the middle of a snapshot, while its producer serves other streams
    SNAPSHOT_INCOMPLETE = "snapshot-incomplete"
    ADVANCED_NOT_SENT = "seqno-advanced-not-sent"  #: the rest of a snapshot is filtered out, and no SEQNO_ADVANCED came
    END_NOT_SENT = "end-not-sent"
    STATE_NOT_ANSWERED = "state-not-answered"
    PENDING_NOT_SENT = "pending-not-sent"  #: a takeover sent all, and does not set the vbucket's state
    ACTIVE_NOT_SENT = "active-not-sent"  #: a takeover set pending, and not active since
    TAKEOVER_NOT_ENDED = "takeover-not-ended"  #: it set active, and no STREAM_END came
    SNAPSHOT_NOT_ACKNOWLEDGED = "snapshot-not-acknowledged"
    PREPARE_UNDECIDED = "prepare-undecided"  #: a durable write is neither committed nor aborted for long
    BEHIND_SERVER = "behind-server"
    NOOPS_MISSING = "noops-missing"  #: and the producer sends nothing else
    WINDOW_FULL = "window-full"
    ZERO_WINDOW = "zero-window"
    NO_ANSWER = "no-answer"  #: of TCP to what is sent again and again
    # not granted
    NOT_ANSWERED = "not-answered"
    LOOP = "rollback-loop"
    NOT_ASKED_AGAIN = "not-asked-again"
    NOT_MY_VBUCKET = "not-my-vbucket"
    OUT_OF_RANGE = "out-of-range"
    STILL_OPEN = "still-open"
    INVALID_REQUEST = "invalid-request"
    NO_ACCESS = "no-access"
    NOT_SUPPORTED = "not-supported"
    TEMPORARY_FAILURE = "temporary-failure"
    NO_MEMORY = "no-memory"
    UNKNOWN_COLLECTION = "unknown-collection"
    UNKNOWN_SCOPE = "unknown-scope"
    STREAM_ID = "stream-id"
    OTHER_STATUS = "other-status"
    # ended
    FINISHED = "finished"
    CLOSED = "closed-by-consumer"
    CLOSED_BY_PRODUCER = "closed-by-producer"  #: by the end that sends its messages, as ns_server does
    HANDED_OVER = "handed-over"
    REPLACED = "replaced"
    REOPENED = "reopened"
    ASKED_AGAIN = "asked-again"
    MAY_BE_REOPENED = "may-be-reopened"  #: by what may be its consumer, under another id or on another host
    OPEN_ELSEWHERE = "open-elsewhere"
    NOT_REOPENED_YET = "not-reopened-yet"
    ABANDONED = "abandoned"
    # ended with its connection, and not reopened
    RESET_BY_SERVER = "reset-by-server"
    RESET_BY_CLIENT = "reset-by-client"
    CLOSED_BY_SERVER = "connection-closed-by-server"
    CLOSED_BY_CLIENT = "connection-closed-by-client"
    CONNECTION_ENDED = "connection-ended"  #: by a side that is not known, or by another of the same ports


class Due(NamedTuple):
    """What has to come next, as the cause of a verdict and in words."""

    cause: Cause
    text: str
    unknown_because: Unknown | None = None  #: why it may not be due nevertheless
    since_ns: int | None = None  #: since when, if not since the latest message
    frame: int = 0  #: the number of the frame that waits for it, if it is not the latest


class Verdict(NamedTuple):
    """What became of a stream, and why that is known."""

    kind: VerdictKind
    cause: Cause | Reason
    why: str = ""
    situation: Situation | None = None  #: that it is, if it is one that is to be looked at
    certain: bool = False  #: what that needs to be certain holds
    lag: "Lag | None" = None  #: how far its consumer is behind; None where that no longer matters

    @property
    def degree(self) -> Degree | None:
        """Return how bad it is; None where it is as it should be."""
        if self.situation is not None:
            return degree_of(self.situation, certain=self.certain)
        return Degree.UNKNOWN if self.kind is VerdictKind.UNKNOWN else None

    @property
    def trouble(self) -> bool:
        """Return whether it is certain to be wrong."""
        return self.degree is Degree.WRONG

    @property
    def text(self) -> str:
        """Return the verdict as a phrase: ``ended (StateChanged (2); abandoned)``."""
        return f"{self.kind.value} ({self.why})" if self.why else self.kind.value

    @property
    def rank(self) -> tuple[int, int]:
        """Return what verdicts are ordered by, the worst first; those that are as they should be are alike."""
        degree = self.degree
        return _DEGREE_RANKS[degree], 0 if self.situation is None or degree is None else self.situation.rank


_DEGREE_RANKS = {degree: rank for rank, degree in enumerate((*Degree, None))}
