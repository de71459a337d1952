"""Put the segments of one direction of a TCP connection in order. Knows no IP and no protocol above TCP.

Sequence numbers become offsets here: the beginning of the stream is found, acknowledgements of the other side are used,
and segments far outside the stream are set aside. The order is made by Reassembly.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dcpdump.net.event import CARVED, END, EVICTED, LOST_BY_CAPTURE, NOT_ACKED, Bytes, End, Gap, Seen, StreamEvent
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import NO_TIME
from dcpdump.net.reassembly import Counters, Difference, Fin, Reassembly, conflict
from dcpdump.net.tcp import CONTROL, FIN, MASK, RST, SYN, Segment, advance, distance

if TYPE_CHECKING:
    from mypy_extensions import i64

#: Without an acknowledgement, senders wait longer than this before they retransmit (RFC 6298; Linux: 200 ms).
_APART_NS: Final = 100_000_000
#: How many repeats, over how long, show that no answer comes.
_MANY: Final = 3
_LONG_NS: Final = 1_000_000_000

#: Its window (as below), how often it repeated bytes, and the times of the first repeat and the last.
SenderValues = tuple[int, int, int, int]


class _SenderState:
    """The state of a sender: its receive window, and its repeats."""

    __slots__ = ("first_ns", "last_ns", "repeats", "shut")

    def __init__(self) -> None:
        self.shut: i64 = -1  #: 1: it advertised a receive window of zero; 0: another; -1: none yet
        self.repeats: i64 = 0  #: of bytes, since it sent new ones, or the other end sent anything
        self.first_ns: i64 = 0
        self.last_ns: i64 = 0

    def state(self) -> SenderValues:
        """Return the state as plain values, for ``restore``."""
        return self.shut, self.repeats, self.first_ns, self.last_ns

    def restore(self, state: SenderValues) -> None:
        """Restore a state."""
        self.shut, self.repeats, self.first_ns, self.last_ns = state

    @property
    def in_vain(self) -> bool:
        """Return whether the sender repeats bytes, and no answer comes."""
        return self.repeats >= _MANY and self.last_ns - self.first_ns >= _LONG_NS

    def repeat(self, ts_ns: int) -> bool:
        """Count a segment without new bytes; return whether it is the one that shows that no answer comes."""
        if not self.repeats:
            self.first_ns = ts_ns
        elif ts_ns - self.last_ns < _APART_NS:
            return False  # captured twice, or sent again for another reason
        before = self.in_vain
        self.repeats += 1
        self.last_ns = ts_ns
        return not before and self.in_vain

    def answer(self) -> bool:
        """Note that the other end sent, or must have sent, something; return whether answers were missing before."""
        before = self.in_vain
        self.repeats = 0
        return before


class _Stray(NamedTuple):
    """A segment from far outside the stream, kept until a second one near it confirms it."""

    seq: int
    payload: bytes
    missing: int


#: All of a stream on which the handling of later segments depends, as plain values.
StreamState = dict[str, Any]
#: The part of it that is plain values anyway.
_PLAIN: Final = (
    *("offset", "joined_late", "deadline", "_gathering", "_since", "_now", "_arrived", "_top", "_acked", "reset_at"),
    *("reset_by_peer", "ended", "_base", "ready", "_isn", "_first_ack", "last_ack", "answers"),
)

_NEVER: Final = -1  # equals no sequence number

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row: Final = tuple.__new__


class ByteStream(Reassembly):
    """One direction. ``feed`` takes its segments, ``acknowledge`` the acknowledgements of the other direction.

    At ``deadline`` (ns of capture time, or None), ``tick`` gives up holes for which waiting is pointless.

    A direction whose SYN was seen delivers at once. Without a SYN the first segment seen need not be the first
    of the stream, so the first bytes wait until something shows that nothing earlier is on its way: an
    acknowledgement, a few more segments, or a moment of capture time.
    """

    __slots__ = (
        "_base",
        "_first_ack",
        "_isn",
        "_stray",
        "_waiting_file",
        "answers",
        "last_ack",
        "ready",
        "sender",
        "waiting_end",
    )

    def __init__(self, limits: Limits = DEFAULT, balance: Counters | None = None) -> None:
        super().__init__(limits, balance if balance is not None else Counters())
        self.answers = False  #: the other side's SYN was seen: its first ACK tells where this direction began
        self.last_ack: i64 = _NEVER  #: the last acknowledgement number seen from the other side
        self._base: int | None = None  # the sequence number of offset 0
        self.ready: i64 = _NEVER  #: a segment with this sequence number is delivered at once; -1: none
        self.waiting_end: i64 = _NEVER  #: a segment with this one may ``wait`` at once; -1: none
        self._waiting_file = ""  # the file of the packets that may wait
        self._isn: int | None = None
        self._first_ack: int | None = None
        self._stray: _Stray | None = None
        self.sender = _SenderState()

    def state(self) -> StreamState:
        """Return the state, for ``restore``."""
        fin, stray, patience = self._fin, self._stray, self._patience
        state: StreamState = {name: getattr(self, name) for name in _PLAIN}
        state["fin"] = None if fin is None else (*fin[:3], (*fin.seen,))
        state["stray"] = None if stray is None else (*stray,)
        state["sender"] = self.sender.state()
        state["waiting"] = self._backlog.state()
        state["patience"] = None if patience is None else patience.state()
        return state

    def restore(self, state: StreamState) -> None:
        """Restore a state, in a stream that was fed nothing yet."""
        for name in _PLAIN:
            setattr(self, name, state[name])
        fin, stray, patience = state["fin"], state["stray"], state["patience"]
        self._fin = None if fin is None else Fin(fin[0], fin[1], fin[2], Seen(*fin[3]))
        self._stray = None if stray is None else _Stray(*stray)
        self.sender.restore(state["sender"])
        if patience is not None:
            self._restore_waiting(state["waiting"], patience)
        self._balance.pending_bytes += self._aside

    @property
    def held(self) -> int:
        """Return how many bytes of memory waiting and remembered bytes take."""
        return self._backlog.cost + self._aside + self._history.size

    @property
    def begun(self) -> bool:
        """Return whether the beginning of the stream is known."""
        return self._base is not None

    @property
    def indifferent(self) -> bool:
        """Return whether nothing waits for an acknowledgement of the other side: it only changes ``last_ack``."""
        return self.ready >= 0 or (self._base is None and not self.answers and self._first_ack is not None)

    @property
    def offsets_are_final(self) -> bool:
        """Return whether ``offset_of`` is final for all segments so far."""
        return self._base is not None and not self._gathering and self._stray is None

    @property
    def fin_is_missing(self) -> bool:
        """Return whether one byte more than was delivered is acknowledged: a FIN that was not captured."""
        if self._fin is not None or self._base is None or self.last_ack == _NEVER:
            return False
        return self.offset_of(self.last_ack) == self.offset + 1

    # ── what comes in ───────────────────────────────────────────────────────────────────────────────────────

    def feed(self, segment: Segment, seen: Seen) -> list[StreamEvent]:
        """Add the next captured segment of this direction."""
        _, seq, _, flags, _, payload, missing, disagreement = segment
        if seq == self.ready and payload and not (flags & CONTROL or missing or disagreement):
            size, offset, balance = len(payload), self.offset, self._balance
            self.deliver(payload, seen[1])
            balance.payload_bytes += size
            balance.delivered_bytes += size
            return [_row(Bytes, (offset, payload, seen, self.joined_late))]
        if self._base is not None and not (payload or flags & CONTROL or missing):
            return []  # an acknowledgement of the other direction, or a keepalive without its byte
        return self._feed_unusual(segment, seen)

    def deliver(self, payload: bytes, ts_ns: int | None) -> None:
        """Move past a payload that begins at ``ready``; the caller delivers and counts it."""
        offset, size = self.offset, len(payload)
        self.offset = offset + size
        self.ready = (self.ready + size) & MASK
        self._history.add(offset, payload, ts_ns)

    def can_wait(self, size: "i64", ts_ns: "i64", file: str) -> bool:
        """Return whether a packet's bytes that begin at ``waiting_end`` may ``wait`` without a decision."""
        return not size or (size <= self.room and NO_TIME < ts_ns < self._until and file == self._waiting_file)

    def wait(self, payload: bytes, number: int, ts_ns: int) -> None:
        """Keep the payload of a packet for which ``can_wait`` holds."""
        size, balance = len(payload), self._balance
        self.waiting_end = (self.waiting_end + size) & MASK
        self.room -= size
        self._now = ts_ns
        self._arrived += size
        self._top += size
        self._backlog.append(payload, number, ts_ns)
        balance.payload_bytes += size
        balance.pending_bytes += size

    def acknowledge_lost(self, ack: int, ts_ns: "i64") -> bool:
        """Note an acknowledgement if it changes nothing, as the hole was acknowledged before; return whether so."""
        if self.waiting_end < 0 or not self._lost or not NO_TIME < ts_ns < self._until:
            return False
        self.last_ack, self._now = ack, ts_ns
        if not self._note_ack():
            self.waiting_end = _NEVER  # the next segment may confirm it
        return True

    def begin(self, seq: int, seen: Seen) -> list[StreamEvent]:
        """Begin the stream at ``seq``: the byte after the SYN."""
        if self._base is None:
            self._start(seq)
            self.ready = seq
        elif self._gathering:
            self._release(distance(self._base, seq))
            self.joined_late = False
        return self._advance(seen)

    def begins_with(self, isn: int) -> bool:
        """Return whether a SYN with this number belongs to this stream; if not, it begins another on the same ports."""
        if self._isn is not None:
            return self._isn == isn
        if self._base is None:
            return True
        origin = distance(self._base, advance(isn, 1))
        if self._gathering:
            return -self._limits.near <= origin <= self._first_held()
        return origin == 0

    def acknowledge(self, ack: int, seen: Seen) -> list[StreamEvent]:
        """Note that the other side has acknowledged everything before ``ack``."""
        if ack == self.last_ack:
            return []
        self.last_ack = ack
        if self.ready >= 0:
            return []  # nothing waits, so nothing depends on the acknowledgement yet
        if self._base is None:
            if self.answers:
                return self.begin(ack, seen)
            if self._first_ack is None:
                self._first_ack = ack
            return []
        if self._stray and not self._note_ack() and self._near(self._stray.seq, ack):
            return self._jump(seen, LOST_BY_CAPTURE)
        return self._advance(seen)

    def reset(self, seen: Seen, *, by_peer: bool = False) -> list[StreamEvent]:
        """Note a RST of either side. Nothing is discarded: the RST may be forged, or late packets may follow."""
        if self._base is None:
            return []
        if self.reset_at is None:
            self.reset_at, self.reset_by_peer = self._clock(seen), by_peer
        return self._advance(seen)

    def tick(self, seen: Seen) -> list[StreamEvent]:
        """Note that capture time has passed."""
        return self._advance(seen)

    def evict(self, seen: Seen) -> list[StreamEvent]:
        """Release all memory: holes become gaps."""
        self._history.clear()
        out = self._flush_all(seen, EVICTED)
        return out + self._advance(seen)

    def close(self, seen: Seen, reason: str = END) -> list[StreamEvent]:
        """End the stream, for ``reason`` unless it has ended with FIN or RST."""
        out = self._flush_all(seen, EVICTED if reason == EVICTED else END)
        if self._stray is not None:
            self._count_stray()
        if self._base is None:
            out += self._silence(seen)
        else:
            self._note_ack()
            out += self._tail(seen) + self._fin_reached()
        if not self.ended and (self._base is not None or out):
            self.ended = True
            out.append(self._end(reason, seen))
        self._history.clear()
        self.deadline = None
        return out

    def _end(self, reason: str, seen: Seen) -> End:
        if self.reset_at is None:
            return End(self.offset, reason, seen)
        return End(self.offset, "rst", seen, None if seen.ts_ns is None else self.reset_at, self.reset_by_peer)

    def _feed_unusual(self, segment: Segment, seen: Seen) -> list[StreamEvent]:
        flags, seq, payload = segment.flags, segment.seq, segment.payload
        missing, balance = segment.payload_missing, self._balance
        balance.payload_bytes += len(payload)
        if flags & RST:
            balance.stray_bytes += len(payload)  # text in a RST is not part of the stream
            self._note_sent(self.offset_of(seq) if self._base is not None else 0)
            return self.reset(seen)
        out: list[StreamEvent] = []
        if flags & SYN:
            self._isn = seq
            seq = advance(seq, 1)
            out += self.begin(seq, seen)
        content = len(payload) + missing
        if not content and not flags & FIN:
            return out
        now = self._clock(seen)
        if self._base is None:
            self._join(seq, now)
        start = self.offset_of(seq)
        limits = self._limits
        if not self.offset - limits.jump <= start <= max(self.offset, self._top) + limits.jump:
            return out + self._set_aside(seq, payload, missing, seen)
        if segment.disagreement:
            out.append(conflict(balance, Difference(start, *segment.disagreement), seen))
        if content:
            out += self._insert(start, payload, missing, seen)
        if flags & FIN:
            self._fin = Fin(start + content, self._arrived, now, seen)
        return out + self._advance(seen)

    def _advance(self, seen: Seen) -> list[StreamEvent]:
        """Deliver bytes in order, give up holes that must be, and set the next deadline."""
        now = self._clock(seen)
        believed = self._note_ack()
        if self._gathering:
            if not self._ripe(now):
                self.deadline = self._since + self._limits.late_ns
                return []
            self._release(self._first_held())
        out = self._sweep(seen) + self._give_up(seen, now, self._aside) + self._fin_reached()
        self.ready = self.waiting_end = _NEVER
        if self._base is not None and not (self._fin or self._stray) and self.reset_at is None:
            top, backlog = self._top, self._backlog
            if not backlog:
                self.ready = self._seq_of(self.offset)
            elif believed and top - self.offset <= self._limits.jump and backlog.grows(top, self._arrived, seen[2], 0):
                self.waiting_end, self._waiting_file = self._seq_of(top), seen[2]
        return out

    def _flush_all(self, seen: Seen, reason: str) -> list[StreamEvent]:
        """Deliver everything that waits, with gaps between; a stream without a beginning begins with its first byte."""
        if self._gathering:
            self._release(self._first_held())
        return self._flush(seen, reason)

    def _silence(self, seen: Seen) -> list[StreamEvent]:
        """Report the bytes acknowledged of a direction never captured; a single one may be a FIN, and is none."""
        length = 0 if self._first_ack is None else distance(self._first_ack, self.last_ack)
        return [self._gap(length, LOST_BY_CAPTURE, seen)] if length > 1 else []

    # ── sequence numbers and offsets ────────────────────────────────────────────────────────────────────────

    def _start(self, seq: int) -> None:
        self._base = seq
        self._open()

    def _join(self, seq: int, now: int) -> None:
        """Begin in the middle: ``seq`` is the first number captured; lower ones may follow."""
        self._start(seq)
        self._since = now
        self._gathering = self.joined_late = True

    def _release(self, origin: int) -> None:
        """Set offset 0 to ``origin``, counted from the first byte seen, and begin to deliver."""
        self._gathering = False
        self.deadline = None
        if origin:
            self._base = advance(self._base or 0, origin)
            self._shift(origin)

    def _first_held(self) -> int:
        return self._backlog.first.start if self._backlog else 0

    def _seq_of(self, offset: int) -> int:
        return ((self._base or 0) + offset) & MASK

    def offset_of(self, seq: int) -> int:
        """Return the offset of a number near the next expected one, since numbers wrap and offsets do not."""
        return self.offset + distance(self._seq_of(self.offset), seq)

    def _note_ack(self) -> bool:
        """Advance ``_acked`` to the last acknowledgement; one far outside the stream is ignored."""
        if self.last_ack < 0:
            return True
        reach = self.offset_of(self.last_ack)
        if reach > max(self.offset, self._top, self._acked or 0) + self._limits.jump:
            return False
        if self._acked is None or reach > self._acked:
            self._acked = reach
        return True

    # ── strays ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _aside(self) -> int:
        return len(self._stray.payload) if self._stray else 0

    def _near(self, seq: int, other: int) -> bool:
        return abs(distance(seq, other)) <= self._limits.near

    def _set_aside(self, seq: int, payload: bytes, missing: int, seen: Seen) -> list[StreamEvent]:
        """Keep one segment from far outside the stream until a second one near it confirms it."""
        stray = self._stray
        if stray is not None and seq != stray.seq and self._near(stray.seq, seq):
            first = seq if distance(stray.seq, seq) < 0 else stray.seq
            out = self._jump(seen, NOT_ACKED, first)
            return out + self._insert(self.offset_of(seq), payload, missing, seen) + self._advance(seen)
        if stray is not None:
            self._count_stray()
        self._stray = _Stray(seq, payload, missing)
        self._balance.pending_bytes += len(payload)
        if self.last_ack != _NEVER and self._near(seq, self.last_ack):
            return self._jump(seen, LOST_BY_CAPTURE)
        self.ready = self.waiting_end = _NEVER  # from now on every acknowledgement may confirm it
        return []

    def _pop_stray(self) -> _Stray:
        stray = self._stray or _Stray(0, b"", 0)
        self._stray = None
        self._balance.pending_bytes -= len(stray.payload)
        return stray

    def _count_stray(self) -> None:
        self._balance.stray_bytes += len(self._pop_stray().payload)

    def _jump(self, seen: Seen, reason: str, first: int | None = None) -> list[StreamEvent]:
        """Continue at the stray segment. Backwards is forwards too, but then by an unknown length."""
        out = self._flush_all(seen, NOT_ACKED)
        seq, payload, missing = self._pop_stray()
        first = seq if first is None else first
        ahead = distance(self._seq_of(self.offset), first)
        if ahead > 0:
            out.append(self._gap(self.offset + ahead, reason, seen))
        else:
            reason = CARVED if self._limits.carved else reason
            out.append(Gap(self.offset, None, reason, seen))
            self._base, self._isn, self._top = advance(first, -self.offset), None, self.offset
        self._acked = self._fin = None
        out += self._insert(self.offset_of(seq), payload, missing, seen)
        return out + self._advance(seen)
