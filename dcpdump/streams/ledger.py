"""Ledger: events in, connections and their streams out. It never guesses: what was not captured stays None.

Code that needs a frame before it is learnt calls the steps of ``feed``: ``arrive``, and ``learn`` or ``learn_message``.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from dcpdump.record import Direction
from dcpdump.spec import find
from dcpdump.spec.names import ACKNOWLEDGE, CACHE_TRANSFER, CLOSED, DISK, DUPLICATES, HISTORY
from dcpdump.spec.statuses import SUCCESS
from dcpdump.streams import opcode_kinds as kinds
from dcpdump.streams.exchanges import UnansweredRequest
from dcpdump.streams.failover_logs import Logs
from dcpdump.streams.frame_event import Before, DocumentRun, FrameEvent, Step, stream_key
from dcpdump.streams.identity import identify, infer, replicates, server_by
from dcpdump.streams.learning import (
    LEARN,
    answered,
    asked,
    begin_snapshot,
    closed,
    is_key_cut,
    learn_keys,
    learn_keys_of_run,
    mark_ambiguous,
    request_of,
    set_apart,
)
from dcpdump.streams.phases import Phase
from dcpdump.streams.setup import ANSWERS, REQUESTS, begin_direction, keep_alive, waiting_for
from dcpdump.streams.state import ConnectionState, Memory, Turns
from dcpdump.streams.stream import NOT_YET, ErrorReply, Stream
from dcpdump.streams.window import COUNTED

# -- to which stream of its connection a message belongs, by vbucket, stream id and opaque ------------


class StreamAddress(NamedTuple):
    """Where a message of a stream belongs."""

    stream: Stream | None  #: None: to none that is known
    begins: bool = False  #: it is the first that was captured of its stream
    stray: Stream | None = None  #: where opaque, vbucket and stream id are not of one stream: that with its opaque
    outside: bool = False  #: it is in no snapshot of its stream, or past the stream's end


def simply(connection: ConnectionState, frame: FrameEvent) -> Stream | None:
    """Return the stream that a message simply continues; None where that is not obvious."""
    stream = connection.stream_of(frame)
    if stream is None or not stream.in_order or stream.opaque != frame.opaque or stream.is_behind(frame.direction):
        return None
    return stream


def find_address(connection: ConnectionState, frame: FrameEvent) -> StreamAddress:
    """Find the stream of a message that is not simply the next of one."""
    opaque = frame.opaque
    known = connection.stream_of(frame)
    other = connection.lookup.by_opaque.get(opaque)
    if other is not None and (other.vbucket, other.stream_id) == (frame.vbucket, frame.stream_id):
        if known is None or known.opaque != opaque or (not known.is_sending and other.closed and other.end is None):
            known = other  # of a stream that was closed and requested again, messages may trail in
    elif other is not None and other.vbucket == frame.vbucket and known is None and _may_have(other, frame):
        known = other
    if known is not None and known.is_sending and known.opaque in (None, opaque):
        request = known.request
        unsure = known.is_behind(frame.direction) or (request is not None and request.ambiguous)
        owed = frame.opcode == kinds.STREAM_END and known.end is None and frame.get("status") == CLOSED
        if known.ended and unsure and not owed:
            return StreamAddress(None, True)  # its request, or the answer, may be among what was lost
        early = connection.exchanges.early(1 - frame.direction, kinds.STREAM_REQ, opaque) if known.closing else ()
        if any(each.answer.status == SUCCESS for each in early):
            return StreamAddress(None, True)  # it was requested again, which is captured a little later
        outside = not known.in_order and (frame.opcode not in (kinds.MARKER, kinds.OSO) or not known.live)
        return StreamAddress(known, outside=outside)
    if any(connection.exchanges.early(1 - frame.direction, kinds.STREAM_REQ, opaque)):
        return StreamAddress(None, True)  # it was granted, and its request is captured a little later
    stray = other or connection.no_stream
    if other is not None and connection.doubtful:  # streams whose requests were not captured may have one opaque
        connection.lookup.share(opaque)
        return StreamAddress(None, True)
    waits = known is not None and known.requests and not known.granted
    if waits and known is not None and known.opaque == opaque and known.requests[-1].status is None:
        return StreamAddress(known, stray=stray)  # the answer was not captured
    if connection.doubtful or (known is None and other is None):
        return StreamAddress(None, True, stray)
    if waits:
        return StreamAddress(known, stray=stray)
    return StreamAddress(
        next((each for each in (known, other) if each is not None and each.fits(frame)), None), stray=stray
    )


def _may_have(stream: Stream, frame: FrameEvent) -> bool:
    """Return whether a stream may have the stream id of a message: its request's could not be read."""
    request = stream.request
    if stream.seqnos.high is not None or request is None or request.readable:
        return stream.doubtful
    stream.stream_id = frame.stream_id
    stream.connection.lookup.current[stream_key(frame.vbucket, frame.stream_id)] = stream
    return True


# -- joins --------------------------------------------------------------------------------------------
# Whether a stream continues, after lost bytes of its direction, just where it was before them.
#
# The messages of a stream come in the order of their seqnos, and its snapshots follow one another without overlap. So
# nothing of it can have been among the lost bytes where the next message
#
# - has the seqno behind the last one, inside the same snapshot;
# - has the first seqno that the snapshot at hand can have, where none of that snapshot came before;
# - is a marker that starts behind the end of the snapshot before it, which was reached;
# - is the marker of its first snapshot, which starts at the seqno that was requested, or below;
# - is STREAM_END behind the last seqno that was requested, unless the server puts another in its place.
#
# What has no seqno of its own may come between two snapshots: states of a takeover, and cached documents before the
# first; and with change streams, a disk snapshot may have a second marker, with the same range. Of seqnos that are
# missing inside a snapshot nothing can be known: a later version of the document replaced them, another collection has
# them, or they were lost.

_HAS_HISTORY = HISTORY | DUPLICATES  #: of a marker's flags


def continues_without_gap(stream: Stream, frame: FrameEvent) -> bool:
    """Return whether nothing of a stream can have been lost between its last message and this one."""
    if frame.opcode == kinds.MARKER:
        start, flags = frame.get("start_seqno"), frame.get("snapshot_type")
        return not frame.weak and start is not None and marker_continues(stream, start, flags or 0)
    if frame.weak or not stream.rises or _has_two_markers(stream):
        return False
    if frame.opcode == kinds.STREAM_END:
        return _end_continues(stream)
    if frame.seqno is None or not stream.ordered or stream.snapshot is None:
        return False
    snapshot, last = stream.snapshot, stream.seqnos.last
    if not stream.seqnos.since_marker:
        before = _asked(stream) if last is None else last
        last = max(snapshot.start - 1, -1 if before is None else before)
    return last is not None and frame.seqno == last + 1 and frame.seqno <= snapshot.end


def _has_two_markers(stream: Stream) -> bool:
    """Return whether there may be another marker with the same range: for a part without history, or with it."""
    on_disk = stream.snapshot is not None and bool(stream.snapshot.flags & DISK)
    connection = stream.connection
    consumer = connection.sides[1 - (connection.producer_direction or 0)]
    if not on_disk or connection.opening_missing or NOT_YET < consumer.first_lost_at <= stream.begun_at:
        return on_disk  # the control may be among what was not captured
    control = connection.setup.controls.get("change_streams")
    return control is not None and control.status in (None, SUCCESS) and control.value == "true"


def marker_continues(stream: Stream, start: int, flags: int) -> bool:
    """Return whether nothing of a stream can have been lost before the marker of a snapshot."""
    may_be_second = flags & DISK and flags & _HAS_HISTORY
    if may_be_second or not stream.rises or stream.takeover:
        return False
    if not stream.traffic.any:
        asked = _asked(stream)
        return asked is not None and start <= asked + 1 and not stream.flags & CACHE_TRANSFER
    snapshot = stream.snapshot
    return snapshot is not None and stream.ordered and stream.seqnos.last == snapshot.end and start == snapshot.end + 1


def _end_continues(stream: Stream) -> bool:
    end = stream.request.fixed_end if stream.request is not None else None
    if end is None or stream.takeover or not stream.ordered or stream.seqnos.last is None:
        return False
    return stream.seqnos.last >= end


def _asked(stream: Stream) -> int | None:
    """Return the seqno from which a stream was requested, where its beginning was captured."""
    return stream.request.start_seqno if stream.begin_captured and stream.request is not None else None


# -- answers ------------------------------------------------------------------------------------------
# Awaited, paired with their requests, and what they teach of a connection, its streams and its server.

#: How many errors of a consumer are remembered for a stream.
_ERROR_REPLIES = 16
_FAILOVER_LOGS = (kinds.FAILOVER_LOG, kinds.FAILOVER_LOG_OLD)


def await_answer(connection: ConnectionState, frame: FrameEvent) -> tuple[UnansweredRequest, FrameEvent | None]:
    """Remember a request that is answered. The second result is its answer, where that was captured before it."""
    waiting = waiting_for(frame, connection)
    if frame.opcode == kinds.STREAM_REQ:
        waiting.request = request_of(frame)
    starts_late = connection.starts_late or (
        frame.opcode == kinds.STREAM_REQ and connection.has_gaps and connection.lookup.shares(frame.opaque)
    )
    return waiting, connection.exchanges.ask(waiting, connection.frames, starts_late=starts_late)


def learn_answer(
    connection: ConnectionState, frame: FrameEvent, waiting: UnansweredRequest | None, logs: Logs, streams: list[Stream]
) -> Stream | None:
    """Learn an answer to a request, and return the stream that it is about.

    ``logs``: learn what the server has; ``streams``: all streams, to which one is added where an answer begins it.
    """
    opcode = frame.opcode
    learn = ANSWERS.get(opcode)
    if learn is not None:
        learn(connection, frame, waiting)
    if opcode == kinds.STREAM_REQ:
        return _answer_to_request(connection, frame, waiting, logs, streams)
    if opcode in _FAILOVER_LOGS and waiting is not None:
        logs.learn_log(connection, waiting.frame.vbucket, frame)
    if opcode == kinds.CLOSE_STREAM and waiting is not None:
        stream = connection.stream_of(waiting.frame)
        while stream is not None and (before := stream.before) and before.end and before.end.frame > frame.number:
            stream = before  # the one that follows it began behind an answer that was captured early
        if stream is not None:
            closed(stream, frame)
        return stream
    if opcode in (kinds.ALL_SEQNOS, kinds.OBSERVE):
        logs.learn_highs(connection, frame, waiting)
        return None
    if opcode == kinds.STAT:
        logs.learn_stat(connection, frame)
        return None
    if not COUNTED[opcode]:
        return None
    return _answer_to_message(connection, frame, waiting)


def _answer_to_request(
    connection: ConnectionState, frame: FrameEvent, waiting: UnansweredRequest | None, logs: Logs, streams: list[Stream]
) -> Stream | None:
    """Learn what a producer answers to a stream request."""
    if connection.producer_direction is None:
        connection.producer_direction = frame.direction
    connection.window.counted.answers += frame.length
    if waiting is not None and frame.status == SUCCESS:
        later = set_apart(connection, waiting)
        if later is not None:
            connection.streams.append(later)
            streams.append(later)
    stream = answered(connection, frame, waiting)
    if stream is not None:
        logs.learn_log(connection, stream.vbucket, frame)
    return stream


def _answer_to_message(
    connection: ConnectionState, frame: FrameEvent, waiting: UnansweredRequest | None
) -> Stream | None:
    """Learn what a consumer answers to a message of a stream."""
    opcode = frame.opcode
    if opcode == kinds.MARKER and frame.direction == connection.producer_direction:
        return None
    if opcode == kinds.SET_STATE and waiting is not None and waiting.stream is not None:
        waiting.stream.own_acks().acknowledge_state(frame)
    stream = connection.lookup.by_opaque.get(frame.opaque)
    if stream is None:
        requested = connection.exchanges.by_key.get((frame.direction, kinds.STREAM_REQ, frame.opaque))
        if opcode == kinds.MARKER and not frame.status and requested and requested[0].stream is not None:
            requested[0].stream.own_acks().acknowledge_early(frame)  # it is captured before the grant, and the marker
        return None
    if connection.lookup.shares(frame.opaque):
        return None  # of which of them it is is unknown
    if opcode == kinds.MARKER:
        if stream.snapshot is not None:
            stream.snapshot.acked, stream.snapshot.acked_ns = True, frame.ts_ns
        stream.own_acks().acknowledge(frame)
    if frame.status and len(stream.error_replies) < _ERROR_REPLIES:
        stream.error_replies += (ErrorReply(opcode, frame.status, frame.number, frame.ts_ns),)
    return stream


# -- conclusions: what was learnt, so that it can be judged at the end or before ----------------------


def conclude(connection: ConnectionState, streams: Iterable[Stream]) -> None:
    """Have streams of a connection know what was lost since their last messages, and which answers are in doubt."""
    if connection.carved:
        connection.leave_out()
    producer_direction, mine = connection.producer_direction, list(streams)
    for stream in mine:
        if producer_direction is not None and not stream.ended and stream.is_behind(producer_direction):
            stream.lose(producer_direction)
    mark_ambiguous(connection, mine)


def compare(connections: Collection[ConnectionState], logs: Logs) -> None:
    """Have connections know which consumers, servers and buckets they are of."""
    for connection in connections:
        connection.identity = identify(connection)
    infer(connections)
    logs.close(connections)


#: What only the side with the changes sends, and what only the side that wants them sends.
_BY_PRODUCER, _BY_CONSUMER = kinds.STREAMED | {kinds.NOOP, kinds.ADD_STREAM}, kinds.WANTED


#: Flags of snapshots in which single documents settle something: without open prepares, and with them.
_SETTLED = (ACKNOWLEDGE, ACKNOWLEDGE | DISK)


class Ledger:
    """Feed it every frame, in order; then close it. ``with_rules``: keep what only the rules of ``check`` ask for."""

    def __init__(self, *, with_rules: bool = False) -> None:
        self.connections: dict[int, ConnectionState] = {}
        self.streams: list[Stream] = []  #: in the order in which they were first seen
        self.logs = Logs()
        self.memory = Memory()  #: across connections
        self.evicted = 0  #: connections that were forgotten to bound memory
        self.evicted_streams = 0  #: streams that were forgotten
        self.evicted_bytes = 0  #: of their frames
        self.evicted_lost_ns = 0  #: when bytes of one of those were lost last
        self.frames = 0
        self.single_capture = True  #: up to whose end each connection was watched that had not ended
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._with_rules = with_rules

    @property
    def stream_count(self) -> int:
        """How many streams there were, with those that were evicted."""
        return len(self.streams) + self.evicted_streams

    def note_addresses(self, direction: Direction) -> None:
        """Note who the ends of a connection are."""
        connection = self._connection(direction.connection)
        if not connection.src:
            src, dst = (direction.src, direction.dst) if direction.side == 0 else (direction.dst, direction.src)
            connection.src, connection.dst, connection.syn = src, dst, direction.syn
            if direction.carved:
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
            address = find_address(connection, frame)
            stream = self.begin(connection, frame) if address.begins else address.stream
        return self.learn_message(connection, frame, stream)

    def _connection(self, number: int) -> ConnectionState:
        connection = self.connections.get(number)
        if connection is None:
            connection = self.connections[number] = ConnectionState(
                number, with_rules=self._with_rules, memory=self.memory
            )
        return connection

    def arrive(self, frame: FrameEvent) -> ConnectionState:
        """Count the next frame and what was lost before it, and return its connection."""
        connection = self.connections.get(frame.connection) or self._connection(frame.connection)
        direction, ts_ns = frame.direction, frame.ts_ns
        side = connection.sides[direction]
        self.frames += 1
        if not side.frames:
            begin_direction(connection, frame)
        side.frames += 1
        side.bytes += frame.length
        if ts_ns is not None:
            connection.last_ns = self.last_ns = side.latest_ns = ts_ns
            if connection.first_ns is None:
                connection.first_ns = ts_ns
                if self.first_ns is None:
                    self.first_ns = ts_ns
        if frame.before is not None:
            connection.lose(direction, frame.before, ts_ns, frame.number)
        if frame.record is not None and frame.record.names is not None:
            connection.collection_names = frame.record.names
        if not frame.complete:
            connection.miss(frame)
        return connection

    def is_message(self, connection: ConnectionState, frame: FrameEvent) -> bool:
        """Return whether a frame is a message of a stream, from the end that has the changes."""
        if frame.response or frame.server or not COUNTED[frame.opcode]:
            return False
        if connection.producer_direction is None:
            connection.producer_direction = frame.direction
        return connection.producer_direction == frame.direction

    def begin(self, connection: ConnectionState, frame: FrameEvent) -> Stream:
        """Begin a stream with a message of it, as its request was not captured."""
        key = stream_key(frame.vbucket, frame.stream_id)
        before = connection.lookup.current.get(key)
        begun = Stream(connection, frame.vbucket, frame.stream_id)
        begun.opaque, begun.phase = frame.opaque, Phase.UNKNOWN
        begun.traffic.first_ns = frame.ts_ns
        begun.begun_at = connection.frames
        begun.know(frame.direction)
        if before is None or before.doubtful or not before.live:  # or else it may be an earlier one that trails in
            begun.follow(before)
            connection.lookup.current[key] = begun
        connection.lookup.by_opaque[frame.opaque] = begun
        connection.streams.append(begun)
        self.streams.append(begun)
        return begun

    def notice(self, frame: FrameEvent, stream: Stream) -> None:
        """Have a stream notice what was lost before a message of it."""
        if stream.is_behind(frame.direction):
            stream.lose(frame.direction, continues_without_gap=continues_without_gap(stream, frame))

    def learn_message(self, connection: ConnectionState, frame: FrameEvent, stream: Stream | None) -> Stream | None:
        """Learn a message of a stream; None: it is of none, and only counts for flow control."""
        ts_ns, opcode, length = frame.ts_ns, frame.opcode, frame.length
        window, turns = connection.window, connection.turns
        if frame.seqno is not None:
            turns.pause(window.last_sent_ns, ts_ns)
        window.sends(opcode, length, frame.stream_id, ts_ns)
        if stream is None:
            return None
        if stream.closed or stream.close_asked:  # its consumer may have forgotten it
            window.counted.closing += length
            window.counted.closed += length * stream.closed
        self.notice(frame, stream)
        stream.traffic.add(((opcode, 1, length),), length, ts_ns, frame.number)
        if stream.opaque is None:
            stream.opaque = frame.opaque
        if stream.ended and stream.end is not None and stream.ordered:
            return stream
        seqno, marker = frame.seqno, stream.marker
        if seqno is not None:
            stream.add_items(seqno, seqno, seqno, 1, ts_ns)
            if marker is not None and marker.flags & ACKNOWLEDGE and seqno == marker.end:
                stream.own_acks().expect(frame)
            if connection.with_rules and opcode in kinds.KEYED and stream.has_key_once:
                learn_keys(stream, frame)
        elif opcode == kinds.SET_STATE:
            waiting, early = await_answer(connection, frame)
            waiting.stream = stream
            if early is not None:
                stream.own_acks().acknowledge_state(early)
        learn = LEARN.get(opcode)
        if learn is not None:
            learn(stream, frame)
            if opcode == kinds.MARKER:
                self.logs.learn_purge(stream, frame)
        if opcode == kinds.STREAM_END and stream.requests and stream.requests[-1].status is None:
            connection.exchanges.give_up(stream.requests[-1])  # its answer comes before all messages
        if turns.served is not stream:
            turns.serve(stream)
        if not frame.complete:
            stream.forget()
            stream.gaps = stream.gaps._replace(cut=stream.gaps.cut + is_key_cut(frame))
            if seqno is None and opcode in kinds.SEQUENCED:
                stream.gaps = stream.gaps._replace(seqno=stream.seqnos.last)
        return stream

    def feed_step(self, step: Step) -> None:
        """Take the next frame, or documents of one stream."""
        if isinstance(step, DocumentRun):
            self.feed_run(step)
        else:
            self.feed(step)

    def feed_run(self, run: DocumentRun) -> None:
        """Take documents of one stream. Where they are not simply its next, they are taken one by one."""
        stream = self.stream_of_run(run)
        if stream is not None:
            self.learn_run(run, stream)
            return
        for frame in run.each():
            self.feed(frame)

    def stream_of_run(self, run: DocumentRun) -> Stream | None:
        """Return the stream that documents simply continue; None where they have to be taken one by one."""
        number, direction, vbucket, opaque, stream_id, size = run[2:8]  # at once: each by its name would be a call
        connection, begun = self.connections.get(number), run.snapshot
        stream = None if connection is None else connection.lookup.current.get(stream_key(vbucket, stream_id))
        if connection is None or stream is None:
            return None
        marker, lost = begun or stream.marker, stream.is_behind(direction)
        if (
            connection.first_ns is None
            or connection.producer_direction != direction
            or stream.opaque != opaque
            or stream.end is not None
            or stream.close is not None
            or stream.close_asked
            or not stream.is_sending
            or (stream.phase is Phase.OUT_OF_ORDER and connection.with_rules)
            or (lost and begun is None)
            or connection.window.needs_each(size)
            or (marker is not None and marker.flags & _SETTLED[bool(stream.prepares.open)])
            or (connection.with_rules and run.close is None)
            or ((lost or not stream.in_order) and stream.closing)
        ):
            return None
        return stream

    def learn_run(self, run: DocumentRun, stream: Stream) -> None:
        """Learn documents that are simply the next of a stream, in whose snapshot nothing waits to be settled."""
        connection = stream.connection
        first, frames, _, direction, _, _, stream_id, size, first_ns, last_ns = run[:10]
        first_seqno, last_seqno, high_seqno, messages, pause_ns, _, close, begun = run[10:]
        self.frames += frames
        side, window, turns = connection.sides[direction], connection.window, connection.turns
        side.frames += frames
        side.bytes += size
        connection.last_ns = self.last_ns = side.latest_ns = last_ns
        if begun is not None:
            if stream.is_behind(direction):
                stream.lose(direction, continues_without_gap=marker_continues(stream, begun.start, begun.flags))
            begin_snapshot(stream, begun)
            begun.at -= frames - 1  # its marker is the first of them
        stream.traffic.add(messages, size, last_ns, first + frames - 1)
        documents = frames if begun is None else frames - 1
        stream.add_items(first_seqno, last_seqno, high_seqno, documents, last_ns)
        if close is not None and connection.with_rules and stream.has_key_once:
            learn_keys_of_run(stream, close)
        turns.pause(window.last_sent_ns if begun is None else None, first_ns, pause_ns)
        if turns.served is not stream:
            turns.serve(stream)
        window.sends_run(messages, frames if stream_id else 0, first_ns, last_ns)

    def lose(self, number: int, direction: int, before: Before, ts_ns: int | None) -> None:
        """Note that bytes were lost, and that no frame followed."""
        connection = self.connections.get(number)
        if connection is not None:
            connection.lose(direction, before, ts_ns)

    def end(self, number: int, direction: int, reason: str, ts_ns: int | None) -> None:
        """Note who ended a TCP connection: the sender of what came first, of either direction."""
        connection = self.connections.get(number)
        if connection is None:
            return
        if reason != "fin" or connection.both_closed:
            for stream in connection.streams:
                stream.forget_keys()
        before = connection.end.ts_ns
        if reason == "fin":
            connection.sides[direction].closed = True
        if connection.end.by is None or (before is not None and ts_ns is not None and ts_ns < before):
            connection.end.by, connection.end.reason, connection.end.ts_ns = direction, reason, ts_ns
            if ts_ns is not None and (self.last_ns is None or ts_ns > self.last_ns):
                self.last_ns = ts_ns

    def evict(self, connection: ConnectionState) -> None:
        """Forget a connection that is over and has no streams left, and count it."""
        self.evicted += 1
        self.evicted_bytes += connection.bytes
        self.evicted_lost_ns = max(self.evicted_lost_ns, connection.last_loss_ns)
        self.forget(connection)

    def evict_streams(self, streams: Sequence[Stream]) -> None:
        """Forget streams. A later request in their place begins a new one."""
        gone = set(streams)
        for connection in {stream.connection for stream in streams}:
            before = len(connection.streams)
            connection.replicates = replicates(connection)
            connection.streams = [each for each in connection.streams if each not in gone]
            connection.evicted += before - len(connection.streams)
            for key in [key for key, each in connection.lookup.current.items() if each in gone]:
                del connection.lookup.current[key]
            for opaque in [opaque for opaque, each in connection.lookup.by_opaque.items() if each in gone]:
                del connection.lookup.by_opaque[opaque]
            for each in connection.lookup.current.values():
                if each.duplicate in gone:
                    each.duplicate = None
        for stream in streams:
            producing = stream.connection.setup.bucket or "", stream.vbucket
            if self.memory.producing.get(producing) is stream:
                del self.memory.producing[producing]
            _unlink(stream)
        self.streams = [each for each in self.streams if each not in gone]
        self.evicted_streams += len(gone)

    def forget(self, connection: ConnectionState) -> None:
        """Forget a connection that is over, but for its streams."""
        del self.connections[connection.number]
        if connection.setup.client_key is not None and self.memory.names.get(connection.setup.client_key) is connection:
            del self.memory.names[connection.setup.client_key]
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
        opcode, direction = frame.opcode, frame.direction
        if frame.server:  # pushes and their answers: only a server sends the first, only a client the others
            if connection.server is None and not frame.weak:
                connection.server = 1 - direction if frame.response else direction
            return None
        if connection.server is None and not frame.weak and (frame.response or not COUNTED[opcode]):
            connection.server = server_by(opcode, direction, response=frame.response)
        message = find(opcode)
        connection.setup.speaks_dcp |= message.dcp
        if not frame.response:
            return self._request(connection, frame)
        waiting = None
        if message.replies:
            waiting = connection.exchanges.answer(frame, connection.frames, starts_late=connection.starts_late)
        return learn_answer(connection, frame, waiting, self.logs, self.streams)

    def _request(self, connection: ConnectionState, frame: FrameEvent) -> Stream | None:
        opcode, direction = frame.opcode, frame.direction
        if COUNTED[opcode]:
            return None  # it travels against the roles of the ends
        if connection.producer_direction is None:
            if opcode in _BY_PRODUCER:
                connection.producer_direction = direction
            elif opcode in _BY_CONSUMER:
                connection.producer_direction = 1 - direction
        if opcode == kinds.BUFFER_ACK:
            if frame.fields and frame.fields[0] is not None:
                named, received = frame if connection.with_rules else None, connection.sides[1 - direction].bytes
                connection.window.acknowledges(frame.fields[0], frame.ts_ns, named, received)
            return None
        if opcode == kinds.NOOP:
            keep_alive(connection, frame, asks=direction == connection.producer_direction)
        learn = REQUESTS.get(opcode)
        if learn is not None:
            learn(connection, frame)
        known = early = None
        if find(opcode).replies:
            waiting, early = await_answer(connection, frame)
            if opcode == kinds.STREAM_REQ:
                known = asked(connection, frame, waiting, early)
                if len(known.requests) == 1 and not known.traffic.last_frame:  # or else it goes on
                    connection.streams.append(known)
                    self.streams.append(known)
            if early is not None:
                learn_answer(connection, early, waiting, self.logs, self.streams)
        if known is None:
            connection.replicates |= opcode == kinds.SEQNO_ACK
            known = connection.stream_of(frame)
            if known is not None and opcode == kinds.CLOSE_STREAM:
                known.close_asked = early is None
            elif known is not None and opcode == kinds.SEQNO_ACK and frame.fields and frame.fields[0] is not None:
                known.acknowledge(frame.fields[0])
            else:
                return None
        return known


def _unlink(stream: Stream) -> None:
    """Have a stream keep neither keys nor other streams in memory."""
    stream.forget_keys()
    stream.before = stream.next = stream.duplicate = None
    for request in stream.requests:
        request.still_open = None
