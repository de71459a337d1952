"""Losses: where every byte went, and each gap."""

from dcpdump.diagnosis.trouble import Command
from dcpdump.dissect import payload
from dcpdump.report.context import Context, row, section, table
from dcpdump.report.html import Markup, element
from dcpdump.streams.wording import clock

_MOST = 200
_NAMES = {
    "frames": "in frames",
    "begun_before": "of frames begun before the capture",
    "skipped": "skipped, as they are no frames",
    "tls": "of TLS around frames",
    "encrypted": "of TLS not opened",
    "foreign": "of other protocols",
    "retransmitted": "sent again",
    "duplicate": "captured twice",
    "keepalive": "of keep-alives",
    "late": "too late",
}
_HEADS = ("time", "conn", "from", "offset", "bytes", "why")
_MORE = Command("export", ("--tables", "gaps"))


def losses(context: Context) -> Markup:
    """Return the section: it is always there, since it says that nothing was lost."""
    gaps = context.gathered.gaps[:_MOST]
    more = len(context.gathered.gaps) - len(gaps) + context.gathered.more_gaps
    damage = [str(fault) for each in context.evidence.health for fault in each.damage[:_MOST]]
    return section(
        "losses",
        "Losses",
        element("p", _balance(context)),
        element("ul", [element("li", text) for text in damage]) if damage else None,
        table(_HEADS, [_row(context, at) for at in range(len(gaps))]) if gaps else None,
        element("p", f"{more:,} more gaps: ", element("code", context.line(_MORE))) if more > 0 else None,
    )


def _balance(context: Context) -> str:
    """Account for every byte of payload."""
    tally, counters = context.evidence.tally, context.evidence.counters
    found = payload(tally, counters).items()
    parts = " + ".join(f"{count:,} {_NAMES.get(name, name)}" for name, count in found if count)
    text = f"{counters.payload_bytes:,} bytes of payload = {parts or '0'}. "
    text += "".join(f"{said}. " for said in context.evidence.carved)
    if tally.lost_elsewhere.gaps:
        text += f"On connections without frames: {tally.lost_elsewhere.words()}. "
    if tally.lost.gaps:
        return text + f"{tally.lost.words()}."
    return text + ("" if context.evidence.carved else "No byte is lost.")


def _row(context: Context, at: int) -> Markup:
    gap = context.gathered.gaps[at]
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
