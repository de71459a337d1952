"""Follow the set-up of a connection: HELLO, authentication, bucket, OPEN, controls; and its keep-alives."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.escape import safe_text
from dcpdump.spec.names import COLLECTIONS, DELETE_TIMES, NOTIFIER, PRODUCER, REPLICATION, SKIP_DELETES
from dcpdump.spec.statuses import AUTH_CONTINUE, KEY_EEXISTS, SUCCESS
from dcpdump.startup import dataclass, field
from dcpdump.streams import opcode_kinds as kinds
from dcpdump.streams.exchanges import UnansweredRequest
from dcpdump.streams.frame_event import FrameEvent, between, identity_of
from dcpdump.streams.phases import SetupPhase
from dcpdump.streams.wording import error_text, whole_number

if TYPE_CHECKING:
    from dcpdump.streams.state import ConnectionState

_BUFFER_SIZE, _NOOPS, _EXPIRY = "connection_buffer_size", "enable_noop", "enable_expiry_opcode"
_LATENCIES = 100
#: How many control keys are remembered: the protocol has a few dozen.
_CONTROLS = 256
_KEYED = frozenset({kinds.CONTROL, kinds.SELECT_BUCKET, kinds.SASL_AUTH})

#: How many refusals are remembered for a connection: one for each vbucket, and for the other steps.
_REFUSALS = 1100
#: The steps up to DCP_OPEN: where one is accepted, those before it were, or are not needed.
_STEPS = (kinds.SASL_AUTH, kinds.SELECT_BUCKET, kinds.OPEN)

#: What a client sends first.
_FIRST = frozenset({kinds.HELLO, kinds.SASL_LIST_MECHS, kinds.SASL_AUTH})


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
    due_ns: int | None = None  #: when the first stream was granted: servers may send none before
    open_ns: int | None = None  #: when the one that waits for its answer was sent
    open_frame: int | None = None
    last_ns: int | None = None
    answered_ns: int | None = None  #: when one was answered last
    latencies_ns: list[int] = field(default_factory=list)  #: of the first hundred


class NameTaken(NamedTuple):
    """Another connection was opened with the name of one."""

    by: int  #: its number
    ts_ns: int | None


@dataclass(slots=True, eq=False)
class Setup:
    """The set-up of a connection, as far as captured: HELLO, login, bucket, DCP_OPEN, controls."""

    began: int | None = None  #: the direction of its very first frame, if that is what a client says first
    speaks_dcp: bool = False  #: a DCP message was captured, other than those of streams
    agent: str | None = None  #: of HELLO
    asked_features: frozenset[int] | None = None
    features: frozenset[int] | None = None  #: granted
    has_collections: bool | None = None  #: whether keys have collection ids; None where HELLO was not captured
    mechanism: str | None = None
    authenticated: bool | None = None
    bucket: str | None = None
    name: str | None = None  #: of DCP_OPEN
    flags: int | None = None
    opened_by: FrameEvent | None = None  #: the latest DCP_OPEN
    status: int | None = None  #: of its answer
    client_key: tuple[str, str, str] | None = None  #: server, bucket and name, once it was opened
    previous_with_name: "ConnectionState | None" = None  #: that had its name before, on that server and bucket
    name_taken: NameTaken | None = None  #: by the one that has had its name since
    accepted_steps: dict[int, int] = field(default_factory=dict)  #: by opcode: the frame that accepted a step last
    refusals: dict[tuple[int, int], SetupRefusal] = field(default_factory=dict)
    #: by opcode and vbucket: the steps that were refused, and not accepted since
    controls: dict[str, Control] = field(default_factory=dict)  #: the latest of each key
    agreed: dict[str, str] = field(default_factory=dict)  #: the controls that were accepted, and are in force
    noops_enabled_ns: int | None = None

    @property
    def phase(self) -> SetupPhase:
        """Return the phase of the set-up."""
        if self.opened_by is not None:
            return SetupPhase.OPEN if kinds.OPEN in self.accepted_steps else SetupPhase.OPENING
        if self.authenticated is False:
            return SetupPhase.LOGIN_REFUSED
        if self.bucket is not None:
            return SetupPhase.BUCKET_SELECTED
        return SetupPhase.AUTHENTICATED if self.authenticated else SetupPhase.CONNECTED

    @property
    def produces(self) -> bool | None:
        """Whether the end that was opened sends changes, or notifies of them; None where that was not captured."""
        return None if self.flags is None else bool(self.flags & (PRODUCER | NOTIFIER))

    @property
    def notifies(self) -> bool:
        """Whether its streams only end, as soon as there is something above their start (up to 6.6)."""
        return bool((self.flags or 0) & NOTIFIER)

    @property
    def between_nodes(self) -> bool:
        """Whether it replicates between nodes, as far as DCP_OPEN says."""
        return self.produces is False or (self.name or "").startswith(REPLICATION)

    @property
    def is_open(self) -> bool:
        """Whether DCP_OPEN was sent and succeeded."""
        return self.opened_by is not None and kinds.OPEN in self.accepted_steps

    @property
    def advances(self) -> bool:
        """Whether the producer sends SEQNO_ADVANCED where items are filtered out at a snapshot's end."""
        skips = bool((self.flags or 0) & SKIP_DELETES)
        quiet = self.on("enable_sync_writes") and self.on("flatbuffers_system_events") and not skips
        return bool(self.has_collections) and not quiet

    @property
    def sync_replication(self) -> bool:
        """Whether this is replication of durable writes."""
        return self.on("enable_sync_writes") and bool(self.agreed.get("consumer_name"))

    def on(self, key: str) -> bool:
        """Return whether a control is in force, and on."""
        return self.agreed.get(key, "false").startswith("true")


def begin_direction(connection: "ConnectionState", frame: FrameEvent) -> None:
    """Note what the first frame of a direction shows of those before it."""
    first = connection.syn or not connection.sides[1 - frame.direction].frames
    if first and frame.opcode in _FIRST and not (frame.response or frame.server):
        connection.setup.began = frame.direction
    elif connection.opening_missing and frame.direction != connection.producer_direction:
        # The consumer may have acknowledged what came before.
        connection.window.lose(None, frame.ts_ns, acks=True)


def waiting_for(frame: FrameEvent, connection: "ConnectionState") -> UnansweredRequest:
    """Return what is to be remembered of a request that has to be answered."""
    waiting = UnansweredRequest(identity_of(frame), connection.sides[1 - frame.direction].frames)
    if frame.opcode in _KEYED:
        waiting.key = _key(frame) or ""
    if frame.opcode == kinds.CONTROL:
        waiting.value = safe_text(frame.value)
    elif frame.opcode == kinds.ALL_SEQNOS:
        collection = frame.get("collection_id")
        waiting.value = "" if collection is None else str(collection)
    return waiting


def keep_alive(connection: "ConnectionState", frame: FrameEvent, *, asks: bool) -> None:
    """Note a DCP_NOOP. Not ``asks``: it is from the wrong end, and may be meant as the answer to one."""
    noops = connection.noops
    if not asks:
        waiting = connection.exchanges.asked(frame)
        if waiting is not None:
            waiting.echo = frame.number
        return
    noops.sent += 1
    connection.window.counted.noops += frame.length
    noops.last_ns = frame.ts_ns
    _wait(connection, frame.direction, frame)


def _wait(connection: "ConnectionState", direction: int, latest: FrameEvent | None) -> None:
    """Note which NOOP waits longest for its answer. ``latest``: one that is not among those that wait yet.

    The answer to one may be among lost bytes: a producer that sends the next has received it.
    """
    oldest, noops = connection.exchanges.oldest_noop(direction) or latest, connection.noops
    noops.open_ns, noops.open_frame = (None, None) if oldest is None else (oldest.ts_ns, oldest.number)


# -- requests -----------------------------------------------------------------------------------------------


def _hello(connection: "ConnectionState", frame: FrameEvent) -> None:
    connection.setup.agent = _key(frame) or None
    connection.setup.asked_features = _features(frame)


def _sasl(connection: "ConnectionState", frame: FrameEvent) -> None:
    connection.setup.mechanism = _key(frame) or None


def _open(connection: "ConnectionState", frame: FrameEvent) -> None:
    connection.setup.name = _key(frame)
    connection.setup.flags, connection.setup.opened_by = frame.get("flags"), identity_of(frame)
    if connection.setup.produces is not None:
        connection.producer_direction = 1 - frame.direction if connection.setup.produces else frame.direction
    connection.window.complete = not connection.losses


def _control(connection: "ConnectionState", frame: FrameEvent) -> None:
    key, value = _key(frame), safe_text(frame.value)
    if key is None:
        return
    if key in connection.setup.controls or len(connection.setup.controls) < _CONTROLS:
        connection.setup.controls[key] = Control(key, value, frame.number, frame.ts_ns)
    if key == _BUFFER_SIZE:
        connection.window.ask(whole_number(value))


REQUESTS: dict[int, Callable[["ConnectionState", FrameEvent], None]] = {
    kinds.HELLO: _hello,
    kinds.SASL_AUTH: _sasl,
    kinds.SASL_STEP: _sasl,
    kinds.OPEN: _open,
    kinds.CONTROL: _control,
}


# -- answers ------------------------------------------------------------------------------------------------


def _helloed(connection: "ConnectionState", frame: FrameEvent, waiting: UnansweredRequest | None) -> None:
    if frame.status == SUCCESS and frame.complete:
        connection.setup.features = _features(frame)
        if connection.setup.features is not None:
            connection.setup.has_collections = COLLECTIONS in connection.setup.features


def _authenticated(connection: "ConnectionState", frame: FrameEvent, waiting: UnansweredRequest | None) -> None:
    if frame.status != AUTH_CONTINUE:
        if frame.status == SUCCESS or not connection.setup.is_open:  # a refusal on an open connection changes nothing
            connection.setup.authenticated = frame.status == SUCCESS
        _settle(connection, frame, kinds.SASL_AUTH)


def _selected(connection: "ConnectionState", frame: FrameEvent, waiting: UnansweredRequest | None) -> None:
    if frame.status == SUCCESS and waiting is not None:
        connection.setup.bucket = waiting.key or None
    _settle(connection, frame, kinds.SELECT_BUCKET, "" if waiting is None else waiting.key)


def _opened(connection: "ConnectionState", frame: FrameEvent, waiting: UnansweredRequest | None) -> None:
    connection.setup.status = frame.status
    _settle(connection, frame, kinds.OPEN)
    if frame.status == SUCCESS and connection.setup.name:
        client_key = connection.server_address or connection.dst, connection.setup.bucket or "", connection.setup.name
        connection.setup.client_key = client_key
        other = connection.memory.names.get(client_key)
        if other is not connection:
            connection.setup.previous_with_name = other
            if other is not None:
                asked = connection.setup.opened_by or frame
                other.setup.name_taken = NameTaken(connection.number, asked.ts_ns)
        connection.memory.names[client_key] = connection


def _added(connection: "ConnectionState", frame: FrameEvent, waiting: UnansweredRequest | None) -> None:
    if waiting is not None and frame.status != KEY_EEXISTS:
        _settle(connection, frame, kinds.ADD_STREAM, vbucket=waiting.frame.vbucket)


def _settle(
    connection: "ConnectionState", frame: FrameEvent, opcode: int, asked: str = "", *, vbucket: int | None = None
) -> None:
    """Remember that a step was refused, or that what was refused before was accepted.

    An answer that was captured before its request is learnt twice.
    """
    refusals, key = connection.setup.refusals, (opcode, vbucket or 0)
    if frame.status == SUCCESS:
        connection.setup.accepted_steps[opcode] = frame.number
        if refusals:
            accepted = _STEPS[: _STEPS.index(opcode) + 1] if opcode in _STEPS else ()
            for each in (key, *((step, 0) for step in accepted)):
                refusals.pop(each, None)
        return
    known = refusals.get(key)
    if frame.weak or (known is None and len(refusals) >= _REFUSALS):
        return
    other = known is None or (asked and known.asked and asked != known.asked)
    count = 1 if known is None or other else known.count + (known.frame != frame.number)
    asked = asked or (known.asked if known is not None else "")
    refusals[key] = SetupRefusal(
        opcode, vbucket, asked, frame.status, count, frame.number, frame.ts_ns, connection.losses, _said(frame)
    )


def _controlled(connection: "ConnectionState", frame: FrameEvent, waiting: UnansweredRequest | None) -> None:
    if waiting is None or not waiting.key:
        return
    key, value = waiting.key, waiting.value
    control = connection.setup.controls.get(key)
    if control is not None and control.frame == waiting.frame.number:
        control.status, control.said = frame.status, _said(frame)
    if frame.status != SUCCESS:
        if key == _BUFFER_SIZE:
            connection.window.refuse()
        return
    if key == _EXPIRY and not (connection.setup.flags or 0) & DELETE_TIMES:
        return  # accepted, and without effect
    if key in connection.setup.agreed or len(connection.setup.agreed) < _CONTROLS:
        connection.setup.agreed[key] = value
    if key == _NOOPS:
        connection.setup.noops_enabled_ns = connection.last_ns
    size = whole_number(value) if key == _BUFFER_SIZE else None
    if size is not None:
        connection.window.resize(size, frame.ts_ns)
    elif key == _BUFFER_SIZE:
        connection.window.refuse()


def _kept_alive(connection: "ConnectionState", frame: FrameEvent, waiting: UnansweredRequest | None) -> None:
    noops = connection.noops
    if waiting is None:
        return
    noops.answered += 1
    noops.answered_ns = frame.ts_ns
    _wait(connection, waiting.frame.direction, None)
    took_ns = between(waiting.frame.ts_ns, frame.ts_ns)
    if took_ns is not None and len(noops.latencies_ns) < _LATENCIES:
        noops.latencies_ns.append(took_ns)


ANSWERS: dict[int, Callable[["ConnectionState", FrameEvent, UnansweredRequest | None], None]] = {
    kinds.HELLO: _helloed,
    kinds.SASL_AUTH: _authenticated,
    kinds.SASL_STEP: _authenticated,
    kinds.SELECT_BUCKET: _selected,
    kinds.OPEN: _opened,
    kinds.ADD_STREAM: _added,
    kinds.CONTROL: _controlled,
    kinds.NOOP: _kept_alive,
}


def _features(frame: FrameEvent) -> frozenset[int] | None:
    if frame.record is None:
        return None
    fields = frame.record.frame.fields
    return frozenset(f.value for f in fields if f.group == "features" and isinstance(f.value, int))


def _said(frame: FrameEvent) -> str:
    return "" if frame.record is None else error_text(frame.record.content.document)


def _key(frame: FrameEvent) -> str | None:
    """Return the key of a frame as text; None where bytes of the frame were lost, and maybe of the key."""
    return safe_text(frame.key) if frame.complete else None
