"""Delay the signals that end a run, and fork worker processes: orders go through one pipe, results through another.

A worker ends when it is killed, or when this process ends; if it dies, its pipes are closed.

``Workers`` is a pool of them that turn items into bytes, and return the results in the order of the items. Items and
bytes are handed over in shared memory, in which a worker may read its item until it has made the bytes. Where processes
cannot be forked, a worker has died, or an item is too large, the work is done here.
"""

import mmap
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from select import select
from threading import Thread, active_count
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

# -- signals, held while something is done that must not be left half done ----------------------------

#: The signals that end a run.
ENDING = tuple(number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP"))


@contextmanager
def signals_held() -> Iterator[None]:
    """Delay the signals that end a run until the block has ended. The block must be short."""
    if threading.current_thread() is not threading.main_thread():  # handlers run in the main thread only
        yield
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        for each in received:
            signal.raise_signal(each)


# -- workers ------------------------------------------------------------------------------------------

#: Smaller inputs are handled by one process: starting others would take longer.
LEAST_BYTES = 24 * 1024 * 1024

_SIZE = 8  #: bytes of the length in front of a message
#: Seconds that a worker has to end after SIGTERM.
_FAREWELL = 0.2

#: The workers of this process. A child closes the pipes of the others, to notice when this process ends.
_workers: "set[ForkedWorker]" = set()


def can_fork() -> bool:
    """Return whether a process can be forked here: not on macOS, whose libraries may not survive it."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def started(thread: Thread) -> bool:
    """Start a thread, and return whether it runs: limits on processes may count threads too."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


class ForkedWorker:
    """A forked process that runs ``work`` with two file descriptors: one to read orders from, one to write results to.

    ``results``: the file descriptor that is readable when there are results. Raises OSError if no process can be
    started.
    """

    def __init__(self, work: Callable[[int, int], None]) -> None:
        (orders, self._orders), (self.results, results) = os.pipe(), os.pipe()
        # A signal in between would run this process's handlers in the child, or leave the child unknown.
        with signals_held():
            try:
                self._pid = os.fork()
            except OSError:
                for fd in (orders, self._orders, self.results, results):
                    os.close(fd)
                raise
            _workers.add(self)
            if not self._pid:
                _run_child(work, orders, results)
        self._messages = Messages()
        os.close(orders)
        os.close(results)

    @property
    def killed(self) -> bool:
        """Return whether this process has ended it. Then it takes no orders, and has no results."""
        return self not in _workers

    def send(self, order: bytes) -> None:
        """Send an order. If the worker has died, reading its results shows it."""
        if not self.killed:
            with suppress(BrokenPipeError):
                write_all(self._orders, order)

    def receive(self, size: int) -> bytes:
        """Wait for ``size`` bytes and return them; fewer where the worker has died."""
        pieces: list[bytes] = []
        while size and (piece := os.read(self.results, min(size, 1 << 20))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def arrived(self) -> list[Any] | None:
        """Return the objects sent by ``send_object`` that have come, without waiting; None if the worker has ended."""
        if self.killed:
            return None
        found: list[Any] = []
        while self.has_results:
            piece = os.read(self.results, 1 << 20)
            if not piece:
                return found or None
            found += self._messages.feed(piece)
        return found

    @property
    def has_results(self) -> bool:
        """Return whether results, or the worker's end, can be read without waiting."""
        return bool(select([self.results], [], [], 0)[0])

    def wait(self, seconds: float) -> None:
        """Wait for results, up to some seconds."""
        select([self.results], [], [], seconds)

    def ask_to_end(self) -> None:
        """Send SIGTERM to the worker without waiting: ``end`` or ``kill`` has to follow."""
        if not self.killed:
            os.kill(self._pid, signal.SIGTERM)

    def end(self) -> None:
        """Send SIGTERM to the worker; kill it if it does not end soon."""
        self.ask_to_end()
        while not self.killed and select([self.results], [], [], _FAREWELL)[0] and os.read(self.results, 1 << 20):
            pass
        self.kill()

    def kill(self) -> None:
        """Kill the worker at once."""
        if self.killed:
            return
        os.kill(self._pid, signal.SIGKILL)
        _workers.remove(self)
        self._close()
        os.waitpid(self._pid, 0)

    def _close(self) -> None:
        os.close(self._orders)
        os.close(self.results)


def forked(work: Callable[[int, int], None]) -> ForkedWorker | None:
    """Return a worker; None where no process can be started, so that the work is to be done here.

    Nor is one where another thread runs, whose locks it would inherit.
    """
    if can_fork() and active_count() == 1:
        with suppress(OSError):  # no more processes allowed
            return ForkedWorker(work)
    return None


def kill_workers() -> None:
    """Kill all workers of this process."""
    for worker in tuple(_workers):
        worker.kill()


class Messages:
    """A decoder of the objects that come through a pipe in pieces."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, piece: bytes) -> Iterator[Any]:
        """Add a piece; yield the objects that it completes."""
        from pickle import loads  # here, as few workers send objects

        self._received += piece
        at = 0
        try:
            while at + _SIZE <= len(self._received):
                end = at + _SIZE + int.from_bytes(self._received[at : at + _SIZE], "big")
                if end > len(self._received):
                    break
                with memoryview(self._received) as data:
                    message = loads(data[at + _SIZE : end])
                at = end
                yield message
        finally:
            del self._received[:at]


def packed(message: object) -> bytes:
    """Return the bytes of an object for a pipe."""
    from pickle import HIGHEST_PROTOCOL, dumps

    data = dumps(message, HIGHEST_PROTOCOL)
    return len(data).to_bytes(_SIZE, "big") + data


def send_object(pipe: int, message: object) -> None:
    """Write an object to a pipe."""
    write_all(pipe, packed(message))


def write_all(pipe: int, data: bytes | memoryview) -> None:
    """Write all data to a pipe."""
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]


def _run_child(work: Callable[[int, int], None], orders: int, results: int) -> None:
    status = 1
    try:
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)  # the parent handles signals, and decides what is still written
        for worker in _workers:
            worker._close()
        _workers.clear()
        work(orders, results)
        status = 0
    finally:
        # After any error, a worker must not continue as if it were the command.
        os._exit(status)


# -- a pool of workers --------------------------------------------------------------------------------

#: Bytes of shared memory of a worker. Pages that are never written use no memory, so it may be large.
_SHARED_BYTES = 64 << 20
#: Items that are kept until they are made, at most.
_MOST_PENDING = 8


class _Worker(NamedTuple):
    process: ForkedWorker  #: is sent the length of an item, and sends the length of a result
    shared: mmap.mmap


class Workers(Generic[T]):
    """A pool of workers. ``make`` makes the bytes; ``pack`` and ``unpack`` transfer an item. One job needs no worker.

    A result must be used before the next is requested: its memory is used again.
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
        """Kill the workers at once, also one whose result was awaited when a signal came."""
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
