"""Work and what comes of it: what a task is told of its splits, and what it tells of them. Values only."""

import pickle
import zlib
from typing import NamedTuple

from dcpdump.errors import DcpdumpError
from dcpdump.net.counters import Counters
from dcpdump.net.event import Seen
from dcpdump.spark.connection_state import SavedConnection, pack, unpack
from dcpdump.spark.guess import Beginning
from dcpdump.spark.session_delta import SessionDelta
from dcpdump.spark.splits import Read, Split
from dcpdump.spark.tail_state import DirectionTail
from dcpdump.tally import Tally

Pair = bytes


class Work(NamedTuple):
    """Splits that follow one another, and the lives of the connections in them as they were before.

    ``guess``: a pair that is not among them may have a past all the same, and is to be guessed; else it has none.
    """

    ordinal: int
    splits: tuple[Split, ...]
    entries: dict[Pair, bytes | None]
    guess: bool = False
    first: int = 0  #: what the next new connection is numbered
    end: Seen | None = None  #: it is the end of the input, and this was the last packet: all that is open ends
    whole: bool = False  #: lives are to be told whole, however much is under way in them
    promised: tuple[tuple[Pair, bytes], ...] = ()  #: digests of the lives that later works go on with


class Seam(NamedTuple):
    """What a split knows of a pair of endpoints: how it began there, and how it ended."""

    syn: tuple[bytes, int] | None  #: key and number of the SYN that it began with
    guessed: tuple[Beginning, Beginning] | None  #: what its past was taken for
    effects: SessionDelta | None
    ends: tuple[DirectionTail | None, DirectionTail | None]  #: last bytes of guessed directions without memcached
    born: bool  #: whether the last connection between them began here
    life: SavedConnection  #: of the last connection between them

    def packed(self) -> bytes:
        """It packs itself."""
        return zlib.compress(pickle.dumps(tuple(self), 5), 1)

    @classmethod
    def unpacked(cls, data: bytes) -> "Seam":
        """It reads what ``packed`` wrote."""
        return cls(*pickle.loads(zlib.decompress(data)))


class Surveyed(NamedTuple):
    """What came of a survey."""

    ordinal: int
    read: tuple[tuple[Read, ...], ...]  #: of each split, each piece
    seams: dict[Pair, bytes]
    born: dict[Pair, int]  #: of pairs whose last connection began here: how many began before it
    opened: int  #: new connections, as far as no guess was wrong
    last: Seen  #: the last packet
    last_ns: int | None  #: the latest time
    fragmented: bool  #: an IP datagram goes on in the next split


class Exit(NamedTuple):
    """What came of decoding, beside rows: enough to prove that the next split began where this one ended."""

    ordinal: int
    read: tuple[tuple[Read, ...], ...]
    entered: dict[Pair, bytes]  #: digests of the lives that it went on with
    digests: dict[Pair, bytes]  #: of the lives that it left
    lives: dict[Pair, bytes]  #: those that are not as they were promised to be
    deadlines: dict[Pair, int]  #: of lives in which something is to be given up, and when
    opened: int  #: what the next new connection is to be numbered
    last: Seen
    last_ns: int | None
    fragmented: bool
    tally: Tally
    balance: Counters

    def agrees(self, work: Work) -> bool:
        """It says whether it left what later works were told: asked of every work, the answer is as good as a proof."""
        return all(self.digests.get(pair) == digest for pair, digest in work.promised)


class InputState(NamedTuple):
    """Where an input stands, that goes on later."""

    lives: dict[Pair, bytes]
    opened: int = 0  #: connections so far
    last: Seen = Seen(0, None)

    def packed(self, latest_ns: int | None = None) -> bytes:
        """Pack it, to be kept, with the latest time so far."""
        return pack((_FORMAT, self.lives, self.opened, (*self.last,), latest_ns))

    @classmethod
    def unpacked(cls, data: bytes, where: str) -> "tuple[InputState, int | None]":
        """Read what ``packed`` wrote, of ``where`` it is kept. Raises DcpdumpError for what another version wrote."""
        try:
            kept = unpack(data)
        except ValueError:
            kept = None
        if not isinstance(kept, tuple) or kept[:1] != (_FORMAT,):
            hint = "begin anew in another folder, or go on with the version of dcpdump that began"
            raise DcpdumpError("what was kept of the connections is of another version", where, hint)
        _, lives, opened, last, latest_ns = kept
        return cls(lives, opened, Seen(*last)), latest_ns


#: Raised whenever a machine's state gets other keys: what was kept by another version is not read.
_FORMAT = 1

#: Where an input stands of which nothing was read.
BEGINNING = InputState({})
