"""Where processes, and with them threads, or descriptors are few, commands work all the same, or say what they lack."""

import os
import resource
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from dcpdump.capture import source
from dcpdump.capture.source import ReopenedFile
from tests.support.console import Printed, contents, refusal, run
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
        *((f"{name} CAPTURE", 1) for name in ("read", "stats", "key user::1001", "check")),
        ("redact CAPTURE -w /dev/null", 1),
        *((f"{name} -", 1) for name in ("read", "streams", "top --once")),
        *(("check -", allowed) for allowed in (1, 2, 3)),
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


REPLICA = ROOT / "samples" / "replica.pcap"
FILES, DESCRIPTORS = 50, 40


def few_descriptors(words: str) -> Printed:
    """Run ``dcpdump …`` with few descriptors."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    command = [sys.executable, "-m", "dcpdump", *words.split()]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, preexec_fn=limit, timeout=PATIENCE, check=False)
    return Printed(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    for number in range(FILES):
        (folder / f"{number:02}.pcap").write_bytes(REPLICA.read_bytes())
    return folder


@pytest.mark.parametrize("command", ["read -f line", "check"])
def test_many_captures_of_one_time_are_read_with_few_descriptors(command: str, folder: Path) -> None:
    assert few_descriptors(f"{command} {folder}") == run(f"dcpdump {command} {folder}")


def test_many_captures_are_redacted_with_few_descriptors(folder: Path, tmp_path: Path) -> None:
    for redacted, out in ((few_descriptors, "few"), (lambda words: run(f"dcpdump {words}"), "many")):
        assert redacted(f"redact {folder} -w {tmp_path}/{out} --salt x -q").code == 0
    found = contents(tmp_path / "few")
    assert (found, sorted(found)) == (contents(tmp_path / "many"), sorted(os.listdir(folder)))


def test_a_file_that_was_replaced_meanwhile_is_not_read_on(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abcdef")
    file = ReopenedFile(str(path), 1)
    assert file.read(2) == b"bc"
    file.rest()
    assert file.read(2) == b"de"
    file.rest()
    (tmp_path / "b").write_bytes(b"ABCDEF")
    os.replace(tmp_path / "b", path)
    with closing(file), pytest.raises(OSError, match="replaced"):
        file.read(2)


def test_a_file_stays_open_while_a_thread_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    slow, *others = (ReopenedFile(str(tmp_path / "a")) for _ in range(source._MOST + 1))
    assert slow.read(1) == b"a"
    read = os.read

    def read_after_all_others(fd: int, size: int) -> bytes:
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as pool:
            assert set(pool.map(lambda file: file.read(3), others)) == {b"abc"}
        return read(fd, size)

    monkeypatch.setattr(os, "read", read_after_all_others)
    assert slow.read(2) == b"bc"
    for file in (slow, *others):
        file.close()
