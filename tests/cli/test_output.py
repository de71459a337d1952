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
from tests.support.captures import Record, pcap
from tests.support.console import run
from tests.support.packets import TcpTalk

REPLICA = "samples/replica.pcap"


def test_one_mutation_has_all_the_promised_keys() -> None:
    printed = run("dcpdump read samples/client-rollback.pcap --opcode mutation -f ndjson -q")
    assert json.loads(printed.out) == {
        "frame": 21,
        "packet": 40,
        "file": "samples/client-rollback.pcap",
        "time": "2025-11-20T12:02:11.009750Z",
        "connection": 0,
        "src": "10.0.0.1:11210",
        "dst": "10.0.0.9:50312",
        "offset": 387,
        "length": 77,
        "gap_before": 0,
        "magic": 8,
        "kind": "request",
        "opcode": 87,
        "name": "DCP_MUTATION",
        "layout": "1",
        "vbucket": 12,
        "opaque": 12,
        "cas": "0x176300000000005c",
        "datatype": 1,
        "datatype_names": ["JSON"],
        "framing": [{"name": "DcpStreamId", "stream_id": 3}],
        "stream_id": 3,
        "fields": {"by_seqno": 92, "rev_seqno": 1, "flags": 0, "expiration": 0, "lock_time": 0, "nmeta": 0, "nru": 0},
        "collection": 8,
        "collection_name": "carts",
        "key": "cart::1",
        "key_hex": "08636172743a3a31",
        "value_length": 11,
        "value": '{"items":2}',
    }


def test_a_response_says_what_it_answers_and_how_long_that_took() -> None:
    printed = run("dcpdump read samples/client-rollback.pcap --status rollback -f ndjson -q")
    row = json.loads(printed.out)
    assert {
        key: row[key] for key in ("kind", "vbucket", "status", "status_name", "request_frame", "latency_us", "fields")
    } == {
        "kind": "response",
        "vbucket": 12,
        "status": 0x23,
        "status_name": "Rollback",
        "request_frame": 15,
        "latency_us": 500,
        "fields": {"rollback_seqno": 90},
    }


@pytest.mark.parametrize(
    ("option", "value"), [("", "0123456789" * 6 + "0123"), ("--value-bytes 3", "012"), ("--value-bytes 0", None)]
)
def test_value_bytes_says_how_much_of_a_value_is_shown(option: str, value: str | None) -> None:
    printed = run(f"dcpdump read {REPLICA} --key big -f ndjson -q {option}")
    row = json.loads(printed.out)
    assert (row["value_length"], row.get("value")) == (4000, value)


def test_the_help_says_how_much_of_a_value_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "long.pcap"
    frame = encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=b"v" * 200)
    path.write_bytes(pcap([Record(packet.ts_ns or 0, packet.data) for packet in TcpTalk().send(1, frame).packets]))
    for command, given, default in (
        ("read", str(path), "64 in every format"),
        ("explain", frame.hex(), "all, but 64 in ndjson and csv"),
    ):
        assert f"or all; by default {default}." in " ".join(run(f"dcpdump {command} --help").out.split())
        for form in ("table", "ndjson", "csv"):
            shown = 200 if command == "explain" and form == "table" else 64
            out = run(f"dcpdump {command} {given} -q -f {form}").out
            assert ("v" * shown in out, "v" * (shown + 1) in out) == (True, False)


def test_all_of_a_value_is_shown_when_asked_for() -> None:
    printed = run(f"dcpdump read {REPLICA} --key big -f ndjson -q --value-bytes all")
    assert json.loads(printed.out)["value"] == "0123456789" * 400


def test_csv_has_the_same_columns_for_every_capture_and_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(run(f"dcpdump read {REPLICA} -f csv -q").out, newline="")))
    assert list(rows[0]) == columns()
    assert [row["name"] for row in rows[14:18]] == [
        "DCP_STREAM_REQ",
        "DCP_STREAM_REQ",
        "DCP_SNAPSHOT_MARKER",
        "DCP_MUTATION",
    ]
    assert json.loads(rows[15]["failover_log"])[0]["seqno"] == 0
    assert rows[17]["by_seqno"] == "1"
    assert rows[16]["snapshot_type_names"] == "disk|checkpoint"


def test_csv_writes_what_is_true_as_ndjson_does(tmp_path: Path) -> None:
    path = tmp_path / "late.pcap"
    frames = [encode("DCP_MUTATION", {"by_seqno": 1 + at}, key=b"\x08key", opaque=9) for at in range(3)]
    talk = TcpTalk().send(1, b"".join(frames))
    path.write_bytes(pcap([Record(packet.ts_ns or 0, packet.data) for packet in talk.packets]))
    for command in (f"dcpdump read {path}", f"dcpdump explain {b''.join(frames).hex()}"):
        rows = csv.DictReader(io.StringIO(run(f"{command} -f csv -q").out, newline=""), strict=True)
        objects = [json.loads(line) for line in run(f"{command} -f ndjson -q").out.splitlines()]
        assert [one["collection_inferred"] for one in objects] == [True] * 3
        assert [row["collection_inferred"] for row in rows] == ["true"] * 3


def test_the_grid_is_read_back_by_explain() -> None:
    grid = run(f"dcpdump read {REPLICA} --opcode snapshot_marker -c 1 -f grid -q").out
    row = json.loads(run("dcpdump explain -f ndjson", grid).out)
    assert (row["name"], row["fields"]["end_seqno"]) == ("DCP_SNAPSHOT_MARKER", 4)


def test_colour_is_only_for_those_who_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run(f"dcpdump read {REPLICA} -c 1 -q")
    assert "\x1b" not in plain.out
    assert "\x1b[" in run(f"dcpdump read {REPLICA} -c 1 -q --color always").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run(f"dcpdump read {REPLICA} -c 1 -q").out
    assert run(f"dcpdump read {REPLICA} -c 1 -q --color never") == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(f"dcpdump read {REPLICA} -c 1 -q") == plain


def test_an_output_file_is_whole_private_and_never_written_over(tmp_path: Path) -> None:
    out = tmp_path / "frames.txt"
    shown = run(f"dcpdump read {REPLICA} -q").out
    assert run(f"dcpdump read {REPLICA} -q -o {out}") == (0, "", "")
    assert out.read_text("utf-8") == shown
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    again = run(f"dcpdump read {REPLICA} -q -o {out}")
    assert again == (5, "", f"dcpdump: error: the output exists already ({out})\nhint: --force replaces it\n")
    assert run(f"dcpdump read {REPLICA} -q -c 1 -o {out} --force").code == 0
    assert len(out.read_text("utf-8")) < len(shown)
    assert os.listdir(tmp_path) == ["frames.txt"]


def test_an_output_is_never_its_own_input(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(Path(REPLICA).read_bytes())
    printed = run(f"dcpdump read {capture} -o {capture} --force")
    assert printed == (5, "", f"dcpdump: error: the output is one of the inputs ({capture})\n")
    assert capture.read_bytes() == Path(REPLICA).read_bytes()


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
            words = f"dcpdump {command} {REPLICA} {option}" + (" 3" if option == "--value-bytes" else "")
            assert run(words).code == 2, words
            assert option not in run(f"dcpdump {command} --help").out
    assert run(f"dcpdump key x {REPLICA} --show-secrets").code == 2
