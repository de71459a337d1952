"""Provide ``dcpdump read``: print chosen frames of captures."""

from typing import Any

import click

from dcpdump.batch.dissector import BlockDissector, Dissection, NumberPicker, Picker
from dcpdump.capture.paths import expand
from dcpdump.cli.frame_output import ContextOutput, FrameOutput
from dcpdump.cli.grouped import command
from dcpdump.cli.options import (
    LATENCY,
    PROCESSES,
    Display,
    InputOptions,
    Selection,
    display,
    display_options,
    input_of,
    input_options,
    selection,
    selection_options,
    summary_of,
    summary_options,
    time_option,
)
from dcpdump.cli.reading import CaptureSource, Consumer, Reading, worth_having
from dcpdump.cli.sink import Sink
from dcpdump.errors import FilterError
from dcpdump.filter.choices import wanted_of
from dcpdump.filter.clauses import with_problems
from dcpdump.render import OUTPUTS
from dcpdump.text import counted


@command(
    "dcpdump read node1.pcap --opcode stream_end --context 3 -f line",
    "dcpdump read captures/ --vbucket 417 --seqno 100-200 -f ndjson",
    "ssh node tcpdump -U -w - port 11210 | dcpdump read -",
    rows=("frame",),
)
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@selection_options(captures=True, frames=True)
@LATENCY.option
@display_options(tuple(OUTPUTS))
@time_option()
@click.option(
    "--context",
    type=click.IntRange(min=1, max=10_000),
    metavar="N",
    help="N frames of the connection before and after each chosen one, which is marked; as grep -C.",
)
@input_options(jobs=PROCESSES)
@summary_options()
def read(
    captures: tuple[str, ...],
    context: int | None,
    jobs: int | None,
    **options: Any,
) -> int:
    """Print the DCP frames of captures: pcap and pcapng, plain or compressed.

    CAPTURE is a file, a folder, a glob, or - for standard input. Several are one timeline, in which a TCP connection
    continues from one file into the next. DCP is found by its content, on any port.
    """
    summary = summary_of(options)
    chosen, shown, given = selection(options), display(options), input_of(options, captures)
    if context is not None and shown.format == "csv":
        raise click.UsageError("csv cannot mark context (-f ndjson, line, table or grid)")
    paths = expand(captures)
    inputs = given.open(paths)
    with Sink(shown.path, force=shown.force, inputs=paths, paged=all(each.rereadable for each in inputs)) as sink:
        source = CaptureSource(inputs)
        # What goes to a terminal is shown at once.
        working = 1 if source.threaded or sink.is_terminal else worth_having(jobs, inputs)
        several = len(inputs) > 1
        output: Consumer[Any] = FrameOutput(chosen, shown, sink, several=several, jobs=working)
        if context is not None:
            output = ContextOutput(chosen, shown, sink, context, several=several)
        dissection = _dissection(chosen, shown, given, whole=context is not None)
        source.block_bytes = dissection.block_bytes
        last = None if context is not None or chosen.numbers is None else chosen.numbers.last
        reading = Reading(source, dissection, output, sink, last=last)
        status = reading.run(summary)
        if reading.ended and reading.frames and chosen.numbers is not None:
            beyond = [low for low, _ in chosen.numbers.spans if low > reading.frames]
            if beyond:
                there = f"the capture has {counted(reading.frames, 'frame')}"
                raise FilterError(f"--frame: there is no frame {min(beyond):,}: {there}")
        return status


def _dissection(chosen: Selection, shown: Display, given: InputOptions, *, whole: bool) -> BlockDissector[Any]:
    """Return the dissection that suits what is chosen: into all frames (``whole``), or only those that may be."""
    wanted = None if whole or with_problems in chosen.filter.clauses else wanted_of(chosen.texts)
    how: dict[str, Any] = {"show_secrets": shown.show_secrets, "secrets": given.secrets}
    if wanted is not None:
        return Picker(wanted, given.limits, **how)
    if chosen.numbers is not None and not whole:
        return NumberPicker(chosen.numbers, given.limits, **how)
    return Dissection(given.limits, **how)
