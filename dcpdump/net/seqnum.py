"""Serial arithmetic on TCP's 32-bit sequence numbers, once. Knows no TCP beyond the wrap at 2³²."""

from typing import Final

MODULUS: Final = 1 << 32
MASK: Final = MODULUS - 1
HALF: Final = 1 << 31


def advance(seq: int, count: int) -> int:
    """The sequence number ``count`` bytes after ``seq`` (before it, if negative)."""
    return (seq + count) & MASK


def distance(origin: int, seq: int) -> int:
    """How many bytes ``seq`` lies after ``origin``; negative before it. Exact within half the numbers."""
    steps = (seq - origin) & MASK
    return steps - MODULUS if steps >= HALF else steps
