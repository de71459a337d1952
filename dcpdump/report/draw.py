"""Pictures of amounts over time, as SVG: lines and areas that stretch, and marks that keep their form.

Every picture has the same width of 1,000 units, so that a script can have all of them show the same time by setting
one ``viewBox``. Colours are classes; nothing has a style of its own.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dcpdump.batch.gather import Array
from dcpdump.report.axis import TimeAxis
from dcpdump.report.html import Child, Markup, Value, element
from dcpdump.streams.silence import tcp_faults
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import span

WIDTH = 1000
#: Marks nearer than this, of the width, are one.
_NEAR = 0.006
_LISTED = 12
_SHAPES = {
    "ended": "M-2-6h4v12h-4z",
    "rolled-back": "M0-6l5 6l-5 6l-5-6z",
    "refused": "M-5-5h10v10h-10z",
    "broken": "M-3-5h6l3 5l-3 5h-6l-3-5z",
    "noop": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "closed": "M-5-5L5 5M5-5L-5 5",
    "lost": "M-6-5h12l-6 10z",
}


class DrawnMark(NamedTuple):
    """Something that happened: when, what, and in words."""

    ts_ns: int
    kind: str
    text: str
    href: str = ""


def symbol(kind: str) -> Markup:
    """Return the symbol of a kind of mark, for a legend."""
    drawn = element("path", d=_SHAPES[kind], class_=f"mark {kind}")
    return element("svg", drawn, class_="symbol", viewBox="-8 -8 16 16", aria_hidden="true")


def picture(height: int, label: str, *children: Child) -> Markup:
    """Return what stretches: lines and areas of a height, whose coordinates run to 1,000."""
    box: dict[str, Value] = {"viewBox": f"0 0 {WIDTH} {height}", "preserveAspectRatio": "none", "class_": "plot"}
    return element("svg", *children, **box, role="img", aria_label=label, tabindex=0, data_zoom=True)


def lane(head: Child, *pictures: Child, tall: bool = False, high: bool = False, id: str | None = None) -> Markup:
    """Return pictures of one time with a head at their left."""
    strip = element("div", *pictures, class_="strip high" if high else "strip")
    return element("div", head, strip, class_="lane tall" if tall else "lane", id=id)


def side_labels(labels: Iterable[tuple[str, str]]) -> Markup:
    """Return texts beside a picture, each at a height."""
    drawn = [
        element("svg", element("text", text, x="100%", y=4, text_anchor="end"), y=height, overflow="visible")
        for height, text in labels
    ]
    return element("svg", drawn, class_="rows", aria_hidden="true")


def area(values: Array, height: int, most: float, hue: str) -> list[Markup]:
    """Return an area under a line, a step for each value; heights are square roots of the largest."""
    if not most:
        return []
    count = len(values)
    steps = [
        f"{WIDTH * at / count:.1f} {height - (value / most) ** 0.5 * (height - 2):.1f}"
        for at, value in enumerate(values.tolist())
    ]
    line = "L".join(_corners(steps, count))
    return [
        element("path", d=f"M0 {height}L{line}L{WIDTH} {height}z", class_=f"area {hue}"),
        element("path", d=f"M{line}", class_=f"line {hue}"),
    ]


def _corners(steps: Sequence[str], count: int) -> list[str]:
    """Return the corners of a line that stays level for the time of a step, without those that change nothing."""
    out: list[str] = []
    last = ""
    for at, step in enumerate(steps):
        _, _, level = step.partition(" ")
        if level != last:
            if last:
                out.append(f"{WIDTH * at / count:.1f} {last}")
            out.append(step)
            last = level
    return [*out, f"{WIDTH} {last}"]


def stairs(values: Array, height: int, most: float, hue: str) -> list[Markup]:
    """Return a line that stays level for the time of a step."""
    if not most:
        return []
    count = len(values)
    levels = [
        f"{WIDTH * at / count:.1f} {height - value / most * (height - 4) - 1:.1f}"
        for at, value in enumerate(values.tolist())
    ]
    return [element("path", d="M" + "L".join(_corners(levels, count)), class_=f"line {hue}")]


def band(times: TimeAxis, first_ns: int, last_ns: int, height: int, kind: str, title: str) -> Markup:
    """Return a time that is shaded."""
    begin, end = times.place(first_ns), times.place(last_ns)
    wide = WIDTH * max(end - begin, 0.001)
    shown = element("title", title)
    return element("rect", shown, x=WIDTH * begin, y=0, width=wide, height=height, class_=f"band {kind}")


def blocked_bands(times: TimeAxis, connection: ConnectionState, height: int) -> list[Markup]:
    """Return the times in which flow control blocked the producer, or an end did not read, shaded."""
    window = connection.window
    found = [
        band(times, each.start_ns, each.end_ns, height, "blocked", f"blocked for {span(each.end_ns - each.start_ns)}")
        for each in window.blocked.kept
        if each.start_ns is not None and each.end_ns is not None
    ]
    since = window.blocked_since
    if window.is_blocked and not window.is_exceeded and since is not None:
        found.append(band(times, since, times.last_ns, height, "blocked", "blocked up to the end"))
    for fault in tcp_faults(connection, times.last_ns):
        said = fault.fault.words(past=True)
        title = f"the {fault.end} {said.does}: {said.seen}"
        for each in fault.intervals.kept:
            if each.start_ns is not None and each.end_ns is not None:
                found.append(band(times, each.start_ns, each.end_ns, height, "blocked", title))
    return found


def marks(times: TimeAxis, found: Iterable[DrawnMark]) -> Markup:
    """Return marks above a picture, which keep their form however wide it is; near ones of a kind are one."""
    groups: dict[str, list[list[DrawnMark]]] = {}
    for mark in sorted(found):
        mine = groups.setdefault(mark.kind, [])
        if mine and times.place(mark.ts_ns) - times.place(mine[-1][0].ts_ns) < _NEAR:
            mine[-1].append(mark)
        else:
            mine.append([mark])
    drawn = [_mark(times, group) for groups_of_kind in groups.values() for group in groups_of_kind]
    return element("svg", drawn, class_="marks", aria_hidden="true")


def _mark(times: TimeAxis, group: Sequence[DrawnMark]) -> Markup:
    first = group[0]
    lines = [mark.text for mark in group[:_LISTED]]
    if len(group) > _LISTED:
        lines.append(f"… {len(group) - _LISTED:,} more")
    title = [(Markup("\n") if at else None, line) for at, line in enumerate(lines)]
    shape = element("path", d=_SHAPES[first.kind], class_=f"mark {first.kind}")
    children: list[Child] = [element("title", title), shape]
    if len(group) > 1:
        children.append(element("text", f"{len(group):,}", x=8, y=4, class_="count"))
    inner: Child = element("a", children, href=first.href) if first.href else children
    place = 100 * times.place(first.ts_ns)
    return element("svg", inner, x=f"{place:.2f}%", y="50%", overflow="visible", data_at=f"{place / 100:.5f}")


def axis(times: TimeAxis) -> Markup:
    """Return the axis below pictures."""
    found = times.ticks()
    anchors = ["start", *["middle"] * (len(found) - 2), "end"]
    labels = [
        element(
            "svg",
            element("text", tick.label, y=12, text_anchor=anchor),
            x=f"{100 * tick.place:.2f}%",
            overflow="visible",
        )
        for tick, anchor in zip(found, anchors, strict=True)
    ]
    return element("div", element("svg", labels, class_="axis", aria_hidden="true"), class_="lane")
