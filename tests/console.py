"""The command line, run in this process: arguments and standard input in, exit code and what was printed out."""

import io
import shlex
import sys
from typing import NamedTuple

from dcpdump.cli.main import outcome


class Printed(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


def run(command: str, stdin: str | bytes = b"") -> Printed:
    """It runs ``dcpdump …`` as a shell would split it, with no terminal anywhere."""
    words = shlex.split(command)
    assert words[0] == "dcpdump", command
    data = stdin.encode() if isinstance(stdin, str) else stdin
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"), out, err
    try:
        code = outcome(words[1:])
        out.flush()
        err.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    return Printed(code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8")
