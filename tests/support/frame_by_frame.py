"""Do what ``read`` does in the simplest way: one packet at a time, each frame decoded, chosen and written by itself."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

from dcpdump.capture import expand, open_capture, timeline
from dcpdump.capture.source import FileSource
from dcpdump.cli.options import display, selection
from dcpdump.cli.read import read
from dcpdump.cli.summary import status_of, summarise
from dcpdump.dissect import Dissector
from dcpdump.net.limits import DEFAULT
from dcpdump.render import OUTPUTS, View
from dcpdump.render.style import Palette
from tests.support.console import Printed, printed


def frame_by_frame(command: str, stdin: Path | None = None) -> Printed:
    """Return what ``dcpdump read …`` has to print; ``stdin``: the file that ``-`` stands for."""
    words = shlex.split(command)
    assert words[:2] == ["dcpdump", "read"], command
    return printed(lambda: _read(words[2:], stdin))


def _read(words: list[str], stdin: Path | None) -> int:
    with read.make_context("read", words) as context:
        options = dict(context.params)
    chosen, shown = selection(options), display(options)
    captures = [
        open_capture(path, salvage=options["salvage"], source=None if path != "-" else lambda: FileSource(str(stdin)))
        for path in expand(options["captures"])
    ]
    output = OUTPUTS[shown.format]
    view = View(shown.value_bytes, Palette(shown.coloured(False)), file=len(captures) > 1)
    dissector = Dissector(replace(DEFAULT, memory=options["memory"]), show_secrets=shown.show_secrets)
    records = []
    for packet in timeline(captures):
        chosen.begin(packet.ts_ns)
        records += dissector.feed(packet)
    records += dissector.close()
    wanted = [record for record in records if chosen.accepts(record)][: chosen.count]
    texts = [output.write(shown.shown(record), view) for record in wanted]
    sys.stdout.write("".join([output.header() if output.header else "", *texts]))
    summarise(dissector, captures, len(wanted), "none" if options["quiet"] else options["summary"])
    return status_of(dissector, captures)
