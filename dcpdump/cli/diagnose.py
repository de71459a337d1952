"""Provide ``dcpdump diagnose``: what a capture holds, what is wrong, worst first, and what shows more; on a screen."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dcpdump.batch.block import Block
from dcpdump.browse.analysed import analysis_of
from dcpdump.browse.analysis import Analysis
from dcpdump.capture.paths import in_short
from dcpdump.capture.source import bytes_read
from dcpdump.cli.analysis import AnalysisResult, analysis
from dcpdump.cli.check import Checking
from dcpdump.cli.options import Invocation, option
from dcpdump.cli.reading import CaptureSource, Reading
from dcpdump.diagnosis.diagnosis import diagnose as diagnosed
from dcpdump.diagnosis.trouble import Command, command_line
from dcpdump.render.diagnosis import DIAGNOSIS, lines, objects
from dcpdump.streams.causes import Degree

#: Options that choose, and are chosen by again in the commands that show more.
_CARRIED = ("connection", "host", "port", "vbucket", "stream_id", "since", "until", "tz", "time", "redact_level")


@analysis(
    DIAGNOSIS,
    "dcpdump diagnose node1.pcap",
    "sudo dcpdump diagnose -i eth0 --duration 60",
    "dcpdump diagnose node1.pcap -f ndjson",
    params=[
        option(
            f"--fail-on [{Degree.WRONG.value}|{Degree.NOTE.value}|never]",
            "Exit with 1 where something is wrong, or where there is a note too.",
            default="wrong",
        ),
        option("--all", "All of it, not the worst alone.", name="everything"),
    ],
    reader=Checking,
)
def diagnose(reading: Checking, asked: Invocation, fail_on: str, everything: bool) -> AnalysisResult:
    """Say on one screen what a capture holds, and what is wrong in it, worst first.

    Rollback loops; streams that ended, are stuck or were refused; refused logins, buckets and DCP_OPENs; broken rules;
    blocked by flow control; ends that do not read (a TCP window of zero), or do not answer; closed connections;
    consumers that connect again and again; lost bytes. Each with the command that shows more; and what was not judged,
    and why. Filters choose streams and connections; every frame is read nevertheless.
    """
    carried, named = carried_options(asked.options), in_short(asked.captures)
    found = diagnosed(reading.evidence())

    def line(command: Command) -> str:
        return command_line(command, named, carried)

    return AnalysisResult(
        lambda: lines(found, names_of(asked.paths), line, everything=everything),
        lambda: objects(found, asked.paths, line),
        fail_on != "never" and any(each.wrong or fail_on == Degree.NOTE.value for each in found.troubles),
    )


def carried_options(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the options that are given again to the commands that show more, each with its value, if it has one."""
    found = [(f"--{name.replace('_', '-')}", options[name]) for name in _CARRIED if options.get(name)]
    found += [("--keylog", name) for name in options.get("keylog") or ()]
    return found + [(f"--{name}", "") for name in ("salvage", "align", "redact") if options.get(name)]


def names_of(paths: Sequence[str]) -> str:
    """Name captures: one, or the first and the last."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths)} captures)"


# -- the tabs of the browser --------------------------------------------------------------------------
# The ledger of streams and the rules over all frames, as ``streams`` and ``check`` have them.


def analyse(paths: Sequence[str], asked: Invocation, report: Callable[[float], None]) -> Analysis:
    """Return what the tabs show; ``report`` receives from time to time how much was read, up to 1."""
    size = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
    watched = Watched(asked, report, size)
    watched.source = CaptureSource(asked.open(paths))
    Reading(watched.source, watched.dissection, watched).read()
    return analysis_of(watched.evidence())


class Watched(Checking):
    """The rules over all frames, and how far they are. ``size``: of all captures."""

    def __init__(self, asked: Invocation, report: Callable[[float], None], size: int) -> None:
        super().__init__(asked)
        self._report, self._size, self._due = report, size, 0.0

    def observe(self, block: Block) -> None:
        """Report how much was read, a few times a second."""
        super().observe(block)
        if time.monotonic() > self._due:
            self._due = time.monotonic() + 0.2
            self._report(min(1.0, bytes_read() / max(1, self._size)))
