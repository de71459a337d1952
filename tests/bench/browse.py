"""Measure browse as a person meets it: in a terminal of its own, by keys, and by what comes back on the screen.

    python -m tests.bench.browse CAPTURE [--key TEXT]

Times at a key are those until the screen has what was asked for; CPU is that of the process of the screen. An empty
application of Textual on the same terminal is measured beside it: the start can be no shorter.
"""

import argparse
import fcntl
import os
import pty
import random
import statistics
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path
from select import select

from tests.support.live import children_of

_SIZE = (50, 160)
_PATIENCE = 300.0
_EMPTY = """
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("#1 ")
Empty().run()
"""
_JUMPS = 30


def report(what: str, value: str) -> None:
    print(f"{what:44} {value}", flush=True)


class Screen:
    """A command in a terminal."""

    def __init__(self, command: list[str]) -> None:
        self.begun = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "xterm-256color"
            os.execv(command[0], command)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", *_SIZE, 0, 0))

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._fd, keys)

    def until(self, text: bytes) -> float:
        """Wait until a text is drawn; return the seconds that it took."""
        shown, begun = b"", time.perf_counter()
        while text not in shown:
            if not select([self._fd], [], [], _PATIENCE)[0]:
                raise SystemExit(f"{text!r} was not shown")
            shown += os.read(self._fd, 1 << 16)
        return time.perf_counter() - begun

    def drain(self, seconds: float) -> None:
        """Read what is drawn meanwhile."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            if select([self._fd], [], [], left)[0]:
                os.read(self._fd, 1 << 16)

    def answers(self, key: bytes, times: int) -> str:
        """Press a key again and again; return how long it takes until something is drawn."""
        took = []
        for _ in range(times):
            self.drain(0.1)
            begun = time.perf_counter()
            self.press(key)
            select([self._fd], [], [], _PATIENCE)
            took.append(time.perf_counter() - begun)
        return f"{statistics.median(took) * 1e3:.0f} / {max(took) * 1e3:.0f} ms"

    def leave(self) -> float:
        """Leave; return the seconds until the process has ended."""
        begun = time.perf_counter()
        self.press(b"q")
        while True:
            try:
                if not os.read(self._fd, 1 << 16):
                    break
            except OSError:
                break
        os.waitpid(self.pid, 0)
        os.close(self._fd)
        return time.perf_counter() - begun


def cpu(pid: int) -> float:
    """Return the seconds of processor that a process has taken."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def own_memory(pid: int) -> str:
    """Return the memory of a process without what it has mapped from files."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return f"{int(lines['RssAnon'].split()[0]) / 1024:.0f} MB"


def below(pid: int) -> list[int]:
    """Return the processes that a process has started, and theirs."""
    children = children_of(pid)
    return children + [each for child in children for each in below(child)]


def started(command: list[str]) -> tuple[Screen, float, float]:
    """Start a command; return it, the seconds until its first row, and its CPU by then."""
    screen = Screen(command)
    screen.until(b"#1 ")
    return screen, time.perf_counter() - screen.begun, cpu(screen.pid)


def measure_start(browse: list[str]) -> Screen:
    """Start both applications, the empty one first."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(_EMPTY)
        file.flush()
        empty, wall, spent = started([sys.executable, file.name])
        report("an empty Textual: wall / CPU to the first row", f"{wall:.2f} / {spent:.2f} s")
        empty.drain(0.5)
        empty.press(b"\x11")  # ctrl+q
        report("leaving it", f"{empty.leave():.2f} s")
    screen, wall, spent = started(browse)
    others = " and ".join(f"{cpu(pid):.2f}" for pid in below(screen.pid))
    report("browse: wall / CPU to the first row", f"{wall:.2f} / {spent:.2f} s (the processes beside it: {others})")
    return screen


def measure_filters(screen: Screen, texts: list[str]) -> None:
    """Filter by headers, from Enter to the first count of what is listed."""
    for text in texts:
        screen.press(b"/")
        screen.drain(0.3)
        screen.press(text.encode())
        screen.drain(0.5)
        before = cpu(screen.pid)
        screen.press(b"\r")
        took = screen.until(b" of ")
        report(f"/{text}", f"{took:.2f} s, {cpu(screen.pid) - before:.2f} s of CPU")
        screen.press(b"\x1b")
        screen.drain(0.7)


def measure_jumps(screen: Screen, frames: int) -> None:
    """Go to frames anywhere, from Enter until their fields are shown."""
    chance, took = random.Random(1), []
    for _ in range(_JUMPS):
        number = chance.randint(2, frames)
        screen.press(b":")
        screen.drain(0.1)
        screen.press(str(number).encode())
        screen.drain(0.1)
        screen.press(b"\r")
        took.append(screen.until(f"#{number:,} ".encode()))
    report("to any frame: median / worst", f"{statistics.median(took) * 1e3:.0f} / {max(took) * 1e3:.0f} ms")


def main() -> None:
    """Measure everything."""
    options = argparse.ArgumentParser(prog="python -m tests.bench.browse", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("capture")
    options.add_argument("--frames", type=int, default=100_000, help="how many frames to jump among")
    options.add_argument("--key", default="*0077*", help="the keys of the slow filter")
    given = options.parse_args()
    screen = measure_start([sys.executable, "-m", "dcpdump", "browse", given.capture])
    report("a key while it is indexed: median / worst", screen.answers(b"j", 25))
    while len(below(screen.pid)) > 2:
        screen.drain(0.2)
    report("all frames are indexed after", f"{time.perf_counter() - screen.begun:.1f} s")
    while len(below(screen.pid)) > 1:
        screen.drain(0.2)
    report("all tabs are there after", f"{time.perf_counter() - screen.begun:.1f} s")
    report("CPU of the screen so far", f"{cpu(screen.pid):.2f} s")
    report("a key: median / worst", screen.answers(b"j", 25))
    report("a page: median / worst", screen.answers(b"\x06", 25))
    measure_jumps(screen, given.frames)
    measure_filters(screen, ["opcode mutation", "opcode snapshot_marker vbucket 7", "status !success"])
    before = cpu(screen.pid)
    screen.press(f"/key {given.key}\r".encode())
    report(f"/key {given.key}: the first frame", f"{screen.until(b' of '):.2f} s")
    report("a key meanwhile: median / worst", screen.answers(b"j", 15))
    report("CPU of the screen meanwhile", f"{cpu(screen.pid) - before:.2f} s")
    beside = ", ".join(own_memory(pid) for pid in below(screen.pid))
    report("memory of the screen, and of the process beside it", f"{own_memory(screen.pid)}, {beside}")
    report("leaving meanwhile", f"{screen.leave():.2f} s")


if __name__ == "__main__":
    main()
