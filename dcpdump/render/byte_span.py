"""Write where bytes of a frame stand, as the specification has it."""

from typing import Final

_PAIR: Final = 2  # a two-byte field of the header is "(2,3)", elsewhere "(52-53)"


def span(start: int, end: int, *, header: bool = False) -> str:
    """Return the place of bytes ``start`` … ``end``-1: (8-11), (54); two bytes of the header are (2,3)."""
    last = end - 1
    if start == last:
        return f"({last})"
    return f"({start},{last})" if header and end - start == _PAIR else f"({start}-{last})"
