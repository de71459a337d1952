"""Run the command line in this process: arguments and standard input in, exit code and what was printed out."""

import io
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dcpdump.cli.main import outcome


class Printed(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str


def run(command: str, stdin: str | bytes | io.RawIOBase = b"") -> Printed:
    """Run ``dcpdump …`` as a shell would split it, with no terminal anywhere."""
    words = shlex.split(command)
    assert words[0] == "dcpdump", command
    return printed(lambda: outcome(words[1:]), stdin)


def printed(what: Callable[[], int], stdin: str | bytes | io.RawIOBase = b"") -> Printed:
    """Call something that prints and returns an exit code."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    source = io.BytesIO(data) if isinstance(data, bytes) else io.BufferedReader(data)
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(source, encoding="utf-8"), out, err
    try:
        code = what()
        out.flush()
        err.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    return Printed(code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8")


def contents(path: Path) -> dict[str, bytes]:
    """Return the files at a path, by name."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


def refusal(code: int, error: str, *hints: str) -> Printed:
    """Return what a command prints that ends with an error."""
    lines = (f"dcpdump: error: {error}", *(f"hint: {each}" for each in hints))
    return Printed(code, "", "".join(f"{line}\n" for line in lines))
