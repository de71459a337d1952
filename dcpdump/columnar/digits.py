"""Digits: hexadecimal numbers put into many copies of a text at once."""

from collections.abc import Sequence

import numpy as np

from dcpdump.columnar.plan import Array

_PAIRS = np.frombuffer("".join(f"{value:02x}" for value in range(256)).encode(), np.uint8).reshape(256, 2)


def filled(template: str, spots: Sequence[tuple[int, int, Array]], count: int) -> list[bytes]:
    """It gives ``count`` copies of an ASCII text, each with its own numbers.

    ``spots`` are (place in the text, bytes of the number, the numbers); a number takes two digits a byte.
    """
    text = np.frombuffer(template.encode("ascii"), np.uint8)
    copies = np.tile(text, (count, 1))
    for place, width, numbers in spots:
        raw = numbers.astype(f">u{width}").view(np.uint8).reshape(count, width)
        copies[:, place : place + 2 * width] = _PAIRS[raw].reshape(count, 2 * width)
    whole, size = copies.tobytes(), len(template)
    return [whole[at : at + size] for at in range(0, size * count, size)]
