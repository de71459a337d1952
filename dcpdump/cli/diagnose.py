"""dcpdump diagnose: one screen: what a capture holds, what is wrong, worst first, and what shows more."""

from collections.abc import Mapping
from typing import Any

import click

from dcpdump.capture.paths import expand, in_short
from dcpdump.check.rules import RULES
from dcpdump.cli import exit as code
from dcpdump.cli.check import Checking
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.input_options import input_of, input_options
from dcpdump.cli.ledger_reading import choosing, choosing_options
from dcpdump.cli.listing import report
from dcpdump.cli.options import display, display_options
from dcpdump.cli.sink import Sink
from dcpdump.cli.terminal import terminal_size
from dcpdump.diagnosis.diagnosis import Diagnosis
from dcpdump.diagnosis.diagnosis import diagnose as diagnosed
from dcpdump.diagnosis.trouble import Command, Evidence, command_line
from dcpdump.render import diagnosis as rows
from dcpdump.render.json_schema import schema_of
from dcpdump.streams.causes import Degree
from dcpdump.streams.verdict import Judge

#: Options that choose, and are chosen by again in the commands that show more.
_CARRIED = ("connection", "host", "port", "vbucket", "stream_id", "since", "until", "tz", "time", "redact_level")
#: Longer lines are hard to read.
_WIDEST = 120
_DEGREES = (Degree.WRONG.value, Degree.NOTE.value)


@click.command(cls=GroupedCommand, schema=lambda: schema_of("diagnose", rows.DIAGNOSIS))
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@choosing_options(streams=True)
@click.option(
    "--fail-on",
    type=click.Choice([*_DEGREES, "never"]),
    default="wrong",
    show_default=True,
    help="Exit with 1 where something is wrong, or where there is a note too.",
)
@click.option("--all", "everything", is_flag=True, help="All of it, not the worst alone.")
@input_options()
@display_options(formats=("text", "ndjson"), value_bytes="", secrets=False)
@click.option("-q", "--quiet", is_flag=True, help="No summary on standard error.")
def diagnose(captures: tuple[str, ...], fail_on: str, everything: bool, quiet: bool, **options: Any) -> int:
    """Say on one screen what a capture holds, and what is wrong in it, worst first.

    Rollback loops; streams that ended, are stuck or were refused; refused logins, buckets and DCP_OPENs; broken rules;
    blocked by flow control; ends that do not read (a TCP window of zero), or do not answer; closed connections;
    consumers that connect again and again; lost bytes. Each with the command that shows more; and what was not judged,
    and why. Filters choose streams and connections; every frame is looked at, whatever they say.
    """
    carried = carried_options(options)
    chosen, shown, given = choosing(options), display(options), input_of(options, captures)
    paths, named = expand(captures), in_short(captures)

    def line(command: Command) -> str:
        return command_line(command, named, carried)

    with Sink(shown.path, force=shown.force, inputs=paths, paged=True) as sink:
        consumer = Checking(chosen, shown, given, RULES, everything=False)
        reading = consumer.read(paths, sink)
        found = diagnosed(evidence_of(consumer))
        if consumer.ledger.frames:
            width = min(_WIDEST, terminal_size().columns) if sink.is_terminal else None
            report(
                sink,
                shown,
                lambda: rows.lines(found, names_of(paths), line, width=width, everything=everything),
                lambda: rows.objects(found, paths, line),
            )
        status = reading.conclude("none" if quiet else "text")
    return code.FINDINGS if status in (code.DONE, code.DAMAGED) and _fails(found, fail_on) else status


def evidence_of(consumer: Checking) -> Evidence:
    """Return what a reading that is over has to say."""
    judge = Judge(consumer.ledger)
    return Evidence(
        consumer.ledger,
        [(stream, judge.verdict(stream)) for stream in consumer.streams],
        consumer.connections,
        consumer.findings,
        len(consumer.rules),
        consumer.dissection.tally,
        consumer.dissection.balance,
        [capture.health for capture in consumer.captures],
        consumer.times.first_ns,
        consumer.times.last_ns,
        consumer.unanswered,
        [(number, sealing) for number in consumer.closed if (sealing := consumer.dissection.sealings[number]).failure],
        consumer.evicted,
    )


def carried_options(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the options that are given again to the commands that show more, each with its value, if it has one."""
    found = [(f"--{name.replace('_', '-')}", options[name]) for name in _CARRIED if options.get(name)]
    found += [("--keylog", name) for name in options.get("keylog") or ()]
    return found + [(f"--{name}", "") for name in ("salvage", "redact") if options.get(name)]


def names_of(paths: list[str]) -> str:
    """Name captures: one, or the first and the last."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths)} captures)"


def _fails(found: Diagnosis, fail_on: str) -> bool:
    """Return whether there is anything as bad as that."""
    if fail_on == "never":
        return False
    return any(trouble.wrong or fail_on == Degree.NOTE.value for trouble in found.troubles)
