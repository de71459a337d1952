"""Where processes are limited, and with them threads, every command works all the same, or says what it lacks."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.console import Printed, refusal, run
from tests.support.live import PATIENCE, ROOT, needs

HISTORY = ROOT / "samples" / "history.pcap"
#: What a user may do who has no right but to read our files, wherever they are, and to capture.
_FEW = "-all,+dac_override,+net_raw"


def few_processes(allowed: int, *words: str, stdin: bytes = b"") -> Printed:
    """Run ``dcpdump …`` as a user who may have so many processes: root is not bound by a limit."""
    needs("prlimit", "setpriv")
    user = f"{100_000 + os.getpid()}"  # who has no other processes
    sets = (f"--{name}={_FEW}" for name in ("inh-caps", "ambient-caps", "bounding-set"))
    become = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups", *sets) if os.geteuid() == 0 else ()
    command = (*become, "prlimit", f"--nproc={allowed}", sys.executable, "-m", "dcpdump", *words)
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=ROOT, timeout=PATIENCE, check=False)
    return Printed(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        *((f"{name} CAPTURE", 1) for name in ("read", "stats", "conns", "key user::1001", "top", "check")),
        *((f"{name} CAPTURE -w /dev/null", 1) for name in ("redact", "carve")),
        *((f"{name} -", 1) for name in ("read", "streams", "top --once", "check")),
        *(("check -", allowed) for allowed in (2, 3)),
    ],
)
def test_a_command_comes_to_the_same_with_few_processes(words: str, allowed: int) -> None:
    command = [str(HISTORY) if word == "CAPTURE" else word for word in words.split()]
    stdin = HISTORY.read_bytes() if "-" in command else b""
    assert few_processes(allowed, *command, stdin=stdin) == run(shlex.join(["dcpdump", *command]), stdin)


@pytest.mark.parametrize(
    ("command", "allowed"), [("export -f csv", 1), ("export -f csv", 3), ("pipeline", 1), ("pipeline", 2)]
)
def test_tables_are_written_with_few_processes(tmp_path: Path, command: str, allowed: int) -> None:
    few_processes(allowed, *command.split(), str(HISTORY), "-o", str(tmp_path / "few"), "-q")
    run(f"dcpdump {command} {HISTORY} -o {tmp_path}/many -q")
    assert _files(tmp_path / "few") == _files(tmp_path / "many") != []


def _files(folder: Path) -> list[tuple[str, int]]:
    """Return the folder and the size of each file: names are drawn anew in each run."""
    files = (each for each in folder.rglob("*") if each.is_file())
    return sorted((str(each.parent.relative_to(folder)), each.stat().st_size) for each in files)


@pytest.mark.skipif(os.geteuid() != 0, reason="no right to capture")
@pytest.mark.parametrize("words", ["sniff -w /dev/null --force", "top --once"])
def test_a_capture_that_no_thread_can_take_is_refused(words: str) -> None:
    reported = few_processes(1, *words.split(), "-i", "lo")
    hint = "ulimit -u, or the limit of the container, says how many there may be"
    assert reported == refusal(6, "cannot capture: no thread may be started here (lo)", hint)
