"""dcpdump read: captures → frames, chosen and shown."""

from dataclasses import replace
from typing import Any

import click

from dcpdump.capture import Capture, expand, open_capture
from dcpdump.cli.bulk import BulkReading
from dcpdump.cli.options import Display, Size, display, display_options, selection, selection_options
from dcpdump.cli.reading import Reading
from dcpdump.cli.sink import Sink
from dcpdump.net.limits import DEFAULT


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@selection_options(captures=True)
@display_options()
@click.option("--salvage", is_flag=True, help="After garbage in a capture, go on at the next plausible record.")
@click.option("-F", "--follow", is_flag=True, help="Wait for more at the end of a capture that is still being written.")
@click.option("--memory", type=Size(), default="256M", show_default=True, help="Most memory to put segments in order.")
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes at work; the default: the cores."
)
@click.option(
    "--summary", type=click.Choice(["text", "json", "none"]), default="text", help="The balance of all bytes."
)
@click.option("-q", "--quiet", is_flag=True, help="No summary: --summary none.")
def read(
    captures: tuple[str, ...],
    salvage: bool,
    follow: bool,
    memory: int,
    jobs: int | None,
    summary: str,
    quiet: bool,
    **options: Any,
) -> int:
    """Print the DCP frames of captures: pcap and pcapng, plain or compressed.

    CAPTURE is a file, a folder, a glob, or - for standard input. Several are one timeline, in which a TCP
    connection goes on from one file into the next. DCP is found by its content, on any port.
    """
    chosen, shown = selection(options), display(options)
    paths = expand(captures)
    inputs = [open_capture(path, salvage=salvage, follow=follow) for path in paths]
    with Sink(shown.path, force=shown.force, inputs=paths) as sink:
        limits = replace(DEFAULT, memory=memory)
        if _all_there(inputs, shown, sink):
            reading: Reading = BulkReading(inputs, chosen, shown, sink, limits, jobs=jobs)
        else:
            reading = Reading(inputs, chosen, shown, sink, limits, prompt=follow)
        return reading.run("none" if quiet else summary)


def _all_there(inputs: list[Capture], shown: Display, sink: Sink) -> bool:
    """Whether nobody waits for a single frame, and frames are shown as they are: then many are done at a time."""
    return all(capture.rereadable for capture in inputs) and not sink.is_terminal and shown.redactor is None
