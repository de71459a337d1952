"""Command lines that can be pasted into a shell: what shows more of a trouble, of the captures at hand."""

import shlex
from collections.abc import Sequence

from dcpdump.diagnosis.trouble import Command
from dcpdump.escape import bytes_of

#: Options that not every command takes, and which do.
_TAKEN_BY = {
    "--vbucket": frozenset({"streams", "check", "rollbacks", "read", "stats"}),
    "--stream-id": frozenset({"streams", "check", "rollbacks", "read", "stats"}),
    "--idle": frozenset({"streams"}),
}


def command_line(command: Command, captures: Sequence[str], options: Sequence[tuple[str, str]]) -> str:
    """Return a command line. ``options``: with which the captures were read; where the command has its own, that."""
    more = [
        word
        for name, text in options
        if name not in command.options and command.name in _TAKEN_BY.get(name, (command.name,))
        for word in (name, text)
        if word
    ]
    files = [f"./{name}" if name.startswith("-") and name != "-" else name for name in captures]
    return " ".join(["dcpdump", command.name, *map(quoted, (*files, *command.options, *more))])


def quoted(word: str) -> str:
    """Quote a word for a shell; what cannot be printed is written as its bytes."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, bytes_of(word)))}'"


def _escaped(byte: int) -> str:
    char = chr(byte)
    return char if char.isascii() and char.isprintable() and char not in "'\\" else f"\\x{byte:02x}"
