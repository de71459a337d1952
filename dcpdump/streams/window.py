"""Follow flow control of a connection: counted bytes, acknowledged bytes, and when the window was full.

The counted size is the frame's own except for two kinds: a PREPARE counts two bytes more than it has on the wire, a
CACHE_TRANSFER_END always 24. Responses, NOOP, CONTROL and acknowledgements do not count.
"""

from collections.abc import Iterable
from operator import sub
from typing import NamedTuple

from dcpdump.startup import dataclass, field
from dcpdump.streams.frame_event import FrameEvent, between, identity_of
from dcpdump.streams.opcode_kinds import CACHED_END, MARKER, OPEN, PREPARE, STREAMED
from dcpdump.streams.phases import FlowPhase

# -- how far the two directions of a connection may be captured out of order --------------------------
# Queues of a network card, ports of a tap and captures that were merged keep their own order each, not that of all. So
# an acknowledgement of more than was captured by then waits: either the messages that it acknowledges are captured a
# little later, or they were never sent. Which of both shows when the messages came, or did not come in time.

#: Frames of both directions this near to each other in time may have been sent in the other order.
OUT_OF_ORDER_NS = 50_000_000
#: And as many frames of a connection, where time does not tell: a segment may hold thousands that have one time.
GRACE = 64
#: The same where TCP shows that the two directions are out of order: packets of many messages changed places.
FAR = 1_024
#: A producer lets one message go over the window's size, and none follow it. So few more, within a second of the
#: first, do not show that it continues: their acknowledgement may be captured a little later.
_MANY = 32
_LONG_NS = 1_000_000_000
#: The most acknowledgements that wait. Of more, the last two are joined, and wait as long as the later one.
_MOST = 64


def is_settled(frames: int, then_ns: int | None, now_ns: int | None, grace: int = GRACE) -> bool:
    """Return whether no more frames will be captured that were sent before those captured at ``then_ns``.

    ``frames``: how many of the connection were captured since. A packet may hold many: many frames and little time
    are not enough.
    """
    return frames >= grace and (then_ns is None or now_ns is None or abs(now_ns - then_ns) > OUT_OF_ORDER_NS)


class EarlyAck(NamedTuple):
    """An acknowledgement that waits for the messages that it acknowledges."""

    ts_ns: int | None
    messages: int  #: captured before it
    size: int  #: what it acknowledges
    missing: int  #: how much of that had not been captured
    frame: FrameEvent | None

    def is_over(self, now_ns: int | None, messages: int, *, out_of_order: bool) -> bool:
        """Return whether a message, by its time or by its number, is captured too late for it."""
        if out_of_order and messages - self.messages <= FAR:
            return False
        if self.ts_ns is None or now_ns is None:
            return messages - self.messages > GRACE
        return abs(now_ns - self.ts_ns) > OUT_OF_ORDER_NS


class OverAck(NamedTuple):
    """Acknowledgements of more bytes than were sent, even a little later."""

    frame: FrameEvent  #: the first of them
    excess: int  #: bytes
    sent: int  #: that were sent until it was too late


# -- which messages flow control counts ---------------------------------------------------------------

#: By opcode: whether flow control counts the message.
COUNTED: list[bool] = [opcode in STREAMED for opcode in range(256)]
#: DCP's own opcodes, up to the last that is counted.
FIRST, LAST = OPEN, max(STREAMED)
#: Bytes of a snapshot marker, by version: 1, 2.0, 2.1, 2.2. A stream id adds three.
MARKER_SIZES = (44, 61, 69, 77)
_VERSIONS = {size: at for at, size in enumerate(MARKER_SIZES)}
STREAM_ID_SIZE = 3


# -- times in which something lasted, such as a producer that had to wait -----------------------------

#: How many are kept; of later ones only the number and the total duration.
MOST = 10_000


class Interval(NamedTuple):
    """A time in which something lasted."""

    start_ns: int | None
    end_ns: int | None
    outstanding: int = 0  #: bytes that were not acknowledged, of flow control
    messages: int = 0  #: that were sent into a full window

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
        """Add an interval that has ended, later than all before."""
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
    """A condition that begins and ends repeatedly."""

    lasts: bool = False
    since_ns: int | None = None  #: it does
    over: Intervals = field(default_factory=Intervals)  #: when it did

    def change(self, *, begins: bool, ts_ns: int | None) -> None:
        """Note that it begins or ends; a repeated note changes nothing."""
        if self.lasts and not begins:
            self.over.add(Interval(self.since_ns, ts_ns))
        if begins != self.lasts:
            self.lasts, self.since_ns = begins, ts_ns if begins else None


# -- the window -----------------------------------------------------------------------------------------

_END_SIZE = 24
#: A producer waited for an acknowledgement if it was silent this many times longer before it than after it.
PROMPT = 4
#: How many acknowledgements are kept; beyond this every second one is dropped.
_MARKS = 2_048
#: How many acknowledgements of more than was sent are kept for the rules.
_OVERACKS = 1_024
_NO_LIMIT = 1 << 63
_LEAST_PREPARE = 55  #: bytes of a prepare without key and value
#: What is sent by opcode where nothing is, shared by all windows: of most connections there is no message.
_NOTHING = [0] * (LAST - FIRST + 1)


@dataclass(slots=True)
class FlowCounters:
    """What a producer sent, by kinds that a consumer may forget, or count differently."""

    bytes: list[int] = field(default_factory=lambda: _NOTHING)  #: by opcode, from FIRST on, as the wire has them
    frames: list[int] = field(default_factory=lambda: _NOTHING)
    markers: list[int] = field(default_factory=lambda: [0] * len(MARKER_SIZES))  #: frames, by version
    with_ids: int = 0  #: frames with a stream id
    noops: int = 0  #: bytes that do not count: of NOOPs,
    answers: int = 0  #: and of answers to stream requests
    closing: int = 0  #: bytes of messages of streams behind their CLOSE_STREAM,
    closed: int = 0  #: and behind its answer

    @property
    def prepared(self) -> int:
        """The number of prepares."""
        return self.frames[PREPARE - FIRST]

    @property
    def wire(self) -> int:
        """The bytes on the wire of the messages that count."""
        return sum(self.bytes)

    @property
    def sent(self) -> int:
        """The bytes as the producer counts them."""
        at = CACHED_END - FIRST
        return self.wire + 2 * self.prepared + _END_SIZE * self.frames[at] - self.bytes[at]

    def minus(self, other: "FlowCounters") -> "FlowCounters":
        """Return the difference to earlier counters."""
        numbers = (getattr(self, name) - getattr(other, name) for name in _NUMBERS)
        return FlowCounters(
            list(map(sub, self.bytes, other.bytes)),
            list(map(sub, self.frames, other.frames)),
            list(map(sub, self.markers, other.markers)),
            *numbers,
        )


_NUMBERS = ("with_ids", "noops", "answers", "closing", "closed")
_NOTHING_SENT = FlowCounters()


class Mark(NamedTuple):
    """The counters at an acknowledgement, after it."""

    ts_ns: int | None
    outstanding: int  #: may be negative: more acknowledged than sent
    counted: FlowCounters
    received: int  #: bytes of all that the producer sent, whether it counts or not; 0: not known
    acked: int = 0  #: with it
    waited_ns: int | None = None  #: from the last message to it; None where none came since the one before it
    resumed_ns: int | None = None  #: from the acknowledgement before it to the next message

    @property
    def waits(self) -> bool:
        """Whether the producer waited for it, as it had for the one before."""
        waited, resumed = self.waited_ns, self.resumed_ns
        return waited is not None and resumed is not None and waited > 0 and resumed * PROMPT <= waited


@dataclass(slots=True)
class FullWindow:
    """A time in which a window is full, up to now."""

    since_ns: int | None
    sent_ns: int | None  #: of the last message: since then the producer waits
    beyond: int = 0  #: messages after the one that filled it
    beyond_ns: int | None = None  #: the time of the first of them
    waited: Interval | None = None  #: the longest time without a message

    def send(self, messages: int, first_ns: int | None, last_ns: int | None, outstanding: int) -> None:
        """Note messages that are sent all the same."""
        if not self.beyond and messages:
            self.beyond_ns = first_ns
        waited = Interval(self.sent_ns, first_ns, outstanding)
        if self.waited is None or waited.lasting_ns > self.waited.lasting_ns:
            self.waited = waited
        self.beyond += messages
        self.sent_ns = last_ns


@dataclass(slots=True)
class Window:
    """Flow control of one direction of a connection, with the producer's own counters.

    A producer counts what it sends from the beginning, flow control or not; it ignores acknowledgements while flow
    control is off; and a size of 0 sets its counters to 0. So an account begins with the connection, or with that.
    Where the beginning was not captured, or acknowledgements may have been lost, the account is relative: what was
    outstanding then is unknown, so ``outstanding`` is the least that it can be (above its low-water mark since).
    The producer's counter does not go below zero. Here it does for a while, as an acknowledgement may be captured
    before the messages that it acknowledges; what is then still below zero was acknowledged and not sent.
    """

    size: int | None = None  #: as the producer accepted it; None: not captured, or off
    asked: int | None = None  #: as the consumer requested it, accepted or not
    off: bool = False  #: it was set to 0
    acked: int = 0
    acks: int = 0
    ignored: int = 0  #: acknowledged while flow control was off
    max_unknown: int | None = None  #: of a relative account: how much more it can be at most; None: any amount
    peak: int = 0
    out_of_order: bool = False  #: TCP shows that the two directions were captured out of order
    complete: bool = False  #: DCP_OPEN was captured, and nothing was lost since: else the account is relative
    full: FullWindow | None = None  #: where it is full
    blocked: Intervals = field(default_factory=Intervals)  #: when the producer had to wait, and does no more
    excesses: list[Interval] = field(default_factory=list)
    last_ack_ns: int | None = None
    last_sent_ns: int | None = None
    resumed_ns: int | None = None  #: the first message since the last acknowledgement
    counted: FlowCounters = field(default_factory=FlowCounters)
    marks: list[Mark] = field(default_factory=list)
    longest_wait_ns: int = 0  #: of a producer for an acknowledgement, whether it was seen to be full or not
    _behind_ns: int = 0  #: messages up to that time come after acknowledgements that may be theirs
    _step: int = 1
    _limit: int = _NO_LIMIT  #: the size, while flow control is on
    _balance: int = 0  #: what is outstanding; below zero while acknowledgements wait for their messages
    _early: list[EarlyAck] = field(default_factory=list)  #: these
    _overacks: list[OverAck] = field(default_factory=list)  #: whose frames are known, until they are taken
    _overacked: int = 0  #: acknowledged, and not sent in time
    _unsettled: int | None = None  #: acknowledged since a size was requested that is not answered; None: none is

    @property
    def outstanding(self) -> int:
        """Return the outstanding bytes, as the producer counts them: never below zero."""
        return max(0, self._balance)

    @property
    def overacked(self) -> int:
        """Return how many bytes were acknowledged beyond those sent so far."""
        return self._overacked + max(0, -self._balance)

    def sends(self, opcode: int, length: int, stream_id: int, ts_ns: int | None) -> None:
        """Count a message of a stream."""
        self.sends_run(((opcode, 1, length),), int(stream_id > 0), ts_ns, ts_ns)

    def needs_each(self, size: int) -> bool:
        """Return whether documents of a size are to be counted one by one: they would fill it, or are early."""
        return self._balance < 0 or (self.full is None and self._balance + size >= self._limit)

    def sends_run(
        self, kinds: Iterable[tuple[int, int, int]], with_ids: int, first_ns: int | None, last_ns: int | None
    ) -> None:
        """Count a message, or documents that do not need each: opcodes, frames, bytes.

        ``with_ids``: frames with a stream id.
        """
        counted, count, length = self.counted, 0, 0
        if counted.bytes is _NOTHING:
            counted.bytes, counted.frames = _NOTHING.copy(), _NOTHING.copy()
        counted.with_ids += with_ids
        for opcode, frames, size in kinds:
            counted.bytes[opcode - FIRST] += size
            counted.frames[opcode - FIRST] += frames
            count += frames
            if opcode == MARKER:
                version = _VERSIONS.get(size - STREAM_ID_SIZE if with_ids else size)
                if version is not None:
                    counted.markers[version] += 1
            elif opcode == PREPARE:
                size += 2 * frames
            elif opcode == CACHED_END:
                size = _END_SIZE * frames
            length += size
        self.last_sent_ns = last_ns
        if self.resumed_ns is None:
            self.resumed_ns = first_ns
        if self._behind_ns and first_ns is not None and first_ns <= self._behind_ns:
            self._pass(length)
            return
        if self._balance < 0:
            self._occupy(length, first_ns)
        balance = self._balance = self._balance + length
        if balance > self.peak:
            self.peak = balance
        if balance >= self._limit:
            self._fill(count, first_ns, last_ns)

    def acknowledges(self, count: int, ts_ns: int | None, frame: FrameEvent | None = None, received: int = 0) -> None:
        """Count an acknowledgement: its frame, for the rules, and the bytes of all that its producer sent before it."""
        self.acks += 1
        times = between(self.last_sent_ns, ts_ns), between(self.last_ack_ns, self.resumed_ns)
        if self.resumed_ns is None:
            times = None, None
        self.last_ack_ns, self.resumed_ns = ts_ns, None
        if self.off or (self.complete and self.size is None):
            self.ignored += count
            if self._unsettled is not None:
                self._unsettled += count
            return
        self._release(count, ts_ns, frame)
        mark = Mark(ts_ns, self.counted.sent - self.acked, self.counted, received, count, *times)
        if mark.waits:
            self.longest_wait_ns = max(self.longest_wait_ns, mark.waited_ns or 0)
        if self.acks % self._step == 0:
            self.marks.append(mark._replace(counted=self.counted.minus(_NOTHING_SENT)))  # a copy
            if len(self.marks) > _MARKS:
                del self.marks[::2]
                self._step *= 2

    def ask(self, size: int | None) -> None:
        """Note a size that the consumer requests. Its acknowledgements may count from here on."""
        self.asked = size
        self._unsettled = 0

    def refuse(self) -> None:
        """Note that the producer refused a size."""
        self._unsettled = None

    def resize(self, size: int, ts_ns: int | None) -> None:
        """Set the size that the producer accepted; 0 switches flow control off, and the counters to 0."""
        unsettled = self._unsettled
        self.refuse()
        self.off = size == 0
        self.size, self._limit = (size, size) if size else (None, _NO_LIMIT)
        if size and unsettled:
            self.ignored -= unsettled
            self._release(unsettled, ts_ns)
        if self._balance < self._limit:
            if self.full is not None:
                self._unblock(self.full, self._balance, ts_ns)
        elif self.full is None:
            self._fill(0, ts_ns, ts_ns)
        if not size:
            self._clear()

    def lose(self, length: int | None, ts_ns: int | None, *, acks: bool) -> None:
        """Begin a relative account after lost bytes. ``acks``: they were lost in the direction of acknowledgements."""
        max_unknown = 0 if self.complete else self.max_unknown
        if max_unknown is not None and acks:
            self.max_unknown = max_unknown + self.outstanding
        elif max_unknown is not None and length is not None:
            self.max_unknown = max_unknown + length + 2 * (length // _LEAST_PREPARE + 1)
        else:
            self.max_unknown = None
        self.complete = False
        self.marks, self._step = [], 1
        if None not in (ts_ns, self.last_ack_ns) and (ts_ns or 0) < (self.last_ack_ns or 0):
            self._behind_ns = self.last_ack_ns or 0
        if acks:
            self._balance, self._overacked = min(0, self._balance), 0
            self.peak = 0
        self._absorb()
        if self.full is not None:
            self.full = FullWindow(ts_ns, ts_ns, waited=self.full.waited) if self._balance >= self._limit else None

    @property
    def phase(self) -> FlowPhase:
        """Return the phase of the window, as far as captured."""
        if self.size is None:
            return FlowPhase.OFF
        if self.full is None:
            return FlowPhase.ROOM
        return FlowPhase.EXCEEDED if self.is_exceeded else FlowPhase.FULL

    @property
    def is_exceeded(self) -> bool:
        """Whether the producer continues although it is full, for longer than the order of capture explains."""
        full = self.full
        return full is not None and self._continues(full.beyond, full.beyond_ns, full.sent_ns)

    def becomes_exceeded(self, ts_ns: int | None) -> bool:
        """Return whether one more message, at that time, is the one that shows that the producer continues."""
        full = self.full
        return full is not None and self.is_blocked and self._continues(full.beyond + 1, full.beyond_ns, ts_ns)

    def _continues(self, messages: int, first_ns: int | None, last_ns: int | None) -> bool:
        """Return whether messages beyond a full window show that its producer ignores it."""
        if self.out_of_order:
            return messages >= FAR
        return messages >= _MANY or (messages > 1 and (between(first_ns, last_ns) or 0) >= _LONG_NS)

    @property
    def is_blocked(self) -> bool:
        """Whether it is full, and the producer waits."""
        return self.full is not None and not self.is_exceeded

    @property
    def all_excesses(self) -> list[Interval]:
        """Return the times in which the producer sent into a full window; the last is up to the end, where it does."""
        full = self.full if self.is_exceeded else None
        lasting = [] if full is None else [Interval(full.since_ns, None, self.outstanding, full.beyond)]
        return [*self.excesses, *lasting]

    @property
    def has_overacks(self) -> bool:
        """Whether acknowledgements may be of what was not sent, or are, and were not taken yet."""
        return self._balance < 0 or bool(self._overacks)

    def pop_overacks(self, *, final: bool) -> list[OverAck]:
        """Return acknowledgements of more than was sent, each once. ``final``: no more messages follow."""
        if final:
            self._settle(None, self.counted.sent, final=True)
        taken, self._overacks = self._overacks, []
        return taken

    def blocked_ns(self, until_ns: int | None) -> int:
        """Return how long the producer was blocked, up to a time."""
        since_ns = self.full.sent_ns if self.full is not None and self.is_blocked else None
        return self.blocked.total_ns + (between(since_ns, until_ns) or 0)

    def _pass(self, length: int) -> None:
        """Note bytes that may have been acknowledged before they were captured: the maximum grows by as much."""
        if self.max_unknown is not None:
            self.max_unknown += length
            self._absorb()

    def _fill(self, messages: int, first_ns: int | None, ts_ns: int | None) -> None:
        """Note messages while it is full, from the first to the last, or the message that filled it."""
        if self.full is None:
            self.full = FullWindow(ts_ns, ts_ns)
        else:
            self.full.send(messages, first_ns, ts_ns, self._balance)

    def _release(self, count: int, ts_ns: int | None, frame: FrameEvent | None = None) -> None:
        """Subtract acknowledged bytes."""
        self.acked += count
        before = self._balance
        self._balance -= count
        if self._balance < 0 and count:
            size, missing = count, min(count, -self._balance)
            remembered = None if frame is None else identity_of(frame)
            if len(self._early) >= _MOST:
                last = self._early.pop()
                size, missing = max(last.size, count), last.missing + missing
            self._early.append(EarlyAck(ts_ns, sum(self.counted.frames), size, missing, remembered))
            if not self.complete:
                self._absorb()
        if self.full is not None and self._balance < self._limit:
            self._unblock(self.full, before, ts_ns)

    def _absorb(self) -> None:
        """Take what was acknowledged early for what a relative account does not know of, as far as that can be."""
        if self._balance < 0:
            older = -self._balance if self.max_unknown is None else min(self.max_unknown, -self._balance)
            self._balance += older
            if self.max_unknown is not None:
                self.max_unknown -= older
            if not self._balance:
                self._early.clear()

    def _occupy(self, length: int, ts_ns: int | None) -> None:
        """Note a message that may have been acknowledged, and is to be counted."""
        self._settle(ts_ns, self.counted.sent - length)
        if self._balance + length >= 0:
            self.peak = max([self.peak, *[ack.size for ack in self._early]])  # that much was outstanding before it
            self._early.clear()

    def _settle(self, ts_ns: int | None, sent: int, *, final: bool = False) -> None:
        """Clamp at zero, as the producer did, if no messages came in time. ``sent``: before the current message."""
        early, over, frame = self._early, 0, None
        while early and (final or early[0].is_over(ts_ns, sum(self.counted.frames), out_of_order=self.out_of_order)):
            ack = early.pop(0)
            excess = max(0, -self._balance - sum(later.missing for later in early))  # messages are the first's
            if excess:
                self._balance += excess
                over += excess
                frame = frame or ack.frame
            else:
                self.peak = max(self.peak, ack.size)
        self._overacked += over
        if frame is not None and len(self._overacks) < _OVERACKS:
            self._overacks.append(OverAck(frame, over, sent))

    def _unblock(self, full: FullWindow, outstanding: int, ts_ns: int | None) -> None:
        """End the interval in which it was full: the producer was blocked, or sent nevertheless."""
        if self.is_exceeded:
            if len(self.excesses) < MOST:
                self.excesses.append(Interval(full.since_ns, ts_ns, outstanding, full.beyond))
        else:
            waited = Interval(full.sent_ns, ts_ns, outstanding)
            if full.waited is not None and full.waited.lasting_ns > waited.lasting_ns:
                waited = full.waited._replace(outstanding=outstanding)  # what ended it is captured behind messages
            self.blocked.add(waited)
        self.full = None

    def _clear(self) -> None:
        """Begin a new account."""
        self._settle(None, self.counted.sent, final=True)  # what was sent before comes before the answer
        self.acked = self._overacked = self._balance = self.max_unknown = self.peak = 0
        self.counted, self.marks, self._step = FlowCounters(), [], 1
