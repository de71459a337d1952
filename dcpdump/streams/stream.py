"""What is known of one DCP stream. None always means: not captured."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.spec.names import ACTIVE, ACTIVE_ONLY, DISK, DUPLICATES, FROM_LATEST, HISTORY, PENDING, TAKEOVER
from dcpdump.spec.statuses import SUCCESS
from dcpdump.startup import dataclass, field
from dcpdump.streams.frame_event import NEVER, NOTHING_MISSED, Entry, FrameEvent, Missed, identity_of
from dcpdump.streams.opcode_kinds import CLOSE_STREAM
from dcpdump.streams.phases import AFTER, Closing, Durable, Phase, PhaseEvent, Takeover
from dcpdump.streams.request import Request, Requests
from dcpdump.streams.window import FIRST, LAST
from dcpdump.wire.value import read_prefix

if TYPE_CHECKING:
    from dcpdump.streams.state import ConnectionState


# -- what is known of a stream, and since when --------------------------------------------------------
# Moments are counted in frames of the connection.

#: Before the first frame: of what did not happen.
NOT_YET = -1
#: Losses of a stream of which the seqno before is remembered: the first few.
_LOSSES = 8


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


# -- its messages and snapshots -------------------------------------------------------------------------


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
    acked: bool = False  #: the acknowledgement that its flag asks for came
    acked_ns: int | None = None  #: then


# -- keys of snapshots, and how many may be remembered, of those of all streams together --------------

#: Keys that are remembered at most: some 80 MB.
_MOST_KEYS = 400_000
#: A server takes no longer keys than 250 bytes, with up to 5 of a collection; longer ones are not remembered.
LONGEST_KEY = 255


@dataclass(slots=True)
class KeyMemory:
    """A count of the keys that are remembered, which goes down when they are forgotten."""

    left: int = _MOST_KEYS  #: keys that may still be remembered
    missed: int = 0  #: keys that were not

    def reserve(self, keys: int) -> bool:
        """Return whether a number of further keys may be remembered, and count them."""
        if keys > self.left:
            self.missed += keys
            return False
        self.left -= keys
        return True

    def give_back(self, keys: int) -> None:
        """Count keys as forgotten."""
        self.left += keys


@dataclass(slots=True, eq=False)
class SnapshotKeys:
    """The keys of a snapshot, where its connection is watched with rules."""

    documents: dict[bytes, int] = field(default_factory=dict)  #: of documents and commits, and their seqnos
    prepares: dict[bytes, int] = field(default_factory=dict)  #: of prepares and aborts

    def __len__(self) -> int:
        return len(self.documents) + len(self.prepares)


#: Of nearly all streams at a time no key is kept: these have one in common, to which nothing is added.
NO_KEYS = SnapshotKeys()


# -- the durable writes of a stream that wait for their outcome, or to be acknowledged ----------------

#: Prepares of a stream that are kept at most, and how many of those decided may be among them.
_MOST_PREPARES, _SPARE = 65_536, 64


class OpenPrepare(NamedTuple):
    """A prepare of which no COMMIT or ABORT came."""

    seqno: int
    frame: int
    due_ns: int | None  #: since when its outcome has to come; None: it need not come, or may have


@dataclass(slots=True, eq=False)
class Prepares:
    """Prepares of one stream."""

    open: dict[bytes, OpenPrepare] = field(default_factory=dict)  #: those not committed nor aborted, by key
    _order: list[tuple[int, bytes]] = field(default_factory=list)  #: a heap of these, and of some that are decided
    unacked: OrderedDict[int, FrameEvent] = field(default_factory=OrderedDict)  #: not yet acknowledged, by seqno
    missed: bool = False  #: there were more than are kept
    excused: int = 0  #: up to this frame, outcomes need not come, or may have come
    dropped: set[int] = field(default_factory=set)  #: collections that were dropped while there were any

    def add(self, key: bytes, seqno: int, frame: FrameEvent, *, due: bool, with_rules: bool) -> None:
        """Note a prepare. ``due``: its outcome must follow; ``with_rules``: its acknowledgement matters too."""
        if len(self.open) >= _MOST_PREPARES:
            self.missed = True
            return
        self.open[key] = OpenPrepare(seqno, frame.number, frame.ts_ns if due else None)
        heappush(self._order, (seqno, key))
        if len(self._order) > 2 * len(self.open) + _SPARE:
            self._order = [(each.seqno, key) for key, each in self.open.items()]
            heapify(self._order)
        if with_rules and len(self.unacked) < _MOST_PREPARES:
            self.unacked[seqno] = frame

    def phase(self, key: bytes) -> Durable:
        """Return whether a key has a durable write under way."""
        return Durable.PREPARED if key in self.open else Durable.NONE

    def acknowledge(self, seqno: int) -> None:
        """Note that all prepares up to a seqno are acknowledged."""
        while self.unacked and (first := next(iter(self.unacked))) <= seqno:
            del self.unacked[first]

    def decide(self, key: bytes) -> None:
        """Note that the durable write of a key is decided."""
        self.open.pop(key, None)

    def complete(self, seqno: int) -> None:
        """Note that all durable writes up to a seqno are decided."""
        while self._order and self._order[0][0] <= seqno:
            decided, key = heappop(self._order)
            if key in self.open and self.open[key].seqno == decided:
                del self.open[key]

    def excuse(self, frame: int) -> None:
        """Note that the outcomes of prepares up to a frame need not follow, or may have come."""
        if self.open:
            self.excused = frame

    def drop(self, collection: int) -> None:
        """Note that a collection is dropped, whose prepares a server forgets."""
        if self.open and len(self.dropped) < _MOST_PREPARES:
            self.dropped.add(collection)

    def due(self, by_ns: int) -> list[OpenPrepare]:
        """Return those of which the outcome had to come from a time on, or from an earlier one."""
        return [
            each
            for key, each in self.open.items()
            if each.due_ns is not None and each.due_ns <= by_ns and not self._is_excused(key, each)
        ]

    def hide_keys(self) -> None:
        """Forget keys, of a stream that learns no more."""
        kept = [each for key, each in self.open.items() if not self._is_excused(key, each)]
        self.open = {str(prepare.seqno).encode(): prepare for prepare in kept}
        self._order, self.unacked, self.dropped = [], OrderedDict(), set()

    def _is_excused(self, key: bytes, prepare: OpenPrepare) -> bool:
        prefix = read_prefix(key) if self.dropped else None
        return prepare.frame <= self.excused or (prefix is not None and prefix.collection in self.dropped)


#: Most streams have none: these have one in common, to which nothing is added.
NO_PREPARES = Prepares()

# -- what came of a stream, and what its consumer acknowledged --------------------------------------------


@dataclass(slots=True, eq=False)
class Traffic:
    """The messages of a stream, counted."""

    counts: list[int] = field(default_factory=lambda: [0] * (LAST - FIRST + 1))  #: frames by opcode, from FIRST on
    size: int = 0  #: their bytes
    first_ns: int | None = None  #: the first time of anything about it, requests and answers too
    last_ns: int | None = None
    last_frame: int = 0  #: the number of its latest message
    snapshots: int = 0  #: that markers announced
    oso_snapshots: int = 0  #: out-of-order snapshots that began

    def add(self, kinds: Iterable[tuple[int, int, int]], size: int, last_ns: int | None, last_frame: int) -> None:
        """Count consecutive messages: opcodes, frames and bytes of each kind; bytes of all, time, number."""
        for opcode, count, _ in kinds:
            self.counts[opcode - FIRST] += count
        self.size += size
        self.last_ns, self.last_frame = last_ns, last_frame

    def count(self, *opcodes: int) -> int:
        """Return how many messages of these opcodes came."""
        return sum(self.counts[opcode - FIRST] for opcode in opcodes)

    @property
    def any(self) -> bool:
        """Whether any message came."""
        return any(self.counts)


@dataclass(slots=True, eq=False)
class Seqnos:
    """The seqnos of a stream."""

    first: int | None = None
    last: int | None = None  #: of the latest message that brought one
    last_ns: int | None = None  #: when that came
    high: int | None = None  #: the largest
    reached: int = 0  #: the highest seqno or end of a snapshot that was announced
    floor: int | None = None  #: the next has to be above; None after a loss, from the next marker on
    since_marker: int = 0  #: messages with a seqno since the latest marker


#: How many items that wait for acknowledgements, and early acknowledgements, are kept.
_MOST_ACKS = 1_024


@dataclass(slots=True, eq=False)
class Acks:
    """The acknowledgements of a stream's consumer, and the items that wait for one: ends of snapshots, states, seqnos.

    A producer accepts any answer to a message as the acknowledgement that it waits for.
    """

    due: deque[FrameEvent] = field(default_factory=deque)  #: last items of snapshots that want one
    early: list[FrameEvent] = field(default_factory=list)  #: that came before what they acknowledge
    omitted: int = 0  #: how many more came of the first kind, or if negative, of the second, the latest
    states: int = 0  #: of the states that a takeover set
    states_ns: int | None = None  #: when one was answered last
    seqno: int | None = None  #: of its SEQNO_ACKNOWLEDGED

    def expect(self, item: FrameEvent) -> None:
        """Note the last item of a snapshot that must be acknowledged."""
        if self.omitted < 0:
            self.omitted += 1
        elif self.early:
            self.early.pop()
        elif self.omitted or len(self.due) >= _MOST_ACKS:
            self.omitted += 1
        else:
            self.due.append(identity_of(item))

    def acknowledge(self, answer: FrameEvent) -> None:
        """Note the answer to a marker. A refusal of a marker that requested no acknowledgement is none."""
        if self.due:
            self.due.popleft()
        elif self.omitted > 0:
            self.omitted -= 1
        elif not answer.status:
            self.acknowledge_early(answer)

    def acknowledge_early(self, answer: FrameEvent) -> None:
        """Use an answer to a marker that was captured before the item that it acknowledges, if there is one."""
        if len(self.early) < _MOST_ACKS:
            self.early.append(identity_of(answer))
        else:
            self.omitted -= 1

    def acknowledge_state(self, answer: FrameEvent) -> None:
        """Note the answer to a state that a takeover set."""
        self.states += 1
        self.states_ns = answer.ts_ns

    def forget(self) -> None:
        """Forget which snapshots are acknowledged, as messages are missing."""
        self.due, self.early, self.omitted = deque(), [], 0


#: Most streams have none: these have one in common, to which nothing is added.
NO_ACKS = Acks()


class StreamEnd(NamedTuple):
    """A STREAM_END."""

    status: int | None
    ts_ns: int | None
    frame: int


class Closed(NamedTuple):
    """A CLOSE_STREAM that succeeded."""

    ts_ns: int | None
    by_producer: bool  #: the end that sends its messages asked for it


#: Phases in which it is not known what was sent last, and in which seqnos do not rise.
_UNORDERED = (Phase.REQUESTED, Phase.REFUSED, Phase.UNKNOWN)
_OUT_OF_ORDER = (Phase.OUT_OF_ORDER, Phase.CACHE_TRANSFER)
_INSIDE = (Phase.SNAPSHOT, Phase.OUT_OF_ORDER)
#: Phases of a takeover, by the state that was set last.
_TAKEOVERS = {None: Takeover.SENDING, PENDING: Takeover.PENDING, ACTIVE: Takeover.ACTIVE}


@dataclass(slots=True, eq=False)
class Stream:
    """One DCP stream: a vbucket, and a stream id where the connection has them, from its request to its end.

    A request after a rollback or a refusal continues the same Stream, one after its end begins the next.
    """

    connection: "ConnectionState"
    vbucket: int
    stream_id: int = 0
    number: int = 1  #: 1, 2, 3 … of those with this vbucket and stream id on this connection
    opaque: int | None = None
    requests: Requests = field(default_factory=Requests)
    granted: bool = False
    failover_log: tuple[Entry, ...] | None = None
    # what came
    traffic: Traffic = field(default_factory=Traffic)
    seqnos: Seqnos = field(default_factory=Seqnos)
    turns: list[int] = field(default_factory=lambda: [0, 0])  #: its latest of its connection: from memory, from disk
    # where it is
    phase: Phase = Phase.REQUESTED
    snapshot: Snapshot | None = None  #: None before the first marker, and after lost bytes until the next
    marker: Snapshot | None = None  #: the latest one, also after lost bytes
    states: list[TakeoverState] | tuple[()] = ()  #: that a takeover set
    acks: Acks = NO_ACKS
    prepares: Prepares = NO_PREPARES
    keys: SnapshotKeys = NO_KEYS  #: where the connection is watched with rules
    collections: dict[int, bool] | None = None  #: that its events created (True) or dropped, by id
    error_replies: tuple[ErrorReply, ...] = ()  #: what the consumer answered with an error, the first few
    # how it ended
    close_asked: bool = False  #: a CLOSE_STREAM waits for its answer
    close: Closed | None = None
    end: StreamEnd | None = None
    replaced: bool = False  #: another was granted in its place while it was open
    before: "Stream | None" = None  #: the one that it followed in its place
    next: "Stream | None" = None  #: the one that followed it
    duplicate: "Stream | None" = None  #: the one that was requested in its place while it was open
    # what is known of it
    begun_at: int = 0  #: how many frames of its connection had come when it was requested or granted, or came first
    knowledge: Knowledge = Knowledge()
    gaps: Gaps = NO_GAPS

    @property
    def request(self) -> Request | None:
        """The latest request; None where none was captured."""
        return self.requests[-1] if self.requests else None

    @property
    def grant(self) -> Request | None:
        """Return the request that was granted; None where that was not captured."""
        for request in reversed(self.requests) if self.granted else ():
            if request.status == SUCCESS:
                return request
        return None

    @property
    def granted_ns(self) -> int | None:
        """When it was granted."""
        grant = self.grant
        return None if grant is None else grant.answered_ns

    @property
    def granted_frame(self) -> int | None:
        """The number of the frame that granted it."""
        grant = self.grant
        return None if grant is None else grant.answer_frame

    @property
    def closed(self) -> bool:
        """Whether one of both ends closed it."""
        return self.close is not None

    @property
    def closed_ns(self) -> int | None:
        """When one of both ends closed it."""
        return None if self.close is None else self.close.ts_ns

    @property
    def end_status(self) -> int | None:
        """The reason of its STREAM_END."""
        return None if self.end is None else self.end.status

    @property
    def ended_ns(self) -> int | None:
        """When its STREAM_END came."""
        return None if self.end is None else self.end.ts_ns

    @property
    def begin_captured(self) -> bool:
        """Whether its beginning was captured: the request, and that it was granted."""
        return self.granted and bool(self.requests) and not self.requests[-1].ambiguous

    @property
    def lost(self) -> bool:
        """Whether bytes of its connection were lost since it began."""
        connection, begun_at = self.connection, self.begun_at
        producer_direction = connection.producer_direction or 0
        return (
            self.gaps.times > 0
            or self.is_behind(producer_direction)
            or connection.sides[1 - producer_direction].lost_at > begun_at
            or connection.lost.gap_at > begun_at
        )

    def is_behind(self, direction: int) -> bool:
        """Return whether bytes were lost in its direction of which it does not know yet."""
        return self.connection.sides[direction].lost_at > self.knowledge.since

    @property
    def doubtful(self) -> bool:
        """Whether its beginning, or bytes since, are missing."""
        return not self.begin_captured or self.lost

    @property
    def needs_marker(self) -> bool:
        """Whether bytes were lost, or it was joined, and no snapshot marker came since."""
        if self.phase in _UNORDERED:
            return True
        since = self.begun_at if self.marker is None else max(self.begun_at, self.marker.at)
        return self.connection.lost.gap_at > since

    @property
    def oso(self) -> bool:
        """Whether it is inside an out-of-order snapshot."""
        return self.phase is Phase.OUT_OF_ORDER

    @property
    def oso_ended(self) -> bool:
        """Whether an out-of-order snapshot ended, and no marker came since."""
        return self.phase is Phase.OPEN and (self.traffic.snapshots > 0 or self.traffic.oso_snapshots > 0)

    @property
    def has_key_once(self) -> bool:
        """Whether each key may come only once: out of order, and where the marker announces no duplicates."""
        return self.oso or (self.marker is not None and not self.marker.flags & DUPLICATES)

    @property
    def rises(self) -> bool:
        """Whether its seqnos rise: neither out of order nor in a cache transfer."""
        return self.phase not in _OUT_OF_ORDER

    @property
    def ordered(self) -> bool:
        """Whether ``seqnos.last`` is the last that was sent: it was granted, and nothing was lost since."""
        return self.phase not in _UNORDERED

    @property
    def in_order(self) -> bool:
        """Whether it is inside a snapshot, and has not ended."""
        return self.end is None and self.phase in _INSIDE

    @property
    def known(self) -> bool:
        """Whether it is one at all: False of what stands for no stream."""
        return self.vbucket >= 0

    @property
    def ended(self) -> bool:
        """Whether it came to an end: by STREAM_END, or by CLOSE_STREAM."""
        return self.end is not None or self.closed

    @property
    def closing_phase(self) -> Closing:
        """How far it has come to its end."""
        if self.end is not None:
            return Closing.ENDED
        if self.closed:
            return Closing.CLOSED
        return Closing.CLOSE_ASKED if self.close_asked else Closing.NOT_CLOSED

    @property
    def closing(self) -> bool:
        """Whether it ended, or its consumer may have closed it: the request of an answer to CLOSE_STREAM is missing."""
        if self.ended or self.close_asked:
            return True
        kind, exchanges = (1 - (self.connection.producer_direction or 0), CLOSE_STREAM), self.connection.exchanges
        early = exchanges.is_unclaimed(kind, self.connection.frames, self.connection.now_ns)
        return early or (self.granted_frame or 0) < exchanges.unseen.get(kind, 0)

    @property
    def alive(self) -> bool:
        """Whether, as far as was captured, it is open: granted or sending, and not ended."""
        return not self.ended and self.reopened

    @property
    def live(self) -> bool:
        """Whether messages of it are to be expected: also after CLOSE_STREAM, up to STREAM_END."""
        return self.end is None and self.is_sending

    @property
    def reopened(self) -> bool:
        """Return whether it was granted, or came without a request that was captured."""
        return self.granted or not self.requests

    @property
    def is_sending(self) -> bool:
        """Whether it was granted, or messages of it say that it was; else it was requested alone."""
        return self.granted or not self.requests or self.traffic.last_frame > 0

    @property
    def position(self) -> int | None:
        """Return the seqno up to which its consumer was sent all; None where that is not known.

        Seqnos rise: the next that comes after a loss says it again. Out of order, and in a cache transfer, they do not.
        """
        if not self.rises or self.seqnos.last == self.gaps.seqno:
            return None
        if self.seqnos.high is not None:
            return self.seqnos.high
        grant = self.grant
        unknown = grant is None or grant.ambiguous or grant.flags is None or grant.flags & FROM_LATEST
        return None if grant is None or unknown else grant.start_seqno

    @property
    def flags(self) -> int:
        """The flags of the request; 0 where it was not captured."""
        return (self.requests[-1].flags or 0) if self.requests else 0

    @property
    def filtered(self) -> bool | None:
        """Whether only some collections were requested; None where the request was not captured."""
        return self.requests[-1].filtered if self.requests else None

    @property
    def may_be_of_replica(self) -> bool:
        """Whether its source may be a replica: nothing says that it is an active vbucket, as its request may insist."""
        setup = self.connection.setup
        return not (self.flags & (ACTIVE_ONLY | TAKEOVER) or setup.between_nodes or setup.sync_replication)

    @property
    def from_disk(self) -> bool:
        """Return whether its producer reads it from disk, as far as its latest marker says: so each begins."""
        marker = self.marker
        return marker is None or bool(marker.flags & DISK) or self.phase is Phase.OUT_OF_ORDER

    @property
    def filtered_silently(self) -> bool:
        """Return whether changes may be left out of it, and no SEQNO_ADVANCED comes in their place.

        A connection without collections gets the default collection only.
        """
        gets_all = self.filtered is False and self.connection.setup.has_collections is True
        return not (gets_all or self.connection.setup.advances)

    @property
    def end_may_be_filtered(self) -> bool:
        """Return whether the last item of a snapshot may be left out silently.

        A snapshot from memory ends with an item of the stream; one from disk ends with the last item on disk, filtered
        or not.
        """
        return self.marker is not None and bool(self.marker.flags & DISK) and self.filtered_silently

    @property
    def asked_takeover(self) -> bool:
        """Whether it was requested with the takeover flag."""
        return bool(self.flags & TAKEOVER)

    @property
    def takeover(self) -> bool:
        """Whether it hands the vbucket over."""
        return self.asked_takeover or bool(self.states)

    @property
    def state(self) -> int | None:
        """The last state that a takeover set."""
        return self.states[-1].state if self.states else None

    @property
    def takeover_phase(self) -> Takeover:
        """How far its vbucket is handed over."""
        return _TAKEOVERS.get(self.state, Takeover.OTHER_STATE)

    def advance(self, event: PhaseEvent) -> None:
        """Change to the phase to which an event leads."""
        self.phase = AFTER[self.phase][event]

    def lose(self, direction: int, *, continues_without_gap: bool = False) -> None:
        """Note that bytes were lost in its direction, so that its state may have changed.

        ``continues_without_gap``: none of them can belong to this stream, so its state holds.
        """
        before = self.knowledge
        self.know(direction)
        if continues_without_gap:
            self.gaps = self.gaps._replace(bridged=self.gaps.bridged + 1)
            return
        self.gaps = self.gaps.plus(self.knowledge.missed.minus(before.missed), self.seqnos.last)
        self.snapshot = None
        self.blur("")
        self.forget()

    def know(self, direction: int) -> None:
        """Note that its state is certain from now on; ``direction``: of its producer."""
        side = self.connection.sides[direction]
        self.knowledge = Knowledge(side.lost_at, side.missed, self.knowledge.reason)

    def blur(self, reason: str) -> None:
        """Note that its phase is unknown; ``reason``: why, if not for lost bytes."""
        self.advance(PhaseEvent.LOSS)
        self.knowledge = self.knowledge._replace(reason=reason)

    def follow(self, before: "Stream | None") -> None:
        """Note the stream that it follows in its place."""
        if before is not None:
            before.next, self.before = self, before
            self.number = before.number + 1

    def begin(self, snapshot: Snapshot) -> None:
        """Note a snapshot marker."""
        if self.needs_marker:
            self.seqnos.floor = None
            self.phase = Phase.UNKNOWN
            self.knowledge = self.knowledge._replace(reason="")
        snapshot.at = self.connection.frames
        before, flags = self.marker, snapshot.flags
        if not (before and flags & HISTORY and (snapshot.start, snapshot.end) == (before.start, before.end)):
            self.forget_keys()
        self.snapshot = self.marker = snapshot
        self.advance(PhaseEvent.MARKER)
        seqnos = self.seqnos
        if seqnos.reached < snapshot.end:
            seqnos.reached = snapshot.end
        seqnos.since_marker = 0

    def add_items(self, first: int, last: int, high: int, count: int, ts_ns: int | None) -> None:
        """Note consecutive messages with seqnos: their first, last and largest seqno, and the last time."""
        seqnos = self.seqnos
        seqnos.last = seqnos.floor = last
        seqnos.last_ns = ts_ns
        if seqnos.high is None:
            seqnos.first, seqnos.high = first, high
        elif seqnos.high < high:
            seqnos.high = high
        if seqnos.reached < high:
            seqnos.reached = high
        seqnos.since_marker += count

    def acknowledge(self, seqno: int) -> None:
        """Note a SEQNO_ACKNOWLEDGED."""
        self.own_acks().seqno = seqno
        self.prepares.acknowledge(seqno)

    def own_acks(self) -> Acks:
        """Return where its acknowledgements are to be kept."""
        if self.acks is NO_ACKS:
            self.acks = Acks()
        return self.acks

    def own_keys(self) -> SnapshotKeys:
        """Return where keys of its snapshot are to be kept."""
        if self.keys is NO_KEYS:
            self.keys = SnapshotKeys()
        return self.keys

    def exists(self, collection: int, *, now: bool) -> None:
        """Note an event that creates a collection, or drops it."""
        self.collections = self.collections or {}
        self.collections[collection] = now

    def forget(self) -> None:
        """Forget the state that an incomplete message may have changed."""
        self.prepares = Prepares(missed=True) if self.prepares.missed else NO_PREPARES
        if self.acks is not NO_ACKS:
            self.acks.forget()
        self.forget_keys()

    def forget_keys(self) -> None:
        """Forget the keys of the snapshot, which has ended."""
        if self.keys is not NO_KEYS:
            self.connection.memory.keys.give_back(len(self.keys))
            self.keys = NO_KEYS

    def fits(self, frame: FrameEvent) -> bool:
        """Return whether a message may be the next of it."""
        seqno, marker = frame.seqno, self.marker
        if seqno is None or not self.live:
            return self.live
        inside = self.oso or (marker is not None and marker.start <= seqno <= marker.end)
        return inside and (self.oso or self.seqnos.floor is None or seqno > self.seqnos.floor)
