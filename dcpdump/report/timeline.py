"""Make the pictures over time: bytes and events of each connection, its flow control, and latencies."""

from collections.abc import Iterator

import numpy as np

from dcpdump.batch.statistics import Distribution
from dcpdump.check.rule import Severity
from dcpdump.clock import clock_in_use
from dcpdump.net.event import Gap
from dcpdump.render.column import Column
from dcpdump.render.statistics import LATENCIES, opcode_name
from dcpdump.render.text_columns import bytes_text
from dcpdump.report.context import HUES, Context, hue, section, table
from dcpdump.report.draw import (
    WIDTH,
    DrawnMark,
    TimeAxis,
    area,
    axis,
    band,
    blocked_bands,
    head,
    lane,
    legend,
    legend_of_marks,
    marks,
    picture,
    side_labels,
    stairs,
    swatch,
)
from dcpdump.report.gathered import DECADES, PER_DECADE
from dcpdump.report.html import Child, Markup, element
from dcpdump.spec.statuses import ROLLBACK, SUCCESS
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import client, clock, name_stream, reason, reason_name, seqno, span, status
from dcpdump.text import counted

_HEIGHT = 48
_NO_NOOP = ("noop-not-answered", "DCP511")  #: causes of troubles


def timeline(context: Context) -> Markup | None:
    """Return the section; None where nothing has a time."""
    times = context.times
    if times is None:
        return None
    shown, met = context.lanes, set[str]()
    rest = [each for each in context.evidence.connections if each not in shown]
    lanes = [_lane(context, times, each, met) for each in shown]
    if rest:
        lanes.append(_others(context, rest))
    return section(
        "timeline",
        "What happened when",
        legend_of_marks(met),
        element("div", lanes, axis(times), class_="lanes"),
        element(
            "p",
            f"{times.label(times.first_ns)} to {times.label(times.last_ns)} {clock_in_use().zone.name(times.last_ns)}. "
            f"Each point is the sum of {span(context.gathered.traffic.axis.step_ns)}; "
            "heights grow with the square root, so that a burst does not flatten the rest; a lane has its own scale.",
            class_="caption",
        ),
        lead="A lane for each connection: how much it carried (area), and what happened to its streams. "
        "Shaded: one end had to wait, or it was over.",
    )


def _lane(context: Context, times: TimeAxis, each: ConnectionState, met: set[str]) -> Markup:
    traffic = context.gathered.traffic
    values = traffic.bytes_of(each.number)
    most = int(values.max(initial=0))
    rate = most * 1e9 / traffic.axis.step_ns
    found = list(_events(context, each))
    met.update(mark.kind for mark in found)
    shades = blocked_bands(times, each, _HEIGHT)
    if each.end.ts_ns is not None:
        shades.append(band(times, each.end.ts_ns, times.last_ns, _HEIGHT, "over", f"ended at {clock(each.end.ts_ns)}"))
    sums = f"{bytes_text(float(values.sum()))}, at most {bytes_text(rate)}/s"
    label = f"connection {each.number}: {sums}; {counted(len(found), 'event')}"
    drawn = picture(_HEIGHT, label, shades, area(values, _HEIGHT, most, hue(each)))
    title = head(f"c{each.number}", client(each), f"peak {bytes_text(rate)}/s")
    return lane(title, drawn, marks(times, found), id=f"timeline-{each.number}")


def _others(context: Context, rest: list[ConnectionState]) -> Markup:
    """Return one picture for all connections without their own."""
    traffic = context.gathered.traffic
    values = traffic.added_up(each.number for each in rest)
    most = int(values.max(initial=0))
    label = f"{counted(len(rest), 'connection')} more: {bytes_text(float(values.sum()))}"
    drawn = picture(_HEIGHT, label, area(values, _HEIGHT, most, "rest"))
    return lane(head(f"{len(rest):,} more", "added up"), drawn)


def _events(context: Context, each: ConnectionState) -> Iterator[DrawnMark]:
    """Yield the events of a connection."""
    for stream in each.streams:
        where = name_stream(stream)
        end = stream.end
        if end is not None and end.ts_ns is not None:
            why = reason_name(end.status) or reason(end.status)
            text = f"{clock(end.ts_ns)} {where} ended: {why}"
            yield DrawnMark(end.ts_ns, "ended", text, _href(context, end.frame))
        for request in stream.requests:
            if request.answered_ns is None or request.status in (None, SUCCESS):
                continue
            if request.status == ROLLBACK:
                kind, text = "rolled-back", f"rolled back to {seqno(request.rollback_seqno)}"
            else:
                kind, text = "refused", f"refused: {status(request.status)}"
            when = request.answered_ns
            text += f", and {request.repeats:,} more later" if request.repeats else ""
            yield DrawnMark(when, kind, f"{clock(when)} {where} {text}", _href(context, request.answer_frame))
    silent = (trouble.connections for trouble in context.found.troubles if trouble.cause in _NO_NOOP)
    if each.noops.open_ns is not None and any(each.number in numbers for numbers in silent):
        yield DrawnMark(each.noops.open_ns, "noop", f"{clock(each.noops.open_ns)} a NOOP that was not answered")
    if each.end.ts_ns is not None:
        yield DrawnMark(each.end.ts_ns, "closed", f"{clock(each.end.ts_ns)} connection ended: {each.end.reason}")
    for ts_ns, gap in _gaps(context, each):
        lost = "an unknown number of bytes" if gap.length is None else counted(gap.length, "byte")
        yield DrawnMark(ts_ns, "lost", f"{clock(ts_ns)} {lost} lost ({gap.reason})", "#losses")
    for finding, _ in context.evidence.findings:
        if finding.connection == each.number and finding.severity is Severity.VIOLATION and finding.ts_ns is not None:
            text = f"{clock(finding.ts_ns)} {finding.rule.code} {finding.rule.title}"
            yield DrawnMark(finding.ts_ns, "broken", text, f"#rule-{finding.rule.code}")


def _gaps(context: Context, each: ConnectionState) -> list[tuple[int, Gap]]:
    """Return the gaps of a connection, each with its time."""
    mine = (gap for direction, _, gap in context.gathered.gaps if direction.connection == each.number)
    return [(gap.seen.ts_ns, gap) for gap in mine if gap.seen.ts_ns is not None]


def _href(context: Context, number: int | None) -> str:
    return f"#frame-{number}" if number in context.records else ""


# -- flow control over time ---------------------------------------------------------------------------
# Outstanding bytes against the buffer, and the times when the producer had to wait.

_FLOW_HEIGHT = 64


def flow(context: Context) -> Markup | None:
    """Return the section; None where no flow control was seen."""
    times, rows = context.times, context.gathered.levels.rows
    if times is None:
        return None
    lanes = [_flow_lane(context, times, each) for each in context.lanes if each.number in rows]
    if not lanes:
        return None
    return section(
        "flow",
        "Flow control",
        element("div", lanes, axis(times), class_="lanes"),
        element("p", f"Each point is the largest in {span(context.gathered.traffic.axis.step_ns)}.", class_="caption"),
        lead="Bytes sent and not yet acknowledged. The dashed line is the buffer. Shaded: the producer had to wait.",
    )


def _flow_lane(context: Context, times: TimeAxis, each: ConnectionState) -> Markup:
    window = each.window
    values = context.gathered.levels.line(each.number)
    buffer = window.size or window.asked or 0
    peak = int(values.max(initial=0))
    most = max(peak, buffer)
    limit = _FLOW_HEIGHT - buffer / most * (_FLOW_HEIGHT - 4) - 1 if most else 0
    lost = min((ts_ns for ts_ns, _ in _gaps(context, each)), default=None)
    doubt = "" if lost is None else "unknown after lost bytes"
    unknown = None if lost is None else band(times, lost, times.last_ns, _FLOW_HEIGHT, "over", doubt)
    label = f"connection {each.number}: outstanding bytes against a buffer of {buffer:,}, at most {peak:,}"
    if blocked := window.blocked_ns(context.evidence.now_ns):
        label += f"; blocked {span(blocked)}"
    return lane(
        head(f"c{each.number}", client(each), bytes_text(buffer), counted(window.acks, "ack"), doubt),
        picture(
            _FLOW_HEIGHT,
            label,
            blocked_bands(times, each, _FLOW_HEIGHT),
            stairs(values, _FLOW_HEIGHT, most, hue(each)),
            element("path", d=f"M0 {limit:.1f}H{WIDTH}", class_="limit") if buffer else None,
            unknown,
        ),
        id=f"flow-{each.number}",
    )


# -- latencies, by request ------------------------------------------------------------------------------

_LATENCY_HEIGHT = 180
#: How many of the slowest responses of each kind are listed.
SLOWEST = 3
_LATENCIES = (*LATENCIES.some("request count p50 p90 p99 max"), Column[tuple[int, Distribution]](head="slowest"))


def latency(context: Context) -> Markup | None:
    """Return the section; None where no answer was captured."""
    found, times = context.gathered.latencies, context.times
    if times is None or not found.grids:
        return None
    opcodes = sorted(found.grids)
    rows = [found.cells(opcode) for opcode in opcodes]
    levels = np.flatnonzero(sum(each.sum(axis=1) for each in rows))
    low, high = int(levels[0]) // PER_DECADE, -(-(int(levels[-1]) + 1) // PER_DECADE)
    dots = [element("path", d=_dots(cells, low, high), class_=f"dots hue{at % HUES}") for at, cells in enumerate(rows)]
    names = [opcode_name(opcode) for opcode in opcodes]
    samples = (swatch(element("path", d="M7 7h0", class_=f"dots hue{at % HUES}")) for at in range(len(names)))
    grid = [
        element("path", d=f"M0 {_y(power * PER_DECADE, low, high):.1f}H{WIDTH}", class_="grid")
        for power in range(low, high + 1)
    ]
    label = f"latencies of {', '.join(names)} over time"
    return section(
        "latency",
        "Latency",
        legend(zip(samples, names, strict=True)),
        element(
            "div",
            lane([_scale(low, high)], picture(_LATENCY_HEIGHT, label, grid, dots), kind="high"),
            axis(times),
            class_="lanes",
        ),
        table(
            _LATENCIES,
            [(opcode, context.gathered.statistics.latencies[opcode]) for opcode in opcodes],
            {"slowest": lambda row: _slowest(context, row[0])},
        ),
        lead="How long answers took, on a logarithmic scale. A dot stands for all that took about as long within "
        f"{span(context.gathered.traffic.axis.step_ns)}. The numbers of the table are microseconds.",
    )


def _y(level: int, low: int, high: int) -> float:
    return _LATENCY_HEIGHT - 4 - (level - low * PER_DECADE) / max(1, (high - low) * PER_DECADE) * (_LATENCY_HEIGHT - 8)


def _dots(cells: np.ndarray, low: int, high: int) -> str:
    return "".join(
        f"M{WIDTH * (step + 0.5) / cells.shape[1]:.0f} {_y(level, low, high):.0f}h0"
        for level, step in zip(*(each.tolist() for each in np.nonzero(cells)), strict=True)
    )


def _scale(low: int, high: int) -> Markup:
    """Return the labels of the logarithmic scale."""
    return side_labels(
        (f"{100 * _y(power * PER_DECADE, low, high) / _LATENCY_HEIGHT:.1f}%", span(1000 * 10**power))
        for power in range(low, min(high, DECADES) + 1)
    )


def _slowest(context: Context, opcode: int) -> Child:
    """Return links to the slowest responses."""
    slowest = context.gathered.latencies.slowest[opcode][:SLOWEST]
    return [(", " * (at > 0), context.frame(each.frame, span(each.latency_ns))) for at, each in enumerate(slowest)]
