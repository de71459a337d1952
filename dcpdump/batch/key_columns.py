"""Keys in columns: where they lie, and the collection ids that many of them start with."""

from typing import NamedTuple

import numpy as np

from dcpdump.batch.gather import Array
from dcpdump.batch.part import YES, Part
from dcpdump.wire.key_prefix import RESERVED_IDS

_LONGEST = 5  #: bytes of a 32-bit id


class Keys(NamedTuple):
    """The keys of some frames of a part: their places in its bytes, without ids, and those."""

    start: Array
    end: Array
    collection: Array
    split: Array  #: whether there is a collection id
    sound: Array  #: and it is one that a data key has; True where there is none


def keys_of(part: Part, rows: Array) -> Keys:
    """Find the keys of planned frames. Where one is not sound, its frame has to be decoded by itself."""
    keyed = np.zeros(len(part), bool)
    for group in part.groups:
        keyed[group.rows] = group.plan.message.collection_key
    header = part.header
    length = header.key[rows]
    start = part.start[rows] + header.key_at[rows]
    split = keyed[rows] & (length > 0) & (part.collections[rows] == YES)
    found = prefixes(part.view, start, np.where(split, length, 0))
    return Keys(start + found.size, start + length, found.collection, split, found.sound | ~split)


class Prefixes(NamedTuple):
    """The ids that keys start with. ``sound``: it is one that a data key has, and a key follows it."""

    collection: Array
    size: Array
    sound: Array


def prefixes(data: Array, start: Array, length: Array) -> Prefixes:
    """Read the LEB128 id at the start of keys, which lie at ``start`` in ``data``."""
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
