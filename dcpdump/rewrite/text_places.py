"""Map offsets of a TLS direction, as they were sent, to those of the text inside."""

from typing import TYPE_CHECKING

import numpy as np

from dcpdump.batch.layouts import Array

if TYPE_CHECKING:
    from dcpdump.tls.side import Places


class TextPlaces:
    """The records of one direction that have text."""

    def __init__(self, places: "Places") -> None:
        self._starts, self._ends, self._texts, self._stops = (np.array(each, np.int64) for each in places)
        self._sizes = np.concatenate(([0], np.cumsum(self._ends - self._starts)))

    def texts(self, offset: Array, size: Array) -> tuple[Array, Array, Array]:
        """Return of payloads the text of all records that they have a part of: its offset and size.

        And whether they have a part of any other record, such as one of a handshake.
        """
        if not len(self._starts):
            return offset, np.zeros_like(size), size > 0
        first = np.searchsorted(self._ends, offset, side="right")
        last = np.searchsorted(self._starts, offset + size, side="left")
        some = (last > first) & (size > 0)
        at, until = np.minimum(first, len(self._starts) - 1), np.maximum(last - 1, 0)
        text = np.where(some, self._texts[at], 0)
        covered = np.minimum(self._ends[until], offset + size) - np.maximum(self._starts[at], offset)
        holes = (self._ends[until] - self._starts[at]) - (self._sizes[until + 1] - self._sizes[at])
        others = (size > 0) & (~some | (covered - holes < size))
        return text, np.where(some, self._stops[until] - text, 0), others
