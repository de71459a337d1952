"""dcpdump streams: the stream ledger, a row for each DCP stream, with a verdict."""

from collections.abc import Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any

import click

from dcpdump.capture import expand
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.input_options import input_of, input_options
from dcpdump.cli.ledger_reading import LedgerConsumer, choosing, choosing_options
from dcpdump.cli.options import display, display_options
from dcpdump.cli.sink import Sink
from dcpdump.cli.sorting import sort_options, sorting
from dcpdump.render import streams as rows
from dcpdump.render.text_columns import spark
from dcpdump.streams.causes import Cause, Verdict, VerdictKind
from dcpdump.streams.frame_event import stream_key
from dcpdump.streams.knowledge import Reason
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import IDLE_NS, Judge
from dcpdump.text import nearest

if TYPE_CHECKING:
    from dcpdump.streams.rates import Rates

_BARS = 16
#: More seconds than any capture lasts: what is asked for as inf.
_FOREVER_S = 1e10


@click.command(cls=GroupedCommand)
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
@sort_options(rows.COLUMNS)
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
    order = sorting(rows.COLUMNS, options)
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
            (stream, verdict)
            for stream, verdict in judged
            if (causes is None or verdict.cause.value in causes) and _wanted(stream, verdict, stuck, rolled_back, ended)
        ]
        if order.column is None and shown.format == "text":
            wanted.sort(key=lambda each: each[1].rank)
        wanted = order(wanted)
        drawn = {} if rates is None else _drawn(consumer, rates, [stream for stream, _ in wanted])
        consumer.report(
            sink,
            lambda: [
                rows.table(wanted, consumer.ledger.last_ns, drawn) if judged else consumer.nothing(),
                rows.total(judged, consumer.evicted, consumer.connections),
            ],
            lambda: starmap(rows.as_object, wanted),
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
    return (stuck and verdict.trouble) or (rolled_back and bool(stream.requests.rolled_back)) or (ended and over)


def _drawn(consumer: LedgerConsumer, rates: "Rates", shown: Sequence[Stream]) -> dict[Stream, str]:
    """Return a line of bars for each stream: its rates over the time of the capture."""
    first, last = consumer.ledger.first_ns, consumer.ledger.last_ns
    if first is None or last is None:
        return {}
    out: dict[Stream, str] = {}
    for stream in shown:
        begin = max(first, stream.traffic.first_ns or first)
        end = min(last, (stream.traffic.last_ns if stream.next is not None else None) or last)
        place = stream_key(stream.vbucket, stream.stream_id)
        counts = rates.of(stream.connection.number, place, first, last, _BARS)
        length = max(1, last - first + 1)
        low, high = (begin - first) * _BARS // length, (end - first) * _BARS // length
        drawn = spark([count if low <= at <= high else 0 for at, count in enumerate(counts)])
        out[stream] = drawn if drawn.strip() else ""
    return out
