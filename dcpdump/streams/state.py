"""What is known of a connection, and of one DCP stream on it. None always means: not captured.

This is the one memory of a conversation: verdicts, explanations and the rules of ``check`` read it. What only rules
ask for (the keys of a snapshot) is kept where the connection is watched ``with_rules``.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dcpdump.net.event import AHEAD
from dcpdump.startup import dataclass, field
from dcpdump.streams.causes import CARVED, ONE_DIRECTION, Reason, Unknown
from dcpdump.streams.exchanges import Exchanges, UnansweredRequest
from dcpdump.streams.frame_event import HIDDEN, NOTHING_MISSED, UNKNOWN_LOSS, Before, FrameEvent, Missed, stream_key
from dcpdump.streams.identity import NAMELESS, Identity, Roles, inferred, seen
from dcpdump.streams.opcode_kinds import BUFFER_ACK, CONTROL
from dcpdump.streams.setup import Noops, Setup
from dcpdump.streams.stream import NOT_YET, KeyMemory, Snapshot, Stream
from dcpdump.streams.window import FAR, Recurring, Window
from dcpdump.wire.collection_names import Names

# -- what was captured of a connection, and what was not ----------------------------------------------

#: Later than all that was captured: of a loss at a time that is not known.
ANY_TIME = 1 << 64


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
        """Note that bytes were lost or skipped; ``at``: before which frame of the connection, by its count."""
        self.losses += 1
        self.lost_at, self.lost_ns = at, ts_ns
        if self.first_lost_at == NOT_YET:
            self.first_lost_at = at


# -- turns --------------------------------------------------------------------------------------------
# In which order a producer served the streams of a connection, those from memory and those from disk apart.

SECOND = 1_000_000_000


@dataclass(slots=True)
class Turns:
    """The turns of the streams of one connection, those from memory and those from disk apart."""

    served: Stream | None = None  #: whose message came last
    counts: list[int] = field(default_factory=lambda: [0, 0])  #: turns so far, from memory and from disk
    latest: list[Stream | None] = field(default_factory=lambda: [None, None])  #: whose turn came last, of each
    left_ns: list[int] = field(default_factory=lambda: [0, 0])  #: when a turn ended, of each
    pause_ns: int = SECOND  #: the longest that the producer was silent inside a snapshot, and then went on
    pauses_ns: list[int] = field(default_factory=lambda: [0, 0])  #: the longest that it served the other kind alone

    def pause(self, since_ns: int | None, until_ns: int | None, longest_ns: int = 0) -> None:
        """Note how long the producer was silent inside a snapshot; ``longest_ns``: the longest pause after that."""
        if since_ns is not None and until_ns is not None:
            longest_ns = max(longest_ns, until_ns - since_ns)
        if longest_ns > self.pause_ns:
            self.pause_ns = longest_ns

    def serve(self, stream: Stream, *, begins: bool = False) -> None:
        """Note that the current message is of another stream than the one before, or ``begins`` a snapshot."""
        kind, before, now_ns = stream.from_disk, self.served, stream.traffic.last_ns
        if before is not None and before is not stream:
            self.left_ns[before.from_disk] = before.traffic.last_ns or 0
            if now_ns is not None and self.left_ns[kind] and not begins:
                self.pauses_ns[kind] = max(self.pauses_ns[kind], now_ns - self.left_ns[kind])
        self.served = stream
        if begins or self.latest[kind] is not stream:
            self.latest[kind] = stream
            self.counts[kind] += 1
        stream.turns[kind] = self.counts[kind]


#: How many opaques that several streams had are remembered.
_MOST_SHARED = 16_384


@dataclass(slots=True, eq=False)
class Memory:
    """Facts that are shared by the connections of a ledger."""

    names: "dict[tuple[str, str, str], ConnectionState]" = field(default_factory=dict)
    #: by server, bucket and name: the connection that was opened last
    producing: "dict[tuple[str, int], Stream]" = field(default_factory=dict)
    #: by bucket and vbucket: the stream that was granted last
    keys: KeyMemory = field(default_factory=KeyMemory)


@dataclass(slots=True, eq=False)
class Lookup:
    """The streams of a connection by vbucket and stream id, and the requests in their places."""

    current: dict[int, Stream] = field(default_factory=dict)  #: by ``stream_key``
    by_opaque: dict[int, Stream] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)  #: opaques that several streams had at one time
    requests: int = 0  #: stream requests

    def share(self, opaque: int) -> None:
        """Note that several streams had an opaque at one time."""
        if len(self.shared) < _MOST_SHARED:
            self.shared.add(opaque)

    def shares(self, opaque: int) -> bool:
        """Return whether several streams had an opaque at one time; of very many such, it may be one of the others."""
        return opaque in self.shared or len(self.shared) >= _MOST_SHARED


class LastLoss(NamedTuple):
    """The last loss of a connection."""

    gap_at: int = NOT_YET  #: how many frames had come with the latest of which bytes are missing
    frame: int = 0  #: the number of the frame before which bytes were lost
    text: str = ""


@dataclass(slots=True, eq=False)
class ConnectionEnd:
    """The end of a TCP connection, and until when it was watched."""

    ts_ns: int | None = None  #: the first FIN, or the RST
    by: int | None = None  #: the direction whose end came first
    reason: str = ""  #: fin, rst, reused
    until_ns: int | None = None  #: until when it was watched, once the input is over
    over: bool = False  #: the input is over


@dataclass(slots=True, eq=False)
class ConnectionState:
    """One TCP connection. Direction 0 is what ``src`` sends, who opened it where the SYN was captured."""

    number: int
    src: str = ""
    dst: str = ""
    with_rules: bool = False  #: what only rules ask for is kept too
    memory: Memory = field(default_factory=Memory)  #: of all connections of its ledger
    syn: bool = False  #: the opening was captured
    carved: bool = False  #: only chosen packets are in the file
    setup: Setup = field(default_factory=Setup)
    server: int | None = None  #: the direction in which the server sends, by what only one of both ends sends
    inferred: Roles | None = None  #: who the server seems to be; None before all connections were compared
    producer_direction: int | None = None  #: the direction in which messages of streams travel
    identity: Identity = NAMELESS  #: what it says of its consumer, once the ledger is closed
    replicates: bool = False  #: the consumer acknowledged seqnos, as nodes do
    window: Window = field(default_factory=Window)
    tcp_faults: dict[tuple[str, int], Recurring] = field(default_factory=dict)
    #: by fault and the direction in which an end sends: when it held the other up
    noops: Noops = field(default_factory=Noops)
    streams: list[Stream] = field(default_factory=list)
    evicted: int = 0  #: streams of it that were forgotten to bound memory
    lookup: Lookup = field(default_factory=Lookup)
    turns: Turns = field(default_factory=Turns)
    exchanges: Exchanges = field(init=False)
    incoming: Snapshot | None = None  #: what the marker at hand announces
    collection_names: Names | None = None
    manifest_uid: int | None = None
    #: By direction.
    sides: tuple[CapturedSide, CapturedSide] = field(default_factory=lambda: (CapturedSide(), CapturedSide()))
    lost: LastLoss = LastLoss()
    first_ns: int | None = None
    last_ns: int | None = None
    end: ConnectionEnd = field(default_factory=ConnectionEnd)
    _no_stream: Stream | None = None

    def __post_init__(self) -> None:
        self.exchanges = Exchanges(with_rules=self.with_rules)

    def lose(self, direction: int, before: Before, ts_ns: int | None, number: int = 0) -> None:
        """Note that bytes were lost or skipped before frame ``number``, or at the end."""
        if self.carved:  # what was left out is no loss, and may have been sent at any time
            before, ts_ns = Before(UNKNOWN_LOSS, NOTHING_MISSED), None
        (length, missed), side = before, self.sides[direction]
        side.missed = side.missed.plus(missed)
        if not number and before.skipped:
            return  # it may be the end of the capture that cuts a frame
        side.lose(self.frames + (not number), ts_ns)
        self.window.lose(length if length > 0 else None, ts_ns, acks=direction != self.producer_direction)
        text = f"{missed.words()} {f'before frame {number}' if number else 'at the end'}"
        self.lost = self.lost._replace(frame=number, text=CARVED if self.carved else text)
        self.exchanges.lose(ts_ns)

    def leave_out(self) -> None:
        """Note that the file has only chosen packets: anything may have been sent before and after."""
        self.carved = True
        for direction in (0, 1):
            self.lose(direction, Before(UNKNOWN_LOSS, NOTHING_MISSED), None)

    def miss(self, frame: FrameEvent) -> None:
        """Note that bytes of a frame are missing, or hidden."""
        text = CARVED if self.carved else f"bytes of frame {frame.number} were lost"
        if frame.shape is HIDDEN:
            text = f"the numbers of frame {frame.number} are hidden"
            if frame.opcode == BUFFER_ACK:
                self.window.lose(None, frame.ts_ns, acks=True)
        self.lost = LastLoss(self.frames, frame.number, text)

    def hold_up(self, direction: int, fault: str, *, begins: bool, ts_ns: int | None) -> None:
        """Note that the sender of a direction begins or ceases to hold up the other; or is captured ahead of it."""
        if fault == AHEAD:
            self.window.out_of_order, self.exchanges.grace = True, FAR
            return
        self.tcp_faults.setdefault((fault, direction), Recurring()).change(begins=begins, ts_ns=ts_ns)

    def unlink(self) -> None:
        """Drop references to other connections and to itself, so that the memory is freed."""
        self.setup.previous_with_name = self._no_stream = None

    def stream_of(self, frame: FrameEvent) -> Stream | None:
        """Return the stream that has the vbucket and the stream id of a frame now; None where there is none."""
        return self.lookup.current.get(stream_key(frame.vbucket, frame.stream_id))

    @property
    def stream_count(self) -> int:
        """How many streams it had, with those that were evicted."""
        return len(self.streams) + self.evicted

    @property
    def no_stream(self) -> Stream:
        """What stands for a stream where a message is of none."""
        if self._no_stream is None:
            self._no_stream = Stream(self, -1)
        return self._no_stream

    @property
    def missing(self) -> Missed:
        """What of both directions is in no frame."""
        return self.sides[0].missed.plus(self.sides[1].missed)

    @property
    def frames(self) -> int:
        """How many of its frames came."""
        return self.sides[0].frames + self.sides[1].frames

    @property
    def bytes(self) -> int:
        """How many bytes these have."""
        return self.sides[0].bytes + self.sides[1].bytes

    @property
    def has_both_sides(self) -> bool:
        """Whether frames of both directions were captured."""
        return bool(self.sides[0].frames and self.sides[1].frames)

    @property
    def losses(self) -> int:
        """How often bytes of it were lost or skipped."""
        return self.sides[0].losses + self.sides[1].losses

    @property
    def has_gaps(self) -> bool:
        """Whether bytes of it were lost, or are missing of a frame."""
        return self.losses > 0 or self.lost.gap_at != NOT_YET

    @property
    def last_loss_ns(self) -> int:
        """When bytes were lost last, later than all times where that is not known; 0 where none were."""
        times = [side.lost_ns for side in self.sides if side.losses]
        return max((ANY_TIME if ns is None else ns for ns in times), default=0)

    def lost_after(self, ts_ns: int | None) -> bool:
        """Return whether bytes were lost at a time or later, or may have been."""
        times = (side.lost_ns for side in self.sides if side.losses)
        return any(ns is None or ts_ns is None or ns >= ts_ns for ns in times)

    def lost_since(self, ts_ns: int | None) -> Unknown | None:
        """Return what of both directions was not captured after a time; None where all was."""
        if not self.has_both_sides:
            return Unknown(Reason.ONE_DIRECTION, ONE_DIRECTION)
        return self.missing_of(" of the connection") if self.lost_after(ts_ns) else None

    def missing_of(self, of: str) -> Unknown:
        """Return what is missing of it, as it lost bytes; ``of``: whose bytes they are, in words."""
        if self.carved:
            return Unknown(Reason.CARVED, CARVED)
        return Unknown(Reason.BYTES_LOST, self.missing.words(of))

    @property
    def opening_missing(self) -> bool:
        """Whether its beginning is missing: neither DCP_OPEN nor what a client says first was captured."""
        return self.setup.opened_by is None and self.setup.began is None

    @property
    def starts_late(self) -> bool:
        """Whether its beginning is missing, and not merely captured a little later: the SYN was not captured."""
        return self.opening_missing and not self.syn

    @property
    def doubtful(self) -> bool:
        """Whether its beginning, or bytes since, are missing."""
        return self.opening_missing or self.has_gaps

    @property
    def complete(self) -> bool:
        """Whether it was captured from its very first frame on, without a loss."""
        return self.setup.began is not None and not self.has_gaps

    @property
    def ended_surely(self) -> bool:
        """Whether it is known who ended it: of two sides that close it, the end of the first may be missing."""
        return self.end.reason != "fin" or self.both_closed or (self.has_both_sides and not self.has_gaps)

    @property
    def both_closed(self) -> bool:
        """Whether the FIN of both directions was captured."""
        return self.sides[0].closed and self.sides[1].closed

    @property
    def role(self) -> str | None:
        """What the server is on it: ``producer`` or ``consumer``."""
        if self.setup.produces is not None:
            return "producer" if self.setup.produces else "consumer"
        server = self.roles.server
        if server is None or self.producer_direction is None:
            return None
        return "producer" if server == self.producer_direction else "consumer"

    @property
    def roles(self) -> Roles:
        """Return which end is the server, and how that is known."""
        found = seen(self)
        if found.server is not None:
            return found
        return inferred(self) if self.inferred is None else self.inferred

    @property
    def server_address(self) -> str | None:
        """Return address and port of the server; None where it is not known which end that is."""
        server = self.roles.server
        return None if server is None else (self.dst if server else self.src) or None

    @property
    def client_address(self) -> str | None:
        """Return address and port of the client; None where it is not known which end that is."""
        server = self.roles.server
        return None if server is None else (self.src if server else self.dst) or None

    @property
    def now_ns(self) -> int | None:
        """The latest time at which it was watched."""
        return self.last_ns if self.end.until_ns is None else self.end.until_ns

    def until(self, ts_ns: int | None) -> int | None:
        """Return a time, or when it ended, where that was before."""
        return ts_ns if None in (ts_ns, self.end.ts_ns) else min(ts_ns or 0, self.end.ts_ns or 0)

    def is_used(self, ts_ns: int | None) -> bool:
        """Return whether it had not ended by a time, as far as that was captured, and not maybe left out."""
        if self.end.by is None:
            return not self.carved
        return None not in (ts_ns, self.end.ts_ns) and (ts_ns or 0) < (self.end.ts_ns or 0)

    @property
    def sent_ns(self) -> int | None:
        """When the end that has the changes sent last."""
        return None if self.producer_direction is None else self.sides[self.producer_direction].latest_ns

    @property
    def controls_known(self) -> bool:
        """Whether every control and its answer was captured: where that to DCP_OPEN was not, nor may others be."""
        kind = 0 if self.setup.opened_by is None else self.setup.opened_by.direction, CONTROL
        return (
            self.setup.is_open and not self.doubtful and not self.exchanges.is_unclaimed(kind, self.frames, self.now_ns)
        )

    def asked_for(self, opcode: int) -> Iterator[UnansweredRequest]:
        """Yield the requests of either end that wait for their answers."""
        for direction in (0, 1):
            yield from self.exchanges.waiting((direction, opcode))
