"""What is written on standard error arrives whole and in order, whatever interrupts it."""

import io
import sys

import pytest

from dcpdump.cli.stderr import note


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
