"""Count bytes, messages and seqnos by connection and stream in equal steps of time.

Memory is bounded: the numbers of steps and rows are fixed, and steps double in length when time outgrows them. Nothing
is sampled: each frame is in a sum, each seqno in a maximum.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

import numpy as np

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.gather import Array
from dcpdump.batch.statistics import REQUEST, STREAMED
from dcpdump.net.packet import NO_TIME
from dcpdump.spec.opcodes import DCP_SEQNO_ACKNOWLEDGED

#: The most steps of time.
STEPS = 1200
#: The most streams, and connections, with a row of their own; all others share one row.
STREAMS, CONNECTIONS = 8192, 2048
_FIRST_STEP = 1_000  #: ns
#: How many steps are one step of the seqnos, which are for small pictures.
COARSE = 4
#: The key of the row that streams without their own share.
OTHERS = (-1, -1, -1)
#: The key of the row that connections without their own share.
OTHER_CONNECTIONS = -1

K = TypeVar("K")

#: Connection, vbucket, stream id.
StreamKey = tuple[int, int, int]


class Axis:
    """Time in equal steps, from the first time on. Earlier times count as the first step.

    ``grids``: the grids with these steps, which fold when the steps double.
    """

    def __init__(self, *grids: "Grid") -> None:
        self.grids = list(grids)
        self.origin_ns: int | None = None
        self.step_ns = _FIRST_STEP
        self.used = 0  #: steps

    def cover(self, first_ns: int, last_ns: int) -> None:
        """Cover a range of time; the steps double as often as needed."""
        if self.origin_ns is None:
            self.origin_ns = first_ns
        while (last_ns - self.origin_ns) // self.step_ns >= STEPS:
            self.step_ns *= 2
            self.used = (self.used + 1) // 2
            for grid in self.grids:
                grid.fold()
        self.used = max(self.used, (last_ns - self.origin_ns) // self.step_ns + 1)

    def extend(self, last_ns: int) -> None:
        """Extend the steps up to a time, unless there are none: silence at the end is shown too."""
        if self.origin_ns is not None:
            self.cover(self.origin_ns, last_ns)

    def steps(self, times: Array) -> Array:
        """Return the steps of times that are covered."""
        found: Array = np.maximum(times - (self.origin_ns or 0), 0) // self.step_ns
        return found

    def begins_ns(self, step: int) -> int:
        """Return when a step begins."""
        return (self.origin_ns or 0) + step * self.step_ns


class Kind(Enum):
    """How a cell combines several numbers."""

    SUM = "their sum"
    MOST = "the largest"
    LAST = "the last, and 0 without any"


class Grid:
    """Numbers by row and step. When steps double, cells fold to their sum, their maximum, or the last."""

    def __init__(self, kind: Kind, *, dtype: str = "u4", coarse: int = 1) -> None:
        self._kind = kind
        self._coarse = coarse
        self.cells: Array = np.zeros((16, STEPS // coarse), dtype)

    def reserve(self, rows: int) -> None:
        """Grow to at least ``rows`` rows."""
        have = len(self.cells)
        if rows > have:
            grown = np.zeros((max(rows, 2 * have), self.cells.shape[1]), self.cells.dtype)
            grown[:have] = self.cells
            self.cells = grown

    def put(self, rows: Array, steps: Array, values: Array) -> None:
        """Add numbers, in the order in which they came."""
        columns = self.cells.shape[1]
        flat = rows * columns + steps // self._coarse
        order = np.argsort(flat, kind="stable")
        at, begins = np.unique(flat[order], return_index=True)
        cells = self.cells.reshape(-1)
        if self._kind is Kind.SUM:
            cells[at] += np.add.reduceat(values[order], begins).astype(cells.dtype)
        elif self._kind is Kind.MOST:
            cells[at] = np.maximum(cells[at], np.maximum.reduceat(values[order], begins).astype(cells.dtype))
        else:
            cells[at] = values[order][np.append(begins[1:], len(order)) - 1]

    def fold(self) -> None:
        """Fold each two steps into one."""
        columns = self.cells.shape[1]
        pairs = self.cells.reshape(len(self.cells), columns // 2, 2)
        if self._kind is Kind.SUM:
            folded = pairs.sum(axis=2, dtype=self.cells.dtype)
        elif self._kind is Kind.MOST:
            folded = pairs.max(axis=2)
        else:
            folded = np.where(pairs[:, :, 1] > 0, pairs[:, :, 1], pairs[:, :, 0])
        self.cells[:, : columns // 2] = folded
        self.cells[:, columns // 2 :] = 0


def _own_row(rows: dict[K, int], of: K, most: int, others: K) -> int:
    """Return the row of a key, a new one if necessary; beyond ``most`` rows, that of all others."""
    row = rows.get(of)
    if row is None:
        row = rows.setdefault(of if len(rows) < most else others, len(rows))
    return row


class TrafficOverTime:
    """Bytes of connections, messages and seqnos of streams, over time."""

    def __init__(self) -> None:
        self.connections: dict[int, int] = {}  #: rows by connection number
        self.streams: dict[StreamKey, int] = {}  #: rows by connection, vbucket and stream id
        self.bytes = Grid(Kind.SUM, dtype="i8")
        self.messages = Grid(Kind.SUM)
        self.seqnos = Grid(Kind.MOST, dtype="u8", coarse=COARSE)
        self.axis = Axis(self.bytes, self.messages, self.seqnos)

    def feed(self, batch: FrameBatch, rows: Array | None = None) -> None:
        """Add the frames of a batch that have a time. ``rows``: only these, which all have one."""
        if rows is None:
            rows = np.flatnonzero(batch.ts_ns != NO_TIME)
        if not len(rows):
            return
        times = batch.ts_ns[rows]
        self.axis.cover(int(times[0]), int(times.max()))
        steps = self.axis.steps(times)
        numbers = np.array([direction.connection for direction in batch.directions], np.int64)[batch.direction[rows]]
        self._put_connections(numbers, steps, batch.length[rows])
        self._put_streams(batch, rows, numbers, steps)

    def _put_connections(self, numbers: Array, steps: Array, length: Array) -> None:
        known, which = np.unique(numbers, return_inverse=True)
        mine = np.array([_own_row(self.connections, each, CONNECTIONS, OTHER_CONNECTIONS) for each in known.tolist()])
        self.bytes.reserve(len(self.connections))
        self.bytes.put(mine[which], steps, length)

    def _put_streams(self, batch: FrameBatch, rows: Array, numbers: Array, steps: Array) -> None:
        header = batch.header
        streamed = np.flatnonzero(STREAMED[header.opcode[rows]] & REQUEST[header.magic[rows]])
        if not len(streamed):
            return
        mine = rows[streamed]
        ids = batch.stream_id(mine)
        keys = numbers[streamed] << 32 | header.vbucket_or_status[mine].astype(np.int64) << 16 | ids
        known, which = np.unique(keys, return_inverse=True)
        streams = [(key >> 32, key >> 16 & 0xFFFF, key & 0xFFFF) for key in known.tolist()]
        at = np.array([_own_row(self.streams, key, STREAMS, OTHERS) for key in streams])[which]
        for grid in (self.messages, self.seqnos):
            grid.reserve(len(self.streams))
        self.messages.put(at, steps[streamed], np.ones(len(at), np.int64))
        seqnos = np.zeros(len(batch), np.uint64)
        for group in batch.groups:
            own = group.plan.own_seqno
            if own is not None:
                seqnos[group.rows] = group.column(own)
        self.seqnos.put(at, steps[streamed], seqnos[mine])

    def has_row(self, number: int) -> bool:
        """Return whether a connection has a row of its own, or no bytes."""
        return number in self.connections or OTHER_CONNECTIONS not in self.connections

    def added_up(self, numbers: Iterable[int]) -> Array:
        """Return the bytes of several connections in each step; a shared row counts with all that is in it."""
        shared = self.connections.get(OTHER_CONNECTIONS)
        rows = {row for number in numbers if (row := self.connections.get(number, shared)) is not None}
        found: Array = self.bytes.cells[sorted(rows), : self.axis.used].sum(axis=0, dtype=np.int64)
        return found

    def bytes_of(self, number: int) -> Array:
        """Return the bytes of a connection in each step; zeros if it has none."""
        row = self.connections.get(number)
        return self.bytes.cells[row, : self.axis.used] if row is not None else np.zeros(self.axis.used, np.int64)

    def messages_of(self, keys: Iterable[StreamKey]) -> Array:
        """Return the sum of several streams' messages in each step; streams without a row of their own are left out."""
        rows = [row for key in keys if (row := self.streams.get(key)) is not None]
        found: Array = self.messages.cells[rows, : self.axis.used].sum(axis=0, dtype=np.uint32)
        return found

    def seqno(self, key: StreamKey) -> Array:
        """Return the largest seqno of a stream in each coarse step; 0 without any."""
        row, used = self.streams.get(key), -(-self.axis.used // COARSE)
        return self.seqnos.cells[row, :used] if row is not None else np.zeros(used, np.uint64)


# -- messages of streams, for a line of bars ----------------------------------------------------------


class Rates:
    """Messages of streams over time: counted in steps that double where there are too many of them."""

    def __init__(self) -> None:
        self._shift = 20  # of ns: about a millisecond
        self._span: tuple[int, int] | None = None  # the first and the last time
        self._cells = 0  # counts of all streams
        self._counts: OrderedDict[tuple[int, int], Counter[int]] = OrderedDict()  # the longest silent first

    def feed(self, batch: FrameBatch) -> None:
        """Count the messages of a batch."""
        header = batch.header
        rows = np.flatnonzero(_COUNTED[header.opcode] & ~header.response & (batch.ts_ns != NO_TIME))
        if not len(rows):
            return
        first, last = int(batch.ts_ns[rows].min()), int(batch.ts_ns[rows].max())
        if self._span is not None:
            first, last = min(first, self._span[0]), max(last, self._span[1])
        self._span = first, last
        while (last >> self._shift) - (first >> self._shift) > _STEPS:
            self._double()
        connection = np.array([direction.connection for direction in batch.directions])[batch.direction[rows]]
        sid = batch.stream_id(rows)
        whose = connection.astype(np.int64) << 32 | header.vbucket_or_status[rows].astype(np.int64) << 16 | sid
        both = np.stack([whose, batch.ts_ns[rows] >> self._shift])
        met, counts = np.unique(both, axis=1, return_counts=True)
        for stream, step, count in zip(met[0].tolist(), met[1].tolist(), counts.tolist(), strict=True):
            key = stream >> 32, stream & 0xFFFFFFFF
            mine = self._counts.setdefault(key, Counter())
            self._counts.move_to_end(key)
            self._cells += step not in mine
            mine[step] += count
        while len(self._counts) > _MOST_STREAMS:
            self._cells -= len(self._counts.popitem(last=False)[1])
        while self._cells > _CELLS:
            self._double()

    def of(self, connection: int, key: int, since_ns: int, until_ns: int, width: int) -> list[int]:
        """Return the counts of a stream (vbucket << 16 | id) in ``width`` equal steps of a time."""
        out = [0] * width
        length = max(1, until_ns - since_ns + 1)
        for step, count in self._counts.get((connection, key), Counter()).items():
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
_MOST_STREAMS = 1 << 16  #: and streams of which there are any
_COUNTED = STREAMED & (np.arange(256) != DCP_SEQNO_ACKNOWLEDGED)  #: of these the other end sends one
