"""Opened: what is browsed, and what the screen needs of the command line."""

from collections.abc import Callable
from typing import NamedTuple

from dcpdump.browse.analysing import Analysing
from dcpdump.browse.commands import Commands
from dcpdump.browse.indexed_frames import IndexedFrames
from dcpdump.render.lines import Line


class OpenCaptures(NamedTuple):
    """Captures that are browsed."""

    name: str
    frames: IndexedFrames
    commands: Commands
    analysing: Analysing
    value_bytes: int | None
    about: Callable[[], list[Line]]  #: returns what the captures are
    filter: str = ""  #: that is on at the beginning
    follows: bool = False  #: whether the list stays at the end
