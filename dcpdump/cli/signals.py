"""Handle the signals that end a run: after the first, what was done is still reported; a second ends at once.

The first raises KeyboardInterrupt, or is only noted where a ``Stop`` is open. An exception may get lost: none is raised
while a module is imported, and libraries drop some. So the signal is noted as well, and the code that reads captures
or completes an output calls ``raise_again``.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from dcpdump.errors import ExitCode

_raised: int | None = None
_hung_up = False
_IMPORTING = "<frozen importlib._bootstrap>"  #: the file of the code that imports modules
_STATUS = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}
if hasattr(signal, "SIGHUP"):  # not on Windows
    _STATUS[signal.SIGHUP] = ExitCode.HUNG_UP


class EndedAtOnce(SystemExit):
    """A second signal was received: nothing more is reported."""

    code: int


class Stop:
    """A context in which the first signal is only noted: the reader then ends the input. ``on_signal`` is called then.

    It may be entered again while it is open.
    """

    def __init__(self, on_signal: Callable[[], None] | None = None) -> None:
        self.status: int | None = None  #: the exit code, once a signal was received
        self._on_signal = on_signal
        self._before: list[dict[int, Any]] = []

    def __enter__(self) -> "Stop":
        self._before.append(_handle(self._receive, signal.SIGINT, signal.SIGTERM))
        return self

    def __exit__(self, *_: object) -> None:
        before = self._before.pop()
        if self.status is None:
            for number, handler in before.items():
                signal.signal(number, handler)

    @property
    def terminated(self) -> int | None:
        """The exit code where it was SIGTERM or SIGHUP, after which nothing more is to be shown; or None."""
        return None if self.status == ExitCode.INTERRUPTED else self.status

    def _receive(self, number: int, _: FrameType | None) -> None:
        self.status = _next_ends_all(number)
        if self._on_signal is not None:
            self._on_signal()


def exit_at_signals() -> None:
    """Let a signal end the process silently, with its exit code: nothing was begun."""
    _handle(lambda number, _: os._exit(_STATUS[signal.Signals(number)]))


def raise_at_signals() -> None:
    """Let the first signal raise KeyboardInterrupt."""
    global _raised
    _raised = None
    sys.unraisablehook = _pass_over
    _handle(_raise)


def raise_again() -> None:
    """Raise KeyboardInterrupt if a signal came before: a library may have dropped the exception."""
    if _raised is not None:
        raise KeyboardInterrupt


def repeat(do: Callable[[], object], interrupted: Callable[[], object]) -> None:
    """Do something; where Ctrl-C ends it, do ``interrupted`` and begin again, however often Ctrl-C comes."""
    global _raised

    def receive(_: int, frame: FrameType | None) -> None:
        global _raised
        _raised = ExitCode.INTERRUPTED
        _raise_outside_imports(frame)

    before = signal.signal(signal.SIGINT, receive)
    try:
        while True:
            try:
                if _raised is not None:
                    _raised = None
                    interrupted()
                do()
                _raised = None
                return
            except KeyboardInterrupt:
                if terminated():
                    raise
                _raised = ExitCode.INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, before)


def end_at_signals() -> None:
    """Let a signal end the process silently: nothing is left to report, and handlers may not run any more."""
    _handle(signal.SIG_DFL)


def clean_up() -> None:
    """Leave no process and no unfinished file of a run that a signal ended, wherever it came."""
    exit_at_signals()
    from dcpdump.processes import kill_workers
    from dcpdump.unfinished import remove_unfinished

    kill_workers()
    remove_unfinished()


def hung_up() -> bool:
    """Return whether the terminal was closed: nothing more can be written to it."""
    return _hung_up


def raised() -> int | None:
    """Return the exit code of the first signal that raised an exception, or was to raise one; None without any.

    A library may have made another exception of it, such as an ImportError while it was imported.
    """
    return _raised


def terminated() -> bool:
    """Return whether the signal that raised an exception was SIGTERM or SIGHUP, after which nothing is shown."""
    return _raised not in (None, ExitCode.INTERRUPTED)


def _handle(handler: "Callable[[int, FrameType | None], object] | signal.Handlers", *always: int) -> dict[int, Any]:
    """Handle the signals that end a run, and return what handled them.

    A signal that was ignored when the run began, as nohup has it, stays ignored; ``always``: not these.
    """
    heeded = [number for number in _STATUS if number in always or signal.getsignal(number) != signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in heeded}


def _raise(number: int, frame: FrameType | None) -> None:
    global _raised
    _raised = _next_ends_all(number)
    _raise_outside_imports(frame)


def _raise_outside_imports(frame: FrameType | None) -> None:
    if not _is_importing(frame):
        raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a module is imported: an exception would make a native one abort, and leave its lock held."""
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None


def _pass_over(dropped: "sys.UnraisableHookArgs") -> None:
    """Say nothing of a signal's exception that Python drops, as while an object is freed: the signal is noted."""
    if not issubclass(dropped.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)


def _next_ends_all(number: int) -> int:
    global _hung_up
    _handle(_end, signal.SIGINT, signal.SIGTERM)
    status = _STATUS[signal.Signals(number)]
    if status == ExitCode.HUNG_UP:
        _hung_up = True
        signal.signal(number, signal.SIG_IGN)  # the system sends it, and so does the shell: nobody insists
    return ExitCode.HUNG_UP if _hung_up else status


def _end(number: int, frame: FrameType | None) -> NoReturn:
    status = _STATUS[signal.Signals(number)]
    if _is_importing(frame):
        clean_up()
        os._exit(status)
    raise EndedAtOnce(status)
