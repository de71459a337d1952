"""Resumed: a dissection that begins in the middle, with the lives of its connections, and ends with them."""

from collections.abc import Iterable

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.batch.dissector import StreamsOf
from dcpdump.batch.part import Part
from dcpdump.conversation import Conversation
from dcpdump.net.batch import NO_TIME
from dcpdump.net.connections import Half
from dcpdump.net.event import Seen
from dcpdump.net.flow import Connection, flow_of
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.spark.connection_state import SavedConnection, thinned
from dcpdump.spark.session_delta import WatchedSession
from dcpdump.streams.watching import Watching
from dcpdump.wire.resync import Streams
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter


class ResumedDissection(Watching):
    """Feed it blocks. New connections are numbered from ``first`` on; ``met`` are the pairs that it had to do with."""

    def __init__(self, limits: Limits = DEFAULT, *, first: int = 0, show_secrets: bool = False) -> None:
        super().__init__(limits, show_secrets=show_secrets)
        self.leave_tls()  # what opens it is no part of what is handed from task to task
        self.balance.connections = first
        self.last_ns: int | None = None  #: the latest time of a packet

    @property
    def last(self) -> Seen:
        """The last packet."""
        return self._connections.last

    def feed_block(self, block: Block) -> list[Part]:
        """It takes the next packets, and gives the frames that they complete."""
        times = block.ts_ns[block.ts_ns != NO_TIME]
        if len(times):
            latest = int(np.max(times))
            self.last_ns = latest if self.last_ns is None else max(latest, self.last_ns)
        return super().feed_block(block)

    def finish(self, last: Seen) -> list[Part]:
        """It ends the input, of which that was the last packet."""
        self._connections.last = last
        return self.close_blocks()

    @property
    def opened(self) -> int:
        """The number that the next new connection would have."""
        return self.balance.connections

    @property
    def fragmented(self) -> bool:
        """Whether pieces of an IP datagram wait for others."""
        return self._connections.fragmented

    def knows(self, key: bytes) -> bool:
        """It says whether there is a connection with a direction of this key."""
        return key in self._connections.halves

    def resume(self, lives: Iterable[SavedConnection], kind: type[Session] = Session) -> None:
        """It goes on with connections, in the order in which they were last used."""
        for life in lives:
            self._resume(life, kind)

    def _resume(self, life: SavedConnection, kind: type[Session]) -> None:
        connection = Connection(life.number, flow_of(life.key), life.syn)
        self._connections.restore(connection, life.key, life.streams)
        if life.session is not None:
            session = kind()
            session.restore(life.session)
            conversation = self._conversations[life.number] = Conversation(connection, session)
            for direction, splitting in enumerate(life.splitters):
                if splitting is not None:
                    splitter = FrameSplitter(self._streams_of(conversation))
                    splitter.restore(splitting)
                    conversation.splitters[direction] = splitter
            conversation.framed, conversation.before = list(life.framed), list(life.before)
            conversation.ended, conversation.protocol = life.ended, life.protocol

    def _streams_of(self, conversation: Conversation) -> Streams:
        streams, session = StreamsOf(self, conversation), conversation.session
        return session.asked(streams) if isinstance(session, WatchedSession) else streams

    def session(self, number: int) -> Session | None:
        """Return the session of a connection; None where nothing was said, or all is over."""
        conversation = self._conversations.get(number)
        return None if conversation is None else conversation.session

    def lives(self, *, thin: bool) -> list[SavedConnection]:
        """It gives all connections as they are now, the least recently used first."""
        self.absorb()
        return [self._life(half, thin) for half in self._connections.living]

    def _life(self, half: Half, thin: bool) -> SavedConnection:
        first, second = (half, half.other) if half.direction == 0 else (half.other, half)
        streams = first.stream.state(), second.stream.state()
        number = half.connection.number
        conversation = self._conversations.get(number)
        syn = half.connection.syn
        if conversation is None:
            return SavedConnection(number, first.key, streams, syn=syn)
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
            conversation.ended,
            conversation.protocol,
            cut,
            syn,
        )
