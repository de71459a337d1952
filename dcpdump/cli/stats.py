"""dcpdump stats: counts, bytes, sizes, latencies and rates of the frames of captures."""

from typing import Any

import click

from dcpdump.capture import expand, open_capture
from dcpdump.cli.analysis import Analysis
from dcpdump.cli.options import display, display_options, selection, selection_options
from dcpdump.cli.sink import Sink
from dcpdump.cli.summary import COUNTED
from dcpdump.columnar.part import Part
from dcpdump.columnar.statistics import Statistics
from dcpdump.render import ndjson, statistics


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@selection_options(captures=True)
@display_options(formats=("text", "ndjson"))
@click.option("-q", "--quiet", is_flag=True, help="No summary on standard error.")
def stats(captures: tuple[str, ...], quiet: bool, **options: Any) -> int:
    """Count the frames of captures: by message, connection and vbucket, sizes, latencies, throughput."""
    chosen, shown = selection(options), display(options)
    paths = expand(captures)
    inputs = [open_capture(path) for path in paths]
    with Sink(shown.path, force=shown.force, inputs=paths) as sink:
        counting = Counting(inputs, chosen, shown, sink)
        counting.read()
        counting.tell()
        return counting.conclude("none" if quiet else "text")


class Counting(Analysis):
    """A reading that counts frames instead of writing them."""

    _verb = COUNTED

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._statistics = Statistics()

    def _show_rows(self, part: Part, rows: list[int]) -> None:
        self._statistics.feed(part, rows)

    def tell(self) -> None:
        """It writes what was counted."""
        if not self._statistics.total.frames:
            return
        if self._form == "ndjson":
            for row in statistics.objects(self._statistics):
                self._sink.write(ndjson.dump(row) + "\n")
        else:
            for line in statistics.lines(self._statistics):
                self._sink.write(self._view.palette.paint(line) + "\n")
