"""A small writer of PNG: pictures of 16 colours, each with its opacity."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from dcpdump.batch.gather import Array

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE = 3  #: the colour type
#: Red, green, blue, opacity.
Colour = tuple[int, int, int, int]


def png(cells: Array, colours: Sequence[Colour]) -> bytes:
    """Return a picture of cells, each the number of one of 16 colours at most; the first row is at the top."""
    height, width = cells.shape
    padded = np.zeros((height, width + width % 2), np.uint8)
    padded[:, :width] = cells
    packed = padded[:, ::2] << 4 | padded[:, 1::2]
    rows = np.zeros((height, packed.shape[1] + 1), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = packed
    return b"".join(
        (
            _SIGNATURE,
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 4, _PALETTE, 0, 0, 0)),
            _chunk(b"PLTE", bytes(part for colour in colours for part in colour[:3])),
            _chunk(b"tRNS", bytes(colour[3] for colour in colours)),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
