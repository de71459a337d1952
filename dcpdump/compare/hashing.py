"""Mix hashes with numbers: the same for equal ones."""

import numpy as np

from dcpdump.batch.gather import Array

_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT = np.uint64(31)


def mixed(values: Array, numbers: Array) -> Array:
    """Return a hash for each value and its number. Values need not be hashes: seqnos follow one another."""
    return _spread(_spread(values.view(np.uint64)) + numbers.astype(np.int64).view(np.uint64) * _ODD)


def _spread(values: Array) -> Array:
    """Return numbers in which each bit depends on all of ``values`` (the last steps of SplitMix64)."""
    once = (values ^ (values >> _SHIFT)) * _FIRST
    twice = (once ^ (once >> _SHIFT)) * _SECOND
    found: Array = twice ^ (twice >> _SHIFT)
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
