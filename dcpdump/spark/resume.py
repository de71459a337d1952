"""Begin a dissection in the middle of the input, from saved connections, and save them again at its end."""

from collections.abc import Iterable, Iterator

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.batch.dissector import StreamsOf
from dcpdump.batch.part import Part
from dcpdump.batch.resumable import SavedConnection, load_connection, saved_connections
from dcpdump.conversation import Conversation
from dcpdump.net.event import Seen
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import NO_TIME
from dcpdump.spark.known_names import Ends, KnownNames, NamesState, Told, begun
from dcpdump.spark.session_delta import WatchedSession
from dcpdump.streams.dissection import Watching
from dcpdump.wire.collection_names import Said
from dcpdump.wire.session import Session


class ResumedDissection(Watching):
    """A dissection of blocks that can load and save its connections. New connections are numbered from ``first`` on."""

    def __init__(self, limits: Limits = DEFAULT, *, first: int = 0, show_secrets: bool = False) -> None:
        super().__init__(limits, show_secrets=show_secrets)
        self.leave_tls()  # what opens it is no part of what is handed from task to task
        self.balance.connections = first
        self.last_ns: int | None = None  #: the latest time of a packet
        self._resumed: set[int] = set()  # connections that had payload before
        self._told: list[Told] = []

    @property
    def last(self) -> Seen:
        """Return where the last packet was captured."""
        return self._connections.last

    def feed_block(self, block: Block) -> Iterator[list[Part]]:
        """Dissect the next packets, and yield the parts that they complete."""
        times = block.ts_ns[block.ts_ns != NO_TIME]
        if len(times):
            latest = int(np.max(times))
            self.last_ns = latest if self.last_ns is None else max(latest, self.last_ns)
        return super().feed_block(block)

    def finish(self, last: Seen) -> Iterator[list[Part]]:
        """End the input, whose last packet was ``last``, and yield the parts that are left."""
        self._connections.last = last
        return self.close_blocks()

    @property
    def opened(self) -> int:
        """Return the number that the next new connection will have."""
        return self.balance.connections

    @property
    def fragmented(self) -> bool:
        """Return whether fragments of an IP datagram wait for others."""
        return self._connections.fragmented

    def resume(self, saved_connections: Iterable[SavedConnection], kind: type[Session] = Session) -> None:
        """Load connections, in the order in which they were last used."""
        for saved in saved_connections:
            conversation = load_connection(self, saved, kind)
            if conversation is not None:
                self._resumed.add(saved.number)
            if conversation is not None and isinstance(conversation.session, WatchedSession):
                for splitter in conversation.splitters:
                    if splitter is not None:
                        splitter.ask(conversation.session.asked(StreamsOf(self, conversation)))

    def name(self, state: NamesState) -> None:
        """Take what was known of names when the connections were saved."""
        known = KnownNames(state)
        self.names = known.servers
        for conversation in self._conversations.values():
            conversation.names = known.on(_ends(conversation))

    @property
    def told(self) -> tuple[Told, ...]:
        """Return what was said of names, in order, and which connections that began here are there now."""
        self.absorb()
        numbers = {number: each for number, each in self._conversations.items() if number not in self._resumed}
        now = [begun(_ends(each), number) for number, each in numbers.items()]
        return tuple(sorted([*self._told, *now], key=lambda told: told[2]))

    def _name(self, conversation: Conversation, said: Said, number: int) -> bool:
        new = super()._name(conversation, said, number)
        if new:
            connection = conversation.connection.number
            fresh = -1 if connection in self._resumed else connection
            self._told.append((_ends(conversation), fresh, number, tuple(said)))
        return new

    def session(self, number: int) -> Session | None:
        """Return the session of a connection; None where it had no payload yet, or has ended."""
        conversation = self._conversations.get(number)
        return None if conversation is None else conversation.session

    def saved_connections(self, *, thin: bool) -> list[SavedConnection]:
        """Return all connections as they are now, least recently used first. ``thin``: long frames are cut."""
        return saved_connections(self, thin=thin)


def _ends(conversation: Conversation) -> Ends:
    one, other = sorted(conversation.ends[0])
    return one, other
