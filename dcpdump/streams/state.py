"""What is known of a connection, and of one DCP stream on it. None always means: not witnessed."""

from dataclasses import dataclass, field

from dcpdump.spec.names import COLLECTIONS
from dcpdump.streams.facts import Collection, Complaint, Control, Entry, Noops, Snapshot, State, Waiting
from dcpdump.streams.window import FIRST, LAST, Window

SUCCESS, ROLLBACK = 0x00, 0x23
TAKEOVER, DISK_ONLY, TO_LATEST, STRICT_UUID, FROM_LATEST, IGNORE_PURGED, CACHE_TRANSFER = (
    0x01,
    0x02,
    0x04,
    0x20,
    0x40,
    0x80,
    0x100,
)
PRODUCER = 0x01  #: of the open flags
NEVER = (1 << 64) - 1


@dataclass(slots=True)
class Request:
    """A stream request, and what was answered."""

    frame: int
    ts_ns: int | None
    opaque: int
    flags: int | None
    start_seqno: int | None
    end_seqno: int | None
    vbucket_uuid: int | None
    snap_start_seqno: int | None
    snap_end_seqno: int | None
    stream_id: int = 0
    collections: tuple[str, ...] | None = None  #: the filter
    scope: str | None = None
    purge_seqno: int | None = None
    has_json: bool = False
    status: int | None = None  #: None: no answer witnessed
    answer_frame: int | None = None
    answered_ns: int | None = None
    rollback_seqno: int | None = None
    failover_log: tuple[Entry, ...] | None = None
    context: str = ""  #: what the server said about an error
    still_open: "Stream | None" = None  #: the stream of the same place that was open when this one was asked for

    @property
    def filtered(self) -> bool:
        """Whether only some collections were asked for."""
        return self.collections is not None or self.scope is not None


@dataclass(slots=True, eq=False)
class Stream:
    """One DCP stream: a vbucket, and a stream id where the connection has them, from its request to its end.

    A request after a rollback or a refusal goes on with the same Stream, one after its end begins the next.
    """

    connection: "Connection"
    vbucket: int
    stream_id: int = 0
    number: int = 1  #: 1, 2, 3 … of those with this vbucket and stream id on this connection
    opaque: int | None = None
    requests: list[Request] = field(default_factory=list)
    granted: bool = False
    granted_ns: int | None = None
    granted_frame: int | None = None
    failover_log: tuple[Entry, ...] | None = None
    # what came
    counts: list[int] = field(default_factory=lambda: [0] * (LAST - FIRST + 1))  #: frames by opcode, from FIRST on
    size: int = 0  #: bytes of its messages
    first_ns: int | None = None  #: of anything about it
    last_ns: int | None = None
    first_seqno: int | None = None
    last_seqno: int | None = None  #: of the latest message that brought one
    high_seqno: int | None = None  #: the largest that came
    last_item_ns: int | None = None
    # where it is
    snapshot: Snapshot | None = None  #: None before the first marker, and after lost bytes until the next
    snapshots: int = 0
    oso: bool = False  #: inside an out-of-order snapshot
    oso_snapshots: int = 0
    ordered: bool = False  #: ``last_seqno`` is the last that was sent: nothing was lost since
    caching: bool = False  #: in the phase of cache transfer
    states: list[State] = field(default_factory=list)  #: that a takeover set
    state_acks: int = 0
    acked_seqno: int | None = None  #: of the consumer's SEQNO_ACKNOWLEDGED
    prepared: dict[bytes, int] = field(default_factory=dict)  #: open prepares by key
    purge_seqno: int | None = None  #: the latest that a marker told
    # how it ended
    end_status: int | None = None
    ended_ns: int | None = None
    end_frame: int | None = None
    close_asked_ns: int | None = None
    closed_ns: int | None = None  #: the consumer closed it, and was told that it is
    after_end: int = 0  #: messages after its end
    next: "Stream | None" = None  #: the one that followed it in its place
    rival: "Stream | None" = None  #: the one that was asked for in its place while it was open
    # what was lost meanwhile
    epoch: int = 0  #: how often bytes were lost in its direction since it began
    losses: int = 0  #: the direction's count of losses that this state knows of
    lost_bytes: int = 0
    lost_before: int = 0  #: the direction's lost bytes that are not its own, or counted already
    replaced: bool = False  #: another was granted in its place while it was open
    complaints: list["Complaint"] = field(
        default_factory=list
    )  #: what the consumer answered with an error, the first few

    @property
    def request(self) -> Request | None:
        """The latest request; None where none was witnessed."""
        return self.requests[-1] if self.requests else None

    @property
    def witnessed(self) -> bool:
        """Whether its beginning was seen: the request, and that it was granted."""
        return self.granted and bool(self.requests)

    @property
    def ended(self) -> bool:
        """Whether it came to an end: by STREAM_END, or because the consumer closed it."""
        return self.end_frame is not None or self.closed_ns is not None

    @property
    def alive(self) -> bool:
        """Whether, as far as was witnessed, it is open: granted or sending, and not ended."""
        return not self.ended and (self.granted or not self.requests)

    @property
    def counts_any(self) -> bool:
        """Whether any message of it came."""
        return any(self.counts)

    @property
    def rollbacks(self) -> list[Request]:
        """The requests that were answered with a rollback."""
        return [request for request in self.requests if request.status == ROLLBACK]

    @property
    def flags(self) -> int:
        """The flags of the request; 0 where not witnessed."""
        return (self.requests[-1].flags or 0) if self.requests else 0

    @property
    def takeover(self) -> bool:
        """Whether it hands the vbucket over."""
        return bool(self.flags & TAKEOVER) or bool(self.states)

    def lose(self, direction: int) -> None:
        """Bytes were lost in its direction: a new epoch of what is known of it begins."""
        connection = self.connection
        self.epoch += 1
        self.losses = connection.losses[direction]
        self.lost_bytes += connection.lost_bytes[direction] - self.lost_before
        self.lost_before = connection.lost_bytes[direction]
        self.snapshot = None
        self.ordered = self.oso = self.caching = False
        self.prepared.clear()

    def follow(self, before: "Stream | None") -> None:
        """It comes after another in its place."""
        if before is not None:
            before.next = self
            self.number = before.number + 1

    def count(self, *opcodes: int) -> int:
        """It gives how many messages of these opcodes came."""
        return sum(self.counts[opcode - FIRST] for opcode in opcodes)


@dataclass(slots=True, eq=False)
class Connection:
    """One TCP connection. ``src`` opened it, as far as that was seen; direction 0 is what it sends."""

    number: int
    src: str = ""
    dst: str = ""
    server: int | None = None  #: the direction in which the server sends
    feeder: int | None = None  #: the direction in which messages of streams travel
    agent: str | None = None  #: of HELLO
    asked_features: frozenset[int] | None = None
    features: frozenset[int] | None = None  #: granted
    hello_ns: int | None = None
    hellos: int = 0
    mechanism: str | None = None
    authenticated: bool | None = None
    bucket: str | None = None
    name: str | None = None  #: of DCP_OPEN
    open_flags: int | None = None
    opened: bool = False  #: DCP_OPEN was answered with Success
    open_frame: int | None = None
    opens: int = 0
    open_status: int | None = None
    controls: dict[str, Control] = field(default_factory=dict)  #: the latest of each key
    stream_requests: int = 0
    window: Window = field(default_factory=Window)
    noops: Noops = field(default_factory=Noops)
    streams: list[Stream] = field(default_factory=list)
    current: dict[int, Stream] = field(default_factory=dict)  #: by vbucket << 16 | stream id
    by_opaque: dict[int, Stream] = field(default_factory=dict)
    asking: dict[int, tuple[Stream, Request]] = field(default_factory=dict)  #: stream requests by opaque
    waiting: dict[tuple[int, int, int], Waiting] = field(default_factory=dict)  #: by direction, opcode, opaque
    collections: dict[int, Collection] = field(default_factory=dict)
    scopes: dict[int, Collection] = field(default_factory=dict)
    manifest_uid: int | None = None
    frames: list[int] = field(default_factory=lambda: [0, 0])
    bytes: list[int] = field(default_factory=lambda: [0, 0])
    losses: list[int] = field(default_factory=lambda: [0, 0])  #: how often bytes were lost, by direction
    lost_bytes: list[int] = field(default_factory=lambda: [0, 0])
    lost_ns: list[int | None] = field(default_factory=lambda: [None, None])  #: when bytes were lost last
    first_ns: int | None = None
    last_ns: int | None = None
    ended_ns: int | None = None  #: the TCP connection ended, by FIN or RST
    ended_by: int | None = None  #: the direction whose end came first
    end_reason: str = ""  #: fin, rst, reused

    @property
    def lossy(self) -> bool:
        """Whether bytes of it were lost."""
        return bool(self.losses[0] or self.losses[1])

    @property
    def role(self) -> str | None:
        """What the server is on it: ``producer`` or ``consumer``."""
        if self.open_flags is not None:
            return "producer" if self.open_flags & PRODUCER else "consumer"
        if self.server is None or self.feeder is None:
            return None
        return "producer" if self.server == self.feeder else "consumer"

    @property
    def server_address(self) -> str | None:
        """The address and port of the server; None where the capture does not say which end it is."""
        return None if self.server is None else (self.src if self.server == 0 else self.dst) or None

    @property
    def client_address(self) -> str | None:
        """The address and port of the client; None where the capture does not say which end it is."""
        return None if self.server is None else (self.dst if self.server == 0 else self.src) or None

    @property
    def server_host(self) -> str:
        """The address of the server; of the end that was connected to, where nothing tells."""
        return (self.src if self.server == 0 else self.dst).rpartition(":")[0]

    @property
    def client_host(self) -> str:
        """The address of the other end."""
        return (self.dst if self.server == 0 else self.src).rpartition(":")[0]

    @property
    def has_collections(self) -> bool | None:
        """Whether keys have collection ids; None where HELLO was not witnessed."""
        return None if self.features is None else COLLECTIONS in self.features

    def accepted(self, key: str) -> str | None:
        """It gives the value of a control that was accepted; None where it was not, or not witnessed."""
        control = self.controls.get(key)
        return control.value if control is not None and control.status == SUCCESS else None

    @property
    def begun(self) -> bool:
        """Whether its DCP beginnings were witnessed: OPEN was seen, so a control not seen was not sent.

        Not after lost bytes: what was lost may have been one.
        """
        return self.open_frame is not None and not self.lossy
