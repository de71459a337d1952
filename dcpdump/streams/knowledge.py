"""Knowledge: what was not captured of a connection and of its streams, and since when the rest is known.

A capture loses bytes of a direction, begins late, or holds chosen packets alone. A connection counts what is missing of
its two sides; a stream knows since when its state is certain (``Knowledge``), and what may be missing of it (``Gaps``).
Where a claim is not possible, ``Unknown`` has the reason. Moments are counted in frames of the connection.
"""

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.startup import dataclass
from dcpdump.streams.frame_event import NEVER, NOTHING_MISSED, Missed

if TYPE_CHECKING:
    from dcpdump.streams.state import ConnectionState

#: Why nothing is judged by what is missing of a connection.
CARVED = "this file was carved: only chosen packets are in it"
#: The other direction may have been captured: who sends nothing but acknowledgements of TCP has no message in it.
ONE_DIRECTION = "messages of only one direction of the connection were captured"
#: Later than all that was captured: of a loss at a time that is not known.
ANY_TIME = 1 << 64
#: Before the first frame: of what did not happen.
NOT_YET = -1
#: Losses of a stream of which the seqno before is remembered: the first few.
_LOSSES = 8


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


@dataclass(slots=True)
class CapturedSide:
    """What was captured of one direction of a connection, and what was not."""

    frames: int = 0
    bytes: int = 0
    latest_ns: int | None = None  #: the time of its last frame
    losses: int = 0  #: how often bytes were lost or skipped
    first_lost_at: int = NOT_YET  #: how many frames of the connection had come with the one behind its first loss
    lost_at: int = NOT_YET  #: and behind its latest
    lost_ns: int | None = None  #: when that was
    missed: Missed = NOTHING_MISSED  #: what of it is in no frame
    closed: bool = False  #: its FIN was captured

    def lose(self, at: int, ts_ns: int | None) -> None:
        """Note that bytes were lost or skipped after ``frames`` frames of the connection."""
        self.losses += 1
        self.lost_at, self.lost_ns = at, ts_ns
        if self.first_lost_at == NOT_YET:
            self.first_lost_at = at


class Knowledge(NamedTuple):
    """Since when the state of a stream is certain, as far as its producer's side goes."""

    since: int = NOT_YET  #: the loss behind which it is: ``CapturedSide.lost_at``
    missed: Missed = NOTHING_MISSED  #: what of that side was missing by then
    reason: str = ""  #: why its phase is not known, if not for lost bytes


class Gaps(NamedTuple):
    """What may be missing of a stream, as its producer's side lost bytes while it was open."""

    times: int = 0  #: how often bytes were lost that may have been its own
    bridged: int = 0  #: how often none of its own can have been lost: it continued just where it was
    missed: Missed = NOTHING_MISSED
    behind: tuple[int | None, ...] = ()  #: its last seqno before each loss, of the first few
    seqno: int | None = NEVER  #: its last seqno before the latest loss; NEVER: there was none
    cut: int = 0  #: messages about documents of which bytes of the key are missing

    def plus(self, missed: Missed, seqno: int | None) -> "Gaps":
        """Return it with one more loss, behind a seqno of the stream."""
        behind = self.behind if len(self.behind) >= _LOSSES else (*self.behind, seqno)
        return Gaps(self.times + 1, self.bridged, self.missed.plus(missed), behind, seqno, self.cut)


NO_GAPS = Gaps()


def lost_since(connection: "ConnectionState", ts_ns: int | None) -> Unknown | None:
    """Return what of both directions was not captured after a time; None where all was."""
    if not connection.has_both_sides:
        return Unknown(Reason.ONE_DIRECTION, ONE_DIRECTION)
    if connection.lost_after(ts_ns):
        return missing_of(connection, " of the connection")
    return None


def missing_of(connection: "ConnectionState", of: str) -> Unknown:
    """Return what is missing of a connection that lost bytes; ``of``: whose bytes they are, in words."""
    if connection.carved:
        return Unknown(Reason.CARVED, CARVED)
    return Unknown(Reason.BYTES_LOST, connection.missing.words(of))
