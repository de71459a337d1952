"""Do what ``read`` does in the simplest way: one packet at a time, each frame decoded, chosen and written by itself."""

import shlex
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from dcpdump.capture.file import Capture, timeline
from dcpdump.capture.paths import expand
from dcpdump.capture.source import FileSource
from dcpdump.cli.options import Invocation
from dcpdump.cli.read import read
from dcpdump.cli.summary import status_of, summarise
from dcpdump.dissect import Dissector
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
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
    asked = Invocation(options)
    chosen = asked.frames
    output = OUTPUTS[asked.format]
    limits = replace(DEFAULT, memory=options["memory"])
    files = tuple((path, _version(stdin if path == "-" else Path(path))) for path in expand(options["captures"]))
    captures, dissector, times, records = _dissected(files, stdin, options["salvage"], limits, asked.show_secrets)
    view = View(asked.value_bytes, Palette(asked.coloured(False)), file=len(captures) > 1)
    for ts_ns in times:
        chosen.begin(ts_ns)
    wanted = [record for record in records if chosen.filter.accepts(record)][: chosen.count]
    texts = [output.write(asked.shown(record), view) for record in wanted]
    sys.stdout.write("".join([output.header() if output.header else "", *texts]))
    summarise(dissector, captures, len(wanted), "none" if options["quiet"] else options["summary"])
    return status_of(dissector, captures)


def _version(path: Path | None) -> tuple[int, int]:
    """Return what a file has another of when something else is in it."""
    assert path is not None
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=32)
def _dissected(
    files: tuple[tuple[str, tuple[int, int]], ...],
    stdin: Path | None,
    salvage: bool,
    limits: Limits,
    show_secrets: bool,
) -> tuple[list[Capture], Dissector, list[int | None], list[Record]]:
    """Return captures that were read, by what, the times of their packets, and their frames."""
    captures = [
        Capture(path, salvage=salvage, source=None if path != "-" else lambda at: FileSource(str(stdin), at))
        for path, _ in files
    ]
    dissector = Dissector(limits, show_secrets=show_secrets)
    times, records = [], []
    for packet in timeline(captures):
        times.append(packet.ts_ns)
        records += dissector.feed(packet)
    return captures, dissector, times, records + dissector.close()
