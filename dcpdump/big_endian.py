"""Read numbers in network byte order. For compiled modules, where this is faster than ``struct``."""


def be16(data: bytes, at: int) -> int:
    """Return the two bytes at an offset as a number. Raises IndexError where they are not there."""
    return data[at] << 8 | data[at + 1]


def be32(data: bytes, at: int) -> int:
    """Return the four bytes at an offset as a number. Raises IndexError where they are not there."""
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
