"""Provide ``dcpdump streams``: the stream ledger, a row for each DCP stream, with a verdict."""

from typing import TYPE_CHECKING

import click

from dcpdump.cli.analysis import AnalysisResult, LedgerConsumer, analysis
from dcpdump.cli.options import Invocation, option
from dcpdump.render.streams import STREAMS, StreamRow, total
from dcpdump.render.text_columns import spark
from dcpdump.streams.causes import Cause, Reason, Verdict, VerdictKind
from dcpdump.streams.frame_event import stream_key
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import IDLE_NS, Judge
from dcpdump.text import nearest

if TYPE_CHECKING:
    from dcpdump.batch.traffic_over_time import Rates

_BARS = 16
#: More seconds than any capture lasts: what is requested as inf.
_FOREVER_S = 1e10


class StreamReading(LedgerConsumer):
    """A ledger of streams; what a terminal is to show has their rates over time too."""

    rates: "Rates | None" = None

    def __init__(self, asked: Invocation) -> None:
        if asked.format == "text" and asked.terminal:
            from dcpdump.batch.traffic_over_time import Rates  # which needs columns

            self.rates = Rates()
        super().__init__(asked, None if self.rates is None else self.rates.feed)


def _causes(value: str) -> frozenset[str]:
    """Return the causes in a list."""
    known = [each.value for each in (*Cause, *Reason)]
    found = frozenset(word.strip() for word in value.split(",")) - {""}
    unknown = next((word for word in sorted(found) if word not in known), None)
    if unknown is not None or not found:
        near = nearest(unknown or "", known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"known are {', '.join(known)}"
        raise click.UsageError(f"unknown cause {unknown or value!r} for --cause ({hint})")
    return found


@analysis(
    [STREAMS],
    "dcpdump streams node1.pcap --stuck",
    "dcpdump streams captures/ --vbucket 417",
    "dcpdump streams node1.pcap --ended -f ndjson",
    params=[
        option("--stuck", "Only streams that are wrong for certain: stuck, blocked, refused, abandoned."),
        option("--rolled-back", "Only streams that were rolled back."),
        option(
            "--cause CODES",
            "Only streams whose cause, as ndjson has it, is one of these: abandoned,out-of-range.",
            _causes,
        ),
        option("--ended", "Only streams that ended."),
        option(
            "--idle SECONDS",
            "A stream without messages for so long is quiet, or stuck.",
            click.FloatRange(min=0),
            default=IDLE_NS / 1e9,
        ),
    ],
    sort=STREAMS,
    reader=StreamReading,
)
def streams(
    reading: StreamReading,
    asked: Invocation,
    stuck: bool,
    rolled_back: bool,
    ended: bool,
    cause: frozenset[str] | None,
    idle: float,
) -> AnalysisResult:
    """Say what became of each DCP stream: requested, granted, rolled back, flowing, stuck, ended.

    Filters choose streams; every frame is read nevertheless. --stuck, --rolled-back and --ended are
    alternatives; with --cause, both have to hold. Text has the streams in trouble first; --sort lag those whose
    consumers are furthest behind, as far as that is known.
    """
    judge = Judge(reading.ledger, round(min(_FOREVER_S, idle) * 1e9))
    judged = [(stream, judge.verdict(stream)) for stream in reading.streams]
    wanted = [
        StreamRow(stream, verdict, reading.ledger.last_ns, _drawn(reading, stream))
        for stream, verdict in judged
        if (cause is None or verdict.cause.value in cause) and _wanted(stream, verdict, stuck, rolled_back, ended)
    ]
    if asked.options["sort"] is None and asked.format == "text":
        wanted.sort(key=lambda row: row.verdict.rank)
    rows = asked.order(wanted)
    return AnalysisResult(
        lambda: [
            STREAMS.table(rows) if judged else reading.nothing(),
            total(judged, reading.evicted, reading.connections),
        ],
        lambda: map(STREAMS.object, rows),
    )


def _wanted(stream: Stream, verdict: Verdict, stuck: bool, rolled_back: bool, ended: bool) -> bool:
    if not (stuck or rolled_back or ended):
        return True
    over = verdict.kind in (VerdictKind.ENDED, VerdictKind.TAKEN_OVER)
    return (stuck and verdict.trouble) or (rolled_back and bool(stream.requests.rolled_back)) or (ended and over)


def _drawn(reading: StreamReading, stream: Stream) -> str:
    """Return a line of bars: the rate of a stream over the time of the capture."""
    rates, first, last = reading.rates, reading.ledger.first_ns, reading.ledger.last_ns
    if rates is None or first is None or last is None:
        return ""
    begin = max(first, stream.traffic.first_ns or first)
    end = min(last, (stream.traffic.last_ns if stream.next is not None else None) or last)
    key = stream_key(stream.vbucket, stream.stream_id)
    counts = rates.of(stream.connection.number, key, first, last, _BARS)
    length = max(1, last - first + 1)
    low, high = (begin - first) * _BARS // length, (end - first) * _BARS // length
    drawn = spark([count if low <= at <= high else 0 for at, count in enumerate(counts)])
    return drawn if drawn.strip() else ""
