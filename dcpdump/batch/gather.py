"""Gather structs at any offsets of bytes as arrays, find distinct values, and read the headers of many packets."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcpdump.net.batch import Batch
from dcpdump.net.layers import plain_segments
from dcpdump.startup import dataclass

Array = NDArray[Any]


def records_at(data: Array, dtype: np.dtype[Any], at: Array) -> Array:
    """Return the structs of a type at some offsets in bytes.

    They are gathered as bytes: NumPy copies those at once, and fields one by one.
    """
    count, kind = max(0, len(data) - dtype.itemsize + 1), np.dtype((np.void, dtype.itemsize))
    every: Array = np.ndarray((count,), kind, data, strides=(1,))  # one begins at every byte
    return every[at].view(dtype)


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


# -- flows, sequence numbers and payloads of packets, as columns --------------------------------------


@dataclass(frozen=True, slots=True)
class Facts:
    """The segment of each plain packet (see ``net.layers``), as columns; of others ``flow`` is -1."""

    keys: list[bytes]  #: by flow: both addresses and ports, as in the headers
    flow: Array
    seq: Array
    start: Array  #: of the payload, in the block's data
    size: Array  #: of the payload


def facts_of(batch: Batch) -> Facts:
    """Read the headers of all packets of a batch."""
    keys, *columns = plain_segments(batch.data, batch.starts, batch.ends, batch.links)
    return Facts(keys, *(np.array(column, np.int64) for column in columns))
