"""Follow a capture file that is still being written, and the files that its writer continues with.

Knows when a file has ended because another replaced it: the same name with another file behind it, a file cut back to
its beginning, or the next of a numbered or dated series. Knows no format.
"""

import os
import re
import time

from dcpdump.capture.source import unreadable
from dcpdump.lazy_pattern import lazy_pattern

#: Seconds between two reads of a file that does not grow.
PAUSE = 0.1

_DUMPCAP = lazy_pattern(r"^(?P<series>.*)_\d{5,}_\d{14}(?P<suffix>\..*)?$")
_NUMBERED = lazy_pattern(r"^(?P<series>.*\D)?(?P<number>\d*)$")
_DATE_DIGITS = 8
_DIGITS = lazy_pattern(r"\d+")


class FollowedFile:
    """A file whose end is not final: ``read`` waits for more bytes, until the writer has left the file.

    ``successor`` is then the path to continue with.
    """

    def __init__(self, path: str) -> None:
        self.failure = ""
        self.successor = ""
        self._path = path
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise unreadable(path, error) from error

    def read(self, size: int, /) -> bytes:
        while True:
            piece = self._file.read(size)
            if piece:
                return piece
            if self.successor:
                return b""
            self.successor = self._find_successor()
            if not self.successor:  # else: read once more, for what was written just before
                time.sleep(PAUSE)

    def ready(self, seconds: float) -> bool:
        """Wait so long at most, and return whether ``read`` would not wait."""
        if os.fstat(self._file.fileno()).st_size > self._file.tell() or self.successor:
            return True
        self.successor = self._find_successor()
        if not self.successor:
            time.sleep(seconds)
        return bool(self.successor)

    def close(self) -> None:
        self._file.close()

    def _find_successor(self) -> str:
        """Return the path that the writer continues with, or "" while it has not left this file."""
        mine = os.fstat(self._file.fileno())
        try:
            now = os.stat(self._path)
        except FileNotFoundError:  # moved away; the new one comes
            return self._next_of_series(mine)
        if (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino):
            return self._path
        if now.st_size < self._file.tell():
            return self._path
        return self._next_of_series(mine)

    def _next_of_series(self, mine: os.stat_result) -> str:
        """Return the first file of the same series that was written to after this one."""
        folder, name = os.path.split(self._path)
        newer = []
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name == name or not same_series(name, entry.name) or not entry.is_file():
                    continue
                key = (entry.stat().st_mtime_ns, natural_key(entry.name))
                if key > (mine.st_mtime_ns, natural_key(name)) and entry.stat().st_size:
                    newer.append((*key, entry.path))
        return min(newer)[-1] if newer else ""


def same_series(one: str, other: str) -> bool:
    """Return whether two names differ only as one writer's rotated files do.

    That is: dumpcap's ``_00001_20250101120000``, the number that tcpdump -C puts at the end, or a date.
    """
    ours, theirs = _DUMPCAP.match(one), _DUMPCAP.match(other)
    if ours and theirs:
        return ours.groups() == theirs.groups()
    if len("".join(_DIGITS.findall(one))) >= _DATE_DIGITS and _DIGITS.sub("#", one) == _DIGITS.sub("#", other):
        return True
    ours, theirs = _NUMBERED.match(one), _NUMBERED.match(other)
    return bool(ours and theirs and ours["series"] and ours["series"] == theirs["series"])


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key by which file2 comes before file10."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)
