"""Guess the state of a connection whose past is in another split, from its next bytes.

A guess is a saved connection like any other, that begins with the first bytes of the split. Where a frame began before
the split, only its rest is here: it is given a header that says nothing but how many bytes are left. Guesses are
verified elsewhere (``stitch``).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.batch.resumable import HEAD, SavedConnection, pair_of
from dcpdump.net.bytestream import ByteStream, StreamState
from dcpdump.net.endpoints import reverse_key
from dcpdump.net.event import Seen
from dcpdump.net.layers import Layers
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.reassembly import Counters
from dcpdump.net.tcp import ACK, RST, SYN, Segment, distance
from dcpdump.spec.header import CLIENT_REQUEST, HEADER_LENGTH, MAGICS
from dcpdump.spec.opcodes import DCP_BUFFER_ACKNOWLEDGEMENT
from dcpdump.wire.frame import NOWHERE, Header, pack_header, unpack_header
from dcpdump.wire.resync import known
from dcpdump.wire.session import Session
from dcpdump.wire.split import CUT, FrameSplitter, SplitterState

#: Blocks that are scanned before the first of them is passed on.
AHEAD = 2
#: Bytes of a direction that are searched for a boundary first.
_NEAR = 64 * 1024
#: Bytes of a direction that are searched for a boundary at most.
_FAR = 4 * 1024 * 1024
_CHAIN = 3
#: Packets of a direction among which the first byte is sought: packets may be captured out of order.
_SWAPPED = 3
_MAGICS = np.zeros(256, bool)
_MAGICS[list(MAGICS)] = True
_KNOWN_OPCODES = np.array([known(Header(CLIENT_REQUEST, opcode, 0, 0, 0, 0, 0, 0, 0, 0)) for opcode in range(256)])
_UNDER_WAY = DCP_BUFFER_ACKNOWLEDGEMENT  #: an opcode that leaves no trace in a session


class Beginning(NamedTuple):
    """The first bytes that a split has of a direction, and what is guessed from them."""

    key: bytes
    seq: int  #: of its first packet, without a SYN
    syn: bool
    first_ack: int | None  #: the first that it sends
    rest: int = 0  #: bytes up to the first boundary of frames
    head: bytes = b""  #: the first of them
    foreign: bool = False  #: it is not memcached


class _Direction:
    """The first bytes of a direction, in order as far as they are there."""

    def __init__(self, key: bytes, seq: int, flags: int) -> None:
        self.key, self.seq, self.syn = key, seq, bool(flags & SYN)
        self.first_ack: int | None = None
        self.data = bytearray()
        self._waiting: dict[int, bytes] = {}
        self._taken = 0
        self._asked = self._found = False  # whether a boundary was sought, and found

    @property
    def wants_more(self) -> bool:
        """Return whether more bytes are needed to find a frame boundary."""
        if self.syn or len(self.data) >= _FAR:
            return False
        if len(self.data) >= _NEAR and not self._asked:
            self._asked = True
            self._found = boundary(self.data) is not None
        return not self._found

    def take(self, seq: int, payload: bytes) -> None:
        """Add a segment's payload, in sequence order."""
        at = distance(self.seq, seq)
        self._taken += 1
        if 0 < -at == len(payload) and self._taken <= _SWAPPED:
            # Captured a packet or two late: unless it is a retransmission, the bytes before the split end here.
            self.seq, self.data = seq, bytearray(payload) + self.data
            self._waiting = {place - at: waiting for place, waiting in self._waiting.items()}
            return
        if at > len(self.data):
            if len(self._waiting) < 1024:
                self._waiting.setdefault(at, payload)
            return
        self.data += payload[len(self.data) - at :]
        while self._waiting:
            first = min(self._waiting)
            if first > len(self.data):
                return
            self.data += self._waiting.pop(first)[len(self.data) - first :]

    def beginning(self) -> Beginning:
        """Return the guess for this direction."""
        rest = boundary(self.data)
        foreign = rest is None
        rest = rest or 0
        return Beginning(
            self.key, self.seq, self.syn, self.first_ack, rest, bytes(self.data[: min(rest, HEAD)]), foreign
        )


def boundary(data: bytes | bytearray) -> int | None:
    """Return the first offset at which frames seem to begin; None where there is none."""
    if not data:
        return 0
    if len(data) < HEADER_LENGTH:
        return 0 if data[0] in MAGICS else None
    if _leads_on(data, 0):
        return 0
    view = np.frombuffer(data, np.uint8)
    for start, stop in ((1, _NEAR), (_NEAR, _FAR)):
        piece = view[start : min(stop, len(data) - HEADER_LENGTH + 1)]
        if not len(piece):
            break
        likely = _MAGICS[piece] & _KNOWN_OPCODES[view[start + 1 : start + 1 + len(piece)]]
        for at in (np.flatnonzero(likely) + start).tolist():
            if _leads_on(data, at):
                return int(at)
    return None


def _leads_on(data: bytes | bytearray, at: int) -> bool:
    """Return whether known headers follow one another from an offset: ``_CHAIN`` of them, or up to the end."""
    begun = at
    for number in range(_CHAIN):
        if at == len(data) and number:
            return True
        if at + HEADER_LENGTH > len(data):
            return number > 1 or (number == 1 and begun == 0)
        header = unpack_header(data, at)
        if not known(header):
            return False
        at += header.frame_length
    return True


def guess(number: int, here: Beginning, there: Beginning, limits: Limits) -> SavedConnection:
    """Return the saved connection that the first bytes of its two directions suggest."""
    streams = _stream(here, limits), _stream(there, limits)
    return SavedConnection(number, here.key, streams, (_splitter(here), _splitter(there)), Session().state())


def _stream(end: Beginning, limits: Limits) -> StreamState:
    stream = ByteStream(limits, Counters())
    stream.begin(end.seq, Seen(0, None))
    stream.last_ack = end.seq  # as nearly always: all earlier bytes are acknowledged
    return stream.state()


def _splitter(end: Beginning) -> SplitterState:
    head = pack_header(Header(CLIENT_REQUEST, _UNDER_WAY, 0, 0, 0, 0, 0, end.rest, 0, 0)) if end.rest else b""
    return {
        **FrameSplitter(Session()).state(),
        "state": CUT,
        "data": head,
        "offset": -len(head),
        "need": HEADER_LENGTH + end.rest,
        "marks": [(0, (*NOWHERE,))] if head else [],
        "foreign": end.foreign,
    }


OnNew = Callable[[Beginning, Beginning], None]


class Guesser:
    """A pass-through for blocks, a few behind, that reports each new connection before the block in which it begins.

    ``known_pairs``: connections that are not to be reported. ``on_new``: called with the guesses for both directions.
    """

    def __init__(self, known_pairs: Iterable[bytes], on_new: OnNew) -> None:
        self._known = set(known_pairs)
        self._on_new = on_new
        self._layers = Layers(DEFAULT)
        self._directions: dict[bytes, dict[bytes, _Direction]] = {}  # by pair, in capture order
        self._fresh: deque[list[bytes]] = deque()

    def blocks(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the same blocks, each after the connections that begin in it were reported."""
        held: deque[Block] = deque()
        for block in blocks:
            self._scan(block)
            held.append(block)
            if len(held) > AHEAD:
                self._report_new()
                yield held.popleft()
        while held:
            self._report_new()
            yield held.popleft()

    def _scan(self, block: Block) -> None:
        fresh: list[bytes] = []
        self._fresh.append(fresh)
        facts = block.facts
        wanted = np.zeros(len(facts.keys) + 1, bool)
        for number, key in enumerate(facts.keys):
            pair = pair_of(key)
            if pair in self._known:
                continue
            directions = self._directions.get(pair)
            wanted[number] = directions is None or key not in directions or directions[key].wants_more
        rows = np.flatnonzero(wanted[facts.flow] | (facts.flow < 0))
        numbers, data = facts.flow[rows].tolist(), block.data
        columns = (facts.seq, facts.ack, facts.flags, facts.start, facts.size)
        numbered = zip(rows.tolist(), numbers, *(column[rows].tolist() for column in columns), strict=True)
        for row, number, seq, ack, flags, start, size in numbered:
            if number >= 0:
                self._add_segment(facts.keys[number], seq, ack, flags, bytes(data[start : start + size]), fresh)
                continue
            segment = self._layers.feed(block.packets[row])
            if isinstance(segment, Segment) and pair_of(segment.key) not in self._known:
                self._add_segment(segment.key, segment.seq, segment.ack, segment.flags, segment.payload, fresh)

    def _add_segment(self, key: bytes, seq: int, ack: int, flags: int, payload: bytes, fresh: list[bytes]) -> None:
        pair = pair_of(key)
        directions = self._directions.get(pair)
        if directions is None:
            directions = self._directions[pair] = {}
            fresh.append(pair)
        direction = directions.get(key)
        if direction is None:
            direction = directions[key] = _Direction(key, seq, flags)
        if flags & ACK and direction.first_ack is None:
            direction.first_ack = ack
        if payload and direction.wants_more and not flags & (SYN | RST):
            direction.take(seq, payload)

    def _report_new(self) -> None:
        for pair in self._fresh.popleft():
            directions = self._directions[pair]
            first, *others = directions.values()
            here = first.beginning()
            if others:
                there = others[0].beginning()
            else:
                there = Beginning(reverse_key(here.key), here.first_ack or 0, False, None)
            self._on_new(here, there)
            del self._directions[pair]
            self._known.add(pair)
