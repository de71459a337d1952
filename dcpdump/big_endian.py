"""Read numbers from bytes, in compiled modules faster than ``struct`` does.

Each byte is first assigned to a native number; in one expression they would be Python objects, and each shift a call.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64


def be16(data: bytes, at: "i64") -> "i64":
    """Return the two bytes at an offset as a number. Raises IndexError beyond the end."""
    high: i64 = data[at]
    low: i64 = data[at + 1]
    return high << 8 | low


def be32(data: bytes, at: "i64") -> "i64":
    """Return the four bytes at an offset as a number. Raises IndexError beyond the end."""
    first: i64 = data[at]
    second: i64 = data[at + 1]
    third: i64 = data[at + 2]
    fourth: i64 = data[at + 3]
    return first << 24 | second << 16 | third << 8 | fourth


def be64(data: bytes, at: "i64") -> int:
    """Return the eight bytes at an offset as a Python number, since it may exceed a native one."""
    high: int = be32(data, at)
    low: int = be32(data, at + 4)
    return high << 32 | low


def le32(data: bytes, at: "i64") -> "i64":
    """Return four little-endian bytes as a number. Raises IndexError beyond the end."""
    first: i64 = data[at]
    second: i64 = data[at + 1]
    third: i64 = data[at + 2]
    fourth: i64 = data[at + 3]
    return fourth << 24 | third << 16 | second << 8 | first
