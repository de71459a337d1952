"""Pager: what shows long output of a terminal a screen at a time, with the habits of git."""

import os
import signal
from contextlib import suppress
from typing import BinaryIO

import click

from dcpdump.cli.stderr import note
from dcpdump.errors import OutputError

#: In a context: whether --no-pager was given.
NO_PAGER = "dcpdump.no-pager"
#: For less: quit where one screen is enough, pass colours on, leave the text on the screen; for lv the same.
_HABITS = {"LESS": "FRX", "LV": "-c"}

#: What only a shell understands.
_NEEDS_SHELL = frozenset("|&;<>()$`\\\"'*?[]#~=%!{}\n")


def pager_command() -> str | None:
    """Return the pager that is wanted: DCPDUMP_PAGER, PAGER, else less; None where none is wanted, or there.

    One that was asked for and is not there is named in a note.
    """
    context = click.get_current_context(silent=True)
    if (context is not None and context.meta.get(NO_PAGER)) or os.environ.get("TERM") == "dumb":
        return None
    command = os.environ.get("DCPDUMP_PAGER", os.environ.get("PAGER"))
    if command in ("", "cat"):
        return None
    from shutil import which  # here, and subprocess below, as most output is not paged

    if command is None:
        return "less" if which("less") else None
    if not _words(command) or which(_words(command)[0]):
        return command
    note(f"dcpdump: note: there is no pager {command}: --no-pager, PAGER")
    return None


#: What a shell returns for a command that is not there, or cannot be run.
_NOT_STARTED = (126, 127)


class Pager:
    """A pager that runs. What is written to ``file`` is shown; ``close`` waits until its reader has left it."""

    def __init__(self, command: str) -> None:
        import subprocess

        environment = {**_HABITS, **os.environ}
        # A shell between would be ended instead of the pager.
        words = _words(command)
        self._command = command
        self._process = subprocess.Popen(words or command, shell=not words, stdin=subprocess.PIPE, env=environment)
        assert self._process.stdin is not None
        self.file: BinaryIO = self._process.stdin  # type: ignore[assignment]

    def close(self, *, now: bool = False) -> None:
        """End its input, and wait until its reader leaves it: Ctrl-C is for the pager by then. ``now``: end it.

        A signal that ends this process ends the pager first: it must not share the terminal with the shell.
        """
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            if now:
                self._process.terminate()
            with suppress(BrokenPipeError):  # its reader may have seen enough
                self.file.close()
            self._process.wait()
        finally:
            if self._process.poll() is None:
                self._process.terminate()
                self._process.wait()
            signal.signal(signal.SIGINT, before)
        if self._process.returncode in _NOT_STARTED and not now:
            raise OutputError("the pager could not be started", self._command, "--no-pager")


def _words(command: str) -> list[str]:
    """Return the words of a command; none where only a shell understands it."""
    return [] if _NEEDS_SHELL.intersection(command) else command.split()
