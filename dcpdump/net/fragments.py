"""Fragments: pieces of IP datagrams, put together in any order. Knows offsets and bounds; knows no payload."""

from collections import OrderedDict
from typing import NamedTuple

from dcpdump.net.event import EXCERPT
from dcpdump.net.ip import Fragment
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.quick_dataclass import dataclass, field

#: The largest datagram that fragment offsets can describe, and a fragment beyond it.
_LARGEST = 8 * 8191 + 65_535


class Whole(NamedTuple):
    """A completed payload; ``disagreement`` is the kept and the refused bytes of an overlap that differed."""

    payload: bytes
    disagreement: tuple[bytes, bytes] | None


@dataclass(slots=True)
class Puzzle:
    """The pieces of one datagram, as far as they came; of two for the same place the first one wins."""

    since: int
    have: bytearray = field(default_factory=bytearray)  #: 1 where ``known`` is known
    known: bytearray = field(default_factory=bytearray)
    size: int | None = None  #: known from the last fragment
    filled: int = 0
    pieces: int = 0
    disagreement: tuple[bytes, bytes] | None = None

    def put(self, offset: int, data: bytes) -> None:
        """Put ``data`` at ``offset``, under what is there already."""
        end = offset + len(data)
        if end > len(self.have):
            grow = bytes(end - len(self.have))
            self.have += grow
            self.known += grow
        fresh = self.have.count(0, offset, end)
        self.pieces += 1
        self.filled += fresh
        if fresh == len(data):
            self.known[offset:end] = data
        else:
            self._merge(offset, data)
        self.have[offset:end] = b"\1" * len(data)

    def _merge(self, offset: int, data: bytes) -> None:
        """Fill only the holes, run by run, and note the first bytes that differ."""
        at, end = offset, offset + len(data)
        while at < end:
            old = self.have[at]
            stop = self.have.find(b"\0" if old else b"\1", at, end)
            stop = end if stop < 0 else stop
            new = data[at - offset : stop - offset]
            if not old:
                self.known[at:stop] = new
            elif self.known[at:stop] != new and self.disagreement is None:
                self.disagreement = bytes(self.known[at:stop][:EXCERPT]), new[:EXCERPT]
            at = stop


DatagramKey = tuple[bytes, int, int]


class Fragments:
    """Datagrams in pieces, within bounds of bytes, pieces and capture time. At a bound the oldest goes."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._puzzles: OrderedDict[DatagramKey, Puzzle] = OrderedDict()  # oldest first
        self._bytes = 0
        self._pieces = 0

    @property
    def waiting(self) -> int:
        """How many datagrams wait for the rest of their fragments."""
        return len(self._puzzles)

    def state(self) -> dict[DatagramKey, Puzzle]:
        """Return the datagrams that wait, oldest first, for ``restore``."""
        return self._puzzles

    def restore(self, state: dict[DatagramKey, Puzzle]) -> None:
        """Continue from a state. To be asked of one that nothing was fed to."""
        self._puzzles.update(state)
        self._bytes = sum(2 * len(puzzle.have) for puzzle in state.values())
        self._pieces = sum(puzzle.pieces for puzzle in state.values())

    def feed(self, addresses: bytes, protocol: int, place: Fragment, data: bytes, now: int) -> Whole | None:
        """Take a fragment, seen at ``now`` (ns), and return the whole if that was the missing one."""
        key = addresses, protocol, place.ident
        puzzle = self._puzzles.get(key)
        if puzzle is not None and now - puzzle.since > self._limits.fragment_ns:
            self._forget(key)  # an identification comes round again
            puzzle = None
        if puzzle is None:
            puzzle = self._puzzles[key] = Puzzle(now)
        if place.offset + len(data) > _LARGEST:
            return None
        before = len(puzzle.have)
        puzzle.put(place.offset, data)
        self._bytes += 2 * (len(puzzle.have) - before)
        self._pieces += 1
        if not place.more and puzzle.size is None:
            puzzle.size = place.offset + len(data)
        if puzzle.size is not None and puzzle.filled >= puzzle.size and puzzle.have.count(0, 0, puzzle.size) == 0:
            self._forget(key)
            return Whole(bytes(puzzle.known[: puzzle.size]), puzzle.disagreement)
        self._keep_bounds(now)
        return None

    def _keep_bounds(self, now: int) -> None:
        limits = self._limits
        while self._puzzles:
            key = next(iter(self._puzzles))
            expired = now - self._puzzles[key].since > limits.fragment_ns
            if not expired and self._bytes <= limits.fragment_bytes and self._pieces <= limits.fragments:
                return
            self._forget(key)

    def _forget(self, key: DatagramKey) -> None:
        puzzle = self._puzzles.pop(key)
        self._bytes -= 2 * len(puzzle.have)
        self._pieces -= puzzle.pieces
