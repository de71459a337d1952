"""Stop: the signals that end a run. At the first, what was done so far is still told; a second ends all at once."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from dcpdump.cli import exit as code

_STATUS = {signal.SIGINT: code.INTERRUPTED, signal.SIGTERM: code.TERMINATED}


class Terminated(BaseException):
    """SIGTERM came."""


class EndedAtOnce(BaseException):
    """A second signal came: nothing more is told. ``status``: the exit code."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Stop:
    """While it is open, the first signal is only remembered: whoever reads is to end the input when there is one.

    It may be opened once more while it is open.
    """

    def __init__(self, hear: Callable[[], None] | None = None) -> None:
        self.status: int | None = None  #: the exit code, once a signal came
        self._hear = hear
        self._before: list[dict[signal.Signals, Any]] = []

    def __enter__(self) -> "Stop":
        self._before.append({number: signal.signal(number, self._come) for number in _STATUS})
        return self

    def __exit__(self, *_: object) -> None:
        before = self._before.pop()
        if self.status is None:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _come(self, number: int, _: FrameType | None) -> None:
        self.status = _next_ends_all(number)
        if self._hear is not None:
            self._hear()


def raise_at_signals() -> None:
    """It lets the first signal raise KeyboardInterrupt or Terminated, unless Ctrl-C is to be ignored."""
    for number in _STATUS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _raise)


def end_at_signals() -> None:
    """It lets a signal end the process without a word: there is nothing left to tell."""
    for number in _STATUS:
        signal.signal(number, signal.SIG_DFL)


def _raise(number: int, _: FrameType | None) -> NoReturn:
    _next_ends_all(number)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _next_ends_all(number: int) -> int:
    for each in _STATUS:
        signal.signal(each, _end)
    return _STATUS[signal.Signals(number)]


def _end(number: int, _: FrameType | None) -> NoReturn:
    raise EndedAtOnce(_STATUS[signal.Signals(number)])
