"""Provide ``dcpdump stats``: count the frames of captures by bytes, sizes, latencies and rates."""

import click

from dcpdump.batch.dissector import Dissection
from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.statistics import HotKeys, Statistics
from dcpdump.cli.frame_output import Selected
from dcpdump.cli.grouped import command
from dcpdump.cli.listing import FORMATS, report, sort_options, sorting
from dcpdump.cli.options import Invocation, format_option, option, time_option
from dcpdump.cli.reading import Reading
from dcpdump.cli.summary import COUNTED
from dcpdump.clock import writing_times
from dcpdump.redact import redacted_direction
from dcpdump.render import statistics
from dcpdump.text import counted


class _Counting(Selected):
    """A consumer that counts chosen frames; who the clients are, the others say too."""

    def __init__(self, asked: Invocation, found: Statistics) -> None:
        super().__init__(asked, found.feed, COUNTED)
        self._found = found

    def consume(self, batches: list[FrameBatch]) -> bool:
        """Count frames; return whether there are enough."""
        for batch in batches:
            self._found.learn_clients(batch)
        return super().consume(batches)


@command(
    "dcpdump stats node1.pcap",
    "dcpdump stats captures/ --connection 3",
    "dcpdump stats node1.pcap --opcode mutation --keys 20",
    params=[
        "[CAPTURE…]",
        time_option("as r"),
        "FRAMES LIVE",
        *sort_options(statistics.COUNTED),
        "INPUT",
        format_option(FORMATS),
        "color output force REDACTION",
        option(
            "--keys N",
            "Also list the N keys with most frames, and the N with most bytes.",
            click.IntRange(1, 10_000),
        ),
        "quiet",
    ],
    rows=statistics.STATISTICS,
)
def stats(asked: Invocation, keys: int | None) -> int:
    """Count the frames of captures: by message, connection and vbucket, sizes, latencies, throughput."""
    order = sorting(statistics.COUNTED, asked.options)
    asked.validate()
    source = asked.source()
    with asked.sink() as sink:
        hot = None if keys is None else HotKeys(asked.memory)
        found = Statistics(asked.memory, keys=hot)
        dissection = asked.dissect(Dissection)
        reading = Reading(source, dissection, _Counting(asked, found), sink)
        with source.opened(dissection):
            reading.analyse()
        if hot is not None and keys is not None:
            found.documents = [each.redacted(asked.redactor) for each in hot.top(keys)]
        found.clients = {number: each.redacted(asked.redactor) for number, each in found.clients.items()}
        redacted = ((redacted_direction(each, asked.redactor), amount) for each, amount in found.directions.items())
        found.directions = dict(redacted)
        if dissection.tally.frames:
            with writing_times(asked.times, found.total.first_ns, found.total.last_ns):
                report(
                    sink,
                    asked,
                    statistics.STATISTICS,
                    lambda: statistics.lines(found, order),
                    lambda: statistics.objects(found, order),
                )
        if found.unlisted.frames:
            asked.say(
                f"dcpdump: note: to stay within --memory, {counted(found.unlisted.frames, 'frame')} and "
                f"{counted(found.unlisted.bytes, 'byte')} of later connections are counted in no row of connections: "
                "a larger --memory lists more"
            )
        return reading.conclude(asked.summary)
