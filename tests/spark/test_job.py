"""The pipeline on Spark: whatever the files and the splits, the rows are those of one machine that reads everything."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpdump.errors import DcpdumpError
from dcpdump.spark.cluster import SparkEngine
from dcpdump.spark.launch import settings
from dcpdump.spark.local import LocalEngine
from tests.check.test_succession import save_silent
from tests.support import archives
from tests.support.captures import Pcapng
from tests.support.console import run
from tests.support.tables import exported, found
from tests.tls.twins import Files, twin

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
def test_the_rows_of_an_archive_that_is_split_anywhere_are_those_of_export(tmp_path: Path) -> None:
    some = archives.records(900, 2)
    folder = archives.rotated(tmp_path / "in", archives.lossy(some), 3)
    later = [record._replace(ts_ns=record.ts_ns + 3000) for record in archives.with_tls(some)]
    archives.rotated(folder, later, 2, "pcap.gz", name="other")
    assert_same(str(folder), tmp_path, "--split 30k")
    assert len(list((tmp_path / "spark/frames").rglob("*.parquet"))) > 1


@pytest.mark.usefixtures("spark")
def test_each_folder_is_a_chain_with_the_rows_that_export_has_of_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        archives.rotated(tmp_path / "in" / name, archives.records(300), 2)
    (tmp_path / "in" / "c").mkdir()
    save_silent(tmp_path / "in" / "c")
    assert on_spark(f"{tmp_path}/in", tmp_path / "spark", "--split 30k") == 0
    assert sorted(os.listdir(tmp_path / "spark/frames")) == [f"capture_id=x~{name}" for name in "abc"]
    for name in "abc":
        run(f"dcpdump export {tmp_path}/in/{name} -o {tmp_path}/{name} -q --tables {','.join(TABLES)}")
        for table in TABLES:
            assert found(tmp_path / "spark" / table / f"capture_id=x~{name}", "") == exported(tmp_path / name, table)
    assert on_spark(f"{tmp_path}/in", tmp_path / "spark", "--chain all --tables frames,gaps,files,streams") == 0
    assert os.listdir(tmp_path / "spark/frames") == ["capture_id=x"]


@pytest.mark.usefixtures("spark")
def test_tls_is_opened_in_tasks_and_its_secrets_are_in_no_table_log_or_plan(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = Files(tmp_path, twin())
    result = files.read(f"-o {tmp_path}/tables --engine spark --capture-id x --split 4k --keep-index", "pipeline")
    assert (result.code, "27 of 27 frames" in result.err) == (0, True)
    assert len(list((tmp_path / "tables/frames").rglob("*.parquet"))) > 1
    secrets = [line.split()[2] for line in files.keys.read_text().splitlines() if not line.startswith("#")]
    written = [path.read_bytes() for path in (tmp_path / "tables").rglob("*.parquet")]
    assert secrets
    assert not any(bytes.fromhex(each) in data or each.encode() in data for each in secrets for data in written)
    assert not any(each in "".join(capfd.readouterr()) for each in secrets)


def test_a_worker_that_is_killed_changes_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    mark = tmp_path / "killed"

    def task(item: int) -> int:
        if item == 1 and not mark.exists():
            mark.touch()
            os._exit(1)
        return item * 10

    for engine in (SparkEngine(spark.sparkContext), LocalEngine(2)):
        assert sorted(engine.run("tried", task, [0, 1, 2])) == [0, 10, 20]
        assert mark.exists()
        mark.unlink()


def test_what_a_task_dies_of_is_reported_in_a_sentence(spark: "SparkSession") -> None:
    def task(item: int) -> int:
        raise ValueError(f"item {item} is odd")

    with pytest.raises(DcpdumpError, match=r"^a task failed: ValueError: item 1 is odd$"):
        list(SparkEngine(spark.sparkContext).run("tried", task, [1]))


def test_each_item_has_a_task_of_its_own_and_progress_ends_with_all(spark: "SparkSession") -> None:
    def task(item: str) -> int:
        from pyspark import TaskContext

        here = TaskContext.get()
        return -1 if here is None else here.partitionId()

    assert sorted(SparkEngine(spark.sparkContext).run("tried", task, ["a", "b", "c"])) == [0, 1, 2]
    reported: list[tuple[str, int, int]] = []
    for jobs in (1, 2):
        here = LocalEngine(jobs, lambda *each: reported.append(each))
        assert sorted(here.run("tried", len, ["a", "", "bc"])) == [0, 1, 2]
    assert reported == [("tried", done, 3) for done in (1, 2, 3)] * 2


@pytest.mark.usefixtures("spark")
def test_one_poisoned_file_does_not_stop_the_others(tmp_path: Path) -> None:
    folder = archives.rotated(tmp_path / "in", archives.records(600), 4)
    (folder / "node-001.pcap").write_bytes(b"no capture")
    torn = folder / "node-003.pcap"
    torn.write_bytes(torn.read_bytes()[:-100])
    assert on_spark(str(folder), tmp_path / "spark", "--split 50k") == 4
    printed = run(f"dcpdump pipeline {folder} -o {tmp_path}/local --engine local")
    assert (printed.code, f"warning: {folder}/node-001.pcap: " in printed.err) == (4, True)
    files = found(tmp_path / "spark", "files")
    assert [row["status"] for row in files] == ["ok", "unusable", "ok", "damaged"]
    assert "not a capture" in files[1]["problem"]
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
    for name in ("in.pcap", "more.pcap"):
        (tmp_path / name).write_bytes(b"no capture")
    printed = run(f"dcpdump pipeline {tmp_path}/*.pcap -o {tmp_path}/out --engine spark -q")
    why = f"none of 2 files can be read: this is not a capture; it looks like text ({tmp_path}/in.pcap)"
    assert (printed.code, printed.out, printed.err) == (3, "", f"dcpdump: error: {why}\n")
    assert sorted(os.listdir(tmp_path)) == ["in.pcap", "more.pcap"]


def test_what_spark_submit_and_conf_say_comes_before_ours() -> None:
    given, conf = {"spark.ui.enabled": "true"}, {"spark.task.maxFailures": "9"}
    chosen = settings(given, conf, here=False)
    assert chosen == {"spark.ui.showConsoleProgress": "false", "spark.task.maxFailures": "9"}


def test_spark_reads_the_tables(spark: "SparkSession", tmp_path: Path) -> None:
    on_spark("samples/replica.pcap", tmp_path)
    frames = spark.read.parquet(f"{tmp_path}/frames")
    assert frames.where("capture_id = 'x' AND name = 'DCP_MUTATION'").count() == sum(
        row["name"] == "DCP_MUTATION" for row in found(tmp_path, "frames")
    )
    assert [str(row["date"]) for row in frames.select("date").distinct().collect()] == ["2025-11-20"]
