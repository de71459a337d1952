"""Transcripts: commands behind a ``$``, each with what a terminal shows of it."""

import re

from tests.support.console import run

_COMMAND = re.compile(r"(?m)^(?=\$ dcpdump )")


def exchanges(transcript: str) -> dict[str, str]:
    """Return what a transcript shows of each command, in order."""
    blocks = (block.partition("\n") for block in _COMMAND.split(transcript)[1:])
    return {line.removeprefix("$ "): shown for line, _, shown in blocks}


def shown(command: str) -> str:
    """Run a command, and return what a terminal shows."""
    printed = run(command)
    return printed.out + printed.err + f"(exit code {printed.code})\n" * (printed.code != 0)


def transcribe(transcript: str) -> str:
    """Run the commands of a transcript, and return it as it has to be."""
    return "".join(f"$ {command}\n{shown(command)}" for command in exchanges(transcript))
