"""Write output: to standard output, or to a file that appears whole or not at all."""

import codecs
import json
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from dcpdump.cli.signals import EndedAtOnce, raise_again, raised, terminated
from dcpdump.cli.terminal import end_line, note
from dcpdump.errors import OutputError, unwritable, writing

# -- characters that the encoding of a terminal, or of a locale, does not have ------------------------
# This is an error handler of Python's codecs, so that output, notes and help all replace them alike.

#: The name under which ``encode`` and text streams know it.
PLAIN = "dcpdump.plain"

#: Our own characters. Replacements of bars have the same width: they are in columns.
_OURS = {
    "→": "->",
    "…": "...",
    "−": "-",
    "·": "|",
    **dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)),
    **dict(zip("░▒▓", ".:+", strict=True)),
}


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement: for our own characters similar ones, for a document's characters JSON escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_OURS.get(char) or json.dumps(char)[1:-1] for char in lacking), error.end


codecs.register_error(PLAIN, _plain)


# -- the pager: long output of a terminal a screen at a time, with the habits of git ------------------

#: In a context: whether --no-pager was given.
NO_PAGER = "dcpdump.no-pager"
#: For less: quit where one screen is enough, pass colours on, leave the text on the screen; for lv the same.
_HABITS = {"LESS": "FRX", "LV": "-c"}

#: What only a shell understands.
_NEEDS_SHELL = frozenset("|&;<>()$`\\\"'*?[]#~=%!{}\n")


def pager_command() -> str | None:
    """Return the pager: DCPDUMP_PAGER, PAGER, else less; None if it is switched off or not installed.

    A requested pager that is not installed is named in a note.
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


#: The names of standard output.
STANDARD_OUTPUT = (None, "-", "/dev/stdout")
_BUFFER = 64 * 1024
_UTF8 = ("utf-8", "utf8")


class Sink:
    """A writer of text. ``path`` None is standard output; ``paged``: through a pager, where that is a terminal.

    A file is written beside its final name with mode 0600 (captures hold documents) and renamed into place at the end;
    if anything fails before, nothing appears. An existing file is only replaced with ``force``, and an input never.
    """

    def __init__(
        self, path: str | None, *, force: bool = False, inputs: Iterable[str] = (), paged: bool = False
    ) -> None:
        self._paged = paged
        self._pager: Pager | None = None
        self._begun = False  # whether bytes were written
        self._final: Path | None = None
        self._part: Path | None = None
        if path in STANDARD_OUTPUT:
            refuse_closed_output()
            self._file: BinaryIO = sys.stdout.buffer
            self._encoding = sys.stdout.encoding or "utf-8"
            return
        self._encoding = "utf-8"
        refuse_empty(path)
        self._final = Path(path)
        if _is_device(self._final):
            with writing(path):  # a device must not be replaced
                self._file = self._final.open("wb", _BUFFER)
            return
        _refuse_to_harm(self._final, force, inputs)
        from dcpdump.unfinished import unfinished_file  # here, as most output goes to standard output

        with writing(path):
            handle, self._part = unfinished_file(self._final)
        self._file = os.fdopen(handle, "wb", _BUFFER)

    @property
    def is_terminal(self) -> bool:
        """Return whether the output is a terminal."""
        return self._final is None and sys.stdout.isatty()

    @property
    def part(self) -> str | None:
        """Return the path of the unfinished file; None where there is none."""
        return None if self._part is None else str(self._part)

    @property
    def left(self) -> str:
        """Return what is left of the output where it is broken off now."""
        where = self._final or "standard output"
        return f"{'only a part' if self._begun and self._part is None else 'nothing'} was written to {where}"

    def write(self, text: str) -> None:
        """Write text; a reader of a pipe gets it when there is enough of it, or at the next flush."""
        self.write_encoded(text.encode(self._encoding, PLAIN))

    def recoded(self, text: bytes) -> bytes:
        """Return UTF-8 in the encoding of the output, which nearly everywhere is the same."""
        return text if self._encoding.lower() in _UTF8 else text.decode().encode(self._encoding, PLAIN)

    def write_encoded(self, data: bytes | memoryview, *, flush: bool = False) -> None:
        """Write encoded text."""
        if self._file.closed:
            return  # it was given up
        if self._paged and data:
            self._paged = False
            if self.is_terminal and (command := pager_command()) is not None:
                self._pager = Pager(command)
                self._file = self._pager.file
        try:
            left = memoryview(data)
            self._begun |= bool(left)
            while left:
                # With PYTHONUNBUFFERED a signal may end a write in the middle.
                left = left[self._file.write(left) :]
            if flush:
                self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self.abandon()
            raise unwritable(error, str(self._final or "standard output")) from error

    def flush(self) -> None:
        """Let a reader of a pipe have what was written."""
        self.write_encoded(b"", flush=True)

    def drain(self) -> None:
        """Flush; where a pager shows the output, wait until that has ended."""
        self.flush()
        self._end_pager()

    def leave_pager(self) -> None:
        """End the pager now; later output is written without one."""
        self._paged = False
        self._end_pager(now=True)

    def _end_pager(self, *, now: bool = False) -> None:
        if self._pager is not None:
            pager, self._pager = self._pager, None
            self._file = sys.stdout.buffer
            pager.close(now=now)

    def __enter__(self) -> "Sink":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, EndedAtOnce) or (error is not None and terminated()):
            self.leave_pager()
        # Interrupted output is shown on standard output as far as it got; a file must be complete.
        if error is None or (
            self._final is None and not isinstance(error, (BrokenPipeError, OutputError, EndedAtOnce))
        ):
            self.flush()
        self._end_pager()
        if self._final is None:
            return
        if self._part is None:
            with suppress(OSError):  # which was raised before
                self._file.close()
            return
        if error is not None or raised() is not None:
            self.abandon()
            return
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._part, self._final)
        except OSError as failed:
            self.abandon()
            raise unwritable(failed, str(self._final)) from failed

    def abandon(self) -> str | None:
        """Remove the unfinished file, and return the name under which nothing appears; None where there is none."""
        if self._part is None:
            return None
        with suppress(OSError):  # what is left in its buffer may not fit on the disk
            self._file.close()
        self._part.unlink(missing_ok=True)
        self._part = None
        return str(self._final)


@contextmanager
def saying_what_is_left(left: Callable[[], str]) -> Iterator[None]:
    """Say what is left of the output where a first signal breaks off what is done inside."""
    try:
        yield
        raise_again()
    except (EndedAtOnce, BrokenPipeError):
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or raised() is not None:
            end_line()
            note(f"interrupted · {left()}")
        raise


def refuse_closed_output() -> None:
    """Raise OutputError if standard output was closed when the run started."""
    if sys.stdout is None:
        raise OutputError("cannot write: it is closed", "standard output")


def refuse_empty(path: str | None) -> None:
    """Raise OutputError for an empty name, such as that of a variable that a script has not set."""
    if path == "":
        raise OutputError("the name of the output is empty")


def folder_of(path: str | None) -> str:
    """Return the folder for tables. Raises OutputError and UsageError where none is named."""
    refuse_empty(path)
    if path is None:
        raise click.UsageError("Missing option '-o': the folder to write to.")
    if path == "-":
        raise OutputError("tables are written to a folder, not to standard output", "-o -", "name one: -o tables")
    return path


def _is_device(path: Path) -> bool:
    """Return whether a path accepts bytes and is not a file: /dev/null, a named pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _refuse_to_harm(final: Path, force: bool, inputs: Iterable[str]) -> None:
    for name in inputs:
        if name != "-" and final.exists() and Path(name).exists() and os.path.samefile(name, final):
            raise OutputError("the output is one of the inputs", str(final))
    if final.is_dir():
        raise OutputError("the output is a folder", str(final))
    if (final.exists() or final.is_symlink()) and not force:
        raise OutputError("the output exists already", str(final), "--force replaces it")
