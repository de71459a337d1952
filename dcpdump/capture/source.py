"""Open the bytes of a capture, and keep a window of them for the readers.

Knows files and standard input; knows no format and no compression. Reads forward only, never seeks, and never waits for
more bytes than requested: a pipe may still be written.
"""

import errno
import io
import os
import select
import stat
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from dcpdump.errors import CaptureError

# -- few open files, however many are read in turns: of more, the one read longest ago is closed ------
# Only ordinary files can be closed and reopened at an offset; a file that was replaced meanwhile is not read on.

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

#: The most files that are open at once.
_MOST = 64
#: The share of a process's descriptors for them, since there are many other inputs and outputs.
_SHARE = 4


def readable(fd: int, seconds: float) -> bool:
    """Wait up to some seconds, and return whether bytes, or the end, can be read."""
    if not hasattr(select, "poll"):  # Windows: ``select`` does not wait for pipes
        return True
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class FileSource:
    """A file, a FIFO or a device, read from an offset on as its bytes come. Opening and reading may raise OSError."""

    failure = ""

    def __init__(self, path: str, offset: int = 0) -> None:
        self._path = path
        self._at = offset
        self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            known = os.fstat(self._fd)
            if stat.S_ISDIR(known.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            self.regular = stat.S_ISREG(known.st_mode)
            self._identity = known.st_dev, known.st_ino
            if offset:
                os.lseek(self._fd, offset, os.SEEK_SET)
        except OSError:
            os.close(self._fd)
            raise
        _used(self)

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, up to ``size``; none at the end."""
        with _lock:
            _open.pop(id(self), None)  # under the lock no other thread closes it
        if self._fd < 0:
            self._reopen()
        data = os.read(self._fd, size)
        self._at += len(data)
        _used(self)
        _read[0] += len(data)
        for follower in _followers:
            follower()
        return data

    def seek(self, offset: int) -> None:
        """Read from an offset on; it has to be an ordinary file."""
        self._at = offset
        with _lock:
            if self._fd >= 0:
                os.lseek(self._fd, offset, os.SEEK_SET)

    def ready(self, seconds: float) -> bool:
        """Wait so long at most, and return whether ``read`` would not wait."""
        return self.regular or readable(self._fd, seconds)

    def close(self) -> None:
        """Close the file, for good."""
        with _lock:
            _open.pop(id(self), None)
            self.rest()

    def rest(self) -> None:
        """Close the file until it is read again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _reopen(self) -> None:
        fd = os.open(self._path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        now = os.fstat(fd)
        if (now.st_dev, now.st_ino) != self._identity:
            os.close(fd)
            raise OSError(errno.ESTALE, "the file was replaced while it was read")
        os.lseek(fd, self._at, os.SEEK_SET)
        self._fd = fd


#: The open ordinary files of this process that are not being read now, the one read longest ago first.
_open: OrderedDict[int, FileSource] = OrderedDict()
_lock = Lock()  # several threads read files


def _used(file: FileSource) -> None:
    if not file.regular:  # it could not be reopened at its offset
        return
    with _lock:
        _open[id(file)] = file
        if len(_open) > _limit():
            _open.popitem(last=False)[1].rest()


def _limit() -> int:
    if resource is None:
        return _MOST
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if allowed == resource.RLIM_INFINITY else max(1, min(_MOST, allowed // _SHARE))


#: The size of one read. Lengths found in a file never decide how much is allocated at once.
CHUNK = 256 * 1024
#: When so many bytes arrive at once, more are waited for: large batches are decoded faster than small ones.
_MUCH = 32 * 1024
_MORE_S = 0.02


class ByteSource(Protocol):
    """Bytes in order. ``read`` returns the bytes that are there, up to ``size``, and ``b""`` at the end."""

    @property
    def failure(self) -> str:
        """Return why the bytes ended early, in words; "" if they did not."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


_read = [0]  # bytes of files, by this process
_followers: list[Callable[[], None]] = []


def bytes_read() -> int:
    """Return how many bytes of files this process has read, repeated reads included."""
    return _read[0]


@contextmanager
def followed(follower: Callable[[], None]) -> Iterator[None]:
    """Call ``follower`` whenever some bytes of a file were read, in the thread that reads."""
    _followers.append(follower)
    try:
        yield
    finally:
        _followers.remove(follower)


class _StandardInput:
    """Standard input, read as its bytes come. Closing it leaves it to its owner."""

    def __init__(self) -> None:
        self.failure = ""
        if sys.stdin is None:
            raise CaptureError("standard input is closed", "-", "name a capture file")
        if sys.stdin.isatty():
            raise CaptureError(
                "standard input is a terminal",
                "-",
                "tcpdump -U --immediate-mode -B 65536 -w - port 11210 | dcpdump read -",
            )
        # Unbuffered: a read returns the present bytes, and holds no lock while it waits, so that the process may end.
        # A replacement of standard input in a test may have no buffer.
        self._file = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)

    def read(self, size: int, /) -> bytes:
        return self._file.read(size) or b""

    def ready(self, seconds: float) -> bool:
        try:
            return readable(self._file.fileno(), seconds)
        except io.UnsupportedOperation:
            return True

    def close(self) -> None:
        pass


class SourceWindow:
    """The part of a source that is in memory: ``data`` from ``at`` on is not yet consumed.

    Readers read ``data`` and move ``at`` themselves, since a method call for each of a million records would be their
    largest cost.
    """

    __slots__ = ("_arriving", "_source", "ahead", "at", "base", "data", "ended", "failure")

    def __init__(self, source: ByteSource, base: int = 0, ahead: int = 0) -> None:
        self._source = source
        #: Waits so many seconds at most, and returns whether ``read`` would not wait; None where bytes never take long.
        self._arriving: Callable[[float], bool] | None = getattr(source, "ready", None)
        self.ended = False  #: whether all bytes of the source are in memory, or were
        self.failure = ""
        self.base = base  #: offset of data[0] from the source's first byte
        self.data = b""
        self.at = 0
        self.ahead = ahead  #: how many bytes to load at a time, if they are there

    @property
    def offset(self) -> int:
        """Return the offset of the next byte in the source."""
        return self.base + self.at

    def need(self, size: int) -> int:
        """Load ``size`` bytes from ``at`` on, if the source has them; return how many are in memory."""
        have = len(self.data) - self.at
        if have >= size or self.ended:
            return have
        pieces = [self.data[self.at :]]
        if self.ahead and isinstance(self._source, FileSource) and self._source.regular:
            self._source.seek(self.offset)  # reading the rest of a record again is faster than copying a block
            pieces, have = [], 0
        while have < size or (have < self.ahead and self.ready(0)):
            piece = self._more(max(size, self.ahead) - have if self.ahead else CHUNK)
            if not piece:
                break
            pieces.append(piece)
            have += len(piece)
        self._load(pieces)
        return have

    @property
    def arrives(self) -> bool:
        """Return whether the source can tell that no bytes have come yet."""
        return self._arriving is not None

    def ready(self, seconds: float) -> bool:
        """Wait up to some seconds, and return whether bytes, or the end, came, as far as the source can tell."""
        try:
            return self.ended or self._arriving is None or self._arriving(seconds)
        except OSError:  # reading raises the error
            return True

    def gather(self, most: int) -> None:
        """Load the bytes that have arrived, up to about ``most``; where they are many, wait briefly for more."""
        pieces = [self.data[self.at :]]
        have, until = len(pieces[0]), 0.0
        while have < most and self.ready(max(0.0, until - time.monotonic())):
            piece = self._more()
            if not piece:
                break
            pieces.append(piece)
            have += len(piece)
            if not until and have > _MUCH:
                until = time.monotonic() + _MORE_S
        self._load(pieces)

    def _load(self, pieces: list[bytes]) -> None:
        self.base += self.at
        self.at = 0
        self.data = b"".join(pieces)

    def peek(self, size: int) -> bytes:
        """Return the next bytes, up to ``size``, without consuming them."""
        self.need(size)
        return self.data[self.at : self.at + size]

    def skip(self, size: int) -> int:
        """Skip ``size`` bytes without keeping them; return how many there were."""
        passed = 0
        while passed < size:
            step = min(self.need(1), size - passed)
            if not step:
                break
            self.at += step
            passed += step
        return passed

    @contextmanager
    def skipping(self) -> Iterator[None]:
        """Mark bytes skipped inside as damage: they belong to no record."""
        yield

    def read(self, size: int, /) -> bytes:
        """Return the bytes in memory, or the next ones, up to ``size``: a window is a source too."""
        size = min(self.need(1), size)
        piece = self.data[self.at : self.at + size]
        self.at += size
        return piece

    def close(self) -> None:
        self._source.close()

    def _more(self, size: int = CHUNK) -> bytes:
        if self.ended:
            return b""
        try:
            piece = self._source.read(size)
        except OSError as error:  # a bad disk, a network drive that went away
            piece = b""
            self.failure = f"reading fails here: {error.strerror or error}"
        if not piece:
            self.ended = True
            self.failure = self.failure or self._source.failure
        return piece


def is_regular(path: str) -> bool:
    """Return whether ``path`` is an ordinary file, which can be opened again and mapped."""
    return path != "-" and stat.S_ISREG(os.stat(path).st_mode)


def open_source(path: str, offset: int = 0) -> ByteSource:
    """Open a file at an offset, or ``-`` for standard input."""
    try:
        if path == "-":
            return _StandardInput()
        return FileSource(path, offset)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: OSError) -> CaptureError:
    """Return the error for a path that the system refuses to open."""
    if isinstance(error, FileNotFoundError):
        return CaptureError("there is no such file", path)
    if isinstance(error, IsADirectoryError):
        return CaptureError("this is a folder", path, "name the capture files in it, or the folder to read")
    return CaptureError(f"this cannot be read: {error.strerror or error}", path)
