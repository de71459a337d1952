"""dcpdump flow: the books of flow control, and when it stopped a producer."""

from typing import Any

import click

from dcpdump.capture import expand, open_capture
from dcpdump.cli.ledger import LedgerReading, choosing, choosing_options
from dcpdump.cli.options import display, display_options
from dcpdump.cli.sink import Sink
from dcpdump.render import flow as rows


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@choosing_options(streams=False)
@display_options(formats=("text", "ndjson"))
@click.option("-q", "--quiet", is_flag=True, help="No summary on standard error.")
def flow(captures: tuple[str, ...], quiet: bool, **options: Any) -> int:
    """Keep the books of flow control: buffer, sent, acknowledged, outstanding; when the producer was blocked.

    What a consumer never acknowledges is told by kind of message. Nothing is told of connections whose beginning
    was not captured, or that lost bytes.
    """
    chosen, shown = choosing(options), display(options)
    paths = expand(captures)
    with Sink(shown.path, force=shown.force, inputs=paths) as sink:
        reading = LedgerReading([open_capture(path) for path in paths], chosen, shown, sink)
        reading.read()
        now = reading.ledger.last_ns
        reading.tell(
            lambda: rows.lines(reading.connections, now, drawn=sink.is_terminal),
            lambda: rows.objects(reading.connections, now),
        )
        return reading.conclude("none" if quiet else "text")
