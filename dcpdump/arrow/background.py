"""Do work in a thread of its own. Arrow releases the interpreter's lock while it works."""

from collections.abc import Callable
from queue import Queue
from threading import Thread
from typing import Generic, TypeVar

from dcpdump.forked_worker import started

T = TypeVar("T")

#: Pieces that wait; more would only take memory.
WAITING = 3


class BackgroundWriter(Generic[T]):
    """A thread that does ``work`` with each piece that it is fed, in order. Not ``threaded``: at once, by the caller.

    Where no thread can be started, the caller does the work too.
    """

    def __init__(self, work: Callable[[T], None], *, threaded: bool) -> None:
        self._work = work
        self._queue: Queue[tuple[T] | None] = Queue(WAITING)
        self._error: BaseException | None = None
        thread = Thread(target=self._run, daemon=True)
        self._thread = thread if threaded and started(thread) else None

    def feed(self, piece: T) -> None:
        """Queue a piece of work; wait while the queue is full. Raises what the work raised."""
        if self._thread is None:
            self._work(piece)
            return
        self._queue.put((piece,))
        self._complain()

    def close(self) -> None:
        """Wait until all is done. Raises what the work raised."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        self._complain()

    def _complain(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self) -> None:
        while (piece := self._queue.get()) is not None:
            if self._error is None:
                try:
                    self._work(piece[0])
                except BaseException as error:
                    self._error = error
