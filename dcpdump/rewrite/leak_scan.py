"""Search files for many texts at once. Knows bytes only."""

import mmap
from array import array
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

#: Texts shorter than this cannot be searched for.
WINDOW = 8
#: A window must have this many bytes that are not zero: numbers, and what was blanked, are mostly zeros.
_LEAST_NONZERO = 5
_LOOKED_AT = 64  #: such a window must begin within this many bytes of a text
_CHUNK = 4 * 1024 * 1024
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Words = npt.NDArray[np.uint64]


class Search:
    """A set of texts to search files for. Texts that are nearly all zeros are not searched for."""

    def __init__(self) -> None:
        self._windows = bytearray()
        self._shifts = array("B")
        self._lengths = array("L")
        self._digests = bytearray()

    def add(self, text: bytes) -> None:
        """Add a text of eight bytes or more."""
        for shift in range(min(len(text) - WINDOW + 1, _LOOKED_AT)):
            window = text[shift : shift + WINDOW]
            if WINDOW - window.count(0) >= _LEAST_NONZERO:
                self._windows += window
                self._shifts.append(shift)
                self._lengths.append(len(text))
                self._digests += _digest(text)
                return

    def __len__(self) -> int:
        return len(self._shifts)

    def scan(self, path: str) -> Iterator[int]:
        """Yield the offsets in a file at which a text occurs, each offset once."""
        if not len(self):
            return
        windows = np.frombuffer(bytes(self._windows), "<u8")
        order = np.argsort(windows, kind="stable")
        windows = windows[order]
        bits = max(16, min(26, len(windows).bit_length() + 5))
        table = np.zeros(1 << bits, bool)
        table[_hashed(windows, bits)] = True
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with data:
            for start in range(0, len(data), _CHUNK):
                chunk = data[start : start + _CHUNK + WINDOW - 1]
                for place, window in _candidates(chunk, table, bits, windows):
                    if self._stands(data, start + place, window, windows, order):
                        yield start + place

    def _stands(self, data: mmap.mmap, place: int, window: int, windows: Words, order: npt.NDArray[np.intp]) -> bool:
        """Return whether one of the texts with this window occurs around it as a whole."""
        first = np.searchsorted(windows, np.uint64(window), "left")
        last = np.searchsorted(windows, np.uint64(window), "right")
        for index in set(order[first:last].tolist()):
            start = place - self._shifts[index]
            text = data[max(start, 0) : max(start, 0) + self._lengths[index]]
            if start >= 0 and _digest(text) == bytes(self._digests[8 * index : 8 * index + 8]):
                return True
        return False


def _hashed(words: Words, bits: int) -> npt.NDArray[np.int64]:
    hashed: npt.NDArray[np.int64] = ((words * _MULTIPLIER) >> np.uint64(64 - bits)).astype(np.int64)
    return hashed


def _candidates(chunk: bytes, table: npt.NDArray[np.bool_], bits: int, windows: Words) -> Iterator[tuple[int, int]]:
    """Yield offset and window for each window of the chunk that is among those searched for."""
    for shift in range(min(WINDOW, len(chunk) - WINDOW + 1)):
        words = np.frombuffer(chunk, "<u8", (len(chunk) - shift) // WINDOW, shift)
        near = np.flatnonzero(table[_hashed(words, bits)])
        found = words[near]
        exact = windows[np.minimum(np.searchsorted(windows, found), len(windows) - 1)] == found
        for place, window in zip(near[exact].tolist(), found[exact].tolist(), strict=True):
            yield shift + WINDOW * place, window


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=8).digest()
