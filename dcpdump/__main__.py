"""Run ``python -m dcpdump``."""

from dcpdump.cli.main import run

run()
