"""Opened: what is browsed, and what the screen needs of the command line."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dcpdump.browse.analysing import Analysing
from dcpdump.browse.indexed_frames import IndexedFrames
from dcpdump.render.style import Line


class Commands(NamedTuple):
    """What knows the options of ``read``, and the captures by the names under which they were given."""

    hides: bool  #: whether keys, values and names are hidden
    check: Callable[[str], object]  #: raises FilterError where a text is no filter
    completions: Callable[[str], list[str]]  #: returns what a text may be completed to
    #: Returns a filter with another clause, of a name and a value; one of the same name is replaced.
    with_clause: Callable[[str, str, str], str]
    #: Returns a command over the captures: its name, a filter, the numbers of frames ("": all), more options.
    words: Callable[[str, str, str, Sequence[str]], list[str]]


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
