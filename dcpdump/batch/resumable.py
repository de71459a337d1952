"""Save the state of a dissection, and continue from it elsewhere in the input."""

from typing import Any, NamedTuple

from dcpdump.batch.connection_state import SavedConnection, thinned
from dcpdump.batch.dissector import BlockDissector, Dissection, StreamsOf
from dcpdump.conversation import Conversation, Missing
from dcpdump.net.connections import ConnectionsState
from dcpdump.net.endpoints import Connection, flow_of
from dcpdump.net.half import Half
from dcpdump.tls.secrets import SecretsState
from dcpdump.unsealing import TlsState
from dcpdump.wire.collection_names import ConnectionNames, ServerNamesState
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter


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
        return not self.secrets.growing and sealed <= {half.connection.number for half in self._connections.living}

    def state(self) -> DissectionState:
        """Return the state between two blocks, for ``restore``."""
        saved = saved_connections(self, thin=False)
        living = [half.connection.number for half in self._connections.living]
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
    return [_saved(half, conversations.get(half.connection.number), thin) for half in dissection.connections.living]


def _saved(half: Half, conversation: Conversation | None, thin: bool) -> SavedConnection:
    first, second = (half, half.other) if half.direction == 0 else (half.other, half)
    streams = first.stream.state(), second.stream.state()
    number, syn, carved = half.connection.number, half.connection.syn, half.connection.carved
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
