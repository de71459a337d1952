"""Start the program: ``python -m dcpdump``, and the command ``dcpdump``."""

from typing import NoReturn

from dcpdump.cli.signals import exit_at_signals


def start() -> NoReturn:
    """Run the command line. Until it handles signals itself, after its imports, signals end the process."""
    exit_at_signals()
    from dcpdump.cli.main import run

    run()


if __name__ == "__main__":
    start()
