"""Remember what one connection has sent so far that changes how its later frames are decoded.

A session knows which features HELLO granted, the flags of OPEN, the requests that wait for a response, and the vbucket
of each stream's opaque. Where the capture starts later, it infers whether keys carry collection ids, and marks that as
inferred.
"""

from collections import OrderedDict
from typing import Any, Final, NamedTuple

from dcpdump.spec import find
from dcpdump.spec.names import ACKNOWLEDGE, COLLECTIONS, UNDERLYING_DATATYPE
from dcpdump.spec.opcodes import (
    DCP_CACHE_TRANSFER,
    DCP_CONTROL,
    DCP_NOOP,
    DCP_OPEN,
    DCP_OSO_SNAPSHOT,
    DCP_SEQNO_ADVANCED,
    DCP_SNAPSHOT_MARKER,
    DCP_STREAM_REQ,
    DCP_SYSTEM_EVENT,
    HELLO,
    STAT,
)
from dcpdump.startup import dataclass
from dcpdump.wire.frame import Frame
from dcpdump.wire.value import Content, interpret, read_prefix

# -- requests that wait for their responses -----------------------------------------------------------
# A response has the opcode and the opaque of its request, and comes from the other side. Several requests may have one
# opaque (some clients send all with the same): they are answered in the order in which they were sent. Where the two
# directions were captured out of order, a response may come before its request.

#: Beyond this many, requests without a response are evicted, oldest first.
MAX_OUTSTANDING = 4096
#: About how many bytes of memory one takes.
REQUEST_COST = 512

RequestKey = tuple[int, int, int]  #: the direction of the request (-1: unknown), its opcode and opaque
#: Requests as plain values, oldest first: key, number, time, vbucket, whether the response may have been lost.
RequestStates = list[tuple[int, int, int, int, int | None, int, bool]]
#: These, how many responses came before the request of a key, and whether all requests are captured.
OutstandingState = tuple[RequestStates, dict[RequestKey, int], bool]


def _is_alone(opcode: int) -> bool:
    message = find(opcode)
    return opcode == DCP_NOOP or (not message.known and message.name.endswith("Q"))


#: The most responses that may come before their requests: more have another cause.
_EARLY = 64
#: Requests of which only the latest with an opaque can still be answered: a keep-alive is sent only after the response
#: to the one before, and quiet commands (GETQ, SETQ …) are mostly not answered.
ALONE = frozenset(filter(_is_alone, range(256)))
#: For other opcodes, a response without a request belongs to a request that was captured late, or not at all.
PAIRED = frozenset(opcode for opcode in range(256) if find(opcode).replies) - ALONE


class SessionRequest(NamedTuple):
    """A request, answered or not."""

    frame: int  #: its number in the output
    ts_ns: int | None
    vbucket: int


class Outstanding:
    """Queues of requests, one for each direction, opcode and opaque, with a bound over all."""

    __slots__ = ("_asked", "_early", "_knows_all", "_queues", "_serial", "_sure")

    def __init__(self) -> None:
        self._asked: dict[int, tuple[RequestKey, SessionRequest]] = {}  # by serial number: the oldest first
        self._queues: dict[RequestKey, list[int]] = {}
        self._serial = 0
        self._sure = 0  # the responses to requests before this one may have been lost
        self._knows_all = False  # responses that were captured before their requests
        self._early: dict[RequestKey, int] = {}  # how many these are

    def __len__(self) -> int:
        return len(self._asked)

    def state(self) -> OutstandingState:
        """Return the requests as plain values, for ``restore``."""
        requests: RequestStates = [
            (*key, *asked, serial < self._sure)
            for serial, (key, asked) in self._asked.items()
            if serial >= self._sure or len(self._queues[key]) == 1
        ]
        return requests, dict(self._early), self._knows_all

    def restore(self, state: OutstandingState) -> None:
        """Continue from a state."""
        requests, early, knows_all = state
        for way, opcode, opaque, number, ts_ns, vbucket, doubtful in requests:
            self.ask((way, opcode, opaque), SessionRequest(number, ts_ns, vbucket))
            if doubtful:
                self.lose()
        self._early, self._knows_all = dict(early), knows_all

    def begin(self) -> None:
        """Assume that from here on all requests are captured, and that earlier ones were answered."""
        self._knows_all = True

    def ask(self, key: RequestKey, asked: SessionRequest) -> None:
        """Note a request; one whose response came before it does not wait."""
        early = self._early.pop(key, 0) if self._early else 0
        if early:
            if early > 1:
                self._early[key] = early - 1
            return
        queue = self._queues.get(key)
        if queue and (queue[0] < self._sure or key[1] in ALONE):
            self._forget(key)
        if len(self._asked) >= MAX_OUTSTANDING:
            self._answer_first(next(iter(self._asked.values()))[0])
            self._doubt()
        self._asked[self._serial] = key, asked
        self._queues.setdefault(key, []).append(self._serial)
        self._serial += 1

    def first(self, key: RequestKey) -> SessionRequest | None:
        """Return the request that the next response answers; None where there is none, or where it is not known."""
        queue = self._queues.get(key)
        if queue and len(queue) > 1 and queue[0] < self._sure:
            self._forget(key)
            return None
        return self._asked[queue[0]][1] if queue else None

    def answer(self, key: RequestKey) -> SessionRequest | None:
        """Note a response, and return the request that it answers."""
        found = self._answer_first(key)
        if found is None and self._knows_all and key[1] in PAIRED and len(self._early) < _EARLY:
            self._early[key] = self._early.get(key, 0) + 1
        return found

    def lose(self) -> None:
        """Note that bytes were lost: responses may have been among them.

        Where several requests with one opaque wait, it is not known which of them the next response answers. A single
        one may still be answered, unless an equal request follows.
        """
        self._sure = self._serial
        self._doubt()

    def clear(self) -> None:
        """Forget all requests."""
        self._asked.clear()
        self._queues.clear()
        self._doubt()

    def _doubt(self) -> None:
        """Assume that a response without a request may answer an unknown one."""
        self._knows_all = False
        self._early.clear()

    def _answer_first(self, key: RequestKey) -> SessionRequest | None:
        found = self.first(key)
        if found is not None:
            queue = self._queues[key]
            del self._asked[queue.pop(0)]
            if not queue:
                del self._queues[key]
        return found

    def _forget(self, key: RequestKey) -> None:
        for serial in self._queues.pop(key):
            del self._asked[serial]


#: Messages that only a connection with collections carries.
COLLECTION_MESSAGES: Final = (DCP_SYSTEM_EVENT, DCP_SEQNO_ADVANCED, DCP_OSO_SNAPSHOT, DCP_CACHE_TRANSFER)
MAX_STREAMS: Final = 65_536
_STREAM_COST: Final = 256


@dataclass(frozen=True, slots=True)
class Interpretation:
    """A frame, interpreted with what its session knows."""

    content: Content
    vbucket: int | None  #: of a response, that of its request
    request: SessionRequest | None = None  #: the request of a response


#: The attributes of a session, as plain values.
SessionState = dict[str, Any]


class Session:
    """The state of one connection. Feed it every frame, in order, with its direction (0 or 1; -1 unknown)."""

    def __init__(self) -> None:
        self.features: frozenset[int] | None = None
        self.open_flags: int | None = None
        self.streams: dict[int, int] = {}  #: opaque → vbucket of streams that were requested or seen
        self.seqnos: dict[int, int] = {}  #: opaque → last by_seqno
        self.outstanding = Outstanding()
        self.forgot = False  #: streams were forgotten, so that unknown ones are possible
        self.marker_asked: int | None = None  #: opaque of the request for markers of version 2.2
        self.certain = False  #: a message was seen that only a connection with collections carries
        self.keys_fit = True  #: each document key so far may start with a collection id
        self.keys_tell = False  #: at least one does, and is not plain text

    def state(self) -> SessionState:
        """Return the whole state as plain values, for ``restore``. Pack it before the session continues."""
        features = None if self.features is None else sorted(self.features)
        plain = {"features": features, "outstanding": self.outstanding.state(), "streams": dict(self.streams)}
        return vars(self) | plain

    def restore(self, state: SessionState) -> None:
        """Continue from a state."""
        outstanding, features = Outstanding(), state["features"]
        outstanding.restore(state["outstanding"])
        granted = None if features is None else frozenset(features)
        vars(self).update(state, features=granted, outstanding=outstanding)

    @property
    def collections(self) -> bool | None:
        """Return whether document keys carry a collection id; None without evidence."""
        if self.features is not None:
            return COLLECTIONS in self.features
        if self.certain or (self.keys_fit and self.keys_tell):
            return True
        return None

    @property
    def complete(self) -> bool:
        """Return whether the connection was captured from its DCP_OPEN on, so that ``streams`` are all its streams."""
        return self.open_flags is not None and not self.forgot

    @property
    def held(self) -> int:
        """Return about how many bytes of memory the streams and the open requests take."""
        return _STREAM_COST * len(self.streams) + REQUEST_COST * len(self.outstanding)

    def forget(self) -> None:
        """Free memory: forget all streams and requests, but keep what was negotiated."""
        self.forgot = self.forgot or bool(self.streams)
        self.streams.clear()
        self.seqnos.clear()
        self.outstanding.clear()

    def lose(self) -> None:
        """Note that bytes of either direction were lost: requests or responses may have been among them."""
        self.outstanding.lose()

    def understand(self, frame: Frame, number: int = 0, direction: int = -1) -> Interpretation:
        """Interpret a frame with the state so far, and update the state for the frames that follow."""
        if frame.raw.gap_before:
            self.lose()
        self._learn(frame)
        content = interpret(
            frame,
            collections=self.collections,
            inferred=self.features is None,  # the response to HELLO was not captured
            underlying_datatype=self.underlying_datatype,
        )
        if frame.magic.response:
            return self._answered(frame, content, direction)
        self._ask(frame, number, direction)
        return Interpretation(content, frame.header.vbucket_or_status)

    @property
    def underlying_datatype(self) -> bool:
        """Return whether the connection was opened with the flag under which a datatype may describe absent bytes."""
        return bool((self.open_flags or 0) & UNDERLYING_DATATYPE)

    def note(self, opaque: int, vbucket: int, seqno: int | None) -> None:
        """Note a message of a stream, as ``understand`` does."""
        if opaque not in self.streams and len(self.streams) >= MAX_STREAMS:
            if not isinstance(self.streams, OrderedDict):
                self.streams = OrderedDict(self.streams)
            oldest, _ = self.streams.popitem(last=False)
            self.seqnos.pop(oldest, None)
            self.forgot = True
        self.streams[opaque] = vbucket
        if seqno is not None:
            self.seqnos[opaque] = seqno

    def pair(self, direction: int, opcode: int, opaque: int, asked: SessionRequest | None) -> SessionRequest | None:
        """Note a message that is not DCP's: a request, or a response (``asked`` None).

        Return the request that the response answers.
        """
        if asked is None:
            return self.outstanding.answer((1 - direction, opcode, opaque))
        self.outstanding.ask((direction, opcode, opaque), asked)
        return None

    # -- requests and responses -------------------------------------------------------------------------

    def _ask(self, frame: Frame, number: int, direction: int) -> None:
        header = frame.header
        # A frame found on weak evidence may be part of a document; noting its stream would hide the true ones.
        if (frame.message.streamed or header.opcode == DCP_STREAM_REQ) and not frame.raw.confidence:
            seqno = frame.get("by_seqno")
            self.note(header.opaque, header.vbucket_or_status, seqno)
            if seqno is None and header.opcode == DCP_STREAM_REQ:
                self.seqnos.pop(header.opaque, None)
        acknowledged = header.opcode == DCP_SNAPSHOT_MARKER and (frame.get("snapshot_type") or 0) & ACKNOWLEDGE
        if frame.message.replies or acknowledged:
            asked = SessionRequest(number, frame.raw.where.ts_ns, header.vbucket_or_status)
            self.outstanding.ask((direction, header.opcode, header.opaque), asked)

    def _answered(self, frame: Frame, content: Content, direction: int) -> Interpretation:
        header = frame.header
        asker = -1 if direction < 0 else 1 - direction
        key = (asker, header.opcode, header.opaque)
        more = header.opcode == STAT and frame.key  # a STAT is answered until an empty key
        asked = self.outstanding.first(key) if more else self.outstanding.answer(key)
        vbucket = asked.vbucket if asked else None
        if asked is None and frame.message.streamed:
            vbucket = self.streams.get(header.opaque)
        return Interpretation(content, vbucket, asked)

    # -- what the connection has ------------------------------------------------------------------------

    def _learn(self, frame: Frame) -> None:
        opcode, response = frame.header.opcode, frame.magic.response
        whole = not frame.raw.lost(0, frame.raw.length)
        if opcode == HELLO and response and not frame.header.vbucket_or_status and not frame.magic.server and whole:
            granted = [field.value for field in frame.fields if field.group == "features"]
            self.features = frozenset(value for value in granted if isinstance(value, int))
        elif opcode == DCP_OPEN and not response:
            self.open_flags = frame.get("flags")
            if not frame.raw.confidence:
                self.outstanding.begin()
        elif opcode == DCP_CONTROL and not response and frame.key == b"max_marker_version":
            self.marker_asked = frame.header.opaque
        elif opcode == DCP_CONTROL and response and not frame.header.vbucket_or_status:
            self.certain |= frame.header.opaque == self.marker_asked
        if self.features is None and not response:
            self._infer(frame)

    def _infer(self, frame: Frame) -> None:
        opcode = frame.header.opcode
        if (
            opcode in COLLECTION_MESSAGES
            or frame.stream_id is not None
            or (opcode == DCP_STREAM_REQ and frame.value)
            or frame.layout.version.startswith("2.2")
        ):
            self.certain = True
        if frame.key and frame.message.collection_key and "clen" not in frame.layout.version:
            prefix = read_prefix(frame.key)
            if prefix is None or not prefix.sound or prefix.size == len(frame.key):
                self.keys_fit = False
            elif not 0x20 <= frame.key[0] <= 0x7E:
                self.keys_tell = True
