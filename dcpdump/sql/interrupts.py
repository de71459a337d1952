"""Let signals end what runs outside of Python, which would otherwise only learn of them when it is done."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dcpdump.forked_worker import started
from dcpdump.held_signals import ENDING

_ENDING = frozenset(ENDING)
_AGAIN_S = 0.05


class Calls:
    """Whether a call is under way that has to be interrupted. To be entered around each.

    Raises KeyboardInterrupt where a call would begin after the signal: what came before may have dropped its exception.
    """

    def __init__(self) -> None:
        self.over = threading.Event()
        self.over.set()
        self.interrupted = False

    def __enter__(self) -> None:
        self.over.clear()  # first: whoever sets the other then sees it
        if self.interrupted:
            self.over.set()
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        self.over.set()


@contextmanager
def interrupting(interrupt: Callable[[], None], calls: Calls) -> Iterator[None]:
    """Call ``interrupt``, in a thread of its own, whenever a signal comes that ends things.

    It is called again and again until the call under way is over: what has not quite begun forgets an interrupt.
    Signals are only caught in the main thread: elsewhere nothing is called, nor where no thread can be started.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def watch() -> None:
        while numbers := os.read(reading, 16):
            if not _ENDING.isdisjoint(numbers):
                calls.interrupted = True
                interrupt()
                while not calls.over.wait(_AGAIN_S):
                    interrupt()

    watcher = threading.Thread(target=watch, name="interrupts", daemon=True)
    watched = started(watcher)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False) if watched else -1
    try:
        yield
    finally:
        calls.over.set()  # the signal may have come before a call was entered, or after it was left
        if watched:
            signal.set_wakeup_fd(before)
        os.close(writing)
        if watched:
            watcher.join()
        os.close(reading)
