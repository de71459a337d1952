"""Sink: where output goes. Standard output, or a file that appears whole or not at all."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from dcpdump.cli.encoding import PLAIN
from dcpdump.cli.signals import EndedAtOnce
from dcpdump.errors import OutputError

_BLOCK = 64 * 1024
_UTF8 = ("utf-8", "utf8")


class PipeClosed(Exception):
    """The reader of standard output, or error, went away. (click would make an exit code of its own of it.)"""


class Sink:
    """It takes text. ``path`` None is standard output.

    A file is written beside its final name with mode 0600 (captures hold documents) and renamed into
    place at the end; if anything fails on the way, nothing appears. An existing file is only replaced
    with ``force``, and an input never.
    """

    def __init__(self, path: str | None, *, force: bool = False, inputs: Iterable[str] = ()) -> None:
        self._pending: list[str] = []
        self._size = 0
        self._final: Path | None = None
        self._part: Path | None = None
        if path in (None, "-", "/dev/stdout"):
            if sys.stdout is None:
                raise OutputError("cannot write: it is closed", "standard output")
            self._file: BinaryIO = sys.stdout.buffer
            self._encoding = sys.stdout.encoding or "utf-8"
            return
        self._encoding = "utf-8"
        self._final = Path(path)
        if _is_device(self._final):
            self._file = _opened(self._final)  # there is nothing to replace, and it must not be
            return
        _refuse_to_harm(self._final, force, inputs)
        try:
            handle, name = tempfile.mkstemp(prefix=f".{self._final.name}.", suffix=".part", dir=self._final.parent)
        except OSError as error:
            raise OutputError(f"cannot write: {(error.strerror or '').lower()}", path) from error
        self._part = Path(name)
        self._file = os.fdopen(handle, "wb", buffering=0)

    @property
    def is_terminal(self) -> bool:
        """Whether people see the output as it comes."""
        return self._final is None and sys.stdout.isatty()

    @property
    def part(self) -> str | None:
        """The path of the file that is to appear, meanwhile; None where nothing is to."""
        return None if self._part is None else str(self._part)

    def write(self, text: str) -> None:
        """It takes text, to be written when there is enough of it, or at the next flush."""
        self._pending.append(text)
        self._size += len(text)
        if self._size >= _BLOCK:
            self.flush()

    def encoded(self, text: str) -> bytes:
        """It gives the bytes that text becomes here."""
        return text.encode(self._encoding, PLAIN)

    def recoded(self, text: bytes) -> bytes:
        """It gives the bytes that UTF-8 becomes here, which nearly everywhere is the same."""
        return text if self._encoding.lower() in _UTF8 else self.encoded(text.decode())

    def flush(self) -> None:
        """It writes what is pending, so that a reader of a pipe sees it now."""
        if self._file.closed:
            return  # it was given up
        text, self._pending, self._size = "".join(self._pending), [], 0
        self.write_encoded(self.encoded(text))

    def write_encoded(self, data: bytes | memoryview) -> None:
        """It writes what ``encoded`` gave, behind what was written before."""
        if self._pending:
            self.flush()
        try:
            left = memoryview(data)
            while left:
                # Where Python was told not to buffer, a signal may end a write in the middle.
                left = left[self._file.write(left) :]
            self._file.flush()
        except BrokenPipeError as error:
            raise PipeClosed from error
        except OSError as error:
            self.abandon()
            where = str(self._final) if self._final else "standard output"
            raise OutputError(f"cannot write: {(error.strerror or str(error)).lower()}", where) from error

    def write_pieces(self, pieces: Iterable[bytes]) -> int:
        """It writes bytes that come in many small pieces, and gives how many there were."""
        pending: list[bytes] = []
        size = count = 0
        for piece in pieces:
            count += 1
            pending.append(piece)
            size += len(piece)
            if size >= _BLOCK:
                self.write_encoded(b"".join(pending))
                pending, size = [], 0
        self.write_encoded(b"".join(pending))
        return count

    def __enter__(self) -> "Sink":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Interrupted work is shown on standard output as far as it got; a file needs all of it.
        if error is None or (self._final is None and not isinstance(error, (PipeClosed, OutputError, EndedAtOnce))):
            self.flush()
        if self._final is None:
            return
        if self._part is None:
            self._file.close()
            return
        if error is not None:
            self.abandon()
            return
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._part, self._final)
        except OSError as failed:
            self.abandon()
            raise OutputError(f"cannot write: {(failed.strerror or str(failed)).lower()}", str(self._final)) from failed

    def abandon(self) -> None:
        """It gives the file up: nothing appears under its name."""
        if self._part is not None:
            self._file.close()
            self._part.unlink(missing_ok=True)
            self._part = None


def _is_device(path: Path) -> bool:
    """Whether it is a place that takes bytes and is no file: /dev/null, a named pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "wb", buffering=0)
    except OSError as error:
        raise OutputError(f"cannot write: {(error.strerror or '').lower()}", str(path)) from error


def _refuse_to_harm(final: Path, force: bool, inputs: Iterable[str]) -> None:
    for name in inputs:
        if name != "-" and final.exists() and Path(name).exists() and os.path.samefile(name, final):
            raise OutputError("the output is one of the inputs", str(final))
    if final.is_dir():
        raise OutputError("the output is a folder", str(final))
    if (final.exists() or final.is_symlink()) and not force:
        raise OutputError("the output exists already", str(final), "--force replaces it")
