"""Define small values that describe connections and their streams."""

from typing import TYPE_CHECKING, NamedTuple

from dcpdump.spec import find
from dcpdump.spec.field import PRODUCER
from dcpdump.spec.opcodes import DCP_OPEN, DCP_SEQNO_ACKNOWLEDGED
from dcpdump.startup import dataclass, field
from dcpdump.streams.frame_event import FrameEvent

if TYPE_CHECKING:
    from dcpdump.streams.request import Request
    from dcpdump.streams.stream import Stream


#: The end of a stream that has none, where it asks for all that comes.
NEVER = (1 << 64) - 1


class Entry(NamedTuple):
    """One line of a failover log."""

    uuid: int
    seqno: int


class TakeoverState(NamedTuple):
    """A vbucket state that a takeover set."""

    state: int
    ts_ns: int | None
    frame: int


class ErrorReply(NamedTuple):
    """An error that a consumer answered to a message of a stream."""

    opcode: int
    status: int
    frame: int
    ts_ns: int | None


@dataclass(slots=True)
class Snapshot:
    """A snapshot, as its marker says."""

    start: int
    end: int
    flags: int
    frame: int
    ts_ns: int | None
    high_completed: int | None = None
    at: int = 0  #: how many frames of the connection had come with its marker
    items: int = 0  #: seqnos that came in it so far
    acked: bool = False  #: the acknowledgement that its flag asks for came
    acked_ns: int | None = None  #: then


@dataclass(slots=True)
class Control:
    """A DCP_CONTROL: what was asked, and what was answered."""

    key: str
    value: str
    frame: int
    ts_ns: int | None
    status: int | None = None  #: None: no answer was captured
    said: str = ""  #: what the server said about an error, with its reference


@dataclass(slots=True)
class SetupRefusal:
    """A step of setting up that was answered with an error and not accepted since: login, bucket, OPEN, ADD_STREAM."""

    opcode: int
    vbucket: int | None  #: of ADD_STREAM
    asked: str  #: the bucket of SELECT_BUCKET; empty where its request was not captured
    status: int
    count: int  #: how often it was refused
    frame: int  #: the number of the latest answer
    ts_ns: int | None
    losses: int  #: of its connection when it was answered
    said: str = ""  #: what the server said about it, with its reference


@dataclass(slots=True)
class Noops:
    """Keep-alives from the side that has the changes."""

    sent: int = 0
    answered: int = 0
    open_ns: int | None = None  #: when the one that waits for its answer was sent
    open_frame: int | None = None
    last_ns: int | None = None
    answered_ns: int | None = None  #: when one was answered last
    latencies_ns: list[int] = field(default_factory=list)  #: of the first hundred


@dataclass(slots=True, eq=False)
class UnansweredRequest:
    """A request without an answer, so far."""

    frame: FrameEvent  #: the request, without its bytes
    frames: int  #: how many the other end had sent before
    key: str = ""  #: of a control its key, of SELECT_BUCKET the bucket
    value: str = ""
    stream: "Stream | None" = None  #: of a stream request
    request: "Request | None" = None
    doubtful: bool = False  #: bytes were lost since, and maybe its answer
    overlaps: bool = (
        False  #: bytes were lost just before, and its answer may be among them if the capture is disordered
    )
    echo: int = 0  #: the number of a request with its opcode and opaque that came instead of its answer
    behind: bool = False  #: others with its opaque were sent before it, and the next answer may be to one of those


class NameTaken(NamedTuple):
    """Another connection was opened with the name of one."""

    by: int  #: its number
    ts_ns: int | None


class Excess(NamedTuple):
    """A time in which the producer sent into a full window: ``end_ns`` None where it still did at the end."""

    start_ns: int | None
    end_ns: int | None
    outstanding: int
    messages: int


class Mark(NamedTuple):
    """The counters at an acknowledgement, after it."""

    ts_ns: int | None
    outstanding: int  #: may be negative: more acknowledged than sent
    kinds: tuple[int, ...]  #: bytes sent by opcode, from FIRST on, as the wire has them
    frames: tuple[int, ...]  #: and their frames
    with_ids: int  #: frames with a stream id
    noops: int  #: bytes that do not count: of NOOPs,
    answers: int  #: and of answers to stream requests
    closing: int  #: bytes of messages of streams behind their CLOSE_STREAM,
    closed: int  #: and behind its answer
    markers: tuple[int, ...]  #: frames of snapshot markers, by their version
    sent: int  #: bytes that count
    received: int  #: of all that the producer sent, whether it counts or not; 0: not known
    acked: int = 0  #: with it
    waited_ns: int | None = None  #: from the last message to it; None where none came since the one before it
    resumed_ns: int | None = None  #: from the acknowledgement before it to the next message


# -- which messages flow control counts ---------------------------------------------------------------


def _counts(opcode: int) -> bool:
    message = find(opcode)
    return message.streamed and message.sender is PRODUCER and opcode != DCP_SEQNO_ACKNOWLEDGED


#: By opcode: whether flow control counts the message.
COUNTED: list[bool] = [_counts(opcode) for opcode in range(256)]
#: DCP's own opcodes, up to the last that is counted.
FIRST, LAST = DCP_OPEN, max(opcode for opcode in range(256) if COUNTED[opcode])
#: Bytes of a snapshot marker, by version: 1, 2.0, 2.1, 2.2. A stream id adds three.
MARKER_SIZES = (44, 61, 69, 77)
_VERSIONS = {size: at for at, size in enumerate(MARKER_SIZES)}
STREAM_ID_SIZE = 3


def count_marker(markers: list[int], length: int, stream_id: int) -> None:
    """Count a marker with those of its version, by its length."""
    at = _VERSIONS.get(length - STREAM_ID_SIZE if stream_id else length)
    if at is not None:
        markers[at] += 1


# -- times in which something lasted, such as a producer that had to wait -----------------------------

#: How many are kept; of later ones only the number and the total duration.
MOST = 10_000


class Interval(NamedTuple):
    """A time in which something lasted."""

    start_ns: int | None
    end_ns: int | None
    outstanding: int = 0  #: bytes that were not acknowledged, of flow control

    @property
    def lasting_ns(self) -> int:
        """Return how long it lasted; 0 if one of its times is unknown."""
        return between(self.start_ns, self.end_ns) or 0


@dataclass(slots=True)
class Intervals:
    """Intervals in the order of time, the first many of them."""

    kept: list[Interval] = field(default_factory=list)
    further: int = 0  #: that are not kept
    further_ns: int = 0  #: how long those lasted

    def add(self, interval: Interval) -> None:
        """Add the next one, which is over."""
        if len(self.kept) < MOST:
            self.kept.append(interval)
        else:
            self.further += 1
            self.further_ns += interval.lasting_ns

    def __len__(self) -> int:
        return len(self.kept) + self.further

    @property
    def total_ns(self) -> int:
        """Return how long all of them lasted."""
        return self.further_ns + sum(each.lasting_ns for each in self.kept)

    @property
    def longest(self) -> Interval:
        """Return the longest of those kept, of which there must be one."""
        return max(self.kept, key=lambda each: each.lasting_ns)

    def exceeded_by(self, lasted_ns: int | None, least_ns: int) -> bool:
        """Return whether something lasts for as long as ``least_ns``, and far longer than each of these did."""
        if lasted_ns is None or lasted_ns < least_ns:
            return False
        return not self.kept or lasted_ns > 2 * self.longest.lasting_ns


@dataclass(slots=True)
class Recurring:
    """Something that begins and ends, now and then."""

    lasts: bool = False
    since_ns: int | None = None  #: it does
    over: Intervals = field(default_factory=Intervals)  #: when it did

    def change(self, *, begins: bool, ts_ns: int | None) -> None:
        """Note that it begins or ends; a repeated note changes nothing."""
        if self.lasts and not begins:
            self.over.add(Interval(self.since_ns, ts_ns))
        if begins != self.lasts:
            self.lasts, self.since_ns = begins, ts_ns if begins else None


def between(first: int | None, last: int | None) -> int | None:
    """Return the time from one time to another; None where one is unknown, or the clock went back between them."""
    return None if first is None or last is None or last < first else last - first
