"""Keys in columns: the collection ids that many keys start with."""

from typing import NamedTuple

import numpy as np

from dcpdump.columnar.plan import Array
from dcpdump.wire.value import RESERVED_IDS

_LONGEST = 5  #: bytes of a 32-bit id


class Prefixes(NamedTuple):
    """The ids that keys start with. ``sound``: it is one that a data key has, and a key follows it."""

    collection: Array
    size: Array
    sound: Array


def prefixes(data: Array, start: Array, length: Array) -> Prefixes:
    """It reads the LEB128 id at the start of keys, which lie at ``start`` in ``data``."""
    count = len(start)
    collection, size = np.zeros(count, np.int64), np.zeros(count, np.int64)
    sound = np.zeros(count, bool)
    going = np.flatnonzero(length > 0)
    for number in range(_LONGEST):
        if not len(going):
            break
        byte = data[start[going] + number].astype(np.int64)
        collection[going] |= (byte & 0x7F) << (7 * number)
        ends = byte < 0x80
        done = going[ends]
        size[done] = number + 1
        # A last byte of zero adds nothing: not the shortest form.
        sound[done] = (byte[ends] != 0) if number else True
        going = going[~ends]
        going = going[length[going] > number + 1]
    sound &= (collection <= 0xFFFFFFFF) & (size < length)
    sound &= (collection < RESERVED_IDS.start) | (collection >= RESERVED_IDS.stop)
    return Prefixes(collection.astype(np.uint32), size, sound)
