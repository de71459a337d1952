"""KeptFrames: the frames that a page may speak of, as far as they can be kept while reading; bounded.

What opens and closes connections and streams is kept as bytes, the first and the last of it; what a rule found is
kept when it is found, while its part is at hand. ``frames`` is all that the page asks: an index of the input could
answer it as well.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np

from dcpdump.batch.learning import Later
from dcpdump.batch.part import Part
from dcpdump.record import Record
from dcpdump.spec.opcodes import (
    DCP_ADD_STREAM,
    DCP_CLOSE_STREAM,
    DCP_CONTROL,
    DCP_GET_FAILOVER_LOG,
    DCP_NOOP,
    DCP_OPEN,
    DCP_SET_VBUCKET_STATE,
    DCP_STREAM_END,
    DCP_STREAM_REQ,
    HELLO,
)
from dcpdump.wire.frame import RawFrame

#: Of what opens and closes, so many frames at the beginning and so many at the end.
_FIRST = _LAST = 4_000
_WANTED = 2_000
#: Longer frames are not kept unless they are wanted.
_LONGEST = 16_384
#: Bytes of the first, of the last and of those that are wanted, of each at most. A field of a record counts as some.
_BYTES, _FIELD = 32 << 20, 400
_TURNING = np.isin(
    np.arange(256),
    (
        DCP_OPEN,
        DCP_ADD_STREAM,
        DCP_CLOSE_STREAM,
        DCP_STREAM_REQ,
        DCP_GET_FAILOVER_LOG,
        DCP_STREAM_END,
        DCP_SET_VBUCKET_STATE,
        DCP_CONTROL,
        HELLO,
    ),
)
_Kept = tuple[RawFrame, Later]


class KeptFrames:
    """Give it the parts as they come, and what is wanted of the latest."""

    def __init__(self) -> None:
        self._latest: list[Part] = []
        self._before: list[Part] = []
        self._wanted: dict[int, Record] = {}
        self._first: dict[int, _Kept] = {}
        self._last: OrderedDict[int, _Kept] = OrderedDict()
        self._noops: OrderedDict[int, _Kept] = OrderedDict()
        self._wanted_bytes = self._first_bytes = self._last_bytes = 0

    def take(self, parts: Sequence[Part]) -> None:
        """Take the next parts."""
        self._before, self._latest = self._latest, list(parts)
        for part in parts:
            opcodes = part.header.opcode
            for row in np.flatnonzero(_TURNING[opcodes] & (part.length <= _LONGEST)).tolist():
                self._keep(part, row)
            noops = np.flatnonzero((opcodes == DCP_NOOP) & (part.length <= _LONGEST))
            for row in noops[-_WANTED:].tolist():
                self._noops[part.first + row] = _kept(part, row)
                if len(self._noops) > _WANTED:
                    self._noops.popitem(last=False)

    def _keep(self, part: Part, row: int) -> None:
        number, size = part.first + row, int(part.length[row])
        if len(self._first) < _FIRST and not self._last and self._first_bytes + size <= _BYTES:
            self._first[number] = _kept(part, row)
            self._first_bytes += size
            return
        self._last[number] = _kept(part, row)
        self._last_bytes += size
        while len(self._last) > _LAST or self._last_bytes > _BYTES:
            self._last_bytes -= self._last.popitem(last=False)[1][0].length

    def want(self, number: int) -> None:
        """Keep a frame, if it is in the latest parts."""
        if number in self._wanted or len(self._wanted) >= _WANTED:
            return
        for part in (*self._latest, *self._before):
            if part.first <= number < part.first + len(part):
                record = part.record(number - part.first)
                weight = len(record.frame.raw.data) + _FIELD * len(record.frame.fields)
                if self._wanted_bytes + weight <= _BYTES:
                    self._wanted[number] = record
                    self._wanted_bytes += weight

    def forget_parts(self) -> None:
        """Let the parts go, once nothing of them can be wanted."""
        self._latest, self._before = [], []

    def frames(self, numbers: Iterable[int]) -> dict[int, Record]:
        """Return the records of frames, as far as they were kept, in the order in which they are asked for."""
        out: dict[int, Record] = {}
        for number in numbers:
            record = self._wanted.get(number)
            if record is None:
                kept = self._first.get(number) or self._last.get(number) or self._noops.get(number)
                record = None if kept is None else kept[1].record(kept[0])
            if record is not None:
                out[number] = record
        return out


def _kept(part: Part, row: int) -> _Kept:
    """Return the bytes of a frame, and what its record needs beside them."""
    ends = part.places[int(part.place[row])]
    known = part.records.get(row)
    vbucket, asked = (int(part.header.word[row]), None) if known is None else (known.vbucket, known.request)
    place = ends.connection, ends.direction, ends.src, ends.dst
    return part.raw(row), Later(part.first + row, vbucket, asked, *place, False)
