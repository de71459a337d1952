"""Keep the frames of one capture as compact rows in a file, by connection and direction, and what was acknowledged."""

from collections import deque
from collections.abc import Callable, Sequence
from socket import AF_INET, AF_INET6, inet_pton

import numpy as np

from dcpdump.batch.dissector import Dissection
from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.gather import Array, distinct, records_at
from dcpdump.batch.statistics import REQUEST, STREAMED
from dcpdump.conversation import Conversation
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.endpoints import Flow
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Direction, Lost, Record, own_seqno
from dcpdump.redact import hides_numbers
from dcpdump.rewrite.spill import Spill
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.tls.secrets import Secrets
from dcpdump.wire.split import FrameSplitter

#: The row of a frame. ``hash``: of all its bytes; ``body``: of those after the header; ``marks``: HAS_SEQNO,
#: NOT_WHOLE.
ROW = np.dtype(
    [
        ("hash", "<u8"),
        ("body", "<u8"),
        ("ts", "<i8"),
        ("offset", "<i8"),
        ("seqno", "<u8"),
        ("cas", "<u8"),
        ("frame", "<u4"),
        ("length", "<u4"),
        ("opaque", "<u4"),
        ("vbucket_or_status", "<u2"),
        ("sid", "<u2"),
        ("opcode", "u1"),
        ("magic", "u1"),
        ("datatype", "u1"),
        ("marks", "u1"),
    ]
)
HAS_SEQNO, NOT_WHOLE = 1, 2
_HEADER = np.dtype([("first", "<i8"), ("second", "<i8"), ("third", "<i8")])
_ALL_BITS = (1 << 64) - 1
#: How many rows of a direction are read at once, to choose some of them.
_AT_ONCE = 1 << 14
_NAMES = ("opaque", "vbucket_or_status", "opcode", "magic", "datatype", "cas")

#: (vbucket, stream id)
StreamKey = tuple[int, int]
#: (offset, length of the missing text, bytes lost; 0 if unknown)
Loss = tuple[int, int, int]


_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT = np.uint64(31)


def mixed(values: Array, numbers: Array) -> Array:
    """Return a hash for each value and its number. Values need not be hashes: seqnos are consecutive."""
    return _spread(_spread(values.view(np.uint64)) + numbers.astype(np.int64).view(np.uint64) * _ODD)


def _spread(values: Array) -> Array:
    """Return numbers in which each bit depends on all of ``values`` (the last steps of SplitMix64)."""
    once = (values ^ (values >> _SHIFT)) * _FIRST
    twice = (once ^ (once >> _SHIFT)) * _SECOND
    found: Array = twice ^ (twice >> _SHIFT)
    return found


def numbered(keys: Array) -> Array:
    """Return unique keys: a hash of each value and its rank among equal values."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    numbers = np.arange(len(keys))
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)]
    number = np.empty(len(keys), np.int64)
    number[order] = numbers - np.maximum.accumulate(np.where(begins, numbers, 0))
    return mixed(keys, number)


#: How many ended connections are still watched, since the last bytes are acknowledged after the end.
_MOST_ENDED = 1_024


class AckDissection(Dissection):
    """A dissection that keeps the acknowledgements of connections with frames outside of TLS.

    A direction's id is twice the number of its connection, plus 0 or 1.
    """

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self._sent: dict[int, ByteStream] = {}  # by direction id
        self._ended: deque[int] = deque()  # connections
        self._known: dict[int, int] = {}  # by direction id, of directions no longer watched

    def acknowledged(self, direction_id: int) -> int | None:
        """Return the offset up to which the receiver acknowledged a direction; None without a captured ACK."""
        stream = self._sent.get(direction_id)
        if stream is None:
            return self._known.get(direction_id)
        return stream.offset_of(int(stream.last_ack)) if stream.last_ack >= 0 and stream.begun else None

    def _leave(self, conversation: Conversation) -> list[Record]:
        self._ended.append(conversation.connection.number)
        if len(self._ended) > _MOST_ENDED:
            first = 2 * self._ended.popleft()
            for direction_id in (first, first + 1):
                known = self.acknowledged(direction_id)
                if known is not None:
                    self._known[direction_id] = known
                self._sent.pop(direction_id, None)
        return super()._leave(conversation)

    def _splitter(self, conversation: Conversation, direction: int, *, joined_late: bool) -> FrameSplitter:
        connection = conversation.connection
        found = self.connections.find(_key_of(connection.toward(direction)))
        if found is not None and found[0] is connection and conversation.tls is None:
            self._sent[2 * connection.number + direction] = found[2]
        return super()._splitter(conversation, direction, joined_late=joined_late)


def _key_of(flow: Flow) -> bytes:
    """Return the key of a flow, as in headers."""
    hosts = (inet_pton(AF_INET6 if ":" in end.host else AF_INET, end.host) for end in flow)
    return b"".join([*hosts, *(end.port.to_bytes(2, "big") for end in flow)])


class CaptureRows:
    """The frames of one capture. A direction's id is twice the number of its connection, plus 0 or 1.

    ``hides``: its results will be redacted.
    """

    def __init__(self, folder: str, *, hides: bool = False) -> None:
        self._hides = hides
        self._spill = Spill(folder)
        self.counts: dict[int, int] = {}  #: frames by direction id
        self.directions: dict[int, Direction] = {}  #: by direction id
        self.losses: dict[int, list[Loss]] = {}  #: by direction id, in order
        self.last_seqno: dict[int, dict[StreamKey, int]] = {}  #: by direction id and stream
        #: Returns the offset up to which the receiver acknowledged a direction; None if unknown.
        self.acknowledged: Callable[[int], int | None] = lambda _: None
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def __enter__(self) -> "CaptureRows":
        return self

    def __exit__(self, *error: object) -> None:
        self._spill.__exit__(*error)

    @property
    def connections(self) -> list[int]:
        """Return the numbers of the connections with frames, in order."""
        return sorted({direction_id >> 1 for direction_id in self.counts})

    def frames_of(self, number: int) -> int:
        """Return how many frames a connection has."""
        return self.counts.get(2 * number, 0) + self.counts.get(2 * number + 1, 0)

    def feed(self, batch: FrameBatch, rows: Sequence[int]) -> None:
        """Add rows of a batch."""
        chosen = np.asarray(rows, np.int64)
        table = rows_of(batch, chosen, hides=self._hides)
        times = table["ts"][table["ts"] != NO_TIME]
        if len(times):
            first, last = int(times.min()), int(times.max())
            self.first_ns = first if self.first_ns is None else min(self.first_ns, first)
            self.last_ns = last if self.last_ns is None else max(self.last_ns, last)
        which = batch.direction[chosen]
        for number in distinct(which)[0].tolist():
            direction = batch.directions[number]
            self.directions[direction.id] = direction
            self.put(direction.id, table if len(batch.directions) == 1 else table[which == number])

    def put(self, direction_id: int, table: Array) -> None:
        """Append rows to a direction."""
        before = self.counts.get(direction_id, 0)
        self._spill.put(direction_id, before * ROW.itemsize, table.tobytes())
        self.counts[direction_id] = before + len(table)
        self._note_seqnos(direction_id, table)

    def lose(self, lost: Sequence[Lost]) -> None:
        """Note lost bytes."""
        for loss in lost:
            if not loss.skipped:
                size = sum(each.length or 0 for each in loss.sent)
                self.losses.setdefault(loss.direction.id, []).append((loss.gap.offset, loss.gap.length or 0, size))

    def rows(self, direction_id: int, start: int, stop: int) -> Array:
        """Return rows of a direction."""
        size = ROW.itemsize
        stop = min(stop, self.counts.get(direction_id, 0))
        return np.frombuffer(self._spill.get(direction_id, start * size, stop * size), ROW)

    def chosen(self, direction_id: int, rows: Array) -> Array:
        """Return some rows of a direction, given by rising indexes."""
        out = [np.zeros(0, ROW)]
        at = 0
        while at < len(rows):
            start = int(rows[at])
            stop = int(np.searchsorted(rows, start + _AT_ONCE))
            out.append(self.rows(direction_id, start, start + _AT_ONCE)[rows[at:stop] - start])
            at = stop
        return np.concatenate(out)

    def _note_seqnos(self, direction_id: int, table: Array) -> None:
        table = table[(table["marks"] & HAS_SEQNO) != 0][::-1]
        if not len(table):
            return
        _, latest, _ = distinct(table["vbucket_or_status"].astype(np.int64) << 16 | table["sid"])
        last = self.last_seqno.setdefault(direction_id, {})
        found = table[latest]
        keys = zip(found["vbucket_or_status"].tolist(), found["sid"].tolist(), strict=True)
        last.update(zip(keys, found["seqno"].tolist(), strict=True))


def rows_of(batch: FrameBatch, chosen: Array, *, hides: bool = False) -> Array:
    """Return the rows of some frames of a batch; ``hides``: as in ``seqnos_of``."""
    table = np.zeros(len(chosen), ROW)
    starts, lengths = batch.start[chosen], batch.length[chosen]
    data = batch.data
    spans = zip((starts + HEADER_LENGTH).tolist(), (starts + lengths).tolist(), strict=True)
    table["body"] = np.array([hash(data[start:end]) for start, end in spans], np.int64).view(np.uint64)
    headers = records_at(batch.view, _HEADER, np.minimum(starts, max(0, len(data) - HEADER_LENGTH)))
    table["hash"] = table["body"]
    for name in ("first", "second", "third"):
        table["hash"] = mixed(table["hash"].copy(), headers[name])
    for name in _NAMES:
        table[name] = getattr(batch.header, name)[chosen]
    table["ts"], table["offset"], table["length"] = batch.ts_ns[chosen], batch.offset[chosen], lengths
    table["frame"] = batch.first + chosen
    table["sid"] = batch.stream_id(chosen)
    for at, row in enumerate(chosen.tolist()) if batch.odd else ():
        if row in batch.odd:
            table["hash"][at] = table["body"][at] = hash(batch.odd[row].data) & _ALL_BITS
            table["marks"][at] |= NOT_WHOLE
    seqno, known = seqnos_of(batch, hides=hides)
    table["seqno"] = seqno[chosen]
    table["marks"] |= np.where(known[chosen], HAS_SEQNO, 0).astype(np.uint8)
    return table


def seqnos_of(batch: FrameBatch, *, hides: bool = False) -> tuple[Array, Array]:
    """Return each frame's own seqno, and whether it has one.

    ``hides``: a damaged frame has none, as bytes of a key may be in its place.
    """
    seqno, known = np.zeros(len(batch), np.uint64), np.zeros(len(batch), bool)
    for group in batch.groups:
        own = group.plan.own_seqno
        if own is not None:
            seqno[group.rows], known[group.rows] = group.column(own), True
    if batch.records:
        rows = np.fromiter(batch.records, np.int64, len(batch.records))
        header = batch.header
        for row in rows[STREAMED[header.opcode[rows]] & REQUEST[header.magic[rows]]].tolist():
            frame = batch.record(row).frame
            if hides and hides_numbers(frame):
                continue
            found = own_seqno(frame)
            if found is not None:
                seqno[row], known[row] = found, True
    return seqno, known
