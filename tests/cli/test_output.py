"""Formats, files and what goes to which stream."""

import csv
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dcpdump.record import columns
from dcpdump.wire.encode import encode
from tests.support.console import refusal, run
from tests.support.diagnoses import objects
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

REPLICA = "samples/replica.pcap"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("", "0123456789" * 6 + "0123"),
        ("--value-bytes 3", "012"),
        ("--value-bytes 0", None),
        ("--value-bytes all", "0123456789" * 400),
    ],
)
def test_value_bytes_says_how_much_of_a_value_is_shown(option: str, value: str | None) -> None:
    (row,) = objects(f"dcpdump read {REPLICA} --key big {option}")
    assert (row["value_length"], row.get("value")) == (4000, value)


def test_the_help_says_how_much_of_a_value_is_shown(tmp_path: Path) -> None:
    frame = encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=b"v" * 200)
    path = saved(TcpTalk().send(1, frame), tmp_path / "long.pcap")
    for command, given, default in (
        ("read", str(path), "64 in every format"),
        ("explain", frame.hex(), "all, but 64 in ndjson and csv"),
    ):
        assert f"or all; by default {default}." in " ".join(run(f"dcpdump {command} --help").out.split())
        for form in ("table", "ndjson", "csv"):
            shown = 200 if command == "explain" and form == "table" else 64
            out = run(f"dcpdump {command} {given} -q -f {form}").out
            assert ("v" * shown in out, "v" * (shown + 1) in out) == (True, False)


def test_csv_has_the_same_columns_for_every_capture_and_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(run(f"dcpdump read {REPLICA} -f csv -q").out, newline="")))
    assert list(rows[0]) == columns()
    names = ["DCP_STREAM_REQ", "DCP_STREAM_REQ", "DCP_SNAPSHOT_MARKER", "DCP_MUTATION"]
    assert [row["name"] for row in rows[14:18]] == names
    assert json.loads(rows[15]["failover_log"])[0]["seqno"] == 0
    assert (rows[16]["snapshot_type_names"], rows[17]["by_seqno"]) == ("disk|checkpoint", "1")


def test_csv_writes_what_is_true_as_ndjson_does(tmp_path: Path) -> None:
    frames = b"".join(encode("DCP_MUTATION", {"by_seqno": 1 + at}, key=b"\x08key", opaque=9) for at in range(3))
    path = saved(TcpTalk().send(1, frames), tmp_path / "late.pcap")
    for command in (f"dcpdump read {path}", f"dcpdump explain {frames.hex()}"):
        rows = csv.DictReader(io.StringIO(run(f"{command} -f csv -q").out, newline=""), strict=True)
        assert [one["collection_inferred"] for one in objects(command)] == [True] * 3
        assert [row["collection_inferred"] for row in rows] == ["true"] * 3


def test_the_grid_is_read_back_by_explain() -> None:
    grid = run(f"dcpdump read {REPLICA} --opcode snapshot_marker -c 1 -f grid -q").out
    row = json.loads(run("dcpdump explain -f ndjson", grid).out)
    assert (row["name"], row["fields"]["end_seqno"]) == ("DCP_SNAPSHOT_MARKER", 4)


def test_colour_is_only_for_those_who_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    command = f"dcpdump read {REPLICA} -c 1 -q"
    plain = run(command)
    assert ("\x1b" in plain.out, "\x1b[" in run(f"{command} --color always").out) == (False, True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run(command).out
    assert run(f"{command} --color never") == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(command) == plain


def test_an_output_file_is_whole_private_and_never_written_over(tmp_path: Path) -> None:
    out = tmp_path / "frames.txt"
    shown = run(f"dcpdump read {REPLICA} -q").out
    assert run(f"dcpdump read {REPLICA} -q -o {out}") == (0, "", "")
    assert out.read_text("utf-8") == shown
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    again = run(f"dcpdump read {REPLICA} -q -o {out}")
    assert again == refusal(5, f"the output exists already ({out})", "--force replaces it")
    assert run(f"dcpdump read {REPLICA} -q -c 1 -o {out} --force").code == 0
    assert len(out.read_text("utf-8")) < len(shown)
    assert os.listdir(tmp_path) == ["frames.txt"]


@pytest.mark.parametrize(
    ("encoding", "bars", "between"),
    [("utf-8", "▁▁▁▁▁▁▁▁▁▁▁▁▁█", "·"), ("latin-1", "_____________#", "·"), ("ascii", "_____________#", "|")],
)
def test_what_an_encoding_does_not_have_is_drawn_with_what_it_has(encoding: str, bars: str, between: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-m", "dcpdump", "stats", REPLICA], env=environment, capture_output=True)
    assert done.stdout.decode(encoding).splitlines()[-2] == f"  {bars}"
    summary = "27 frames read · 60 packets · 1 connection · payload 5,188 B = 5,188 in frames\n"
    assert done.stderr.decode(encoding) == summary.replace("·", between)


@pytest.mark.parametrize("command", ["--help", "read --help", "sniff --help", "check --list", "spec mutation"])
def test_help_is_printed_in_an_encoding_that_lacks_its_characters(command: str) -> None:
    words = [sys.executable, "-m", "dcpdump", *command.split()]
    done = subprocess.run(words, env={**os.environ, "PYTHONIOENCODING": "latin-1"}, capture_output=True)
    plain = run(f"dcpdump {command}").out
    for ours, theirs in (("→", "->"), ("…", "...")):
        plain = plain.replace(ours, theirs)
    assert (done.returncode, done.stdout.decode("latin-1"), done.stderr) == (0, plain, b"")


def test_objects_keep_their_text_in_an_encoding_that_lacks_its_characters() -> None:
    frame = encode("DCP_MUTATION", {"by_seqno": 1}, key="ключ 🎉 é".encode(), value=b"1")
    words = [sys.executable, "-m", "dcpdump", "explain", "-q", "-f", "ndjson", frame.hex()]
    done = subprocess.run(words, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert json.loads(done.stdout.decode("ascii"))["key"] == "ключ 🎉 é"


def test_options_that_would_do_nothing_are_refused() -> None:
    for command in ("streams", "check", "stats", "conns", "flow", "rollbacks", "diagnose", "diff", "top"):
        for option in ("--value-bytes", "--show-secrets"):
            assert run(f"dcpdump {command} {REPLICA} {option}").err.startswith("dcpdump: error: No such option"), (
                command
            )
            assert option not in run(f"dcpdump {command} --help").out
