"""DocumentLosses: of which vbuckets a capture lacks changes of documents, or can lack them.

Lost bytes are of the vbuckets that their direction carries; where a vbucket was captured nowhere, any may be of it.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dcpdump.batch.ends import Lost
from dcpdump.batch.gather import Array
from dcpdump.batch.part import Part
from dcpdump.batch.statistics import REQUEST, STREAMED
from dcpdump.plural import counted
from dcpdump.spec.opcodes import DCP_STREAM_REQ
from dcpdump.streams.opcode_kinds import DOCUMENTS

_VBUCKETS = 1 << 16


class DocumentLosses:
    """Give it all parts and gaps of a capture, then ask. A place is twice the number of a connection, plus 0 or 1."""

    def __init__(self) -> None:
        self._lost: Counter[int] = Counter()  # bytes, by place
        self._unmeasured: set[int] = set()  # places that lost a number of bytes that is not known
        self._carried: set[int] = set()  # place << 16 | vbucket
        self._cut: Counter[int] = Counter()  # changes that cannot be compared, as they are not whole, by vbucket

    def look(self, part: Part) -> None:
        """Note which vbuckets a part's directions carry, and its changes that are not whole."""
        header = part.header
        places = np.array([ends.place for ends in part.places], np.int64)[part.place]
        asks = header.opcode == DCP_STREAM_REQ
        found = REQUEST[header.magic] & (asks | STREAMED[header.opcode])
        carried = np.where(asks, places ^ 1, places) << 16 | header.word
        self._carried.update(np.unique(carried[found]).tolist())
        for row in part.records:
            if header.opcode[row] in DOCUMENTS and found[row]:
                self._cut[int(header.word[row])] += 1

    def lose(self, gaps: Sequence[Lost]) -> None:
        """Note lost bytes."""
        for loss in gaps:
            lengths = [each.length for each in loss.sent]
            if None in lengths:
                self._unmeasured.add(loss.ends.place)
            self._lost[loss.ends.place] += sum(each or 0 for each in lengths)

    @cached_property
    def doubtful(self) -> Array:
        """Of each vbucket whether changes of its documents can be missing, once the capture is read."""
        found = np.zeros(_VBUCKETS, bool)
        lossy = self._unmeasured | set(self._lost)
        if lossy:
            found[:] = True
            vbuckets, places = self._columns
            found[vbuckets] = False
            found[vbuckets[np.isin(places, list(lossy))]] = True
        found[list(self._cut)] = True
        return found

    def text(self, vbucket: int) -> str:
        """Return what the capture lacks of a vbucket that is doubtful, behind its name."""
        vbuckets, carriers = self._columns
        mine = set(carriers[vbuckets == vbucket].tolist())
        lossy = (self._unmeasured | set(self._lost)) & mine if mine else self._unmeasured | set(self._lost)
        parts = []
        if lossy & self._unmeasured:
            parts.append("lacks an unknown number of bytes")
        elif lossy:
            parts.append(f"lacks {counted(sum(self._lost[place] for place in lossy), 'byte')}")
        if self._cut[vbucket]:
            parts.append(f"has {counted(self._cut[vbucket], 'change')} that cannot be compared")
        return " and ".join(parts)

    @cached_property
    def _columns(self) -> tuple[Array, Array]:
        """Return the vbuckets that are carried, and by which places."""
        carried = np.fromiter(self._carried, np.int64, len(self._carried))
        return carried & (_VBUCKETS - 1), carried >> 16
