"""Gather structs at any offsets of bytes as an array, and find the distinct values of an array."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def overlapping(data: Array, dtype: np.dtype[Any]) -> Array:
    """View bytes as structs, one starting at every byte: index the view with offsets to gather structs."""
    count = max(0, len(data) - dtype.itemsize + 1)
    records: Array = np.ndarray((count,), dtype, data, strides=(1,))
    return records


def records_at(data: Array, dtype: np.dtype[Any], places: Array) -> Array:
    """Return the structs of a type at some offsets in bytes.

    They are gathered as bytes: NumPy copies those at once, and fields one by one.
    """
    gathered = overlapping(data, np.dtype((np.void, dtype.itemsize)))[places]
    return gathered.view(dtype)


def distinct(values: Array) -> tuple[Array, Array, Array]:
    """Return the distinct values, sorted; the first index of each; and for every value, its index among the distinct.

    Like ``numpy.unique``, but faster where values are few or small, as they mostly are.
    """
    if not len(values):
        return values, np.zeros(0, np.int64), np.zeros(0, np.int64)
    if (values == values[0]).all():
        return values[:1], np.zeros(1, np.int64), np.zeros(len(values), np.int64)
    if values.dtype.kind == "u" and values.dtype.itemsize == 1:
        first = np.full(256, -1, np.int64)
        first[values[::-1]] = np.arange(len(values) - 1, -1, -1)
        met = np.flatnonzero(first >= 0)
        number = np.zeros(256, np.int64)
        number[met] = np.arange(len(met))
        return met.astype(values.dtype), first[met], number[values]
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    steps = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    which = np.empty(len(values), np.int64)
    which[order] = np.cumsum(steps) - 1
    return ordered[steps], order[steps], which
