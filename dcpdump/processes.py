"""Delay the signals that end a run, and fork worker processes: orders go through one pipe, results through another.

A worker ends when it is killed, or when this process ends; if it dies, its pipes are closed.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from select import select
from threading import Thread, active_count
from typing import Any

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


def can_fork_alone() -> bool:
    """Return whether a process can be forked, and no other thread runs, whose locks it would inherit."""
    return can_fork() and active_count() == 1


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
        os.close(orders)
        os.close(results)

    def send(self, order: bytes) -> None:
        """Send an order. If the worker has died, reading its results shows it."""
        with suppress(BrokenPipeError):
            write_all(self._orders, order)

    def receive(self, size: int) -> bytes:
        """Wait for ``size`` bytes and return them; fewer where the worker has died."""
        pieces: list[bytes] = []
        while size and (piece := os.read(self.results, min(size, 1 << 20))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def arrived(self) -> bytes | None:
        """Return the present results without waiting; None if the worker has ended."""
        pieces: list[bytes] = []
        while self.has_results:
            piece = os.read(self.results, 1 << 20)
            if not piece:
                return b"".join(pieces) or None
            pieces.append(piece)
        return b"".join(pieces)

    @property
    def has_results(self) -> bool:
        """Return whether results, or the worker's end, can be read without waiting."""
        return bool(select([self.results], [], [], 0)[0])

    def wait(self, seconds: float) -> None:
        """Wait for results, up to some seconds."""
        select([self.results], [], [], seconds)

    def ask_to_end(self) -> None:
        """Send SIGTERM to the worker without waiting: ``end`` or ``kill`` has to follow."""
        os.kill(self._pid, signal.SIGTERM)

    def end(self) -> None:
        """Send SIGTERM to the worker; kill it if it does not end soon."""
        self.ask_to_end()
        while select([self.results], [], [], _FAREWELL)[0] and os.read(self.results, 1 << 20):
            pass
        self.kill()

    def kill(self) -> None:
        """Kill the worker at once."""
        if self not in _workers:
            return
        os.kill(self._pid, signal.SIGKILL)
        _workers.remove(self)
        self._close()
        os.waitpid(self._pid, 0)

    def _close(self) -> None:
        os.close(self._orders)
        os.close(self.results)


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
