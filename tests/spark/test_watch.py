"""Watching a folder: closed captures are decoded as they arrive; a crash and a restart lose and repeat nothing."""

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: watching is not tested")

from dcpdump.cli.pipeline import WATCHED
from dcpdump.errors import OutputError
from dcpdump.spark.filesystem import RemotePath
from dcpdump.spark.row_options import Options
from dcpdump.spark.watch import BatchOutcome, FolderWatch, WatchOptions
from tests.support import archives
from tests.support.console import run
from tests.support.tables import exported, found

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def watch(spark: "SparkSession", folder: Path, out: Path, captures: int) -> list[BatchOutcome]:
    """Watch until so many captures were decoded."""
    report: list[BatchOutcome] = []
    options = WatchOptions([str(folder)], str(out), "x", Options(), WATCHED, idle=30, split_bytes=200_000)
    watching = FolderWatch(spark, options, report.append)
    watching.run(seconds=240, captures=captures)
    return report


def watch_for(spark: "SparkSession", folder: Path, out: Path, names: set[str]) -> list[BatchOutcome]:
    """Watch until all these captures have their rows, however often: a batch is done again that was not committed."""
    report: list[BatchOutcome] = []
    while missing := names - read_files(out):
        report += watch(spark, folder, out, len(missing))
    return report


def read_files(out: Path) -> set[str]:
    return {Path(row["file"]).name for row in found(out, "files")}


def come(source: Path, folder: Path, name: str, age: float = 60) -> None:
    """Move a capture into the folder; it has not grown for ``age`` seconds."""
    folder.mkdir(exist_ok=True)
    shutil.copy(source / name, folder / name)
    os.utime(folder / name, (time.time() - age,) * 2)


def test_captures_are_decoded_as_they_are_closed_and_a_restart_continues(spark: "SparkSession", tmp_path: Path) -> None:
    source = archives.rotated(tmp_path / "source", archives.records(1500), 4)
    folder, out = tmp_path / "in", tmp_path / "out"
    come(source, folder, "node-000.pcap")
    come(source, folder, "node-001.pcap", age=-600)  # it is still written
    assert [each.captures for each in watch(spark, folder, out, 1)] == [1]
    assert read_files(out) == {"node-000.pcap"}
    names = {"node-001.pcap", "node-002.pcap", "node-003.pcap"}
    for name in sorted(names):
        come(source, folder, name)
    watch_for(spark, folder, out, names)
    run(f"dcpdump export {folder} -o {tmp_path}/export -q")
    rows, whole = found(out, "frames"), exported(tmp_path / "export", "frames")
    assert rows == [row for row in whole if row in rows]
    left = [row for row in whole if row not in rows]  # what is begun waits for the next capture
    assert all("cut short" in row["problems"][0]["text"] for row in left)
    assert len(left) <= 3
    assert len(list((out / ".watch-x/lives").iterdir())) <= 2  # before the last batch, and after it
    assert [row["status"] for row in found(out, "files")] == ["ok"] * 4


def test_what_it_writes_is_for_its_owner_alone(spark: "SparkSession", tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    come(Path("samples"), folder, "replica.pcap")
    watch(spark, folder, out, 1)
    assert (out / ".watch-x" / "checkpoint" / "metadata").exists()
    folders = [out, *(path for path in out.rglob("*") if path.is_dir() and ".watch-x" not in path.parent.parts)]
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folders} == {path.name: 0o700 for path in folders}


def test_a_batch_that_was_not_done_is_done_again_and_what_comes_late_is_said(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = archives.rotated(tmp_path / "source", archives.records(900), 2)
    folder, out = tmp_path / "in", tmp_path / "out"
    for name in ("node-000.pcap", "node-001.pcap"):
        come(source, folder, name)

    def full(*_: object) -> None:
        raise OutputError("cannot write: no space left on device", str(out))

    with monkeypatch.context() as broken:
        broken.setattr(RemotePath, "write", full)
        with pytest.raises(OutputError, match="no space left on device"):
            watch(spark, folder, out, 2)
    before = found(out, "frames")
    assert len(found(out, "files")) == 2
    assert [each.number for each in watch(spark, folder, out, 2)] == [0]
    assert found(out, "frames") == before
    assert len(found(out, "files")) == 2
    shutil.copy(source / "node-000.pcap", source / "late.pcap")
    come(source, folder, "late.pcap")
    late = watch_for(spark, folder, out, {"late.pcap"})[-1]
    assert (late.number, late.outcome.whole) == (1, False)
    assert [(Path(row["file"]).name, row["status"]) for row in found(out, "files")] == [
        ("late.pcap", "late"),
        ("node-000.pcap", "ok"),
        ("node-001.pcap", "ok"),
    ]
    assert found(out, "frames") == before


@pytest.mark.usefixtures("spark")
def test_the_command_reports_each_batch_and_of_what_it_left(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    come(Path("samples"), folder, "replica.pcap", age=-600)
    printed = run(f"dcpdump pipeline {folder} -o {tmp_path}/out --watch --capture-id x --duration 0")
    assert (printed.code, printed.out) == (0, "")
    assert printed.err == (
        f"watching {folder}: a capture is read when it did not grow for 30 s\n"
        f"nothing was written to {tmp_path}/out\n"
        f"dcpdump: note: {folder}/replica.pcap: it may still grow, and was not read\n"
    )


#: What Spark does to the process that lists captures: it makes a reader, and closes the connection when the watch ends.
_ASKED = """
import sys
from dcpdump.spark.watch import Closed

Closed({"names": "in", "notes": "notes", "idle": "30"}).simpleStreamReader(None)
try:
    raise EOFError
except EOFError:
    raise ERROR
"""


def test_the_process_that_lists_captures_ends_quietly_when_spark_leaves_it_and_no_other_way() -> None:
    found = [
        subprocess.run([sys.executable, "-c", _ASKED.replace("ERROR", error)], capture_output=True, text=True)
        for error in ("BrokenPipeError", "ConnectionResetError", "ValueError('a bug')")
    ]
    assert [(done.returncode, done.stderr.rpartition("Error: ")[2]) for done in found] == [
        (1, ""),
        (1, ""),
        (1, "a bug\n"),
    ]
