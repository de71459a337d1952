"""Reassembly: pieces of one direction, by their offsets, put in order. Knows no sequence numbers and no segments.

Of overlapping bytes the first to arrive stand. A hole is waited for as long as it may still be filled; then it is
a Gap with a reason. What is kept while waiting is bounded, and all work is linear in what arrives.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from dcpdump.net.counters import Counters
from dcpdump.net.event import CARVED, END, EVICTED, LOST_BY_CAPTURE, NOT_ACKED, End, Gap, Seen, StreamEvent
from dcpdump.net.gap_timeout import GapTimeout, Hole
from dcpdump.net.limits import Limits
from dcpdump.net.reorder_queue import ReorderQueue
from dcpdump.net.retransmissions import is_twin, note_delivered, note_waiting
from dcpdump.net.retransmit_window import RetransmitWindow
from dcpdump.net.stream_state import ReassemblyState

if TYPE_CHECKING:
    from mypy_extensions import i64


class Fin(NamedTuple):
    """Where a direction says that it ends, and when it said so: in bytes arrived, and in time, by which packet."""

    offset: int
    arrived: int
    since: int
    seen: Seen


#: What a direction has that has not been seen yet: always empty, and shared, because half of all directions
#: in a capture full of scans never begin.
_NO_HISTORY: Final = RetransmitWindow(0)
_NO_BACKLOG: Final = ReorderQueue()

_NEVER: Final = (1 << 63) - 1

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row: Final = tuple.__new__


class Reassembly:
    """``_place`` a piece, then ``_settle``: what is in order comes out, and what is not worth waiting for is a Gap.

    While it is gathering, the first offset is not known: nothing comes out, and offsets may be negative.
    """

    __slots__ = (
        "_acked",
        "_arrived",
        "_backlog",
        "_balance",
        "_fin",
        "_gathering",
        "_history",
        "_limits",
        "_lost",
        "_now",
        "_patience",
        "_since",
        "_top",
        "_until",
        "deadline",
        "ended",
        "joined_late",
        "offset",
        "reset_at",
        "reset_by_peer",
        "room",
    )

    def __init__(self, limits: Limits, balance: Counters) -> None:
        self.offset = 0  #: of the next byte to deliver
        self.joined_late = False
        self.deadline: int | None = None
        self._limits = limits
        self._balance = balance
        self._history = _NO_HISTORY
        self._backlog = _NO_BACKLOG
        self._patience: GapTimeout | None = None
        self._gathering = False
        self._since = 0  # when gathering began
        self._now = 0
        self._arrived = 0  # bytes that were new when they came
        self._top = 0  # the end of the furthest piece
        self._acked: int | None = None  # the offset up to which the receiver has all
        self._fin: Fin | None = None
        self.reset_at: int | None = None  #: when (ns) the first RST came, of either side
        self.reset_by_peer = False  #: that was of the other
        self.ended = False  #: whether it came to its end
        # Of the hole that is waited for:
        self.room: i64 = 0  #: how many bytes may come behind it until it is to be decided about again
        self._until: i64 = _NEVER  # the time (ns) of that
        self._lost = False  # whether what is missing was acknowledged

    def _state(self) -> ReassemblyState:
        """Return where it is in the stream, and what waits, as plain values."""
        fin, patience = self._fin, self._patience
        return {
            "offset": self.offset,
            "joined_late": self.joined_late,
            "deadline": self.deadline,
            "gathering": self._gathering,
            "since": self._since,
            "now": self._now,
            "arrived": self._arrived,
            "top": self._top,
            "acked": self._acked,
            "fin": None if fin is None else (*fin[:3], (*fin.seen,)),
            "reset_at": self.reset_at,
            "reset_by_peer": self.reset_by_peer,
            "ended": self.ended,
            "waiting": self._backlog.state(),
            "patience": None if patience is None else patience.state(),
        }

    def _restore(self, state: ReassemblyState) -> None:
        fin, patience = state["fin"], state["patience"]
        self.offset, self.joined_late, self.deadline = state["offset"], state["joined_late"], state["deadline"]
        self._gathering, self._since, self._now = state["gathering"], state["since"], state["now"]
        self._arrived, self._top, self._acked = state["arrived"], state["top"], state["acked"]
        self._fin = None if fin is None else Fin(*fin[:3], Seen(*fin[3]))
        self.reset_at, self.reset_by_peer = state["reset_at"], state["reset_by_peer"]
        self.ended = state["ended"]
        if patience is not None:
            self._open()
            if state["waiting"]:
                self._backlog = ReorderQueue()
                self._backlog.restore(state["waiting"])
            self._patience = GapTimeout(self._limits)
            self._patience.restore(patience)
            self._balance.pending_bytes += self._backlog.size

    def _open(self) -> None:
        """Create the window and the timeout of a stream that begins."""
        self._history = RetransmitWindow(self._limits.history)
        self._patience = GapTimeout(self._limits)

    def _clock(self, seen: Seen) -> int:
        """Capture time; where a packet has none, that of the last one that had."""
        if seen.ts_ns is not None:
            self._now = seen.ts_ns
        return self._now

    # ── a piece comes in ────────────────────────────────────────────────────────────────────────────────────

    def _place(self, start: int, payload: bytes, missing: int, seen: Seen) -> list[StreamEvent]:
        """Put a piece where it belongs: among the delivered bytes, or among those that wait."""
        out: list[StreamEvent] = []
        balance, size = self._balance, len(payload)
        if start < self.offset and not self._gathering:
            old = min(self.offset - start, size)
            twin = old == size and size > 0 and is_twin(balance, self._history, start, payload, seen, self._limits)
            if size == 1 and not missing and start + 1 == self.offset and not twin:
                balance.keepalive_bytes += 1
                return out
            out += note_delivered(balance, self._history, start, payload[:old], seen, twin=twin)
            payload, start = payload[old:], start + old
            missing -= min(missing, max(self.offset - start, 0)) if not payload else 0
            start = max(start, self.offset)
            if not payload and not missing:
                return out
        elif size == 1 and not missing and self._is_keepalive(start):
            balance.keepalive_bytes += 1
            return out
        size = len(payload)
        held = self._backlog.at(start) if start < self._top else None
        if held is not None and len(held[0]) >= size and not missing:
            return out + note_waiting(balance, self._limits, start, payload, held, seen)
        end = start + size + missing
        if self._fin is not None and end > self._fin.offset:
            self._fin, self.ended = None, False  # it was not the last word
        self.reset_at = None
        self._arrived += size + missing
        self._top = max(self._top, end)
        if self._backlog is _NO_BACKLOG:
            self._backlog = ReorderQueue()
        self._backlog.add(start, self._arrived, payload, missing, self._now, seen)
        balance.pending_bytes += size
        return out

    def _is_keepalive(self, start: int) -> bool:
        """Return whether one byte at ``start`` repeats the last one sent, or stands where the FIN is."""
        if self._fin is not None and start == self._fin.offset:
            return True
        return start + 1 == self._top and start > self.offset and self._backlog.at(start) is None

    # ── bytes and gaps come out ─────────────────────────────────────────────────────────────────────────────

    def _sweep(self, seen: Seen) -> list[StreamEvent]:
        """Deliver from what waits all that is contiguous."""
        if not self._backlog or self._backlog.first.start > self.offset:
            return []
        out, self.offset = self._backlog.sweep(self.offset, self._history, self._balance, seen, self.joined_late)
        return out

    def _give_up(self, seen: Seen, now: int, aside: int) -> list[StreamEvent]:
        """Decide which holes will not be filled any more; ``aside``: bytes that wait elsewhere."""
        out: list[StreamEvent] = []
        limits, backlog, patience, fin = self._limits, self._backlog, self._patience, self._fin
        self.deadline = None
        if patience is None:
            return out
        while True:
            if backlog:
                first = backlog.first
                hole = _row(Hole, (first.start, first.order, first.since))
            elif fin is not None and fin.offset > self.offset:
                hole = _row(Hole, (fin.offset, fin.arrived, fin.since))
            else:
                patience.rest()
                return out
            acked = self._is_acked(hole.end)
            if backlog.size + aside <= limits.pending_bytes and len(backlog) <= limits.pending_segments:
                over = fin is not None or self.reset_at is not None
                resent = self._acked is not None and not over
                over_since = max(self.reset_at or 0, fin.since if fin else 0)
                if not patience.ends(hole, now, self._arrived, acked=acked, resent=resent, over_since=over_since):
                    self.deadline = deadline = patience.deadline
                    self._until, self._lost = _NEVER if deadline is None else deadline, acked
                    room = min(limits.pending_bytes - backlog.size - aside, limits.pending_segments - len(backlog))
                    self.room = min(room, patience.room(self._arrived))  # of segments that have a byte at least
                    return out
            out.append(self._gap(hole.end, LOST_BY_CAPTURE if acked else NOT_ACKED, seen))
            out += self._sweep(seen)

    def _flush(self, seen: Seen, reason: str) -> list[StreamEvent]:
        """Deliver everything that waits; every hole on the way is a gap now."""
        out = self._sweep(seen)
        while self._backlog:
            goal = self._backlog.first.start
            lost = self._is_acked(goal) and reason != EVICTED
            out.append(self._gap(goal, LOST_BY_CAPTURE if lost else reason, seen))
            out += self._sweep(seen)
        return out

    def _is_acked(self, offset: int) -> bool:
        return self._acked is not None and self._acked >= offset

    def _gap(self, goal: int, reason: str, seen: Seen) -> Gap:
        """Give up a hole and continue at ``goal``."""
        reason = CARVED if self._limits.carved else reason
        gap = Gap(self.offset, goal - self.offset, reason, seen)
        self.offset = goal
        return gap

    def _fin_reached(self) -> list[StreamEvent]:
        """End once all up to the FIN is delivered or given up."""
        if self._fin is None or self.offset < self._fin.offset or self.ended:
            return []
        self.ended = True
        return [End(self.offset, "fin", self._fin.seen)]

    def _note_sent(self, offset: int) -> None:
        """Learn from a RST how much was sent before it, where nothing of that was captured."""
        if not (self.offset or self._backlog) and 0 < offset <= self._limits.jump:
            self._acked = max(self._acked or 0, offset)

    def _tail(self, seen: Seen) -> list[StreamEvent]:
        """Report what must have come after the last byte seen: before a FIN, or acknowledged.

        One acknowledged byte may be a FIN that was not captured, and is not reported.
        """
        if self._fin is not None:
            goal = self._fin.offset
            reason = LOST_BY_CAPTURE if self._is_acked(goal) else END
            return [self._gap(goal, reason, seen)] if goal > self.offset else []
        acked = self._acked or 0
        return [self._gap(acked, LOST_BY_CAPTURE, seen)] if acked > self.offset + 1 else []

    # ── the first offset ────────────────────────────────────────────────────────────────────────────────────

    def _ripe(self, now: int) -> bool:
        """Whether nothing earlier than the first held byte is to be waited for."""
        backlog, limits = self._backlog, self._limits
        if backlog and self._is_acked(backlog.first.start):
            return True
        over = self._fin is not None and not backlog
        return over or len(backlog) >= limits.late_segments or now - self._since >= limits.late_ns

    def _shift(self, origin: int) -> None:
        """Count all offsets from ``origin``."""
        self._backlog.shift(origin)
        self._top -= origin
        if self._acked is not None:
            self._acked -= origin
        if self._fin is not None:
            self._fin = self._fin._replace(offset=self._fin.offset - origin)
