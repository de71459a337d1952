"""Mix hashes with numbers: the same for equal ones."""

import numpy as np

from dcpdump.batch.gather import Array

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def mixed(values: Array, numbers: Array) -> Array:
    """Return a hash for each value and its number."""
    both = (values.view(np.uint64) ^ (numbers.astype(np.int64).view(np.uint64) + _ODD)) * _ODD
    found: Array = (both ^ (both >> _SHIFT)) * _ODD
    return found


def numbered(keys: Array) -> Array:
    """Return keys that are unique: of each value the first, the second, the third …"""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    places = np.arange(len(keys))
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)]
    number = np.empty(len(keys), np.int64)
    number[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return mixed(keys, number)
