"""Formats, files and what goes to which stream: whole or not at all, and nothing else is ever harmed."""

import csv
import io
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from dcpdump.record import columns
from dcpdump.wire.encode import encode
from tests.support.console import refusal, run
from tests.support.diagnoses import objects
from tests.support.live import PATIENCE, fed, wait_for
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

REPLICA = Path("samples/replica.pcap")


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
    out, command = tmp_path / "frames.txt", f"dcpdump read {REPLICA} -q"
    assert run(f"{command} -o {out}") == (0, "", "")
    assert (out.read_text("utf-8"), stat.S_IMODE(out.stat().st_mode)) == (run(command).out, 0o600)
    assert run(f"{command} -o {out}") == refusal(5, f"the output exists already ({out})", "--force replaces it")
    assert run(f"{command} -c 1 -o {out} --force").code == 0
    assert (out.read_text("utf-8"), os.listdir(tmp_path)) == (run(f"{command} -c 1").out, ["frames.txt"])


def encoded(encoding: str, *words: str) -> tuple[str, str]:
    """Return what a process prints whose standard streams have an encoding."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-m", "dcpdump", *words], env=environment, capture_output=True, check=True)
    return done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.mark.parametrize(
    ("encoding", "bars", "between"),
    [("utf-8", "▁▁▁▁▁▁▁▁▁▁▁▁▁█", "·"), ("latin-1", "_____________#", "·"), ("ascii", "_____________#", "|")],
)
def test_what_an_encoding_does_not_have_is_drawn_with_what_it_has(encoding: str, bars: str, between: str) -> None:
    out, err = encoded(encoding, "stats", str(REPLICA))
    summary = "27 frames read · 60 packets · 1 connection · payload 5,188 B = 5,188 in frames\n"
    assert (out.splitlines()[-2], err) == (f"  {bars}", summary.replace("·", between))


@pytest.mark.parametrize("command", ["--help", "read --help", "check --list", "spec mutation"])
def test_help_is_printed_in_an_encoding_that_lacks_its_characters(command: str) -> None:
    plain = run(f"dcpdump {command}").out.replace("→", "->").replace("…", "...")
    assert encoded("latin-1", *command.split()) == (plain, "")


def test_objects_keep_their_text_in_an_encoding_that_lacks_its_characters() -> None:
    frame = encode("DCP_MUTATION", {"by_seqno": 1}, key="ключ 🎉 é".encode(), value=b"1")
    out, _ = encoded("ascii", "explain", "-q", "-f", "ndjson", frame.hex())
    assert json.loads(out)["key"] == "ключ 🎉 é"


def test_options_that_would_do_nothing_are_not_there() -> None:
    for command in ("streams", "check", "stats", "conns", "flow", "rollbacks", "diagnose", "diff", "top"):
        options = run(f"dcpdump {command} --help").out
        assert ("--value-bytes" in options, "--show-secrets" in options) == (False, False), command


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)], ids=["killed", "terminated"]
)
def test_a_run_that_is_ended_leaves_nothing_under_the_final_name(number: int, code: int, tmp_path: Path) -> None:
    out = tmp_path / "frames.txt"
    with fed(["read", "-", "-o", str(out), "-q"], REPLICA.read_bytes()[:3000]) as process:
        wait_for(lambda: bool(os.listdir(tmp_path)))
        process.send_signal(number)
        assert process.wait(PATIENCE) == code
    left = [(path.name.startswith(".frames.txt."), path.stat().st_mode & 0o777) for path in tmp_path.iterdir()]
    assert left == [(True, 0o600)] * (number == signal.SIGKILL)
    assert run(f"dcpdump read {REPLICA} -q -o {out}").code == 0, "what is left is not in the way"
    assert os.listdir(tmp_path) == ["frames.txt"], "and the next run removes it"


FULL_DISK = "cannot write: no space left on device"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("form", ["table", "grid", "line", "ndjson", "csv"])
def test_a_full_disk_is_reported_in_every_format_and_a_device_is_not_replaced(form: str) -> None:
    before = os.stat("/dev/full")
    for more in ("", "--force"):
        command = f"dcpdump read {REPLICA} -q -f {form} {more}"
        assert run(f"{command} -o /dev/full") == refusal(5, f"{FULL_DISK} (/dev/full)")
        assert run(f"{command} -o /dev/null") == (0, "", "")
    after = os.stat("/dev/full")
    assert (after.st_ino, after.st_rdev, stat.S_ISCHR(after.st_mode)) == (before.st_ino, before.st_rdev, True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_standard_output_that_is_full_is_reported() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "dcpdump", "read", str(REPLICA), "-q"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, "", done.stderr.decode()) == refusal(5, f"{FULL_DISK} (standard output)")


def test_a_named_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_text("utf-8")))
    reader.start()
    assert run(f"dcpdump read {REPLICA} -q -f line -o {pipe}") == (0, "", "")
    reader.join(PATIENCE)
    assert (read, pipe.is_fifo()) == ([run(f"dcpdump read {REPLICA} -q -f line").out], True)


def test_a_symlink_at_the_output_is_not_followed(tmp_path: Path) -> None:
    victim, link, loose = tmp_path / "victim", tmp_path / "link", tmp_path / "loose"
    victim.write_text("precious")
    link.symlink_to(victim)
    loose.symlink_to(tmp_path / "nowhere")
    for name in (link, loose):
        refused = refusal(5, f"the output exists already ({name})", "--force replaces it")
        assert run(f"dcpdump read {REPLICA} -q -o {name}") == refused
        assert run(f"dcpdump read {REPLICA} -q -o {name} --force").code == 0
        assert not name.is_symlink(), "the link itself is replaced"
    assert victim.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["link", "loose", "victim"]


@pytest.mark.parametrize("how", ["itself", "symbolic", "hard", "roundabout"])
def test_the_input_is_never_the_output(how: str, tmp_path: Path) -> None:
    capture, out = tmp_path / "a.pcap", tmp_path / "out"
    capture.write_bytes(REPLICA.read_bytes())
    if how == "symbolic":
        out.symlink_to(capture)
    elif how == "hard":
        out.hardlink_to(capture)
    elif how == "roundabout":
        (tmp_path / "deep").mkdir()
        out = tmp_path / "deep" / ".." / "a.pcap"
    else:
        out = capture
    for command in (
        f"dcpdump read {capture}",
        f"dcpdump read {tmp_path}/*.pcap",
        f"dcpdump explain -q --form raw -i {capture}",
    ):
        assert run(f"{command} -o {out} --force") == refusal(5, f"the output is one of the inputs ({out})")
        assert capture.read_bytes() == REPLICA.read_bytes()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_is_read_only_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert run(f"dcpdump read {REPLICA} -o {tmp_path}/frames.txt").code == 5


def test_an_error_on_the_way_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "frames.txt"
    out.write_text("old")
    assert run(f"dcpdump read {tmp_path}/none.pcap -o {out} --force").code == 3
    assert run(f"dcpdump explain zz -o {out} --force").code == 2
    assert out.read_text() == "old"
    assert os.listdir(tmp_path) == ["frames.txt"]
