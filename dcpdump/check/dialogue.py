"""Dialogue: what the two ends of one connection have agreed on, as far as it was witnessed."""

from collections import deque

from dcpdump.check.course import CACHE_TRANSFER, Course, Marker, Request, kept
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.streams.sight import UNKNOWN_LOSS, Sight

HELLO, SASL_AUTH, SASL_STEP, SELECT_BUCKET, STAT = 0x1F, 0x21, 0x22, 0x89, 0x10
OPEN, ADD_STREAM, CLOSE_STREAM, STREAM_REQ, STREAM_END = 0x50, 0x51, 0x52, 0x53, 0x55
MARKER, MUTATION, DELETION, EXPIRATION, SET_STATE, NOOP = 0x56, 0x57, 0x58, 0x59, 0x5B, 0x5C
BUFFER_ACK, CONTROL, SYSTEM_EVENT, PREPARE, SEQNO_ACK = 0x5D, 0x5E, 0x5F, 0x60, 0x61
COMMIT, ABORT, ADVANCED, OSO, CACHED, CACHED_END = 0x62, 0x63, 0x64, 0x65, 0x66, 0x67

#: Messages of a stream, from the end that has the changes.
STREAMED = frozenset({*range(0x55, 0x5A), SET_STATE, SYSTEM_EVENT, PREPARE, *range(0x62, 0x68)})
#: DCP requests that only the end sends which wants the changes.
WANTED = frozenset({STREAM_REQ, 0x54, BUFFER_ACK, CONTROL, SEQNO_ACK})
DOCUMENTS = (MUTATION, DELETION, EXPIRATION)
#: Messages with a seqno of their own.
SEQUENCED = (*DOCUMENTS, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, ADVANCED)
PRODUCER, XATTRS, COLLECTIONS, SNAPPY, DUPLEX, UNORDERED = 0x01, 0x04, 0x12, 0x0A, 0x0C, 0x0E
MANY_REQUESTS = 4096
SECOND = 1_000_000_000


class Dialogue:
    """One connection."""

    def __init__(self, number: int, names: "dict[bytes, Dialogue] | None" = None) -> None:
        self.number = number
        self.names = {} if names is None else names  #: open connections of the whole input by name
        self.last_sight: Sight | None = None
        self.late = True  #: DCP_OPEN was not witnessed
        self.lost = [False, False]
        self.why = ""  #: what was lost last
        self.features: frozenset[int] | None = None
        self.collections: bool | None = None  #: whether keys have a collection id; None: not witnessed
        self.marker: Marker | None = None  #: the snapshot marker at hand
        self.open_flags: int | None = None
        self.opened: Sight | None = None  #: the request
        self.accepted: Sight | None = None  #: its success
        self.name = b""
        self.source: int | None = None  #: the direction that sends changes
        self.controls: dict[bytes, bytes] = {}  #: accepted
        self.controls_asked: dict[int, tuple[bytes, bytes]] = {}
        self.controls_answered: dict[int, int] = {}  #: answers whose request has not been seen
        self.authenticated = False
        self.authenticating = False
        self.selected = False
        self.waiting: dict[tuple[int, int, int], Sight] = {}  #: requests without an answer: (direction, opcode, opaque)
        self.unasked: dict[tuple[int, int, int], tuple[Sight, int]] = {}  #: answers without a request, and when
        self.answered_after: dict[tuple[int, int], int] = {}  #: (direction, opcode) → number of the last one answered
        self.courses: dict[int, Course] = {}  #: by opaque
        self.places: dict[tuple[int, int], Course] = {}  #: by vbucket and stream id
        self.requests: dict[int, list[Request]] = {}  #: waiting, by opaque
        self.hasty: dict[int, int] = {}  #: refusals that came before their request, by opaque
        self.shared: set[int] = set()  #: opaques that several live streams have
        self.over: deque[Course] = deque()  #: that ended, and whose acknowledgements are not settled
        self.rollbacks: dict[tuple[int, int], tuple[Request, int, int]] = {}  #: by place: request, answer, times
        self.window: int | None = None  #: of flow control; None: off or not witnessed
        self.wire = 0
        self.prepared = 0
        self.uncounted = 0  #: bytes on the wire that flow control leaves out
        self.acked = 0
        self.acked_at: int | None = None
        self.counted_at: int | None = None
        self.overrun = 0
        self.stalled = 0
        self.acked_frame = 0
        self.enabled_noop_at: int | None = None
        self.missed_noop_at = 0
        self.noop_answered = 0  #: number of the last NOOP that was answered
        self.overdue: set[tuple[int, int, int]] = set()  #: of those that wait: what was told of already
        #: acknowledgements of more than was seen so far: how much, of how much, and when to look again
        self.overdrawn: list[tuple[Sight, int, int, int]] = []
        self.ahead: list[tuple[Sight, Course, int]] = []  #: SEQNO_ACKs beyond what was seen so far
        self.noops: dict[int, tuple[Sight, int]] = {}  #: waiting, by opaque; and how often the other end had spoken
        self.noops_early: set[int] = set()  #: opaques of answers whose NOOP has not been seen
        self.noop_at: int | None = None
        self.last_ts: list[int | None] = [None, None]
        self.spoken = [0, 0]  #: frames of each direction
        self.ts_ns: int | None = None  #: the latest time at which it was watched
        self.ended = False  #: the input is over
        self.gone = False  #: and the connection was over before it
        self.client: int | None = None  #: the direction of the connection's very first frame, a HELLO or SASL

    # -- what was agreed --------------------------------------------------------------------------------

    @property
    def doubtful(self) -> bool:
        """Whether its beginning, or bytes since, are missing."""
        return self.late or self.lost[0] or self.lost[1]

    @property
    def witnessed(self) -> bool:
        """Whether the connection was seen from its first frame on: that was the client's HELLO, or SASL."""
        return self.client is not None and not (self.lost[0] or self.lost[1])

    @property
    def heard_ns(self) -> int | None:
        """The time of the last frame."""
        return max((time for time in self.last_ts if time is not None), default=None)

    @property
    def is_open(self) -> bool:
        """Whether DCP_OPEN was sent and succeeded."""
        return self.opened is not None and self.accepted is not None

    @property
    def produces(self) -> bool | None:
        """Whether the end that was opened sends changes; None where that was not witnessed."""
        return None if self.open_flags is None else bool(self.open_flags & PRODUCER)

    @property
    def counted(self) -> int:
        """The bytes that flow control counts of the stream messages so far: of some not what is on the wire."""
        return self.wire + 2 * self.prepared - self.uncounted

    def on(self, key: bytes) -> bool:
        """It says whether a control was accepted, and is on."""
        return self.controls.get(key, b"false").startswith(b"true")

    @property
    def no_stream(self) -> str:
        """What a consumer answers to messages of a stream that it does not have."""
        return "DcpStreamNotFound" if self.on(b"v7_dcp_status_codes") else "KeyEnoent"

    @property
    def advances(self) -> bool:
        """Whether the producer sends SEQNO_ADVANCED where items are filtered out at a snapshot's end."""
        skips = bool((self.open_flags or 0) & 0x200)
        quiet = self.on(b"enable_sync_writes") and self.on(b"flatbuffers_system_events") and not skips
        return bool(self.collections) and not quiet

    @property
    def sync_replication(self) -> bool:
        """Whether this is replication of durable writes."""
        return self.on(b"enable_sync_writes") and bool(self.controls.get(b"consumer_name"))

    # -- learning ---------------------------------------------------------------------------------------

    def lose(self, direction: int, length: int, number: int, *, skipped: bool = False) -> None:
        """It hears that bytes were lost before a frame, 0 being the end of the capture. ``skipped``: are no frames."""
        self.lost[direction] = True
        amount = "an unknown number of bytes" if length == UNKNOWN_LOSS else f"{length:,} bytes"
        place = f" before frame {number}" if number else " at the end"
        self.why = f"{amount}{place} are no frames" if skipped else f"{amount} were lost{place}"
        for course in self.courses.values():
            course.lose(sent=direction == self.source or self.source is None)
        self.requests.clear()
        self.hasty.clear()
        self.waiting.clear()
        self.overdue.clear()
        self.unasked.clear()
        self.noops.clear()
        self.overdrawn.clear()
        self.ahead.clear()
        self.over.clear()
        self.window = None
        self.rollbacks.clear()

    def asks(self, sight: Sight) -> None:
        """It takes a request that is answered."""
        place = (sight.direction, sight.opcode, sight.opaque)
        early = self.unasked.pop(place, None)
        if early is not None:
            return
        if len(self.waiting) >= MANY_REQUESTS:
            self._forget(next(iter(self.waiting)))
        self.overdue.discard(place)
        self.waiting[place] = kept(sight)

    def _forget(self, place: tuple[int, int, int]) -> Sight | None:
        """It does not wait for an answer any more."""
        self.overdue.discard(place)
        return self.waiting.pop(place, None)

    def answers(self, sight: Sight) -> Sight | None:
        """It takes a response, and gives what it answers."""
        place = (1 - sight.direction, sight.opcode, sight.opaque)
        if sight.opcode == STAT and sight.value_at > sight.key_at:
            return self.waiting.get(place)
        asked = self._forget(place)
        if asked is not None:
            key = (asked.direction, asked.opcode)
            self.answered_after[key] = max(self.answered_after.get(key, 0), asked.number)
        elif not self.late and len(self.unasked) < MANY_REQUESTS:
            self.unasked[place] = kept(sight), sum(self.spoken)
        return asked

    # -- one message each -------------------------------------------------------------------------------

    def learn_open(self, sight: Sight) -> None:
        """It takes DCP_OPEN: from here on the roles are known."""
        self.late = False
        self.opened = kept(sight)
        self.name = sight.key
        flags = sight.get("flags")
        self.open_flags = flags
        if flags is not None:
            self.source = 1 - sight.direction if flags & PRODUCER else sight.direction

    def learn_opened(self, sight: Sight) -> None:
        """It takes the success of DCP_OPEN."""
        self.accepted = kept(sight)
        if self.name:
            self.names[self.name] = self

    def learn_features(self, sight: Sight) -> None:
        """It takes the features that HELLO granted."""
        if sight.record is not None:
            fields = sight.record.frame.fields
            self.features = frozenset(
                field.value for field in fields if field.group == "features" and isinstance(field.value, int)
            )
            self.collections = COLLECTIONS in self.features

    def astray(self, sight: Sight) -> bool:
        """It says whether a DCP request travels against the roles of the ends, as far as those are known."""
        opcode = sight.opcode
        if self.source is None or opcode in (OPEN, ADD_STREAM, CLOSE_STREAM):
            return self.produces is True and opcode == ADD_STREAM
        if opcode in WANTED:
            return sight.direction == self.source
        if opcode in STREAMED or opcode in (NOOP, 0x5A):
            return sight.direction != self.source
        return False

    def count(self, sight: Sight) -> None:
        """It counts a message of a stream, as flow control does."""
        self.wire += sight.length
        self.counted_at = sight.ts_ns
        if sight.opcode == PREPARE:
            self.prepared += 1
        elif sight.opcode == CACHED_END:
            self.uncounted += sight.length - HEADER_LENGTH

    def learn_ack(self, sight: Sight) -> None:
        """It takes a BUFFER_ACKNOWLEDGEMENT."""
        self.acked += sight.get("buffer_bytes") or 0
        self.acked_at = sight.ts_ns

    def learn_control(self, sight: Sight) -> None:
        """It takes a DCP_CONTROL, which counts when it is accepted."""
        pair = sight.key, sight.value
        if sight.opaque in self.controls_answered:
            self._control(pair, self.controls_answered.pop(sight.opaque))
        else:
            self.controls_asked[sight.opaque] = pair

    def learn_control_answer(self, sight: Sight) -> None:
        """It takes the answer to a DCP_CONTROL."""
        pair = self.controls_asked.pop(sight.opaque, None)
        if pair is None:
            self.controls_answered[sight.opaque] = sight.word
        else:
            self._control(pair, sight.word)

    def _control(self, pair: tuple[bytes, bytes], status: int) -> None:
        key, value = pair
        if status:
            return
        if key == b"enable_expiry_opcode" and not (self.open_flags or 0) & 0x20:
            return
        self.controls[key] = value
        if key == b"enable_noop":
            self.enabled_noop_at = self.ts_ns
        if key == b"connection_buffer_size":
            size = int(value) if value.isdigit() and len(value) < 20 else 0
            if not size:
                self.wire = self.acked = self.prepared = self.uncounted = 0
                self.overdrawn.clear()
            self.window = size or None
            self.acked_at = self.ts_ns

    @property
    def controls_known(self) -> bool:
        """Whether every control and its answer was witnessed: where that to DCP_OPEN was not, nor may others be."""
        return self.is_open and not self.doubtful and not self.controls_answered

    def learn_request(self, sight: Sight) -> None:
        """It takes a stream request, which waits for its answer."""
        request = request_of(sight)
        if self.hasty.get(sight.opaque):
            self.hasty[sight.opaque] -= 1  # captured out of order: its answer came first, and was a refusal
            return
        course = self.courses.get(sight.opaque)
        if course is not None and course.late and course.request is None and course.live:
            course.request = request  # captured out of order: its answer came first
            self._forget((sight.direction, sight.opcode, sight.opaque))
            return
        if not self.spoken[1 - sight.direction]:
            self.requests.pop(sight.opaque, None)  # what it was answered came before the capture
        if len(self.requests) >= MANY_REQUESTS:
            del self.requests[next(iter(self.requests))]
        self.requests.setdefault(sight.opaque, []).append(request)
        if self.source is None:
            self.source = 1 - sight.direction

    def awaited(self, opaque: int) -> Request | None:
        """It gives the stream request that the next answer with an opaque is for."""
        return self.requests.get(opaque, (None,))[0]

    def learn_grant(self, sight: Sight) -> Course | None:
        """It takes the answer to a stream request; where it is a success there is a new stream."""
        request = self.awaited(sight.opaque)
        if request is None and sight.word and len(self.hasty) < MANY_REQUESTS:
            self.hasty[sight.opaque] = self.hasty.get(sight.opaque, 0) + 1
        if request is not None:
            del self.requests[sight.opaque][0]
            if not self.requests[sight.opaque]:
                del self.requests[sight.opaque]
        if self.source is None:
            self.source = sight.direction
        if sight.word == 0x23 and request is not None:
            place = request.vbucket, request.sid or 0
            seqno = sight.get("rollback_seqno")
            before = self.rollbacks.get(place)
            same = before is not None and before[1] == seqno and before[0].start == request.start
            times = before[2] + 1 if before is not None and same else 1
            self.rollbacks[place] = request, -1 if seqno is None else seqno, times
        if sight.word:
            return None
        vbucket, sid = (-1, -1) if request is None else (request.vbucket, request.sid or 0)
        course = Course(self, sight.opaque, vbucket, sid)
        course.request = request
        course.late = request is None
        course.stale = False
        if request is not None:
            self.rollbacks.pop((vbucket, sid), None)
            course.filtered = request.filtered
            course.cache = bool(request.flags & CACHE_TRANSFER)
            course.high = request.start
            if request.sid is None:
                course.sid = -1
            self.places[vbucket, sid] = course
        else:
            course.filtered = None
        other = self.courses.get(sight.opaque)
        if other is not None and other.live and not other.closed and other.vbucket != vbucket:
            self.shared.add(sight.opaque)
        if other is not None and other.late and other.live and other.vbucket == vbucket and other.marker is not None:
            course.begin(other.marker)  # it came before its grant, which was told
        self.courses[sight.opaque] = course
        return course

    def late_course(self, sight: Sight) -> Course:
        """It makes a stream of a message whose stream was not seen to begin."""
        course = Course(self, sight.opaque, sight.word, sight.stream_id)
        course.late = course.stale = True
        course.filtered = None
        self.courses[sight.opaque] = course
        known = self.places.get((sight.word, sight.stream_id))
        if known is None or known.late or not known.live:  # it may be one that was closed before, and trails in
            self.places[sight.word, sight.stream_id] = course
        if self.source is None:
            self.source = sight.direction
        return course

    def learn_closed(self, sight: Sight, asked: Sight | None) -> None:
        """It takes the answer to CLOSE_STREAM."""
        if sight.word or asked is None:
            return
        for (vbucket, sid), course in self.places.items():
            if vbucket == asked.word and sid == asked.stream_id:
                course.closed = True

    def close_asked(self, vbucket: int, sid: int) -> bool:
        """It says whether a CLOSE_STREAM waits for its answer."""
        return any(
            opcode == CLOSE_STREAM and asked.word == vbucket and asked.stream_id == sid
            for (_, opcode, _), asked in self.waiting.items()
        )


def request_of(sight: Sight) -> Request:
    """It reads a stream request."""
    flags, start, end, uuid, snap_start, snap_end = (sight.get(name) or 0 for name in _REQUEST)
    sid: int | None = 0
    filtered = False
    if sight.value_length:
        document = None if sight.record is None else sight.record.meaning.document
        if isinstance(document, dict):
            named = document.get("sid", 0)
            sid = named if isinstance(named, int) else None
            filtered = "collections" in document or "scope" in document
        else:
            sid, filtered = None, True
    return Request(kept(sight), sight.word, flags, start, end, uuid, snap_start, snap_end, sid, filtered)


_REQUEST = ("flags", "start_seqno", "end_seqno", "vbucket_uuid", "snap_start_seqno", "snap_end_seqno")


def marker_of(sight: Sight) -> Marker | None:
    """It reads a snapshot marker; None where the frame does not hold one."""
    start, end, flags = (sight.get(name) for name in ("start_seqno", "end_seqno", "snapshot_type"))
    if start is None or end is None or flags is None:
        return None
    return Marker(sight.number, start, end, flags, sight.shape.version, sight.ts_ns)
