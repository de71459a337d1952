"""Make the section of latencies, by request, with the slowest responses."""

import numpy as np

from dcpdump.render.statistics import opcode_name
from dcpdump.report.context import Context, row, section, table
from dcpdump.report.draw import WIDTH, axis, lane, picture, side_labels
from dcpdump.report.gathered import DECADES, PER_DECADE
from dcpdump.report.html import Markup, element
from dcpdump.streams.wording import span

_HEIGHT = 180
_HUES = 5
#: How many of the slowest responses of each kind are listed.
SLOWEST = 3


def latency(context: Context) -> Markup | None:
    """Return the section; None where no answer was captured."""
    found, times = context.gathered.latencies, context.times
    if times is None or not found.grids:
        return None
    opcodes = sorted(found.grids)
    rows = [found.cells(opcode) for opcode in opcodes]
    levels = np.flatnonzero(sum(each.sum(axis=1) for each in rows))
    low, high = int(levels[0]) // PER_DECADE, -(-(int(levels[-1]) + 1) // PER_DECADE)
    first = times.place(found.axis.begins_ns(0))
    last = times.place(found.axis.begins_ns(found.axis.used))
    dots = [
        element("path", d=_dots(cells, low, high, first, last), class_=f"dots hue{at % _HUES}")
        for at, cells in enumerate(rows)
    ]
    names = [opcode_name(opcode) for opcode in opcodes]
    legend = [element("span", _swatch(at), f" {name}") for at, name in enumerate(names)]
    grid = [
        element("path", d=f"M0 {_y(power * PER_DECADE, low, high):.1f}H{WIDTH}", class_="grid")
        for power in range(low, high + 1)
    ]
    label = f"latencies of {', '.join(names)} over time"
    return section(
        "latency",
        "Latency",
        element("p", legend, class_="legend"),
        element(
            "div",
            lane(element("div", _scale(low, high), class_="head"), picture(_HEIGHT, label, grid, dots), high=True),
            axis(times),
            class_="lanes",
        ),
        table(("request", "answers", "median", "99 %", "slowest"), [_row(context, opcode) for opcode in opcodes]),
        lead="How long answers took, on a logarithmic scale. A dot stands for all that took about as long within "
        f"{span(found.axis.step_ns)}.",
    )


def _y(level: int, low: int, high: int) -> float:
    return _HEIGHT - 4 - (level - low * PER_DECADE) / max(1, (high - low) * PER_DECADE) * (_HEIGHT - 8)


def _dots(cells: np.ndarray, low: int, high: int, first: float, last: float) -> str:
    used = cells.shape[1]
    return "".join(
        f"M{WIDTH * (first + (last - first) * (step + 0.5) / used):.0f} {_y(level, low, high):.0f}h0"
        for level, step in zip(*(each.tolist() for each in np.nonzero(cells)), strict=True)
    )


def _scale(low: int, high: int) -> Markup:
    """Return the labels of the logarithmic scale."""
    return side_labels(
        (f"{100 * _y(power * PER_DECADE, low, high) / _HEIGHT:.1f}%", span(1000 * 10**power))
        for power in range(low, min(high, DECADES) + 1)
    )


def _swatch(at: int) -> Markup:
    dot = element("path", d="M7 7h0", class_=f"dots hue{at % _HUES}")
    return element("svg", dot, class_="swatch", aria_hidden="true")


def _row(context: Context, opcode: int) -> Markup:
    found = context.gathered.statistics.latencies.get(opcode)
    slowest = context.gathered.latencies.slowest[opcode][:SLOWEST]
    if found is None:
        cells = ["", "", ""]
    else:
        cells = [f"{found.count:,}", *(span(found.percentile(percent) * 1000) for percent in (50, 99))]
    links = [
        (context.frame(answer.frame, span(answer.latency_ns)), ", " if at + 1 < len(slowest) else "")
        for at, answer in enumerate(slowest)
    ]
    return row(opcode_name(opcode), *cells, links)
