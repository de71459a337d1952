"""The data source: captures as a DataFrame and in SQL, with the rows of the tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dcpdump.spark
from tests.support import archives
from tests.support.console import run
from tests.support.tables import exported, ordered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def reading(spark: "SparkSession") -> "SparkSession":
    dcpdump.spark.register(spark)
    return spark


def rows(frames: "DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a DataFrame, in order of place, without times: collecting makes those local."""
    columns = [name for name in frames.columns if name != "time"]
    return ordered([row.asDict(recursive=True) for row in frames.select(columns).collect()])


def expected(name: str, tmp_path: Path) -> list[dict[str, Any]]:
    """Return the rows of an export, as Spark has them: times left out, bytes as bytearrays, xattrs as a dict."""
    run(f"dcpdump export {name} -o {tmp_path}/export -q")
    found = exported(tmp_path / "export", "frames")
    return [{key: value for key, value in row.items() if key != "time"} for row in found]


def test_the_rows_are_those_of_export(reading: "SparkSession", tmp_path: Path) -> None:
    folder = archives.rotated(tmp_path / "in", archives.records(1500), 3)
    frames = reading.read.format("dcp").option("split", "200000").load(str(folder))
    assert frames.rdd.getNumPartitions() > 3
    assert rows(frames) == expected(str(folder), tmp_path)


def test_sql_reads_captures(reading: "SparkSession") -> None:
    reading.sql("CREATE OR REPLACE TEMPORARY VIEW captured USING dcp OPTIONS (path 'samples/replica.pcap')")
    query = "SELECT name, count(*) AS frames FROM captured WHERE kind = 'request' GROUP BY name"
    found = {row["name"]: row["frames"] for row in reading.sql(query).collect()}
    assert (found["DCP_MUTATION"], found["HELLO"]) == (4, 1)


def test_only_the_columns_that_are_asked_for_are_made(reading: "SparkSession") -> None:
    some = reading.read.format("dcp").option("columns", "name, by_seqno").load("samples/replica.pcap")
    assert some.columns == ["name", "by_seqno"]
    assert ("DCP_MUTATION", 5) in {(row["name"], row["by_seqno"]) for row in some.collect()}


def test_filters_are_heard_where_the_session_lets_them(reading: "SparkSession") -> None:
    def wanted() -> list[dict[str, Any]]:
        frames = reading.read.format("dcp").load("samples/replica.pcap")
        return rows(frames.where("opcode IN (87, 88) AND kind = 'request'").where("connection = 0 AND length > 10"))

    plain = wanted()
    reading.conf.set(PUSHDOWN, "true")
    try:
        dcpdump.spark.register(reading)
        assert wanted() == plain
    finally:
        reading.conf.unset(PUSHDOWN)
        dcpdump.spark.register(reading)
    assert {row["opcode"] for row in plain} <= {87, 88}
    assert plain


NEVER = "vbucket = 70000|kind = 'REQUEST'|kind = ''|opcode = 300|opcode = -1|connection = -1"
SOME = "vbucket IN (528, NULL)|vbucket = 528 AND kind = 'response'|kind IN ('request', '!request')"


def test_filters_choose_the_frames_that_they_choose_unheard(reading: "SparkSession") -> None:
    frames = reading.read.format("dcp").load("samples/replica.pcap")
    conditions = [*NEVER.split("|"), *SOME.split("|")]
    plain = list(frames.selectExpr(*(f"count_if({condition})" for condition in conditions)).collect()[0])
    reading.conf.set(PUSHDOWN, "true")
    try:
        dcpdump.spark.register(reading)
        frames = reading.read.format("dcp").load("samples/replica.pcap")
        assert [frames.where(condition).count() for condition in conditions] == plain
    finally:
        reading.conf.unset(PUSHDOWN)
        dcpdump.spark.register(reading)
    assert [bool(count) for count in plain] == [False] * 6 + [True] * 3


def test_several_captures_are_given_as_a_list_whatever_their_names(reading: "SparkSession", tmp_path: Path) -> None:
    odd = tmp_path / "a,b [1] 100%.pcap"
    odd.write_bytes(Path("samples/replica.pcap").read_bytes())
    one = reading.read.format("dcp").load(str(odd)).count()
    both = reading.read.format("dcp").load([str(odd), "samples/order.pcap"]).select("file").distinct().collect()
    assert (one, sorted(row["file"] for row in both)) == (27, sorted([str(odd), "samples/order.pcap"]))


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
