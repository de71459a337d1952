"""dcpdump read: captures → frames, chosen and shown."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import click

from dcpdump.capture import Capture, expand, open_capture, timeline
from dcpdump.cli import exit as code
from dcpdump.cli.options import (
    Display,
    Selection,
    Size,
    display,
    display_options,
    note,
    selection,
    selection_options,
)
from dcpdump.cli.sink import PipeClosed, Sink
from dcpdump.cli.summary import balance, balance_line, damage_lines, nothing_found
from dcpdump.dissect import Dissector
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
from dcpdump.render import OUTPUTS, View
from dcpdump.render.style import Palette


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@selection_options(captures=True)
@display_options
@click.option("--salvage", is_flag=True, help="After garbage in a capture, go on at the next plausible record.")
@click.option("-F", "--follow", is_flag=True, help="Wait for more at the end of a capture that is still being written.")
@click.option("--memory", type=Size(), default="256M", show_default=True, help="Most memory to put segments in order.")
@click.option(
    "--summary", type=click.Choice(["text", "json", "none"]), default="text", help="The balance of all bytes."
)
@click.option("-q", "--quiet", is_flag=True, help="No summary: --summary none.")
def read(
    captures: tuple[str, ...], salvage: bool, follow: bool, memory: int, summary: str, quiet: bool, **options: Any
) -> int:
    """Print the DCP frames of captures: pcap and pcapng, plain or compressed.

    CAPTURE is a file, a folder, a glob, or - for standard input. Several are one timeline, in which a TCP
    connection goes on from one file into the next. DCP is found by its content, on any port.
    """
    chosen, shown = selection(options), display(options)
    paths = expand(captures)
    inputs = [open_capture(path, salvage=salvage, follow=follow) for path in paths]
    with Sink(shown.path, force=shown.force, inputs=paths) as sink:
        reading = Reading(inputs, chosen, shown, sink, replace(DEFAULT, memory=memory), prompt=follow)
        return reading.run("none" if quiet else summary)


class Reading:
    """One run over captures: what was chosen, where it goes, and what it came to."""

    def __init__(
        self,
        captures: Sequence[Capture],
        chosen: Selection,
        shown: Display,
        sink: Sink,
        limits: Limits = DEFAULT,
        *,
        prompt: bool = False,
    ) -> None:
        self._captures = captures
        self._chosen = chosen
        self._sink = sink
        self._shown_as = shown.shown
        self._output = OUTPUTS[shown.format]
        self._view = View(shown.value_bytes, Palette(shown.coloured(sink.is_terminal)), file=len(captures) > 1)
        self._dissector = Dissector(limits, show_secrets=shown.show_secrets)
        self._shown = 0
        #: A pipe may still be written to, and a person may be looking: they see each packet's frames at once.
        self._prompt = prompt or sink.is_terminal or any(capture.name == "-" for capture in captures)

    def run(self, summary: str) -> int:
        """It reads everything (or as much as was asked for), and gives the exit code."""
        if self._output.header is not None:
            self._sink.write(self._output.header())
        try:
            self._read()
        finally:
            # However it ends, what was done so far is told.
            if sys.exc_info()[0] is not PipeClosed:
                self._sink.flush()
                self._summarise(summary)
        return self._status()

    def _read(self) -> None:
        for packet in timeline(self._captures):
            self._chosen.begin(packet.ts_ns)
            records = self._dissector.feed(packet)
            if records and self._show(records):
                return
        self._show(self._dissector.close())

    def _show(self, records: Iterable[Record]) -> bool:
        """It writes those of the records that are wanted; true when there are enough."""
        wrote = False
        for record in records:
            if not self._chosen.accepts(record):
                continue
            self._sink.write(self._output.write(self._shown_as(record), self._view))
            wrote = True
            self._shown += 1
            if self._shown == self._chosen.count:
                return True
        if wrote and self._prompt:
            self._sink.flush()
        return False

    def _summarise(self, summary: str) -> None:
        dissector = self._dissector
        for line in damage_lines(self._captures):
            note(line)
        if summary == "json":
            note(json.dumps(balance(dissector, self._captures, self._shown)))
        elif dissector.tally.frames == 0:
            what, hint = nothing_found(dissector)
            note(f"dcpdump: error: {what}")
            note(f"hint: {hint}")
        elif summary == "text":
            note(balance_line(dissector, self._shown))

    def _status(self) -> int:
        tally, net = self._dissector.tally, self._dissector.balance
        if any(capture.health.damage_count for capture in self._captures):
            return code.DAMAGED
        if tally.frames == 0:
            return code.UNUSABLE
        return code.DAMAGED if tally.lost_bytes or tally.skipped_bytes or net.conflicts else code.DONE
