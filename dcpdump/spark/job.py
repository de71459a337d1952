"""Decode captures by many tasks at once, each continuing from the state in which the one before it ends.

First every task surveys its piece of the input from a guess; their results are put together, which yields the true
state at the beginning of each piece. Then each task decodes its piece from there. What a task wrote in an earlier
round, for a piece that had to be decoded once more, does not count.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from dcpdump.arrow.verdicts import verdict_rows
from dcpdump.conversation import Missing
from dcpdump.spark.decoding import decode_split
from dcpdump.spark.event_log import EventReplay
from dcpdump.spark.filesystem import below, open_binary
from dcpdump.spark.input import Input
from dcpdump.spark.outcome import DAMAGED, LATE, OK, UNUSABLE, Outcome
from dcpdump.spark.parts import Parts, Written, table_of
from dcpdump.spark.row_options import Options
from dcpdump.spark.seams import settle, verify
from dcpdump.spark.split_plan import SplitPlan, plan_splits
from dcpdump.spark.split_survey import survey_split
from dcpdump.spark.splits import TARGET
from dcpdump.spark.task_rounds import Progress, TaskRounds
from dcpdump.spark.work import Exit, InputState, Surveyed, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JUDGED = ("streams", "findings")
_LATE = "it came late: packets behind its own were decoded before, so what it alone has may be missing"


class TaskResult(NamedTuple):
    """The result of a task: the files that it wrote, and how it left its connections."""

    written: list[Written]
    exit: Exit


class TaskOptions(NamedTuple):
    """What is the same for every task. ``tag`` begins the names of the files that it writes."""

    choice: Options
    folder: str
    tables: frozenset[str]
    tag: str = ""
    times: tuple[tuple[str, int, int], ...] = ()  #: files with their first and last time, which a run finds out

    @property
    def judges(self) -> bool:
        """Return whether a table was asked for that needs all frames in order."""
        return not self.tables.isdisjoint(_JUDGED)

    def survey(self, work: Work) -> Surveyed:
        """Survey a piece of the input: this runs in a task."""
        return survey_split(work, open_binary, self.choice.limits, salvage=self.choice.salvage)

    def decode(self, work: Work) -> TaskResult:
        """Decode a piece of the input, and write its rows: this runs in a task."""
        decoding = decode_split(work, self.choice, open_binary, events=self.judges)
        with Parts(self.folder, f"{self.tag}{work.ordinal:06d}") as parts:
            for name, batch in decoding:
                if name == "events" or name in self.tables:
                    parts.feed(name, batch)
            return TaskResult(parts.close(), decoding.exit)

    def judge(self, paths: Sequence[str]) -> list[Written]:
        """Run the ledger and the rules over all frames in order, and return the files written: this runs in a task."""
        replay = EventReplay(self.choice.redactor)
        for path in paths:
            with open_binary(below(self.folder, path)) as file, pa.ipc.open_stream(file) as stream:
                for batch in stream:
                    for data in batch.column("data").to_pylist():
                        replay.feed(data)
        for times in self.times:
            replay.judging.note(*times)
        with Parts(self.folder, f"{self.tag}judged") as parts:
            for name, batch in verdict_rows(replay.close(), self.tables):
                parts.feed(name, batch)
            return parts.close()


class InputPart(NamedTuple):
    """Which part of its input a run decodes: by default the whole."""

    begin: InputState | None = None  #: the state that an earlier run left, to continue from
    since_ns: int | None = None  #: the latest time in the parts before
    end: bool = True  #: False: the input will continue later, from the outcome's ``after``


WHOLE = InputPart()


def run(
    spark: "SparkSession",
    found: Sequence[Input],
    job: TaskOptions,
    *,
    split_bytes: int = TARGET,
    progress: Progress | None = None,
    part: InputPart = WHOLE,
) -> Outcome:
    """Read captures as one timeline, and write the parts of their tables to a folder."""
    choice, folder = job.choice, job.folder
    plan = plan_splits(found, open_binary, split_bytes)
    choice.begin(plan.begins_ns)
    rounds = TaskRounds(spark, folder, progress)
    done: dict[int, TaskResult] = {}

    def decode(works: Sequence[Work]) -> list[Exit]:
        for work, result in zip(works, rounds.run("decoded", job.decode, works), strict=True):
            done[work.ordinal] = result
        return [done[work.ordinal].exit for work in works]

    def survey(works: Sequence[Work]) -> list[Surveyed]:
        return rounds.run("surveyed", job.survey, works)

    works = settle(plan, survey, choice.limits, begin=part.begin, end=part.end)
    after = verify(works, decode, begin=part.begin)
    outcome = _outcome([done[ordinal] for ordinal in sorted(done)])
    outcome.after = after
    outcome.files = _file_rows(found, [done[ordinal].exit for ordinal in sorted(done)], plan)
    _mark_late(outcome.files, part.since_ns)
    with Parts(folder, f"{job.tag}files") as parts:
        parts.feed("files", table_of(outcome.files, "files"))
        outcome.written += parts.close()
    if job.judges:
        frames = [each.path for each in outcome.written if each.table == "events"]
        timed = [row for row in outcome.files if row.get("first_ns") is not None]
        job = job._replace(times=tuple((row["file"], row["first_ns"], row["last_ns"]) for row in timed))
        (written,) = rounds.run("judged", job.judge, [frames])
        outcome.written += written
    outcome.moved = rounds.moved
    return outcome


def _outcome(done: Sequence[TaskResult]) -> Outcome:
    outcome = Outcome()
    for written, left in done:
        counted = left.counted
        outcome.written += written
        outcome.frames += counted.frames
        outcome.lost.merge(Missing(*counted.lost))
        outcome.skipped_bytes += counted.skipped_bytes
        outcome.conflicts += counted.conflicts
        outcome.foreign.update(counted.foreign)
        outcome.cut += counted.cut
    return outcome


def _file_rows(found: Sequence[Input], exits: Iterable[Exit], plan: SplitPlan) -> list[dict[str, Any]]:
    """Return the rows of ``files``: for each capture what was read of it, by any task."""
    rows: dict[str, dict[str, Any]] = {
        each.path: {"file": each.path, "size": each.size, "packets": 0, "status": OK, "problem": None} for each in found
    }
    for path, _, why in plan.unusable:
        rows[path] |= {"status": UNUSABLE, "problem": why}
    for read in (read for left in exits for reads in left.read for read in reads):
        row = rows[read.path]
        row["packets"] += read.packets
        firsts = [time for time in (row.get("first_ns"), read.first_ns) if time is not None]
        lasts = [time for time in (row.get("last_ns"), read.last_ns) if time is not None]
        if firsts and lasts:
            first, last = min(firsts), max(lasts)
            row |= {"first_ns": first, "first": first // 1000, "last_ns": last, "last": last // 1000}
        if read.problems:
            problems = "; ".join(dict.fromkeys([*filter(None, [row["problem"]]), *read.problems]))
            row |= {"status": DAMAGED, "problem": problems}
    return [rows[path] for path in sorted(rows)]


def _mark_late(rows: Iterable[dict[str, Any]], since_ns: int | None) -> None:
    """Mark captures whose first packet is earlier than the last packet of captures that were decoded before them."""
    for row in rows:
        first = row.get("first_ns")
        if since_ns is not None and first is not None and first < since_ns and row["status"] == OK:
            row |= {"status": LATE, "problem": _LATE}
