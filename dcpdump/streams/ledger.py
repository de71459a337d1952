"""Ledger: sights in, connections and their streams out. It never guesses: what was not witnessed stays None."""

from typing import NamedTuple

from dcpdump.spec import find
from dcpdump.streams.burst import Burst
from dcpdump.streams.facts import Complaint
from dcpdump.streams.logs import Logs
from dcpdump.streams.messages import LEARN
from dcpdump.streams.requests import answered, asked, closed, closing
from dcpdump.streams.setup import ANSWERS, REQUESTS, await_answer, keep_alive
from dcpdump.streams.sight import Sight
from dcpdump.streams.state import Connection, Stream
from dcpdump.streams.window import COUNTED, FIRST

_CLOSE_STREAM, _STREAM_REQ, _MARKER, _NOOP, _BUFFER_ACK, _SET_STATE, _SEQNO_ACK = (
    0x52,
    0x53,
    0x56,
    0x5C,
    0x5D,
    0x5B,
    0x61,
)
_COMPLAINTS = 16
_ALL_SEQNOS, _OBSERVE = 0x48, 0x91
_FAILOVER_LOGS = (0x54, 0x96)
#: What only the side with the changes sends, and what only the side that wants them sends.
_BY_FEEDER = frozenset(opcode for opcode in range(256) if COUNTED[opcode]) | {_NOOP, 0x51}
_BY_TAKER = frozenset({_STREAM_REQ, 0x54, _BUFFER_ACK, 0x5E, _SEQNO_ACK})


class Watched(NamedTuple):
    """Until when a connection was watched, as far as that is known, and whether it was gone then."""

    ts_ns: int | None
    gone: bool


class Ledger:
    """Feed it every frame, in order; then close it."""

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}
        self.streams: list[Stream] = []  #: in the order in which they were first seen
        self.logs = Logs()
        self.frames = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def meet(self, number: int, direction: int, src: str, dst: str) -> None:
        """It hears who the ends of a connection are."""
        connection = self.connections.get(number)
        if connection is None:
            connection = self.connections[number] = Connection(number)
        if not connection.src:
            connection.src, connection.dst = (src, dst) if direction == 0 else (dst, src)

    def feed(self, sight: Sight) -> Stream | None:
        """It takes the next frame, and gives the stream that it is of, if it is of one."""
        connection = self.connections.get(sight.connection)
        if connection is None:
            connection = self.connections[sight.connection] = Connection(sight.connection)
        direction, ts_ns, opcode, length = sight.direction, sight.ts_ns, sight.opcode, sight.length
        self.frames += 1
        connection.frames[direction] += 1
        connection.bytes[direction] += length
        if ts_ns is not None:
            connection.last_ns = self.last_ns = ts_ns
            if connection.first_ns is None:
                connection.first_ns = ts_ns
                if self.first_ns is None:
                    self.first_ns = ts_ns
        if sight.gap_before:
            self._lost(connection, direction, sight.gap_before, ts_ns)
        if sight.server:
            return None
        if sight.response:
            return self._answer(connection, sight)
        if not COUNTED[opcode]:
            return self._request(connection, sight)
        if connection.feeder is None:
            connection.feeder = direction
        stream = connection.current.get(sight.word << 16 | sight.stream_id)
        if stream is None or stream.opaque != sight.opaque or stream.end_frame is not None or not stream.alive:
            stream = self._stream(connection, sight)
        if stream.losses != connection.losses[direction]:
            stream.lose(direction)
        stream.counts[opcode - FIRST] += 1
        stream.size += length
        stream.last_ns = ts_ns
        seqno = sight.seqno
        if seqno is not None:
            stream.last_seqno, stream.last_item_ns = seqno, ts_ns
            if stream.high_seqno is None:
                stream.first_seqno = stream.high_seqno = seqno
            elif seqno > stream.high_seqno:
                stream.high_seqno = seqno
            if stream.snapshot is not None:
                stream.snapshot.items += 1
        learn = LEARN[opcode]
        if learn is not None:
            learn(stream, sight)
            if opcode == _MARKER:
                self.logs.learn_purge(stream, sight)
        connection.window.sends(opcode, length, sight.stream_id, ts_ns)
        return stream

    def feed_burst(self, burst: Burst) -> None:
        """It takes documents of one stream. Where that is not simply its next, it takes them one by one."""
        connection, direction = self.connections.get(burst.connection), burst.direction
        stream = None if connection is None else connection.current.get(burst.word << 16 | burst.stream_id)
        if (
            connection is None
            or connection.first_ns is None
            or connection.feeder is None
            or stream is None
            or stream.opaque != burst.opaque
            or stream.end_frame is not None
            or not stream.alive
            or stream.losses != connection.losses[direction]
            or connection.window.would_fill(burst.size)
        ):
            for sight in burst.each():
                self.feed(sight)
            return
        self.frames += burst.frames
        connection.frames[direction] += burst.frames
        connection.bytes[direction] += burst.size
        connection.last_ns = self.last_ns = stream.last_ns = stream.last_item_ns = burst.last_ns
        for opcode, frames, _ in burst.kinds:
            stream.counts[opcode - FIRST] += frames
        stream.size += burst.size
        stream.last_seqno = burst.last_seqno
        if stream.high_seqno is None:
            stream.first_seqno, stream.high_seqno = burst.first_seqno, burst.high_seqno
        elif burst.high_seqno > stream.high_seqno:
            stream.high_seqno = burst.high_seqno
        if stream.snapshot is not None:
            stream.snapshot.items += burst.frames
        connection.window.sends_burst(burst.kinds, burst.frames if burst.stream_id else 0)

    def lose(self, number: int, direction: int, length: int | None, ts_ns: int | None) -> None:
        """It hears of bytes that were lost, and that no frame followed."""
        connection = self.connections.get(number)
        if connection is not None:
            self._lost(connection, direction, length or -1, ts_ns)

    def end(self, number: int, direction: int, reason: str, ts_ns: int | None) -> None:
        """It hears that a direction of a TCP connection ended."""
        connection = self.connections.get(number)
        if connection is not None and connection.ended_by is None:
            connection.ended_by, connection.end_reason, connection.ended_ns = direction, reason, ts_ns
            if ts_ns is not None and (self.last_ns is None or ts_ns > self.last_ns):
                self.last_ns = ts_ns

    def watched(self, *, alone: bool) -> dict[int, Watched]:
        """It says until when connections were watched, by their numbers.

        ``alone``: the input is one capture, so that its end is the end of all that had not ended before. Of several,
        each may be of another place, and tells nothing of what is in the others.
        """
        return {
            each.number: Watched(
                self.last_ns if each.ended_by is None and alone else each.ended_ns, each.ended_by is not None
            )
            for each in self.connections.values()
        }

    def close(self, last_ns: int | None = None) -> list[Stream]:
        """It ends the input, and gives all streams. ``last_ns``: when the capture ended, if after its last frame."""
        if last_ns is not None:
            self.last_ns = last_ns if self.last_ns is None else max(last_ns, self.last_ns)
        for connection in self.connections.values():
            for stream in connection.streams:
                feeder = connection.feeder
                if feeder is not None and not stream.ended and stream.losses != connection.losses[feeder]:
                    stream.lose(feeder)
        self.logs.close(self.connections.values())
        return self.streams

    # -- what comes --------------------------------------------------------------------------------------

    def _lost(self, connection: Connection, direction: int, length: int, ts_ns: int | None) -> None:
        connection.losses[direction] += 1
        connection.lost_bytes[direction] += max(0, length)
        connection.lost_ns[direction] = ts_ns
        connection.window.complete = False

    def _request(self, connection: Connection, sight: Sight) -> Stream | None:
        opcode, direction = sight.opcode, sight.direction
        message = find(opcode)
        if connection.feeder is None:
            if opcode in _BY_FEEDER:
                connection.feeder = direction
            elif opcode in _BY_TAKER:
                connection.feeder = 1 - direction
        if opcode == _BUFFER_ACK:
            if sight.fields and sight.fields[0] is not None:
                connection.window.acknowledges(sight.fields[0], sight.ts_ns)
            return None
        if opcode == _NOOP:
            keep_alive(connection, sight)
        if message.replies:
            await_answer(connection, sight)
        learn = REQUESTS.get(opcode)
        if learn is not None:
            learn(connection, sight)
        if opcode == _STREAM_REQ:
            stream = asked(connection, sight)
            if len(stream.requests) == 1:  # or else it goes on
                connection.streams.append(stream)
                self.streams.append(stream)
            return stream
        known = connection.current.get(sight.word << 16 | sight.stream_id)
        if known is not None and opcode == _CLOSE_STREAM:
            closing(known, sight)
        elif known is not None and opcode == _SEQNO_ACK and sight.fields:
            known.acked_seqno = sight.fields[0]
        else:
            return None
        return known

    def _answer(self, connection: Connection, sight: Sight) -> Stream | None:
        opcode, direction = sight.opcode, sight.direction
        waiting = connection.waiting.pop((1 - direction, opcode, sight.opaque), None)
        learn = ANSWERS.get(opcode)
        if learn is not None:
            learn(connection, sight, waiting)
        if opcode == _STREAM_REQ:
            connection.window.answers += sight.length
            stream = answered(connection, sight)
            if stream is not None:
                self.logs.learn_log(connection, stream.vbucket, sight)
            return stream
        if opcode in _FAILOVER_LOGS and waiting is not None:
            self.logs.learn_log(connection, waiting.vbucket, sight)
        if opcode == _CLOSE_STREAM and waiting is not None:
            stream = connection.current.get(waiting.vbucket << 16 | waiting.stream_id)
            if stream is not None:
                closed(stream, sight)
            return stream
        if opcode in (_ALL_SEQNOS, _OBSERVE):
            self.logs.learn_highs(connection, sight, waiting)
            return None
        if not COUNTED[opcode]:
            return None
        stream = connection.by_opaque.get(sight.opaque)
        if stream is None:
            return None
        if opcode == _SET_STATE:
            stream.state_acks += 1
        elif opcode == _MARKER and stream.snapshot is not None:
            stream.snapshot.acked = True
        if sight.word and len(stream.complaints) < _COMPLAINTS:
            stream.complaints.append(Complaint(opcode, sight.word, sight.number, sight.ts_ns))
        return stream

    def _stream(self, connection: Connection, sight: Sight) -> Stream:
        """It finds the stream of a message that is none of the open stream of its place."""
        place = sight.word << 16 | sight.stream_id
        stream = connection.by_opaque.get(sight.opaque)
        if stream is None or (stream.vbucket, stream.stream_id) != (sight.word, sight.stream_id):
            stream = connection.current.get(place)
        # What follows an end, or a refusal, is of the same stream, as long as nothing was lost in between.
        if stream is not None and stream.losses == connection.losses[sight.direction]:
            if stream.ended:
                stream.after_end += 1
            if stream.opaque is None:
                stream.opaque = sight.opaque
            return stream
        if stream is not None and stream.opaque in (None, sight.opaque) and not stream.ended:
            if stream.requests and stream.requests[-1].status is None:
                return stream  # the answer may be among what was lost
            if stream.alive:
                return stream
        begun = Stream(connection, sight.word, sight.stream_id)
        begun.follow(stream)
        begun.opaque = sight.opaque
        begun.first_ns = sight.ts_ns
        begun.losses = connection.losses[sight.direction]
        begun.lost_before = connection.lost_bytes[sight.direction]
        connection.current[place] = connection.by_opaque[sight.opaque] = begun
        connection.streams.append(begun)
        self.streams.append(begun)
        return begun
