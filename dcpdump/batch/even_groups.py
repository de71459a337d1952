"""Group parts evenly by the decompressed bytes of their values: small parts are joined, and large ones cut.

What is made of a group takes a multiple of these bytes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from dcpdump.batch.block import BLOCK_BYTES
from dcpdump.batch.gather import Array
from dcpdump.batch.part import Part
from dcpdump.spec.names import SNAPPY
from dcpdump.wire.snappy import MAX_RATIO, MAX_VALUE

#: Bytes of a group, about; a frame that is larger is a group of its own.
GROUP_BYTES = 2 * BLOCK_BYTES
#: Bytes of the length that a compressed value begins with, where it is not more than a value may have.
_CLAIM_BYTES = 4


def even_groups(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Yield parts that follow one another in groups, some of them cut into several."""
    group: list[Part] = []
    size = 0
    for part in parts:
        for piece, more in _cut(part):
            if group and size + more > GROUP_BYTES:
                yield group
                group, size = [], 0
            group.append(piece)
            size += more
    if group:
        yield group


def _cut(part: Part) -> Iterator[tuple[Part, int]]:
    """Yield a part in pieces that are not too large, each with its bytes."""
    ends = np.cumsum(_sizes(part)).tolist()
    low = done = 0
    while low < len(part):
        high = max(low + 1, bisect_right(ends, done + GROUP_BYTES))
        yield part if high - low == len(part) else _rows(part, low, high), ends[high - 1] - done
        low, done = high, ends[high - 1]


def _sizes(part: Part) -> Array:
    """Return the bytes of each frame, compressed values as long as they claim to be where that can be true."""
    sizes: Array = np.minimum(part.length, len(part.data))
    header = part.header
    packed = np.flatnonzero((header.datatype & SNAPPY != 0) & (header.value > 0))
    if len(packed):
        at = part.start[packed] + header.key_at[packed] + header.key[packed]
        claim, more = np.zeros(len(packed), np.int64), np.ones(len(packed), bool)
        for place in range(_CLAIM_BYTES):
            byte = part.view[np.minimum(at + place, len(part.data) - 1)].astype(np.int64)
            claim += np.where(more, (byte & 0x7F) << 7 * place, 0)
            more &= byte > 0x7F
        claim[more | (claim > np.minimum(MAX_VALUE, MAX_RATIO * header.value[packed]))] = 0
        sizes[packed] += claim
    return sizes


def _rows(part: Part, low: int, high: int) -> Part:
    """Return some of a part's rows as a part, with no more bytes than it needs."""
    some = slice(low, high)
    begin = int(part.start[some].min())
    end = int((part.start[some] + part.length[some]).max())
    all_columns = ((each.name, getattr(part, each.name)) for each in fields(part))
    columns: dict[str, Any] = {name: each[some] for name, each in all_columns if isinstance(each, np.ndarray)}
    columns["row"] = columns["row"] - begin  # a row says first where it begins
    return replace(
        part,
        **columns,
        first=part.first + low,
        data=part.data[begin:end],
        odd={row - low: raw for row, raw in part.odd.items() if low <= row < high},
        records={row - low: each for row, each in part.records.items() if low <= row < high},
    )
