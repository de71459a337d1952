"""Remember what one connection has sent so far that changes how its later frames are decoded.

It knows what HELLO granted, what OPEN asked for, which requests wait for a response and which vbucket a stream's opaque
stands for. Where the capture starts later, it infers whether keys carry collection ids, and marks that as inferred.
"""

from collections import OrderedDict
from typing import Any, Final, TypedDict

from dcpdump.quick_dataclass import dataclass
from dcpdump.spec.names import ACKNOWLEDGE, COLLECTIONS, UNDERLYING_DATATYPE
from dcpdump.spec.opcodes import (
    DCP_CACHE_TRANSFER,
    DCP_CONTROL,
    DCP_OPEN,
    DCP_OSO_SNAPSHOT,
    DCP_SEQNO_ADVANCED,
    DCP_SNAPSHOT_MARKER,
    DCP_STREAM_REQ,
    DCP_SYSTEM_EVENT,
    HELLO,
    STAT,
)
from dcpdump.wire.frame import Frame
from dcpdump.wire.key_prefix import RESERVED_IDS, read_prefix
from dcpdump.wire.outstanding import REQUEST_COST, Asked, Outstanding, OutstandingState
from dcpdump.wire.value import Meaning, interpret

#: Messages that only a connection with collections carries.
COLLECTION_MESSAGES: Final = (DCP_SYSTEM_EVENT, DCP_SEQNO_ADVANCED, DCP_OSO_SNAPSHOT, DCP_CACHE_TRANSFER)
MAX_STREAMS: Final = 65_536
_STREAM_COST: Final = 256


@dataclass(frozen=True, slots=True)
class Understood:
    """A frame decoded with what is known of its connection."""

    meaning: Meaning
    vbucket: int | None  #: the request's own, or of a response that of its request
    request: Asked | None = None  #: the request of a response


class SessionState(TypedDict):
    """A session as plain values."""

    features: list[int] | None  #: that HELLO granted, None where its response was not captured
    open_flags: int | None
    streams: dict[int, int]  #: opaque → vbucket
    seqnos: dict[int, int]  #: opaque → last by_seqno
    outstanding: OutstandingState
    forgot: bool  #: streams were evicted
    marker_asked: int | None  #: opaque of the request for markers of version 2.2
    certain: bool  #: keys certainly have collection ids
    keys_fit: bool
    keys_tell: bool


def session_essence(state: SessionState) -> tuple[Any, ...]:
    """Return what decides how a session continues: two that are equal understand the same frames alike."""
    features, outstanding = state["features"], state["outstanding"]
    inferred = features is None and (
        state["certain"],
        state["keys_fit"],
        state["keys_tell"],
        state["marker_asked"],
    )
    return (
        features,
        state["open_flags"],
        state["forgot"],
        inferred,
        sorted(state["streams"].items()),
        sorted(state["seqnos"].items()),
        [(place, ts_ns or 0, vbucket, doubtful) for *place, _, ts_ns, vbucket, doubtful in outstanding["requests"]],
        sorted(outstanding["early"].items()),
        outstanding["whole"],
    )


class Session:
    """The state of one connection. Feed it every frame, in order, with its direction (0 or 1; -1 unknown)."""

    def __init__(self) -> None:
        self.features: frozenset[int] | None = None
        self.open_flags: int | None = None
        self.streams: dict[int, int] = {}  #: opaque → vbucket of streams that were asked for or seen
        self.seqnos: dict[int, int] = {}  #: opaque → last by_seqno
        self.outstanding = Outstanding()
        self._forgot = False  #: streams were evicted, so that others than those known are possible
        self._marker_asked: int | None = None  # opaque of the request for markers of version 2.2
        self.certain = False  #: something was seen that only a connection with collections carries
        self.keys_fit = True  #: every data key so far may start with a collection id
        self.keys_tell = False  #: at least one does and is not plain text

    def state(self) -> SessionState:
        """Return the whole state as plain values, for ``restore``."""
        return {
            "features": None if self.features is None else sorted(self.features),
            "open_flags": self.open_flags,
            "streams": dict(self.streams),
            "seqnos": dict(self.seqnos),
            "outstanding": self.outstanding.state(),
            "forgot": self._forgot,
            "marker_asked": self._marker_asked,
            "certain": self.certain,
            "keys_fit": self.keys_fit,
            "keys_tell": self.keys_tell,
        }

    def restore(self, state: SessionState) -> None:
        """Continue from a state."""
        features = state["features"]
        self.features = None if features is None else frozenset(features)
        self.open_flags = state["open_flags"]
        self.streams = dict(state["streams"])
        self.seqnos = dict(state["seqnos"])
        self.outstanding.restore(state["outstanding"])
        self._forgot, self._marker_asked = state["forgot"], state["marker_asked"]
        self.certain, self.keys_fit, self.keys_tell = state["certain"], state["keys_fit"], state["keys_tell"]

    @property
    def collections(self) -> bool | None:
        """Return whether data keys carry a collection id; None where there is no evidence for it."""
        if self.features is not None:
            return COLLECTIONS in self.features
        if self.certain or (self.keys_fit and self.keys_tell):
            return True
        return None

    @property
    def complete(self) -> bool:
        """Return whether the connection was captured from its DCP_OPEN on, so that ``streams`` are all that it has."""
        return self.open_flags is not None and not self._forgot

    @property
    def held(self) -> int:
        """Return about how many bytes of memory the streams and the open requests take."""
        return _STREAM_COST * len(self.streams) + REQUEST_COST * len(self.outstanding)

    def forget(self) -> None:
        """Free memory: drop all streams and requests, but keep what was negotiated."""
        self._forgot = self._forgot or bool(self.streams)
        self.streams.clear()
        self.seqnos.clear()
        self.outstanding.clear()

    def last_seqno(self, opaque: int) -> int | None:
        """Return the last seqno seen on the stream of an opaque; None where none was seen."""
        return self.seqnos.get(opaque)

    def lose(self) -> None:
        """Note that bytes of either direction were lost: requests or responses may have been among them."""
        self.outstanding.lose()

    def understand(self, frame: Frame, number: int = 0, direction: int = -1) -> Understood:
        """Interpret a frame with what those before it established, and note what it says for those after."""
        if frame.raw.gap_before:
            self.lose()
        self._learn(frame)
        meaning = interpret(
            frame,
            collections=self.collections,
            inferred=self.features is None,  # the response to HELLO was not captured
            underlying_datatype=self.underlying_datatype,
        )
        if frame.magic.response:
            return self._answered(frame, meaning, direction)
        self._ask(frame, number, direction)
        return Understood(meaning, frame.header.word)

    @property
    def underlying_datatype(self) -> bool:
        """Return whether the connection was opened with the flag under which a datatype may describe absent bytes."""
        return bool((self.open_flags or 0) & UNDERLYING_DATATYPE)

    def note(self, opaque: int, vbucket: int, seqno: int | None) -> None:
        """Note a message of a stream, which ``understand`` does too."""
        if opaque not in self.streams and len(self.streams) >= MAX_STREAMS:
            if not isinstance(self.streams, OrderedDict):  # of a dict, the first is searched for behind those deleted
                self.streams = OrderedDict(self.streams)
            oldest, _ = self.streams.popitem(last=False)
            self.seqnos.pop(oldest, None)
            self._forgot = True
        self.streams[opaque] = vbucket
        if seqno is not None:
            self.seqnos[opaque] = seqno

    def pair(self, direction: int, opcode: int, opaque: int, asked: Asked | None) -> Asked | None:
        """Take a message that is not DCP's: a request, or (None) a response.

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
            self.note(header.opaque, header.word, seqno)
            if seqno is None and header.opcode == DCP_STREAM_REQ:
                self.seqnos.pop(header.opaque, None)
        acknowledged = header.opcode == DCP_SNAPSHOT_MARKER and (frame.get("snapshot_type") or 0) & ACKNOWLEDGE
        if frame.message.replies or acknowledged:
            asked = Asked(number, frame.raw.where.ts_ns, header.word)
            self.outstanding.ask((direction, header.opcode, header.opaque), asked)

    def _answered(self, frame: Frame, meaning: Meaning, direction: int) -> Understood:
        header = frame.header
        asker = -1 if direction < 0 else 1 - direction
        place = (asker, header.opcode, header.opaque)
        more = header.opcode == STAT and frame.key  # a STAT is answered until an empty key
        asked = self.outstanding.first(place) if more else self.outstanding.answer(place)
        vbucket = asked.vbucket if asked else None
        if asked is None and frame.message.streamed:
            vbucket = self.streams.get(header.opaque)
        return Understood(meaning, vbucket, asked)

    # -- what the connection has ------------------------------------------------------------------------

    def _learn(self, frame: Frame) -> None:
        opcode, response = frame.header.opcode, frame.magic.response
        whole = not frame.raw.lost(0, frame.raw.length)
        if opcode == HELLO and response and not frame.header.word and not frame.magic.server and whole:
            granted = [field.value for field in frame.fields if field.group == "features"]
            self.features = frozenset(value for value in granted if isinstance(value, int))
        elif opcode == DCP_OPEN and not response:
            self.open_flags = frame.get("flags")
            if not frame.raw.confidence:
                self.outstanding.begin()
        elif opcode == DCP_CONTROL and not response and frame.key == b"max_marker_version":
            self._marker_asked = frame.header.opaque
        elif opcode == DCP_CONTROL and response and not frame.header.word:
            self.certain |= frame.header.opaque == self._marker_asked
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
            self.infer_from(frame.key)

    def infer_from(self, key: bytes) -> None:
        """Infer from a data key, which is not empty, whether keys carry a collection id."""
        prefix = read_prefix(key)
        fits = prefix is not None and not prefix.fault and prefix.collection not in RESERVED_IDS
        if prefix is None or not fits or prefix.size == len(key):
            self.keys_fit = False
        elif key[0] == 0 or not 0x20 <= key[0] <= 0x7E:
            self.keys_tell = True
