"""Draw amounts over time as SVG: lines and areas that stretch, and marks that keep their form.

Every picture has the same width of 1,000 units, so that a script can have all of them show the same time by setting
one ``viewBox``. Colours are classes; nothing has a style of its own.
"""

import struct
import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from dcpdump.batch.gather import Array
from dcpdump.clock import clock_in_use
from dcpdump.report.html import Child, Markup, Value, element
from dcpdump.streams.silence import tcp_faults
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.window import Interval
from dcpdump.streams.wording import span
from dcpdump.text import iso_time

# -- the axis of time that all pictures share, and how times and amounts are written on them ----------

_SECOND = 1_000_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3600 * _SECOND, 86_400 * _SECOND
_STEPS = (
    *(10**power * factor for power in range(3, 9) for factor in (1, 2, 5)),
    *(seconds * _SECOND for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 5, 10, 30, 100, 365)),
)
_MOST = 8  #: ticks, at most
_LETTER = 0.011  #: width of a letter of a label, as a fraction of the picture


class Tick(NamedTuple):
    """A label of the axis, and its position from 0 to 1."""

    fraction: float
    label: str


class TimeAxis(NamedTuple):
    """The time span of pictures: the beginning, and the end of the last step."""

    first_ns: int
    last_ns: int

    @property
    def length(self) -> int:
        """Return its length; never 0."""
        return max(1, self.last_ns - self.first_ns)

    def fraction(self, ts_ns: int) -> float:
        """Return the position of a time, from 0 to 1."""
        return min(1.0, max(0.0, (ts_ns - self.first_ns) / self.length))

    def ticks(self) -> list[Tick]:
        """Return the beginning, some round times, and the end."""
        step = next((each for each in _STEPS if self.length / each <= _MOST), _STEPS[-1] * 10)
        ahead = clock_in_use().zone.offset_ns(self.first_ns)  # midnight is a round time in any zone
        first = -(-(self.first_ns + ahead) // step) * step - ahead
        round_ones = [Tick(self.fraction(ts), self.label(ts, step)) for ts in range(first, self.last_ns, step)]
        ends = [Tick(0.0, self.label(self.first_ns, step)), Tick(1.0, self.label(self.last_ns, step))]
        apart = _LETTER * 1.5 * len(ends[0].label)
        return [ends[0], *(each for each in round_ones if apart < each.fraction < 1 - apart), ends[1]]

    def label(self, ts_ns: int, step: int = _SECOND) -> str:
        """Return the label of a time: with the date if steps are days, with fractions if they are short."""
        iso = iso_time(clock_in_use().zone.shown(ts_ns))
        if "T" not in iso:
            return iso
        if self.length > _DAY:
            return f"{iso[5:10]} {iso[11:16]}"
        if self.length >= 10 * _SECOND:
            return iso[11:19]
        return iso[11:23] if step >= 1_000_000 else iso[11:26]

    def offsets(self) -> list[tuple[int, int]]:
        """Return the zone's offsets from UTC (ns) with their beginnings: the first, and each change."""
        offset = clock_in_use().zone.offset_ns
        found = [(self.first_ns, offset(self.first_ns))]
        for low in range(self.first_ns, self.last_ns, 30 * _DAY):
            high = min(self.last_ns, low + 30 * _DAY)
            ahead = offset(high)
            if ahead != found[-1][1]:
                found.append((low + bisect_left(range(low, high), True, key=lambda ts: offset(ts) == ahead), ahead))
        return found


# -- pictures -----------------------------------------------------------------------------------------

WIDTH = 1000
#: Marks nearer than this fraction of the width are joined.
_NEAR = 0.006
_LISTED = 12
#: Kinds of marks: what they are, and their shapes.
_MARKS = {
    "ended": ("stream ended", "M-2-6h4v12h-4z"),
    "rolled-back": ("rolled back", "M0-6l5 6l-5 6l-5-6z"),
    "refused": ("refused", "M-5-5h10v10h-10z"),
    "broken": ("rule broken", "M-3-5h6l3 5l-3 5h-6l-3-5z"),
    "noop": ("NOOP not answered", "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z"),
    "closed": ("connection closed", "M-5-5L5 5M5-5L-5 5"),
    "lost": ("bytes lost", "M-6-5h12l-6 10z"),
}


class DrawnMark(NamedTuple):
    """An event of a connection: its time, its kind, and its text."""

    ts_ns: int
    kind: str
    text: str
    href: str = ""


def legend(samples: Iterable[tuple[Markup, str]]) -> Markup:
    """Return samples with what they mean."""
    return element("p", [element("span", sample, f" {text}") for sample, text in samples], class_="legend")


def legend_of_marks(kinds: Collection[str]) -> Markup:
    """Return the marks of some kinds with what they are."""
    shown = {kind: text for kind, (text, _) in _MARKS.items() if kind in kinds}
    return legend((swatch(_shape(kind), class_="symbol", viewBox="-8 -8 16 16"), text) for kind, text in shown.items())


def _shape(kind: str) -> Markup:
    return element("path", d=_MARKS[kind][1], class_=f"mark {kind}")


def swatch(drawn: Markup, **attributes: Value) -> Markup:
    """Return a sample of a colour, for a legend."""
    return element("svg", drawn, **({"class_": "swatch", "aria_hidden": "true"} | attributes))


def picture(height: int, label: str, *children: Child, kind: str = "plot", map: str | None = None) -> Markup:
    """Return a picture that stretches: lines and areas of a height, with coordinates up to 1,000.

    ``kind``: its classes, of which a plot can be zoomed; ``map``: what the cells of a map are.
    """
    is_plot = kind.startswith("plot")
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {WIDTH} {height}",
        preserveAspectRatio="none",
        class_=kind,
        role="img",
        aria_label=label,
        tabindex=0 if is_plot else None,
        data_zoom=is_plot,
        data_map=map,
    )


def lane(head: Iterable[Child], *pictures: Child, kind: str = "", id: str | None = None) -> Markup:
    """Return pictures of one time span, with a head at their left. ``kind``: tall or high, where it is."""
    strip = element("div", *pictures, class_="strip")
    return element("div", element("div", head, class_="head"), strip, class_=f"lane {kind}".rstrip(), id=id)


def head(title: str, *notes: str) -> list[Markup]:
    """Return the head of a lane: its title, and notes below it."""
    return [element("b", title), *(element("span", note) for note in notes if note)]


def side_labels(labels: Iterable[tuple[str, str]]) -> Markup:
    """Return texts beside a picture, each at a height."""
    drawn = [_at(element("text", text, x="100%", y=4, text_anchor="end"), y=height) for height, text in labels]
    return element("svg", drawn, class_="rows", aria_hidden="true")


def _at(*children: Child, **attributes: Value) -> Markup:
    """Return what stands at a place of a picture, and keeps its form."""
    return element("svg", *children, **attributes, overflow="visible")


def area(values: Array, height: int, most: float, hue: str) -> list[Markup]:
    """Return an area under a line, a step for each value; heights are square roots of the largest."""
    line = _level_line(height - np.sqrt(values / most) * (height - 2)) if most else ""
    if not line:
        return []
    return [
        element("path", d=f"M0 {height}L{line}L{WIDTH} {height}z", class_=f"area {hue}"),
        element("path", d=f"M{line}", class_=f"line {hue}"),
    ]


def stairs(values: Array, height: int, most: float, hue: str) -> list[Markup]:
    """Return a line that is level during each step."""
    line = _level_line(height - values / most * (height - 4) - 1) if most else ""
    return [element("path", d=f"M{line}", class_=f"line {hue}")] if line else []


def _level_line(heights: Array) -> str:
    """Return the corners of a line that is level during each step, without redundant ones."""
    corners: list[str] = []
    last, count = "", len(heights)
    for at, height in enumerate(heights.tolist()):
        x, level = f"{WIDTH * at / count:.1f}", f"{height:.1f}"
        if level != last:
            corners += [f"{x} {last}"] * bool(last) + [f"{x} {level}"]
            last = level
    return "L".join([*corners, f"{WIDTH} {last}"])


def band(times: TimeAxis, first_ns: int, last_ns: int, height: int, kind: str, title: str) -> Markup:
    """Return a shaded time span."""
    begin, end = times.fraction(first_ns), times.fraction(last_ns)
    wide = WIDTH * max(end - begin, 0.001)
    shown = element("title", title)
    return element("rect", shown, x=WIDTH * begin, y=0, width=wide, height=height, class_=f"band {kind}")


def blocked_bands(times: TimeAxis, connection: ConnectionState, height: int) -> list[Markup]:
    """Return the times in which flow control blocked the producer, or an end did not read, shaded."""
    window = connection.window
    found = [(each, f"blocked for {span(each.lasting_ns)}") for each in window.blocked.kept]
    if window.full is not None and window.is_blocked:
        found.append((Interval(window.full.sent_ns, times.last_ns), "blocked up to the end"))
    for fault in tcp_faults(connection, times.last_ns):
        said = fault.fault.words(past=True)
        found += [(each, f"the {fault.end} {said.does}: {said.seen}") for each in fault.intervals.kept]
    return [
        band(times, each.start_ns, each.end_ns, height, "blocked", title)
        for each, title in found
        if each.start_ns is not None and each.end_ns is not None
    ]


def marks(times: TimeAxis, found: Iterable[DrawnMark]) -> Markup:
    """Return marks above a picture, which keep their form at any width; near ones of a kind are joined."""
    groups: dict[str, list[list[DrawnMark]]] = {}
    for mark in sorted(found):
        mine = groups.setdefault(mark.kind, [])
        if mine and times.fraction(mark.ts_ns) - times.fraction(mine[-1][0].ts_ns) < _NEAR:
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
    children: list[Child] = [element("title", title), _shape(first.kind)]
    if len(group) > 1:
        children.append(element("text", f"{len(group):,}", x=8, y=4, class_="count"))
    inner: Child = element("a", children, href=first.href) if first.href else children
    fraction = 100 * times.fraction(first.ts_ns)
    return _at(inner, x=f"{fraction:.2f}%", y="50%", data_at=f"{fraction / 100:.5f}")


def axis(times: TimeAxis) -> Markup:
    """Return the axis below pictures."""
    found = times.ticks()
    anchors = ["start", *["middle"] * (len(found) - 2), "end"]
    labels = [
        _at(element("text", tick.label, y=12, text_anchor=anchor), x=f"{100 * tick.fraction:.2f}%")
        for tick, anchor in zip(found, anchors, strict=True)
    ]
    return element("div", element("svg", labels, class_="axis", aria_hidden="true"), class_="lane")


# -- a small writer of PNG: pictures of 16 colours, each with its opacity -----------------------------

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE = 3  #: the colour type
#: Red, green, blue, opacity.
Colour = tuple[int, int, int, int]


def png(cells: Array, colours: Sequence[Colour]) -> bytes:
    """Return a picture of cells, each the number of one of 16 colours at most; the first row is at the top."""
    height, width = cells.shape
    padded = np.zeros((height, width + width % 2), np.uint8)
    padded[:, :width] = cells
    packed = padded[:, ::2] << 4 | padded[:, 1::2]
    rows = np.zeros((height, packed.shape[1] + 1), np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = packed
    return b"".join(
        (
            _SIGNATURE,
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 4, _PALETTE, 0, 0, 0)),
            _chunk(b"PLTE", bytes(part for colour in colours for part in colour[:3])),
            _chunk(b"tRNS", bytes(colour[3] for colour in colours)),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
