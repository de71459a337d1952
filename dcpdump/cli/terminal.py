"""Measure the terminal."""

import os


def terminal_size() -> os.terminal_size:
    """Return columns and lines of the terminal, or what COLUMNS and LINES say; 80 × 24 where there is none."""
    from shutil import get_terminal_size  # here, as it brings all archive formats

    return get_terminal_size()
