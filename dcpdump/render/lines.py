"""Define a line of text for people with its kind, so that colour can be added last, or not at all."""

from enum import Enum
from typing import NamedTuple


class LineKind(Enum):
    """What a line says."""

    PLACE = "where and when"
    TITLE = "which message"
    COLUMNS = "the head of a table"
    FIELD = "a field"
    GRID = "a row of the byte grid"
    PROBLEM = "something wrong"
    HINT = "something odd"
    GOOD = "nothing is wrong"
    PLAIN = "anything else"


class Line(NamedTuple):
    """One line, without its newline."""

    kind: LineKind
    text: str
