"""Notes: what is told on standard error, beside the output."""

import sys


def note(text: str) -> None:
    """It tells people something; nothing where they closed standard error."""
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


def end_line() -> None:
    """It leaves the line on which a terminal has shown the ^C that was typed."""
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write("\n")
