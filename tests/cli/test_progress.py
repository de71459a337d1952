"""Progress: a line on a terminal for what takes long, taken away in the end; nothing in a pipe."""

import io
import sys
from pathlib import Path

import pytest

from dcpdump.capture import open_capture
from dcpdump.cli import progress
from dcpdump.render.text_columns import bytes_text
from tests.support.console import run

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
