"""All that a dissection yields in some steps, as one list."""

from collections.abc import Iterable
from typing import TypeVar

P = TypeVar("P")


def all_pieces(some: Iterable[list[P]]) -> list[P]:
    """Return the pieces of all lists that a dissection yields, each of which is emptied when the next comes."""
    return [piece for pieces in some for piece in pieces]
