"""-o: whole or not at all, and nothing else is ever harmed."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from tests.support.console import refusal, run
from tests.support.live import PATIENCE, fed, wait_for

REPLICA = Path("samples/replica.pcap")


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
