"""Provide a network for tests that really capture, and programs that run in it."""

import array
import fcntl
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
#: How long anything may take before a test fails; nothing is slow because of it.
PATIENCE = 120


class Network:
    """A network namespace with a loopback interface."""

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self, *words: str, **options: Any) -> "subprocess.Popen[str]":
        """Start a program inside."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT, **options}
        options["start_new_session"] = True  # so that it ends with all that it started
        return subprocess.Popen(["ip", "netns", "exec", self.name, *words], **options)

    def run(self, *words: str) -> str:
        """Run a program inside to its end, and return what it printed."""
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        return out

    def talk(self, role: str, *words: str) -> "subprocess.Popen[str]":
        """Start the sample producer or client."""
        return self.start(sys.executable, "samples/talk.py", role, *words)

    @contextmanager
    def producer(self, *words: str) -> Iterator[None]:
        """Run the sample producer during the block."""
        with ended(self.talk("producer", *words)) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("listening")
            yield

    def sniff(self, *words: str, **options: Any) -> "AbstractContextManager[subprocess.Popen[str]]":
        """Run ``dcpdump sniff`` during the block."""
        return self.capture("sniff", *words, **options)

    @contextmanager
    def capture(self, *words: str, **options: Any) -> Iterator["subprocess.Popen[str]"]:
        """Run a command of dcpdump that captures during the block."""
        with ended(self.start(sys.executable, "-m", "dcpdump", *words, **options)) as process:
            assert process.stderr is not None
            reported = [process.stderr.readline()]
            while not reported[-1].startswith("capturing on "):
                assert reported[-1], "".join(reported)
                reported.append(process.stderr.readline())
            yield process


@contextmanager
def network() -> Iterator[Network]:
    """Provide a network, or skip the test, and say why."""
    ip = shutil.which("ip")
    if ip is None:
        pytest.skip("the program ip is not installed: no network to capture in")
    name = f"dcpdump-{os.getpid()}"
    made = subprocess.run([ip, "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no right to make a network to capture in: {made.stderr.strip()}")
    try:
        inside = Network(name)
        inside.run("ip", "link", "set", "lo", "up")
        yield inside
    finally:
        subprocess.run([ip, "netns", "del", name], check=True)


@contextmanager
def ended(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """Run a process during the block, and no longer."""
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


@contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Run a command during the block, and no longer."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()  # else a block that fails would wait for its end


def stopped(process: "subprocess.Popen[str]", number: int) -> tuple[int, str, str]:
    """Send a signal, and return the exit code and what was printed since."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started; none where it has ended."""
    try:
        threads = list(Path(f"/proc/{pid}/task").glob("*/children"))
        return [int(each) for thread in threads for each in thread.read_text().split()]
    except OSError:
        return []


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.01)


def needs(*programs: str) -> None:
    """Skip the test where a program is missing."""
    missing: Sequence[str] = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@contextmanager
def fed(command: Sequence[str], data: bytes, **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """Run ``dcpdump …`` during the block, on a pipe that stays open, once it has read the data and waits for more."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT, **options}
    reader, writer = os.pipe()
    with running([sys.executable, "-m", "dcpdump", *command], stdin=reader, **options) as process:
        os.close(reader)
        patience = threading.Timer(PATIENCE, process.kill)  # a reader of its output then gets the end of it
        patience.start()
        try:
            with open(writer, "wb", buffering=0) as pipe:
                pipe.write(data)
                wait_for(lambda: not waiting_in(pipe))
                wait_until_idle(process.pid)
                yield process
        finally:
            patience.cancel()


def waiting_in(pipe: Any) -> int:
    """Return the number of bytes in a pipe that were not read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def wait_until_idle(pid: int) -> None:
    """Wait until a process has done nothing for a while."""
    before = ""
    while (spent := " ".join(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) != before:
        before = spent
        time.sleep(0.3)


def shown_on(terminal: int) -> str:
    """Return what is written to a terminal until it is closed by its writers, and close it."""
    shown = b""
    with open(terminal, "rb", buffering=0) as file, suppress(OSError):  # which is the end of a terminal
        while piece := file.read(4096):
            shown += piece
    return shown.decode()


def on_a_terminal(
    command: Sequence[str], columns: int = 80, data: bytes = b"", **environment: str
) -> tuple[int, list[str]]:
    """Run ``dcpdump …`` on a terminal that is so wide, without colours, and return its code and the lines shown."""
    ours, theirs = pty.openpty()
    usual = {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": str(columns), "DCPDUMP_PAGER": ""}
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": theirs, "stderr": theirs, "cwd": ROOT}
    environment = {**os.environ, **usual, **environment}
    with running([sys.executable, "-m", "dcpdump", *command], env=environment, **options) as process:
        os.close(theirs)
        assert process.stdin is not None
        process.stdin.write(data)
        process.stdin.close()
        shown = shown_on(ours).replace("\r\n", "\n").splitlines()
        return process.wait(PATIENCE), shown


_AT_IMPORT = """
import os, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            {does}

sys.meta_path.insert(0, Finder())
from dcpdump.__main__ import start
start()
"""


def at_import(module: str, does: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run ``dcpdump …``, in which a line of Python is run when it begins to import a module."""
    command = [sys.executable, "-c", _AT_IMPORT.format(module=module, does=does), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
