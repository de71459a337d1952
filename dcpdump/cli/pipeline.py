"""Provide ``dcpdump pipeline``: write archives of captures as tables, on Spark or, where small, on this machine."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import click

from dcpdump.cli.export import TABLES, cut_notes, need_pyarrow, tables_option
from dcpdump.cli.grouped import command
from dcpdump.cli.options import Invocation, Size, is_given, option, value_bytes_option
from dcpdump.cli.signals import raise_again
from dcpdump.cli.sink import folder_of, saying_what_is_left
from dcpdump.cli.terminal import clear_status, note, status
from dcpdump.errors import CaptureError, ExitCode
from dcpdump.escape import bytes_of
from dcpdump.processes import LEAST_BYTES
from dcpdump.render.text_columns import bytes_text
from dcpdump.startup import dataclass
from dcpdump.text import counted

if TYPE_CHECKING:
    from dcpdump.spark.indexing import Outcome
    from dcpdump.spark.job import DecodingJob, JobEngine
    from dcpdump.spark.local import Progress

#: Input of less than this is done here before Spark has started.
SMALL_BYTES = 1_000_000_000
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  #: in the environment of what spark-submit runs
_SEALED = "--watch opens no TLS: it would have to keep what opens it from one run to the next"
_HIDDEN = "--keep-index keeps bytes of frames as they are: not with --redact"
#: The tables that --watch writes: the others look at all of an input.
WATCHED = ("frames", "gaps", "files")


def _setting(value: str) -> tuple[str, str]:
    """Return the name and the value of a setting of Spark."""
    key, mark, text = value.partition("=")
    if not mark or not key:
        raise click.BadParameter(f"{value!r} is not a setting, such as spark.executor.memory=4g")
    return key, text


def _capture_id(value: str) -> str:
    """Return a name, if it can be that of a folder on any file system."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", value):
        raise click.BadParameter(f"{value!r} holds more than letters, digits, '.', '_' and '-'")
    return value


@dataclass(frozen=True, slots=True)
class Job:
    """What to write, from what, and how."""

    asked: Invocation
    output: str
    decoding: "DecodingJob"  #: what is the same for all tasks, but the folder that they write to
    conf: dict[str, str]
    tables: tuple[str, ...]

    def sum_up(self, outcome: "Outcome", batch: str = "") -> None:
        """Say what was written, and where values were cut. ``batch``: of a watch."""
        self.asked.say(*cut_notes(outcome.cut, self.decoding.options.value_bytes), batch + _summary(self, outcome))


@command(
    "dcpdump pipeline captures/ -o tables",
    "dcpdump pipeline s3://archive/node1/ -o s3://tables/ --capture-id node1",
    "dcpdump pipeline captures/ -o tables --watch",
    params=[
        click.Argument(["captures"], nargs=-1, metavar="CAPTURE…"),
        option(
            "--engine [auto|local|spark]",
            "auto: Spark from 1 GB of input on; it takes longer to start.",
            default="auto",
        ),
        option("--master URL", "Spark master URL; the default: local[*,4], or what spark-submit says."),
        option("--conf NAME=VALUE", "A setting of Spark; repeatable.", _setting, multiple=True),
        tables_option(",".join(TABLES)),
        option("--capture-id ID", "The name of this input in the tables; a second run replaces it.", _capture_id),
        option(
            "--chain [folder|file|all]",
            "Which captures are one timeline. Of several timelines, each has the name ID~FOLDER.",
            default="folder",
        ),
        option("--split SIZE", "Bytes of captures that are one task.", Size(least="4k"), default="64M"),
        option("--file-mb MB", "Megabytes of captures in one file of frames.", click.IntRange(min=1)),
        option("--keep-index", 'Write the table index too, which tells format("dcp") where its tasks begin.'),
        option("--watch", "Decode captures as they are closed, until interrupted: frames, gaps and files."),
        option(
            "--idle SECONDS",
            "With --watch: a capture counts as closed after so long without growth.",
            click.FloatRange(min=0),
            default=30.0,
        ),
        option("--duration SECONDS", "With --watch: end after so long.", click.FloatRange(min=0)),
        "salvage keylog memory",
        option("-j, --jobs N", "Most processes of Spark on this machine; the default: the cores."),
        "CONTENTS connection host port problems since until tz",
        value_bytes_option("all"),
        option("-o, --output DIR", "The folder of the tables: other captures' rows stay as they are."),
        "show-secrets REDACTION",
        option("-q, --quiet", "No progress, and no summary."),
    ],
    uncut=("",),
)
def pipeline(
    asked: Invocation,
    engine: str,
    conf: tuple[tuple[str, str], ...],
    capture_id: str | None,
    split: int,
    file_mb: int | None,
    watch: bool,
) -> int:
    """Write archives of captures as tables: frames, gaps, streams, findings, files.

    CAPTURE is a file, a folder, a glob, or one of these in object storage (s3://BUCKET/FOLDER). DIR gets a folder
    for each table, in it one for this input (capture_id=…), in it one for each day. Filters choose the rows of
    frames; streams and findings look at all.
    """
    need_pyarrow()
    asked.validate()
    options, captures = asked.options, asked.captures
    if not captures:
        raise click.UsageError("Missing argument 'CAPTURE…'.")
    from dcpdump.batch.block import BLOCK_BYTES
    from dcpdump.spark.decoding import Options
    from dcpdump.spark.job import DecodingJob

    folder, tables = folder_of(asked.path), options["tables"]
    choice = Options(
        asked.frames.masks,
        asked.value_bytes,
        asked.show_secrets,
        asked.redactor,
        asked.salvage,
        asked.memory,
        min(split, BLOCK_BYTES),
    )
    file_bytes = file_mb * 1_000_000 if file_mb else split
    decoding = DecodingJob(capture_id or _named(captures), "", frozenset(tables), choice, split, file_bytes)
    job = Job(asked, folder, decoding, _cores(options["jobs"], options["master"]) | dict(conf), tables)
    if asked.keys.files and watch:
        raise click.UsageError(_SEALED)
    if options["keep_index"] and asked.redactor is not None:
        raise click.UsageError(_HIDDEN)
    if watch and is_given("tables") and not set(tables) <= set(WATCHED):
        raise click.UsageError(f"--watch writes {', '.join(WATCHED)} alone: the others look at all of an input")
    return follow(job, engine) if watch else run(job, engine)


def run(job: Job, engine: str) -> int:
    """Run the job with an engine, publish the tables, and return the exit code."""
    from dcpdump.spark.chain import chains
    from dcpdump.spark.filesystem import inputs
    from dcpdump.spark.job import run as run_tasks
    from dcpdump.spark.output import CaptureOutput

    options, captures = job.asked.options, job.asked.captures
    found = inputs(captures)
    size = sum(each.size for each in found)
    if engine == "auto":
        asked = options["master"] is not None or _SUBMITTED in os.environ
        engine = "spark" if asked or size >= SMALL_BYTES else "local"
        if engine == "local":
            much = f"{bytes_text(size)} in {counted(len(found), 'file')}"
            job.asked.say(f"{much}: done here without Spark, which takes longer to start")
    some = chains(found, options["chain"], captures)
    with CaptureOutput(job.output, job.decoding.name) as output:
        with saying_what_is_left(lambda: f"nothing was written to {job.output}"):
            key_log = None if job.asked.secrets is None else job.asked.secrets.key_log()
            with _engine(job, engine, 1 if size < LEAST_BYTES else options["jobs"]) as tasks:
                outcome = run_tasks(tasks, replace(job.decoding, folder=output.folder), some, key_log)
        job.asked.say(*_problems(outcome))
        if not outcome.frames:
            output.withdraw()  # old rows must not be taken for new ones
            raise _nothing(outcome)
        tables = {*job.tables, *(("index",) if options["keep_index"] else ())}
        output.publish(outcome.written, tables, [each.name for each in some])
    job.sum_up(outcome)
    return ExitCode.DONE if outcome.complete else ExitCode.DAMAGED


@contextmanager
def _engine(job: Job, name: str, jobs: int | None) -> "Iterator[JobEngine]":
    """Provide what runs tasks: processes of this machine, ``jobs`` at most, or Spark."""
    if name == "local":
        from dcpdump.spark.local import LocalEngine

        yield LocalEngine(jobs or os.cpu_count() or 1, _reporting(job))
        return
    from dcpdump.spark.cluster import SparkEngine
    from dcpdump.spark.launch import spark_context

    raise_again()  # of a signal that came while all that was imported
    shown = {"spark.ui.showConsoleProgress": "true"} if _reporting(job) else {}
    with spark_context(job.asked.options["master"], shown | job.conf) as context, SparkEngine(context) as engine:
        job.asked.say(f"tasks run on Spark {context.version} ({context.master})")
        yield engine


def _reporting(job: Job) -> "Progress | None":
    return _progress if sys.stderr.isatty() and job.asked.summary != "none" else None


def _progress(what: str, done: int, tasks: int) -> None:
    """Report how far a round is, on one line of the terminal."""
    status(f"{what}: {done:,} of {counted(tasks, 'task')}")
    if done == tasks:
        clear_status()


def follow(job: Job, engine: str) -> int:
    """Decode captures as they are closed, until interrupted, and return the exit code."""
    hurt, captures, options, named, say = False, 0, job.asked.options, job.asked.captures, job.asked.say
    tables = tuple(name for name in job.tables if name in WATCHED)
    job = replace(job, tables=tables, decoding=replace(job.decoding, tables=frozenset(tables)))
    with _engine(job, engine, options["jobs"]) as tasks:
        from dcpdump.spark.watch import FolderWatch

        say(f"watching {', '.join(named)}: a capture is read when it did not grow for {options['idle']:g} s")
        watch = FolderWatch(named, job.output, job.decoding, options["chain"], options["idle"])
        with saying_what_is_left(lambda: _watched(captures, job.output)):
            for number, count, outcome in watch.batches(tasks, options["duration"]):
                hurt |= not outcome.complete
                captures += count
                say(*_problems(outcome))
                job.sum_up(outcome, f"batch {number}: ")
        if not captures:
            say(_watched(captures, job.output))
        say(*(f"dcpdump: note: {path}: it may still grow, and was not read" for path in watch.arrivals.open()))
        for path in watch.arrivals.grown():
            hurt = True
            note(f"dcpdump: warning: {path}: it grew after it was read: a larger --idle waits longer")
    return ExitCode.DAMAGED if hurt else ExitCode.DONE


def _watched(captures: int, output: str) -> str:
    """Return what is left of a watch that is broken off; a batch that was not finished is done again by the next."""
    if not captures:
        return f"nothing was written to {output}"
    return f"{counted(captures, 'capture')} {'was' if captures == 1 else 'were'} written to {output}"


def _cores(jobs: int | None, master: str | None) -> dict[str, str]:
    """Return the setting for how many cores of this machine Spark uses, where nothing else says what it runs on."""
    elsewhere = master is not None or _SUBMITTED in os.environ
    return {} if jobs is None or elsewhere else {"spark.master": f"local[{jobs},4]"}


def _named(captures: Sequence[str]) -> str:
    """Return a name for the input: the same arguments in the same folder give the same name."""
    words = [word if "://" in word else os.path.abspath(word) for word in captures]
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(words[0].rstrip("/"))).strip("-") or "captures"
    return f"{stem[:48]}-{sha256(bytes_of(chr(0).join(words))).hexdigest()[:8]}"


def _problems(outcome: "Outcome") -> list[str]:
    return [f"dcpdump: warning: {row['file']}: {row['problem']}" for row in outcome.files if row["problem"]]


def _nothing(outcome: "Outcome") -> CaptureError:
    """Return the error of an input without frames: the first problem, where no file can be read."""
    files = outcome.files
    if all(row["status"] == "unusable" for row in files):
        several = f"none of {len(files)} files can be read: " if len(files) > 1 else ""
        return CaptureError(several + files[0]["problem"], files[0]["file"])
    packets = sum(row["packets"] for row in files)
    found = [counted(len(files), "file"), counted(packets, "packet")]
    found += [f"{name} on port {port}" for (name, port), count in outcome.foreign.most_common(4) if count]
    return CaptureError(
        f"no DCP in the input: {', '.join(found)}", hint="dcpdump read FILE says more about one of them"
    )


def _summary(job: Job, outcome: "Outcome") -> str:
    rows = {name: 0 for name in job.tables if name != "files"}
    for each in outcome.written:
        if each.table in rows:
            rows[each.table] += each.rows
    words = [f"{count:,} {name if count != 1 else name.removesuffix('s')}" for name, count in rows.items()]
    if "frames" in rows:
        words[0] = f"{rows['frames']:,} of {counted(outcome.frames, 'frame')}"
    hurt = sum(row["status"] != "ok" for row in outcome.files)
    words.append(counted(len(outcome.files), "file") + (f", {hurt:,} damaged" if hurt else ""))
    words += [outcome.lost.words("B")] * bool(outcome.lost.gaps)
    words += [f"{outcome.skipped_bytes:,} B skipped"] * bool(outcome.skipped_bytes)
    return f"{' · '.join(words)} → {job.output} (capture_id={job.decoding.name})"
