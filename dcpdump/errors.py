"""Define the errors for users: what went wrong, where, and what to try; and the exit codes.

Damaged bytes are data, not errors.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class ExitCode(IntEnum):
    """What the program says to scripts at its end: a contract."""

    DONE = 0
    FINDINGS = 1  #: check: findings at or above --fail-on
    USAGE = 2
    UNUSABLE = 3  #: the input cannot be used
    DAMAGED = 4  #: done, but the input was damaged or a limit was hit
    UNWRITABLE = 5  #: the output could not be written
    NO_CAPTURE = 6  #: no privilege to capture, or no such interface
    BUG = 70
    HUNG_UP = 129  #: the terminal was closed, as an ssh session that ends
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


class DcpdumpError(Exception):
    """An error that a user can act on: what, where, and hints (commands or actions to try)."""

    status = ExitCode.USAGE  #: the exit code

    def __init__(self, what: str, where: str = "", hint: str = "", more: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint
        self.more = more  #: other things to try

    def __str__(self) -> str:
        return f"{self.what} ({self.where})" if self.where else self.what


class CaptureError(DcpdumpError):
    """A capture cannot be used: it is missing, unreadable, or no capture."""

    status = ExitCode.UNUSABLE


class LiveError(DcpdumpError):
    """An interface cannot be captured on: no privilege, or no such interface."""

    status = ExitCode.NO_CAPTURE


class FilterError(DcpdumpError):
    """A filter option is not valid: the error names the option, the text and the nearest valid one."""


class PasteError(DcpdumpError):
    """Pasted text cannot be read without guessing."""


class OutputError(DcpdumpError):
    """The output cannot be written."""

    status = ExitCode.UNWRITABLE


def system_words(error: OSError) -> str:
    """Return the system's message for an error, as part of a sentence."""
    return (error.strerror or str(error)).lower()


def unwritable(error: OSError, where: str) -> OutputError:
    """Return the error for an output that cannot be written."""
    folder, hint = os.path.dirname(where), ""
    if "://" in where:
        hint = "dcpdump pipeline writes to object storage, the other commands to files"
    elif isinstance(error, FileNotFoundError) and folder and not os.path.exists(folder):
        hint = f"mkdir -p {folder}"
    elif isinstance(error, (FileExistsError, NotADirectoryError)):
        hint = "name a folder, or one that is not there yet"
    return OutputError(f"cannot write: {system_words(error)}", where, hint)


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Raise OutputError for an error of the system in the block, in which the path is written."""
    try:
        yield
    except OSError as error:
        raise unwritable(error, path) from error


#: The loader's message when there is no address space for a shared object.
_NO_SPACE = ("failed to map segment", "cannot allocate memory")


def is_out_of_memory(error: Exception) -> bool:
    """Return whether memory was exhausted, also when a library's shared object could not be loaded."""
    if not isinstance(error, ImportError):
        return isinstance(error, MemoryError)
    text = str(error).lower()  # NumPy's message ends with the loader's
    return any(words in text for words in _NO_SPACE)
