"""ByteStream: the segments of one direction of a TCP connection, put in order. Knows no IP and no protocol.

Of overlapping bytes the first to arrive stand. A hole is waited for as long as it may still be filled; then it is
a Gap with a reason. What is kept while waiting is bounded, and all work is linear in what arrives.
"""

from heapq import heapify, heappop, heappush

from dcpdump.net.balance import Balance
from dcpdump.net.event import (
    END,
    EVICTED,
    LOST_BY_CAPTURE,
    NOT_ACKED,
    SNAPLEN,
    Bytes,
    Conflict,
    End,
    Event,
    Gap,
    Seen,
)
from dcpdump.net.history import OVERHEAD, Difference, History
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.seqnum import MASK, advance, distance
from dcpdump.net.tcp import FIN, RST, SYN, Segment

_CONTROL = FIN | SYN | RST
_NEVER = -1  # equals no sequence number

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row = tuple.__new__

#: A segment that waits: its offset, how many bytes had arrived with it (which also orders arrivals), its
#: bytes, the end of what the snap length cut off behind them, and when it came.
_Waiting = tuple[int, int, bytes, int, int, Seen]

#: What a direction has that has not been seen yet: always empty, and shared, because half of all directions
#: in a capture full of scans never begin.
_NO_HISTORY = History(0)
_NONE_WAITING: list[_Waiting] = []
_NOWHERE: dict[int, tuple[bytes, int]] = {}


class ByteStream:
    """One direction. ``feed`` its segments and ``acknowledge`` what the other direction acknowledges.

    When ``deadline`` (ns of capture time, or None) has come, ``tick`` gives what is not worth waiting for.

    A direction whose SYN was seen delivers at once. Without a SYN the first segment seen need not be the first
    of the stream, so the first bytes wait until something shows that nothing earlier is on its way: an
    acknowledgement, a few more segments, or a moment of capture time.
    """

    __slots__ = (
        "_acked",
        "_arrived",
        "_balance",
        "_base",
        "_cost",
        "_ended",
        "_fin",
        "_first_ack",
        "_gathering",
        "_history",
        "_isn",
        "_limits",
        "_mark",
        "_now",
        "_pending",
        "_ready",
        "_reset_at",
        "_since",
        "_stray",
        "_top",
        "_waiting",
        "_waiting_at",
        "answers",
        "deadline",
        "joined_late",
        "last_ack",
        "offset",
    )

    def __init__(self, limits: Limits = DEFAULT, balance: Balance | None = None) -> None:
        self._limits = limits
        self._balance = balance if balance is not None else Balance()
        self.offset = 0  #: of the next byte to deliver
        self.joined_late = False
        self.deadline: int | None = None
        self.answers = False  #: whether the other side's SYN was seen, so that its first ACK tells where this one began
        self.last_ack = _NEVER  #: the last acknowledgement number seen from the other side
        self._base: int | None = None  # the sequence number of offset 0
        self._ready = _NEVER  # the sequence number that may be delivered without further thought
        self._isn: int | None = None
        self._gathering = False
        self._since = 0  # when gathering began
        self._now = 0
        self._history = _NO_HISTORY
        self._waiting = _NONE_WAITING  # a heap
        self._waiting_at = _NOWHERE  # offset → bytes, arrival
        self._pending = 0
        self._cost = 0
        self._arrived = 0
        self._top = 0
        self._acked: int | None = None
        self._first_ack: int | None = None
        self._mark: tuple[int, int] | None = None  # since when, in time and bytes, the hole is known to be lost
        self._fin: tuple[int, int, int] | None = None  # offset, arrival in bytes, arrival in time
        self._reset_at: int | None = None
        self._ended = False
        self._stray: tuple[int, bytes, int] | None = None  # sequence number, bytes, cut bytes

    @property
    def held(self) -> int:
        """The memory that waiting and remembered bytes take."""
        return self._cost + self._history.size

    # ── what comes in ───────────────────────────────────────────────────────────────────────────────────────

    def feed(self, segment: Segment, seen: Seen) -> list[Event]:
        """It takes the next captured segment of this direction."""
        _, seq, _, flags, _, payload, missing, disagreement = segment
        if seq == self._ready and payload and not (flags & _CONTROL or missing or disagreement):
            size, offset, balance = len(payload), self.offset, self._balance
            self.offset = offset + size
            self._ready = (seq + size) & MASK
            self._history.add(offset, payload, seen[1])
            balance.payload_bytes += size
            balance.delivered_bytes += size
            return [_row(Bytes, (offset, payload, seen, self.joined_late))]
        if self._base is not None and not (payload or flags & _CONTROL or missing):
            return []  # an acknowledgement of the other direction, or a keepalive without its byte
        return self._feed_unusual(segment, seen)

    def begin(self, seq: int, seen: Seen) -> list[Event]:
        """It learns that the stream starts at ``seq``: the byte after the SYN."""
        if self._base is None:
            self._start(seq)
            self._ready = seq
        elif self._gathering:
            self._release(distance(self._base, seq))
            self.joined_late = False
        return self._settle(seen)

    def begins_with(self, isn: int) -> bool:
        """Whether a SYN with this number can belong to this stream, or begins another on the same ports."""
        if self._isn is not None:
            return self._isn == isn
        if self._base is None:
            return True
        origin = distance(self._base, advance(isn, 1))
        if self._gathering:
            first = self._waiting[0][0] if self._waiting else 0
            return -self._limits.near <= origin <= first
        return origin == 0

    def acknowledge(self, ack: int, seen: Seen) -> list[Event]:
        """It learns that the other side has acknowledged everything before ``ack``."""
        if ack == self.last_ack:
            return []
        self.last_ack = ack
        if self._ready >= 0:
            return []  # nothing waits, so nothing depends on it yet
        if self._base is None:
            if self.answers:
                return self.begin(ack, seen)
            if self._first_ack is None:
                self._first_ack = ack
            return []
        if self._stray and not self._note_ack() and self._near(self._stray[0], ack):
            return self._jump(seen, LOST_BY_CAPTURE)
        return self._settle(seen)

    def _note_ack(self) -> bool:
        """It brings ``_acked`` up to the last acknowledgement; one from far outside the stream is not believed."""
        if self.last_ack < 0:
            return True
        reach = self.offset + distance(self._expected(), self.last_ack)
        if reach > max(self.offset, self._top, self._acked or 0) + self._limits.jump:
            return False
        if self._acked is None or reach > self._acked:
            self._acked = reach
        return True

    def reset(self, seen: Seen) -> list[Event]:
        """It notes a RST of either side. Nothing is discarded: it may be forged, or late packets follow."""
        if self._base is None:
            return []
        self._reset_at = self._clock(seen)
        return self._settle(seen)

    def tick(self, seen: Seen) -> list[Event]:
        """It notes that capture time has passed."""
        return self._settle(seen)

    def evict(self, seen: Seen) -> list[Event]:
        """It gives its memory back: what it waits for becomes gaps."""
        self._history.clear()
        out = self._flush(seen, EVICTED)
        return out + self._settle(seen)

    def close(self, seen: Seen, reason: str = END) -> list[Event]:
        """It ends the stream, for ``reason`` unless it has ended by itself."""
        out = self._flush(seen, EVICTED if reason == EVICTED else END)
        if self._stray is not None:
            self._count_stray()
        out += self._tail(seen)
        if not self._ended and (self._base is not None or out):
            self._ended = True
            out.append(End(self.offset, "rst" if self._reset_at is not None else reason, seen))
        self._history.clear()
        self.deadline = None
        return out

    # ── the unusual ─────────────────────────────────────────────────────────────────────────────────────────

    def _feed_unusual(self, segment: Segment, seen: Seen) -> list[Event]:
        flags, seq, payload = segment.flags, segment.seq, segment.payload
        missing, balance = segment.payload_missing, self._balance
        balance.payload_bytes += len(payload)
        if flags & RST:
            balance.resets += 1
            balance.stray_bytes += len(payload)  # a RST's text is not of the stream
            return self.reset(seen)
        out: list[Event] = []
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
        start = self.offset + distance(self._expected(), seq)
        limits = self._limits
        if not self.offset - limits.jump <= start <= max(self.offset, self._top) + limits.jump:
            return out + self._set_aside(seq, payload, missing, seen)
        if segment.disagreement:
            out.append(self._conflict(Difference(start, *segment.disagreement), seen))
        if content:
            out += self._place(start, payload, missing, seen)
        if flags & FIN:
            self._fin = start + content, self._arrived, now
        return out + self._settle(seen)

    def _start(self, seq: int) -> None:
        self._base = seq
        self._history = History(self._limits.history)
        self._waiting, self._waiting_at = [], {}

    def _join(self, seq: int, now: int) -> None:
        """It begins in the middle: ``seq`` is the first number seen, not surely the first that there is."""
        self._start(seq)
        self._since = now
        self._gathering = self.joined_late = True

    def _place(self, start: int, payload: bytes, missing: int, seen: Seen) -> list[Event]:
        """It puts a segment where it belongs: among what is had already, or among what waits."""
        out: list[Event] = []
        size = len(payload)
        if start < self.offset and not self._gathering:
            old = min(self.offset - start, size)
            if size == 1 and not missing and start + 1 == self.offset and not self._twin(start, payload, seen):
                self._balance.keepalive_bytes += 1
                return out
            out += self._again(start, payload[:old], old == size, seen)
            payload, start = payload[old:], start + old
            missing -= min(missing, max(self.offset - start, 0)) if not payload else 0
            start = max(start, self.offset)
            if not payload and not missing:
                return out
        elif size == 1 and not missing and self._is_keepalive(start):
            self._balance.keepalive_bytes += 1
            return out
        size = len(payload)
        held = self._waiting_at.get(start)
        if held is not None and len(held[0]) >= size and not missing:
            return out + self._again_waiting(start, payload, held, seen)
        if self._fin is not None and start + size + missing > self._fin[0]:
            self._fin, self._ended = None, False  # it was not the last word
        self._reset_at = None
        self._arrived += size + missing
        self._top = max(self._top, start + size + missing)
        heappush(self._waiting, (start, self._arrived, payload, start + size + missing, self._now, seen))
        self._waiting_at[start] = payload, self._now
        self._pending += size
        self._cost += size + 2 * OVERHEAD
        self._balance.pending_bytes += size
        return out

    def _is_keepalive(self, start: int) -> bool:
        """Whether one byte at ``start`` repeats the last one sent, or takes the place of the FIN."""
        if self._fin is not None and start == self._fin[0]:
            return True
        return start + 1 == self._top and start > self.offset and start not in self._waiting_at

    def _twin(self, start: int, data: bytes, seen: Seen) -> bool:
        """Whether exactly this was delivered a moment ago: captured twice."""
        piece = self._history.find(start, data)
        return piece is not None and self._at_once(piece.ts_ns, seen.ts_ns)

    def _at_once(self, then: int | None, now: int | None) -> bool:
        return then is not None and now is not None and abs(now - then) <= self._limits.duplicate_ns

    def _again(self, start: int, data: bytes, whole: bool, seen: Seen) -> list[Event]:
        """It counts bytes that were delivered before, and compares them."""
        balance = self._balance
        if not data:
            return []
        if whole and self._twin(start, data, seen):
            balance.duplicate_packets += 1
            balance.duplicate_bytes += len(data)
            return []
        early = min(max(-start, 0), len(data))
        difference, absent = self._history.compare(start + early, data[early:])
        balance.late_bytes += early + absent
        balance.retransmitted_packets += 1
        balance.retransmitted_bytes += len(data) - early - absent
        return [] if difference is None else [self._conflict(difference, seen)]

    def _again_waiting(self, start: int, data: bytes, held: tuple[bytes, int], seen: Seen) -> list[Event]:
        """It counts bytes that wait already, and compares them."""
        balance = self._balance
        if held[0] == data and seen.ts_ns is not None and self._at_once(held[1], seen.ts_ns):
            balance.duplicate_packets += 1
            balance.duplicate_bytes += len(data)
            return []
        balance.retransmitted_packets += 1
        balance.retransmitted_bytes += len(data)
        probe = History(len(held[0]) + OVERHEAD)
        probe.add(start, held[0], None)
        difference, _ = probe.compare(start, data)
        return [] if difference is None else [self._conflict(difference, seen)]

    def _conflict(self, difference: Difference, seen: Seen) -> Conflict:
        self._balance.conflicts += 1
        return Conflict(*difference, seen)

    # ── strays ──────────────────────────────────────────────────────────────────────────────────────────────

    def _near(self, seq: int, other: int) -> bool:
        return abs(distance(seq, other)) <= self._limits.near

    def _set_aside(self, seq: int, payload: bytes, missing: int, seen: Seen) -> list[Event]:
        """It keeps one segment from far outside the stream until a second witness proves it."""
        stray = self._stray
        if stray is not None and seq != stray[0] and self._near(stray[0], seq):
            first = seq if distance(stray[0], seq) < 0 else stray[0]
            out = self._jump(seen, NOT_ACKED, first)
            start = self.offset + distance(self._expected(), seq)
            return out + self._place(start, payload, missing, seen) + self._settle(seen)
        if stray is not None:
            self._count_stray()
        self._stray = seq, payload, missing
        self._pending += len(payload)
        self._cost += len(payload)
        self._balance.pending_bytes += len(payload)
        if self.last_ack != _NEVER and self._near(seq, self.last_ack):
            return self._jump(seen, LOST_BY_CAPTURE)
        self._ready = _NEVER  # from now on every acknowledgement may be the second witness
        return []

    def _take_stray(self) -> tuple[int, bytes, int]:
        stray = self._stray or (0, b"", 0)
        self._stray = None
        self._pending -= len(stray[1])
        self._cost -= len(stray[1])
        self._balance.pending_bytes -= len(stray[1])
        return stray

    def _count_stray(self) -> None:
        self._balance.stray_bytes += len(self._take_stray()[1])

    def _jump(self, seen: Seen, reason: str, first: int | None = None) -> list[Event]:
        """It goes on at the stray segment. Backwards is forwards too, but then nobody can say how far."""
        out = self._flush(seen, NOT_ACKED)
        seq, payload, missing = self._take_stray()
        first = seq if first is None else first
        ahead = distance(self._expected(), first)
        if ahead > 0:
            out.append(self._gap(self.offset + ahead, reason, seen))
        else:
            self._balance.hole(reason, None)
            out.append(Gap(self.offset, None, reason, seen))
            self._base, self._isn, self._top = advance(first, -self.offset), None, self.offset
        self._acked = self._fin = None
        out += self._place(self.offset + distance(self._expected(), seq), payload, missing, seen)
        return out + self._settle(seen)

    # ── putting in order ────────────────────────────────────────────────────────────────────────────────────

    def _expected(self) -> int:
        return ((self._base or 0) + self.offset) & MASK

    def _clock(self, seen: Seen) -> int:
        """Capture time; where a packet has none, that of the last one that had."""
        if seen.ts_ns is not None:
            self._now = seen.ts_ns
        return self._now

    def _settle(self, seen: Seen) -> list[Event]:
        """It delivers what can be, gives up what must be, and says when to look again."""
        now = self._clock(seen)
        self._note_ack()
        if self._gathering:
            if not self._ripe(now):
                self.deadline = self._since + self._limits.late_ns
                return []
            self._release(self._waiting[0][0] if self._waiting else 0)
        out = self._sweep(seen)
        out += self._give_up(seen, now)
        fin = self._fin
        if fin is not None and self.offset >= fin[0] and not self._ended:
            self._ended = True
            out.append(End(self.offset, "fin", seen))
        usual = not (self._base is None or self._waiting or fin or self._stray) and self._reset_at is None
        self._ready = self._expected() if usual else _NEVER
        return out

    def _ripe(self, now: int) -> bool:
        """Whether nothing earlier than the first held byte is to be waited for."""
        if self._acked is not None and self._waiting and self._acked >= self._waiting[0][0]:
            return True
        over = self._fin is not None and not self._waiting
        enough = len(self._waiting) >= self._limits.late_segments
        return over or enough or now - self._since >= self._limits.late_ns

    def _release(self, origin: int) -> None:
        """It fixes offset 0 at ``origin``, counted from the first byte seen, and ends the gathering."""
        self._gathering = False
        self.deadline = None
        if not origin:
            return
        self._base = advance(self._base or 0, origin)
        self._waiting = [(s - origin, n, data, cut - origin, ts, came) for s, n, data, cut, ts, came in self._waiting]
        heapify(self._waiting)
        self._waiting_at = {start - origin: held for start, held in self._waiting_at.items()}
        self._top -= origin
        if self._acked is not None:
            self._acked -= origin
        if self._fin is not None:
            self._fin = self._fin[0] - origin, *self._fin[1:]

    def _sweep(self, seen: Seen) -> list[Event]:
        """It delivers from what waits all that is contiguous.

        Where waiting segments overlap, the first to arrive stands: ``active`` are those that reach across the
        next byte, by arrival. Each enters and leaves it once, so this is n log n however they overlap. Bytes are
        seen in the packet that brought them, or in the one that filled the hole before them.
        """
        out: list[Event] = []
        waiting, balance = self._waiting, self._balance
        active: list[tuple[int, int, bytes, int, int, Seen, list[int]]] = []
        cut_until = 0
        newest, latest = -1, seen
        while True:
            while waiting and waiting[0][0] <= self.offset:
                start, order, data, cut, ts, came = heappop(waiting)
                self._waiting_at.pop(start, None)
                heappush(active, (order, start, data, cut, ts, came, [0]))
            while active and active[0][1] + len(active[0][2]) <= self.offset:
                _, start, data, cut, _, _, used = heappop(active)
                cut_until = max(cut_until, cut)
                self._pending -= len(data)
                self._cost -= len(data) + 2 * OVERHEAD
                balance.pending_bytes -= len(data)
                balance.delivered_bytes += used[0]
                if used[0] < len(data):
                    balance.retransmitted_packets += 1
                    balance.retransmitted_bytes += len(data) - used[0]
                    difference, _ = self._history.compare(start, data)
                    if difference is not None:
                        out.append(self._conflict(difference, seen))
            if active:
                order, start, data, _, ts, came, used = active[0]
                limit = start + len(data)
                while waiting and waiting[0][0] < limit:
                    if waiting[0][1] < order:
                        limit = waiting[0][0]
                        break
                    later, arrival, shadowed, cut, when, whence = heappop(waiting)
                    self._waiting_at.pop(later, None)
                    heappush(active, (arrival, later, shadowed, cut, when, whence, [0]))
                chunk = data[self.offset - start : limit - start]
                self._history.add(self.offset, chunk, ts)
                if order > newest:
                    newest, latest = order, came
                out.append(Bytes(self.offset, chunk, latest, self.joined_late))
                used[0] += len(chunk)
                self.offset = limit
            elif self.offset < cut_until:
                goal = min(cut_until, waiting[0][0]) if waiting else cut_until
                out.append(self._gap(goal, SNAPLEN, seen))
            else:
                return out

    def _give_up(self, seen: Seen, now: int) -> list[Event]:
        """It decides which holes will not be filled any more."""
        out: list[Event] = []
        limits = self._limits
        self.deadline = None
        while True:
            if self._waiting:
                goal, arrived, _, _, since, _ = self._waiting[0]
            elif self._fin is not None and self._fin[0] > self.offset:
                goal, arrived, since = self._fin
            else:
                self._mark = None
                return out
            acked = self._acked is not None and self._acked >= goal
            if self._pending > limits.pending_bytes or len(self._waiting) > limits.pending_segments:
                self._balance.overflows += 1
            elif acked:
                mark = (now, self._arrived) if self._mark is None else self._mark
                self._mark = mark = max(mark[0], since), max(mark[1], arrived)
                if self._arrived - mark[1] < limits.patience_bytes and now - mark[0] < limits.patience_ns:
                    self.deadline = mark[0] + limits.patience_ns
                    return out
            else:
                self._mark = None
                over = self._fin is not None or self._reset_at is not None
                if self._acked is not None and not over:
                    return out  # not lost for the receiver either: it will be sent again
                since = max(since, self._reset_at or 0, self._fin[2] if self._fin else 0)
                if now - since < limits.patience_ns:
                    self.deadline = since + limits.patience_ns
                    return out
            out.append(self._gap(goal, LOST_BY_CAPTURE if acked else NOT_ACKED, seen))
            out += self._sweep(seen)

    def _flush(self, seen: Seen, reason: str) -> list[Event]:
        """It delivers everything that waits; every hole on the way is a gap now."""
        if self._gathering:
            self._release(self._waiting[0][0] if self._waiting else 0)
        out = self._sweep(seen)
        while self._waiting:
            goal = self._waiting[0][0]
            acked = self._acked is not None and self._acked >= goal
            out.append(self._gap(goal, LOST_BY_CAPTURE if acked and reason != EVICTED else reason, seen))
            out += self._sweep(seen)
        return out

    def _tail(self, seen: Seen) -> list[Event]:
        """It reports what must have come after the last byte seen: before a FIN, or acknowledged.

        One acknowledged byte may be a FIN that was not captured, and is not reported.
        """
        if self._base is None:
            if self._first_ack is None:
                return []
            length = distance(self._first_ack, self.last_ack)
            return [self._gap(length, LOST_BY_CAPTURE, seen)] if length > 1 else []
        self._note_ack()
        acked = self._acked or 0
        if self._fin is not None and self._fin[0] > self.offset:
            return [self._gap(self._fin[0], LOST_BY_CAPTURE if acked >= self._fin[0] else END, seen)]
        if self._fin is None and acked > self.offset + 1:
            return [self._gap(acked, LOST_BY_CAPTURE, seen)]
        return []

    def _gap(self, goal: int, reason: str, seen: Seen) -> Gap:
        """It leaves a hole behind and goes on at ``goal``."""
        gap = Gap(self.offset, goal - self.offset, reason, seen)
        self._balance.hole(reason, gap.length)
        self.offset = goal
        return gap
