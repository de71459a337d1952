"""Signals that end a run, in whatever state it is: while it starts, reads, waits for others and closes."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from dcpdump.cli.signals import Interruptible
from dcpdump.held_signals import signals_held
from tests.support.console import run
from tests.support.live import PATIENCE, ROOT, at_import, children_of, fed, wait_for, wait_until_idle

NUMBERS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


_NOTHING_READ = "interrupted · 0 frames read · 0 packets · 0 connections · payload 0 B = 0 in frames\n"


def signalled_at_import(module: str, number: int, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run ``dcpdump …``, which is sent a signal when it begins to import a module."""
    return at_import(module, f"os.kill(os.getpid(), {int(number)})", *words)


@pytest.mark.parametrize(
    ("module", "number", "code"),
    [
        ("dcpdump.cli.main", *NUMBERS[0]),
        ("click", *NUMBERS[1]),
        ("dcpdump.cli.stats", *NUMBERS[2]),
        ("dcpdump.batch.block", *NUMBERS[0]),
        ("numpy", *NUMBERS[1]),
    ],
)
def test_a_signal_ends_a_run_that_is_still_starting(module: str, number: int, code: int) -> None:
    done = signalled_at_import(module, number, "stats", "samples/replica.pcap", "-f", "ndjson")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr in ("", _NOTHING_READ)  # reading may just have begun, when all is imported


#: Runs the program, which is sent a signal when a native module makes an enumeration while it is imported.
_SIGNALLED_AT_ENUMERATION = """
import enum, os, sys

made = type(enum.Enum).__call__.__code__

def signal_at(frame, event, _):
    if event == "call" and frame.f_code is made and frame.f_back.f_code.co_name == "_call_with_frames_removed":
        sys.setprofile(None)
        os.kill(os.getpid(), int(number))

number = sys.argv.pop(1)
sys.setprofile(signal_at)
from dcpdump.__main__ import start
start()
"""


def test_a_signal_ends_a_run_in_the_middle_of_what_a_native_module_does_to_be_imported() -> None:
    words = [str(int(signal.SIGTERM)), "sql", "select count(*) from frames", "samples/replica.pcap"]
    command = [sys.executable, "-c", _SIGNALLED_AT_ENUMERATION, *words]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, b"", b"")


#: Runs as the program something else that is sent a signal.
_INTERRUPTED = """
import os, signal, sys, time
from dcpdump.cli import main

class Importing:
    def find_spec(self, name, path=None, target=None):
        if name == "interrupted":
            os.kill(os.getpid(), signal.SIGINT)

class Freed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        [number for number in range(1000)]

def outcome(words):
    try:
        {does}
    except KeyboardInterrupt:
        return 130
    return 0

sys.meta_path.insert(0, Importing())
main.outcome = outcome
main.run()
"""


@pytest.mark.parametrize(
    "does",
    [
        pytest.param('exec("os.kill(os.getpid(), signal.SIGINT)")', id="in code made from text, as of dataclasses"),
        pytest.param("Freed(); time.sleep(60)", id="while an object is freed, where exceptions are dropped"),
        pytest.param("import interrupted", id="at the last import of a run"),
    ],
)
def test_the_exit_code_is_that_of_the_contract_wherever_the_signal_came(does: str, tmp_path: Path) -> None:
    (tmp_path / "run_interrupted.py").write_text(_INTERRUPTED.format(does=does))
    (tmp_path / "interrupted.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-m", "run_interrupted"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_ctrl_c_ends_what_is_done_or_about_to_be_done_and_nothing_else() -> None:
    done = []

    def do() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("went on")

    def fail() -> None:
        raise ValueError("in vain")

    before = signal.getsignal(signal.SIGINT)
    with Interruptible() as interruptible:
        assert not interruptible.run(do)
        assert interruptible.run(lambda: done.append("first"))
        signal.raise_signal(signal.SIGINT)
        assert not interruptible.run(lambda: done.append("not done"))
        assert interruptible.run(lambda: done.append("second"))
        with pytest.raises(ValueError, match="in vain"):
            interruptible.run(fail)
        signal.raise_signal(signal.SIGINT)
    assert (done, signal.getsignal(signal.SIGINT)) == (["first", "second"], before)


@pytest.mark.parametrize(
    ("module", "command", "number", "code"),
    [
        ("pyarrow.parquet", "export", *NUMBERS[0]),
        ("dcpdump.spark.local", "pipeline --engine local", *NUMBERS[1]),
        ("pyarrow.csv", "export -f csv", *NUMBERS[2]),
    ],
)
def test_nothing_is_left_of_a_folder_that_was_just_made(
    module: str, command: str, number: int, code: int, tmp_path: Path
) -> None:
    words = (*command.split(), "samples/replica.pcap", "-q", "-o", str(tmp_path / "out"))
    done = signalled_at_import(module, number, *words)
    assert (done.returncode, done.stdout, os.listdir(tmp_path)) == (code, "", [])
    assert done.stderr in ("", f"interrupted · nothing was written to {tmp_path / 'out'}\n")


@pytest.fixture(params=[number for number, _ in NUMBERS])
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return a signal that is raised as an interrupt while the test lasts."""
    before = signal.signal(request.param, signal.default_int_handler)
    yield request.param
    signal.signal(request.param, before)


def test_a_signal_comes_when_what_must_be_done_whole_is_done(number: int) -> None:
    done = []

    def do() -> None:
        with signals_held():
            signal.raise_signal(number)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        do()
    assert (done, signal.getsignal(number)) == (["all of it"], signal.default_int_handler)


def test_a_signal_that_is_ignored_stays_ignored(number: int) -> None:
    signal.signal(number, signal.SIG_IGN)
    with signals_held():
        signal.raise_signal(number)
    assert signal.getsignal(number) == signal.SIG_IGN


@contextmanager
def paged() -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command on a terminal, during the block, whose pager never ends and which waits for it."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "DCPDUMP_PAGER": "sleep 600", "TERM": "xterm"}
    words = [sys.executable, "-m", "dcpdump", "streams", "samples/replica.pcap"]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        try:
            wait_for(lambda: len(children_of(process.pid)) == 1)
            wait_until_idle(process.pid)
            yield process
        finally:
            process.kill()
            os.close(ours)


def test_a_run_that_is_terminated_ends_its_pager_first() -> None:
    with paged() as process:
        (pager,) = children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
        assert not Path(f"/proc/{pager}").exists()


def test_ctrl_c_is_for_the_pager_however_often() -> None:
    with paged() as process:
        (pager,) = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        wait_until_idle(process.pid)
        assert children_of(process.pid) == [pager]
        os.kill(pager, signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_a_terminal_that_is_closed_leaves_nothing_unfinished(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = ["read", "-", "-o", str(tmp_path / "out")]
    data = Path("samples/replica.pcap").read_bytes()[:3000]
    with fed(words, data, stdout=theirs, stderr=theirs, preexec_fn=partial(_control, theirs)) as process:
        os.close(theirs)
        wait_for(lambda: len(os.listdir(tmp_path)) == 1)
        os.close(ours)
        assert (process.wait(PATIENCE), os.listdir(tmp_path)) == (129, [])


def test_an_analysis_whose_terminal_is_closed_writes_the_file_that_it_was_to_write(tmp_path: Path) -> None:
    data, out = Path("samples/replica.pcap").read_bytes(), tmp_path / "streams.txt"
    ours, theirs = pty.openpty()
    with fed(["streams", "-", "-o", str(out)], data, stderr=theirs, preexec_fn=partial(_control, theirs)) as process:
        os.close(theirs)
        os.close(ours)
        process.send_signal(signal.SIGHUP)  # as the shell does, beside the system
        assert process.wait(PATIENCE) == 129
    assert out.read_text("utf-8") == run("dcpdump streams -", data).out


def test_a_terminal_that_is_closed_does_not_end_what_was_started_with_nohup() -> None:
    data = Path("samples/replica.pcap").read_bytes()
    with fed(["streams", "-"], data, preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)) as process:
        process.send_signal(signal.SIGHUP)
        wait_until_idle(process.pid)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out.decode()) == (143, run("dcpdump streams -", data).out)


def _control(terminal: int) -> None:
    """Have a terminal be that of this process, which then learns when it is closed."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
