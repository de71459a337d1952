"""Make the tables of a page: streams, findings, messages, losses."""

from dataclasses import replace

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Rule, Severity
from dcpdump.diagnosis.trouble import Command, grouped
from dcpdump.dissect import PAYLOAD_WORDS, payload
from dcpdump.render.column import INT, Column
from dcpdump.render.conns import GAPS
from dcpdump.render.findings import FINDINGS
from dcpdump.render.statistics import MESSAGES, CountedRow, kinds_of
from dcpdump.render.streams import STREAMS, StreamRow
from dcpdump.report.context import Context, folded, section, table
from dcpdump.report.html import Child, Markup, element
from dcpdump.text import counted

# -- the table of streams: those in trouble first, to be filtered and sorted --------------------------

MOST_STREAMS = 2_000
_STREAMS = (
    *STREAMS.some("conn client vb sid asked from..to last-seqno lag"),
    Column[StreamRow](get=lambda row: sum(row.stream.traffic.counts), head="messages", type=INT),
    replace(STREAMS["bytes"], shown=None),  # 0 too
    STREAMS["verdict"],
)


def streams(context: Context, most: int) -> Markup | None:
    """Return the section; None where there are no streams."""
    judged = sorted(context.evidence.judged, key=lambda each: each[1].rank)
    if not judged:
        return None
    shown = [StreamRow(*each, context.evidence.now_ns) for each in judged[:most]]

    def verdict(row: StreamRow) -> Child:
        number = context.dialogues.get(row.stream)
        return row.verdict.text if number is None else element("a", row.verdict.text, href=f"#dialogue-{number}")

    field = element("input", type="search", data_filter="stream-rows", aria_label="Filter streams")
    return section(
        "streams",
        "Streams",
        element(
            "p",
            element("label", "Filter ", field),
            " ",
            element("output", counted(len(shown), "stream"), data_count=True),
            class_="filter",
        ),
        table(
            _STREAMS,
            shown,
            {"verdict": verdict},
            lambda row: {"class_": "trouble"} if row.verdict.trouble else {},
            sortable="stream-rows",
        ),
        context.more(context.evidence.streams - len(shown), Command("streams")),
    )


# -- findings, by rule, worst first, each with its frame ----------------------------------------------

_MOST_FINDINGS = 30
_FINDINGS = FINDINGS.some("frame time conn vb sid more message")
_ORDER = (Severity.VIOLATION, Severity.SUSPICIOUS, Severity.INFO, Severity.UNKNOWN)


def findings(context: Context) -> Markup | None:
    """Return the section; None where there are none."""
    order = sorted(context.evidence.findings, key=lambda each: _ORDER.index(each[0].severity))
    by_rule = grouped(order, lambda each: each[0].rule)
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
    rest = count - sum(1 + more for _, more in shown)
    return folded(
        (
            element("span", worst.value, class_=f"label {worst.value}"),
            element("b", f" {rule.title} "),
            element("span", f"{rule.code}, {count:,}", class_="detail"),
        ),
        element("p", f"Source: {rule.source}", class_="detail") if rule.source else None,
        table(_FINDINGS, shown, {"frame": lambda row: context.frame(row[0].frame, f"{row[0].frame:,}")}),
        context.more(rest, Command("check", ("--select", rule.code))),
        id=f"rule-{rule.code}",
        open=worst is Severity.VIOLATION,
    )


# -- messages: how many of each there are, and their bytes as bars ------------------------------------

_MOST_MESSAGES = 40
_MESSAGES = (*MESSAGES.some("message frames bytes share"), Column[CountedRow](head=""))


def messages(context: Context) -> Markup | None:
    """Return the section; None where there are no frames."""
    kinds = sorted(kinds_of(context.gathered.statistics), key=lambda row: -row.amount.bytes)
    if not kinds:
        return None
    shown, most = kinds[:_MOST_MESSAGES], max(1, kinds[0].amount.bytes)

    def bar(row: CountedRow) -> Markup:
        width = f"{max(100 * row.amount.bytes / most, 0.2):.1f}%"
        drawn = element("rect", width=width, height="100%", class_="area hue0")
        return element("svg", drawn, class_="bar", aria_hidden="true")

    rest = context.more(len(kinds) - len(shown), Command("stats"))
    return section("messages", "Messages", table(_MESSAGES, shown, {"": bar}), rest)


# -- losses: where every byte went, and each gap ------------------------------------------------------

_MOST_GAPS = 200
_PAYLOAD = PAYLOAD_WORDS | {"skipped": "skipped, as they are no frames", "retransmitted": "sent again"}


def losses(context: Context) -> Markup:
    """Return the section. It is there without losses too, to say so."""
    gaps = context.gathered.gaps[:_MOST_GAPS]
    more = context.gathered.gap_count - len(gaps)
    damage = [str(fault) for each in context.evidence.health for fault in each.damage[:_MOST_GAPS]]
    return section(
        "losses",
        "Losses",
        element("p", _balance(context)),
        element("ul", [element("li", text) for text in damage]) if damage else None,
        table(GAPS.some("time conn from offset bytes why"), gaps),
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
