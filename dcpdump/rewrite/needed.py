"""Note which bytes of a connection are needed in a smaller capture."""

from array import array
from typing import NamedTuple

import numpy as np

from dcpdump.batch.gather import Array
from dcpdump.quick_dataclass import dataclass, field
from dcpdump.rewrite.frame_hash import FrameSum
from dcpdump.spec import opcodes
from dcpdump.spec.header import HEADER_LENGTH

_FAR = np.iinfo(np.int64).max


class ByteRanges:
    """A set of byte ranges, added in any order."""

    def __init__(self) -> None:
        self._starts, self._ends = array("q"), array("q")

    @property
    def end(self) -> int:
        """Return the greatest end of a range; 0 where there is none."""
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
        """Add many ranges. Those that begin where the one before them ends cost nothing."""
        first = np.concatenate(([True], starts[1:] != ends[:-1])) if len(starts) else np.zeros(0, bool)
        last = np.roll(first, -1)
        for start, end in zip(starts[first].tolist(), ends[last].tolist(), strict=True):
            self.add(start, end)

    def overlaps(self, starts: Array, ends: Array) -> Array:
        """Return, for each of some other ranges, whether it has a byte in one of these."""
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
        opcodes.DCP_SYSTEM_EVENT,  # it names collections, as the manifest does
    }
)
STREAM_REQUESTS = frozenset({opcodes.DCP_ADD_STREAM, opcodes.DCP_STREAM_REQ})
#: Beyond this many, requests without a response are evicted, oldest first.
_OPEN_REQUESTS = 4096
_NEVER = 1 << 63
#: Frames behind a chosen one that are wanted too.
_BEHIND = 2

SPANS, PREFIX, WHOLE = 0, 1, 2  #: how much of a connection is taken


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
    asks: bool  #: whether it is a request that is answered


@dataclass(slots=True)
class NeededOfConnection:
    """What is needed of a connection: ``note`` frames in order, ``complete`` it, then ask what it ``wants``."""

    wanted: tuple[ByteRanges, ByteRanges] = field(default_factory=lambda: (ByteRanges(), ByteRanges()))
    chosen: FrameSum = field(default_factory=FrameSum)
    streams: set[int] = field(default_factory=set)  #: opaques of the streams of chosen frames
    extent: int = SPANS
    streams_from: int = _NEVER  #: the number of the first frame behind the set-up
    _set_up: list[int] = field(default_factory=lambda: [0, 0])  # where it ends, by direction
    _requests: dict[tuple[int, int, int], DirectionRange] = field(default_factory=dict)  # by direction, opcode, opaque
    _begun: dict[int, list[DirectionRange]] = field(default_factory=dict)  # requests and answers, by opaque
    _last: tuple[Array, Array] = field(default_factory=lambda: (np.zeros(_BEHIND, bool), np.zeros(_BEHIND, bool)))

    def note(self, frame: NeededFrame) -> None:
        """Note where the set-up ends, and requests that later frames may need."""
        direction, start, end = frame.span
        if frame.opcode in STREAM_REQUESTS:
            self._begun.setdefault(frame.stream, []).append(frame.span)
        elif frame.opcode in SET_UP and frame.number < self.streams_from:
            self._set_up[direction] = end
        elif frame.opcode in SET_UP:  # later controls: of any stream
            self.wanted[direction].add(start, end)
        if frame.asks:
            if len(self._requests) >= _OPEN_REQUESTS:
                del self._requests[next(iter(self._requests))]
            self._requests[direction, frame.opcode, frame.opaque] = frame.span

    def want_answered(self, direction: int, opcode: int, opaque: int) -> None:
        """Want the request of a response that was sent in ``direction``, if the request was noted."""
        asked = self._requests.get((1 - direction, opcode, opaque))
        if asked is not None:
            self.wanted[asked.direction].add(asked.start, asked.end)

    def want_frames(self, direction: int, starts: Array, ends: Array, chosen: Array) -> None:
        """Take the next frames of a direction. Those that are chosen are wanted, and two behind each.

        Of the second only its header is wanted: that is enough to confirm where the first begins and ends.
        """
        if not (chosen.any() or self._last[direction].any()):
            return
        known = np.concatenate((self._last[direction], chosen))
        self._last[direction][:] = known[-_BEHIND:]
        whole = chosen | known[1:-1]
        wanted = whole | known[:-2]
        ends = np.where(whole, ends, np.minimum(ends, starts + HEADER_LENGTH))
        self.wanted[direction].add_all(starts[wanted], ends[wanted])

    def complete(self) -> None:
        """Add the set-up and the stream requests that the wanted frames need, and forget what was noted for that."""
        for direction, spans in enumerate(self.wanted):
            spans.add(0, max(1, self._set_up[direction]))
        for opaque in self.streams:
            for direction, start, end in self._begun.get(opaque, ()):
                self.wanted[direction].add(start, end)
        for noted in (self._requests, self._begun, self.streams):
            noted.clear()

    def wants(self, direction: int, offset: Array, size: Array) -> Array:
        """Return which payloads of a direction are wanted: each has ``size`` bytes from ``offset`` on."""
        if self.extent == WHOLE:
            return np.ones(len(offset), bool)
        spans = self.wanted[direction]
        if self.extent == PREFIX:
            found: Array = (size > 0) & (offset < spans.end)
            return found
        return spans.overlaps(offset, offset + size)
