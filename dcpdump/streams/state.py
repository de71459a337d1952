"""What is known of a connection, and of one DCP stream on it. None always means: not captured.

This is the one memory of a conversation: verdicts, explanations and the rules of ``check`` read it. What only rules
ask for (the keys of a snapshot) is kept where the connection is watched ``closely``.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dcpdump.net.event import AHEAD
from dcpdump.spec.names import NOTIFIER, PRODUCER, REPLICATION, SKIP_DELETES
from dcpdump.spec.statuses import SUCCESS
from dcpdump.startup import dataclass, field
from dcpdump.streams.consumer import NAMELESS, Identity
from dcpdump.streams.exchanges import Exchanges
from dcpdump.streams.facts import Control, NameTaken, Noops, SetupRefusal, Snapshot, UnansweredRequest
from dcpdump.streams.frame_event import HIDDEN, NOTHING_MISSED, UNKNOWN_LOSS, Before, FrameEvent, Missed, stream_key
from dcpdump.streams.intervals import Recurring
from dcpdump.streams.opcode_kinds import BUFFER_ACK, CONTROL
from dcpdump.streams.request import Request
from dcpdump.streams.roles import Roles, inferred, seen
from dcpdump.streams.stream import KeyMemory, Stream
from dcpdump.streams.window import FAR, Window
from dcpdump.wire.collection_names import Names

if TYPE_CHECKING:
    from dcpdump.streams.stream import Stream


# -- turns --------------------------------------------------------------------------------------------
# In which order a producer served the streams of a connection, those from memory and those from disk apart.

SECOND = 1_000_000_000


@dataclass(slots=True)
class Turns:
    """The turns of the streams of one connection, those from memory and those from disk apart."""

    served: "Stream | None" = None  #: whose message came last
    counts: list[int] = field(default_factory=lambda: [0, 0])  #: turns so far, from memory and from disk
    latest: "list[Stream | None]" = field(default_factory=lambda: [None, None])  #: whose turn came last, of each
    pause_ns: int = SECOND  #: the longest that the producer was silent inside a snapshot, and then went on

    def serve(self, stream: "Stream", *, begins: bool = False) -> None:
        """Take it that the message at hand is of another stream than the one before, or ``begins`` a snapshot."""
        kind = stream.from_disk
        self.served = stream
        if begins or self.latest[kind] is not stream:
            self.latest[kind] = stream
            self.counts[kind] += 1
        stream.turns[kind] = self.counts[kind]


T = TypeVar("T")


class RolledBack(NamedTuple):
    """The latest request for a stream that was rolled back."""

    request: Request
    times: int  #: how often the same one was in a row, whatever was granted in between
    obeyed: bool = False  #: its client was granted a stream since


#: Opaques that several streams had are remembered up to so many.
_MOST_SHARED = 16_384
#: Why nothing is judged by what is missing of a connection.
CARVED = "this file was carved: only chosen packets are in it"
#: Later than all that was captured: of a loss at a time that is not known.
ANY_TIME = 1 << 64


def replaced(of: tuple[T, T], direction: int, value: T) -> tuple[T, T]:
    """Return what is known of both directions, with another value for one of them."""
    return (of[0], value) if direction else (value, of[1])


@dataclass(slots=True, eq=False)
class ConnectionState:
    """One TCP connection. Direction 0 is what ``src`` sends, who opened it where the SYN was captured."""

    number: int
    src: str = ""
    dst: str = ""
    closely: bool = False  #: what only rules ask for is kept too
    names: "dict[tuple[str, str, str], ConnectionState]" = field(default_factory=dict)
    #: of all connections, by server, bucket and name: the one that was opened last
    producing: "dict[tuple[str, int], Stream]" = field(default_factory=dict)
    #: of all connections, by bucket and vbucket: the stream that was granted last
    key_memory: KeyMemory = field(default_factory=KeyMemory)  #: of all connections
    syn: bool = False  #: the opening was captured
    carved: bool = False  #: only chosen packets are in the file
    place: tuple[str, str, str] | None = None  #: server, bucket and name, of a connection that was opened
    namesake: "ConnectionState | None" = None  #: the one that had its name before, on that server and bucket
    name_taken: NameTaken | None = None  #: by the one that has had its name since
    server: int | None = None  #: the direction in which the server sends, by what only one of both ends sends
    inferred: Roles | None = None  #: who the server seems to be; None before all connections were compared
    feeder: int | None = None  #: the direction in which messages of streams travel
    identity: Identity = NAMELESS  #: what it says of its consumer, once the ledger is closed
    replicates: bool = False  #: the consumer acknowledged seqnos, as nodes do
    began: int | None = None  #: the direction of its very first frame, if that is what a client says first
    agent: str | None = None  #: of HELLO
    asked_features: frozenset[int] | None = None
    features: frozenset[int] | None = None  #: granted
    has_collections: bool | None = None  #: whether keys have collection ids; None where HELLO was not captured
    mechanism: str | None = None
    authenticated: bool | None = None
    bucket: str | None = None
    name: str | None = None  #: of DCP_OPEN
    open_flags: int | None = None
    opened: bool = False  #: DCP_OPEN was answered with Success
    opened_by: FrameEvent | None = None  #: the latest request
    accepted_frame: int | None = None  #: the number of its success
    open_status: int | None = None
    refusals: dict[tuple[int, int], SetupRefusal] = field(default_factory=dict)
    #: by opcode and vbucket: the steps of setting it up that were refused, and not accepted since
    controls: dict[str, Control] = field(default_factory=dict)  #: the latest of each key
    agreed: dict[str, str] = field(default_factory=dict)  #: the controls that were accepted, and are in force
    noops_enabled_ns: int | None = None
    stream_requests: int = 0
    window: Window = field(default_factory=Window)
    tcp_faults: dict[tuple[str, int], Recurring] = field(default_factory=dict)
    #: by fault and the direction in which an end sends: when it held the other up
    noops: Noops = field(default_factory=Noops)
    streams: list[Stream] = field(default_factory=list)
    evicted: int = 0  #: streams of it that were forgotten to bound memory
    current: dict[int, Stream] = field(default_factory=dict)  #: by ``stream_key``
    by_opaque: dict[int, Stream] = field(default_factory=dict)
    turns: Turns = field(default_factory=Turns)
    shared: set[int] = field(default_factory=set)  #: opaques that several streams had at one time
    exchanges: Exchanges = field(init=False)
    rolled_back: dict[int, RolledBack] = field(default_factory=dict)
    #: by place: the latest request that was rolled back
    early_acks: list[FrameEvent] = field(default_factory=list)  #: answers to markers of streams not granted yet
    incoming: Snapshot | None = None  #: what the marker at hand announces
    collection_names: Names | None = None
    manifest_uid: int | None = None
    frames: list[int] = field(default_factory=lambda: [0, 0])
    bytes: list[int] = field(default_factory=lambda: [0, 0])
    losses: tuple[int, int] = (0, 0)  #: how often bytes were lost or skipped, by direction
    missed: tuple[Missed, Missed] = (NOTHING_MISSED, NOTHING_MISSED)  #: what of each direction is in no frame
    lost_ns: tuple[int | None, int | None] = (None, None)  #: when bytes were lost last
    holes: int = 0  #: frames of which bytes are missing
    lost_frame: int = 0  #: the number of the frame before which bytes were lost last
    lost_text: str = ""  #: what was lost last
    first_ns: int | None = None
    last_ns: int | None = None
    latest_ns: list[int | None] = field(default_factory=lambda: [None, None])  #: the last frame of each direction
    over: bool = False  #: the input is over
    gone: bool = False  #: and the connection was over before it
    ended_ns: int | None = None  #: the TCP connection ended, by FIN or RST
    ended_by: int | None = None  #: the direction whose end came first
    end_reason: str = ""  #: fin, rst, reused
    closed_by: tuple[bool, bool] = (False, False)  #: the directions of which a FIN was captured
    until_ns: int | None = None  #: until when it was watched, once the input is over
    _no_stream: Stream | None = None

    def __post_init__(self) -> None:
        self.exchanges = Exchanges(closely=self.closely)

    def lose(self, direction: int, before: Before, ts_ns: int | None, number: int = 0) -> None:
        """Take it that bytes were lost or skipped before frame ``number``, or at the end."""
        if self.carved:  # what was left out is no loss, and may have been sent at any time
            before, ts_ns = Before(UNKNOWN_LOSS, NOTHING_MISSED), None
        length, missed = before
        self.missed = replaced(self.missed, direction, self.missed[direction].plus(missed))
        if not number and before.skipped:
            return  # it may be the end of the capture that cuts a frame
        self.losses = replaced(self.losses, direction, self.losses[direction] + 1)
        self.lost_ns = replaced(self.lost_ns, direction, ts_ns)
        self.lost_frame = number
        self.window.lose(length if length > 0 else None, ts_ns, acks=direction != self.feeder)
        self.lost_text = f"{missed.words()} {f'before frame {number}' if number else 'at the end'}"
        if self.carved:
            self.lost_text = CARVED
        self.exchanges.lose()

    def leave_out(self) -> None:
        """Take it that only chosen packets are in the file: anything may have been sent before, and after."""
        self.carved = True
        for direction in (0, 1):
            self.lose(direction, Before(UNKNOWN_LOSS, NOTHING_MISSED), None)

    def miss(self, frame: FrameEvent) -> None:
        """Take it that bytes of a frame are missing, or hidden."""
        self.holes += 1
        self.lost_frame = frame.number
        self.lost_text = CARVED if self.carved else f"bytes of frame {frame.number} were lost"
        if frame.shape is HIDDEN:
            self.lost_text = f"the numbers of frame {frame.number} are hidden"
            if frame.opcode == BUFFER_ACK:
                self.window.lose(None, frame.ts_ns, acks=True)

    def hold_up(self, direction: int, fault: str, *, begins: bool, ts_ns: int | None) -> None:
        """Take it that the sender of a direction begins to hold the other up, or no longer does; or is ahead of it."""
        if fault == AHEAD:
            self.window.out_of_order, self.exchanges.grace = True, FAR
            return
        self.tcp_faults.setdefault((fault, direction), Recurring()).change(begins=begins, ts_ns=ts_ns)

    def share(self, opaque: int) -> None:
        """Take it that several streams had an opaque at one time."""
        if len(self.shared) < _MOST_SHARED:
            self.shared.add(opaque)

    def shares(self, opaque: int) -> bool:
        """Return whether several streams had an opaque at one time; of very many such, it may be one of the others."""
        return opaque in self.shared or len(self.shared) >= _MOST_SHARED

    def unlink(self) -> None:
        """Refer to no other connection and not to itself, so that its memory is free."""
        self.namesake = self._no_stream = None

    def stream_of(self, frame: FrameEvent) -> Stream | None:
        """Return the stream that has the vbucket and the stream id of a frame now; None where there is none."""
        return self.current.get(stream_key(frame.word, frame.stream_id))

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
        return self.missed[0].plus(self.missed[1])

    @property
    def lost_bytes(self) -> int:
        """How many of its bytes were never captured, as far as that is known."""
        return self.missed[0].lost + self.missed[1].lost

    @property
    def lossy(self) -> bool:
        """Whether bytes of it were lost or skipped."""
        return bool(self.losses[0] or self.losses[1])

    @property
    def torn(self) -> bool:
        """Whether bytes of it were lost, or are missing of a frame."""
        return bool(self.losses[0] or self.losses[1] or self.holes)

    @property
    def last_loss_ns(self) -> int:
        """When bytes were lost last, later than all times where that is not known; 0 where none were."""
        times = [ns for ns, count in zip(self.lost_ns, self.losses, strict=True) if count]
        return max((ANY_TIME if ns is None else ns for ns in times), default=0)

    def lost_after(self, ts_ns: int | None) -> bool:
        """Return whether bytes were lost at a time or later, or may have been."""
        times = (ns for ns, count in zip(self.lost_ns, self.losses, strict=True) if count)
        return any(ns is None or ts_ns is None or ns >= ts_ns for ns in times)

    @property
    def late(self) -> bool:
        """Whether its beginning is missing: neither DCP_OPEN nor what a client says first was captured."""
        return self.opened_by is None and self.began is None

    @property
    def starts_late(self) -> bool:
        """Whether its beginning is missing, and not merely captured a little later: the SYN was not captured."""
        return self.late and not self.syn

    @property
    def doubtful(self) -> bool:
        """Whether its beginning, or bytes since, are missing."""
        return self.late or self.torn

    @property
    def complete(self) -> bool:
        """Whether it was captured from its very first frame on, without a loss."""
        return self.began is not None and not self.torn

    @property
    def ended_surely(self) -> bool:
        """Whether it is known who ended it: of two sides that close it, the end of the first may be missing."""
        return self.end_reason != "fin" or all(self.closed_by) or (all(self.frames) and not self.torn)

    @property
    def role(self) -> str | None:
        """What the server is on it: ``producer`` or ``consumer``."""
        if self.produces is not None:
            return "producer" if self.produces else "consumer"
        server = self.roles.server
        if server is None or self.feeder is None:
            return None
        return "producer" if server == self.feeder else "consumer"

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
    def consumer_address(self) -> str | None:
        """Return address and port of the end that changes are sent to; else of the client."""
        if self.feeder is None:
            return self.client_address
        return (self.src if self.feeder else self.dst) or None

    @property
    def produces(self) -> bool | None:
        """Whether the end that was opened sends changes, or notifies of them; None where that was not captured."""
        return None if self.open_flags is None else bool(self.open_flags & (PRODUCER | NOTIFIER))

    @property
    def notifies(self) -> bool:
        """Whether its streams only end, as soon as there is something above their start (up to 6.6)."""
        return bool((self.open_flags or 0) & NOTIFIER)

    @property
    def between_nodes(self) -> bool:
        """Whether it replicates between nodes, as far as DCP_OPEN says."""
        return self.produces is False or (self.name or "").startswith(REPLICATION)

    @property
    def is_open(self) -> bool:
        """Whether DCP_OPEN was sent and succeeded."""
        return self.opened_by is not None and self.opened

    @property
    def open_frame(self) -> int | None:
        """The number of the latest DCP_OPEN."""
        return None if self.opened_by is None else self.opened_by.number

    @property
    def now_ns(self) -> int | None:
        """The latest time at which it was watched."""
        return self.last_ns if self.until_ns is None else self.until_ns

    def is_used(self, ts_ns: int | None) -> bool:
        """Return whether it had not ended by a time, as far as that was captured, and not maybe left out."""
        if self.ended_by is None:
            return not self.carved
        return None not in (ts_ns, self.ended_ns) and (ts_ns or 0) < (self.ended_ns or 0)

    @property
    def controls_known(self) -> bool:
        """Whether every control and its answer was captured: where that to DCP_OPEN was not, nor may others be."""
        kind = 0 if self.opened_by is None else self.opened_by.direction, CONTROL
        return self.is_open and not self.doubtful and not self.exchanges.is_unclaimed(kind, self.frames, self.now_ns)

    def asked_for(self, opcode: int) -> Iterator[UnansweredRequest]:
        """Yield the requests of either end that wait for their answers."""
        for direction in (0, 1):
            yield from self.exchanges.waiting((direction, opcode))

    def accepted(self, key: str) -> str | None:
        """Return the value of a control that was accepted; None where it was not, or not captured."""
        control = self.controls.get(key)
        return control.value if control is not None and control.status == SUCCESS else None

    def on(self, key: str) -> bool:
        """Return whether a control is in force, and on."""
        return self.agreed.get(key, "false").startswith("true")

    @property
    def advances(self) -> bool:
        """Whether the producer sends SEQNO_ADVANCED where items are filtered out at a snapshot's end."""
        skips = bool((self.open_flags or 0) & SKIP_DELETES)
        quiet = self.on("enable_sync_writes") and self.on("flatbuffers_system_events") and not skips
        return bool(self.has_collections) and not quiet

    @property
    def sync_replication(self) -> bool:
        """Whether this is replication of durable writes."""
        return self.on("enable_sync_writes") and bool(self.agreed.get("consumer_name"))

    @property
    def begun(self) -> bool:
        """Whether its DCP beginnings were captured: OPEN was seen, so a control not seen was not sent.

        Not after lost bytes: what was lost may have been one.
        """
        return self.opened_by is not None and not self.lossy
