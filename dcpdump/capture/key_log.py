"""Read key logs: files and pipes of secrets, as they are and as they grow."""

import os
import stat
import sys
import time
from typing import Final

from dcpdump.errors import DcpdumpError, system_words
from dcpdump.tls.secrets import KeyLog, Secrets

#: Bytes of one read.
_CHUNK: Final = 1 << 20
#: Seconds between two attempts to read more of a file.
_APART_S: Final = 0.05
#: How many of the last bytes read are kept, to see whether the file still has them.
_END: Final = 64


class KeyLogError(DcpdumpError):
    """A key log cannot be read."""


class _KeyLogFile:
    """One key log. It is opened at once, since the right to open it may be dropped later."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._fd = os.dup(sys.stdin.fileno()) if path == "-" else os.open(path, os.O_RDONLY)
            self._status = os.fstat(self._fd)
        except (OSError, ValueError, AttributeError) as error:
            raise KeyLogError(f"the key log cannot be read: {_reason(error)}", path) from None
        if stat.S_ISDIR(self._status.st_mode):
            os.close(self._fd)
            raise KeyLogError("the key log cannot be read: it is a folder", path)
        self._log: KeyLog | None = None
        self._at = 0
        self._end = b""  # the last bytes read: if they differ in the file, it was written again

    @property
    def regular(self) -> bool:
        """Return whether it is an ordinary file."""
        return stat.S_ISREG(self._status.st_mode)

    @property
    def open_to_others(self) -> str:
        """Return the octal mode of an ordinary file that others may read; else empty."""
        mode = stat.S_IMODE(self._status.st_mode)
        return f"{mode:04o}" if self.regular and mode & 0o044 else ""

    @property
    def refused(self) -> int:
        """Return how many lines are not valid."""
        return self._log.refused if self._log else 0

    @property
    def accepted(self) -> int:
        """Return how many lines hold a secret."""
        return self._log.accepted if self._log else 0

    def read(self, secrets: Secrets) -> None:
        """Read it to its end."""
        self._log = self._log or KeyLog(secrets, self.path)
        try:
            while text := os.read(self._fd, _CHUNK):
                self._append(text)
        except OSError as error:
            raise KeyLogError(f"the key log cannot be read: {_reason(error)}", self.path) from None
        if not self.regular:
            self._log.close()
        else:
            self._log.close_line()

    def poll(self, secrets: Secrets) -> None:
        """Read added lines; a file that was truncated or replaced is read from its beginning."""
        self._log = self._log or KeyLog(secrets, self.path)
        try:
            if self.regular:
                self._follow()
            else:
                os.set_blocking(self._fd, False)
            while text := os.read(self._fd, _CHUNK):
                self._append(text)
        except OSError:
            return  # there is no file just now, or no right to read the new one

    def _append(self, text: bytes) -> None:
        assert self._log is not None
        self._at += len(text)
        self._end = (self._end + text)[-_END:]
        self._log.feed(text)

    def _follow(self) -> None:
        """Start again if the file was truncated or replaced."""
        assert self._log is not None
        try:
            there = os.stat(self.path)
        except OSError:
            there = self._status  # it is gone, or the right to look for it was dropped: the open file may still grow
        if (there.st_dev, there.st_ino) != (self._status.st_dev, self._status.st_ino):
            fresh = os.open(self.path, os.O_RDONLY)
            os.close(self._fd)
            self._fd, self._status, self._at, self._end = fresh, os.fstat(fresh), 0, b""
            self._log.restart()
        elif os.pread(self._fd, len(self._end), self._at - len(self._end)) != self._end:
            os.lseek(self._fd, 0, os.SEEK_SET)
            self._at, self._end = 0, b""
            self._log.restart()


class KeyLogs:
    """All key logs of a run, and the ``secrets`` that they hold."""

    def __init__(self, paths: tuple[str, ...] = (), secrets: Secrets | None = None) -> None:
        self.files = [_KeyLogFile(path) for path in paths]
        self.secrets = Secrets() if secrets is None else secrets
        self._polled = 0.0

    def read(self) -> None:
        """Read all logs to their ends."""
        for each in self.files:
            each.read(self.secrets)

    def grow(self) -> None:
        """Read the present lines, and mark the secrets as growing."""
        if self.files:
            self.secrets.growing = True
            self.secrets.poll = self.poll
            self._poll()

    def poll(self) -> None:
        """Read added lines, unless the last reading was a moment ago."""
        if time.monotonic() - self._polled >= _APART_S:
            self._poll()

    def _poll(self) -> None:
        self._polled = time.monotonic()
        for each in self.files:
            each.poll(self.secrets)


def _reason(error: Exception) -> str:
    return system_words(error) if isinstance(error, OSError) else "standard input is closed"
