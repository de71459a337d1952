"""Helper: a copy of this process that works beside it. It is told things through a pipe, and tells through another.

It is gone when it is let go, or when this process is; and its pipes say so if it dies.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

#: Input of less than this is done by one process: starting others would take longer.
LEAST_BYTES = 24 * 1024 * 1024

#: This process's ends of all pipes: whoever else kept them would not see it go.
_ends: set[int] = set()


def can_help() -> bool:
    """It says whether a process can be copied here: not on macOS, whose libraries may not survive it."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def started(thread: Thread) -> bool:
    """Start a thread, and return whether it runs: where processes are limited there may be no more threads either."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


class ForkedWorker:
    """``work`` is done there; it gets the ends of the pipes from which to read orders, and into which to write.

    Raises OSError where there may be no more processes.
    """

    def __init__(self, work: Callable[[int, int], None]) -> None:
        (orders, self._orders), (self._results, results) = os.pipe(), os.pipe()
        try:
            self._pid = os.fork()
        except OSError:
            for fd in (orders, self._orders, self._results, results):
                os.close(fd)
            raise
        if not self._pid:
            _be_helper(work, orders, results, (self._orders, self._results, *_ends))
        os.close(orders)
        os.close(results)
        _ends.update((self._orders, self._results))

    def tell(self, order: bytes) -> None:
        """It tells the helper something short. If that has died, its other pipe says so too."""
        with suppress(BrokenPipeError):
            os.write(self._orders, order)

    def hear(self, size: int) -> bytes:
        """It waits for so many bytes; fewer: the helper has gone."""
        pieces: list[bytes] = []
        while size and (piece := os.read(self._results, min(size, 1 << 20))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def let_go(self) -> None:
        """It ends the helper, whatever that is at."""
        _ends.difference_update((self._orders, self._results))
        os.close(self._orders)
        os.close(self._results)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def write_all(pipe: int, data: bytes | memoryview) -> None:
    """It writes into a pipe until all is there."""
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]


def _be_helper(work: Callable[[int, int], None], orders: int, results: int, others: tuple[int, ...]) -> None:
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # whoever is helped hears it, and knows what is still to be told
        for fd in others:
            os.close(fd)
        work(orders, results)
        status = 0
    finally:
        # Whatever happened, a helper never goes on as if it were the command.
        os._exit(status)
