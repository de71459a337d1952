"""Flow control as text for people, and as objects: a window for each connection, and when it was full."""

from collections.abc import Iterator, Sequence

from dcpdump.record import Json, iso_time
from dcpdump.render.columns import aligned, number, spark
from dcpdump.render.lines import Kind, Line
from dcpdump.render.streams import client
from dcpdump.spec import find
from dcpdump.streams.leak import Leak, leak
from dcpdump.streams.spoken import clock, span
from dcpdump.streams.state import Connection
from dcpdump.streams.window import COUNTED, FIRST, LAST, Window

_HEADS = ("conn", "client", "buffer", "sent", "acked", "acks", "outstanding", "peak", "blocked", "over time", "state")
_RIGHT = ("buffer", "sent", "acked", "acks", "outstanding", "peak")
_BARS = 24
#: Of intervals and kinds, people are shown the largest.
_SHOWN = 20


def lines(connections: Sequence[Connection], now_ns: int | None, *, drawn: bool = False) -> list[Line]:
    """It writes a table of windows; below, for each, when it was blocked, and what does not add up."""
    rows, notes = [], []
    for each in connections:
        window = each.window
        if not window.sent and not window.acks and window.asked is None:
            continue
        known = window.complete and not _none(window)
        rows.append(
            (
                str(each.number),
                client(each),
                "none" if window.complete and _none(window) else number(window.size) or "?",
                number(window.sent),
                number(window.acked),
                number(window.acks),
                number(window.outstanding) if known else "",
                number(window.peak) if known else "",
                _blocked(each, now_ns) if known else "",
                _drawn(window) if drawn else "",
                _state(window),
            )
        )
        notes += _notes(each, now_ns) if known else []
    return [*aligned(_HEADS, rows, _RIGHT), *notes]


def objects(connections: Sequence[Connection], now_ns: int | None) -> Iterator[Json]:
    """It gives windows as objects."""
    for each in connections:
        window = each.window
        found = leak(window)
        out: Json = {
            "connection": each.number,
            "name": each.name,
            "client": client(each),
            "roles": each.roles.word,
            "buffer": window.size,
            "buffer_asked": window.asked,
            "complete": window.complete,
            "sent": window.sent,
            "acked": window.acked,
            "acks": window.acks,
            "kinds": [_kind(window, opcode) for opcode in _opcodes(window)],
        }
        if window.complete:
            out |= {
                "outstanding": window.outstanding,
                "peak": window.peak,
                "overacked": window.overacked,
                "blocked": window.is_blocked,
                "blocked_ms": window.blocked_ns(now_ns) // 1_000_000,
                "intervals": [_interval(*times) for times in _intervals(window)],
                "mismatch": None if found is None else _mismatch(found),
                "over_time": [
                    {"time": iso_time(mark.ts_ns), "outstanding": mark.outstanding}
                    for mark in window.marks
                    if mark.ts_ns is not None
                ],
            }
        yield {name: value for name, value in out.items() if value is not None}


def _none(window: Window) -> bool:
    return window.off or (window.size is None and window.asked is None)


def _state(window: Window) -> str:
    if not window.complete:
        return "unknown: the beginning was not witnessed, or bytes were lost"
    if _none(window):
        return "no flow control"
    if window.size is None:
        return "not accepted, or no answer witnessed"
    return "BLOCKED" if window.is_blocked else "open"


def _blocked(each: Connection, now_ns: int | None) -> str:
    total = each.window.blocked_ns(now_ns)
    if not total or each.first_ns is None or now_ns is None or now_ns <= each.first_ns:
        return ""
    return f"{span(total)} ({100 * total / (now_ns - each.first_ns):.0f} %)"


def _notes(each: Connection, now_ns: int | None) -> list[Line]:
    window, out = each.window, []
    intervals = _intervals(window)
    longest = sorted(intervals, key=lambda times: _between(times[0], times[1] or now_ns) or 0)
    for start, end, outstanding in sorted(longest[-_SHOWN:], key=lambda times: times[0] or 0):
        until = f"{clock(end)} ({span(_between(start, end))})" if end is not None else "the end"
        until += f" ({span(_between(start, now_ns))})" if end is None else ""
        full = f"outstanding {outstanding:,} of {number(window.size)}"
        text = f"  conn {each.number} blocked {clock(start)} to {until}, {full}"
        out.append(Line(Kind.PROBLEM, text))
    if len(intervals) > _SHOWN:
        out.append(
            Line(Kind.PLAIN, f"  conn {each.number} {len(intervals) - _SHOWN:,} shorter intervals are in -f ndjson")
        )
    found = leak(window)
    if found is not None:
        how = f"{found.bytes:,} B less" if found.bytes > 0 else f"{-found.bytes:,} B more"
        text = f"  conn {each.number} acknowledged {how} than sent: {found.text or 'no kind of message explains it'}"
        out.append(Line(Kind.PROBLEM, text))
    elif window.overacked:
        text = f"  conn {each.number} acknowledged {window.overacked:,} B before they were sent"
        out.append(Line(Kind.PROBLEM, text))
    return out


def _intervals(window: Window) -> list[tuple[int | None, int | None, int]]:
    open_one = [(window.blocked_since, None, window.outstanding)] if window.is_blocked else []
    return [*((each.start_ns, each.end_ns, each.outstanding) for each in window.blocked), *open_one]


def _interval(start: int | None, end: int | None, outstanding: int) -> Json:
    out: Json = {"from": None if start is None else iso_time(start), "to": None if end is None else iso_time(end)}
    return {name: value for name, value in out.items() if value is not None} | {"outstanding": outstanding}


def _opcodes(window: Window) -> list[int]:
    return [code for code in range(FIRST, LAST + 1) if window.frames[code - FIRST] and COUNTED[code]]


def _kind(window: Window, opcode: int) -> Json:
    frames, size = window.frames[opcode - FIRST], window.bytes[opcode - FIRST]
    return {"name": find(opcode).name, "opcode": opcode, "frames": frames, "bytes": size}


def _mismatch(found: Leak) -> Json:
    out: Json = {"bytes": found.bytes, "text": found.text or "no kind of message explains it"}
    return out | ({"kind": found.kind, "frames": found.frames} if found.kind else {})


def _drawn(window: Window) -> str:
    marks = window.marks
    if len(marks) < 2:
        return ""
    step = max(1, len(marks) // _BARS)
    return spark([max(0, *(mark.outstanding for mark in marks[at : at + step])) for at in range(0, len(marks), step)])


def _between(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else last - first
