"""dcpdump streams: the stream ledger, a row for each DCP stream, with a verdict."""

from typing import TYPE_CHECKING, Any

import click

from dcpdump.capture import expand
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.input_options import input_of, input_options
from dcpdump.cli.ledger_reading import LedgerConsumer, choosing, choosing_options
from dcpdump.cli.options import display, display_options
from dcpdump.cli.sink import Sink
from dcpdump.cli.sorting import sort_options, sorting
from dcpdump.nearest import nearest
from dcpdump.render.json_schema import schema_of
from dcpdump.render.streams import STREAMS, StreamRow, total
from dcpdump.render.text_columns import spark
from dcpdump.streams.causes import Cause, Reason, Verdict, VerdictKind
from dcpdump.streams.frame_event import stream_key
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import IDLE_NS, Judge

if TYPE_CHECKING:
    from dcpdump.streams.rates import Rates

_BARS = 16
#: More seconds than any capture lasts: what is asked for as inf.
_FOREVER_S = 1e10


@click.command(cls=GroupedCommand, schema=lambda: schema_of("streams", [STREAMS]))
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@choosing_options(streams=True)
@click.option(
    "--stuck", is_flag=True, help="Only streams that are wrong for certain: stuck, blocked, refused, abandoned."
)
@click.option("--rolled-back", is_flag=True, help="Only streams that were rolled back.")
@click.option(
    "--cause",
    metavar="CODES",
    help="Only streams whose cause, as ndjson has it, is one of these: abandoned,out-of-range.",
)
@click.option("--ended", is_flag=True, help="Only streams that ended.")
@click.option(
    "--idle",
    type=click.FloatRange(min=0),
    default=IDLE_NS / 1e9,
    show_default=True,
    metavar="SECONDS",
    help="A stream without messages for so long is quiet, or stuck.",
)
@sort_options(STREAMS.sortable)
@input_options()
@display_options(formats=("text", "ndjson"), value_bytes="", secrets=False)
@click.option("-q", "--quiet", is_flag=True, help="No summary on standard error.")
def streams(
    captures: tuple[str, ...],
    stuck: bool,
    rolled_back: bool,
    ended: bool,
    cause: str | None,
    idle: float,
    quiet: bool,
    **options: Any,
) -> int:
    """Say what became of each DCP stream: asked for, granted, rolled back, flowing, stuck, ended.

    Filters choose streams; every frame is looked at, whatever they say. --stuck, --rolled-back and --ended are
    alternatives; with --cause, both have to hold. Text has the streams in trouble first. --sort lag has first whose
    consumer is furthest behind, as far as that is known.
    """
    order = sorting(STREAMS.sortable, options)
    causes = None if cause is None else _causes(cause)
    chosen, shown, given = choosing(options), display(options), input_of(options, captures)
    paths = expand(captures)
    with Sink(shown.path, force=shown.force, inputs=paths, paged=True) as sink:
        rates = None
        if shown.format == "text" and sink.is_terminal:
            from dcpdump.streams.rates import Rates  # which needs columns

            rates = Rates()
        consumer = LedgerConsumer(chosen, shown, given, None if rates is None else rates.feed)
        reading = consumer.read(paths, sink)
        judge = Judge(consumer.ledger, round(min(_FOREVER_S, idle) * 1e9))
        judged = [(stream, judge.verdict(stream)) for stream in consumer.streams]
        wanted = [
            StreamRow(stream, verdict, consumer.ledger.last_ns, _drawn(consumer, rates, stream))
            for stream, verdict in judged
            if (causes is None or verdict.cause.value in causes) and _wanted(stream, verdict, stuck, rolled_back, ended)
        ]
        if order.column is None and shown.format == "text":
            wanted.sort(key=lambda row: row.verdict.rank)
        wanted = order(wanted)
        consumer.report(
            sink,
            lambda: [
                STREAMS.table(wanted) if judged else consumer.nothing(),
                total(judged, consumer.evicted, consumer.connections),
            ],
            lambda: map(STREAMS.object, wanted),
        )
        return reading.conclude("none" if quiet else "text")


def _causes(text: str) -> frozenset[str]:
    """Read a list of causes."""
    known = [each.value for each in (*Cause, *Reason)]
    found = frozenset(word.strip() for word in text.split(",")) - {""}
    unknown = next((word for word in sorted(found) if word not in known), None)
    if unknown is not None or not found:
        near = nearest(unknown or "", known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"known are {', '.join(known)}"
        raise click.UsageError(f"unknown cause {unknown or text!r} for --cause ({hint})")
    return found


def _wanted(stream: Stream, verdict: Verdict, stuck: bool, rolled_back: bool, ended: bool) -> bool:
    if not (stuck or rolled_back or ended):
        return True
    over = verdict.kind in (VerdictKind.ENDED, VerdictKind.TAKEN_OVER)
    return (stuck and verdict.trouble) or (rolled_back and bool(stream.rollbacks)) or (ended and over)


def _drawn(consumer: LedgerConsumer, rates: "Rates | None", stream: Stream) -> str:
    """Return a line of bars: the rate of a stream over the time of the capture."""
    first, last = consumer.ledger.first_ns, consumer.ledger.last_ns
    if rates is None or first is None or last is None:
        return ""
    begin = max(first, stream.first_ns or first)
    end = min(last, (stream.last_ns if stream.next is not None else None) or last)
    place = stream_key(stream.vbucket, stream.stream_id)
    counts = rates.of(stream.connection.number, place, first, last, _BARS)
    length = max(1, last - first + 1)
    low, high = (begin - first) * _BARS // length, (end - first) * _BARS // length
    drawn = spark([count if low <= at <= high else 0 for at, count in enumerate(counts)])
    return drawn if drawn.strip() else ""
