"""Handle the signals that end a run: after the first, what was done is still reported; a second ends at once."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from dcpdump.cli import exit as code

_raised: int | None = None
_hung_up = False
_waits = False  # whether a signal is sent again by a timer, or was, and has not raised anything yet
_IMPORTING = "<frozen importlib._bootstrap>"  #: the file of the code that imports modules
_AGAIN_S = 0.005
_STATUS = {signal.SIGINT: code.INTERRUPTED, signal.SIGTERM: code.TERMINATED}
if hasattr(signal, "SIGHUP"):  # not on Windows
    _STATUS[signal.SIGHUP] = code.HUNG_UP


class Terminated(BaseException):
    """A signal was received; SIGINT is a KeyboardInterrupt inside of commands. ``status``: the exit code."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class EndedAtOnce(BaseException):
    """A second signal was received: nothing more is reported. ``status``: the exit code."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Interruptible:
    """A context in which Ctrl-C ends what ``run`` does, or is about to do, and nothing else, however often it comes."""

    def __init__(self) -> None:
        self._running = self._received = False

    def __enter__(self) -> "Interruptible":
        self._before = signal.signal(signal.SIGINT, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def run(self, do: Callable[[], object]) -> bool:
        """Do something, and return whether it was done: False if Ctrl-C ended it."""
        try:
            self._running = True
            try:
                if self._received:
                    raise KeyboardInterrupt
                do()
            finally:
                self._running = False
        except KeyboardInterrupt:
            self._running = self._received = False
            return False
        return True

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if _may_raise(number, frame):
            _stop_waiting()
            self._received = not self._running
            if self._running:
                raise KeyboardInterrupt


class Stop:
    """A context in which the first signal is only noted: the reader then ends the input. ``on_signal`` is called then.

    It may be entered again while it is open.
    """

    def __init__(self, on_signal: Callable[[], None] | None = None) -> None:
        self.status: int | None = None  #: the exit code, once a signal was received
        self._on_signal = on_signal
        self._before: list[dict[signal.Signals, Any]] = []

    def __enter__(self) -> "Stop":
        self._before.append({number: signal.signal(number, self._receive) for number in _heeded()})
        return self

    def __exit__(self, *_: object) -> None:
        before = self._before.pop()
        if self.status is None:
            for number, handler in before.items():
                signal.signal(number, handler)

    @property
    def terminated(self) -> int | None:
        """The exit code where it was SIGTERM or SIGHUP, after which nothing more is to be shown; or None."""
        return None if self.status == code.INTERRUPTED else self.status

    def _receive(self, number: int, _: FrameType | None) -> None:
        self.status = _next_ends_all(number)
        if self._on_signal is not None:
            self._on_signal()


def exit_at_signals() -> None:
    """Let a signal end the process silently, with its exit code: nothing was begun."""
    _set_handlers(lambda number, _: os._exit(_STATUS[signal.Signals(number)]))


def raise_at_signals() -> None:
    """Let the first signal raise KeyboardInterrupt or Terminated."""
    global _raised
    _raised = None
    sys.unraisablehook = _raise_elsewhere
    _set_handlers(_raise)


def raise_again() -> None:
    """Raise what a signal raised before: a library that it came in the middle of may have dropped it."""
    if _raised is not None:
        _stop_waiting()
        raise KeyboardInterrupt if _raised == code.INTERRUPTED else Terminated(_raised)


def still_to_raise() -> int | None:
    """Return the exit code of a signal that has not raised anything yet, and let it raise nothing any more; or None."""
    waits = _stop_waiting()
    return _raised if waits else None


def end_at_signals() -> None:
    """Let a signal end the process silently: nothing is left to report. The interpreter runs no handlers any more."""
    _set_handlers(signal.SIG_DFL)


def clean_up() -> None:
    """Leave no process and no unfinished file of a run that a signal ended, wherever it came."""
    exit_at_signals()
    from dcpdump.processes import kill_workers
    from dcpdump.unfinished import remove_unfinished

    kill_workers()
    remove_unfinished()


def _set_handlers(handler: "Callable[[int, FrameType | None], object] | signal.Handlers") -> None:
    """Handle the signals that end a run, but those that whoever started it has ignored, as nohup does."""
    for number in _STATUS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _heeded() -> list[signal.Signals]:
    """Return the signals that may end a run; not SIGHUP where whoever started it has it ignored, as nohup does."""
    always = signal.SIGINT, signal.SIGTERM
    return [number for number in _STATUS if number in always or signal.getsignal(number) != signal.SIG_IGN]


def hung_up() -> bool:
    """Return whether the terminal was closed: nothing more can be written to it."""
    return _hung_up


def raised() -> int | None:
    """Return the exit code of the signal that raised an exception; None where none did.

    Libraries that it comes in the middle of may make another exception of it: an ImportError, of being imported.
    """
    return _raised


def _raise(number: int, frame: FrameType | None) -> None:
    global _raised
    _raised = _next_ends_all(number)
    if _may_raise(number, frame):
        raise_again()


def _may_raise(number: int, frame: FrameType | None) -> bool:
    """Return whether a signal may raise an exception now; otherwise it is sent again once no module is imported.

    An exception in the middle of an import makes a native module abort the process, and the lock of a module stay held.
    """
    waits = _is_importing(frame) and hasattr(signal, "setitimer")
    if waits:
        _send_soon(number)
    return not waits


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None


def _send_soon(number: int) -> None:
    """Send a signal again a little later, to whoever handles it then."""
    global _waits

    def send(_: int, frame: FrameType | None) -> None:
        if _waits and _may_raise(number, frame):
            # Of a terminal that was closed no more is heard.
            signal.raise_signal(signal.SIGTERM if signal.getsignal(number) == signal.SIG_IGN else number)

    _waits = True
    signal.signal(signal.SIGALRM, send)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


def _stop_waiting() -> bool:
    """Have no signal sent again, and return whether one was to be."""
    global _waits
    waited, _waits = _waits, False
    if waited:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return waited


def _raise_elsewhere(dropped: "sys.UnraisableHookArgs") -> None:
    """Raise a little later what a signal raised where Python drops exceptions: while an object was freed."""
    if issubclass(dropped.exc_type, (KeyboardInterrupt, Terminated)) and hasattr(signal, "setitimer"):
        _send_soon(signal.SIGINT if dropped.exc_type is KeyboardInterrupt else signal.SIGTERM)
    else:
        sys.__unraisablehook__(dropped)


def _next_ends_all(number: int) -> int:
    global _hung_up
    for each in _heeded():
        signal.signal(each, _end)
    status = _STATUS[signal.Signals(number)]
    if status == code.HUNG_UP:
        _hung_up = True
        signal.signal(number, signal.SIG_IGN)  # the system sends it, and so does the shell: nobody insists
    return code.HUNG_UP if _hung_up else status


def _end(number: int, frame: FrameType | None) -> NoReturn:
    status = _STATUS[signal.Signals(number)]
    if _is_importing(frame):
        clean_up()
        os._exit(status)
    if _waits:  # it is the first
        raise_again()
    raise EndedAtOnce(status)
