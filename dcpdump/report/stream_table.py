"""The table of streams: those in trouble first, to be filtered and sorted."""

from collections.abc import Sequence
from dataclasses import replace

from dcpdump.diagnosis.trouble import Command, Judged
from dcpdump.plural import counted
from dcpdump.render.column import Column
from dcpdump.render.row_keys import INT
from dcpdump.render.streams import STREAMS, StreamRow
from dcpdump.report.context import Context, section
from dcpdump.report.html import Markup, element

MOST = 2_000
_MESSAGES = Column[StreamRow](get=lambda row: sum(row.stream.counts), head="messages", type=INT)
_BYTES = replace(STREAMS["bytes"], text=None)  # 0 too
_COLUMNS = [*STREAMS.some("conn client vb sid asked from..to last-seqno lag"), _MESSAGES, _BYTES]


def streams(context: Context, most: int) -> Markup | None:
    """Return the section; None where there are no streams."""
    judged = sorted(context.evidence.judged, key=lambda each: each[1].rank)
    if not judged:
        return None
    shown = judged[:most]
    with_ids = any(stream.stream_id for stream, _ in shown)
    columns = [each for each in _COLUMNS if with_ids or each.name != "sid"]
    heads = [*(_head(each.head, _numeric(each)) for each in columns), _head("verdict", False)]
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
                element("tbody", [_row(context, each, columns) for each in shown], id="stream-rows"),
                class_="sortable",
            ),
            class_="wide",
        ),
        element("p", f"{rest:,} more: ", element("code", context.line(Command("streams")))) if rest else None,
    )


def _head(name: str, numeric: bool) -> Markup:
    button = element("button", name, type="button")
    return element("th", button, scope="col", aria_sort="none", class_="num" if numeric else None)


def _numeric(column: Column[StreamRow]) -> bool:
    return column.is_right or column.key == "connection"


def _row(context: Context, judged: Judged, columns: Sequence[Column[StreamRow]]) -> Markup:
    stream, verdict = judged
    row = StreamRow(stream, verdict, context.evidence.now_ns)
    number = context.dialogues.get(stream)
    said = element("a", verdict.text, href=f"#dialogue-{number}") if number is not None else verdict.text
    cells = [element("td", each.cell(row), class_="num" if _numeric(each) else None) for each in columns]
    return element("tr", [*cells, element("td", said)], class_="trouble" if verdict.trouble else None)
