"""Write flow control as text for people, and as objects: a window for each connection, and when it was full."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from dcpdump.render.column import Column, ColumnSet, of
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, number, spark
from dcpdump.spec import find
from dcpdump.streams.causes import CARVED, ONE_DIRECTION
from dcpdump.streams.flow import UNEXPLAINED, FlowEvidence, FlowState, FlowStatus, Leak, flow_status, leak, stands_still
from dcpdump.streams.frame_event import between
from dcpdump.streams.silence import TcpFaults, tcp_faults
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.window import FIRST, LAST, Interval, Window
from dcpdump.streams.wording import client, clock, span, times
from dcpdump.text import counted

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
        why = "bytes were lost" if each.setup.opened_by is not None else "the capture starts after DCP_OPEN"
        why = CARVED if each.carved else why if each.has_both_sides else ONE_DIRECTION
        return f"unknown: {why}"
    if inferred and found.state is FlowState.OFF:
        return "no flow control (inferred: it was not requested in what was captured)"
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
    start, end, outstanding, _ = times
    if end is not None:
        until = f"{clock(end)} ({span(between(start, end))})"
    else:
        until = f"the end ({span(between(start, now_ns))})"
    full = f"outstanding {_least(window, outstanding)} of {number(window.size) or 'a size that was not captured'}"
    inferred = end is None and found.evidence is FlowEvidence.INFERRED
    return f"{'seems blocked' if inferred else 'blocked'} {clock(start)} to {until}, {full}"


def _exceeded(window: Window, excess: Interval) -> str:
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


def _levels(window: Window) -> list[int]:
    """Return the outstanding bytes at each mark; where only differences are known, above the lowest."""
    low = 0 if window.complete else min((mark.outstanding for mark in window.marks), default=0)
    return [mark.outstanding - low for mark in window.marks]


def _kinds(window: Window) -> list[tuple[int, int, int]]:
    """Return how much was sent by message."""
    counts = zip(range(FIRST, LAST + 1), window.counted.frames, window.counted.bytes, strict=True)
    return [each for each in counts if each[1]]


def _fault_intervals(found: TcpFaults) -> list[Interval]:
    *over, last = found.intervals.kept
    return [*over, last if found.since_ns is None else last._replace(end_ns=None)]


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


def _marks(window: Window) -> list[tuple[int, int]]:
    """Return what was outstanding when."""
    levels = zip(window.marks, _levels(window), strict=True)
    return [(mark.ts_ns, level) for mark, level in levels if mark.ts_ns is not None]


def _level(name: str, get: Callable[[Window], int]) -> Column[FlowRow]:
    """Return the column of a number of unacknowledged bytes."""
    text = _where_on(lambda row: _least(row.window, get(row.window)))
    return Column(f"{name}?", _where_both(lambda row: get(row.window)), name, text)


_TIMES = of("from?=start_ns to?=end_ns")
_INTERVAL = ColumnSet[Interval](*_TIMES, *of("outstanding"))
_EXCESS = ColumnSet[Interval](*_TIMES, *of("outstanding messages"))
_FAULT = ColumnSet[TcpFaults](
    *of("fault=fault.value"),
    Column("role", lambda found: found.end, meaning="which end: producer, consumer; else server, client, one end"),
    Column("fault_ms", lambda found: found.intervals.total_ns // 1_000_000),
    Column("intervals", _fault_intervals, columns=ColumnSet(*_TIMES), meaning="when it did"),
    *of("intervals_left??=intervals.further"),
)
#: The opcode of a message, and how many frames and bytes there are of it.
_KIND = ColumnSet[tuple[int, int, int]](
    Column("name", lambda row: find(row[0]).name, meaning="the name of the message"),
    *of("opcode=0 frames=1 bytes=2"),
)
_MARK = ColumnSet[tuple[int, int]](*of("time=0 outstanding=1"))
_MISMATCH = ColumnSet[Leak](
    *of("bytes"),
    Column("text", lambda found: found.text or UNEXPLAINED),
    *of("explained"),
    *of("kind??", meaning="the names of the messages, or what of them"),
    Column("frames?", lambda found: found.frames if found.kind else None),
    *of("time?=by_ns"),
    Column("fills_ms?", lambda found: None if found.fills_ns is None else found.fills_ns // 1_000_000),
)

C = Column[FlowRow]
FLOW = ColumnSet[FlowRow](
    *of("connection=number:conn name?=setup.name", "connection"),
    C(
        "client",
        lambda row: client(row.connection),
        "client",
        meaning="what the client is called: its name, or its address",
    ),
    *of("roles=connection.roles.word"),
    C("buffer?", lambda row: row.window.size, "buffer", _buffer),
    *of("buffer_asked?=asked complete", "window"),
    C("account", lambda row: "exact" if row.window.complete else "relative"),
    *of("state=found.state.value", meaning="what flow control does"),
    *of("evidence=found.evidence.value"),
    *of("sent=counted.sent:sent", "window", drop_rank=4),
    *of("acked:acked", "window", drop_rank=3),
    *of("acks:acks", "window", drop_rank=1),
    *of("ignored??", "window"),
    C("tcp_faults?", lambda row: list(tcp_faults(row.connection, row.now_ns)) or None, columns=_FAULT),
    C("kinds", lambda row: _kinds(row.window), columns=_KIND),
    _level("outstanding", lambda window: window.outstanding),
    _level("peak", lambda window: window.peak),
    C("overacked?", _where_both(lambda row: row.window.overacked if row.window.complete else None)),
    C("blocked?", _where_both(lambda row: row.found.state is FlowState.BLOCKED)),
    C(head="blocked", text=_where_on(_blocked), sort=lambda row: row.window.blocked_ns(row.connection.last_ns)),
    C("blocked_ms?", _where_both(lambda row: row.window.blocked_ns(row.now_ns) // 1_000_000)),
    C("intervals?", _where_both(lambda row: _intervals(row.window, row.found)), columns=_INTERVAL),
    C("intervals_left?", _where_both(lambda row: row.window.blocked.further or None)),
    C("exceeded?", _where_both(lambda row: list(row.window.all_excesses) or None), columns=_EXCESS),
    C("mismatch?", _where_both(lambda row: leak(row.window)), columns=_MISMATCH),
    C("over_time?", _where_both(lambda row: _marks(row.window)), columns=_MARK),
    C(head="over time", text=lambda row: _drawn(row.window) if row.drawn else "", drop_rank=2),
    C(head="state", text=_state),
)
