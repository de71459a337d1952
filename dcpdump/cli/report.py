"""dcpdump report: one HTML page of a capture: what is wrong, with pictures, down to the bytes that prove it."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.capture.paths import in_short
from dcpdump.check.finding import Finding
from dcpdump.check.rule import Rule, Severity
from dcpdump.check.rules import RULES
from dcpdump.cli.analysis import choosing_options
from dcpdump.cli.check import Checking
from dcpdump.cli.diagnose import carried_options, names_of
from dcpdump.cli.grouped import command
from dcpdump.cli.options import Invocation, option
from dcpdump.cli.reading import CaptureSource
from dcpdump.diagnosis.diagnosis import diagnose
from dcpdump.diagnosis.trouble import command_line
from dcpdump.report.context import Context
from dcpdump.report.details import choose
from dcpdump.report.draw import TimeAxis
from dcpdump.report.gathered import Gathered
from dcpdump.report.page import choose_frames, page
from dcpdump.streams.dissection import EndsWatching, Watching
from dcpdump.streams.frame_event import Step

_MOST_FRAMES = 500
_KEPT = (Severity.VIOLATION, Severity.SUSPICIOUS)


@command(
    "dcpdump report node1.pcap -o node1.html",
    "dcpdump report captures/ -o ticket.html --redact --title 'lag of kafka-orders'",
    "dcpdump report node1.pcap -o hour.html --since 12:00:00 --until 13:00:00",
    params=[
        "CAPTURE…",
        option("-o, --output FILE", "The page, written whole or not at all."),
        "force",
        option("--title TEXT", "What stands at the top; the captures' names by default."),
        option("--frames N", "Annotated frames, at most.", click.IntRange(0, _MOST_FRAMES), default=100),
        option("--no-check", "Skip protocol rules."),
        *choosing_options(streams=True),
        "INPUT REDACTION quiet",
    ],
)
def report(asked: Invocation, output: str | None, title: str | None, frames: int) -> int:
    """Write one HTML page: what is wrong, worst first, with pictures, down to the bytes that prove it.

    The page needs no network and no other file, and runs nothing but its own script. Filters choose what is pictured;
    every frame is read nevertheless. Without --redact it holds keys and up to 64 bytes of some values.
    """
    if output is None and (sys.stdout is None or sys.stdout.isatty()):
        raise click.UsageError("a page is not for a terminal: name a file with -o page.html")
    consumer = Reporting(asked)
    with asked.sink(paged=False) as sink:
        reading = consumer.read(CaptureSource(asked.open(asked.paths)), sink)
        if not consumer.ledger.frames:
            sink.abandon()
        else:
            sink.write(page(context_of(consumer, asked, title or names_of(asked.paths), frames)))
        return reading.conclude(asked.summary)


class Reporting(Checking):
    """The rules over all frames; also gathers what the pictures need."""

    def __init__(self, asked: Invocation) -> None:
        super().__init__(asked)
        self.gathered = Gathered(self.redactor)

    def _rules_of(self) -> Sequence[Rule]:
        """Return all rules, or none."""
        return () if self._asked.options["no_check"] else RULES

    def _dissecting(self) -> Callable[..., EndsWatching[Any]]:
        """Return the dissection into batches, which the pictures are made from."""
        return Watching

    def consume(self, batches: list[FrameBatch]) -> bool:
        """Gather, and learn everything."""
        gathered, wanted = self.gathered, self._wanted
        gathered.since_ns = None if wanted.since is None else wanted.since.at(self.begins_ns)
        gathered.consume(batches, self.dissection.gaps)
        return super().consume(batches)

    def _learn(self, step: Step) -> None:
        super()._learn(step)
        self.gathered.learnt(step, self.ledger)

    def _keep(self, finding: Finding) -> None:
        if finding.severity in _KEPT:
            self.gathered.frames.want(finding.frame)
        super()._keep(finding)


def context_of(consumer: Reporting, asked: Invocation, title: str, frames: int) -> Context:
    """Return what the page is made from, once everything was read. ``frames``: the most annotated ones."""
    gathered, redactor = consumer.gathered, consumer.redactor
    gathered.frames.forget_parts()
    axis = gathered.traffic.axis
    times = None
    if consumer.ledger.last_ns is not None:
        axis.extend(consumer.ledger.last_ns)
    if axis.origin_ns is not None:
        times = TimeAxis(axis.origin_ns, axis.origin_ns + axis.used * axis.step_ns)
    line = partial(command_line, captures=in_short(asked.captures), options=carried_options(asked.options))
    context = Context(diagnose(consumer.evidence()), gathered, times, title, line, redacted=redactor is not None)
    choose(context)
    wanted = choose_frames(context)[:frames]
    for number, record in gathered.frames.frames(wanted).items():
        context.records[number] = record if redactor is None else redactor.record(record)
    return context
