"""Stop: the signals that end a run. At the first, what was done so far is still told; a second ends all at once."""

import signal
from types import FrameType
from typing import NoReturn

from dcpdump.cli import exit as code

_STATUS = {signal.SIGINT: code.INTERRUPTED, signal.SIGTERM: code.TERMINATED}


class Terminated(BaseException):
    """SIGTERM came."""


class EndedAtOnce(BaseException):
    """A second signal came: nothing more is told. ``status``: the exit code."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


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
