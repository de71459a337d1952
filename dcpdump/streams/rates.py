"""Rates: messages of streams over time, for a line of bars."""

from collections import Counter

import numpy as np

from dcpdump.batch.part import Part
from dcpdump.net.no_time import NO_TIME
from dcpdump.streams.column_events import RESPONSE
from dcpdump.streams.window import COUNTED


class Rates:
    """Messages of streams over time: counted in steps that double where there are too many of them."""

    def __init__(self) -> None:
        self._shift = 20  # of ns: about a millisecond
        self._counts: dict[tuple[int, int], Counter[int]] = {}

    def feed(self, part: Part) -> None:
        """Count the messages of a part."""
        header = part.header
        rows = np.flatnonzero(_COUNTED[header.opcode] & ~RESPONSE[header.magic] & (part.ts_ns != NO_TIME))
        if not len(rows):
            return
        while int(part.ts_ns[rows].max() - part.ts_ns[rows].min()) >> self._shift > _STEPS:
            self._double()
        connection = np.array([ends.connection for ends in part.places])[part.place[rows]]
        sid = np.where(header.framing[rows] > 0, part.stream_id(rows), 0)
        whose = connection.astype(np.int64) << 32 | header.word[rows].astype(np.int64) << 16 | sid
        both = np.stack([whose, part.ts_ns[rows] >> self._shift])
        met, counts = np.unique(both, axis=1, return_counts=True)
        for stream, step, count in zip(met[0].tolist(), met[1].tolist(), counts.tolist(), strict=True):
            self._counts.setdefault((stream >> 32, stream & 0xFFFFFFFF), Counter())[step] += count
        steps = [step for counter in self._counts.values() for step in (min(counter), max(counter))]
        while max(steps) - min(steps) > _STEPS:
            self._double()
            steps = [step >> 1 for step in steps]

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
        for whose, counter in self._counts.items():
            halved: Counter[int] = Counter()
            for step, count in counter.items():
                halved[step >> 1] += count
            self._counts[whose] = halved


_STEPS = 4096  #: of time, at most
_COUNTED = np.array(COUNTED)
