"""Save what is known of one connection at one moment, as plain values that can be sent to the task that continues it.

It bundles the states of the machines of ``net`` and ``wire``, and does not know what is in them. Counters, and the
bytes kept to compare retransmissions with, are left out.
"""

import marshal
import zlib
from hashlib import blake2b
from typing import Any, NamedTuple

from dcpdump.conversation import MissingValues
from dcpdump.net.endpoints import reverse_key
from dcpdump.net.stream_state import StreamState, stream_essence
from dcpdump.wire.session import SessionState, session_essence
from dcpdump.wire.split import CUT, SplitterState, splitter_essence

#: Bytes of an unfinished frame that are kept when a connection is saved thin.
HEAD = 1024 * 1024
#: The format of marshal: the last in which equal values are equal bytes, and one that every Python reads.
_FORMAT = 2


class SavedConnection(NamedTuple):
    """A connection: two streams of bytes and, where they brought any, two splitters and a session."""

    number: int
    key: bytes  #: of direction 0, as it stands in the headers
    streams: tuple[StreamState, StreamState]
    splitters: tuple[SplitterState | None, SplitterState | None] = (None, None)
    session: SessionState | None = None  #: None: no payload was captured yet, or the connection ended
    framed: tuple[bool, bool] = (False, False)
    before: tuple[int, int] = (0, 0)
    begun: tuple[int, int] = (0, 0)
    lost: tuple[MissingValues, ...] = ()  #: before any frame, by direction
    ended: int = 0
    protocol: str = ""
    thin: bool = False  #: of an unfinished frame only the head is kept; zeros follow
    syn: bool = False  #: the opening was captured
    carved: int = 0  #: as Connection has it

    @property
    def pair(self) -> bytes:
        """Return the key that both directions share: the lesser of their two flow keys."""
        return pair_of(self.key)

    @property
    def deadline(self) -> int | None:
        """Return the earliest time (ns) at which a gap will be given up, whatever arrives; None where no gap waits."""
        times = [stream["deadline"] for stream in self.streams if stream["deadline"] is not None]
        return min(times) if times else None

    def packed(self) -> bytes:
        """Return it as bytes: the number (8 bytes, big-endian), the ``thin`` flag, the rest packed."""
        return self.number.to_bytes(8, "big") + bytes([self.thin]) + pack(self[1:])

    @classmethod
    def unpacked(cls, data: bytes) -> "SavedConnection":
        """Read what ``packed`` wrote."""
        return cls(int.from_bytes(data[:8], "big"), *unpack(data[9:]))

    def digest(self) -> bytes:
        """Return 16 bytes that are the same for saved connections that would continue in the same way."""
        essence = (
            self.number,
            self.key,
            tuple(map(stream_essence, self.streams)),
            tuple(None if each is None else splitter_essence(each, HEAD) for each in self.splitters),
            None if self.session is None else session_essence(self.session),
            self.ended,
            self.syn,
            self.carved,
        )
        return blake2b(marshal.dumps(essence, _FORMAT), digest_size=16).digest()


def pack(values: tuple[Any, ...]) -> bytes:
    """Pack plain values: None, bool, int, str, bytes, and tuples, lists and dicts of these."""
    return zlib.compress(marshal.dumps(values, _FORMAT), 1)


def unpack(data: bytes) -> Any:
    """Read what ``pack`` wrote. Raises ValueError where it is something else."""
    try:
        return marshal.loads(zlib.decompress(data))
    except (zlib.error, EOFError, TypeError) as error:
        raise ValueError(f"no packed values: {error}") from error


def renumbered(packed: bytes, number: int) -> bytes:
    """Return a packed connection with another number."""
    return number.to_bytes(8, "big") + packed[8:]


def number_of(packed: bytes) -> int:
    """Return the number of a packed connection."""
    return int.from_bytes(packed[:8], "big")


def is_thin(packed: bytes) -> bool:
    """Return whether a packed connection lacks bytes of the frame that is in progress."""
    return bool(packed[8])


def pair_of(key: bytes) -> bytes:
    """Return the lesser of the two directions' flow keys."""
    return min(key, reverse_key(key))


def thinned(state: SplitterState | None) -> tuple[SplitterState | None, bool]:
    """Replace what a long unfinished frame has beyond its head by zeros, and return whether there was such a frame."""
    if state is None or len(state["data"]) <= HEAD or state["state"] != CUT:
        return state, False
    data = state["data"]
    return {**state, "data": data[:HEAD] + bytes(len(data) - HEAD)}, True
