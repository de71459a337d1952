"""Save the state of a dissection, and continue from it later or in another process."""

from abc import ABC
from typing import TYPE_CHECKING, NamedTuple, TypeVar, Union

from dcpdump.batch.dissector import NOTHING, BlockDissector, Dissection, Picked, Picker, StreamsOf
from dcpdump.conversation import Conversation, Missing, MissingValues
from dcpdump.dissect import TlsState
from dcpdump.net.bytestream import StreamState
from dcpdump.net.connections import ConnectionSide, ConnectionsState
from dcpdump.net.endpoints import Connection, flow_of
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.tls.secrets import Secrets, SecretsState
from dcpdump.wire.collection_names import ConnectionNames, ServerNamesState
from dcpdump.wire.session import Session, SessionState
from dcpdump.wire.split import FrameSplitter, SplitterState

if TYPE_CHECKING:
    from dcpdump.batch.part import Part

P = TypeVar("P")


class SavedConnection(NamedTuple):
    """The state of a connection: two byte streams and, if they had payload, two splitters and a session."""

    number: int
    key: bytes  #: of direction 0, as in the headers
    streams: tuple[StreamState, StreamState]
    splitters: tuple[SplitterState | None, SplitterState | None] = (None, None)
    session: SessionState | None = None  #: None: no payload so far, or the connection ended
    framed: tuple[bool, bool] = (False, False)
    before: tuple[int, int] = (0, 0)
    begun: tuple[int, int] = (0, 0)
    lost: tuple[MissingValues, ...] = ()  #: before any frame, by direction
    ended: int = 0
    protocol: str = ""
    syn: bool = False  #: the opening was captured
    carved: int = 0  #: as in Connection


class DissectionState(NamedTuple):
    """Everything on which the frames of the next blocks depend. Pack it before the dissection continues."""

    first: int  #: the number of the next frame
    unweighed: int
    network: ConnectionsState
    connections: list[SavedConnection]  #: least recently used first
    tls: list[TlsState]
    secrets: SecretsState
    servers: ServerNamesState  #: the names of collections
    names: dict[int, ConnectionNames]  #: by connection


class Resumable(BlockDissector[P], ABC):
    """A dissector that continues from a state exactly as the one that saved it would. Pieces may differ in kind."""

    @property
    def resumable(self) -> bool:
        """Return whether a state is complete: no secret is still to come, and no reports of ended TLS would be lost."""
        sealed = {
            number for number, each in self.conversations.items() if each.tls is not None or each.suspect is not None
        }
        if not sealed:
            return True
        return not self.secrets.growing and sealed <= {side.connection.number for side in self.connections.living}

    def state(self) -> DissectionState:
        """Return the state between two blocks, for ``restore``."""
        self.absorb()
        living = self.connections.living
        tls = [self._unsealing.state(each) for each in self.conversations.values()]
        numbers = [side.connection.number for side in living]
        return DissectionState(
            self.next_frame,
            self._unweighed,
            self.connections.state(),
            [_saved(side, self.conversations.get(side.connection.number)) for side in living],
            [each for each in tls if each is not None],
            self.secrets.state(),
            self.names.state(),
            {number: self.conversations[number].names for number in numbers if number in self.conversations},
        )

    def restore(self, state: DissectionState) -> None:
        """Continue from a state. Only for a dissection that was fed nothing yet."""
        self.connections.restore_state(state.network)
        for saved in state.connections:
            self._load(saved)
        self.next_frame, self._unweighed = state.first, state.unweighed
        self.names.restore(state.servers)
        for number, names in state.names.items():
            self.conversations[number].names = names
        self.secrets.restore(state.secrets)
        for each in state.tls:
            self._unsealing.restore(self.conversations[each[0]], each)

    def _load(self, saved: SavedConnection) -> None:
        """Restore a connection as the most recently used."""
        connection = Connection(saved.number, flow_of(saved.key), saved.syn, saved.carved)
        self.connections.restore(connection, saved.key, saved.streams)
        if saved.session is None:
            return
        session = Session()
        session.restore(saved.session)
        conversation = self.conversations[saved.number] = Conversation(connection, session)
        for direction, state in enumerate(saved.splitters):
            if state is not None:
                splitter = FrameSplitter(StreamsOf(self, conversation))
                splitter.restore(state)
                conversation.splitters[direction] = splitter
        conversation.framed = list(saved.framed)
        conversation.before, conversation.begun = list(saved.before), list(saved.begun)
        for missing, lost in zip(conversation.lost, saved.lost, strict=False):
            missing.merge(Missing(*lost))
        conversation.ended, conversation.protocol = saved.ended, saved.protocol


def _saved(side: ConnectionSide, conversation: Conversation | None) -> SavedConnection:
    first, second = (side, side.other) if side.direction == 0 else (side.other, side)
    streams = first.stream.state(), second.stream.state()
    number, syn, carved = side.connection.number, side.connection.syn, side.connection.carved
    if conversation is None:
        return SavedConnection(number, first.key, streams, syn=syn, carved=carved)
    splitters = [None if each is None else each.state() for each in conversation.splitters]
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
        syn,
        carved,
    )


class ResumableDissection(Resumable["Part"], Dissection):
    """A dissection of all frames to parts that can continue from a state."""


class ResumablePicker(Resumable[Union[Picked, "Part"]], Picker):
    """A dissection that keeps no frames, only the state: as fast as a filtered read."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(NOTHING, limits, show_secrets=show_secrets, secrets=secrets)
