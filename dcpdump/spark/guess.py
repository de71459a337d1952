"""Looking ahead: where a connection stands whose past is in another split, guessed from its next bytes.

A guess is a life like any other, that begins with the first bytes of the split. Of a frame under way only the rest
is here: a header stands for its beginning that says nothing but how much is left. Guesses are proved elsewhere.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.counters import Counters
from dcpdump.net.event import Seen
from dcpdump.net.flow import reverse_key
from dcpdump.net.layers import Layers
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.seqnum import distance
from dcpdump.net.stream_state import StreamState
from dcpdump.net.tcp import ACK, RST, SYN, Segment
from dcpdump.spark.connection_state import HEAD, SavedConnection, pair_of
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.spec.opcodes import DCP_BUFFER_ACKNOWLEDGEMENT
from dcpdump.wire.frame import NOWHERE, Header, pack_header, unpack_header
from dcpdump.wire.resync import known
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter
from dcpdump.wire.splitter_state import CUT, SplitterState

#: Blocks that are looked at before the first of them goes on.
AHEAD = 2
#: Bytes in which a boundary is sought without the marks of DCP: any magic will do.
_NEAR = 64 * 1024
#: Bytes of one direction that are looked at.
_FAR = 4 * 1024 * 1024
_CHAIN = 3
#: Packets of a direction among which the first byte is looked for: neighbours may be exchanged.
_SWAPPED = 3
_MAGICS = np.zeros(256, bool)
_MAGICS[list(MAGICS)] = True
_KNOWN_OPCODES = np.array([known(Header(0x80, opcode, 0, 0, 0, 0, 0, 0, 0, 0)) for opcode in range(256)])
_UNDER_WAY = DCP_BUFFER_ACKNOWLEDGEMENT  #: an opcode that no session remembers anything of


class Beginning(NamedTuple):
    """What a split shows first of a direction, and what is guessed of it."""

    key: bytes
    seq: int  #: of its first packet, without a SYN
    syn: bool
    first_ack: int | None  #: the first that it sends
    rest: int = 0  #: bytes up to the first boundary of frames
    head: bytes = b""  #: the first of them
    foreign: bool = False  #: it is no memcached


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
    def hungry(self) -> bool:
        if self.syn or len(self.data) >= _FAR:
            return False
        if len(self.data) >= _NEAR and not self._asked:
            self._asked = True
            self._found = boundary(self.data) is not None
        return not self._found

    def take(self, seq: int, payload: bytes) -> None:
        at = distance(self.seq, seq)
        self._taken += 1
        if 0 < -at == len(payload) and self._taken <= _SWAPPED:
            # Late by a packet or two: what came before the split ends in front of it, if it is not sent again.
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
        rest = boundary(self.data)
        foreign = rest is None
        rest = rest or 0
        return Beginning(
            self.key, self.seq, self.syn, self.first_ack, rest, bytes(self.data[: min(rest, HEAD)]), foreign
        )


def boundary(data: bytes | bytearray) -> int | None:
    """It gives the first place at which frames seem to begin; None where there is none."""
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
    """Whether known headers follow one another from a place: several, or up to where the bytes end."""
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
    """Make a life of what the two directions of a connection show."""
    streams = _stream(here, limits), _stream(there, limits)
    return SavedConnection(number, here.key, streams, (_splitter(here), _splitter(there)), Session().state())


def _stream(end: Beginning, limits: Limits) -> StreamState:
    stream = ByteStream(limits, Counters())
    stream.begin(end.seq, Seen(0, None))
    stream.last_ack = end.seq  # as it nearly always is: all that was said has been acknowledged
    return stream.state()


def _splitter(end: Beginning) -> SplitterState:
    head = pack_header(Header(0x80, _UNDER_WAY, 0, 0, 0, 0, 0, end.rest, 0, 0)) if end.rest else b""
    return {
        **FrameSplitter(Session()).state(),
        "state": CUT,
        "data": head,
        "offset": -len(head),
        "need": HEADER_LENGTH + end.rest,
        "marks": [(0, (*NOWHERE,))] if head else [],
        "foreign": end.foreign,
    }


Meet = Callable[[Beginning, Beginning], None]


class Guesser:
    """It lets blocks pass, a few after they came, and tells of every connection before the block that it begins in.

    ``begun``: what connections showed first, by pair.
    """

    def __init__(self, known_pairs: Iterable[bytes], meet: Meet) -> None:
        self._known = set(known_pairs)
        self._meet = meet
        self._layers = Layers(DEFAULT)
        self._met: dict[bytes, dict[bytes, _Direction]] = {}  # by pair: directions, in the order in which they spoke
        self._fresh: deque[list[bytes]] = deque()

    def blocks(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """It gives the same blocks."""
        held: deque[Block] = deque()
        for block in blocks:
            self._look(block)
            held.append(block)
            if len(held) > AHEAD:
                self._tell()
                yield held.popleft()
        while held:
            self._tell()
            yield held.popleft()

    def _look(self, block: Block) -> None:
        fresh: list[bytes] = []
        self._fresh.append(fresh)
        facts = block.facts
        wanted = np.zeros(len(facts.keys) + 1, bool)
        for number, key in enumerate(facts.keys):
            pair = pair_of(key)
            if pair in self._known:
                continue
            directions = self._met.get(pair)
            wanted[number] = directions is None or key not in directions or directions[key].hungry
        rows = np.flatnonzero(wanted[facts.flow] | (facts.flow < 0))
        numbers, data = facts.flow[rows].tolist(), block.data
        columns = (facts.seq, facts.ack, facts.flags, facts.start, facts.size)
        numbered = zip(rows.tolist(), numbers, *(column[rows].tolist() for column in columns), strict=True)
        for row, number, seq, ack, flags, start, size in numbered:
            if number >= 0:
                self._see(facts.keys[number], seq, ack, flags, bytes(data[start : start + size]), fresh)
                continue
            segment = self._layers.feed(block.packets[row])
            if isinstance(segment, Segment) and pair_of(segment.key) not in self._known:
                self._see(segment.key, segment.seq, segment.ack, segment.flags, segment.payload, fresh)

    def _see(self, key: bytes, seq: int, ack: int, flags: int, payload: bytes, fresh: list[bytes]) -> None:
        pair = pair_of(key)
        directions = self._met.get(pair)
        if directions is None:
            directions = self._met[pair] = {}
            fresh.append(pair)
        direction = directions.get(key)
        if direction is None:
            direction = directions[key] = _Direction(key, seq, flags)
        if flags & ACK and direction.first_ack is None:
            direction.first_ack = ack
        if payload and direction.hungry and not flags & (SYN | RST):
            direction.take(seq, payload)

    def _tell(self) -> None:
        for pair in self._fresh.popleft():
            directions = self._met[pair]
            first, *others = directions.values()
            here = first.beginning()
            if others:
                there = others[0].beginning()
            else:
                there = Beginning(reverse_key(here.key), here.first_ack or 0, False, None)
            self._meet(here, there)
            del self._met[pair]
            self._known.add(pair)
