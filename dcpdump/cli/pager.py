"""Pager: what shows long output of a terminal a screen at a time, with the habits of git."""

import os
import signal
from contextlib import suppress
from typing import BinaryIO

import click

#: In a context: whether --no-pager was given.
NO_PAGER = "dcpdump.no-pager"
#: For less: quit where one screen is enough, pass colours on, leave the text on the screen; for lv the same.
_HABITS = {"LESS": "FRX", "LV": "-c"}

#: What only a shell understands.
_NEEDS_SHELL = frozenset("|&;<>()$`\\\"'*?[]#~=%!{}\n")


def pager_command() -> str | None:
    """Return the pager that is wanted: DCPDUMP_PAGER, PAGER, else less; None where none is wanted, or there."""
    context = click.get_current_context(silent=True)
    if (context is not None and context.meta.get(NO_PAGER)) or os.environ.get("TERM") == "dumb":
        return None
    command = os.environ.get("DCPDUMP_PAGER", os.environ.get("PAGER"))
    if command is None:
        from shutil import which  # here, and subprocess below, as most output is not paged

        command = "less" if which("less") else ""
    return command if command not in ("", "cat") else None


class Pager:
    """A pager that runs. What is written to ``file`` is shown; ``close`` waits until its reader has left it."""

    def __init__(self, command: str) -> None:
        import subprocess
        from shutil import which

        environment = {**_HABITS, **os.environ}
        # A shell between would be ended instead of the pager.
        words = [] if _NEEDS_SHELL.intersection(command) else command.split()
        plain = bool(words) and which(words[0]) is not None
        self._process = subprocess.Popen(
            words if plain else command, shell=not plain, stdin=subprocess.PIPE, env=environment
        )
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
