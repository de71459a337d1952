"""Count frames, bytes, sizes, latencies and rates, batch by batch, in bounded memory.

Sizes and latencies are kept as counts by value: small values exactly, large ones rounded to three digits. Time is kept
in equal steps, which double in length when there are too many.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.gather import Array
from dcpdump.escape import safe_text
from dcpdump.net.limits import DEFAULT, LEAST
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Direction, Record
from dcpdump.redact import Redactor
from dcpdump.spec import MESSAGES, find
from dcpdump.spec.opcodes import (
    DCP_ABORT,
    DCP_COMMIT,
    DCP_DELETION,
    DCP_EXPIRATION,
    DCP_MUTATION,
    DCP_OPEN,
    DCP_PREPARE,
    HELLO,
    SELECT_BUCKET,
)
from dcpdump.startup import dataclass, field
from dcpdump.wire.frame import magic_of

if TYPE_CHECKING:
    from dcpdump.redact import Redactor


#: What 16 bits of a header can hold: a server has 1,024, but what is sent may be anything.
VBUCKETS = 1 << 16
_STEPS = 4096  #: of time, at most
_EXACT = 1000  #: values up to here are kept as they are
_ENDS = 4096  #: bytes of memory for each direction that has a row; the row may take a fourth of them
_TEXTS = 16  #: the names of clients may take this part of the memory: one byte of so many
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


@dataclass(slots=True)
class TimedAmount(Amount):
    """Frames and their bytes, and when the first and the last of them came; None: it is not known."""

    first_ns: int | None = None
    last_ns: int | None = None

    def at(self, first_ns: int, last_ns: int) -> None:
        """Note the times of the first and the last of some frames."""
        self.first_ns = first_ns if self.first_ns is None else min(self.first_ns, first_ns)
        self.last_ns = last_ns if self.last_ns is None else max(self.last_ns, last_ns)


@dataclass(slots=True)
class Client:
    """The client of a connection, as far as its set-up was captured."""

    name: str | None = None  #: of DCP_OPEN
    agent: str | None = None  #: of HELLO
    bucket: str | None = None  #: that was selected
    asked: tuple[int, str | None] = 0, None  #: the last request for a bucket: its frame, and the bucket

    def learn(self, record: Record) -> int:
        """Learn from a frame of the set-up, and return how many characters of text it had."""
        frame, opcode = record.frame, record.frame.header.opcode
        if frame.magic.server:
            return 0
        if frame.magic.response:
            answers = opcode == SELECT_BUCKET and not frame.header.vbucket_or_status and record.request is not None
            if answers and record.request is not None and record.request.frame == self.asked[0]:
                self.bucket = self.asked[1] or None
            return 0
        text = None if frame.raw.lost(0, frame.raw.length) else safe_text(frame.key or b"")
        if opcode == DCP_OPEN:
            self.name = text
        elif opcode == HELLO:
            self.agent = text or None
        else:
            self.asked = record.number, text
        return len(text or "")

    def redacted(self, redactor: Redactor | None) -> "Client":
        """Return it as it may be shown."""

        def shown(opcode: int, text: str | None) -> str | None:
            return text if redactor is None or text is None else redactor.key(MESSAGES[opcode], text)

        return Client(shown(DCP_OPEN, self.name), shown(HELLO, self.agent), shown(SELECT_BUCKET, self.bucket))


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
        """Return how many values there were."""
        return self._counts.total()

    def percentile(self, percent: float) -> int:
        """Return the value that ``percent`` of the values do not exceed; 0 without values."""
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
    total: TimedAmount = field(default_factory=TimedAmount)
    kinds: dict[Kind, Amount] = field(default_factory=dict)
    directions: dict[Direction, TimedAmount] = field(default_factory=dict)
    clients: dict[int, Client] = field(default_factory=dict)  #: by connection
    unlisted: TimedAmount = field(default_factory=TimedAmount)  #: of the directions that have no row
    vbuckets: Array = field(default_factory=lambda: np.zeros(VBUCKETS, np.int64))
    vbucket_bytes: Array = field(default_factory=lambda: np.zeros(VBUCKETS, np.int64))
    sizes: Distribution = field(default_factory=Distribution)
    latencies: dict[int, Distribution] = field(default_factory=dict)  #: by opcode, in microseconds
    timeline: Timeline = field(default_factory=Timeline)
    gaps: int = 0  #: frames that came right after lost or skipped bytes
    keys: "HotKeys | None" = None  #: where they are requested,
    documents: "Sequence[HotKey]" = ()  #: and those of them that are to be shown
    _letters: int = 0  #: of the names of clients

    def learn_clients(self, batch: FrameBatch) -> None:
        """Learn from the frames of a batch, counted or not, who the clients of connections are."""
        for row in np.flatnonzero(_SETUP[batch.header.opcode]).tolist():
            record = batch.record(row)
            client = self.clients.get(record.connection or 0)
            if client is None and len(self.clients) < self._most_directions:
                client = self.clients[record.connection or 0] = Client()
            if client is not None and self._letters < self.memory // _TEXTS:
                self._letters += client.learn(record)

    @property
    def _most_directions(self) -> int:
        return max(2 * LEAST, self.memory // _ENDS)

    def feed(self, batch: FrameBatch, rows: Sequence[int]) -> None:
        """Count those rows of a batch."""
        if not len(rows):
            return
        chosen = np.asarray(rows)
        length, header = batch.length[chosen], batch.header
        self.total.add(len(chosen), int(length.sum()))
        self.gaps += int((batch.gap_before[chosen] > 0).sum())
        self.sizes.add(length)
        self._count_kinds(header.magic[chosen], header.opcode[chosen], length)
        times = batch.ts_ns[chosen]
        self._count_directions(batch, batch.direction[chosen], length, times)
        self._count_vbuckets(header.magic[chosen], header.opcode[chosen], header.vbucket_or_status[chosen], length)
        self._count_latencies(batch, rows)
        if self.keys is not None:
            self.keys.feed(batch, rows)
        known = times != NO_TIME
        if known.any():
            times = times[known]
            self.timeline.add(times, length[known])
            self.total.at(int(times.min()), int(times.max()))

    def _count_kinds(self, magic: Array, opcode: Array, length: Array) -> None:
        codes = magic.astype(np.int64) << 8 | opcode
        for code in np.unique(codes).tolist():
            mine = codes == code
            known = magic_of(code >> 8)
            kind = (known.server, code & 0xFF, known.response)
            self.kinds.setdefault(kind, Amount()).add(int(mine.sum()), int(length[mine].sum()))

    def _count_directions(self, batch: FrameBatch, direction: Array, length: Array, times: Array) -> None:
        frames, sizes = np.bincount(direction, minlength=1), np.bincount(direction, length)
        last = np.full(len(frames), NO_TIME)
        np.maximum.at(last, direction, times)
        first = last.copy()
        known = times != NO_TIME
        np.minimum.at(first, direction[known], times[known])
        for number in np.flatnonzero(frames).tolist():
            traffic = self.directions.get(batch.directions[number])
            if traffic is None:
                full = len(self.directions) >= self._most_directions
                traffic = self.unlisted if full else self.directions.setdefault(batch.directions[number], TimedAmount())
            traffic.add(int(frames[number]), int(sizes[number]))
            if last[number] != NO_TIME:
                traffic.at(int(first[number]), int(last[number]))

    def _count_vbuckets(self, magic: Array, opcode: Array, vbucket: Array, length: Array) -> None:
        mine = STREAMED[opcode] & REQUEST[magic]
        frames, sizes = np.bincount(vbucket[mine]), np.bincount(vbucket[mine], length[mine])
        self.vbuckets[: len(frames)] += frames
        self.vbucket_bytes[: len(sizes)] += sizes.astype(np.int64)

    def _count_latencies(self, batch: FrameBatch, rows: Sequence[int]) -> None:
        found: dict[int, list[int]] = {}
        wanted = batch.records.keys() & set(rows) if len(rows) < len(batch) else batch.records.keys()
        for row in wanted:
            asked, ts = batch.records[row].request, int(batch.ts_ns[row])
            if asked is not None and asked.ts_ns is not None and ts != NO_TIME and ts >= asked.ts_ns:
                found.setdefault(int(batch.header.opcode[row]), []).append((ts - asked.ts_ns) // 1000)
        for opcode, latencies in found.items():
            self.latencies.setdefault(opcode, Distribution()).add(np.array(latencies, np.int64))


#: By opcode: whether it is a message of a stream. By magic: whether it is a request.
STREAMED = np.array([find(opcode).streamed for opcode in range(256)])
REQUEST = np.array([not magic_of(value).response and not magic_of(value).server for value in range(256)])
#: By opcode: whether it may say who the client is.
_SETUP = np.isin(np.arange(256), (HELLO, SELECT_BUCKET, DCP_OPEN))


def _rounded(values: Array) -> Array:
    """Round large values up to three digits."""
    digits = np.floor(np.log10(np.maximum(values, 1))).astype(np.int64)
    unit = 10 ** np.maximum(digits - 2, 0)
    return np.where(values <= _EXACT, values, -(-values // unit) * unit)


# -- frames and bytes by key, and the keys with most --------------------------------------------------
# A dictionary counts each key. When it has grown too large, the keys with the least counts are forgotten. A key that
# comes later may be one of these, so it may have up to the largest forgotten count more.

#: Bytes of memory for a key and its counts.
_KEY = 512
_LEAST = 1_024  #: the least number of keys that are kept
_OF_DOCUMENTS = np.isin(
    np.arange(256), (DCP_MUTATION, DCP_DELETION, DCP_EXPIRATION, DCP_PREPARE, DCP_COMMIT, DCP_ABORT)
)


class HotKey(NamedTuple):
    """The counts of one key."""

    key: bytes
    collection: int | None  #: the collection's id; None where keys have none
    path: str  #: its name, where that was captured
    amount: Amount
    error: Amount  #: how many more frames and bytes it may have had

    def redacted(self, redactor: "Redactor | None") -> "HotKey":
        """Return the key with its texts redacted."""
        if redactor is None:
            return self
        return self._replace(key=redactor.hash(self.key), path=redactor.path(self.path) if self.path else "")


_Key = tuple[int | None, bytes]  #: a collection id, and a key


class HotKeys:
    """Counts of frames and bytes by key. ``memory``: bytes for the command, an eighth of which may be used here."""

    def __init__(self, memory: int) -> None:
        self._most = max(_LEAST, memory // 8 // _KEY)
        self._counts: dict[_Key, list[int]] = {}
        self._error = Amount()  #: how many frames and bytes a new key may have had before
        self._paths: dict[int, str] = {}  #: names of collections by id; empty where an id has several

    def feed(self, batch: FrameBatch, rows: Sequence[int]) -> None:
        """Count those of the rows that are about a document. Rows without a valid key are not counted."""
        chosen, header, keys = np.asarray(rows), batch.header, batch.keys
        chosen = chosen[_OF_DOCUMENTS[header.opcode[chosen]] & REQUEST[header.magic[chosen]]]
        by_itself = np.fromiter(batch.records, np.int64, len(batch.records))
        planned = chosen[keys.sound[chosen] & ~np.isin(chosen, by_itself)]
        of = keys.of(planned)
        for begin, end, collection, split, length in zip(
            of.logical.tolist(),
            of.end.tolist(),
            of.collection.tolist(),
            of.split.tolist(),
            batch.length[planned].tolist(),
            strict=True,
        ):
            self._count((collection if split else None, batch.data[begin:end]), length)
        for row in np.intersect1d(chosen, by_itself).tolist():
            content = batch.record(row).content
            if content.key is not None:
                self._count((content.collection, content.key), int(batch.length[row]))
        self._learn_paths(batch)
        if len(self._counts) > 2 * self._most:
            self._forget()

    def _count(self, key: _Key, length: int) -> None:
        counts = self._counts.get(key)
        if counts is None:
            self._counts[key] = [1, length, self._error.frames, self._error.bytes]
        else:
            counts[0] += 1
            counts[1] += length

    def _learn_paths(self, batch: FrameBatch) -> None:
        for names in batch.names.values():
            for number, path in names.known():
                if self._paths.setdefault(number, path) != path:
                    self._paths[number] = ""  # the same id in two buckets

    def _forget(self) -> None:
        """Forget all keys but those with most frames, and those with most bytes."""
        kept = dict([*self._with_most(0, self._most // 2), *self._with_most(1, self._most // 2)])
        gone = [counts for key, counts in self._counts.items() if key not in kept]
        self._error.add(max(each[0] for each in gone), max(each[1] for each in gone))
        self._counts = kept

    def _with_most(self, which: int, count: int) -> list[tuple[_Key, list[int]]]:
        return nlargest(count, self._counts.items(), key=lambda item: (item[1][which], item[1], item[0][1]))

    def top(self, count: int) -> list[HotKey]:
        """Return the ``count`` keys with most frames and the ``count`` with most bytes, sorted by frames."""
        found = dict([*self._with_most(0, count), *self._with_most(1, count)])
        rows = [
            HotKey(key, collection, self._paths.get(collection or 0, ""), Amount(*counts[:2]), Amount(*counts[2:]))
            for (collection, key), counts in found.items()
        ]
        return sorted(rows, key=lambda row: (-row.amount.frames, -row.amount.bytes, row.key, row.collection or 0))
