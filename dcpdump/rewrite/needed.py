"""Find the bytes of a connection that a smaller capture needs, and the hashes of the frames expected there."""

from array import array
from typing import NamedTuple

import numpy as np

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.gather import Array
from dcpdump.batch.scan import INFERRED, UNDERLYING, DeferredRecord
from dcpdump.record import as_json
from dcpdump.spec import opcodes
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.startup import dataclass, field
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.session import MAX_OUTSTANDING, SessionRequest

# -- hashes of frames ---------------------------------------------------------------------------------
# Hashes of frames are equal whether read from a complete capture or from a part of it.

_MASK = (1 << 64) - 1
#: Columns of a row that differ in a file with fewer packets.
_NUMBERS = ("frame", "packet", "file", "connection", "request_frame", "gap_before", "offset")


@dataclass(slots=True)
class FrameSum:
    """The sum of the hashes of frames, in any order, and their number. Equal sums mean equal frames."""

    count: int = 0
    total: int = 0  #: modulo 2⁶⁴

    def add(self, hashes: Array) -> None:
        """Add frames."""
        self.count += len(hashes)
        self.total = (self.total + int(hashes.astype(np.uint64).sum())) & _MASK


def frame_hashes(batch: FrameBatch, rows: Array) -> Array:
    """Return a hash for each of some rows, equal for frames that are equal except for their numbers.

    Numbers are those of frames, packets and connections, offsets, and losses before. The hash of a planned frame covers
    its bytes and the few facts on which its decoding depends, without decoding it.
    """
    keys = batch.keys
    plain = (batch.plan >= 0) & keys.sound
    light = keys.split + 2 * (keys.split & batch.knows(INFERRED)) + 4 * batch.knows(UNDERLYING) + 8 * batch.weak
    starts = batch.start[rows]
    addresses = [(each.src, each.dst) for each in batch.directions]
    facts = zip(
        rows.tolist(),
        plain[rows].tolist(),
        starts.tolist(),
        (starts + batch.length[rows]).tolist(),
        batch.ts_ns[rows].tolist(),
        batch.direction[rows].tolist(),
        light[rows].tolist(),
        strict=True,
    )
    data = batch.data
    return np.array(
        [
            hash((data[start:end], ts_ns, addresses[at], lit)) if whole else _decoded_hash(batch, row)
            for row, whole, start, end, ts_ns, at, lit in facts
        ],
        np.int64,
    )


def _decoded_hash(batch: FrameBatch, row: int) -> int:
    """Return the hash of a frame without a plan."""
    later = batch.records.get(row)
    if isinstance(later, DeferredRecord):
        return _raw_hash(batch.raw(row), later.src, later.dst, later.request)
    record = batch.record(row)
    frame = record.frame
    if frame.magic.response or not (frame.message.collection_key or frame.message.document):
        return _raw_hash(frame.raw, record.src, record.dst, record.request)
    flat = as_json(record, value_bytes=None)
    for name in _NUMBERS:
        flat.pop(name, None)
    return hash(repr(flat))


def _raw_hash(raw: RawFrame, src: str, dst: str, asked: SessionRequest | None) -> int:
    ts_ns = raw.where.ts_ns
    then_ns = asked.ts_ns if asked is not None else None
    latency_us = None if ts_ns is None or then_ns is None else (ts_ns - then_ns) // 1000
    return hash((raw.data, raw.holes, raw.confidence, ts_ns, src, dst, latency_us))


_FAR = np.iinfo(np.int64).max


class ByteRanges:
    """A set of byte ranges, added in any order."""

    def __init__(self) -> None:
        self._starts, self._ends = array("q"), array("q")

    @property
    def end(self) -> int:
        """Return the greatest end of a range; 0 without any."""
        return max(self._ends, default=0)

    def add(self, start: int, end: int) -> None:
        """Add the range from ``start`` up to ``end``."""
        if end <= start:
            return
        if self._starts and self._starts[-1] <= start <= self._ends[-1]:
            self._ends[-1] = max(end, self._ends[-1])
            return
        self._starts.append(start)
        self._ends.append(end)

    def add_all(self, starts: Array, ends: Array) -> None:
        """Add many ranges; contiguous ones are joined first."""
        first = np.concatenate(([True], starts[1:] != ends[:-1])) if len(starts) else np.zeros(0, bool)
        last = np.roll(first, -1)
        for start, end in zip(starts[first].tolist(), ends[last].tolist(), strict=True):
            self.add(start, end)

    def overlaps(self, starts: Array, ends: Array) -> Array:
        """Return, for each of some ranges, whether it overlaps the set."""
        mine = np.array(self._starts, np.int64)
        order = np.argsort(mine)
        at = np.searchsorted(mine[order], starts, "right")
        before = np.maximum.accumulate(np.append(-1, np.array(self._ends, np.int64)[order]))[at]
        after = np.append(mine[order], _FAR)[at]
        found: Array = (ends > starts) & ((before > starts) | (after < ends))
        return found


SET_UP = frozenset(
    {
        opcodes.HELLO,
        opcodes.SASL_LIST_MECHS,
        opcodes.SASL_AUTH,
        opcodes.SASL_STEP,
        opcodes.SELECT_BUCKET,
        opcodes.DCP_OPEN,
        opcodes.DCP_CONTROL,
        opcodes.COLLECTIONS_GET_MANIFEST,
        opcodes.DCP_SYSTEM_EVENT,  # it names collections, like the manifest
    }
)
STREAM_REQUESTS = frozenset({opcodes.DCP_ADD_STREAM, opcodes.DCP_STREAM_REQ})
_NEVER = 1 << 63
#: How many frames after a chosen one, and before it, confirm where it begins and ends.
_NEAR = 2

#: How much of a connection is chosen: what is needed; frames after it too; frames before it too; all up to it; all.
SPANS, BEHIND, AROUND, PREFIX, WHOLE = range(5)
#: The use of a frame in the chosen packets. A NEIGHBOUR is only in the same packets.
CHOSEN, NEEDED, CONTEXT, NEIGHBOUR = range(4)


class DirectionRange(NamedTuple):
    """Bytes of one direction of a connection."""

    direction: int
    start: int
    end: int


class NeededFrame(NamedTuple):
    """A frame that other frames may need to be decoded."""

    number: int
    span: DirectionRange
    opcode: int
    opaque: int
    stream: int  #: the opaque of the stream that it requests, or that its response names
    asks: bool  #: whether it is a request with a response


_NONE = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool)  # frames: starts, ends, whether chosen


def _moved(chosen: Array, by: int) -> Array:
    """Return a mask of the frames that are ``by`` frames after a chosen one; before it if ``by`` is negative."""
    found = np.zeros(len(chosen) + 2 * _NEAR, bool)
    found[_NEAR + by : _NEAR + by + len(chosen)] = chosen
    return found[_NEAR:-_NEAR]


def _both() -> tuple[ByteRanges, ByteRanges]:
    return ByteRanges(), ByteRanges()


@dataclass(slots=True)
class NeededOfConnection:
    """The needed bytes of a connection: ``note`` frames in order, ``complete``, then ask what it ``wants``."""

    chosen: tuple[ByteRanges, ByteRanges] = field(default_factory=_both)
    set_up: tuple[ByteRanges, ByteRanges] = field(default_factory=_both)  #: bytes that decoding the chosen frames needs
    behind: tuple[ByteRanges, ByteRanges] = field(default_factory=_both)  #: bytes that confirm where they end
    before: tuple[ByteRanges, ByteRanges] = field(default_factory=_both)  #: and bytes that confirm where they begin
    hashes: FrameSum = field(default_factory=FrameSum)  #: of the chosen frames
    streams: set[int] = field(default_factory=set)  #: opaques of the streams of chosen frames
    extent: int = SPANS
    streams_from: int = _NEVER  #: the number of the first frame after the set-up
    last: int = 0  #: the number of the last chosen frame
    _later: list[NeededFrame] = field(default_factory=list)  # of the set-up, after its end
    _set_up: list[int] = field(default_factory=lambda: [0, 0])  # its end, by direction
    _requests: dict[tuple[int, int, int], DirectionRange] = field(default_factory=dict)  # by direction, opcode, opaque
    _begun: dict[int, list[DirectionRange]] = field(default_factory=dict)  # requests and answers, by opaque
    _last: list[tuple[Array, Array, Array]] = field(default_factory=lambda: [_NONE, _NONE])  # frames, by direction

    def note(self, frame: NeededFrame) -> None:
        """Note the end of the set-up, and requests that later frames may need."""
        direction = frame.span.direction
        if frame.opcode in STREAM_REQUESTS:
            self._begun.setdefault(frame.stream, []).append(frame.span)
        elif frame.opcode in SET_UP and frame.number < self.streams_from:
            self._set_up[direction] = frame.span.end
        elif frame.opcode in SET_UP:  # later controls may be for any stream
            self._later.append(frame)
        if frame.asks:
            if len(self._requests) >= MAX_OUTSTANDING:
                del self._requests[next(iter(self._requests))]
            self._requests[direction, frame.opcode, frame.opaque] = frame.span

    def want_answered(self, direction: int, opcode: int, opaque: int) -> None:
        """Add the request of a response that was sent in ``direction``, if the request was noted."""
        asked = self._requests.get((1 - direction, opcode, opaque))
        if asked is not None:
            self.set_up[asked.direction].add(asked.start, asked.end)

    def want_frames(self, direction: int, starts: Array, ends: Array, chosen: Array) -> None:
        """Add the next frames of a direction. Chosen ones are needed; two before and two after each may be.

        Of the second after it only the header is needed: it confirms the beginning and end of the first.
        """
        frames = tuple(map(np.concatenate, zip(self._last[direction], (starts, ends, chosen), strict=True)))
        self._last[direction] = frames[0][-_NEAR:], frames[1][-_NEAR:], frames[2][-_NEAR:]
        starts, ends, chosen = frames
        if not chosen.any():
            return
        self.chosen[direction].add_all(starts[chosen], ends[chosen])
        first, second = _moved(chosen, 1), _moved(chosen, 2)
        short = np.where(first, ends, np.minimum(ends, starts + HEADER_LENGTH))
        self.behind[direction].add_all(starts[first | second], short[first | second])
        before = _moved(chosen, -1) | _moved(chosen, -2)
        self.before[direction].add_all(starts[before], ends[before])

    def complete(self) -> None:
        """Add the set-up and the stream requests that chosen frames need, and forget the notes for that."""
        for direction, spans in enumerate(self.set_up):
            spans.add(0, self._set_up[direction])
        for opaque in self.streams:
            for direction, start, end in self._begun.get(opaque, ()):
                self.set_up[direction].add(start, end)
        for frame in self._later:
            if frame.number < self.last:
                self.set_up[frame.span.direction].add(frame.span.start, frame.span.end)
        for noted in (self._requests, self._begun, self.streams, self._later):
            noted.clear()

    def wants(self, direction: int, offset: Array, size: Array) -> Array:
        """Return a mask of a direction's needed payloads, each with ``size`` bytes from ``offset`` on."""
        if self.extent == WHOLE:
            return np.ones(len(offset), bool)
        spans = self.chosen, self.set_up, self.behind, self.before
        if self.extent == PREFIX:
            found: Array = (size > 0) & (offset < max(each[direction].end for each in spans))
            return found
        found = np.zeros(len(offset), bool)
        for each in spans[: self.extent + 2]:
            found |= each[direction].overlaps(offset, offset + size)
        return found

    def uses(self, direction: int, starts: Array, ends: Array) -> Array:
        """Return the use of a direction's frames in the chosen packets."""
        spans = (self.chosen, self.set_up, self.behind, self.before)[: self.extent + 2]
        chosen, needed, *near = (each[direction].overlaps(starts, ends) for each in spans)
        others = CONTEXT if self.extent > AROUND else NEIGHBOUR
        found: Array = np.select([chosen, needed, *near], [CHOSEN, NEEDED, *[CONTEXT] * len(near)], others)
        return found
