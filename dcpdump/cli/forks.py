"""Forks: work done in child processes, its results given back in the order of the work.

A child is a copy of this process, so that nothing has to be sent to it; what it makes comes back through a
pipe. Where processes cannot be forked, or a child dies, the work is done here.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

_CHUNK = 1 << 20


class _Child(NamedTuple):
    pid: int
    pipe: int
    make: Callable[[], bytes]


class Forks:
    """It takes functions that make bytes. ``jobs`` children work at a time; with 1 there is none."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs if hasattr(os, "fork") else 1
        self._children: deque[_Child] = deque()

    def put(self, make: Callable[[], bytes]) -> Iterator[bytes]:
        """It takes the next piece of work, and gives those results that have to be waited for."""
        if self._jobs <= 1:
            yield make()
            return
        while len(self._children) >= self._jobs:
            yield _result(self._children.popleft())
        self._children.append(_forked(make))

    def finish(self) -> Iterator[bytes]:
        """It gives the results that are left."""
        while self._children:
            yield _result(self._children.popleft())

    def abandon(self) -> None:
        """It gives up what is under way."""
        while self._children:
            child = self._children.popleft()
            os.close(child.pipe)  # a child that writes to it ends
            os.waitpid(child.pid, 0)


def _forked(make: Callable[[], bytes]) -> _Child:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return _Child(pid, reader, make)
    status = 1
    try:
        os.close(reader)
        left = memoryview(make())
        while left:
            left = left[os.write(writer, left) :]
        status = 0
    finally:
        # Whatever happened, a child never goes on as if it were the command.
        os._exit(status)


def _result(child: _Child) -> bytes:
    pieces: list[bytes] = []
    try:
        while piece := os.read(child.pipe, _CHUNK):
            pieces.append(piece)
    finally:
        os.close(child.pipe)
        _, status = os.waitpid(child.pid, 0)
    return b"".join(pieces) if status == 0 else child.make()
