"""The data source: captures as a DataFrame and in SQL, with the rows of the tables."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dcpdump.spark
from tests.support import archives
from tests.support.console import run
from tests.support.tables import exported, ordered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def reading(spark: "SparkSession") -> "SparkSession":
    dcpdump.spark.register(spark)
    return spark


@contextmanager
def pushing(reading: "SparkSession") -> Iterator["DataFrameReader"]:
    """Have the session push filters down to a source, which takes them."""
    reading.conf.set(PUSHDOWN, "true")
    try:
        yield reading.read.format("dcp").option("pushdown", "true")
    finally:
        reading.conf.unset(PUSHDOWN)


def rows(frames: "DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a DataFrame, in order of place, without times: collecting makes those local."""
    columns = [name for name in frames.columns if name != "time"]
    return ordered([row.asDict(recursive=True) for row in frames.select(columns).collect()])


def expected(name: str, tmp_path: Path) -> list[dict[str, Any]]:
    """Return the rows of an export, as Spark has them: times left out, bytes as bytearrays, xattrs as a dict."""
    run(f"dcpdump export {name} -o {tmp_path}/export -q")
    found = exported(tmp_path / "export", "frames")
    return [{key: value for key, value in row.items() if key != "time"} for row in found]


def test_the_rows_are_those_of_export_by_chain_and_by_span(reading: "SparkSession", tmp_path: Path) -> None:
    folder = archives.rotated(tmp_path / "in", archives.records(450), 3)
    wanted = expected(str(folder), tmp_path)
    frames = reading.read.format("dcp").load(str(folder))
    assert (frames.rdd.getNumPartitions(), rows(frames)) == (1, wanted)
    run(f"dcpdump pipeline {folder} -o {tmp_path}/archive -q --tables files --keep-index --split 8000")
    frames = reading.read.format("dcp").load(f"{tmp_path}/archive")
    assert frames.rdd.getNumPartitions() > 3
    assert rows(frames) == wanted


def test_sql_reads_captures(reading: "SparkSession") -> None:
    reading.sql("CREATE OR REPLACE TEMPORARY VIEW captured USING dcp OPTIONS (path 'samples/replica.pcap')")
    query = "SELECT name, count(*) AS frames FROM captured WHERE kind = 'request' GROUP BY name"
    found = {row["name"]: row["frames"] for row in reading.sql(query).collect()}
    assert (found["DCP_MUTATION"], found["HELLO"]) == (4, 1)


def test_only_the_columns_that_are_asked_for_are_made(reading: "SparkSession") -> None:
    some = reading.read.format("dcp").option("columns", "name, by_seqno").load("samples/replica.pcap")
    assert some.columns == ["name", "by_seqno"]
    assert ("DCP_MUTATION", 5) in {(row["name"], row["by_seqno"]) for row in some.collect()}


def test_spans_without_packets_of_the_wanted_times_are_not_read(reading: "SparkSession", tmp_path: Path) -> None:
    some = " ".join(f"samples/{name}.pcap" for name in "replica takeover stopped refused durable silent".split())
    run(f"dcpdump pipeline {some} --chain file -o {tmp_path}/archive -q --tables files --keep-index --split 8k")
    frames = reading.read.format("dcp").load(f"{tmp_path}/archive")
    plain = [row["time_ns"] for row in frames.select("time_ns").orderBy("time_ns").collect()]
    middle = plain[len(plain) // 2]
    conditions = [f"time_ns = {middle}", f"time_ns < {middle}", f"time_ns >= {middle}", "time > now()"]
    conditions += [f"time <= timestamp_micros({middle // 1000})", "by_seqno BETWEEN 2 AND 4"]
    unpushed = list(frames.selectExpr(*(f"count_if({condition})" for condition in conditions)).collect()[0])
    with pushing(reading) as pushed:
        frames = pushed.load(f"{tmp_path}/archive")
        whole = frames.rdd.getNumPartitions()
        chosen = [frames.where(condition).select("frame").rdd for condition in conditions]
        assert [each.count() for each in chosen] == unpushed
        parts = [each.getNumPartitions() for each in chosen[:4]]
    assert (parts[0] < whole, max(parts[1:3]) < whole, parts[3]) == (True, True, 1)
    assert unpushed[3] == 0 < min(unpushed[:3])


def test_a_stream_continues_from_where_each_chain_was_left(reading: "SparkSession", tmp_path: Path) -> None:
    source = archives.rotated(tmp_path / "source", archives.records(900), 3)
    (tmp_path / "in").mkdir()
    for names in (["node-000.pcap"], ["node-001.pcap", "node-002.pcap"], []):
        for name in names:
            shutil.copy(source / name, tmp_path / "in")
            os.utime(tmp_path / "in" / name, (0, 0))
        frames = reading.readStream.format("dcp").option("state", f"{tmp_path}/state").load(f"{tmp_path}/in")
        writing = frames.writeStream.format("parquet").option("checkpointLocation", f"{tmp_path}/done")
        writing.option("path", f"{tmp_path}/out").trigger(availableNow=True).start().awaitTermination()
    wanted = expected(f"{tmp_path}/in", tmp_path)
    found = rows(reading.read.parquet(f"{tmp_path}/out"))
    # What is begun waits for the next capture.
    assert found == [row for row in wanted if row["frame"] <= len(found)]
    assert len(wanted) - len(found) <= 3
    assert len(os.listdir(tmp_path / "state/left")) <= 2  # before the last batch, and after it


NEVER = "vbucket = 70000|kind = 'REQUEST'|kind = ''|opcode = 300|opcode = -1|connection = -1"
SOME = "vbucket IN (528, NULL)|opcode IN (87, 88) AND kind = 'request' AND length > 10|kind IN ('request', '!request')"


def test_filters_choose_the_frames_that_they_choose_unpushed(reading: "SparkSession") -> None:
    frames = reading.read.format("dcp").load("samples/replica.pcap")
    conditions = [*NEVER.split("|"), *SOME.split("|")]
    plain = list(frames.selectExpr(*(f"count_if({condition})" for condition in conditions)).collect()[0])
    with pushing(reading) as pushed:
        frames = pushed.load("samples/replica.pcap")
        assert [frames.where(condition).count() for condition in conditions] == plain
        # Without the option Spark, which keeps the reader of the first query, keeps one of all rows.
        frames = reading.read.format("dcp").load("samples/replica.pcap")
        assert (frames.where("opcode = 87").count(), frames.count()) == (4, 27)
    assert [bool(count) for count in plain] == [False] * 6 + [True] * 3


def test_several_captures_are_given_as_a_list_whatever_their_names(reading: "SparkSession", tmp_path: Path) -> None:
    odd = tmp_path / "a,b [1] 100%.pcap"
    odd.write_bytes(Path("samples/replica.pcap").read_bytes())
    one = reading.read.format("dcp").load(str(odd)).count()
    both = reading.read.format("dcp").load([str(odd), "samples/order.pcap"]).select("file").distinct().collect()
    assert (one, sorted(row["file"] for row in both)) == (27, sorted([str(odd), "samples/order.pcap"]))


def test_relative_names_are_below_the_folder_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: its data source is not tested")
    from dcpdump.spark.data_source import Captures

    source = Captures({"path": "samples/takeover.pcap"})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    monkeypatch.chdir(tmp_path)  # as an executor of its own, which starts in another
    assert sum(batch.num_rows for batch in reader.read(partition)) == 16
    assert Path.cwd() == tmp_path


def test_values_are_as_long_as_asked_for(reading: "SparkSession") -> None:
    def longest(**options: str) -> int:
        frames = reading.read.format("dcp").options(**options).load("samples/replica.pcap")
        documents = frames.where("name = 'DCP_MUTATION'").select("value").collect()
        return max(len(row["value"] or b"") for row in documents)

    assert [longest(value_bytes="0"), longest(value_bytes="10"), longest()] == [0, 10, 4000]


def test_what_cannot_be_read_is_said(reading: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "in.pcap").write_bytes(b"no capture")
    for path, options, sentence in (
        (str(tmp_path / "in.pcap"), {}, "this is not a capture"),
        ("samples/none.pcap", {}, "there is no such file"),
        ("samples/replica.pcap", {"columns": "name,size"}, "the table frames has no column 'size'"),
    ):
        with pytest.raises(Exception, match=sentence):
            reading.read.format("dcp").options(**options).load(path).collect()
