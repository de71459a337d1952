"""Provide ``dcpdump flow``: show flow control, and when it blocked a producer."""

from typing import Any

import click

from dcpdump.capture import expand
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.input_options import input_of, input_options
from dcpdump.cli.ledger_reading import LedgerConsumer, choosing, choosing_options
from dcpdump.cli.options import display, display_options
from dcpdump.cli.sink import Sink
from dcpdump.cli.sorting import sort_options, sorting
from dcpdump.render import flow as rows
from dcpdump.render.json_schema import schema_of
from dcpdump.render.style import Line, LineKind


@click.command(cls=GroupedCommand, schema=lambda: schema_of("flow", [rows.FLOW]))
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@choosing_options(streams=False)
@sort_options(rows.FLOW.sortable)
@input_options()
@display_options(formats=("text", "ndjson"), value_bytes="", secrets=False)
@click.option("-q", "--quiet", is_flag=True, help="No summary on standard error.")
def flow(captures: tuple[str, ...], quiet: bool, **options: Any) -> int:
    """Show flow control: who blocked whom, and when.

    For each connection: buffer, bytes sent, acknowledged and outstanding, when the producer was blocked, which kind of
    message a consumer never acknowledges, and when TCP held an end up: its peer did not read (its receive window was
    zero), or did not acknowledge what was sent again and again. Where the beginning was not captured, or bytes were
    lost, what is outstanding is the least that it can be (≥), and whether the producer is blocked is inferred from its
    waits. An acknowledgement may be captured up to 50 ms before the messages that it acknowledges; what is acknowledged
    beyond those is too much.
    """
    order = sorting(rows.FLOW.sortable, options)
    chosen, shown, given = choosing(options), display(options), input_of(options, captures)
    paths = expand(captures)
    with Sink(shown.path, force=shown.force, inputs=paths, paged=True) as sink:
        consumer = FlowReading(chosen, shown, given)
        reading = consumer.read(paths, sink)
        found = order(rows.rows_of(consumer.connections, consumer.ledger.last_ns, drawn=sink.is_terminal))
        consumer.report(
            sink,
            lambda: rows.lines(found) or [_nothing(consumer)],
            lambda: map(rows.FLOW.object, found),
        )
        return reading.conclude("none" if quiet else "text")


class FlowReading(LedgerConsumer):
    """A ledger of which connections are listed."""

    lists_streams = False


def _nothing(consumer: LedgerConsumer) -> Line:
    """Return why there is no flow control to show."""
    if any(each.open_frame is not None or each.stream_count for each in consumer.connections):
        return Line(LineKind.PLAIN, "no message of a stream, so no flow control")
    return consumer.nothing()
