"""Make files and folders that are renamed once they are complete, and remove those that killed runs left.

A run holds a lock on what it has not finished; the lock ends with its process. So what has the name of something
unfinished and no lock was left by a run that was killed, and the next run that writes there removes it. Where the
system has no locks, nothing is removed.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dcpdump.processes import signals_held

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".part"
#: What tempfile and ``uuid`` make up.
_DRAWN = r"[0-9a-z_]{8,12}"
#: What this process has made and may not have finished.
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
    """A folder beside its final name, for its owner alone. Raises OSError. ``make`` makes one, by its path."""

    def __init__(self, final: Path, make: Callable[[], str] | None = None) -> None:
        remove_left(final)
        while True:
            with signals_held():
                name = make() if make else tempfile.mkdtemp(prefix=f".{final.name}.", suffix=_SUFFIX, dir=final.parent)
                _note(name)
            try:
                self._lock = os.open(name, os.O_RDONLY) if fcntl is not None else -1
            except FileNotFoundError:
                continue  # another run found it without a lock, and removed it
            if self._lock < 0 or _is_locked(self._lock, name):
                self.path = Path(name)
                return
            os.close(self._lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder, if it was not renamed, and the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def temporary_folder(name: str) -> UnfinishedFolder:
    """Make a folder for what no later run needs, where the system keeps such; remove those that killed runs left."""
    return UnfinishedFolder(Path(tempfile.gettempdir(), name))


def _note(path: str) -> None:
    """Note what was made, and forget what has another name by now."""
    _made[:] = [*filter(Path.exists, _made), Path(path)]


def remove_unfinished() -> None:
    """Remove what this process has made and not finished: a signal may come before anybody else is there to do it."""
    for path in _made:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def remove_left(final: Path) -> None:
    """Remove what killed runs left of a file or folder of this name."""
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
    """Lock what was just made, and return whether it is still there; also where there are no locks."""
    try:
        return _is_ours(fd, path)
    except OSError:
        return True


def _is_ours(fd: int, path: str) -> bool:
    """Lock what is open, and return whether the lock is ours and it still has its name. Raises OSError."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        there, mine = os.stat(path), os.fstat(fd)
    except (BlockingIOError, FileNotFoundError):
        return False
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
