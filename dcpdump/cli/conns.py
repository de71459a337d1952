"""Provide ``dcpdump conns``: list client and server of each connection, and what they negotiated."""

from collections.abc import Iterable
from typing import Any

import click

from dcpdump.capture import expand
from dcpdump.cli import tls_notes
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.input_options import input_of, input_options
from dcpdump.cli.ledger_reading import LedgerConsumer, choosing, choosing_options
from dcpdump.cli.options import display, display_options
from dcpdump.cli.sink import Sink
from dcpdump.cli.sorting import sort_options, sorting
from dcpdump.diagnosis.words import by_server, not_opened
from dcpdump.dissect import Dissector
from dcpdump.render import conns as rows
from dcpdump.render.json_schema import schema_of


@click.command(cls=GroupedCommand, schema=lambda: schema_of("conns", [rows.CONNECTIONS, rows.CLOSED]))
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@choosing_options(streams=False)
@sort_options(rows.CONNECTIONS.sortable)
@input_options()
@display_options(formats=("text", "ndjson"), value_bytes="", secrets=False)
@click.option("-q", "--quiet", is_flag=True, help="No summary on standard error.")
def conns(captures: tuple[str, ...], quiet: bool, **options: Any) -> int:
    """List connections: client and server, features, flags, controls, keep-alive, how they ended.

    A question mark stands where the capture does not say. TLS that could not be opened has a row that says why.
    """
    order = sorting(rows.CONNECTIONS.sortable, options)
    chosen, shown, given = choosing(options), display(options), input_of(options, captures)
    paths = expand(captures)
    with Sink(shown.path, force=shown.force, inputs=paths, paged=True) as sink:
        consumer = Listing(chosen, shown, given)
        reading = consumer.read(paths, sink)
        sealings = consumer.dissection.sealings
        tls = {number: (tls_notes.state(each), tls_notes.as_object(each)) for number, each in sealings.items()}
        found = rows.rows_of(consumer.connections, tls)
        for number in consumer.closed:
            each = sealings[number]
            found.append(rows.ConnectionRow(number, each.src, each.dst, None, tls_notes.closed(each), tls[number][1]))
        found = order(sorted(found, key=lambda row: row.number))
        consumer.report(
            sink,
            lambda: [rows.ConnectionTable(found) if found else consumer.nothing()],
            lambda: map(rows.CONNECTIONS.object, found),
            always=bool(consumer.closed),
        )
        return reading.conclude("none" if quiet else "text")


class Listing(LedgerConsumer):
    """A ledger of which connections are listed; those that were never opened are in a note."""

    lists_streams = False

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return which servers did not answer a SYN."""
        yield from super().remarks(dissection)
        for server, attempts in by_server(self.unanswered).items():
            yield f"dcpdump: note: {not_opened(server, attempts)}"
