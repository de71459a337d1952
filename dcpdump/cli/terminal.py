"""Talk to people at a terminal: notes, errors and progress on standard error, and how large the terminal is."""

import errno
import os
import sys
from collections.abc import Iterable
from types import TracebackType

from dcpdump.escape import safe


def terminal_size() -> os.terminal_size:
    """Return columns and lines of the terminal, or what COLUMNS and LINES say; 80 × 24 where there is none."""
    from shutil import get_terminal_size  # here, as it brings all archive formats

    return get_terminal_size()


# -- standard error: all of it goes through ``note``, and is safe to show on a terminal ---------------

_status = [0]  # length of the line that shows progress


def note(text: str) -> None:
    """Write one line, escaped so that it cannot begin another; write nothing where standard error was closed."""
    if sys.stderr is not None:
        clear_status()
        for line in _folded(safe(text)):
            _write(f"{line}\n")


def _write(text: str) -> None:
    """Write on standard error, and show it now. Do nothing where its terminal was closed."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError as error:
        if error.errno != errno.EIO:
            raise


def _folded(text: str) -> list[str]:
    """Return a line as several where a terminal is too narrow for it; never what may be pasted, or a traceback."""
    if not sys.stderr.isatty() or text.startswith(("hint:", " ")):
        return [text]
    from textwrap import wrap

    width = terminal_size().columns
    if len(text) <= width:
        return [text]
    return wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def complain(what: str, hints: Iterable[str]) -> None:
    """Write an error: what went wrong, and a line for each hint. Where that cannot be written, it is lost."""
    try:
        note(f"dcpdump: error: {what}")
        for line in filter(None, hints):
            note(f"hint: {line}")
    except BrokenPipeError:
        raise
    except OSError:
        pass


def status(text: str) -> None:
    """Show progress on the terminal's last line, and replace what is there."""
    if sys.stderr is not None:
        shown = safe(text)
        _write(f"\r{shown:<{_status[0]}}")
        _status[0] = len(shown)


def clear_status() -> None:
    """Remove progress from the terminal."""
    if _status[0] and sys.stderr is not None:
        _write(f"\r{' ' * _status[0]}\r")
        _status[0] = 0


def end_line() -> None:
    """End the line on which a terminal has shown the ^C that was typed."""
    if sys.stderr is not None and sys.stderr.isatty():
        _write("\n")


def trace(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    """Write the traceback of an error as the interpreter does, but with what the error quotes escaped."""
    from traceback import format_exception

    for part in format_exception(kind, error, frames):
        for line in (
            part.splitlines() if part.startswith("  File ") else [part.strip()]
        ):  # what is quoted stays one line
            note(line)
