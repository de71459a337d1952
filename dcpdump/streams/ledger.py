"""Ledger: events in, connections and their streams out. It never guesses: what was not captured stays None.

Whoever has to look at a frame before it is learnt goes by the steps of ``feed``: ``arrive``, ``place``, ``learn``.
"""

from dcpdump.batch.ends import Ends
from dcpdump.spec import find
from dcpdump.spec.names import ACKNOWLEDGE, DISK, DUPLICATES
from dcpdump.streams.addressing import find_place, simply
from dcpdump.streams.answers import acknowledge_state, await_answer, learn_answer, take_answer
from dcpdump.streams.conclusion import compare, conclude
from dcpdump.streams.counted import COUNTED, FIRST
from dcpdump.streams.document_run import DocumentRun
from dcpdump.streams.failover_logs import Logs
from dcpdump.streams.frame_event import Before, FrameEvent
from dcpdump.streams.joins import joins, marker_joins
from dcpdump.streams.key_memory import KeyMemory
from dcpdump.streams.messages import KEYED, LEARN, is_key_cut, learn_documents, learn_keys
from dcpdump.streams.opcode_kinds import (
    ADD_STREAM,
    BUFFER_ACK,
    CLOSE_STREAM,
    MARKER,
    NOOP,
    SEQNO_ACK,
    SEQUENCED,
    SET_STATE,
    STREAM_END,
    STREAM_REQ,
    WANTED,
)
from dcpdump.streams.requests import asked
from dcpdump.streams.roles import server_by
from dcpdump.streams.setup import REQUESTS, begin_direction, keep_alive
from dcpdump.streams.state import ConnectionState, replaced
from dcpdump.streams.stream import Stream
from dcpdump.streams.turns import Turns

#: What only the side with the changes sends, and what only the side that wants them sends.
_BY_FEEDER = frozenset(opcode for opcode in range(256) if COUNTED[opcode]) | {NOOP, ADD_STREAM}
_BY_TAKER = WANTED


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
        self.evicted = 0  #: connections that were forgotten to bound memory
        self.evicted_streams = 0  #: streams that were forgotten
        self.evicted_bytes = 0  #: of their frames
        self.evicted_lost_ns = 0  #: when bytes of one of those were lost last
        self.keys = KeyMemory()
        self.frames = 0
        self.alone = True  #: it is of one capture: up to whose end each connection was watched that had not ended
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._closely = closely

    @property
    def stream_count(self) -> int:
        """How many streams there were, with those that were evicted."""
        return len(self.streams) + self.evicted_streams

    def meet(self, ends: Ends) -> None:
        """Note who the ends of a connection are."""
        connection = self._connection(ends.connection)
        if not connection.src:
            src, dst = (ends.src, ends.dst) if ends.direction == 0 else (ends.dst, ends.src)
            connection.src, connection.dst, connection.syn = src, dst, ends.syn
            if ends.carved:
                connection.leave_out()

    def feed(self, frame: FrameEvent) -> Stream | None:
        """Take the next frame, and return the stream that it is of, if it is of one."""
        return self.learn_placed(self.arrive(frame), frame)

    def learn_placed(self, connection: ConnectionState, frame: FrameEvent) -> Stream | None:
        """Learn a frame of a connection, wherever it belongs there."""
        if not self.is_message(connection, frame):
            return self.learn(connection, frame)
        stream = simply(connection, frame)
        if stream is None:
            place = find_place(connection, frame)
            stream = self.begin(connection, frame) if place.begins else place.stream
        return self.learn_message(connection, frame, stream)

    def _connection(self, number: int) -> ConnectionState:
        connection = self.connections.get(number)
        if connection is None:
            connection = self.connections[number] = ConnectionState(
                number, closely=self._closely, names=self.names, producing=self.producing, key_memory=self.keys
            )
        return connection

    def arrive(self, frame: FrameEvent) -> ConnectionState:
        """Count the next frame and what was lost before it, and return its connection."""
        connection = self.connections.get(frame.connection) or self._connection(frame.connection)
        direction, ts_ns, frames = frame.direction, frame.ts_ns, connection.frames
        self.frames += 1
        if not frames[direction]:
            begin_direction(connection, frame)
        frames[direction] += 1
        connection.bytes[direction] += frame.length
        if ts_ns is not None:
            connection.last_ns = self.last_ns = connection.latest_ns[direction] = ts_ns
            if connection.first_ns is None:
                connection.first_ns = ts_ns
                if self.first_ns is None:
                    self.first_ns = ts_ns
        if frame.before is not None:
            connection.lose(direction, frame.before, ts_ns, frame.number)
        if frame.record is not None and frame.record.names is not None:
            connection.collection_names = frame.record.names
        if not frame.whole:
            connection.miss(frame)
        return connection

    def is_message(self, connection: ConnectionState, frame: FrameEvent) -> bool:
        """Return whether a frame is a message of a stream, from the end that has the changes."""
        if frame.response or frame.server or not COUNTED[frame.opcode]:
            return False
        if connection.feeder is None:
            connection.feeder = frame.direction
        return connection.feeder == frame.direction

    def begin(self, connection: ConnectionState, frame: FrameEvent) -> Stream:
        """Begin a stream with a message of it, as its request was not captured."""
        place = frame.word << 16 | frame.stream_id
        before = connection.current.get(place)
        begun = Stream(connection, frame.word, frame.stream_id)
        begun.opaque = frame.opaque
        begun.first_ns = frame.ts_ns
        begun.losses = connection.losses[frame.direction]
        begun.other_losses = connection.losses[1 - frame.direction]
        begun.missed_before = connection.missed[frame.direction]
        begun.holes = connection.holes
        if before is None or before.doubtful or not before.live:  # or else it may be an earlier one that trails in
            begun.follow(before)
            connection.current[place] = begun
        connection.by_opaque[frame.opaque] = begun
        connection.streams.append(begun)
        self.streams.append(begun)
        return begun

    def notice(self, connection: ConnectionState, frame: FrameEvent, stream: Stream) -> None:
        """Have a stream notice what was lost before a message of it."""
        if stream.losses != connection.losses[frame.direction]:
            stream.lose(frame.direction, joins=joins(stream, frame))

    def learn_message(self, connection: ConnectionState, frame: FrameEvent, stream: Stream | None) -> Stream | None:
        """Learn a message of a stream; None: it is of none, and only counts for flow control."""
        ts_ns, opcode, length = frame.ts_ns, frame.opcode, frame.length
        window, turns = connection.window, connection.turns
        sent_ns = window.last_sent_ns
        if sent_ns is not None and ts_ns is not None and ts_ns - sent_ns > turns.pause_ns and frame.seqno is not None:
            turns.pause_ns = ts_ns - sent_ns
        window.sends(opcode, length, frame.stream_id, ts_ns)
        if stream is None:
            return None
        if stream.closed or stream.close_asked:
            window.sends_behind_close(length, answered=stream.closed)
        self.notice(connection, frame, stream)
        stream.counts[opcode - FIRST] += 1
        stream.size += length
        stream.last_ns, stream.last_frame = ts_ns, frame.number
        if stream.opaque is None:
            stream.opaque = frame.opaque
        if stream.ended and stream.end_frame is not None and stream.ordered:
            return stream
        seqno = frame.seqno
        if seqno is not None:
            stream.last_seqno, stream.last_item_ns = seqno, ts_ns
            if stream.high_seqno is None:
                stream.first_seqno = stream.high_seqno = seqno
            elif seqno > stream.high_seqno:
                stream.high_seqno = seqno
            if stream.snapshot is not None:
                stream.snapshot.items += 1
            if connection.closely and opcode in KEYED and stream.marker and not stream.marker.flags & DUPLICATES:
                learn_keys(stream, frame)
        elif opcode == SET_STATE:
            waiting, early = await_answer(connection, frame)
            waiting.stream = stream
            if early is not None:
                acknowledge_state(stream, early)
        learn = LEARN[opcode]
        if learn is not None:
            learn(stream, frame)
            if opcode == MARKER:
                self.logs.learn_purge(stream, frame)
        if opcode == STREAM_END and stream.requests and stream.requests[-1].status is None:
            connection.exchanges.give_up(stream.requests[-1])  # its answer comes before all messages
        if seqno is not None:
            stream.item(frame, seqno)
        if turns.served is not stream:
            turns.serve(stream)
        if not frame.whole:
            stream.forget()
            stream.cut += is_key_cut(frame)
            if seqno is None and opcode in SEQUENCED:
                stream.lost_seqno = stream.last_seqno
        return stream

    def feed_run(self, run: DocumentRun) -> None:
        """Take documents of one stream. Where that is not simply its next, they are taken one by one."""
        number, direction, word, opaque, stream_id, size = run[2:8]  # at once: each by its name would be a call
        connection, begun = self.connections.get(number), run.snapshot
        stream = None if connection is None else connection.current.get(word << 16 | stream_id)
        marker = begun or (stream and stream.marker)
        lost = connection is not None and stream is not None and stream.losses != connection.losses[direction]
        if (
            connection is None
            or connection.first_ns is None
            or connection.feeder != direction
            or stream is None
            or stream.opaque != opaque
            or stream.ended
            or stream.close_asked
            or not stream.live
            or (stream.oso and connection.closely)
            or (lost and begun is None)
            or connection.window.needs_each(size)
            or (marker is not None and marker.flags & _SETTLED[bool(stream.prepares.open)])
            or (connection.closely and run.close is None)
            or ((lost or not stream.in_order) and stream.closing)
        ):
            for frame in run.each():
                self.feed(frame)
        else:
            if lost and begun is not None:
                stream.lose(direction, joins=marker_joins(stream, begun.start, begun.flags))
            self.learn_run(connection, run, stream)

    def learn_run(self, connection: ConnectionState, run: DocumentRun, stream: Stream) -> None:
        """Learn documents that are simply the next of a stream, in whose snapshot nothing waits to be settled."""
        _, frames, _, direction, _, _, stream_id, size, first_ns, last_ns, _, _, _, kinds, pause_ns, *_ = run
        self.frames += frames
        connection.frames[direction] += frames
        connection.bytes[direction] += size
        connection.last_ns = self.last_ns = connection.latest_ns[direction] = last_ns
        learn_documents(stream, run)
        window, turns = connection.window, connection.turns
        if run.snapshot is None and window.last_sent_ns is not None and first_ns - window.last_sent_ns > pause_ns:
            pause_ns = first_ns - window.last_sent_ns
        if pause_ns > turns.pause_ns:
            turns.pause_ns = pause_ns
        if turns.served is not stream:
            turns.serve(stream)
        window.sends_run(kinds, frames if stream_id else 0, first_ns, last_ns)

    def lose(self, number: int, direction: int, before: Before, ts_ns: int | None) -> None:
        """Take it that bytes were lost, and that no frame followed."""
        connection = self.connections.get(number)
        if connection is not None:
            connection.lose(direction, before, ts_ns)

    def end(self, number: int, direction: int, reason: str, ts_ns: int | None) -> None:
        """Note who ended a TCP connection: the sender of what came first, of either direction."""
        connection = self.connections.get(number)
        if connection is None:
            return
        if reason != "fin" or all(connection.closed_by):
            for stream in connection.streams:
                stream.forget_keys()
        before = connection.ended_ns
        if reason == "fin":
            connection.closed_by = replaced(connection.closed_by, direction, value=True)
        if connection.ended_by is None or (before is not None and ts_ns is not None and ts_ns < before):
            connection.ended_by, connection.end_reason, connection.ended_ns = direction, reason, ts_ns
            if ts_ns is not None and (self.last_ns is None or ts_ns > self.last_ns):
                self.last_ns = ts_ns

    def evict(self, connection: ConnectionState) -> None:
        """Forget a connection that is over and has no stream, or none any more, and remember that there was one."""
        self.evicted += 1
        self.evicted_bytes += sum(connection.bytes)
        self.evicted_lost_ns = max(self.evicted_lost_ns, connection.last_loss_ns)
        self.forget(connection)

    def forget(self, connection: ConnectionState) -> None:
        """Forget a connection that is over, but for its streams."""
        del self.connections[connection.number]
        if connection.place is not None and self.names.get(connection.place) is connection:
            del self.names[connection.place]
        self.logs.forget(connection)
        connection.turns = Turns()  # its streams refer to it
        connection.unlink()

    def close(self, last_ns: int | None = None) -> list[Stream]:
        """End the input, and return all streams. ``last_ns``: when the capture ended, if after its last frame."""
        if last_ns is not None:
            self.last_ns = last_ns if self.last_ns is None else max(last_ns, self.last_ns)
        for connection in self.connections.values():
            connection.exchanges.close()
            conclude(connection, connection.streams)
        compare(self.connections.values(), self.logs)
        return self.streams

    def learn(self, connection: ConnectionState, frame: FrameEvent) -> Stream | None:
        """Learn a frame that is not a message of a stream, and return the stream that it is about."""
        if frame.server:  # pushes and their answers: only a server sends the first, only a client the others
            if connection.server is None and not frame.weak:
                connection.server = 1 - frame.direction if frame.response else frame.direction
            return None
        if frame.response:
            return take_answer(connection, frame, self.logs, self.streams)
        return self._request(connection, frame)

    def _request(self, connection: ConnectionState, frame: FrameEvent) -> Stream | None:
        opcode, direction = frame.opcode, frame.direction
        if COUNTED[opcode]:
            return None  # it travels against the roles of the ends
        if connection.server is None and not frame.weak:
            connection.server = server_by(opcode, direction, response=False)
        if connection.feeder is None:
            if opcode in _BY_FEEDER:
                connection.feeder = direction
            elif opcode in _BY_TAKER:
                connection.feeder = 1 - direction
        if opcode == BUFFER_ACK:
            if frame.fields and frame.fields[0] is not None:
                named, received = frame if connection.closely else None, connection.bytes[1 - direction]
                connection.window.acknowledges(frame.fields[0], frame.ts_ns, named, received)
            return None
        if opcode == NOOP:
            keep_alive(connection, frame, asks=direction == connection.feeder)
        learn = REQUESTS.get(opcode)
        if learn is not None:
            learn(connection, frame)
        known = early = None
        if find(opcode).replies:
            waiting, early = await_answer(connection, frame)
            if opcode == STREAM_REQ:
                known = asked(connection, frame, waiting, early)
                if len(known.requests) == 1 and not known.last_frame:  # or else it goes on
                    connection.streams.append(known)
                    self.streams.append(known)
            if early is not None:
                learn_answer(connection, early, waiting, self.logs, self.streams)
        if known is None:
            connection.replicates |= opcode == SEQNO_ACK
            known = connection.current.get(frame.word << 16 | frame.stream_id)
            if known is not None and opcode == CLOSE_STREAM:
                known.close_asked = early is None
            elif known is not None and opcode == SEQNO_ACK and frame.fields and frame.fields[0] is not None:
                known.acknowledge(frame.fields[0])
            else:
                return None
        return known
