"""Rounds of tasks on Spark: one piece of work a task, and their results, whatever happens to a worker."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpdump.errors import DcpdumpError
from dcpdump.spark.task_rounds import TaskRounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_piece_is_done_by_a_task_of_its_own_and_answers_come_in_order(
    spark: "SparkSession", tmp_path: Path
) -> None:
    rounds = TaskRounds(spark, str(tmp_path))

    def task(piece: dict[str, bytes]) -> tuple[int, int]:
        from pyspark import TaskContext

        here = TaskContext.get()
        return len(piece["bytes"]), -1 if here is None else here.partitionId()

    pieces = [{"bytes": b"x" * number} for number in (5, 0, 2_000_000)]
    assert rounds.run("tried", task, pieces) == [(5, 0), (0, 1), (2_000_000, 2)]
    assert rounds.run("tried", task, []) == []


def test_a_worker_that_is_killed_changes_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    mark = tmp_path / "killed"

    def task(piece: int) -> int:
        if piece == 1 and not mark.exists():
            mark.touch()
            os._exit(1)
        return piece * 10

    assert TaskRounds(spark, str(tmp_path / "run")).run("tried", task, [0, 1, 2]) == [0, 10, 20]
    assert mark.exists()


def test_what_a_task_dies_of_is_reported_in_a_sentence(spark: "SparkSession", tmp_path: Path) -> None:
    def task(piece: int) -> int:
        raise ValueError(f"piece {piece} is odd")

    with pytest.raises(DcpdumpError, match=r"^a task failed: ValueError: piece 1 is odd$"):
        TaskRounds(spark, str(tmp_path)).run("tried", task, [1])


def test_progress_ends_with_all_tasks(spark: "SparkSession", tmp_path: Path) -> None:
    reported: list[tuple[str, int, int]] = []
    TaskRounds(spark, str(tmp_path), lambda *each: reported.append(each)).run("tried", len, ["a", "b"])
    assert reported[-1] == ("tried", 2, 2)
