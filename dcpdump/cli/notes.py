"""Notes: what is told on standard error, beside the output."""

import sys


def note(text: str) -> None:
    """It tells people something; nothing where they closed standard error."""
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")
