"""Ledger: sights in, connections and their streams out. It never guesses: what was not captured stays None.

Whoever has to look at a frame before it is learnt goes by the steps of ``feed``: ``arrive``, ``place``, ``learn``.
"""

from typing import NamedTuple

from dcpdump.batch.ends import Ends
from dcpdump.spec import find
from dcpdump.streams.addressing import find_place, simply
from dcpdump.streams.answers import await_answer, learn_answer, take_answer
from dcpdump.streams.consumer import identify
from dcpdump.streams.document_run import DocumentRun
from dcpdump.streams.failover_logs import Logs
from dcpdump.streams.frame_event import UNKNOWN_LOSS, FrameEvent
from dcpdump.streams.joins import joins
from dcpdump.streams.messages import KEYED, LEARN, learn_keys
from dcpdump.streams.opcode_kinds import (
    ADD_STREAM,
    BUFFER_ACK,
    CLOSE_STREAM,
    MARKER,
    NOOP,
    SEQNO_ACK,
    SET_STATE,
    STREAM_END,
    STREAM_REQ,
    WANTED,
)
from dcpdump.streams.request import ACKNOWLEDGE, DISK, DUPLICATES
from dcpdump.streams.requests import asked, closing, doubt
from dcpdump.streams.roles import infer, server_by
from dcpdump.streams.setup import REQUESTS, begin_direction, keep_alive
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.window import COUNTED, FIRST

#: What only the side with the changes sends, and what only the side that wants them sends.
_BY_FEEDER = frozenset(opcode for opcode in range(256) if COUNTED[opcode]) | {NOOP, ADD_STREAM}
_BY_TAKER = WANTED


class WatchedUntil(NamedTuple):
    """Until when a connection was watched, as far as that is known, and whether it was gone then."""

    ts_ns: int | None
    gone: bool


#: Flags of snapshots in which single documents settle something: without open prepares, and with them.
_SETTLED = (ACKNOWLEDGE, ACKNOWLEDGE | DISK)


class Ledger:
    """Feed it every frame, in order; then close it. ``closely``: it keeps what only the rules of ``check`` ask for."""

    def __init__(self, *, closely: bool = False) -> None:
        self.connections: dict[int, ConnectionState] = {}
        self.streams: list[Stream] = []  #: in the order in which they were first seen
        self.logs = Logs()
        #: by server, bucket and name: the connection that was opened last
        self.names: dict[tuple[str, str, str], ConnectionState] = {}
        #: by bucket and vbucket: the stream that was granted last
        self.producing: dict[tuple[str, int], Stream] = {}
        self.frames = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._closely = closely

    def meet(self, ends: Ends) -> None:
        """Note who the ends of a connection are."""
        connection = self._connection(ends.connection)
        if not connection.src:
            src, dst = (ends.src, ends.dst) if ends.direction == 0 else (ends.dst, ends.src)
            connection.src, connection.dst, connection.syn = src, dst, ends.syn

    def feed(self, sight: FrameEvent) -> Stream | None:
        """Take the next frame, and return the stream that it is of, if it is of one."""
        return self.learn_placed(self.arrive(sight), sight)

    def learn_placed(self, connection: ConnectionState, sight: FrameEvent) -> Stream | None:
        """Learn a frame of a connection, wherever it belongs there."""
        if not self.is_message(connection, sight):
            return self.learn(connection, sight)
        stream = simply(connection, sight)
        if stream is None:
            place = find_place(connection, sight)
            stream = self.begin(connection, sight) if place.begins else place.stream
        return self.learn_message(connection, sight, stream)

    def _connection(self, number: int) -> ConnectionState:
        connection = self.connections.get(number)
        if connection is None:
            connection = self.connections[number] = ConnectionState(
                number, closely=self._closely, names=self.names, producing=self.producing
            )
        return connection

    def arrive(self, sight: FrameEvent) -> ConnectionState:
        """Count the next frame and what was lost before it, and return its connection."""
        connection = self.connections.get(sight.connection) or self._connection(sight.connection)
        direction, ts_ns, frames = sight.direction, sight.ts_ns, connection.frames
        self.frames += 1
        if not frames[direction]:
            begin_direction(connection, sight)
        frames[direction] += 1
        connection.bytes[direction] += sight.length
        if ts_ns is not None:
            connection.last_ns = self.last_ns = connection.heard_ns[direction] = ts_ns
            if connection.first_ns is None:
                connection.first_ns = ts_ns
                if self.first_ns is None:
                    self.first_ns = ts_ns
        if sight.gap_before:
            connection.lose(direction, sight.gap_before, ts_ns, sight.number, skipped=sight.skipped)
        if not sight.whole:
            connection.holes += 1
            connection.lost_frame = sight.number
            connection.lost_text = f"bytes of frame {sight.number} were lost"
        return connection

    def is_message(self, connection: ConnectionState, sight: FrameEvent) -> bool:
        """Return whether a frame is a message of a stream, from the end that has the changes."""
        if sight.response or sight.server or not COUNTED[sight.opcode]:
            return False
        if connection.feeder is None:
            connection.feeder = sight.direction
        return connection.feeder == sight.direction

    def begin(self, connection: ConnectionState, sight: FrameEvent) -> Stream:
        """Begin a stream with a message of it, as its request was not captured."""
        place = sight.word << 16 | sight.stream_id
        before = connection.current.get(place)
        begun = Stream(connection, sight.word, sight.stream_id)
        begun.opaque = sight.opaque
        begun.first_ns = sight.ts_ns
        begun.losses = connection.losses[sight.direction]
        begun.other_losses = connection.losses[1 - sight.direction]
        begun.lost_before = connection.lost_bytes[sight.direction]
        begun.holes = connection.holes
        if before is None or before.doubtful or not before.live:  # or else it may be an earlier one that trails in
            begun.follow(before)
            connection.current[place] = begun
        connection.by_opaque[sight.opaque] = begun
        connection.streams.append(begun)
        self.streams.append(begun)
        return begun

    def notice(self, connection: ConnectionState, sight: FrameEvent, stream: Stream) -> None:
        """Have a stream notice what was lost before a message of it."""
        if stream.losses != connection.losses[sight.direction]:
            stream.lose(sight.direction, joins=joins(stream, sight))

    def learn_message(self, connection: ConnectionState, sight: FrameEvent, stream: Stream | None) -> Stream | None:
        """Learn a message of a stream; None: it is of none, and only counts for flow control."""
        ts_ns, opcode, length = sight.ts_ns, sight.opcode, sight.length
        connection.window.sends(opcode, length, sight.stream_id, ts_ns)
        if stream is None:
            return None
        self.notice(connection, sight, stream)
        stream.counts[opcode - FIRST] += 1
        stream.size += length
        stream.last_ns, stream.last_frame = ts_ns, sight.number
        if stream.opaque is None:
            stream.opaque = sight.opaque
        if stream.ended:
            stream.after_end += 1
            if stream.end_frame is not None and stream.ordered:
                return stream
        seqno = sight.seqno
        if seqno is not None:
            stream.last_seqno, stream.last_item_ns = seqno, ts_ns
            if stream.high_seqno is None:
                stream.first_seqno = stream.high_seqno = seqno
            elif seqno > stream.high_seqno:
                stream.high_seqno = seqno
            if stream.snapshot is not None:
                stream.snapshot.items += 1
            if connection.closely and opcode in KEYED and stream.marker and not stream.marker.flags & DUPLICATES:
                learn_keys(stream, sight)
        elif opcode == SET_STATE:
            waiting, early = await_answer(connection, sight)
            waiting.stream = stream
            stream.state_acks += early is not None
        learn = LEARN[opcode]
        if learn is not None:
            learn(stream, sight)
            if opcode == MARKER:
                self.logs.learn_purge(stream, sight)
        if opcode == STREAM_END and stream.requests and stream.requests[-1].status is None:
            connection.exchanges.give_up(stream.requests[-1])  # its answer comes before all messages
        if seqno is not None:
            stream.item(sight, seqno)
        if not sight.whole:
            stream.forget()
        return stream

    def feed_burst(self, burst: DocumentRun) -> None:
        """Take documents of one stream. Where that is not simply its next, they are taken one by one."""
        connection, direction = self.connections.get(burst.connection), burst.direction
        stream = None if connection is None else connection.current.get(burst.word << 16 | burst.stream_id)
        if (
            connection is None
            or connection.first_ns is None
            or connection.feeder != direction
            or stream is None
            or stream.opaque != burst.opaque
            or stream.ended
            or not stream.live
            or (stream.oso and connection.closely)
            or stream.losses != connection.losses[direction]
            or connection.window.would_fill(burst.size)
            or (stream.marker is not None and stream.marker.flags & _SETTLED[bool(stream.prepared)])
            or (connection.closely and burst.close is None)
        ):
            for sight in burst.each():
                self.feed(sight)
        else:
            self.learn_burst(connection, burst, stream)

    def learn_burst(self, connection: ConnectionState, burst: DocumentRun, stream: Stream) -> None:
        """Learn documents that are simply the next of a stream, in whose snapshot nothing waits to be settled."""
        direction = burst.direction
        self.frames += burst.frames
        connection.frames[direction] += burst.frames
        connection.bytes[direction] += burst.size
        connection.last_ns = self.last_ns = stream.last_ns = stream.last_item_ns = burst.last_ns
        connection.heard_ns[direction] = burst.last_ns
        for opcode, frames, _ in burst.kinds:
            stream.counts[opcode - FIRST] += frames
        stream.size += burst.size
        stream.last_seqno = stream.last = burst.last_seqno
        stream.last_frame = burst.first + burst.frames - 1
        stream.items += burst.frames
        stream.items_since_marker += burst.frames
        stream.reached = max(stream.reached, burst.high_seqno)
        if stream.oso:
            stream.oso_high = max(stream.oso_high, burst.high_seqno)
        if stream.high_seqno is None:
            stream.first_seqno, stream.high_seqno = burst.first_seqno, burst.high_seqno
        elif burst.high_seqno > stream.high_seqno:
            stream.high_seqno = burst.high_seqno
        if stream.snapshot is not None:
            stream.snapshot.items += burst.frames
        if burst.close is not None and connection.closely and stream.marker and not stream.marker.flags & DUPLICATES:
            stream.keys.update(zip(burst.close.keys, burst.close.seqnos, strict=True))
        with_ids = burst.frames if burst.stream_id else 0
        connection.window.sends_burst(burst.kinds, with_ids, burst.first_ns, burst.last_ns)

    def lose(self, number: int, direction: int, length: int | None, ts_ns: int | None) -> None:
        """Take it that bytes were lost, and that no frame followed."""
        connection = self.connections.get(number)
        if connection is not None:
            connection.lose(direction, length or UNKNOWN_LOSS, ts_ns)

    def end(self, number: int, direction: int, reason: str, ts_ns: int | None) -> None:
        """Note who ended a TCP connection: the sender of what came first, of either direction."""
        connection = self.connections.get(number)
        if connection is None:
            return
        before = connection.ended_ns
        connection.closed_by[direction] |= reason == "fin"
        if connection.ended_by is None or (before is not None and ts_ns is not None and ts_ns < before):
            connection.ended_by, connection.end_reason, connection.ended_ns = direction, reason, ts_ns
            if ts_ns is not None and (self.last_ns is None or ts_ns > self.last_ns):
                self.last_ns = ts_ns

    def watched(self, *, alone: bool) -> dict[int, WatchedUntil]:
        """Return until when connections were watched, by their numbers.

        ``alone``: the input is one capture, so that its end is the end of all that had not ended before. Of several,
        each may be of another place, and tells nothing of what is in the others.
        """
        return {
            each.number: WatchedUntil(
                self.last_ns if each.ended_by is None and alone else each.ended_ns, each.ended_by is not None
            )
            for each in self.connections.values()
        }

    def close(self, last_ns: int | None = None) -> list[Stream]:
        """End the input, and return all streams. ``last_ns``: when the capture ended, if after its last frame."""
        if last_ns is not None:
            self.last_ns = last_ns if self.last_ns is None else max(last_ns, self.last_ns)
        for connection in self.connections.values():
            for stream in connection.streams:
                feeder = connection.feeder
                if feeder is not None and not stream.ended and stream.losses != connection.losses[feeder]:
                    stream.lose(feeder)
            doubt(connection)
            connection.identity = identify(connection)
        infer(self.connections.values())
        self.logs.close(self.connections.values())
        return self.streams

    def learn(self, connection: ConnectionState, sight: FrameEvent) -> Stream | None:
        """Learn a frame that is no message of a stream, and return the stream that it is about."""
        if sight.server:  # pushes and their answers: only a server sends the first, only a client the others
            if connection.server is None and not sight.weak:
                connection.server = 1 - sight.direction if sight.response else sight.direction
            return None
        if sight.response:
            return take_answer(connection, sight, self.logs, self.streams)
        return self._request(connection, sight)

    def _request(self, connection: ConnectionState, sight: FrameEvent) -> Stream | None:
        opcode, direction = sight.opcode, sight.direction
        if COUNTED[opcode]:
            return None  # it travels against the roles of the ends
        if connection.server is None and not sight.weak:
            connection.server = server_by(opcode, direction, response=False)
        if connection.feeder is None:
            if opcode in _BY_FEEDER:
                connection.feeder = direction
            elif opcode in _BY_TAKER:
                connection.feeder = 1 - direction
        if opcode == BUFFER_ACK:
            if sight.fields and sight.fields[0] is not None:
                connection.window.acknowledges(sight.fields[0], sight.ts_ns)
            return None
        if opcode == NOOP:
            keep_alive(connection, sight)
        learn = REQUESTS.get(opcode)
        if learn is not None:
            learn(connection, sight)
        known = None
        if find(opcode).replies:
            waiting, early = await_answer(connection, sight)
            if opcode == STREAM_REQ:
                known = asked(connection, sight, waiting, early)
                if len(known.requests) == 1 and not known.last_frame:  # or else it goes on
                    connection.streams.append(known)
                    self.streams.append(known)
            if early is not None:
                learn_answer(connection, early, waiting, self.logs, self.streams)
        if known is None:
            connection.replicates |= opcode == SEQNO_ACK
            known = connection.current.get(sight.word << 16 | sight.stream_id)
            if known is not None and opcode == CLOSE_STREAM:
                closing(known, sight)
            elif known is not None and opcode == SEQNO_ACK and sight.fields and sight.fields[0] is not None:
                known.acknowledge(sight.fields[0])
            else:
                return None
        return known
