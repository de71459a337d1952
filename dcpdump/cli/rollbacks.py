"""Provide ``dcpdump rollbacks``: list rollbacks, each with the clause of the protocol that explains it."""

from typing import Any

import click

from dcpdump.capture import expand
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.input_options import input_of, input_options
from dcpdump.cli.ledger_reading import LedgerConsumer, choosing, choosing_options
from dcpdump.cli.options import display, display_options
from dcpdump.cli.sink import Sink
from dcpdump.cli.sorting import sort_options, sorting
from dcpdump.render import rollbacks as rows
from dcpdump.render.json_schema import schema_of
from dcpdump.render.style import Line
from dcpdump.render.text_columns import Table
from dcpdump.streams.rollback import resume as resume_of
from dcpdump.streams.rollback import rollbacks as found_in


@click.command(cls=GroupedCommand, schema=lambda: schema_of("rollbacks", [rows.ROLLBACKS]))
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@choosing_options(streams=True)
@click.option("--resume", is_flag=True, help="A row for each vbucket: what its client should have sent to go on.")
@sort_options(rows.ROLLBACKS.sortable)
@input_options()
@display_options(formats=("text", "ndjson"), value_bytes="", secrets=False)
@click.option("-q", "--quiet", is_flag=True, help="No summary on standard error.")
def rollbacks(captures: tuple[str, ...], resume: bool, quiet: bool, **options: Any) -> int:
    """Explain rollbacks: what was asked for, against the failover log and the purge seqno, as far as they were seen.

    Equal rollbacks of a client are one; more than three are a loop. Each with what the client should have sent:
    --resume has a row of that for each vbucket.
    """
    order = sorting(rows.ROLLBACKS.sortable, options)
    chosen, shown, given = choosing(options), display(options), input_of(options, captures)
    paths = expand(captures)
    with Sink(shown.path, force=shown.force, inputs=paths, paged=True) as sink:
        consumer = LedgerConsumer(chosen, shown, given)
        reading = consumer.read(paths, sink)
        streams = consumer.streams
        wanted = set(streams)
        found = [each for each in found_in(consumer.ledger) if each.stream in wanted]
        advised = order((each, resume_of(each, consumer.ledger)) for each in found)
        if resume:
            advised = rows.latest(advised)

        def text() -> list[Line | Table]:
            if not streams:
                return [consumer.nothing()]
            if resume and advised:
                return [rows.RESUME.table(advised)]
            return list(rows.lines(advised, streams, consumer.ledger.last_ns))

        consumer.report(sink, text, lambda: map(rows.ROLLBACKS.object, advised))
        return reading.conclude("none" if quiet else "text")
