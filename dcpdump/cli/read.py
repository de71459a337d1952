"""Provide ``dcpdump read``: print chosen frames of captures."""

from functools import partial
from typing import Any

import click

from dcpdump.batch.dissector import BlockDissector, Dissection, NumberPicker, Picker
from dcpdump.cli.frame_output import ContextOutput, FrameOutput
from dcpdump.cli.grouped import command
from dcpdump.cli.options import Invocation, format_option, option
from dcpdump.cli.reading import CaptureSource, Consumer, Reading, worth_having
from dcpdump.errors import FilterError
from dcpdump.filter.choices import Ranges, wanted_of
from dcpdump.filter.clauses import with_problems
from dcpdump.render import OUTPUTS
from dcpdump.render.objects import SHOWN
from dcpdump.text import counted


@command(
    "dcpdump read node1.pcap --opcode stream_end --context 3 -f line",
    "dcpdump read captures/ --vbucket 417 --seqno 100-200 -f ndjson",
    "ssh node tcpdump -U -w - port 11210 | dcpdump read -",
    params=[
        "CAPTURE… NUMBERED-FRAMES latency",
        format_option(tuple(OUTPUTS)),
        "color value-bytes output force show-secrets REDACTION time",
        option(
            "--context N",
            "N frames of the connection before and after each chosen one, which is marked; as grep -C.",
            click.IntRange(min=1, max=10_000),
        ),
        "salvage align follow keylog memory",
        option("-j, --jobs N", "Worker processes; the default: the cores."),
        "summary NO-SUMMARY",
    ],
    rows=[SHOWN],
)
def read(asked: Invocation, context: int | None, jobs: int | None) -> int:
    """Print the DCP frames of captures: pcap and pcapng, plain or compressed.

    CAPTURE is a file, a folder, a glob, or - for standard input. Several are one timeline, in which a TCP connection
    continues from one file into the next. DCP is found by its content, on any port.
    """
    asked.validate()
    chosen = asked.frames
    if context is not None and asked.format == "csv":
        raise click.UsageError("csv cannot mark context (-f ndjson, line, table or grid)")
    inputs = asked.open(asked.paths)
    with asked.sink(paged=all(each.rereadable for each in inputs)) as sink:
        source, several = CaptureSource(inputs), len(inputs) > 1
        # What goes to a terminal is shown at once.
        working = 1 if source.threaded or sink.is_terminal else worth_having(jobs, inputs)
        output: Consumer[Any] = FrameOutput(asked, sink, several=several, jobs=working)
        if context is not None:
            output = ContextOutput(asked, sink, context, several=several)
        numbers = None if context is not None else chosen.numbers
        dissection = _dissection(asked, numbers, all_frames=context is not None)
        source.block_bytes = dissection.block_bytes
        last = None if numbers is None else numbers.last
        reading = Reading(source, dissection, output, sink, last=last)
        status = reading.run(asked.summary)
        if reading.ended and reading.frames and chosen.numbers is not None:
            beyond = [low for low, _ in chosen.numbers.spans if low > reading.frames]
            if beyond:
                there = f"the capture has {counted(reading.frames, 'frame')}"
                raise FilterError(f"--frame: there is no frame {min(beyond):,}: {there}")
        return status


def _dissection(asked: Invocation, numbers: Ranges | None, *, all_frames: bool) -> BlockDissector[Any]:
    """Return the dissection that suits what is chosen: into all frames (``all_frames``), or only those that may be."""
    chosen = asked.frames
    wanted = None if all_frames or with_problems in chosen.filter.clauses else wanted_of(chosen.texts)
    if wanted is not None:
        return asked.dissect(partial(Picker, wanted))
    return asked.dissect(Dissection if numbers is None else partial(NumberPicker, numbers))
