"""Arrivals: captures are taken when they are closed, once, in an order that survives a crash."""

import os
from pathlib import Path

import pytest

from dcpdump.spark.arrivals import Arrival, Arrivals

DATA = Path("samples/replica.pcap").read_bytes()


def put(folder: Path, name: str, age: float) -> Arrival:
    """Return a capture that has not grown for so many seconds."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(DATA)
    os.utime(path, (path.stat().st_mtime - age,) * 2)
    return Arrival(str(path), len(DATA))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "in"


def watching(folder: Path, tmp_path: Path, most: int = 64) -> Arrivals:
    return Arrivals([str(folder)], str(tmp_path / "notes"), idle=10, most=most)


def test_a_folder_that_is_not_there_yet_has_no_captures(folder: Path, tmp_path: Path) -> None:
    assert watching(folder, tmp_path).next(0) == []


def test_captures_come_in_the_order_in_which_they_were_closed(folder: Path, tmp_path: Path) -> None:
    second, first = put(folder, "a.pcap", 20), put(folder, "b.pcap", 90)
    arrivals = watching(folder, tmp_path)
    assert arrivals.next(0) == [first, second]
    assert arrivals.next(1) == []


def test_a_capture_that_grows_is_left_until_it_is_closed(folder: Path, tmp_path: Path) -> None:
    closed, growing = put(folder, "a.pcap", 20), put(folder, "b.pcap", 0)
    arrivals = watching(folder, tmp_path)
    assert arrivals.next(0) == [closed]
    assert arrivals.open() == [growing.path]
    os.utime(growing.path, (0, 0))
    assert arrivals.next(1) == [growing]


def test_what_grew_after_it_was_taken_is_named(folder: Path, tmp_path: Path) -> None:
    taken = put(folder, "a.pcap", 20)
    arrivals = watching(folder, tmp_path)
    arrivals.next(0)
    assert arrivals.grown() == []
    with open(taken.path, "ab") as file:
        file.write(DATA[24:])
    os.utime(taken.path, (0, 0))
    assert (arrivals.next(1), arrivals.grown()) == ([], [taken.path])


def test_whoever_starts_again_sees_the_same_batches(folder: Path, tmp_path: Path) -> None:
    first = put(folder, "a.pcap", 20)
    watching(folder, tmp_path).next(0)
    second = put(folder, "b.pcap", 90)  # it came later, whatever its time
    again = watching(folder, tmp_path)
    assert (again.next(0), again.next(1), again.next(2)) == ([first], [second], [])
    assert [again.batch(number) for number in range(3)] == [[first], [second], []]


def test_a_batch_has_no_more_captures_than_one_may_have(folder: Path, tmp_path: Path) -> None:
    came = [put(folder, f"{number}.pcap", 100 - number) for number in range(5)]
    arrivals = watching(folder, tmp_path, most=2)
    assert [arrivals.next(number) for number in range(4)] == [came[:2], came[2:4], came[4:], []]


def test_a_file_that_is_deleted_when_it_was_listed_is_left_out(folder: Path, tmp_path: Path) -> None:
    there = put(folder, "a.pcap", 20)
    (folder / "b.pcap").symlink_to(tmp_path / "gone")
    assert Arrivals([f"{folder}/*.pcap"], str(tmp_path / "notes"), idle=10).next(0) == [there]
