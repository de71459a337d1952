"""-o: whole or not at all, and nothing else is ever harmed."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.console import run

REPLICA = Path("samples/replica.pcap")
DCPDUMP = [sys.executable, "-m", "dcpdump"]
FORMS = ["table", "grid", "line", "ndjson", "csv"]


def test_a_killed_run_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    out = tmp_path / "frames.txt"
    command = [*DCPDUMP, "read", "-", "-o", str(out), "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(REPLICA.read_bytes()[:3000])
        process.stdin.flush()
        for _ in range(200):
            if os.listdir(tmp_path):
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    (part,) = os.listdir(tmp_path)
    assert part.startswith(".frames.txt.")
    assert stat.S_IMODE((tmp_path / part).stat().st_mode) == 0o600
    assert run(f"dcpdump read {REPLICA} -q -o {out}").code == 0, "what is left is not in the way"
    assert os.listdir(tmp_path) == ["frames.txt"], "and the next run removes it"


def test_a_terminated_run_leaves_nothing_at_all(tmp_path: Path) -> None:
    command = [*DCPDUMP, "read", "-", "-o", str(tmp_path / "frames.txt"), "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(REPLICA.read_bytes()[:3000])
        process.stdin.flush()
        for _ in range(200):
            if os.listdir(tmp_path):
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("form", FORMS)
def test_a_full_disk_is_reported_in_every_format(form: str) -> None:
    with open("/dev/full", "wb") as full:
        command = [*DCPDUMP, "read", str(REPLICA), "-q", "-f", form]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 5
    assert done.stderr.decode() == "dcpdump: error: cannot write: no space left on device (standard output)\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_device_is_written_to_and_not_replaced() -> None:
    before = os.stat("/dev/full")
    for more in ("", "--force"):
        printed = run(f"dcpdump read {REPLICA} -q -o /dev/full {more}")
        assert printed == (5, "", "dcpdump: error: cannot write: no space left on device (/dev/full)\n")
        assert run(f"dcpdump read {REPLICA} -q -o /dev/null {more}") == (0, "", "")
    after = os.stat("/dev/full")
    assert (after.st_ino, after.st_rdev, stat.S_ISCHR(after.st_mode)) == (before.st_ino, before.st_rdev, True)


def test_a_named_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([*DCPDUMP, "read", str(REPLICA), "-q", "-f", "line", "-o", str(pipe)]) as process:
        text = pipe.read_text("utf-8")
        assert process.wait(20) == 0
    assert text == run(f"dcpdump read {REPLICA} -q -f line").out
    assert pipe.is_fifo()


def test_a_symlink_at_the_output_is_not_followed(tmp_path: Path) -> None:
    victim, link, loose = tmp_path / "victim", tmp_path / "link", tmp_path / "loose"
    victim.write_text("precious")
    link.symlink_to(victim)
    loose.symlink_to(tmp_path / "nowhere")
    for name in (link, loose):
        refused = run(f"dcpdump read {REPLICA} -q -o {name}")
        assert (refused.code, refused.err.splitlines()[0]) == (5, f"dcpdump: error: the output exists already ({name})")
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
        f"dcpdump explain --form raw -i {capture}",
    ):
        printed = run(f"{command} -o {out} --force")
        assert printed.code == 5, printed
        assert "the output is one of the inputs" in printed.err
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
