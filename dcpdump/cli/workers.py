"""Run worker processes that each turn items into bytes, and return the results in the order of the items.

A worker is a fork of this process, made when there is first something to do. Items and bytes are handed over in shared
memory, in which a worker may read its item until it has made the bytes. Where processes cannot be forked, a worker has
died, or an item is too large, the work is done here.
"""

import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from dcpdump.capture import Capture
from dcpdump.processes import LEAST_BYTES, ForkedWorker, can_fork, write_all

T = TypeVar("T")

#: Bytes of shared memory of a worker. Pages that are never written use no memory, so it may be large.
_SHARED_BYTES = 64 << 20
_SIZE = 8  #: bytes of a length
#: Items that are kept until they are made, at most.
_MOST_PENDING = 8


def worth_having(jobs: int | None, captures: Sequence[Capture]) -> int:
    """Return how many processes are worth using for captures: by default as many as processors."""
    size = sum(os.path.getsize(capture.name) if capture.rereadable else LEAST_BYTES for capture in captures)
    return (jobs or os.cpu_count() or 1) if size >= LEAST_BYTES else 1


class _Worker(NamedTuple):
    process: ForkedWorker  #: is sent the length of an item, and sends the length of a result
    shared: mmap.mmap


class Workers(Generic[T]):
    """A pool of workers. ``make`` makes the bytes; ``pack`` and ``unpack`` transfer an item. One job needs no worker.

    A result must be used before the next is asked for: its memory is used again.
    """

    def __init__(
        self,
        jobs: int,
        make: Callable[[T], bytes],
        pack: Callable[[T], Sequence[bytes | memoryview]],
        unpack: Callable[[memoryview], T],
    ) -> None:
        self._jobs = jobs if jobs > 1 and can_fork() else 0
        self._make, self._pack, self._unpack = make, pack, unpack
        self._all: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._pending: deque[tuple[_Worker | None, T]] = deque()
        self._begun = False

    def put(self, thing: T) -> Iterator[bytes | memoryview]:
        """Queue the next item, and yield the results that must be waited for."""
        self.begin()
        while self._pending and not self._idle:
            yield from self._next()
        pieces = self._pack(thing) if self._idle else ()
        size = sum(map(len, pieces))
        if not 0 < size <= _SHARED_BYTES:
            self._pending.append((None, thing))
            return
        worker = self._idle.pop()
        at = 0
        for piece in pieces:
            worker.shared[at : at + len(piece)] = piece
            at += len(piece)
        worker.process.send(size.to_bytes(_SIZE, "big"))
        self._pending.append((worker, thing))

    def put_here(self, thing: T) -> Iterator[bytes | memoryview]:
        """Queue an item that is sooner made here than handed over, and yield the results that are not waited for."""
        self._pending.append((None, thing))
        while self._pending and (self._pending[0][0] is None or len(self._pending) > _MOST_PENDING):
            yield from self._next()

    def ready(self) -> Iterator[bytes | memoryview]:
        """Yield the results that are there."""
        while self._pending and ((worker := self._pending[0][0]) is None or worker.process.has_results):
            yield from self._next()

    def finish(self) -> Iterator[bytes | memoryview]:
        """Yield the results that are left."""
        while self._pending:
            yield from self._next()

    def close(self) -> None:
        """Kill the workers, whatever they are doing, also one whose result was waited for when a signal came."""
        for worker in self._all:
            worker.process.kill()
        self._all.clear()
        self._idle.clear()
        self._pending.clear()

    def _next(self) -> Iterator[bytes | memoryview]:
        worker, thing = self._pending.popleft()
        made = None if worker is None else _result(worker)
        if made is None:
            if worker is not None:
                worker.process.kill()
            yield self._make(thing)
            return
        yield made
        if worker is not None:
            self._idle.append(worker)

    def begin(self) -> None:
        """Start the workers, if they are not there yet."""
        if self._begun:
            return
        self._begun = True
        with suppress(OSError):  # no more processes allowed: those that were started suffice
            for _ in range(self._jobs):
                shared = mmap.mmap(-1, _SHARED_BYTES)
                self._all.append(_Worker(ForkedWorker(partial(self._work, shared)), shared))
        self._idle.extend(self._all)

    def _work(self, shared: mmap.mmap, orders: int, results: int) -> None:
        view = memoryview(shared)
        while size := os.read(orders, _SIZE):
            thing = self._unpack(view[: int.from_bytes(size, "big")])
            made = self._make(thing)
            del thing
            if len(made) <= _SHARED_BYTES:
                view[: len(made)] = made
            os.write(results, len(made).to_bytes(_SIZE, "big"))
            if len(made) > _SHARED_BYTES:
                write_all(results, made)


def _result(worker: _Worker) -> bytes | memoryview | None:
    """Wait for the result of a worker, and return it; None: the worker has died."""
    size_bytes = worker.process.receive(_SIZE)
    if len(size_bytes) < _SIZE:
        return None
    size = int.from_bytes(size_bytes, "big")
    if size <= _SHARED_BYTES:
        return memoryview(worker.shared)[:size]
    data = worker.process.receive(size)
    return data if len(data) == size else None
