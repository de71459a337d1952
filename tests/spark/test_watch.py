"""Watching a folder: closed captures are decoded as they arrive; a crash and a restart lose and repeat nothing."""

import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from dcpdump.cli.pipeline import WATCHED
from dcpdump.errors import OutputError
from dcpdump.spark.filesystem import Input, RemotePath
from dcpdump.spark.indexing import Outcome
from dcpdump.spark.job import DecodingJob
from dcpdump.spark.local import LocalEngine
from dcpdump.spark.watch import Arrivals, FolderWatch
from tests.support import archives
from tests.support.console import run
from tests.support.tables import exported, found

DATA = Path("samples/replica.pcap").read_bytes()


def put(folder: Path, name: str, age: float = 60, data: bytes = DATA) -> Input:
    """Return a capture that has not grown for so many seconds."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    os.utime(path, (time.time() - age,) * 2)
    return Input(str(path), len(data))


# -- which captures have arrived ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "in"


def arriving(folder: Path, tmp_path: Path, most: int = 64) -> Arrivals:
    return Arrivals([str(folder)], str(tmp_path / "notes"), idle=10, most=most)


def test_a_folder_that_is_not_there_yet_has_no_captures(folder: Path, tmp_path: Path) -> None:
    assert arriving(folder, tmp_path).next(0) == []


def test_captures_come_in_the_order_in_which_they_were_closed_and_none_that_grows(folder: Path, tmp_path: Path) -> None:
    second, first, growing = put(folder, "a.pcap", 20), put(folder, "b.pcap", 90), put(folder, "c.pcap", 0)
    arrivals = arriving(folder, tmp_path)
    assert (arrivals.next(0), arrivals.next(1), arrivals.open()) == ([first, second], [], [growing.path])
    os.utime(growing.path, (0, 0))
    assert (arrivals.next(1), arrivals.count()) == ([growing], 2)


def test_what_grew_after_it_was_taken_is_named(folder: Path, tmp_path: Path) -> None:
    taken = put(folder, "a.pcap", 20)
    arrivals = arriving(folder, tmp_path)
    arrivals.next(0)
    assert arrivals.grown() == []
    put(folder, "a.pcap", 20, DATA + DATA[24:])
    assert (arrivals.next(1), arrivals.grown()) == ([], [taken.path])


def test_whoever_starts_again_sees_the_same_batches(folder: Path, tmp_path: Path) -> None:
    first = put(folder, "a.pcap", 20)
    arriving(folder, tmp_path).next(0)
    second = put(folder, "b.pcap", 90)  # it came later, whatever its time
    again = arriving(folder, tmp_path)
    assert (again.next(0), again.next(1), again.next(2)) == ([first], [second], [])
    assert [again.batch(number) for number in range(3)] == [[first], [second], []]


def test_a_batch_has_no_more_captures_than_one_may_have(folder: Path, tmp_path: Path) -> None:
    came = [put(folder, f"{number}.pcap", 100 - number) for number in range(5)]
    arrivals = arriving(folder, tmp_path, most=2)
    assert [arrivals.next(number) for number in range(4)] == [came[:2], came[2:4], came[4:], []]


def test_a_file_that_is_deleted_when_it_was_listed_is_left_out(folder: Path, tmp_path: Path) -> None:
    there = put(folder, "a.pcap", 20)
    (folder / "b.pcap").symlink_to(tmp_path / "gone")
    assert Arrivals([f"{folder}/*.pcap"], str(tmp_path / "notes"), idle=10).next(0) == [there]


# -- what is made of them -------------------------------------------------------------------------------------


def watch(folder: Path, out: Path) -> list[tuple[int, int, Outcome]]:
    """Watch until nothing new is there."""
    job = DecodingJob("x", "", frozenset(WATCHED), distance=20_000)
    return list(FolderWatch([str(folder)], str(out), job).batches(LocalEngine(1), seconds=0))


def test_captures_are_decoded_as_they_are_closed_and_a_restart_continues(folder: Path, tmp_path: Path) -> None:
    source, out = archives.rotated(tmp_path / "source", archives.records(1500), 4), tmp_path / "out"
    batches = [[f"node-{number:03d}.pcap" for number in some] for some in ([0], [1, 2], [], [3])]
    for number, names in enumerate(batches):
        for name in names:
            put(folder / "n1", name, data=(source / name).read_bytes())
        done = watch(folder, out)
        assert [(number, count, outcome.complete) for number, count, outcome in done] == (
            [(number - (number > 2), len(names), True)] if names else []
        )
    run(f"dcpdump export {folder} -o {tmp_path}/export -q")
    rows, whole = found(out, "frames"), exported(tmp_path / "export", "frames")
    left = [row for row in whole if row not in rows]  # what is begun waits for the next capture
    assert rows == [row for row in whole if row not in left]
    assert all("cut short" in row["problems"][0]["text"] for row in left)
    assert len(left) <= 3
    assert os.listdir(out / "frames") == ["capture_id=x~n1"]
    assert [len(list((out / ".watch-x" / name).iterdir())) for name in ("arrivals", "left")] == [3, 1]


def test_a_batch_that_was_not_done_is_done_again_and_what_comes_late_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = archives.rotated(tmp_path / "source", archives.records(900), 2), tmp_path / "out"
    shutil.copytree(source, folder)
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    write = RemotePath.write

    def full(where: RemotePath, data: bytes) -> None:
        if where.path.endswith("/done"):
            raise OutputError("cannot write: no space left on device", str(out))
        write(where, data)

    with monkeypatch.context() as broken:
        broken.setattr(RemotePath, "write", full)
        with pytest.raises(OutputError, match="no space left on device"):
            watch(folder, out)
    before = found(out, "frames")
    assert (len(found(out, "files")), bool(before)) == (2, True)
    assert [number for number, _, _ in watch(folder, out)] == [0]
    assert (found(out, "frames"), len(found(out, "files"))) == (before, 2)
    put(folder, "late.pcap", data=(source / "node-000.pcap").read_bytes())
    ((number, _, late),) = watch(folder, out)
    assert (number, late.complete) == (1, False)
    statuses = [(Path(row["file"]).name, row["status"]) for row in found(out, "files")]
    assert statuses == [("late.pcap", "late"), ("node-000.pcap", "ok"), ("node-001.pcap", "ok")]
    assert found(out, "frames") == before


def test_the_command_reports_each_batch_and_writes_for_its_owner_alone(folder: Path, tmp_path: Path) -> None:
    put(folder, "replica.pcap", age=-600)
    words = f"dcpdump pipeline {folder} -o {tmp_path}/out --watch --capture-id x --duration 0 --engine local"
    printed = run(words)
    assert (printed.code, printed.out) == (0, "")
    assert printed.err == (
        f"watching {folder}: a capture is read when it did not grow for 30 s\n"
        f"nothing was written to {tmp_path}/out\n"
        f"dcpdump: note: {folder}/replica.pcap: it may still grow, and was not read\n"
    )
    put(folder, "replica.pcap")
    assert run(words).err.splitlines()[1] == (
        f"batch 0: 27 of 27 frames · 0 gaps · 1 file → {tmp_path}/out (capture_id=x)"
    )
    folders = [path for path in (tmp_path / "out").rglob("*") if path.is_dir()]
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folders} == {path.name: 0o700 for path in folders}
