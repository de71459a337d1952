"""Provide ``dcpdump read``: print chosen frames of captures."""

from typing import Any

import click

from dcpdump.capture import expand
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.input_options import PROCESSES, InputOptions, input_of, input_options
from dcpdump.cli.options import (
    Display,
    Selection,
    display,
    display_options,
    latency_option,
    selection,
    selection_options,
    time_option,
)
from dcpdump.cli.reading import CaptureSource, Reading
from dcpdump.cli.sink import Sink
from dcpdump.cli.workers import worth_having
from dcpdump.errors import FilterError
from dcpdump.filter.clauses import with_problems
from dcpdump.filter.header_clauses import wanted_of
from dcpdump.filter.ranges import Ranges
from dcpdump.plural import counted


@click.command(
    cls=GroupedCommand,
    rows=("frame",),
    examples=(
        "dcpdump read node1.pcap --opcode stream_end --context 3 -f line",
        "dcpdump read captures/ --vbucket 417 --seqno 100-200 -f ndjson",
        "ssh node tcpdump -U -w - port 11210 | dcpdump read -",
    ),
)
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@selection_options(captures=True, frames=True)
@latency_option
@display_options()
@time_option()
@click.option(
    "--context",
    type=click.IntRange(min=1, max=10_000),
    metavar="N",
    help="N frames of the connection before and after each chosen one, which is marked; as grep -C.",
)
@input_options(jobs=PROCESSES)
@click.option(
    "--summary", type=click.Choice(["text", "json", "none"]), default="text", help="The balance of all bytes."
)
@click.option("-q", "--quiet", is_flag=True, help="No summary: --summary none.")
def read(
    captures: tuple[str, ...],
    context: int | None,
    jobs: int | None,
    summary: str,
    quiet: bool,
    **options: Any,
) -> int:
    """Print the DCP frames of captures: pcap and pcapng, plain or compressed.

    CAPTURE is a file, a folder, a glob, or - for standard input. Several are one timeline, in which a TCP connection
    continues from one file into the next. DCP is found by its content, on any port.
    """
    chosen, shown, given = selection(options), display(options), input_of(options, captures)
    if context is not None and shown.format == "csv":
        raise click.UsageError("csv cannot mark context (-f ndjson, line, table or grid)")
    paths = expand(captures)
    inputs = given.open(paths)
    with Sink(shown.path, force=shown.force, inputs=paths, paged=all(each.rereadable for each in inputs)) as sink:
        source = CaptureSource(inputs)
        # What goes to a terminal is shown at once.
        working = 1 if source.threaded or sink.is_terminal else worth_having(jobs, inputs)
        reading = (
            _reading(source, chosen, shown, sink, given, several=len(inputs) > 1, jobs=working)
            if context is None
            else _with_context(source, chosen, shown, sink, given, around=context, several=len(inputs) > 1)
        )
        status = reading.run("none" if quiet else summary)
        if reading.ended and chosen.numbers is not None:
            _check_numbers(chosen.numbers, reading.frames)
        return status


def _with_context(
    source: CaptureSource, chosen: Selection, shown: Display, sink: Sink, given: InputOptions, **options: Any
) -> Reading[Any]:
    """Return the reading that also shows the frames around those that are chosen."""
    from dcpdump.batch.dissector import Dissection
    from dcpdump.cli.context_output import ContextOutput

    dissection = Dissection(given.limits, show_secrets=shown.show_secrets, secrets=given.secrets)
    return Reading(source, dissection, ContextOutput(chosen, shown, sink, **options), sink)


def _check_numbers(wanted: Ranges, frames: int) -> None:
    """Refuse numbers of frames that the input does not have."""
    beyond = [low for low, _ in wanted.spans if low > frames]
    if beyond and frames:
        raise FilterError(f"--frame: there is no frame {min(beyond):,}: the capture has {counted(frames, 'frame')}")


def _reading(
    source: CaptureSource, chosen: Selection, shown: Display, sink: Sink, given: InputOptions, **options: Any
) -> Reading[Any]:
    """Return the reading that suits what is chosen; each kind imports only what it needs."""
    numbers = chosen.numbers
    wanted = None if with_problems in chosen.filter.clauses else wanted_of(chosen.texts)
    if wanted is not None or numbers is not None:
        from dcpdump.batch.dissector import SMALL_BLOCK_BYTES, NumberPicker, Picker
        from dcpdump.cli.picked_frames import PickedFrameOutput

        source.block_bytes = SMALL_BLOCK_BYTES
        how: dict[str, Any] = {"show_secrets": shown.show_secrets, "secrets": given.secrets}
        if wanted is not None:
            picker = Picker(wanted, given.limits, **how)
        elif numbers is not None:
            picker = NumberPicker(numbers, given.limits, **how)
        last = None if numbers is None else numbers.last
        return Reading(source, picker, PickedFrameOutput(chosen, shown, sink, **options), sink, last=last)
    from dcpdump.batch.dissector import Dissection
    from dcpdump.cli.frame_output import FrameOutput

    dissection = Dissection(given.limits, show_secrets=shown.show_secrets, secrets=given.secrets)
    return Reading(source, dissection, FrameOutput(chosen, shown, sink, **options), sink)
