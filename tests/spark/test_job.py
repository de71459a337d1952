"""The pipeline on Spark: whatever the files and the splits, the rows are those of one machine that reads everything."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.check.test_succession import save_silent
from tests.support import archives
from tests.support.captures import Pcapng
from tests.support.console import run
from tests.support.tables import exported, found

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("frames", "gaps", "files", "streams", "findings")


def on_spark(name: str, out: Path, options: str = "") -> int:
    """Run the pipeline on Spark, and return the exit code."""
    printed = run(f"dcpdump pipeline {name} -o {out} --engine spark -q --capture-id x {options}")
    assert (printed.out, printed.err) == ("", "")
    return printed.code


def assert_same(name: str, tmp_path: Path, options: str = "") -> None:
    """Assert that both engines and ``export`` write the same rows, with the same exit code."""
    code = run(f"dcpdump export {name} -o {tmp_path}/export -q").code
    run(f"dcpdump pipeline {name} -o {tmp_path}/local --engine local -q")
    assert on_spark(name, tmp_path / "spark", options) == code
    for table in TABLES:
        rows = found(tmp_path / "spark", table)
        assert rows == found(tmp_path / "local", table), table
        if table in ("frames", "gaps", "files"):
            assert rows == exported(tmp_path / "export", table), table


@pytest.mark.usefixtures("spark")
class TestRows:
    """Rows equal, through everything that an archive may be."""

    def test_of_samples_that_are_one_timeline(self, tmp_path: Path) -> None:
        assert_same("samples", tmp_path, "--split 40k")

    def test_of_rotated_files_with_late_and_repeated_segments(self, tmp_path: Path) -> None:
        folder = archives.rotated(tmp_path / "in", archives.records(1500), 5)
        assert_same(str(folder), tmp_path, "--split 300k")

    def test_of_one_large_file_that_is_split_inside(self, tmp_path: Path) -> None:
        folder = archives.rotated(tmp_path / "in", archives.records(1500, 1), 1)
        assert_same(str(folder), tmp_path, "--split 200k")

    def test_of_pcapng_with_lost_packets(self, tmp_path: Path) -> None:
        folder = archives.rotated(tmp_path / "in", archives.lossy(archives.records(1500)), 2, "pcapng")
        assert_same(str(folder), tmp_path, "--split 300k")

    def test_of_compressed_files_with_other_traffic_between(self, tmp_path: Path) -> None:
        folder = archives.rotated(tmp_path / "in", archives.with_tls(archives.records(1200)), 3, "pcap.gz")
        assert_same(str(folder), tmp_path, "--split 100k")

    def test_of_a_rotated_capture_whose_end_is_the_end_of_all(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        save_silent(tmp_path / "in")
        assert_same(f"{tmp_path}/in", tmp_path)
        assert [row["cause"] for row in found(tmp_path / "spark", "streams")] == ["noops-missing"]
        assert [row["code"] for row in found(tmp_path / "spark", "findings")] == ["DCP513"]

    def test_of_two_places_that_captured_the_same(self, tmp_path: Path) -> None:
        some = archives.records(800, 2)
        later = [record._replace(ts_ns=record.ts_ns + 3000) for record in some]
        folder = archives.rotated(tmp_path / "in", some, 2)
        archives.rotated(folder, later, 2, name="other")
        assert_same(str(folder), tmp_path, "--split 200k")


@pytest.mark.usefixtures("spark")
def test_one_poisoned_file_does_not_stop_the_others(tmp_path: Path) -> None:
    folder = archives.rotated(tmp_path / "in", archives.records(600), 4)
    (folder / "node-001.pcap").write_bytes(b"no capture")
    torn = folder / "node-003.pcap"
    torn.write_bytes(torn.read_bytes()[:-100])
    assert on_spark(str(folder), tmp_path / "spark", "--split 50k") == 4
    assert run(f"dcpdump pipeline {folder} -o {tmp_path}/local --engine local -q").code == 4
    assert [row["status"] for row in found(tmp_path / "spark", "files")] == ["ok", "unusable", "ok", "damaged"]
    for table in TABLES:
        assert found(tmp_path / "spark", table) == found(tmp_path / "local", table)


@pytest.mark.usefixtures("spark")
def test_filters_and_redaction_choose_and_hide_as_export_does(tmp_path: Path) -> None:
    folder = archives.rotated(tmp_path / "in", archives.records(900), 2)
    (tmp_path / "salt").write_text("pepper")
    options = f"--opcode mutation --vbucket 0-31 --since +1ms --redact --salt-file {tmp_path}/salt --value-bytes 8"
    run(f"dcpdump export {folder} -o {tmp_path}/export -q {options}")
    on_spark(str(folder), tmp_path / "spark", f"--tables frames --split 150k {options}")
    rows = found(tmp_path / "spark", "frames")
    assert rows == exported(tmp_path / "export", "frames")
    assert {row["name"] for row in rows} == {"DCP_MUTATION"}
    assert sorted(os.listdir(tmp_path / "spark")) == ["files", "frames"]


@pytest.mark.usefixtures("spark")
def test_times_from_the_start_count_from_the_first_packet_that_has_one(tmp_path: Path) -> None:
    write, (first, *others) = Pcapng(), archives.records(300)
    untimed = write.simple_packet(first.data + bytes(-len(first.data) % 4), len(first.data))
    timed = [write.packet(each.ts_ns // 1000, each.data) for each in others]
    (tmp_path / "a.pcapng").write_bytes(b"".join([write.section(), write.interface(), untimed, *timed]))
    choice = f"{tmp_path}/a.pcapng --tables frames --since +2ms"
    assert run(f"dcpdump export {choice} -o {tmp_path}/export -q").code == 0
    assert run(f"dcpdump pipeline {choice} -o {tmp_path}/local -q").code == 0
    assert on_spark(choice, tmp_path / "spark", "--split 20k") == 0
    rows = exported(tmp_path / "export", "frames")
    assert found(tmp_path / "local", "frames") == found(tmp_path / "spark", "frames") == rows
    assert 0 < rows[0]["time_ns"] - others[0].ts_ns // 1000 * 1000 - 2_000_000 < 1_000_000


@pytest.mark.usefixtures("spark")
def test_nothing_appears_where_the_input_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "in.pcap").write_bytes(b"no capture")
    printed = run(f"dcpdump pipeline {tmp_path}/in.pcap -o {tmp_path}/out --engine spark -q")
    assert (printed.code, printed.out) == (3, "")
    assert os.listdir(tmp_path) == ["in.pcap"]


def test_spark_reads_the_tables(spark: "SparkSession", tmp_path: Path) -> None:
    on_spark("samples/replica.pcap", tmp_path)
    frames = spark.read.parquet(f"{tmp_path}/frames")
    assert frames.where("capture_id = 'x' AND name = 'DCP_MUTATION'").count() == sum(
        row["name"] == "DCP_MUTATION" for row in found(tmp_path, "frames")
    )
    assert [str(row["date"]) for row in frames.select("date").distinct().collect()] == ["2025-11-20"]
