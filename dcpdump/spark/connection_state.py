"""Life: all that is known of one connection at one moment, as plain data that can be sent to where it goes on.

It bundles the states of the machines of ``net`` and ``wire``, and knows nothing of what is in them. What these leave
out (counters, bytes kept to compare repeats with) is left behind.
"""

import marshal
import zlib
from hashlib import blake2b
from typing import Any, NamedTuple

from dcpdump.net.flow import reverse_key
from dcpdump.net.stream_state import StreamState, stream_essence
from dcpdump.wire.session import SessionState, session_essence
from dcpdump.wire.splitter_state import CUT, SplitterState, splitter_essence

#: Bytes of a frame under way that a life keeps when it is made thin.
HEAD = 1024 * 1024
#: The format of marshal: the last in which equal values are equal bytes, and one that every Python reads.
_FORMAT = 2


class SavedConnection(NamedTuple):
    """A connection: two streams of bytes and, where they brought any, two splitters and a session."""

    number: int
    key: bytes  #: of direction 0, as headers have it
    streams: tuple[StreamState, StreamState]
    splitters: tuple[SplitterState | None, SplitterState | None] = (None, None)
    session: SessionState | None = None  #: None: nothing was said yet, or all is over
    framed: tuple[bool, bool] = (False, False)
    before: tuple[int, int] = (0, 0)
    ended: int = 0
    protocol: str = ""
    thin: bool = False  #: of a frame under way only the head is there; what follows are zeros
    syn: bool = False  #: the opening was captured

    @property
    def pair(self) -> bytes:
        """What both directions are known by."""
        return pair_of(self.key)

    @property
    def deadline(self) -> int | None:
        """When something is to be given up, whatever comes."""
        times = [stream["deadline"] for stream in self.streams if stream["deadline"] is not None]
        return min(times) if times else None

    def packed(self) -> bytes:
        """Pack it, to be kept or sent."""
        return self.number.to_bytes(8, "big") + bytes([self.thin]) + pack(self[1:])

    @classmethod
    def unpacked(cls, data: bytes) -> "SavedConnection":
        """Read what ``packed`` wrote."""
        return cls(int.from_bytes(data[:8], "big"), *unpack(data[9:]))

    def digest(self) -> bytes:
        """Return the same few bytes for lives that go on in the same way."""
        essence = (
            self.number,
            self.key,
            tuple(map(stream_essence, self.streams)),
            tuple(None if each is None else splitter_essence(each, HEAD) for each in self.splitters),
            None if self.session is None else session_essence(self.session),
            self.ended,
            self.syn,
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
    """Return a packed life with another number."""
    return number.to_bytes(8, "big") + packed[8:]


def number_of(packed: bytes) -> int:
    """Return the number of a packed life."""
    return int.from_bytes(packed[:8], "big")


def is_thin(packed: bytes) -> bool:
    """Return whether a packed life has not all that is under way in it."""
    return bool(packed[8])


def pair_of(key: bytes) -> bytes:
    """Return the lesser key of both directions."""
    return min(key, reverse_key(key))


def thinned(state: SplitterState | None) -> tuple[SplitterState | None, bool]:
    """Let zeros stand for what a long frame under way has beyond its head, and return whether there was one."""
    if state is None or len(state["data"]) <= HEAD or state["state"] != CUT:
        return state, False
    data = state["data"]
    return {**state, "data": data[:HEAD] + bytes(len(data) - HEAD)}, True
