"""Make the tables of a page: streams, findings, messages, losses."""

from collections.abc import Sequence
from dataclasses import replace

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Rule, Severity
from dcpdump.diagnosis.trouble import Command, Judged
from dcpdump.dissect import PAYLOAD_WORDS, payload
from dcpdump.render.column import INT, Column
from dcpdump.render.statistics import kind_name
from dcpdump.render.streams import STREAMS, StreamRow
from dcpdump.report.context import Context, row, section, table
from dcpdump.report.draw import size
from dcpdump.report.gathered import LostBytes
from dcpdump.report.html import Markup, element
from dcpdump.streams.wording import clock
from dcpdump.text import counted

# -- the table of streams: those in trouble first, to be filtered and sorted --------------------------

MOST_STREAMS = 2_000
_MESSAGES = Column[StreamRow](get=lambda row: sum(row.stream.traffic.counts), head="messages", type=INT)
_BYTES = replace(STREAMS["bytes"], text=None)  # 0 too
_STREAM_COLUMNS = [*STREAMS.some("conn client vb sid asked from..to last-seqno lag"), _MESSAGES, _BYTES]


def streams(context: Context, most: int) -> Markup | None:
    """Return the section; None where there are no streams."""
    judged = sorted(context.evidence.judged, key=lambda each: each[1].rank)
    if not judged:
        return None
    shown = judged[:most]
    with_ids = any(stream.stream_id for stream, _ in shown)
    columns = [each for each in _STREAM_COLUMNS if with_ids or each.name != "sid"]
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
                element("tbody", [_stream_row(context, each, columns) for each in shown], id="stream-rows"),
                class_="sortable",
            ),
            class_="wide",
        ),
        context.more(rest, Command("streams")),
    )


def _head(name: str, numeric: bool) -> Markup:
    button = element("button", name, type="button")
    return element("th", button, scope="col", aria_sort="none", class_="num" if numeric else None)


def _numeric(column: Column[StreamRow]) -> bool:
    return column.is_right or column.key == "connection"


def _stream_row(context: Context, judged: Judged, columns: Sequence[Column[StreamRow]]) -> Markup:
    stream, verdict = judged
    row = StreamRow(stream, verdict, context.evidence.now_ns)
    number = context.dialogues.get(stream)
    said = element("a", verdict.text, href=f"#dialogue-{number}") if number is not None else verdict.text
    cells = [element("td", each.cell(row), class_="num" if _numeric(each) else None) for each in columns]
    return element("tr", [*cells, element("td", said)], class_="trouble" if verdict.trouble else None)


# -- findings, by rule, worst first, each with its frame ----------------------------------------------

_MOST_FINDINGS = 30
_ORDER = (Severity.VIOLATION, Severity.SUSPICIOUS, Severity.INFO, Severity.UNKNOWN)


def findings(context: Context) -> Markup | None:
    """Return the section; None where there are none."""
    by_rule: dict[Rule, list[tuple[Finding, int]]] = {}
    order = sorted(context.evidence.findings, key=lambda each: _ORDER.index(each[0].severity))
    for finding, more in order:
        by_rule.setdefault(finding.rule, []).append((finding, more))
    if not by_rule:
        return None
    return section(
        "findings",
        "Findings",
        [_rule(context, rule, group) for rule, group in by_rule.items()],
        lead=f"What {counted(context.evidence.rules, 'rule')} of the protocol say, worst first.",
    )


def _rule(context: Context, rule: Rule, group: list[tuple[Finding, int]]) -> Markup:
    count = sum(1 + more for _, more in group)
    worst = group[0][0].severity
    shown = group[:_MOST_FINDINGS]
    rows = [_finding_row(context, finding, more) for finding, more in shown]
    rest = count - sum(1 + more for _, more in shown)
    return element(
        "details",
        element(
            "summary",
            element("span", worst.value, class_=f"label {worst.value}"),
            element("b", f" {rule.title} "),
            element("span", f"{rule.code}, {count:,}", class_="detail"),
        ),
        element("p", f"Source: {rule.source}", class_="detail") if rule.source else None,
        table(("frame", "time", "where", "what"), rows),
        context.more(rest, Command("check", ("--select", rule.code))),
        id=f"rule-{rule.code}",
        open=worst is Severity.VIOLATION,
    )


def _finding_row(context: Context, finding: Finding, more: int) -> Markup:
    where = f"c{finding.connection}" + ("" if finding.vbucket is None else f" vb {finding.vbucket}")
    text = finding.message + (f" [no verdict: {finding.reason}]" if finding.reason else "")
    again = f" … {more:,} more like this" if more else ""
    return row(context.frame(finding.frame, f"{finding.frame:,}"), clock(finding.ts_ns), where, text + again)


# -- messages: how many of each there are, and their bytes as bars ------------------------------------

_MOST_MESSAGES = 40


def messages(context: Context) -> Markup | None:
    """Return the section; None where there are no frames."""
    kinds = sorted(context.gathered.statistics.kinds.items(), key=lambda each: -each[1].bytes)
    if not kinds:
        return None
    most = kinds[0][1].bytes
    rows = [
        row(kind_name(kind), f"{amount.frames:,}", size(amount.bytes), _bar(100 * amount.bytes / max(1, most)))
        for kind, amount in kinds[:_MOST_MESSAGES]
    ]
    return section("messages", "Messages", table(("message", "frames", "bytes", ""), rows))


def _bar(percent: float) -> Markup:
    bar = element("rect", width=f"{max(percent, 0.2):.1f}%", height="100%", class_="area hue0")
    return element("div", element("svg", bar, class_="bar", aria_hidden="true"))


_MOST_GAPS = 200
_PAYLOAD = PAYLOAD_WORDS | {"skipped": "skipped, as they are no frames", "retransmitted": "sent again"}
_GAP_HEADS = ("time", "conn", "from", "offset", "bytes", "why")


def losses(context: Context) -> Markup:
    """Return the section. It is there without losses too, to say so."""
    gaps = context.gathered.gaps[:_MOST_GAPS]
    more = len(context.gathered.gaps) - len(gaps) + context.gathered.more_gaps
    damage = [str(fault) for each in context.evidence.health for fault in each.damage[:_MOST_GAPS]]
    return section(
        "losses",
        "Losses",
        element("p", _balance(context)),
        element("ul", [element("li", text) for text in damage]) if damage else None,
        table(_GAP_HEADS, [_gap_row(context, gap) for gap in gaps]) if gaps else None,
        context.more(more, Command("export", ("--tables", "gaps")), "more gaps"),
    )


def _balance(context: Context) -> str:
    """Account for every byte of payload."""
    tally, counters = context.evidence.tally, context.evidence.counters
    found = payload(tally, counters).items()
    parts = " + ".join(f"{count:,} {_PAYLOAD.get(name, name)}" for name, count in found if count)
    text = f"{counters.payload_bytes:,} bytes of payload = {parts or '0'}. "
    text += "".join(f"{said}. " for said in context.evidence.carved)
    if tally.lost_elsewhere.gaps:
        text += f"On connections without frames: {tally.lost_elsewhere.words()}. "
    if tally.lost.gaps:
        return text + f"{tally.lost.words()}."
    return text + ("" if context.evidence.carved else "No byte is lost.")


def _gap_row(context: Context, gap: LostBytes) -> Markup:
    connection = context.evidence.ledger.connections.get(gap.connection)
    ends = ("", "") if connection is None else (connection.src, connection.dst)
    return row(
        clock(gap.ts_ns),
        f"c{gap.connection}",
        ends[gap.direction],
        f"{gap.offset:,}",
        "?" if gap.length is None else f"{gap.length:,}",
        gap.reason,
    )
