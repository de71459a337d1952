"""Standard error: notes arrive whole and in order, count rightly, and say how far something is that takes long."""

import io
import re
import sys
from pathlib import Path

import pytest

from dcpdump.capture import open_capture
from dcpdump.cli import progress
from dcpdump.cli.stderr import note
from dcpdump.render.conns import ConnectionTable
from dcpdump.render.text_columns import bytes_text
from tests.support.console import run
from tests.support.diagnoses import written
from tests.support.ledgers import ledger


class InterruptedOnce(io.StringIO):
    """A stream that refuses to be written to while it is written to, and gets a signal then."""

    busy = False
    interrupted = False

    def write(self, text: str) -> int:
        """Write a text, in the middle of which a handler writes another."""
        if self.busy:
            raise RuntimeError("reentrant call")
        self.busy = True
        if not self.interrupted:
            self.interrupted = True
            note("of the handler")
        self.busy = False
        return super().write(text)


def test_what_a_signals_handler_writes_follows_what_it_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = InterruptedOnce()
    monkeypatch.setattr(sys, "stderr", stream)
    note("capturing")
    note("captured")
    assert stream.getvalue() == "capturing\nof the handler\ncaptured\n"


REPLICA = Path("samples/replica.pcap")


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("read", "size", "seconds", "text"),
    [
        (0, 141_000_000, 1.0, "0 B of 141 MB · 0 % · 0 B/s"),
        (47_000_000, 141_000_000, 2.0, "47 MB of 141 MB · 33 % · 23.5 MB/s · 4 s left"),
        (141_000_000, 141_000_000, 6.0, "141 MB of 141 MB · 100 % · 23.5 MB/s"),
        (200_000_000, 150_000_000, 10.0, "pass 2: 50 MB of 150 MB · 33 % · 20 MB/s · 5 s left"),
        (999_600, 1_500_000_000, 1.0, "1 MB of 1.5 GB · 0 % · 1 MB/s · 1,500 s left"),
    ],
)
def test_it_says_how_far_how_fast_and_how_long(read: int, size: int, seconds: float, text: str) -> None:
    assert progress.text_of(read, size, seconds).startswith(text)


def test_a_line_appears_on_a_terminal_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_FIRST_S", 0.001)
    monkeypatch.setattr(progress, "_EVERY_S", 0.001)
    size = bytes_text(REPLICA.stat().st_size)
    whole = f"{size} of {size} · 100 %"
    with progress.progress([str(REPLICA)]):
        list(open_capture(str(REPLICA)))
        while whole not in terminal.getvalue():  # a busy machine may show how little was read before
            pass
    *shown, last = [line for line in terminal.getvalue().split("\r") if line]
    assert shown[-1].startswith(whole)
    assert last.isspace()


def test_nothing_is_said_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_FIRST_S", 0.000_001)
    assert "\r" not in run(f"dcpdump streams {REPLICA}").err


TALK = "RX noop\n"
MANY_OF_ONE = re.compile(r"(?<![\d,.])1 (?:frame|packet|connection|stream)s\b")


@pytest.mark.parametrize(
    "command",
    [
        *("read", "streams", "check", "diagnose", "flow", "conns", "stats", "rollbacks", "top"),
        *("carve -w {}/out.pcapng", "carve --vbucket 9 -w {}/none.pcapng"),
    ],
)
def test_no_command_prints_a_plural_of_one(command: str, tmp_path: Path) -> None:
    path = written(TALK, tmp_path / "one.pcap")
    printed = run(f"dcpdump {command.format(tmp_path)} {path}")
    assert "1 frame" in printed.out + printed.err
    assert MANY_OF_ONE.findall(printed.out + printed.err) == []


def test_the_card_of_a_connection_has_no_plural_of_one() -> None:
    *_, last = ConnectionTable(list(ledger(TALK).connections.values())).lines(80)
    assert last.text == "  traffic   1 frame · 24 B · streams: 0"
