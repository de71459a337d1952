"""Digits: numbers put into many copies of a text at once."""

from collections.abc import Sequence

import numpy as np

from dcpdump.batch.layouts import Array

_PAIRS = np.frombuffer("".join(f"{value:02x}" for value in range(256)).encode(), np.uint8).reshape(256, 2)


def filled(template: str, spots: Sequence[tuple[int, int, Array]], count: int) -> list[bytes]:
    """Return ``count`` copies of an ASCII text, each with its own numbers.

    ``spots`` are (place in the text, bytes of the number, the numbers); a number takes two digits a byte.
    """
    text = np.frombuffer(template.encode("ascii"), np.uint8)
    copies = np.tile(text, (count, 1))
    for place, width, numbers in spots:
        raw = numbers.astype(f">u{width}").view(np.uint8).reshape(count, width)
        copies[:, place : place + 2 * width] = _PAIRS[raw].reshape(count, 2 * width)
    return _texts(copies)


def of_day(date: str, since_midnight: Array, precise: bool) -> list[bytes]:
    """Return times of one day, in nanoseconds, as ISO 8601 has them. ``precise``: with the last three digits."""
    template = f"{date}T00:00:00.{'0' * (9 if precise else 6)}Z"
    copies = np.tile(np.frombuffer(template.encode("ascii"), np.uint8), (len(since_midnight), 1))
    seconds, fraction = np.divmod(since_midnight, 1_000_000_000)
    fraction = fraction if precise else fraction // 1000
    for end, number in zip(_CLOCK, (seconds // 3600, seconds // 60 % 60, seconds % 60), strict=True):
        copies[:, end - 1] += (number // 10).astype(np.uint8)
        copies[:, end] += (number % 10).astype(np.uint8)
    for place in range(len(template) - 2, _CLOCK[-1] + 1, -1):
        fraction, digit = np.divmod(fraction, 10)
        copies[:, place] += digit.astype(np.uint8)
    return _texts(copies)


#: Where the last digits of hours, minutes and seconds stand in ``2025-11-20T12:02:11``.
_CLOCK = (12, 15, 18)


def _texts(copies: Array) -> list[bytes]:
    count, size = copies.shape
    whole = copies.tobytes()
    return [whole[at : at + size] for at in range(0, size * count, size)]
