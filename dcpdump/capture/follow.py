"""Follow a capture file that is still being written, and the files that its writer continues with.

Knows when a file has ended because another replaced it: the same name with another file behind it, a file cut back to
its beginning, or the next of a numbered or dated series. The writer of a ring deletes any of them at any
time: what is open is read to its end. Knows no format.
"""

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress

from dcpdump.capture.source import unreadable
from dcpdump.errors import CaptureError
from dcpdump.lazy_pattern import lazy_pattern

#: Seconds between two reads of a file that does not grow.
PAUSE = 0.1

_DUMPCAP = lazy_pattern(r"^(?P<series>.*)_(?P<number>\d{5,})_\d{14}(?P<suffix>\..*)?$")
_NUMBERED = lazy_pattern(r"^(?P<series>.*\D)?(?P<number>\d*)$")
_DATE_DIGITS = 8
_DIGITS = lazy_pattern(r"\d+")


class FollowedFile:
    """A file whose end is not final: ``read`` waits for more bytes, until the writer has left the file.

    ``successor`` is then the file to continue with, which is open. ``note`` is told that a file was deleted.
    """

    def __init__(self, path: str, note: Callable[[str], None]) -> None:
        self.failure = ""
        self.path = path
        self.successor: FollowedFile | None = None
        self.final = False  #: what is there now is all that is wanted
        self._note = note
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise unreadable(path, error) from error

    def read(self, size: int, /) -> bytes:
        while True:
            piece = self._file.read(size)
            if piece or self.final or self.successor is not None:
                return piece
            self.successor = self._find_successor()
            if self.successor is None:  # else: read once more, for what was written just before
                time.sleep(PAUSE)

    def ready(self, seconds: float) -> bool:
        """Wait so long at most, and return whether ``read`` would not wait."""
        if os.fstat(self._file.fileno()).st_size > self._file.tell() or self.final or self.successor is not None:
            return True
        self.successor = self._find_successor()
        if self.successor is None:
            time.sleep(seconds)
        return self.successor is not None

    def close(self) -> None:
        self._file.close()
        if self.successor is not None:
            self.successor.close()

    def missed(self) -> int:
        """Return how many files of dumpcap's ring were between this one and its successor, and are deleted."""
        names = [os.path.basename(each.path) for each in (self, self.successor) if each is not None]
        numbers = [int(found["number"]) for found in map(_DUMPCAP.match, names) if found]
        return max(0, numbers[1] - numbers[0] - 1) if len(numbers) == 2 else 0

    def _find_successor(self) -> "FollowedFile | None":
        """Open the file that the writer continues with; return None while it has not left this one."""
        mine = os.fstat(self._file.fileno())
        if not mine.st_nlink:
            self._note(f"{self.path} was deleted while it was read, and was read to its end")
        candidates = self._next_of_series(mine)
        with suppress(FileNotFoundError, NotADirectoryError):  # moved away or deleted; the new one comes
            now = os.stat(self.path)
            if (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or now.st_size < self._file.tell():
                candidates.insert(0, self.path)
        return next(filter(None, map(self._opened, candidates)), None)

    def _opened(self, path: str) -> "FollowedFile | None":
        """Open another file; return None where it was deleted meanwhile."""
        try:
            return FollowedFile(path, self._note)
        except CaptureError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def _next_of_series(self, mine: os.stat_result) -> list[str]:
        """Return the files of the same series that were written to after this one, the first of them first."""
        folder, name = os.path.split(self.path)
        newer = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name == name or not same_series(name, entry.name) or not entry.is_file():
                    continue
                with suppress(FileNotFoundError):  # deleted meanwhile
                    key = (entry.stat().st_mtime_ns, natural_key(entry.name))
                    if key > (mine.st_mtime_ns, natural_key(name)) and entry.stat().st_size:
                        newer.append((*key, entry.path))
        return [each[-1] for each in sorted(newer)]


def same_series(one: str, other: str) -> bool:
    """Return whether two names differ only as one writer's rotated files do.

    That is: dumpcap's ``_00001_20250101120000``, the number that tcpdump -C puts at the end, or a date.
    """
    ours, theirs = _DUMPCAP.match(one), _DUMPCAP.match(other)
    if ours and theirs:
        return ours.group("series", "suffix") == theirs.group("series", "suffix")
    if len("".join(_DIGITS.findall(one))) >= _DATE_DIGITS and _DIGITS.sub("#", one) == _DIGITS.sub("#", other):
        return True
    ours, theirs = _NUMBERED.match(one), _NUMBERED.match(other)
    return bool(ours and theirs and ours["series"] and ours["series"] == theirs["series"])


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key by which file2 comes before file10."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)
