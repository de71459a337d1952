"""The sample that asks questions in SQL is run, and its answers are those of the commands."""

import runpy
from typing import TYPE_CHECKING

import pytest

from tests.support.console import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = ("client-rollback", "rollback-loop", "slow-consumer")


def answers(printed: str) -> dict[str, list[list[str]]]:
    """Read tables as Spark prints them: question → rows of cells, the first being the columns' names."""
    found: dict[str, list[list[str]]] = {}
    question = ""
    for line in printed.splitlines():
        if line.startswith("|"):
            found[question].append([cell.strip() for cell in line.strip("|").split("|")])
        elif line and not line.startswith("+"):
            question = line
            found[question] = []
    return found


def test_the_questions_are_answered(spark: "SparkSession", capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path("samples/questions.py")
    script["main"]([f"samples/{name}.pcap" for name in SAMPLES])
    rolled_back, behind, blocked = answers(capsys.readouterr().out).values()
    expected = [
        run(f"dcpdump rollbacks samples/{name}.pcap -q").out.split("why: ")[1].splitlines()[0]
        for name in ("rollback-loop", "client-rollback")
    ]
    assert [(row[0], row[4], row[7]) for row in rolled_back] == [
        ("name", "times", "why"),
        ("kafka-7f", "12", expected[0]),
        ("kafka:7f", "1", expected[1]),
    ]
    assert behind == [
        ["capture_id", "connection", "since", "most_bytes"],
        ["capture-2", "0", "2025-11-20 12:12:11.00825", "2032"],
    ]
    assert blocked == [
        ["capture_id", "connection", "name", "since", "most_bytes", "of_bytes", "seconds"],
        ["capture-2", "0", "kafka-7f", "2025-11-20 12:12:16.59125", "2032", "1900", "40.5"],
    ]
    flow = run("dcpdump flow samples/slow-consumer.pcap -q").out
    assert "kafka-7f" in flow
    assert "40.5 s (88 %)" in flow
