"""Resumed: a dissection that begins in the middle, with the lives of its connections, and ends with them."""

from collections.abc import Iterable

import numpy as np

from dcpdump.columnar.block import Block
from dcpdump.columnar.dissector import StreamsOf
from dcpdump.columnar.part import Part
from dcpdump.conversation import Conversation
from dcpdump.net.batch import NO_TIME
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.connections import Half
from dcpdump.net.event import Seen
from dcpdump.net.flow import Connection, flow_of, reverse_key
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.spark.effects import WatchedSession
from dcpdump.spark.life import Life, thinned
from dcpdump.streams.watching import Watching
from dcpdump.wire.resync import Streams
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter


class Resumed(Watching):
    """Feed it blocks. New connections are numbered from ``first`` on; ``met`` are the pairs that it had to do with."""

    def __init__(self, limits: Limits = DEFAULT, *, first: int = 0, show_secrets: bool = False) -> None:
        super().__init__(limits, show_secrets=show_secrets)
        self.balance.connections = first
        self.last_ns: int | None = None  #: the latest time of a packet

    @property
    def last(self) -> Seen:
        """The last packet."""
        return self._connections._seen

    def feed_block(self, block: Block) -> list[Part]:
        """It takes the next packets, and gives the frames that they complete."""
        times = block.ts_ns[block.ts_ns != NO_TIME]
        if len(times):
            latest = int(np.max(times))
            self.last_ns = latest if self.last_ns is None else max(latest, self.last_ns)
        return super().feed_block(block)

    def finish(self, last: Seen) -> list[Part]:
        """It ends the input, of which that was the last packet."""
        self._connections._seen = last
        return self.close_blocks()

    @property
    def opened(self) -> int:
        """The number that the next new connection would have."""
        return self.balance.connections

    @property
    def fragmented(self) -> bool:
        """Whether pieces of an IP datagram wait for others."""
        return bool(self._connections._layers._fragments._puzzles)

    def knows(self, key: bytes) -> bool:
        """It says whether there is a connection with a direction of this key."""
        return key in self._connections.halves

    def resume(self, lives: Iterable[Life], kind: type[Session] = Session) -> None:
        """It goes on with connections, in the order in which they were last used."""
        for life in lives:
            self._resume(life, kind)

    def _resume(self, life: Life, kind: type[Session]) -> None:
        runs = self._connections
        connection = Connection(life.number, flow_of(life.key), life.syn)
        limits = runs._limits
        keys = life.key, reverse_key(life.key)
        streams = ByteStream(limits, runs.counts), ByteStream(limits, runs.counts)
        for stream, state in zip(streams, life.streams, strict=True):
            stream.restore(state)
        halves = [Half(keys[way], connection, way, streams[way]) for way in (0, 1)]
        halves[0].other, halves[1].other = halves[1], halves[0]
        runs.halves[keys[1]], runs.halves[keys[0]] = halves[1], halves[0]
        runs._lives[life.number] = halves[0]
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
        for half in halves:
            runs._schedule(half)

    def _streams_of(self, conversation: Conversation) -> Streams:
        streams, session = StreamsOf(self, conversation), conversation.session
        return session.asked(streams) if isinstance(session, WatchedSession) else streams

    def lives(self, *, thin: bool) -> list[Life]:
        """It gives all connections as they are now, the least recently used first."""
        self.absorb()
        return [self._life(half, thin) for half in self._connections._lives.values()]

    def _life(self, half: Half, thin: bool) -> Life:
        first, second = (half, half.other) if half.direction == 0 else (half.other, half)
        streams = first.stream.state(), second.stream.state()
        number = half.connection.number
        conversation = self._conversations.get(number)
        syn = half.connection.syn
        if conversation is None:
            return Life(number, first.key, streams, syn=syn)
        splitters = [None if each is None else each.state() for each in conversation.splitters]
        cut = False
        if thin:
            for direction in (0, 1):
                splitters[direction], shortened = thinned(splitters[direction])
                cut |= shortened
        return Life(
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
