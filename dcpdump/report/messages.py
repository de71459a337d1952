"""Messages: how many of each there are, and their bytes as bars."""

from dcpdump.render.statistics import kind_name
from dcpdump.report.axis import size
from dcpdump.report.context import Context, row, section, table
from dcpdump.report.html import Markup, element

_MOST = 40


def messages(context: Context) -> Markup | None:
    """Return the section; None where there are no frames."""
    kinds = sorted(context.gathered.statistics.kinds.items(), key=lambda each: -each[1].bytes)
    if not kinds:
        return None
    most = kinds[0][1].bytes
    rows = [
        row(
            kind_name(kind),
            f"{amount.frames:,}",
            size(amount.bytes),
            _bar(100 * amount.bytes / max(1, most)),
        )
        for kind, amount in kinds[:_MOST]
    ]
    return section("messages", "Messages", table(("message", "frames", "bytes", ""), rows))


def _bar(percent: float) -> Markup:
    bar = element("rect", width=f"{max(percent, 0.2):.1f}%", height="100%", class_="area hue0")
    return element("div", element("svg", bar, class_="bar", aria_hidden="true"))
