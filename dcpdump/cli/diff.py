"""Provide ``dcpdump diff``: compare two captures of the same connections."""

import tempfile
from contextlib import ExitStack
from typing import Any

import click

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.capture.paths import expand
from dcpdump.cli.frame_output import Selected
from dcpdump.cli.grouped import command
from dcpdump.cli.listing import FORMATS, report
from dcpdump.cli.options import Invocation, format_option, option
from dcpdump.cli.reading import CaptureSource, Reading
from dcpdump.cli.summary import READ
from dcpdump.cli.terminal import note
from dcpdump.clock import writing_times
from dcpdump.compare.capture_rows import AckDissection, CaptureRows
from dcpdump.compare.comparison import Comparison
from dcpdump.compare.documents import Documents
from dcpdump.errors import ExitCode
from dcpdump.escape import safe
from dcpdump.render.diff import DIFF, DiffRows, DocumentRows

#: More frames than any capture has.
_ALL = 1 << 48


@command(
    "dcpdump diff producer.pcap consumer.pcap",
    "dcpdump diff before-proxy.pcap after-proxy.pcap --opcode mutation,deletion",
    "dcpdump diff consumer1.pcap consumer2.pcap --by key",
    params=[
        click.Argument(["a"], metavar="A"),
        click.Argument(["b"], metavar="B"),
        "time FRAMES",
        option(
            "--by [frame|key]",
            "What to compare: frames, or the last change of each document (seqno, CAS, value).",
            default="frame",
        ),
        option(
            "--frames N",
            "How many frames of each connection, or documents, to list; ndjson has all.",
            click.IntRange(min=0),
            default=20,
        ),
        "salvage keylog memory ONE-JOB",
        format_option(FORMATS),
        "color output force REDACTION quiet",
    ],
    rows=DIFF,
)
def diff(asked: Invocation, a: str, b: str, by: str, frames: int) -> int:
    """Compare two captures of the same connections: what one has and the other has not.

    A and B (files, folders, globs) are from producer and consumer, from before and after a proxy, or from two runs.
    Connections are paired by what they carry, so addresses may differ; the clocks of both are compared by the frames
    themselves. --by key compares documents: two consumers of a bucket, or a stream before and after a rollback.
    Redacted captures compare as the originals do, where both were made with one salt.

    The exit code is 1 where frames (or documents) differ, 0 where none does.
    """
    if a == b == "-":
        raise click.UsageError("standard input can be only one of the two")
    asked.captures = (a, b)
    asked.validate()
    paths = [expand((each,)) for each in (a, b)]
    with ExitStack() as stack:
        sink = stack.enter_context(asked.sink())
        folder, hides = tempfile.gettempdir(), asked.redactor is not None
        sides: list[Any] = [Documents(folder) if by == "key" else CaptureRows(folder, hides=hides) for _ in paths]
        for side in sides:
            stack.enter_context(side)
        readings = []
        for name, side, names in zip((a, b), sides, paths, strict=True):
            dissection = asked.dissect(AckDissection)
            keeping = _Keeping(asked.again(), side, dissection)
            reading = Reading(CaptureSource(asked.open(names)), dissection, keeping, sink)
            reading.analyse()
            readings.append(reading)
            if reading.status not in (ExitCode.DONE, ExitCode.DAMAGED):
                sink.abandon()  # half a comparison is none
                note(f"of {safe(name)}:")
                return reading.conclude(asked.summary)
        one, other = sides
        how = asked.redactor, min(frames, _ALL)
        rows = DocumentRows(one, other, *how) if by == "key" else DiffRows(Comparison(one, other), *how)
        with writing_times(asked.times, sides[0].first_ns, sides[0].last_ns):
            report(sink, asked, DIFF, rows.lines, rows.objects)
        if rows.remark is not None:
            asked.say(f"dcpdump: note: {rows.remark[0]}", f"hint: {rows.remark[1]}")
        statuses = [reading.conclude(asked.summary) for reading in readings]
        return ExitCode.FINDINGS if rows.differs else max(statuses)


class _Keeping(Selected):
    """A consumer that keeps chosen frames, or documents, and what was lost."""

    def __init__(self, asked: Invocation, side: CaptureRows | Documents, dissection: AckDissection) -> None:
        super().__init__(asked, side.feed, READ)
        self._dissection = dissection
        self._side = side
        if isinstance(side, CaptureRows):
            side.acknowledged = dissection.acknowledged

    def consume(self, batches: list[FrameBatch]) -> bool:
        """Keep the chosen rows; return whether there are enough."""
        self._side.lose(self._dissection.gaps)
        if isinstance(self._side, Documents):
            for batch in batches:
                self._side.losses.look(batch)
        return super().consume(batches)

    def finish(self) -> None:
        """Keep what was lost behind all frames."""
        self._side.lose(self._dissection.gaps)
