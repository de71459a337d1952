"""What does not fit its column is null, and a problem of its row: no frame costs the others theirs."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dcpdump.arrow.column_builder import batch_of, to_array_lossy
from dcpdump.spec.names import JSON
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved
from tests.support.tables import exported, found

HALF = b'"\\ud800"'


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    """Return a capture with a collection id of 42 bits, JSON with half characters, and a stream id of 70 bits."""
    features = {"features": [0x0A, 0x12]}
    talk = TcpTalk().send(0, encode("HELLO", features, key=b"me", opaque=1))
    talk.send(1, encode("HELLO", features, response=True, opaque=1))
    talk.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me")).send(1, encode("DCP_OPEN", response=True))
    for vbucket, asked in enumerate((b'{"sid":3,"scope":' + HALF + b"}", b'{"sid":%d}' % (1 << 70))):
        request = encode("DCP_STREAM_REQ", {"end_seqno": 9}, value=asked, vbucket=vbucket, opaque=3 + vbucket)
        context = b'{"error":{"context":' + HALF + b"}}"
        refusal = encode("DCP_STREAM_REQ", value=context, response=True, status=4, opaque=3 + vbucket, datatype=JSON)
        talk.send(0, request).send(1, refusal)
    talk.send(0, encode("COLLECTIONS_GET_MANIFEST", opaque=7))
    manifest = b'{"uid":"1","scopes":[{"name":' + HALF + b',"uid":"0","collections":[]}]}'
    talk.send(1, encode("COLLECTIONS_GET_MANIFEST", value=manifest, response=True, opaque=7, datatype=JSON))
    talk.send(1, encode("DCP_MUTATION", {"by_seqno": 7}, key=b"\x80\x80\x80\x80\x80\x6bkey", value=b"{}", opaque=3))
    return saved(talk.fin(), tmp_path / "odd.pcap")


def problems(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [[problem["text"] for problem in row["problems"] or ()] for row in rows]


def test_a_frame_that_does_not_fit_costs_no_other_its_row(file: Path, tmp_path: Path) -> None:
    reported = [json.loads(line) for line in run(f"dcpdump read {file} -f ndjson -q").out.splitlines()]
    assert [row["name"] for row in reported].count("DCP_STREAM_REQ") == 4
    for engine in ("export", "pipeline"):
        assert run(f"dcpdump {engine} {file} -o {tmp_path}/{engine} -q").code == 0
    rows = exported(tmp_path / "export", "frames")
    assert rows == found(tmp_path / "pipeline", "frames")
    assert len(rows) == len(reported)
    key = next(row for row in rows if row["name"] == "DCP_MUTATION")
    assert (key["key"], key["collection"], key["by_seqno"]) == (b"key", None, 7)
    assert "the collection id is longer than 32 bits" in problems([key])[0]
    assert "collection does not fit its column" in problems([key])[0]
    large = next(row for row in rows if row["value"] == b'{"sid":%d}' % (1 << 70))
    assert (large["stream_id"], problems([large])) == (None, [["stream_id does not fit its column"]])
    assert sum(row["value_json"] is not None and r'"\ud800"' in row["value_json"] for row in rows) == 4
    streams = exported(tmp_path / "export", "streams")
    assert [request["scope"] for row in streams for request in row["requests"]] == [r"\ud800", None]


def test_in_a_table_of_text_it_is_a_problem_of_its_row(file: Path, tmp_path: Path) -> None:
    assert run(f"dcpdump export {file} -o {tmp_path}/out -q -f csv").code == 0
    with (tmp_path / "out/frames.csv").open(newline="", encoding="utf-8") as text:
        unrepresentable = [row["name"] for row in csv.DictReader(text) if "does not fit" in row["problems"]]
    assert unrepresentable == ["DCP_STREAM_REQ", "DCP_MUTATION"]


def test_what_fits_of_a_value_is_kept() -> None:
    item = pa.list_(pa.struct([("number", pa.uint32()), ("text", pa.string())]))
    good, bad = {"number": 1, "text": "a"}, {"number": 1 << 32, "text": "a\ud800"}
    array, unrepresentable = to_array_lossy([[good], [good, bad], None], item)
    assert array.to_pylist() == [[good], [good, {"number": None, "text": r"a\ud800"}], None]
    assert unrepresentable == [1]
    kind = pa.schema([("number", pa.int64()), ("text", pa.string())])
    nothing, whole = {"number": None, "text": None}, {"number": 1, "text": "a"}
    assert batch_of([{"number": 1 << 64}, {"text": 5}, whole], kind).to_pylist() == [nothing, nothing, whole]
