"""Keep few files open, however many are read in turns: the one that was read longest ago is closed, and opened again.

Only ordinary files can be opened again where they were left; a file that is another by then is not read on.
"""

import errno
import os
import select
import stat
from collections import OrderedDict
from threading import Lock

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

#: Files that are open at once, at most.
_MOST = 64
#: The share of the descriptors that a process may have, the other inputs and outputs being many too.
_SHARE = 4


def readable(fd: int, seconds: float) -> bool:
    """Wait so long at most, and return whether bytes, or the end, can be read."""
    if not hasattr(select, "poll"):  # Windows: it would not wait for a pipe
        return True
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class ReopenedFile:
    """A file that is read from an offset on. ``read`` may raise OSError, as opening it may."""

    def __init__(self, path: str, offset: int = 0) -> None:
        self._path = path
        self._at = offset
        self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            known = os.fstat(self._fd)
            if stat.S_ISDIR(known.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            self._regular = stat.S_ISREG(known.st_mode)
            self._identity = known.st_dev, known.st_ino
            if offset:
                os.lseek(self._fd, offset, os.SEEK_SET)
        except OSError:
            os.close(self._fd)
            raise
        _used(self)

    def read(self, size: int) -> bytes:
        """Return the next bytes, up to ``size``; none at the end."""
        with _lock:
            _open.pop(id(self), None)  # nobody closes it meanwhile
        if self._fd < 0:
            self._reopen()
        data = os.read(self._fd, size)
        self._at += len(data)
        _used(self)
        return data

    def ready(self, seconds: float) -> bool:
        """Wait so long at most, and return whether ``read`` would not wait."""
        return self._regular or readable(self._fd, seconds)

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


#: The open ordinary files of this process that are not being read just now, that which was read longest ago first.
_open: OrderedDict[int, ReopenedFile] = OrderedDict()
_lock = Lock()  # several threads read


def _used(file: ReopenedFile) -> None:
    if not file._regular:  # it could not be opened again where it was left
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
