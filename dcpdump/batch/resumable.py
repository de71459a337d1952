"""Save the state of a dissection, and continue from it elsewhere in the input."""

import marshal
import zlib
from hashlib import blake2b
from typing import Any, NamedTuple

from dcpdump.batch.dissector import BlockDissector, Dissection, StreamsOf
from dcpdump.conversation import Conversation, Missing, MissingValues
from dcpdump.dissect import TlsState
from dcpdump.net.bytestream import StreamState, stream_essence
from dcpdump.net.connections import ConnectionSide, ConnectionsState
from dcpdump.net.endpoints import Connection, flow_of, reverse_key
from dcpdump.tls.secrets import SecretsState
from dcpdump.wire.collection_names import ConnectionNames, ServerNamesState
from dcpdump.wire.session import Session, SessionState, session_essence
from dcpdump.wire.split import CUT, FrameSplitter, SplitterState, splitter_essence

# -- states of connections, as plain values for the task that continues them --------------------------

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


class DissectionState(NamedTuple):
    """All that decides which frames a dissection makes of the next blocks. To be packed before it reads on."""

    first: int  #: the number of the next frame
    unweighed: int
    network: ConnectionsState
    connections: list[SavedConnection]  #: least recently used first
    tls: list[TlsState]
    secrets: SecretsState
    servers: ServerNamesState  #: the names of collections
    names: dict[int, ConnectionNames]  #: by connection


class ResumableDissection(Dissection):
    """A dissection that continues from a state as the one that it was taken of would."""

    @property
    def resumable(self) -> bool:
        """Return whether a state holds all: neither a secret that is still to come, nor a lost end of TLS."""
        sealed = {
            number for number, each in self._conversations.items() if each.tls is not None or each.suspect is not None
        }
        if not sealed:
            return True
        return not self.secrets.growing and sealed <= {side.connection.number for side in self._connections.living}

    def state(self) -> DissectionState:
        """Return the state between two blocks, for ``restore``."""
        saved = saved_connections(self, thin=False)
        living = [side.connection.number for side in self._connections.living]
        tls = [self._unsealing.state(each) for each in self._conversations.values()]
        return DissectionState(
            self.next_frame,
            self._unweighed,
            self._connections.state(),
            saved,
            [each for each in tls if each is not None],
            self.secrets.state(),
            self.names.state(),
            {number: self._conversations[number].names for number in living if number in self._conversations},
        )

    def restore(self, state: DissectionState) -> None:
        """Continue from a state. To be asked of a dissection that nothing was fed to."""
        self._connections.restore_state(state.network)
        for saved in state.connections:
            load_connection(self, saved)
        self.next_frame, self._unweighed = state.first, state.unweighed
        self.names.restore(state.servers)
        for number, names in state.names.items():
            self._conversations[number].names = names
        self.secrets.restore(state.secrets)
        for each in state.tls:
            self._unsealing.restore(self._conversations[each[0]], each)


def load_connection(
    dissection: BlockDissector[Any], saved: SavedConnection, kind: type[Session] = Session
) -> Conversation | None:
    """Have a dissection continue a connection, as the one that was used last; return its conversation."""
    connection = Connection(saved.number, flow_of(saved.key), saved.syn, saved.carved)
    dissection.connections.restore(connection, saved.key, saved.streams)
    if saved.session is None:
        return None
    session = kind()
    session.restore(saved.session)
    conversation = dissection.conversations[saved.number] = Conversation(connection, session)
    for direction, state in enumerate(saved.splitters):
        if state is not None:
            splitter = FrameSplitter(StreamsOf(dissection, conversation))
            splitter.restore(state)
            conversation.splitters[direction] = splitter
    conversation.framed = list(saved.framed)
    conversation.before, conversation.begun = list(saved.before), list(saved.begun)
    for missing, lost in zip(conversation.lost, saved.lost, strict=False):
        missing.merge(Missing(*lost))
    conversation.ended, conversation.protocol = saved.ended, saved.protocol
    return conversation


def saved_connections(dissection: BlockDissector[Any], *, thin: bool) -> list[SavedConnection]:
    """Return all connections as they are now, least recently used first. ``thin``: long frames are cut."""
    dissection.absorb()
    conversations = dissection.conversations
    return [_saved(side, conversations.get(side.connection.number), thin) for side in dissection.connections.living]


def _saved(side: ConnectionSide, conversation: Conversation | None, thin: bool) -> SavedConnection:
    first, second = (side, side.other) if side.direction == 0 else (side.other, side)
    streams = first.stream.state(), second.stream.state()
    number, syn, carved = side.connection.number, side.connection.syn, side.connection.carved
    if conversation is None:
        return SavedConnection(number, first.key, streams, syn=syn, carved=carved)
    splitters = [None if each is None else each.state() for each in conversation.splitters]
    cut = False
    if thin:
        for direction in (0, 1):
            splitters[direction], shortened = thinned(splitters[direction])
            cut |= shortened
    return SavedConnection(
        number,
        first.key,
        streams,
        (splitters[0], splitters[1]),
        conversation.session.state(),
        (conversation.framed[0], conversation.framed[1]),
        (conversation.before[0], conversation.before[1]),
        (conversation.begun[0], conversation.begun[1]),
        () if any(conversation.framed) else tuple(each.values for each in conversation.lost),
        conversation.ended,
        conversation.protocol,
        cut,
        syn,
        carved,
    )
