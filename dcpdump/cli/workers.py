"""Workers: processes that each make bytes of things, and give them back in the order of the things.

A worker is a copy of this process, made when there is first something to do. Things and bytes are handed over in
memory that both share. Where processes cannot be forked, a worker has died, or a thing is too large, the work is
done here.
"""

import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from dcpdump.capture import Capture
from dcpdump.forked_worker import LEAST_BYTES, ForkedWorker, can_help, write_all

T = TypeVar("T")

#: What is handed over at once, at most. Memory that nobody writes to is none, so there may be much.
_ROOM = 64 << 20
_SIZE = 8  #: bytes of a number that says how much there is in the room


def worth_having(jobs: int | None, captures: Sequence[Capture]) -> int:
    """Return how many processes are worth having for captures: as many as processors, where that is not said."""
    size = sum(os.path.getsize(capture.name) if capture.rereadable else LEAST_BYTES for capture in captures)
    return (jobs or os.cpu_count() or 1) if size >= LEAST_BYTES else 1


class _Worker(NamedTuple):
    helper: ForkedWorker  #: it is told how much there is to take, and tells how much it made
    room: mmap.mmap


class Workers(Generic[T]):
    """``make`` makes the bytes; ``pack`` and ``unpack`` hand a thing over. With one job there is no worker.

    A result is to be used before the next is asked for: its memory is used again.
    """

    def __init__(
        self,
        jobs: int,
        make: Callable[[T], bytes],
        pack: Callable[[T], bytes],
        unpack: Callable[[memoryview], T],
    ) -> None:
        self._jobs = jobs if jobs > 1 and can_help() else 0
        self._make, self._pack, self._unpack = make, pack, unpack
        self._idle: list[_Worker] = []
        self._under_way: deque[tuple[_Worker | None, T]] = deque()
        self._begun = False

    def put(self, thing: T) -> Iterator[bytes | memoryview]:
        """It takes the next thing, and gives those results that have to be waited for."""
        self.begin()
        while self._under_way and not self._idle:
            yield from self._next()
        order = self._pack(thing) if self._idle else b""
        if not 0 < len(order) <= _ROOM:
            self._under_way.append((None, thing))
            return
        worker = self._idle.pop()
        worker.room[: len(order)] = order
        worker.helper.tell(len(order).to_bytes(_SIZE, "big"))
        self._under_way.append((worker, thing))

    def finish(self) -> Iterator[bytes | memoryview]:
        """It gives the results that are left."""
        while self._under_way:
            yield from self._next()

    def close(self) -> None:
        """It lets the workers go, whatever they are at."""
        for worker in (*self._idle, *(worker for worker, _ in self._under_way if worker is not None)):
            worker.helper.let_go()
        self._idle.clear()
        self._under_way.clear()

    def _next(self) -> Iterator[bytes | memoryview]:
        worker, thing = self._under_way.popleft()
        made = None if worker is None else _result(worker)
        if made is None:
            if worker is not None:
                worker.helper.let_go()
            yield self._make(thing)
            return
        yield made
        if worker is not None:
            self._idle.append(worker)

    def begin(self) -> None:
        """It makes the workers, if they are not there yet."""
        if self._begun:
            return
        self._begun = True
        with suppress(OSError):  # there may be no more processes: those that there are will do
            for _ in range(self._jobs):
                room = mmap.mmap(-1, _ROOM)
                self._idle.append(_Worker(ForkedWorker(partial(self._work, room)), room))

    def _work(self, room: mmap.mmap, orders: int, results: int) -> None:
        while size := os.read(orders, _SIZE):
            with memoryview(room) as shared:
                thing = self._unpack(shared[: int.from_bytes(size, "big")])
            made = self._make(thing)
            del thing
            if len(made) <= _ROOM:
                room[: len(made)] = made
            os.write(results, len(made).to_bytes(_SIZE, "big"))
            if len(made) > _ROOM:
                write_all(results, made)


def _result(worker: _Worker) -> bytes | memoryview | None:
    """It waits for what a worker made; None: it has died."""
    told = worker.helper.hear(_SIZE)
    if len(told) < _SIZE:
        return None
    size = int.from_bytes(told, "big")
    if size <= _ROOM:
        return memoryview(worker.room)[:size]
    data = worker.helper.hear(size)
    return data if len(data) == size else None
