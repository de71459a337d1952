"""Read numbers in network byte order. For compiled modules, where this is faster than ``struct``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64


def be16(data: bytes, at: "i64") -> "i64":
    """Return the two bytes at an offset as a number. Raises IndexError where they are not there."""
    return data[at] << 8 | data[at + 1]


def be32(data: bytes, at: "i64") -> "i64":
    """Return the four bytes at an offset as a number. Raises IndexError where they are not there."""
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
