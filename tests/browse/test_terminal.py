"""A real terminal: what is on it, and that it is as before when the screen closes, whichever way that happens."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from select import select

import pytest

from tests.support.console import refusal, run
from tests.support.live import PATIENCE, children_of

SAMPLES = Path(__file__).parent.parent.parent / "samples"
ALTERNATE, ORDINARY = b"\x1b[?1049h", b"\x1b[?1049l"
#: Shows how the terminal is before and after.
SHELL = "stty -a > before; {command}; echo $? > status; stty -a > after"


class Terminal:
    """A shell on a terminal of its own, with a command in it."""

    def __init__(self, command: str, folder: Path, term: str = "xterm-256color") -> None:
        self._folder = folder
        self.pid, self._fd = pty.fork()
        if not self.pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
            os.chdir(folder)
            os.environ.update(TERM=term, PYTHONPATH=str(SAMPLES.parent))
            os.execv("/bin/sh", ["/bin/sh", "-c", SHELL.format(command=command)])
        self.shown = b""

    def until(self, text: bytes) -> None:
        """Wait until a text was shown."""
        while text not in self.shown:
            assert select([self._fd], [], [], PATIENCE)[0], self.shown[-2000:]
            self.shown += os.read(self._fd, 65536)

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._fd, keys)

    def finish(self) -> tuple[int, bool]:
        """Wait for the end; return the exit code, and whether the terminal is as it was before."""
        with contextlib.suppress(OSError):
            while select([self._fd], [], [], PATIENCE)[0]:
                self.shown += os.read(self._fd, 65536)
        os.waitpid(self.pid, 0)
        before, after = ((self._folder / name).read_text() for name in ("before", "after"))
        return int((self._folder / "status").read_text()), before == after

    def play(self, *steps: tuple[bytes, bytes]) -> tuple[int, bool]:
        """Wait for each text, press what follows it, leave, and wait for the end."""
        for text, keys in steps:
            self.until(text)
            self.press(keys)
        return self.finish()

    def close(self) -> None:
        os.close(self._fd)


Opening = Callable[..., Terminal]


@pytest.fixture(name="terminal")
def _terminal(tmp_path: Path) -> Iterator[Opening]:
    """Yield a function that opens a terminal with a command."""
    with contextlib.ExitStack() as stack:

        def opened(command: str, term: str = "xterm-256color") -> Terminal:
            made = Terminal(command, tmp_path, term)
            stack.callback(made.close)
            return made

        yield opened


def browsing(capture: str, options: str = "") -> str:
    return f"{sys.executable} -m dcpdump browse {capture} {options}"


@pytest.mark.parametrize(
    ("term", "keys", "shown"),
    [("xterm-256color", b"/opcode stream_req seqno 110208\r", b"#13 "), ("dumb", b"jj", b"#3 ")],
    ids=["many keys in one piece", "a dumb terminal"],
)
def test_leaving_restores_the_terminal(term: str, keys: bytes, shown: bytes, terminal: Opening) -> None:
    screen = terminal(browsing(f"{SAMPLES}/refused.pcap"), term)
    assert screen.play((b"#1 ", keys), (shown, b"q")) == (0, True)
    assert screen.shown.rindex(ALTERNATE) < screen.shown.rindex(ORDINARY)


@pytest.mark.parametrize(
    ("options", "said"),
    [("", b"Erange"), ("--max-spool 2k", b"standard input is longer than --max-spool (2.05 kB)")],
    ids=["whole", "limited"],
)
def test_a_capture_comes_on_standard_input(options: str, said: bytes, terminal: Opening) -> None:
    screen = terminal(f"cat {SAMPLES}/refused.pcap | {browsing('-', options)}")
    assert screen.play((b"#1 ", b"2"), (said, b"q")) == (0, True)


def test_a_capture_that_is_still_written_is_followed(tmp_path: Path, terminal: Opening) -> None:
    whole = (SAMPLES / "refused.pcap").read_bytes()
    growing = tmp_path / "growing.pcap"
    growing.write_bytes(whole[:1200])
    screen = terminal(browsing("growing.pcap", "--follow"))
    screen.until(b"waiting")
    with growing.open("ab") as file:
        file.write(whole[1200:])
    screen.until(b"#20 ")
    screen.press(b"2")
    screen.until(b"Erange")
    (child,) = children_of(screen.pid)
    helpers = children_of(child)
    assert len(helpers) == 2  # one indexes and answers, one analyses
    screen.press(b"q")
    assert screen.finish() == (0, True)
    assert [pid for pid in helpers if Path(f"/proc/{pid}").exists()] == []


def test_what_turns_out_to_have_no_dcp_closes_the_screen(tmp_path: Path, terminal: Opening) -> None:
    (tmp_path / "header.pcap").write_bytes((SAMPLES / "refused.pcap").read_bytes()[:24])
    os.mkfifo(tmp_path / "go")
    screen = terminal(f"(cat header.pcap; read word < go) | {browsing('-')}")
    screen.until(b"waiting")
    (tmp_path / "go").write_text("go\n")
    assert screen.finish() == (3, True)
    assert b"dcpdump: error: no packet in the input" in screen.shown.partition(ORDINARY)[2]


def test_rows_stay_where_the_process_that_answers_dies(terminal: Opening) -> None:
    screen = terminal(browsing(f"{SAMPLES}/refused.pcap", "--follow"))
    screen.until(b"waiting")
    (child,) = children_of(screen.pid)
    opened = {pid: set(map(os.path.realpath, Path(f"/proc/{pid}/fd").iterdir())) for pid in children_of(child)}
    (reader,) = (pid for pid, names in opened.items() if os.path.realpath(SAMPLES / "refused.pcap") in names)
    os.kill(reader, signal.SIGKILL)
    ended = b"the process that reads frames has ended"
    unread = b"#1 cannot be read again: the process that reads frames has ended"
    assert screen.play((ended, b"g"), (unread, b""), (b"not known", b"q")) == (0, True)


def test_without_colours_signs_and_inverse_are_left(terminal: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = terminal(browsing(f"{SAMPLES}/rollback-loop.pcap"))
    assert screen.play((b"#1 ", b"p"), ("✗".encode(), b"q")) == (0, True)
    rendered = {code for found in re.findall(rb"\x1b\[([0-9;]*)m", screen.shown) for code in found.split(b";")}
    assert rendered <= {b"", b"0", b"1", b"2", b"7", b"39", b"49"}
    assert b"7" in rendered


STATUS = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}


def test_a_signal_restores_the_terminal(terminal: Opening) -> None:
    screen = terminal(browsing(f"{SAMPLES}/refused.pcap"))
    screen.until(b"#1 ")
    (child,) = children_of(screen.pid)
    os.kill(child, signal.SIGINT)
    assert screen.finish() == (STATUS[signal.SIGINT], True)
    assert screen.shown.rindex(ALTERNATE) < screen.shown.rindex(ORDINARY)


#: Runs the program, which is sent a signal when it first calls a function.
SIGNALLED_AT_CALL = """
import os, sys

def signal_at(frame, event, _):
    if event == "call" and frame.f_code.co_name == function:
        sys.setprofile(None)
        os.kill(os.getpid(), int(number))

function, number = sys.argv[1:3]
del sys.argv[1:3]
sys.setprofile(signal_at)
from dcpdump.__main__ import start
start()
"""


@pytest.mark.parametrize(
    ("function", "number"),
    [
        pytest.param("_make_self_pipe", signal.SIGINT, id="SIGINT while the loop of events is made"),
        pytest.param("_make_self_pipe", signal.SIGTERM, id="SIGTERM while the loop of events is made"),
        pytest.param("_disable_line_wrap", signal.SIGHUP, id="SIGHUP while the terminal is changed"),
    ],
)
def test_a_signal_restores_the_terminal_also_while_the_screen_opens(
    function: str, number: signal.Signals, tmp_path: Path, terminal: Opening
) -> None:
    (tmp_path / "signalled.py").write_text(SIGNALLED_AT_CALL)
    command = f"{sys.executable} signalled.py {function} {int(number)} browse {SAMPLES}/refused.pcap"
    screen = terminal(command)
    assert screen.finish() == (STATUS[number], True)
    assert b"Exception" not in screen.shown
    assert screen.shown.rfind(ALTERNATE) <= screen.shown.rfind(ORDINARY)


def test_damage_is_said_and_ends_with_4(tmp_path: Path, terminal: Opening) -> None:
    (tmp_path / "cut.pcap").write_bytes((SAMPLES / "refused.pcap").read_bytes()[:-7])
    screen = terminal(browsing("cut.pcap"))
    assert screen.play((b"damaged", b"q")) == (4, True)
    assert b"dcpdump: warning: " in screen.shown.partition(ORDINARY)[2]


@pytest.mark.parametrize("name", ["nothing.pcap", "text.pcap"])
def test_what_is_no_capture_or_has_no_dcp_opens_no_screen(name: str, tmp_path: Path, terminal: Opening) -> None:
    (tmp_path / "text.pcap").write_text("hello")
    (tmp_path / "nothing.pcap").write_bytes((SAMPLES / "refused.pcap").read_bytes()[:24])
    screen = terminal(browsing(name))
    assert screen.finish() == (3, True)
    assert ALTERNATE not in screen.shown
    said = screen.shown.decode().replace("\r\n", "\n")
    assert said.replace(name, str(tmp_path / name)) == run(f"dcpdump read {tmp_path / name}").err


def test_without_a_terminal_another_command_is_named() -> None:
    error = "browsing needs a terminal; instead: dcpdump read CAPTURE | less, or dcpdump top CAPTURE"
    assert run(f"dcpdump browse {SAMPLES}/refused.pcap") == refusal(2, error, "dcpdump browse --help")


def test_without_textual_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpdump.cli.browse.find_spec", lambda name: None)
    hints = ("pip install 'textual>=8'", "without it: dcpdump read CAPTURE | less, or dcpdump top CAPTURE")
    assert run(f"dcpdump browse {SAMPLES}/refused.pcap") == refusal(2, "browsing needs Textual", *hints)


def test_a_wrong_filter_is_an_error_before_anything_is_opened() -> None:
    shown = run(f"dcpdump browse {SAMPLES}/refused.pcap --opcode mutaton")
    assert (shown.code, shown.err.splitlines()[0]) == (2, "dcpdump: error: unknown opcode 'mutaton' for --opcode")
