"""Dissect blocks of packets to pieces of output; ordinary packets and frames are handled many at a time.

Ordinary packets are reassembled in batches by ``net``, ordinary frames cut in batches by ``wire``; any other goes one
by one through the Dissector, into the same frames. Both ways use the same objects, so no state is handed over.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Union

from dcpdump.batch.block import BLOCK_BYTES, Block
from dcpdump.batch.cutting import MOST_WEIGHT, Cutting
from dcpdump.batch.scan import FilteredScan, Scan
from dcpdump.conversation import Conversation, Missing
from dcpdump.dissect import Dissector, TlsState
from dcpdump.filter.choices import NOTHING_WANTED, Ranges, Wanted
from dcpdump.net.batch import Segments, reassemble_plain
from dcpdump.net.bytestream import StreamState
from dcpdump.net.connections import ConnectionSide, ConnectionsState, Delivery
from dcpdump.net.endpoints import Connection, flow_of
from dcpdump.net.event import Gap, Seen
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.record import Direction, Lost, Record
from dcpdump.tls.secrets import Secrets, SecretsState
from dcpdump.wire.collection_names import ConnectionNames, ServerNamesState
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.frames import Frames
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter, Skipped

if TYPE_CHECKING:
    from dcpdump.batch.frame_batch import FrameBatch


P = TypeVar("P")

#: Bytes that a segment may cost beside its own, when deciding how soon to add up the memory again.
_SEGMENT = 256


@cache
def _keep_memory() -> None:
    """Free much memory once in a process: after that the C library keeps as much freed memory.

    Otherwise the memory of each block is returned to the system and requested again, which took an eighth of the time
    of a table.
    """
    bytes(16 * 1024 * 1024)


class SavedConnection(NamedTuple):
    """The state of a connection: two byte streams and, if they had payload, its conversation."""

    number: int
    key: bytes  #: of direction 0, as in the headers
    streams: tuple[StreamState, StreamState]
    syn: bool  #: the opening was captured
    carved: int  #: as in Connection
    conversation: dict[str, Any] | None  #: None: no payload so far, or the connection ended


#: The attributes of a conversation that are plain values.
_PLAIN = ("framed", "before", "begun", "ended", "protocol")


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


class BlockDissector(Dissector, ABC, Generic[P]):
    """A dissector that is fed blocks and yields pieces of output. ``gaps`` collects losses; the owner empties it.

    Subclasses define what a piece is; they make it from completed frames. Any of them continues from a state exactly as
    the one that saved it would.
    """

    most = MOST_WEIGHT  #: as in Cutting
    block_bytes = BLOCK_BYTES  #: of packets per block that suits this dissector

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        _keep_memory()
        self._limits = limits
        self.connections.in_runs = True
        self._cutting = Cutting(self.conversations, self.tally, self.most)
        self.next_frame = 1  #: the number of the next frame
        self._pieces: list[P] = []  # finished pieces
        self.releasing = False  #: events of a packet are not all in pieces yet
        self.gaps: list[Lost] = []

    @property
    def waiting(self) -> bool:
        """Return whether bytes wait behind a hole, or are not all in pieces yet."""
        return self.releasing or self.balance.pending_bytes > 0

    def feed_block(self, block: Block) -> Iterator[list[P]]:
        """Dissect the next packets, and yield the pieces that they complete, in lists of bounded size.

        A list is emptied when the next is requested; all have to be taken before the next block is fed. The last may be
        empty, but there may be ``gaps``.
        """
        self.connections.carved.update(block.carved)
        yield from self._open_waiting()
        batch, at = block.batch, 0
        while at < len(batch):
            segments = Segments(batch)
            stop, deliveries = reassemble_plain(self.connections, batch, at, segments)
            if stop > at:
                self._note_batch(block, at, stop, segments)
                yield from self._cut(segments)
                yield from self._deliver(deliveries)
            else:
                yield from self.feed_packet(block.packets[stop])
                stop += 1
            at = stop
        yield from self._finished_pieces()

    def feed_packet(self, packet: Packet) -> Iterator[list[P]]:
        """Dissect the next packet, and yield the pieces so far if their size is at its bound."""
        deliveries = self.connections.feed(packet)
        self._note_packet(packet)
        yield from self._deliver(deliveries)

    def idle(self) -> Iterator[list[P]]:
        """Yield the pieces that new secrets make possible while no packets come."""
        yield from self._open_waiting()
        yield from self._finished_pieces()

    def close_blocks(self) -> Iterator[list[P]]:
        """End the input, and yield the last pieces, as ``feed_block`` does."""
        yield from self._open_waiting()
        yield from self._deliver(self.connections.close())
        for conversation in list(self.conversations.values()):
            self._leave(conversation)
            yield from self._full()
        yield from self._finished_pieces()

    def _finished_pieces(self) -> Iterator[list[P]]:
        """Yield the finished pieces, and begin a new list."""
        self.absorb()
        self._cutting.begun = 0
        pieces, self._pieces = self._pieces, []
        yield pieces
        pieces.clear()  # or they would stay in memory while the next are made

    def _full(self) -> Iterator[list[P]]:
        """Yield the finished pieces if their size is at its bound."""
        if self._cutting.full:
            yield from self._finished_pieces()

    def _note_batch(self, block: Block, at: int, stop: int, segments: Segments) -> None:
        """Note that packets ``at`` … ``stop``-1 of a block were reassembled in a batch, and brought ``segments``."""

    def _note_packet(self, packet: Packet) -> None:
        """Note that a packet was fed to the connections alone."""

    def _open_waiting(self) -> Iterator[list[P]]:
        """Handle the events that new secrets make possible."""
        for conversation, events in self._unsealing.open_waiting(list(self.conversations.values())):
            for direction, event in events:
                self._follow(conversation, direction, event)
                yield from self._full()

    def _deliver(self, deliveries: list[Delivery]) -> Iterator[list[P]]:
        """Handle the events of a packet."""
        if not deliveries:
            return
        self.releasing = True
        at, count = 0, len(deliveries)
        while at < count:
            segments = Segments()
            at = segments.add(deliveries, at)
            yield from self._cut(segments)
            if at < count:
                self._drain([deliveries[at]])
                at += 1
                yield from self._full()
        self.releasing = False

    def _cut(self, segments: Segments) -> Iterator[list[P]]:
        """Cut the bytes of segments into frames."""
        self._note_sources(segments)
        at, count = 0, len(segments)
        while (at := self._cutting.cut(segments, at)) < count:
            if not self._cutting.full:
                conversation = self.conversations.get(segments.direction_ids[at] >> 1)
                if conversation is not None and conversation.tls is not None:
                    at = yield from self._unseal(conversation, segments, at)
                else:
                    self._drain([segments.event(at)])
                    at += 1
            yield from self._full()
        self._unweighed += sum(map(len, segments.pieces)) + _SEGMENT * len(segments.pieces)
        if self._unweighed > self._limit // 16:
            self._weigh()

    def _note_sources(self, segments: Segments) -> None:
        """Note the captures from which the bytes of connections come."""
        sources: Iterable[tuple[int, int]] = [(direction_id, 0) for direction_id in set(segments.direction_ids)]
        if len(segments.files) > 1:
            sources = zip(segments.direction_ids, map(segments.file.__getitem__, segments.rows), strict=True)
        before = (-1, -1)
        for direction_id, file in sources:
            if (direction_id, file) != before:
                before = direction_id, file
                conversation = self.conversations.get(direction_id >> 1)
                if conversation is not None:
                    conversation.note_source(segments.files[file])

    def _unseal(self, conversation: Conversation, segments: Segments, at: int) -> Generator[list[P], None, int]:
        """Decrypt the segments of one direction from ``at`` on; return the first segment after them."""
        tls, direction_ids = conversation.tls, segments.direction_ids
        assert tls is not None
        direction_id, stop = direction_ids[at], at + 1
        while stop < len(direction_ids) and direction_ids[stop] == direction_id:
            stop += 1
        while at < stop:
            texts = segments.of_same_packets()
            at, events = tls.run(segments, at, stop, texts)
            row, count = 0, len(texts)
            while (row := self._cutting.cut(texts, row, opened=True)) < count:
                if not self._cutting.full:
                    self._follow(conversation, direction_id & 1, texts.event(row).event)
                    row += 1
                yield from self._full()
            for direction, event in events:
                self._follow(conversation, direction, event)
                yield from self._full()
        self._unsealing.count(conversation)
        return at

    def _drain(self, deliveries: list[Delivery]) -> None:
        for _ in self._records_of(deliveries):
            raise TypeError("a dissection in blocks makes no records")

    # -- states, to continue from later or in another process -------------------------------------------

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
        state = saved.conversation
        if state is None:
            return
        session = Session()
        session.restore(state["session"])
        conversation = self.conversations[saved.number] = Conversation(connection, session)
        for name in _PLAIN:
            setattr(conversation, name, copy(state[name]))
        for direction, splitter in enumerate(state["splitters"]):
            if splitter is not None:
                self._splitter(conversation, direction, joined_late=False).restore(splitter)
        for missing, lost in zip(conversation.lost, state["lost"], strict=False):
            missing.merge(Missing(*lost))

    # -- what the Dissector calls -----------------------------------------------------------------------

    def _lose(self, conversation: Conversation, direction: int, gap: Gap) -> tuple[Gap, ...]:
        sent = super()._lose(conversation, direction, gap)
        self.gaps.append(Lost(direction_of(conversation, direction), gap, sent))
        return sent

    def _skip(self, conversation: Conversation, direction: int, skipped: Skipped) -> None:
        gap = Gap(skipped.offset, 0, "", Seen(*skipped.where[:2]))
        self.gaps.append(Lost(direction_of(conversation, direction), gap, skipped=skipped.length))

    def _splitter(self, conversation: Conversation, direction: int, *, joined_late: bool) -> FrameSplitter:
        splitter = FrameSplitter(lambda: self._session_of(conversation), joined_late=joined_late)
        conversation.splitters[direction] = splitter
        return splitter

    def _framed(self, conversation: Conversation, direction: int, raw: RawFrame) -> list[Record]:
        """Add a frame to the next piece."""
        number = conversation.connection.number
        self._cutting.involved[number] = conversation
        self._cutting.frames.add(raw, 2 * number + direction)
        return []

    # -- what connections remember ----------------------------------------------------------------------

    def _session_of(self, conversation: Conversation) -> Session:
        """Return the session of a conversation, up to date with all frames so far."""
        if conversation.connection.number in self._cutting.involved:
            self.absorb()
        return conversation.session

    def absorb(self) -> None:
        """Bring all sessions up to date with the frames so far; this makes a piece."""
        frames, involved = self._cutting.begin()
        if len(frames):
            first, self.next_frame = self.next_frame, self.next_frame + len(frames)
            self._pieces.append(self._piece(frames, first, involved))

    @abstractmethod
    def _piece(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> P:
        """Make a piece of frames, numbered from ``first`` on, and update their sessions."""

    def _batch(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> "FrameBatch":
        """Make a batch of frames, and update their sessions. NumPy is imported here."""
        from dcpdump.batch.frame_batch import batch_of

        scan = Scan(frames, first, involved)
        rows, records = scan.rows(self._record, show_secrets=self._show_secrets)
        self.tally.dcp_frames += scan.dcp  # the others were counted when they were decoded
        batch = batch_of(frames, first, rows, records, lambda each: direction_of(involved[each >> 1], each & 1))
        batch.names.update({number: each.names for number, each in involved.items() if each.names.any})
        return batch


def direction_of(conversation: Conversation, direction: int) -> Direction:
    """Return a direction of a conversation."""
    src, dst = conversation.ends[direction]
    connection = conversation.connection
    return Direction(connection.number, direction, src, dst, connection.syn, connection.carved > 0)


def _saved(side: ConnectionSide, conversation: Conversation | None) -> SavedConnection:
    first, second = (side, side.other) if side.direction == 0 else (side.other, side)
    streams = first.stream.state(), second.stream.state()
    number, syn, carved = side.connection.number, side.connection.syn, side.connection.carved
    state: dict[str, Any] | None = None
    if conversation is not None:
        state = {name: copy(getattr(conversation, name)) for name in _PLAIN}
        state["session"] = conversation.session.state()
        state["splitters"] = [None if each is None else each.state() for each in conversation.splitters]
        state["lost"] = () if any(conversation.framed) else tuple(each.values for each in conversation.lost)
    return SavedConnection(number, first.key, streams, syn, carved, state)


# -- the dissections: of all frames as columns, and of few chosen ones --------------------------------


class Dissection(BlockDissector["FrameBatch"]):
    """A dissector whose pieces are batches."""

    def _piece(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> "FrameBatch":
        return self._batch(frames, first, involved)


#: The most ordinary frames of a block that are decoded one by one, as a number and as a fraction; with more, all frames
#: become columns.
FEW, ONE_IN = 64, 64
#: Bytes of packets in a block: few enough that the data stays in the processor's cache between steps.
SMALL_BLOCK_BYTES = 512 * 1024


#: A batch, or the records that may pass a filter, all that do among them; other frames were skipped.
BatchOrRecords = Union[list[Record], "FrameBatch"]


class Picker(BlockDissector[BatchOrRecords]):
    """A dissector whose pieces are records or batches with all frames that the filter ``wanted`` may choose.

    NumPy is imported at the first block with many frames to decode.
    """

    block_bytes = SMALL_BLOCK_BYTES

    def __init__(
        self,
        wanted: Wanted,
        limits: Limits = DEFAULT,
        *,
        show_secrets: bool = False,
        secrets: Secrets | None = None,
    ) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self._wanted = wanted

    def _piece(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> BatchOrRecords:
        scan = FilteredScan(frames, first, involved, self._wanted)
        most = max(FEW, len(frames) // ONE_IN)
        if scan.count(most) > most:
            return self._batch(frames, first, involved)
        records: list[Record] = []
        at = -1
        while (at := scan.next(at + 1)) < len(frames):
            direction_id = scan.direction_id()
            records.append(self._record(involved[direction_id >> 1], direction_id & 1, scan.raw(at), first + at))
        self.tally.dcp_frames += scan.dcp
        return records


class NumberPicker(Picker):
    """A dissector whose pieces are batches with all frames of the given ``numbers``."""

    def __init__(
        self,
        numbers: Ranges,
        limits: Limits = DEFAULT,
        *,
        show_secrets: bool = False,
        secrets: Secrets | None = None,
    ) -> None:
        super().__init__(NOTHING_WANTED, limits, show_secrets=show_secrets, secrets=secrets)
        self._numbers = numbers

    def _piece(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> BatchOrRecords:
        if self._numbers.overlaps(first, first + len(frames) - 1):
            return self._batch(frames, first, involved)
        super()._piece(frames, first, involved)
        return []
