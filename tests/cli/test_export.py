"""dcpdump export: tables that appear whole or not at all, and that others can open."""

import csv
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcpdump.arrow import schema, verdicts
from dcpdump.arrow.column_builder import ColumnBuilder, Vocabulary
from dcpdump.arrow.folder import SCHEMAS, ArrowFile, ParquetFile
from dcpdump.cli.tables import TABLES as NAMES
from tests.support.batch_rows import spelled
from tests.support.console import contents, refusal, run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects
from tests.support.hostile import in_pcap, requests_without_answers
from tests.support.secret_talk import saved

REPLICA = "samples/replica.pcap"
DAMAGE = "samples/damage.pcap"
SAMPLES = sorted(str(path) for path in Path("samples").glob("*.pcap"))
TABLES = ["files.parquet", "frames.parquet", "gaps.parquet", "streams.parquet"]


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file."""
    return list(pq.read_table(path).to_pylist())


def read(command: str) -> list[dict[str, Any]]:
    """Return the rows that ``read`` prints, without the field that is a row's collection: tables have it once."""
    found = objects(f"dcpdump read {command} --value-bytes all")
    for row in found:
        row.get("fields", {}).pop("collection_id", None)
    return found


def test_the_rows_are_those_that_read_prints_of_several_captures_too(tmp_path: Path) -> None:
    assert run(f"dcpdump export samples -o {tmp_path}/out -q").code == 4  # one of them has lost bytes
    assert [spelled(row) for row in rows(tmp_path / "out/frames.parquet")] == read("samples")
    assert [row["file"] for row in rows(tmp_path / "out/files.parquet")] == SAMPLES


@pytest.mark.parametrize(
    "choice",
    [
        *("--opcode mutation --seqno 2-", "--key 'user::*'", "--kind response -c 3", "-c 5"),
        "--redact --salt-file {}/salt",
    ],
)
def test_the_options_of_read_choose_and_hide_the_same(choice: str, tmp_path: Path) -> None:
    (tmp_path / "salt").write_text("pepper")
    choice = choice.format(tmp_path)
    run(f"dcpdump export {REPLICA} -o {tmp_path}/out -q {choice}")
    assert [spelled(row) for row in rows(tmp_path / "out/frames.parquet")] == read(f"{REPLICA} {choice}")


def test_all_is_written_with_the_schema_and_its_version_and_only_the_owner_may_look(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(f"dcpdump export {REPLICA} -o {out} -q") == (0, "", "")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (out, *out.iterdir())}
    assert modes == {"out": 0o700, **dict.fromkeys(TABLES, 0o600)}
    assert pq.read_schema(out / "frames.parquet").equals(schema.frames(), check_metadata=False)
    assert pq.read_schema(out / "frames.parquet").metadata[b"schema"] == b"dcpdump.frames/1"
    assert pq.ParquetFile(out / "frames.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_gaps_say_what_was_lost(tmp_path: Path) -> None:
    assert run(f"dcpdump export {DAMAGE} -o {tmp_path}/out -q").code == 4
    (gap,) = rows(tmp_path / "out/gaps.parquet")
    found = [gap[name] for name in ("connection", "direction", "src", "bytes", "reason")]
    assert found == [0, 1, "10.0.4.1:11210", 100, "lost-by-capture"]


def test_files_say_what_was_read(tmp_path: Path) -> None:
    torn = tmp_path / "torn.pcap"
    torn.write_bytes(Path(REPLICA).read_bytes()[:-10])
    assert run(f"dcpdump export {torn} -o {tmp_path}/out -q").code == 4
    (row,) = rows(tmp_path / "out/files.parquet")
    first, last = 1_763_640_191_000_000_000, 1_763_640_191_000_000_000 + 59 * 250_000
    names = ("file", "size", "packets", "first_ns", "last_ns", "status")
    assert [row[name] for name in names] == [str(torn), torn.stat().st_size, 60, first, last, "damaged"]
    assert "is cut short" in row["problem"]


def test_streams_and_findings_are_those_of_the_commands_whatever_chooses_frames(tmp_path: Path) -> None:
    run(f"dcpdump export samples -o {tmp_path}/out -q --opcode noop --tables streams,findings")
    plain = [field for field in verdicts.streams().names if field not in ("requests", "failover_log")]
    for row, reported in zip(rows(tmp_path / "out/streams.parquet"), objects("dcpdump streams samples"), strict=True):
        kept = {key: row[key] for key in plain if row[key] is not None and not key.endswith("_at")}
        assert kept == {key: value for key, value in reported.items() if key in plain and not key.endswith("_at")}
        assert [each["status"] for each in row["requests"]] == [each.get("status") for each in reported["requests"]]
    wanted = [(each["code"], each["severity"], each["message"]) for each in objects("dcpdump check samples")]
    findings = rows(tmp_path / "out/findings.parquet")
    assert [(row["code"], row["severity"], row["message"]) for row in findings] == wanted


ASTRAY = "RX stream-request{vb=9}\nTX stream-request-response{einval}\nTX noop{}\nRX noop-response{success}\n"


def test_streams_are_the_same_whether_findings_are_written_too(tmp_path: Path) -> None:
    path, out = tmp_path / "astray.pcap", tmp_path / "out"  # requests travel against the roles of the ends
    marker = "STREAM vb=5\nRX snapshot-marker{start=1, end=1, flags=0x1}\nRX mutation{seqno:1}\n"
    path.write_bytes(in_pcap(packets(said(opening() + marker + ASTRAY))))
    found = []
    for names in ("streams", "streams,findings"):
        assert run(f"dcpdump export {path} -o {out} -q --force --tables {names}") == (0, "", "")
        found.append(rows(out / "streams.parquet"))
    assert found[0] == found[1]
    assert [(row["vbucket"], row["state"]) for row in found[0]] == [(5, "open and flowing"), (9, "refused")]
    assert [row["message"] for row in rows(out / "findings.parquet")] == ["DCP_NOOP sent to a producer"]


def test_streams_of_more_than_a_batch_are_all_there(tmp_path: Path) -> None:
    count = verdicts._AT_ONCE + 99
    path = saved(requests_without_answers(count), tmp_path / "many.pcap")
    run(f"dcpdump export {path} -o {tmp_path}/out -q --tables streams")
    found = pq.read_table(tmp_path / "out/streams.parquet")["opaque"].to_pylist()
    assert found == [9, *range(1000, 1000 + count)]


def test_a_count_ends_the_frames_and_not_what_is_reported_streams(tmp_path: Path) -> None:
    run(f"dcpdump export {REPLICA} -o {tmp_path}/some -q -c 2")
    run(f"dcpdump export {REPLICA} -o {tmp_path}/all -q")
    assert len(rows(tmp_path / "some/frames.parquet")) == 2
    assert rows(tmp_path / "some/streams.parquet") == rows(tmp_path / "all/streams.parquet")


@pytest.mark.parametrize(("tables", "files"), [("frames,gaps", "files frames gaps"), ("streams", "files streams")])
def test_only_the_tables_that_are_asked_for_are_written(tables: str, files: str, tmp_path: Path) -> None:
    run(f"dcpdump export {DAMAGE} -o {tmp_path}/some -q --tables {tables}")
    run(f"dcpdump export {DAMAGE} -o {tmp_path}/all -q")
    assert sorted(os.listdir(tmp_path / "some")) == [f"{name}.parquet" for name in files.split()]
    for name in files.split():
        assert rows(tmp_path / f"some/{name}.parquet") == rows(tmp_path / f"all/{name}.parquet")


def test_tables_are_chosen_by_the_names_of_their_schemas() -> None:
    assert list(NAMES) == list(SCHEMAS)


def test_the_summary_is_that_of_read(tmp_path: Path) -> None:
    for options in ("", "--summary json"):
        exported = run(f"dcpdump export {DAMAGE} -o {tmp_path}/out --force {options}")
        assert exported.err == run(f"dcpdump read {DAMAGE} {options}").err


def test_an_export_is_only_written_over_with_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(f"dcpdump export {REPLICA} -o {out} -q")
    before = (out / "frames.parquet").read_bytes()
    again = run(f"dcpdump export {DAMAGE} -o {out} -q")
    assert again == refusal(5, f"the output exists already ({out})", "--force replaces it")
    assert (out / "frames.parquet").read_bytes() == before
    run(f"dcpdump export {DAMAGE} -o {out} -q --force -f csv")
    assert sorted(os.listdir(out)) == [name.replace(".parquet", ".csv") for name in TABLES]
    assert os.listdir(tmp_path) == ["out"]


def test_nothing_appears_and_nothing_stays_where_there_is_no_frame(tmp_path: Path) -> None:
    broken, out = tmp_path / "broken.pcap", tmp_path / "out"
    for data in (b"", Path(REPLICA).read_bytes()[:24], Path(REPLICA).read_bytes()[:30]):
        broken.write_bytes(data)
        assert run(f"dcpdump export {REPLICA} -o {out} -q --force").code == 0
        printed = run(f"dcpdump export {broken} -o {out} --force")
        assert printed == (3, "", run(f"dcpdump read {broken}").err)
    assert "\ndcpdump: error: no DCP in the input: 0 packets; 0 TCP connections\n" in printed.err
    assert os.listdir(tmp_path) == ["broken.pcap"]


def test_without_pyarrow_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "dcpdump.arrow.schema")
    wanted = refusal(2, "tables need pyarrow, which is not installed", "pip install 'pyarrow>=15'")
    assert run(f"dcpdump export {REPLICA} -o out") == wanted


def test_the_schema_is_printed_without_a_capture() -> None:
    assert run("dcpdump export --schema") == (0, "\n".join(schema.text(make()) for make in SCHEMAS.values()), "")


def test_arrow_files_have_the_same_rows(tmp_path: Path) -> None:
    run(f"dcpdump export samples -o {tmp_path}/a -q -f arrow")
    run(f"dcpdump export samples -o {tmp_path}/p -q")
    with pa.OSFile(f"{tmp_path}/a/frames.arrow") as file:
        assert pa.ipc.open_file(file).read_all().to_pylist() == rows(tmp_path / "p/frames.parquet")


def test_an_arrow_file_takes_a_column_that_gets_its_first_word_late(tmp_path: Path) -> None:
    kind = pa.schema([("early", schema.WORD), ("late", schema.WORD), ("number", pa.int64())])
    words = Vocabulary()
    wanted = [("a", None, 1), ("b", None, 2), (None, "x", 3), ("a", "y", 4), (None, None, 5), ("b", "x", 6)]
    file = ArrowFile(tmp_path / "it.arrow", kind)
    for row in wanted:
        batch = ColumnBuilder(kind, 1, words)
        for name, value in zip(kind.names, row, strict=True):
            if value is not None:
                batch.objects(name, [0], [value])
        file.feed(batch.batch())
    file.close()
    with pa.OSFile(str(tmp_path / "it.arrow")) as stored:
        found = pa.ipc.open_file(stored).read_all().to_pylist()
    assert [tuple(row.values()) for row in found] == wanted


def test_csv_has_a_column_for_each_and_reads_back(tmp_path: Path) -> None:
    run(f"dcpdump export {REPLICA} -o {tmp_path}/out -q -f csv")
    with (tmp_path / "out/frames.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == schema.frames().names
    mutation = next(row for row in found if row["key"] == "hello")
    names = ("by_seqno", "value", "name", "xattrs")
    assert [mutation[name] for name in names] == ["5", "world", "DCP_MUTATION", ""]
    log = next(row["failover_log"] for row in found if row["failover_log"])
    assert json.loads(log)[1]["seqno"] == 0
    with (tmp_path / "out/streams.csv").open(newline="", encoding="utf-8") as file:
        (stream,) = csv.DictReader(file)
    (request,) = json.loads(stream["requests"])
    assert (request["time"], request["status_name"]) == ("2025-11-20T12:03:11.007750Z", "Success")
    assert stream["end_status_name"] == "StateChanged"


@pytest.mark.parametrize(
    ("form", "options"),
    [
        *((form, "--redact --salt-file {salt}") for form in ("parquet", "arrow", "csv")),
        *(("parquet", options) for options in ("--opcode mutation", "-c 20", "--since +0.01s")),
    ],
)
def test_more_processes_write_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, options: str
) -> None:
    monkeypatch.setattr("dcpdump.cli.workers.LEAST_BYTES", 0)
    salt = tmp_path / "salt"
    salt.write_text("pepper")
    for jobs in (1, 3):
        how = f"-q -j {jobs} --format {form} {options.format(salt=salt)}"
        run(f"dcpdump export samples/damage.pcap samples/rollback-loop.pcap {REPLICA} -o {tmp_path}/{jobs} {how}")
    assert contents(tmp_path / "1") == contents(tmp_path / "3")


def test_an_error_in_a_thread_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dcpdump.cli.workers.LEAST_BYTES", 0)
    monkeypatch.setattr("dcpdump.arrow.folder.ParquetFile.feed", full)
    printed = run(f"dcpdump export {REPLICA} -o {tmp_path}/out -j 2")
    assert printed == refusal(5, f"cannot write: no space left on device ({tmp_path}/out)")
    assert os.listdir(tmp_path) == []


def test_a_table_that_is_given_up_does_not_complain_when_it_is_forgotten(tmp_path: Path) -> None:
    complaints: list[object] = []
    before, sys.unraisablehook = sys.unraisablehook, complaints.append
    try:
        rows = pa.table({"number": [1, 2, 3]})
        with pa.OSFile(str(tmp_path / "rows.parquet"), "wb") as stream:
            writer = ParquetFile(stream, rows.schema)
            writer.feed(rows.to_batches()[0])
            writer.give_up()
        del writer
    finally:
        sys.unraisablehook = before
    assert complaints == []
