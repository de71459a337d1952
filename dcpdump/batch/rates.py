"""Rates: messages of streams over time, for a line of bars."""

from collections import Counter, OrderedDict

import numpy as np

from dcpdump.batch.part import Part
from dcpdump.batch.statistics import STREAMED
from dcpdump.net.packet import NO_TIME
from dcpdump.spec.opcodes import DCP_SEQNO_ACKNOWLEDGED


class Rates:
    """Messages of streams over time: counted in steps that double where there are too many of them."""

    def __init__(self) -> None:
        self._shift = 20  # of ns: about a millisecond
        self._span: tuple[int, int] | None = None  # the first and the last time
        self._cells = 0  # counts of all streams
        self._counts: OrderedDict[tuple[int, int], Counter[int]] = OrderedDict()  # the longest silent first

    def feed(self, part: Part) -> None:
        """Count the messages of a part."""
        header = part.header
        rows = np.flatnonzero(_COUNTED[header.opcode] & ~header.response & (part.ts_ns != NO_TIME))
        if not len(rows):
            return
        first, last = int(part.ts_ns[rows].min()), int(part.ts_ns[rows].max())
        if self._span is not None:
            first, last = min(first, self._span[0]), max(last, self._span[1])
        self._span = first, last
        while (last >> self._shift) - (first >> self._shift) > _STEPS:
            self._double()
        connection = np.array([ends.connection for ends in part.places])[part.place[rows]]
        sid = part.stream_id(rows)
        whose = connection.astype(np.int64) << 32 | header.word[rows].astype(np.int64) << 16 | sid
        both = np.stack([whose, part.ts_ns[rows] >> self._shift])
        met, counts = np.unique(both, axis=1, return_counts=True)
        for stream, step, count in zip(met[0].tolist(), met[1].tolist(), counts.tolist(), strict=True):
            place = stream >> 32, stream & 0xFFFFFFFF
            mine = self._counts.setdefault(place, Counter())
            self._counts.move_to_end(place)
            self._cells += step not in mine
            mine[step] += count
        while len(self._counts) > _PLACES:
            self._cells -= len(self._counts.popitem(last=False)[1])
        while self._cells > _CELLS:
            self._double()

    def of(self, connection: int, place: int, since_ns: int, until_ns: int, width: int) -> list[int]:
        """Return the counts of a stream (vbucket << 16 | id) in ``width`` equal steps of a time."""
        out = [0] * width
        length = max(1, until_ns - since_ns + 1)
        for step, count in self._counts.get((connection, place), Counter()).items():
            at = max(since_ns, step << self._shift)
            if at <= until_ns:
                out[(at - since_ns) * width // length] += count
        return out

    def _double(self) -> None:
        self._shift += 1
        self._cells = 0
        for whose, counter in self._counts.items():
            halved: Counter[int] = Counter()
            for step, count in counter.items():
                halved[step >> 1] += count
            self._counts[whose] = halved
            self._cells += len(halved)


_STEPS = 4096  #: of time, at most
_CELLS = 1 << 18  #: counts that are kept
_PLACES = 1 << 16  #: and streams of which there are any
_COUNTED = STREAMED & (np.arange(256) != DCP_SEQNO_ACKNOWLEDGED)  #: of these the other end sends one
