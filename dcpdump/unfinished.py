"""Make files and folders that are renamed when complete, and remove those that killed runs left.

A run holds a lock on its unfinished files; the lock ends with the process. An unfinished file without a lock was left
by a killed run, and the next run that writes there removes it. On systems without locks nothing is removed.
"""

import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from dcpdump.processes import signals_held

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".part"
#: The random parts of names by ``tempfile`` and ``uuid``.
_DRAWN = r"[0-9a-z_]{8,12}"
#: Files and folders of this process that may be unfinished.
_made: list[Path] = []


def unfinished_file(final: Path) -> tuple[int, Path]:
    """Make a file beside its final name, for its owner alone, and return it opened. Raises OSError."""
    remove_left(final)
    while True:
        with signals_held():
            fd, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=_SUFFIX, dir=final.parent)
            _note(name)
        if _is_locked(fd, name):
            return fd, Path(name)
        os.close(fd)


class UnfinishedFolder:
    """A folder beside its final name, for its owner alone. Raises OSError."""

    def __init__(self, final: Path) -> None:
        remove_left(final)
        while True:
            with signals_held():
                name = tempfile.mkdtemp(prefix=f".{final.name}.", suffix=_SUFFIX, dir=final.parent)
                _note(name)
            try:
                self._lock = os.open(name, os.O_RDONLY) if fcntl is not None else -1
            except FileNotFoundError:
                continue  # another run found it before it was locked, and removed it
            if self._lock < 0 or _is_locked(self._lock, name):
                self.path = Path(name)
                return
            os.close(self._lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder, unless it was renamed, and the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def temporary_folder(name: str) -> UnfinishedFolder:
    """Make a temporary folder where the system keeps such; remove those that killed runs left."""
    return UnfinishedFolder(Path(tempfile.gettempdir(), name))


def _note(path: str) -> None:
    """Note a path, and forget those that were renamed."""
    _made[:] = [*filter(Path.exists, _made), Path(path)]


def remove_unfinished() -> None:
    """Remove the unfinished files of this process, for signals that come before other code can do so."""
    for path in _made:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def remove_left(final: Path) -> None:
    """Remove the unfinished files and folders of this name that killed runs left."""
    if fcntl is None:
        return
    name = re.compile(rf"\.{re.escape(final.name)}\.{_DRAWN}{re.escape(_SUFFIX)}")
    with suppress(OSError):
        for each in os.scandir(final.parent):
            if name.fullmatch(each.name):
                _remove_unless_locked(each)


def _remove_unless_locked(entry: "os.DirEntry[str]") -> None:
    folder = entry.is_dir(follow_symlinks=False)
    if not folder and not entry.is_file(follow_symlinks=False):
        return
    with suppress(OSError):
        fd = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if _is_ours(fd, entry.path):
                shutil.rmtree(entry.path, ignore_errors=True) if folder else os.unlink(entry.path)
        finally:
            os.close(fd)


def _is_locked(fd: int, path: str) -> bool:
    """Lock a new file, and return whether it still exists; True on systems without locks."""
    try:
        return _is_ours(fd, path)
    except OSError:
        return True


def _is_ours(fd: int, path: str) -> bool:
    """Lock an open file, and return whether the lock is ours and the file still has its name. Raises OSError."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        there, mine = os.stat(path), os.fstat(fd)
    except (BlockingIOError, FileNotFoundError):
        return False
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
