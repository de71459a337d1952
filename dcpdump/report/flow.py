"""Flow control over time: what is outstanding against the buffer, and when the producer had to wait."""

from dcpdump.report.axis import size
from dcpdump.report.context import Context, head, hue, section
from dcpdump.report.draw import WIDTH, axis, band, blocked_bands, lane, picture, stairs
from dcpdump.report.html import Markup, element
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import span
from dcpdump.text import counted

_HEIGHT = 64


def flow(context: Context) -> Markup | None:
    """Return the section; None where no flow control was seen."""
    if context.times is None:
        return None
    lanes = [_lane(context, each) for each in context.lanes if each.number in context.gathered.levels.rows]
    if not lanes:
        return None
    return section(
        "flow",
        "Flow control",
        element("div", lanes, axis(context.times), class_="lanes"),
        element("p", f"Each point is the largest in {span(context.gathered.levels.axis.step_ns)}.", class_="caption"),
        lead="Bytes sent and not yet acknowledged. The dashed line is the buffer. Shaded: the producer had to wait.",
    )


def _lane(context: Context, each: ConnectionState) -> Markup:
    assert context.times is not None
    times, window, levels = context.times, each.window, context.gathered.levels
    values = levels.line(each.number)
    axis = levels.axis
    buffer = window.size or window.asked or 0
    most = max(int(values.max(initial=0)), buffer)
    first, last = times.place(axis.begins_ns(0)), times.place(axis.begins_ns(len(values)))
    drawn = stairs(values, _HEIGHT, most, hue(each))
    stretched = f"translate({WIDTH * first:.2f} 0) scale({max(last - first, 1e-6):.5f} 1)"
    limit = _HEIGHT - buffer / most * (_HEIGHT - 4) - 1 if most else 0
    mine = (gap.ts_ns for gap in context.gathered.gaps if gap.connection == each.number and gap.ts_ns)
    lost = min(mine, default=None)
    why = "unknown from here: bytes were lost"
    unknown = None if lost is None else band(times, lost, times.last_ns, _HEIGHT, "over", why)
    peak = int(values.max(initial=0))
    label = f"connection {each.number}: outstanding bytes against a buffer of {buffer:,}, at most {peak:,}"
    blocked = window.blocked_ns(context.evidence.now_ns)
    if blocked:
        label += f"; blocked {span(blocked)}"
    return lane(
        head(each, size(buffer), counted(window.acks, "ack"), "unknown after lost bytes" if lost is not None else ""),
        picture(
            _HEIGHT,
            label,
            blocked_bands(times, each, _HEIGHT),
            element("g", drawn, transform=stretched),
            element("path", d=f"M0 {limit:.1f}H{WIDTH}", class_="limit") if buffer else None,
            unknown,
        ),
        id=f"flow-{each.number}",
    )
