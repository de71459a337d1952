"""Standing: whether flow control holds a producer back at the end of what was captured, and how that is known.

Of an exact account it is seen. Of a relative one, or where the buffer's size was not captured, it is inferred from
what the producer did before: where it waited for acknowledgements, again and again at the same number of outstanding
bytes, that number is what the window holds. Nothing is inferred from silence alone.
"""

from enum import Enum
from typing import NamedTuple

from dcpdump.streams.facts import Mark
from dcpdump.streams.intervals import between
from dcpdump.streams.knowledge import CARVED, ONE_DIRECTION
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.window import Window
from dcpdump.streams.wording import clock

#: As many acknowledgements at least, of the latest so many, have to show a producer that waits for them.
_ENOUGH = 3
_LATEST = 8
#: A producer waits for an acknowledgement if it was silent before it for so many times as long as after it.
_PROMPT = 4


class FlowState(Enum):
    """What flow control does to a producer. The values are codes."""

    OFF = "off"
    NOT_ACCEPTED = "not_accepted"  #: or no answer was captured
    OPEN = "open"
    BLOCKED = "blocked"
    EXCEEDED = "exceeded"
    UNKNOWN = "unknown"


class FlowEvidence(Enum):
    """How a fact is known. The values are codes."""

    SEEN = "seen"
    INFERRED = "inferred"
    NOT_CAPTURED = "not_captured"


class FlowStatus(NamedTuple):
    """How a window stands, how that is known, and since when the producer is blocked."""

    state: FlowState
    evidence: FlowEvidence = FlowEvidence.SEEN
    since_ns: int | None = None


def flow_status(connection: ConnectionState, now_ns: int | None) -> FlowStatus:
    """Return how the window of a connection stands."""
    window = connection.window
    if window.off or (window.complete and window.size is None and window.asked is None):
        return FlowStatus(FlowState.OFF)
    if window.is_exceeded:
        return FlowStatus(FlowState.EXCEEDED)
    if window.is_blocked:
        return FlowStatus(FlowState.BLOCKED, since_ns=window.blocked_since)
    if window.complete:
        return FlowStatus(FlowState.OPEN if window.size is not None else FlowState.NOT_ACCEPTED)
    if not connection.has_both_sides:
        return FlowStatus(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    if (
        connection.setup.open_frame is not None
        and window.asked is None
        and not window.acks
        and not _may_have_asked(connection)
    ):
        return FlowStatus(FlowState.OFF, FlowEvidence.INFERRED)
    if (
        window.size is not None
        and window.max_unknown is not None
        and window.outstanding + window.max_unknown < window.size
    ):
        return FlowStatus(FlowState.OPEN)
    return _inferred(window, now_ns)


def stands_still(connection: ConnectionState, now_ns: int | None, least_ns: int) -> bool:
    """Return whether a producer is blocked at a time, with nothing acknowledged for so long at least.

    A consumer that is slower than its producer fills the window again and again: it stands still only if the producer
    waits for more than twice as long as ever before.
    """
    if None not in (now_ns, connection.end.ts_ns):
        now_ns = min(now_ns or 0, connection.end.ts_ns or 0)
    found, window = flow_status(connection, now_ns), connection.window
    if found.state is not FlowState.BLOCKED:
        return False
    waited = [each.lasting_ns for each in window.blocked.kept]
    if found.evidence is FlowEvidence.INFERRED:
        waited += [mark.waited_ns or 0 for mark in window.marks if _waited(mark)]
    since = max((ns for ns in (found.since_ns, window.last_ack_ns) if ns is not None), default=None)
    still = between(since, now_ns) or 0
    return still >= least_ns and still > 2 * max(waited, default=0)


def why_blocked(window: Window, found: FlowStatus) -> str:
    """Return why a producer is taken to be blocked, in words."""
    least = "" if window.complete else "at least "
    of = "" if window.size is None else f" of {window.size:,}"
    text = f"{least}{window.outstanding:,}{of} bytes not acknowledged since {clock(found.since_ns)}"
    if found.evidence is FlowEvidence.SEEN:
        return text
    size = "" if window.size is not None else "; the buffer size was not captured"
    return f"inferred: {text}, and it waited for acknowledgements at this level before{size}"


def _may_have_asked(connection: ConnectionState) -> bool:
    """Return whether a control that asks for flow control may have been sent and not captured."""
    producer_direction = connection.producer_direction
    return (
        connection.setup.open_frame is None
        or producer_direction is None
        or bool(connection.sides[1 - producer_direction].losses)
    )


def why_unknown(connection: ConnectionState) -> str:
    """Return why it is not known whether a producer is blocked, in words."""
    window = connection.window
    if connection.carved:
        return CARVED
    if not connection.has_both_sides:
        return ONE_DIRECTION
    if window.size is None:
        return "the buffer size was not captured"
    waiting = f"{window.outstanding:,} of {window.size:,} bytes"
    return f"acknowledgements may be missing, and {waiting} or more are outstanding"


def _inferred(window: Window, now_ns: int | None) -> FlowStatus:
    """Return what follows from the producer's waits for a relative account."""
    marks = window.marks
    latest = marks[-_LATEST:]
    waits = [mark for mark in latest if _waited(mark)]
    largest = max((_before(mark) for mark in marks), default=0)
    least = largest - 2 * _message(window)
    repeated = [mark for mark in waits if _before(mark) >= least]
    if len(waits) * 4 < len(latest) * 3 or len(repeated) < _ENOUGH:
        return FlowStatus(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    silent = between(window.last_sent_ns, now_ns) or 0
    if window.sent - window.acked < least:
        return FlowStatus(FlowState.OPEN, FlowEvidence.INFERRED)
    if silent <= _PROMPT * max(mark.resumed_ns or 0 for mark in waits):
        return FlowStatus(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    return FlowStatus(FlowState.BLOCKED, FlowEvidence.INFERRED, window.last_sent_ns)


def _waited(mark: Mark) -> bool:
    """Return whether the producer waited for an acknowledgement, as it had for the one before."""
    waited, resumed = mark.waited_ns, mark.resumed_ns
    return waited is not None and resumed is not None and waited > 0 and resumed * _PROMPT <= waited


def _before(mark: Mark) -> int:
    """Return what was outstanding before an acknowledgement."""
    return mark.outstanding + mark.acked


def _message(window: Window) -> int:
    """Return the size of the largest kind of message."""
    sizes = zip(window.counted.bytes, window.counted.frames, strict=True)
    return max((-(-size // frames) for size, frames in sizes if frames), default=0)
