"""Hold the signals that end a run while something is done that must not be left half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: The signals that end a run.
ENDING = tuple(number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP"))


@contextmanager
def signals_held() -> Iterator[None]:
    """Let the signals that end a run come when the block has ended. What it does must be short."""
    if threading.current_thread() is not threading.main_thread():  # handlers run in the main thread alone
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
