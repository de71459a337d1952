"""Write flow control as text for people, and as objects: a window for each connection, and when it was full."""

from collections.abc import Iterator, Sequence

from dcpdump.record import Json
from dcpdump.render.ndjson import without_none
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, Table, number, spark
from dcpdump.spec import find
from dcpdump.streams.facts import FIRST, LAST, Excess
from dcpdump.streams.flow_state import FlowEvidence, FlowState, Standing, standing, stands_still
from dcpdump.streams.intervals import Interval, between
from dcpdump.streams.knowledge import CARVED, ONE_DIRECTION
from dcpdump.streams.leak import UNEXPLAINED, Leak, leak
from dcpdump.streams.silence import TcpFaults, tcp_faults
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.window import Window
from dcpdump.streams.wording import client, clock, span, times
from dcpdump.text import counted, iso_time

_HEADS = ("conn", "client", "buffer", "sent", "acked", "acks", "outstanding", "peak", "blocked", "over time", "state")
#: What a narrow terminal has no room for, the least first.
_LEAST = ("acks", "over time", "acked", "sent")
_RIGHT = ("buffer", "sent", "acked", "acks", "outstanding", "peak")
_BARS = 24
#: A producer that waits for so long, and for longer than before, stands still; for less, its consumer is just slower.
_STUCK_NS = 10_000_000_000
#: How many intervals and kinds are shown to people: the largest.
_SHOWN = 20
_STATES = {
    FlowState.OFF: "no flow control",
    FlowState.NOT_ACCEPTED: "not accepted, or its answer was not captured",
    FlowState.OPEN: "open",
    FlowState.BLOCKED: "BLOCKED",
    FlowState.EXCEEDED: "EXCEEDED",
}
_INFERRED = " (inferred from where the producer waited before)"


def lines(connections: Sequence[ConnectionState], now_ns: int | None, *, drawn: bool = False) -> "list[Line | Fitting]":
    """Return a table of windows; below, for each, when it was blocked, and what does not add up."""
    rows, notes = [], []
    for each in connections:
        window = each.window
        if not window.wire and not window.acks and window.asked is None:
            continue
        found = standing(each, now_ns)
        off = found.state is FlowState.OFF or not each.has_both_sides
        rows.append(
            (
                str(each.number),
                client(each),
                "none" if found.state is FlowState.OFF else number(window.size) or "?",
                number(window.sent),
                number(window.acked),
                number(window.acks),
                "" if off else _least(window, window.outstanding),
                "" if off else _least(window, window.peak),
                "" if off else _blocked(each, now_ns),
                _drawn(window) if drawn else "",
                _state(each, found),
            )
        )
        notes += _notes(each, found, now_ns) if each.has_both_sides else []
        notes += [Line(LineKind.PROBLEM, f"  conn {each.number} {text}") for text in _held_up(each, now_ns)]
    return [Table(_HEADS, rows, _RIGHT, _LEAST), *notes] if rows else []


def objects(connections: Sequence[ConnectionState], now_ns: int | None) -> Iterator[Json]:
    """Yield windows as objects."""
    for each in connections:
        window, state = each.window, standing(each, now_ns)
        found = leak(window)
        out: Json = {
            "connection": each.number,
            "name": each.setup.name,
            "client": client(each),
            "roles": each.roles.word,
            "buffer": window.size,
            "buffer_asked": window.asked,
            "complete": window.complete,
            "account": "exact" if window.complete else "relative",
            "state": state.state.value,
            "evidence": state.evidence.value,
            "sent": window.sent,
            "acked": window.acked,
            "acks": window.acks,
            "ignored": window.ignored or None,
            "tcp_faults": [_fault(found) for found in tcp_faults(each, now_ns)] or None,
            "kinds": [_kind(window, code) for code in range(FIRST, LAST + 1) if window.counted.frames[code - FIRST]],
        }
        if each.has_both_sides:
            out |= {
                "outstanding": window.outstanding,
                "peak": window.peak,
                "overacked": window.overacked if window.complete else None,
                "blocked": state.state is FlowState.BLOCKED,
                "blocked_ms": window.blocked_ns(now_ns) // 1_000_000,
                "intervals": [_interval(*times) for times in _intervals(window, state)],
                "intervals_left": window.blocked.further or None,
                "exceeded": [_interval(*each[:3]) | {"messages": each.messages} for each in _excesses(window)] or None,
                "mismatch": None if found is None else _mismatch(found),
                "over_time": [
                    {"time": iso_time(mark.ts_ns), "outstanding": outstanding}
                    for mark, outstanding in zip(window.marks, _levels(window), strict=True)
                    if mark.ts_ns is not None
                ],
            }
        yield without_none(out)


def _least(window: Window, count: int) -> str:
    """Return a number of bytes as text, or the least that it can be."""
    return number(count) if window.complete else f"\N{GREATER-THAN OR EQUAL TO} {count:,}"


def _state(each: ConnectionState, found: Standing) -> str:
    inferred = found.evidence is FlowEvidence.INFERRED
    if found.state is FlowState.UNKNOWN:
        why = "bytes were lost" if each.setup.open_frame is not None else "the capture starts after DCP_OPEN"
        why = CARVED if each.carved else why if each.has_both_sides else ONE_DIRECTION
        return f"unknown: {why}"
    if inferred and found.state is FlowState.OFF:
        return "no flow control (inferred: it was not asked for in what was captured)"
    return _STATES[found.state] + (_INFERRED if inferred else "")


def _blocked(each: ConnectionState, now_ns: int | None) -> str:
    total = each.window.blocked_ns(now_ns)
    if not total or each.first_ns is None or now_ns is None or now_ns <= each.first_ns:
        return ""
    return f"{span(total)} ({100 * total / (now_ns - each.first_ns):.0f} %)"


def _notes(each: ConnectionState, found: Standing, now_ns: int | None) -> list[Line]:
    window, conn = each.window, f"  conn {each.number}"
    still = LineKind.PROBLEM if stands_still(each, now_ns, _STUCK_NS) else LineKind.PLAIN
    out = [
        Line(still if times.end_ns is None else LineKind.PLAIN, f"{conn} {_full(window, found, times, now_ns)}")
        for times in _longest(_intervals(window, found), now_ns)
    ]
    out += [Line(LineKind.PROBLEM, f"{conn} {_exceeded(window, excess)}") for excess in _excesses(window)[:_SHOWN]]
    hidden = len(_intervals(window, found)) - _SHOWN
    if hidden > 0:
        further = window.blocked.further
        later = f"; {further:,} later ones were not kept" if further else ""
        out.append(Line(LineKind.PLAIN, f"{conn} {hidden:,} shorter intervals are in -f ndjson{later}"))
    residue = leak(window)
    if residue is not None:
        sure = residue.explained and (residue.bytes < 0 or residue.fills_ns is not None)
        out.append(Line(LineKind.PROBLEM if sure else LineKind.HINT, f"{conn} {residue.in_words}"))
    if window.ignored:
        text = f"{conn} acknowledged {window.ignored:,} B while flow control was off, which do not count"
        out.append(Line(LineKind.PROBLEM, text))
    return out


def _longest(intervals: list[Interval], now_ns: int | None) -> list[Interval]:
    """Return the longest intervals, in the order of time."""
    longest = sorted(intervals, key=lambda times: between(times.start_ns, times.end_ns or now_ns) or 0)
    return sorted(longest[-_SHOWN:], key=lambda times: times.start_ns or 0)


def _full(window: Window, found: Standing, times: Interval, now_ns: int | None) -> str:
    """Say when the producer was blocked."""
    start, end, outstanding = times
    if end is not None:
        until = f"{clock(end)} ({span(between(start, end))})"
    else:
        until = f"the end ({span(between(start, now_ns))})"
    full = f"outstanding {_least(window, outstanding)} of {number(window.size) or 'a size that was not captured'}"
    inferred = end is None and found.evidence is FlowEvidence.INFERRED
    return f"{'seems blocked' if inferred else 'blocked'} {clock(start)} to {until}, {full}"


def _exceeded(window: Window, excess: Excess) -> str:
    """Say when the producer should have been blocked."""
    until = "the end" if excess.end_ns is None else clock(excess.end_ns)
    return (
        f"window exceeded {clock(excess.start_ns)} to {until}: {_least(window, excess.outstanding)} B of "
        f"{number(window.size)} unacknowledged, {counted(excess.messages, 'message')} beyond it: the producer "
        "ignores flow control, or acknowledgements were not captured"
    )


def _held_up(each: ConnectionState, now_ns: int | None) -> Iterator[str]:
    """Yield which ends did not read, or answer, and when."""
    for found in tcp_faults(each, now_ns):
        longest, count = found.intervals.longest, len(found.intervals)
        until = "the end" if found.since_ns == longest.start_ns else clock(longest.end_ns)
        often = f"{times(count)}, {span(found.intervals.total_ns)} in all, for longest " if count > 1 else ""
        when = f"{often}{clock(longest.start_ns)} to {until} ({span(longest.lasting_ns)})"
        said = found.fault.words(past=True)
        yield f"the {found.end} {said.does} {when}: {said.seen}"


def _intervals(window: Window, found: Standing) -> list[Interval]:
    open_one = [Interval(found.since_ns, None, window.outstanding)] if found.state is FlowState.BLOCKED else []
    return [*window.blocked.kept, *open_one]


def _excesses(window: Window) -> list[Excess]:
    open_one = [Excess(window.full_since, None, window.outstanding, window.beyond)] if window.is_exceeded else []
    return [*window.excesses, *open_one]


def _interval(start: int | None, end: int | None, outstanding: int) -> Json:
    return _from_to(start, end) | {"outstanding": outstanding}


def _from_to(start: int | None, end: int | None) -> Json:
    times = (("from", start), ("to", end))
    return {name: iso_time(ts_ns) for name, ts_ns in times if ts_ns is not None}


def _fault(found: TcpFaults) -> Json:
    *over, last = found.intervals.kept
    last = last if found.since_ns is None else last._replace(end_ns=None)
    return without_none(
        {
            "fault": found.fault.value,
            "role": found.end,
            "fault_ms": found.intervals.total_ns // 1_000_000,
            "intervals": [_from_to(each.start_ns, each.end_ns) for each in (*over, last)],
            "intervals_left": found.intervals.further or None,
        }
    )


def _levels(window: Window) -> list[int]:
    """Return the outstanding bytes at each mark; where only differences are known, above the lowest."""
    low = 0 if window.complete else min((mark.outstanding for mark in window.marks), default=0)
    return [mark.outstanding - low for mark in window.marks]


def _kind(window: Window, opcode: int) -> Json:
    frames, size = window.counted.frames[opcode - FIRST], window.counted.bytes[opcode - FIRST]
    return {"name": find(opcode).name, "opcode": opcode, "frames": frames, "bytes": size}


def _mismatch(found: Leak) -> Json:
    return without_none(
        {
            "bytes": found.bytes,
            "text": found.text or UNEXPLAINED,
            "explained": found.explained,
            "kind": found.kind or None,
            "frames": found.frames if found.kind else None,
            "time": None if found.by_ns is None else iso_time(found.by_ns),
            "fills_ms": None if found.fills_ns is None else found.fills_ns // 1_000_000,
        }
    )


def _drawn(window: Window) -> str:
    levels = _levels(window)
    if len(levels) < 2:
        return ""
    step = max(1, len(levels) // _BARS)
    return spark([max(0, *levels[at : at + step]) for at in range(0, len(levels), step)])
