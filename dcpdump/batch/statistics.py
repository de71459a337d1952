"""Statistics: counts, bytes, sizes, latencies and rates of frames, fed part by part. Bounded, whatever comes.

Sizes and latencies are kept as counts by value, exact where values are small and rounded to three digits where
they are large; time is kept in equal steps, which double when there are too many of them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dcpdump.batch.ends import Ends
from dcpdump.batch.gather import Array
from dcpdump.batch.part import Part
from dcpdump.net.limits import DEFAULT, LEAST
from dcpdump.net.packet import NO_TIME
from dcpdump.spec import find
from dcpdump.startup import dataclass, field
from dcpdump.wire.frame import magic_of

if TYPE_CHECKING:
    from dcpdump.batch.hot_keys import HotKey, HotKeys

#: What 16 bits of a header can hold: a server has 1,024, but what is sent may be anything.
VBUCKETS = 1 << 16
_STEPS = 4096  #: of time, at most
_EXACT = 1000  #: values up to here are kept as they are
_ENDS = 4096  #: bytes of memory for each direction that has a row: a fourth of them it may take itself
_SECOND = 1_000_000_000

#: (server opcode, opcode, response)
Kind = tuple[bool, int, bool]


@dataclass(slots=True)
class Amount:
    """Frames and their bytes."""

    frames: int = 0
    bytes: int = 0

    def add(self, frames: int, size: int) -> None:
        """Add to both."""
        self.frames += frames
        self.bytes += size


class Distribution:
    """Counts by value, from which percentiles are read."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.most = 0

    def add(self, values: Array) -> None:
        """Count whole numbers that are not negative."""
        if not len(values):
            return
        self.most = max(self.most, int(values.max()))
        kept, counts = np.unique(_rounded(values), return_counts=True)
        self._counts.update(dict(zip(kept.tolist(), counts.tolist(), strict=True)))

    @property
    def count(self) -> int:
        """How many values there were."""
        return self._counts.total()

    def percentile(self, percent: float) -> int:
        """Return the value that so many percent do not exceed; 0 where there are none."""
        left = self.count * percent / 100
        for value in sorted(self._counts):
            left -= self._counts[value]
            if left <= 0:
                return min(value, self.most)
        return self.most


class Timeline:
    """Frames and bytes over time."""

    def __init__(self) -> None:
        self.step_ns = _SECOND // 1000
        self._amounts: dict[int, Amount] = {}

    def add(self, ts_ns: Array, length: Array) -> None:
        """Count frames by their times."""
        if not len(ts_ns):
            return
        kept, which = np.unique(ts_ns // self.step_ns, return_inverse=True)
        frames, sizes = np.bincount(which), np.bincount(which, length)
        for step, count, size in zip(kept.tolist(), frames.tolist(), sizes.tolist(), strict=True):
            self._amounts.setdefault(step, Amount()).add(count, int(size))
        while self._amounts and max(self._amounts) - min(self._amounts) >= _STEPS:
            self._double()

    def _double(self) -> None:
        self.step_ns *= 2
        halves, self._amounts = self._amounts, {}
        for step, amount in halves.items():
            self._amounts.setdefault(step // 2, Amount()).add(amount.frames, amount.bytes)

    def steps(self, most: int) -> Iterator[tuple[int, Amount]]:
        """Yield (beginning in ns, amount) of equal steps from the first to the last, ``most`` of them at most."""
        while self._amounts and max(self._amounts) - min(self._amounts) >= most:
            self._double()
        if self._amounts:
            for step in range(min(self._amounts), max(self._amounts) + 1):
                yield step * self.step_ns, self._amounts.get(step, Amount())


@dataclass(slots=True)
class Statistics:
    """What was counted so far. ``memory``: that of the command; the directions beyond what fits have no row."""

    memory: int = DEFAULT.memory
    total: Amount = field(default_factory=Amount)
    kinds: dict[Kind, Amount] = field(default_factory=dict)
    ends: dict[Ends, Amount] = field(default_factory=dict)
    unlisted: Amount = field(default_factory=Amount)  #: of the directions that have no row
    vbuckets: Array = field(default_factory=lambda: np.zeros(VBUCKETS, np.int64))
    vbucket_bytes: Array = field(default_factory=lambda: np.zeros(VBUCKETS, np.int64))
    sizes: Distribution = field(default_factory=Distribution)
    latencies: dict[int, Distribution] = field(default_factory=dict)  #: by opcode, in microseconds
    timeline: Timeline = field(default_factory=Timeline)
    first_ns: int | None = None
    last_ns: int | None = None
    gaps: int = 0  #: frames that came right after lost or skipped bytes
    keys: "HotKeys | None" = None  #: where they are asked for,
    documents: "Sequence[HotKey]" = ()  #: and those of them that are to be shown

    def feed(self, part: Part, rows: Sequence[int]) -> None:
        """Count those rows of a part."""
        if not len(rows):
            return
        chosen = np.asarray(rows)
        length, header = part.length[chosen], part.header
        self.total.add(len(chosen), int(length.sum()))
        self.gaps += int((part.gap_before[chosen] > 0).sum())
        self.sizes.add(length)
        self._count_kinds(header.magic[chosen], header.opcode[chosen], length)
        self._count_ends(part, chosen, length)
        self._count_vbuckets(header.magic[chosen], header.opcode[chosen], header.word[chosen], length)
        self._count_latencies(part, rows)
        if self.keys is not None:
            self.keys.feed(part, rows)
        times = part.ts_ns[chosen]
        known = times != NO_TIME
        if known.any():
            times = times[known]
            self.timeline.add(times, length[known])
            first, last = int(times.min()), int(times.max())
            self.first_ns = first if self.first_ns is None else min(self.first_ns, first)
            self.last_ns = last if self.last_ns is None else max(self.last_ns, last)

    def _count_kinds(self, magic: Array, opcode: Array, length: Array) -> None:
        codes = magic.astype(np.int64) << 8 | opcode
        for code in np.unique(codes).tolist():
            mine = codes == code
            meaning = magic_of(code >> 8)
            kind = (meaning.server, code & 0xFF, meaning.response)
            self.kinds.setdefault(kind, Amount()).add(int(mine.sum()), int(length[mine].sum()))

    def _count_ends(self, part: Part, chosen: Array, length: Array) -> None:
        place = part.place[chosen]
        frames, sizes = np.bincount(place, minlength=1), np.bincount(place, length)
        for number in np.flatnonzero(frames).tolist():
            amount = self.ends.get(part.places[number])
            if amount is None:
                full = len(self.ends) >= max(2 * LEAST, self.memory // _ENDS)
                amount = self.unlisted if full else self.ends.setdefault(part.places[number], Amount())
            amount.add(int(frames[number]), int(sizes[number]))

    def _count_vbuckets(self, magic: Array, opcode: Array, word: Array, length: Array) -> None:
        mine = STREAMED[opcode] & REQUEST[magic]
        frames, sizes = np.bincount(word[mine]), np.bincount(word[mine], length[mine])
        self.vbuckets[: len(frames)] += frames
        self.vbucket_bytes[: len(sizes)] += sizes.astype(np.int64)

    def _count_latencies(self, part: Part, rows: Sequence[int]) -> None:
        found: dict[int, list[int]] = {}
        wanted = part.records.keys() & set(rows) if len(rows) < len(part) else part.records.keys()
        for row in wanted:
            asked, ts = part.records[row].request, int(part.ts_ns[row])
            if asked is not None and asked.ts_ns is not None and ts != NO_TIME and ts >= asked.ts_ns:
                found.setdefault(int(part.header.opcode[row]), []).append((ts - asked.ts_ns) // 1000)
        for opcode, latencies in found.items():
            self.latencies.setdefault(opcode, Distribution()).add(np.array(latencies, np.int64))


#: By opcode: whether it is a message of a stream. By magic: whether it is a request.
STREAMED = np.array([find(opcode).streamed for opcode in range(256)])
REQUEST = np.array([not magic_of(value).response and not magic_of(value).server for value in range(256)])


def _rounded(values: Array) -> Array:
    """Round large values up to three digits."""
    digits = np.floor(np.log10(np.maximum(values, 1))).astype(np.int64)
    unit = 10 ** np.maximum(digits - 2, 0)
    return np.where(values <= _EXACT, values, -(-values // unit) * unit)
