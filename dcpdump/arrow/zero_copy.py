"""Make Arrow arrays from NumPy arrays without copying or converting."""

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from dcpdump.batch.gather import Array

_CHUNK = 1 << 16


def numbers(values: Array, kind: pa.DataType, null: Array | None = None) -> pa.Array:
    """Return numbers of the column's own width as an array; ``null``: a mask of nulls."""
    valid = None if null is None or not null.any() else bits(~null)
    if pa.types.is_boolean(kind):
        data = bits(values.astype(bool))
    else:
        data = pa.py_buffer(np.ascontiguousarray(values.astype(dtype(kind), copy=False)))
    return pa.Array.from_buffers(kind, len(values), [valid, data])


def places(which: Array, null: Array | None = None) -> pa.Array:
    """Return indices as an array."""
    return numbers(which, pa.int64(), null)


def pieces(data: bytes, start: Array, end: Array) -> pa.Array:
    """Return an array of binary over bytes: piece, bytes between, piece, bytes between …

    Pieces are in the order of their bytes and do not overlap.
    """
    offsets = np.empty(2 * len(start) + 1, np.int32)
    offsets[:-1:2], offsets[1::2] = start, end
    offsets[-1] = end[-1] if len(end) else 0
    return pa.Array.from_buffers(pa.binary(), 2 * len(start), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def nothing(count: int, kind: pa.DataType) -> pa.Array:
    """Return an array of nulls; such arrays share memory, since most columns are null in most batches."""
    return _nulls(kind, -(-count // _CHUNK) * _CHUNK).slice(0, count)


def bits(values: Array) -> pa.Buffer:
    """Return booleans as a bitmap in Arrow's order."""
    return pa.py_buffer(np.packbits(values, bitorder="little"))


@lru_cache(maxsize=256)
def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind)


@lru_cache(maxsize=64)
def dtype(kind: pa.DataType) -> Any:
    """Return NumPy's type of a number. Arrow's own function imports pandas."""
    return np.dtype(np.int64 if pa.types.is_timestamp(kind) else str(kind))
