"""Define what a task is given of its splits, and what it returns.

These are values only: where one end is compiled and the other is not, they have no other form of an object in common.
"""

import pickle
import zlib
from typing import NamedTuple

from dcpdump.batch.resumable import SavedConnection, pack, unpack
from dcpdump.conversation import MissingValues
from dcpdump.errors import DcpdumpError
from dcpdump.net.event import Seen
from dcpdump.spark.guess import Beginning
from dcpdump.spark.known_names import NOTHING, NamesState, Told
from dcpdump.spark.session_delta import SessionDelta
from dcpdump.spark.splits import Reads, Split
from dcpdump.spark.tail_state import DirectionTail

Pair = bytes


class Work(NamedTuple):
    """Splits that follow one another, and the state of their connections as it was before.

    ``guess``: a pair that is not among the entries may have a past all the same, which is guessed; otherwise it has
    none.
    """

    ordinal: int
    splits: tuple[Split, ...]
    entries: dict[Pair, bytes | None]
    guess: bool = False
    first: int = 0  #: the number of the next new connection
    end: Seen | None = None  #: set where the input ends: its last packet; all connections end
    whole: bool = False  #: save connections whole, however long their unfinished frames
    promised: tuple[tuple[Pair, bytes], ...] = ()  #: digests of the connections that later works start from
    names: NamesState = NOTHING  #: of collections, as known before


class Seam(NamedTuple):
    """What a split knows of a pair of endpoints: how its connection began there, and how it ended."""

    syn: tuple[bytes, int] | None  #: flow key and sequence number of the SYN that it began with
    guessed: tuple[Beginning, Beginning] | None  #: what its past was guessed to be
    effects: SessionDelta | None
    ends: tuple[DirectionTail | None, DirectionTail | None]  #: last bytes of guessed directions without memcached
    born: bool  #: whether the last connection between them began here
    saved: SavedConnection  #: of the last connection between them

    def packed(self) -> bytes:
        """Return it as bytes."""
        return zlib.compress(pickle.dumps(tuple(self), 5), 1)

    @classmethod
    def unpacked(cls, data: bytes) -> "Seam":
        """Read what ``packed`` wrote."""
        return cls(*pickle.loads(zlib.decompress(data)))


class Surveyed(NamedTuple):
    """The result of a survey."""

    ordinal: int
    read: Reads
    seams: dict[Pair, bytes]
    born: dict[Pair, int]  #: of pairs whose last connection began here: how many began before it
    opened: int  #: new connections, unless a guess was wrong
    last: Seen  #: the last packet
    last_ns: int | None  #: the latest time
    fragmented: bool  #: an IP datagram continues in the next split
    told: tuple[Told, ...] = ()  #: what is said of the names of collections


class Counted(NamedTuple):
    """What became of frames and bytes."""

    frames: int
    lost: MissingValues  #: never captured
    skipped_bytes: int  #: captured, but not frames
    conflicts: int  #: overlaps that disagree
    foreign: dict[tuple[str, int], int]  #: other protocols, by port: connections
    cut: int  #: rows in which a value was cut


class Exit(NamedTuple):
    """The result of decoding besides rows: enough to verify that the next split began where this one ended."""

    ordinal: int
    read: Reads
    entered: dict[Pair, bytes]  #: digests of the connections that it started from
    digests: dict[Pair, bytes]  #: of the connections that it left
    saved_connections: dict[Pair, bytes]  #: those that are not as promised
    deadlines: dict[Pair, int]  #: of connections with a gap that will be given up, and when
    opened: int  #: the number of the next new connection after it
    last: Seen
    last_ns: int | None
    counted: Counted
    told: tuple[Told, ...] = ()  #: what was said of the names of collections


class InputState(NamedTuple):
    """The state of an input that continues later."""

    saved_connections: dict[Pair, bytes]
    opened: int = 0  #: connections so far
    last: Seen = Seen(0, None)
    names: NamesState = NOTHING  #: of collections, as known so far

    def packed(self, latest_ns: int | None = None) -> bytes:
        """Return it as bytes, with the latest time (ns) so far."""
        return pack((_FORMAT, self.saved_connections, self.opened, (*self.last,), latest_ns, self.names))

    @classmethod
    def unpacked(cls, data: bytes, where: str) -> "tuple[InputState, int | None]":
        """Read what ``packed`` wrote, and the latest time. Raises DcpdumpError for another version's state."""
        try:
            kept = unpack(data)
        except ValueError:
            kept = None
        if not isinstance(kept, tuple) or kept[:1] != (_FORMAT,):
            hint = "begin anew in another folder, or go on with the version of dcpdump that began"
            raise DcpdumpError("what was kept of the connections is of another version", where, hint)
        _, saved_connections, opened, last, latest_ns, names = kept
        return cls(saved_connections, opened, Seen(*last), names), latest_ns


#: Raised whenever a machine's state gets other keys: what was kept by another version is not read.
_FORMAT = 2

#: The state of an input before anything is read.
BEGINNING = InputState({})
