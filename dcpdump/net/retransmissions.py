"""Repeats: what is done with bytes that a direction has already. They are counted, compared, and never delivered."""

from dcpdump.net.counters import Counters
from dcpdump.net.event import Conflict, Event, Seen
from dcpdump.net.limits import MILLISECOND, Limits
from dcpdump.net.retransmit_window import OVERHEAD, Difference, RetransmitWindow


def captured_twice(then: int | None, now: int | None, limits: Limits) -> bool:
    """Whether the same bytes came so soon again that they were not sent again."""
    return then is not None and now is not None and abs(now - then) <= limits.duplicate_ns


def is_twin(balance: Counters, history: RetransmitWindow, start: int, data: bytes, seen: Seen, limits: Limits) -> bool:
    """Whether exactly this was delivered a moment ago; where it was earlier, count after which time it came again."""
    piece = history.find(start, data)
    if piece is None or captured_twice(piece.ts_ns, seen.ts_ns, limits):
        return piece is not None
    if piece.ts_ns is not None and seen.ts_ns is not None:
        balance.repeat(round((seen.ts_ns - piece.ts_ns) / MILLISECOND), len(data))
    return False


def note_delivered(
    balance: Counters, history: RetransmitWindow, start: int, data: bytes, seen: Seen, *, twin: bool
) -> list[Event]:
    """Count bytes that were delivered before, and compare them."""
    if not data:
        return []
    if twin:
        balance.duplicate_bytes += len(data)
        return []
    early = min(max(-start, 0), len(data))
    difference, absent = history.compare(start + early, data[early:])
    balance.late_bytes += early + absent
    balance.retransmitted_bytes += len(data) - early - absent
    return [] if difference is None else [conflict(balance, difference, seen)]


def note_waiting(
    balance: Counters, limits: Limits, start: int, data: bytes, held: tuple[bytes, int], seen: Seen
) -> list[Event]:
    """Count bytes that wait already, as ``held`` bytes since a time, and compare them."""
    if held[0] == data and captured_twice(held[1], seen.ts_ns, limits):
        balance.duplicate_bytes += len(data)
        return []
    balance.retransmitted_bytes += len(data)
    probe = RetransmitWindow(len(held[0]) + OVERHEAD)
    probe.add(start, held[0], None)
    difference, _ = probe.compare(start, data)
    return [] if difference is None else [conflict(balance, difference, seen)]


def conflict(balance: Counters, difference: Difference, seen: Seen) -> Conflict:
    """Count an overlap that disagrees, and return its event."""
    balance.conflicts += 1
    return Conflict(*difference, seen)
