"""List which captures of a folder are closed, and in which order they arrived; the list survives a crash.

A capture that is still being written must not be read: it counts as closed when it has not grown for ``idle`` seconds.
Each batch is written down before it is used, so that a restart sees the same captures in the same order.
"""

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from pyarrow import fs

from dcpdump.errors import CaptureError
from dcpdump.spark.filesystem import RemotePath, is_remote, place
from dcpdump.spark.input import Input, inputs

#: Captures of one batch, at most: so much is decoded before the next rows appear.
MOST = 64
IDLE = 30.0  #: seconds after which a capture that did not grow is closed


class Arrival(NamedTuple):
    """A capture that was closed when it was found, and its size in bytes at that time."""

    path: str
    size: int


class Arrivals:
    """The batches of captures so far, kept in a folder of notes, and the captures that arrived since."""

    def __init__(self, names: Sequence[str], notes: str, idle: float = IDLE, most: int = MOST) -> None:
        self._names = names
        self._notes = notes
        self._idle = idle
        self._most = most
        self._known: dict[str, int] = {}
        self._read = 0  # batches whose captures are in _known

    def batch(self, number: int) -> list[Arrival]:
        """Return the captures of a batch as they were written down; an empty list if it is not there yet."""
        try:
            return [Arrival(*each) for each in json.loads(self._note(number).read())]
        except FileNotFoundError:
            return []

    def next(self, number: int) -> list[Arrival]:
        """Return the captures of a batch; if it is not there yet, write it down with those that arrived since."""
        known = self.batch(number)
        if known:
            return known
        for before in range(self._read, number):
            self._known.update(self.batch(before))
        self._read = max(self._read, number)
        fresh = self._closed()[: self._most]
        if fresh:
            self._note(number).write(json.dumps(fresh).encode())
        return fresh

    def open(self) -> list[str]:
        """Return the paths of the captures that are there and not closed yet."""
        now = time.time()
        return [each.path for changed, each in self._listed() if now - changed < self._idle]

    def grown(self) -> list[str]:
        """Return the paths of captures that grew after they were taken as closed: their remainder was not read."""
        number = 0
        while known := self.batch(number):
            self._known.update(known)
            number += 1
        return [each.path for _, each in self._listed() if each.size > self._known.get(each.path, each.size)]

    def _closed(self) -> list[Arrival]:
        now = time.time()
        fresh = [(changed, Arrival(*each)) for changed, each in self._listed() if each.path not in self._known]
        return [arrival for changed, arrival in sorted(fresh) if now - changed >= self._idle]

    def _listed(self) -> list[tuple[float, Input]]:
        """Return the captures that are there, and when each was last modified."""
        found: list[tuple[float, Input]] = []
        for name in self._names:
            with suppress(CaptureError):  # nothing is there yet
                for each in inputs([name]):
                    with suppress(FileNotFoundError):  # deleted meanwhile, as by the writer of a ring
                        found.append((_changed(each.path), each))
        return found

    def _note(self, number: int) -> RemotePath:
        return place(self._notes) / f"{number:09d}.json"


def _changed(path: str) -> float:
    """Return the time, in seconds since the epoch, at which a file was last modified. Raises FileNotFoundError."""
    if is_remote(path):
        where = place(path)
        info = where.system.get_file_info(where.path)
        if info.type is fs.FileType.NotFound:
            raise FileNotFoundError(path)
        changed: float = info.mtime_ns / 1e9
        return changed
    return os.stat(path).st_mtime
