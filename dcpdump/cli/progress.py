"""Progress: on the terminal, how far the reading of captures is, once that takes longer than a second."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from dcpdump.capture.source import CHUNK, bytes_read
from dcpdump.cli.terminal import clear_status, status, terminal_size
from dcpdump.render.text_columns import bytes_text

_FIRST_S = 1.0
_EVERY_S = 0.2
#: How often the beginning of a file is read before the whole.
_LOOKS = 3


@contextmanager
def progress(paths: Iterable[str]) -> Iterator[None]:
    """Show on standard error how much of the files was read; not where that is no terminal.

    A timer shows it, and no thread: a fork must find none.
    """
    wanted = sys.stderr is not None and sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
    files = [path for path in paths if os.path.isfile(path)] if wanted else []
    size = sum(map(os.path.getsize, files))
    if not size or signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, None):
        yield
        return
    before, begun = bytes_read(), time.monotonic()
    looks = _LOOKS * CHUNK * len(files)

    def show(_: int, __: FrameType | None) -> None:
        text = text_of(bytes_read() - before, size, time.monotonic() - begun, looks)
        status(text[: terminal_size().columns - 1])

    signal.signal(signal.SIGALRM, show)
    signal.setitimer(signal.ITIMER_REAL, _FIRST_S, _EVERY_S)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGALRM) is show:  # and not what waits for the end of an import, to end the run
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        clear_status()


def text_of(read: int, size: int, seconds: float, looks: int = 0) -> str:
    """Return how far reading is after so many bytes of files and seconds. Files may be read more than once.

    ``looks``: bytes that may have been read before, to see what files are.
    """
    again = max(0, read - looks - 1) // size
    done = min(size, read - again * size)
    rate = read / max(seconds, 0.001)
    text = f"{bytes_text(done)} of {bytes_text(size)} · {100 * done // size} % · {bytes_text(rate)}/s"
    left = (size - done) / rate if rate else 0.0
    text += f" · {left:,.0f} s left" if done < size else ""
    return f"pass {again + 1}: {text}" if again else text
