"""Write flow control as text for people, and as objects: a window for each connection, and when it was full."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from dcpdump.record import Json
from dcpdump.render.column import Column, ColumnSet, of
from dcpdump.render.objects import without_none
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, number, spark
from dcpdump.spec import find
from dcpdump.streams.flow import UNEXPLAINED, FlowEvidence, FlowState, FlowStatus, Leak, flow_status, leak, stands_still
from dcpdump.streams.frame_event import between
from dcpdump.streams.knowledge import CARVED, ONE_DIRECTION
from dcpdump.streams.silence import TcpFaults, tcp_faults
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.window import FIRST, LAST, Excess, Interval, Window
from dcpdump.streams.wording import client, clock, span, times
from dcpdump.text import counted, iso_time

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


class FlowRow(NamedTuple):
    """A connection, and how its flow control stands."""

    connection: ConnectionState
    found: FlowStatus
    now_ns: int | None  #: when the input ends
    drawn: bool = False  #: with a line of bars of what was outstanding

    @property
    def window(self) -> Window:
        """Return the window of its consumer."""
        return self.connection.window

    @property
    def both(self) -> bool:
        """Return whether both directions were captured."""
        return self.connection.has_both_sides


def rows_of(connections: Sequence[ConnectionState], now_ns: int | None, *, drawn: bool = False) -> list[FlowRow]:
    """Return rows of connections. ``now_ns``: when the input ends; ``drawn``: with lines of bars."""
    return [FlowRow(each, flow_status(each, now_ns), now_ns, drawn) for each in connections]


def lines(rows: Sequence[FlowRow]) -> "list[Line | Fitting]":
    """Return a table of windows; below, for each, when it was blocked, and what does not add up."""
    shown = [row for row in rows if row.window.counted.wire or row.window.acks or row.window.asked is not None]
    notes: list[Line | Fitting] = []
    for each, found, now_ns, _ in shown:
        notes += _notes(each, found, now_ns) if each.has_both_sides else []
        notes += [Line(LineKind.PROBLEM, f"  conn {each.number} {text}") for text in _held_up(each, now_ns)]
    return [FLOW.table(shown), *notes] if shown else []


def _least(window: Window, count: int) -> str:
    """Return a number of bytes as text, or the least that it can be."""
    return number(count) if window.complete else f"\N{GREATER-THAN OR EQUAL TO} {count:,}"


def _state(row: FlowRow) -> str:
    each, found = row.connection, row.found
    inferred = found.evidence is FlowEvidence.INFERRED
    if found.state is FlowState.UNKNOWN:
        why = "bytes were lost" if each.setup.open_frame is not None else "the capture starts after DCP_OPEN"
        why = CARVED if each.carved else why if each.has_both_sides else ONE_DIRECTION
        return f"unknown: {why}"
    if inferred and found.state is FlowState.OFF:
        return "no flow control (inferred: it was not asked for in what was captured)"
    return _STATES[found.state] + (_INFERRED if inferred else "")


def _blocked(row: FlowRow) -> str:
    total, first_ns, now_ns = row.window.blocked_ns(row.now_ns), row.connection.first_ns, row.now_ns
    if not total or first_ns is None or now_ns is None or now_ns <= first_ns:
        return ""
    return f"{span(total)} ({100 * total / (now_ns - first_ns):.0f} %)"


def _notes(each: ConnectionState, found: FlowStatus, now_ns: int | None) -> list[Line]:
    window, conn = each.window, f"  conn {each.number}"
    still = LineKind.PROBLEM if stands_still(each, now_ns, _STUCK_NS) else LineKind.PLAIN
    out = [
        Line(still if times.end_ns is None else LineKind.PLAIN, f"{conn} {_full(window, found, times, now_ns)}")
        for times in _longest(_intervals(window, found), now_ns)
    ]
    out += [Line(LineKind.PROBLEM, f"{conn} {_exceeded(window, excess)}") for excess in window.all_excesses[:_SHOWN]]
    hidden = len(_intervals(window, found)) - _SHOWN
    if hidden > 0:
        further = window.blocked.further
        later = f"; {further:,} later ones were not kept" if further else ""
        out.append(Line(LineKind.PLAIN, f"{conn} {hidden:,} shorter intervals are in -f ndjson{later}"))
    residue = leak(window)
    if residue is not None:
        out.append(Line(LineKind.PROBLEM if residue.certain else LineKind.HINT, f"{conn} {residue.in_words}"))
    if window.ignored:
        text = f"{conn} acknowledged {window.ignored:,} B while flow control was off, which do not count"
        out.append(Line(LineKind.PROBLEM, text))
    return out


def _longest(intervals: list[Interval], now_ns: int | None) -> list[Interval]:
    """Return the longest intervals, in the order of time."""
    longest = sorted(intervals, key=lambda times: between(times.start_ns, times.end_ns or now_ns) or 0)
    return sorted(longest[-_SHOWN:], key=lambda times: times.start_ns or 0)


def _full(window: Window, found: FlowStatus, times: Interval, now_ns: int | None) -> str:
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


def _intervals(window: Window, found: FlowStatus) -> list[Interval]:
    open_one = [Interval(found.since_ns, None, window.outstanding)] if found.state is FlowState.BLOCKED else []
    return [*window.blocked.kept, *open_one]


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


def _kinds(window: Window) -> list[Json]:
    """Return how much was sent by message."""
    counts = zip(range(FIRST, LAST + 1), window.counted.frames, window.counted.bytes, strict=True)
    return [
        {"name": find(opcode).name, "opcode": opcode, "frames": frames, "bytes": size}
        for opcode, frames, size in counts
        if frames
    ]


def _excess(found: Excess) -> Json:
    return _interval(*found[:3]) | {"messages": found.messages}


def _mismatch(found: Leak | None) -> Json | None:
    if found is None:
        return None
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


def _where_on(text: Callable[[FlowRow], str]) -> Callable[[FlowRow], str]:
    """Return a cell's text, which is empty without flow control, or where one direction was not captured."""
    return lambda row: "" if row.found.state is FlowState.OFF or not row.both else text(row)


def _where_both(get: Callable[[FlowRow], Any]) -> Callable[[FlowRow], Any]:
    """Return what gets a value where both directions were captured."""
    return lambda row: get(row) if row.both else None


def _buffer(row: FlowRow) -> str:
    return "none" if row.found.state is FlowState.OFF else number(row.window.size) or "?"


def _marks(window: Window) -> list[Json]:
    """Return what was outstanding when."""
    levels = zip(window.marks, _levels(window), strict=True)
    return [{"time": iso_time(mark.ts_ns), "outstanding": level} for mark, level in levels if mark.ts_ns is not None]


def _level(name: str, get: Callable[[Window], int]) -> Column[FlowRow]:
    """Return the column of a number of unacknowledged bytes."""
    text = _where_on(lambda row: _least(row.window, get(row.window)))
    return Column(f"{name}?", _where_both(lambda row: get(row.window)), name, text)


C = Column[FlowRow]
FLOW = ColumnSet[FlowRow](
    C("connection", lambda row: row.connection.number, "conn"),
    *of(lambda row: row.connection, "name?=setup.name"),
    C(
        "client",
        lambda row: client(row.connection),
        "client",
        meaning="what the client is called: its name, or its address",
    ),
    C("roles", lambda row: row.connection.roles.word),
    C("buffer?", lambda row: row.window.size, "buffer", _buffer),
    *of(lambda row: row.window, "buffer_asked?=asked complete"),
    C("account", lambda row: "exact" if row.window.complete else "relative"),
    C("state", lambda row: row.found.state.value, meaning="what flow control does"),
    C("evidence", lambda row: row.found.evidence.value),
    C("sent", lambda row: row.window.counted.sent, "sent", drop_rank=4),
    C("acked", lambda row: row.window.acked, "acked", drop_rank=3),
    C("acks", lambda row: row.window.acks, "acks", drop_rank=1),
    C("ignored?", lambda row: row.window.ignored or None),
    C("tcp_faults?", lambda row: [_fault(found) for found in tcp_faults(row.connection, row.now_ns)] or None),
    C("kinds", lambda row: _kinds(row.window)),
    _level("outstanding", lambda window: window.outstanding),
    _level("peak", lambda window: window.peak),
    C("overacked?", _where_both(lambda row: row.window.overacked if row.window.complete else None)),
    C("blocked?", _where_both(lambda row: row.found.state is FlowState.BLOCKED)),
    C(head="blocked", text=_where_on(_blocked), sort=lambda row: row.window.blocked_ns(row.connection.last_ns)),
    C("blocked_ms?", _where_both(lambda row: row.window.blocked_ns(row.now_ns) // 1_000_000)),
    C("intervals?", _where_both(lambda row: [_interval(*each) for each in _intervals(row.window, row.found)])),
    C("intervals_left?", _where_both(lambda row: row.window.blocked.further or None)),
    C("exceeded?", _where_both(lambda row: list(map(_excess, row.window.all_excesses)) or None)),
    C("mismatch?", _where_both(lambda row: _mismatch(leak(row.window)))),
    C("over_time?", _where_both(lambda row: _marks(row.window))),
    C(head="over time", text=lambda row: _drawn(row.window) if row.drawn else "", drop_rank=2),
    C(head="state", text=_state),
)
