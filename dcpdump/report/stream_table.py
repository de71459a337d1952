"""The table of streams: those in trouble first, to be filtered and sorted."""

from dcpdump.diagnosis.trouble import Command, Judged
from dcpdump.report.context import Context, section
from dcpdump.report.html import Child, Markup, element
from dcpdump.streams.wording import client, clock, lag_text, seqno
from dcpdump.text import counted

MOST = 2_000
_HEADS = (
    ("conn", True),
    ("client", False),
    ("vb", True),
    ("sid", True),
    ("asked", False),
    ("from..to", False),
    ("last seqno", True),
    ("lag", True),
    ("messages", True),
    ("bytes", True),
    ("verdict", False),
)


def streams(context: Context, most: int) -> Markup | None:
    """Return the section; None where there are no streams."""
    judged = sorted(context.evidence.judged, key=lambda each: each[1].rank)
    if not judged:
        return None
    shown = judged[:most]
    with_ids = any(stream.stream_id for stream, _ in shown)
    heads = [_head(name, numeric) for name, numeric in _HEADS if with_ids or name != "sid"]
    rest = context.evidence.streams - len(shown)
    return section(
        "streams",
        "Streams",
        element(
            "p",
            element(
                "label",
                "Filter ",
                element("input", type="search", data_filter="stream-rows", aria_label="Filter streams"),
            ),
            " ",
            element("output", f"{counted(len(shown), 'stream')}", data_count=True),
            class_="filter",
        ),
        element(
            "div",
            element(
                "table",
                element("thead", element("tr", heads)),
                element("tbody", [_row(context, each, with_ids) for each in shown], id="stream-rows"),
                class_="sortable",
            ),
            class_="wide",
        ),
        element("p", f"{rest:,} more: ", element("code", context.line(Command("streams")))) if rest else None,
    )


def _head(name: str, numeric: bool) -> Markup:
    button = element("button", name, type="button")
    return element("th", button, scope="col", aria_sort="none", class_="num" if numeric else None)


def _row(context: Context, judged: Judged, with_ids: bool) -> Markup:
    stream, verdict = judged
    request, connection = stream.request, stream.connection
    number = context.dialogues.get(stream)
    said = element("a", verdict.text, href=f"#dialogue-{number}") if number is not None else verdict.text
    asked = f"{seqno(request.start_seqno)}..{seqno(request.end_seqno)}" if request is not None else "?"
    cells: list[tuple[Child, bool]] = [
        (str(connection.number), True),
        (client(connection), False),
        (str(stream.vbucket), True),
        *([(str(stream.stream_id or ""), True)] if with_ids else []),
        (clock(request.ts_ns) if request is not None and request.ts_ns is not None else "before", False),
        (asked, False),
        ("" if stream.seqnos.high is None else f"{stream.seqnos.high:,}", True),
        (lag_text(verdict.lag, context.evidence.now_ns), True),
        (f"{sum(stream.traffic.counts):,}", True),
        (f"{stream.traffic.size:,}", True),
        (said, False),
    ]
    return element(
        "tr",
        [element("td", cell, class_="num" if numeric else None) for cell, numeric in cells],
        class_="trouble" if verdict.trouble else None,
    )
