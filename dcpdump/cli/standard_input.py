"""Browse what comes on standard input: it is copied to a file as it comes, and the terminal takes its place."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import NamedTuple

from dcpdump.errors import CaptureError, OutputError
from dcpdump.processes import ForkedWorker, can_fork, write_all
from dcpdump.render.text_columns import bytes_text

STANDARD_INPUT = "-"
_CHUNK = 1 << 16


class Copies(NamedTuple):
    """The captures: as they are read at once, and as they can be read again."""

    paths: Sequence[str]
    again: Sequence[str]
    terminal: bool  #: whether standard input is a terminal now
    copy: int | None = None  #: the file that standard input is copied to
    limit: int = 0  #: bytes of that, at most

    def check(self) -> None:
        """Raise OutputError where what came was too much to be read again."""
        if self.copy is not None and os.fstat(self.copy).st_size >= self.limit:
            raise OutputError(f"standard input is longer than --max-spool ({bytes_text(self.limit)})")


@contextmanager
def standard_input(named: Sequence[str], limit: int) -> Iterator[Copies]:
    """Yield the captures, with standard input copied where one comes there and a terminal can be had for the keys.

    ``limit``: so many bytes of standard input are kept to be read again.
    """
    interactive = sys.stdin is not None and sys.stdin.isatty()
    if STANDARD_INPUT not in named or interactive or sys.stdin is None or not can_fork():
        yield Copies(named, named, interactive)
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        yield Copies(named, named, False)
        return
    (read, write), source = os.pipe(), sys.stdin.fileno()
    try:
        with TemporaryFile(buffering=0) as copy:
            # What the other process writes is behind a name that every process of this user can open.
            again = f"/proc/{os.getpid()}/fd/{copy.fileno()}" if os.path.isdir("/proc/self/fd") else ""

            def copied(_: int, __: int) -> None:
                os.close(read)
                _copy(source, write, copy.fileno(), limit)

            worker = ForkedWorker(copied)
            os.close(write)
            os.dup2(terminal, source)
            os.close(terminal)
            try:
                paths = [f"/dev/fd/{read}" if name == STANDARD_INPUT else name for name in named]
                files = [again if name == STANDARD_INPUT else name for name in named]
                yield Copies(paths, files, True, copy.fileno(), limit)
            finally:
                worker.kill()
                os.close(read)
    except OSError as error:
        raise CaptureError(f"standard input cannot be copied: {error.strerror}", STANDARD_INPUT) from error


def _copy(source: int, pipe: int, file: int, limit: int) -> None:
    """Copy all that comes to a file, up to the limit, and then to a pipe."""
    kept = 0
    while piece := os.read(source, _CHUNK):
        if kept < limit:
            write_all(file, piece[: limit - kept])
            kept += len(piece)
        write_all(pipe, piece)
