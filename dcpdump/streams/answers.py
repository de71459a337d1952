"""Answers: awaited, paired with their requests, and what they teach of a connection, its streams and its server."""

from dcpdump.spec import find
from dcpdump.spec.statuses import SUCCESS
from dcpdump.streams.counted import COUNTED
from dcpdump.streams.facts import Complaint, UnansweredRequest
from dcpdump.streams.failover_logs import Logs
from dcpdump.streams.frame_event import FrameEvent, kept
from dcpdump.streams.opcode_kinds import (
    ALL_SEQNOS,
    CLOSE_STREAM,
    FAILOVER_LOG,
    FAILOVER_LOG_OLD,
    MARKER,
    OBSERVE,
    SET_STATE,
    STAT,
    STREAM_REQ,
)
from dcpdump.streams.requests import answered, closed, request_of, set_apart
from dcpdump.streams.roles import server_by
from dcpdump.streams.setup import ANSWERS, waiting_for
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

#: Errors that a consumer answers are remembered up to so many of a stream.
_COMPLAINTS = 16
#: Answers to markers of streams that were not granted yet are remembered up to so many of a connection.
_EARLY_ACKS = 1024
_FAILOVER_LOGS = (FAILOVER_LOG, FAILOVER_LOG_OLD)


def await_answer(connection: ConnectionState, frame: FrameEvent) -> tuple[UnansweredRequest, FrameEvent | None]:
    """Remember a request that is answered. The second result is its answer, where that was captured before it."""
    waiting = waiting_for(frame, connection)
    if frame.opcode == STREAM_REQ:
        waiting.request = request_of(frame)
    late = connection.starts_late or (
        frame.opcode == STREAM_REQ and connection.torn and connection.shares(frame.opaque)
    )
    return waiting, connection.exchanges.ask(waiting, sum(connection.frames), late=late)


def take_answer(connection: ConnectionState, frame: FrameEvent, logs: Logs, streams: list[Stream]) -> Stream | None:
    """Find the request of the answer at hand, learn the answer, and return the stream that it is about."""
    if connection.server is None and not frame.weak:
        connection.server = server_by(frame.opcode, frame.direction, response=True)
    waiting = None
    if find(frame.opcode).replies:
        waiting = connection.exchanges.answer(frame, sum(connection.frames), late=connection.starts_late)
    return learn_answer(connection, frame, waiting, logs, streams)


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
    if opcode == STREAM_REQ:
        return _answer_to_request(connection, frame, waiting, logs, streams)
    if opcode in _FAILOVER_LOGS and waiting is not None:
        logs.learn_log(connection, waiting.frame.word, frame)
    if opcode == CLOSE_STREAM and waiting is not None:
        stream = connection.current.get(waiting.frame.word << 16 | waiting.frame.stream_id)
        while stream is not None and stream.before is not None and (stream.before.end_frame or 0) > frame.number:
            stream = stream.before  # the one that follows it began behind an answer that was captured early
        if stream is not None:
            closed(stream, frame)
        return stream
    if opcode in (ALL_SEQNOS, OBSERVE):
        logs.learn_highs(connection, frame, waiting)
        return None
    if opcode == STAT:
        logs.learn_stat(connection, frame)
        return None
    if not COUNTED[opcode]:
        return None
    return _answer_to_message(connection, frame, waiting)


def _answer_to_request(
    connection: ConnectionState, frame: FrameEvent, waiting: UnansweredRequest | None, logs: Logs, streams: list[Stream]
) -> Stream | None:
    """Learn what a producer answers to a stream request."""
    if connection.feeder is None:
        connection.feeder = frame.direction
    connection.window.answers += frame.length
    if waiting is not None and frame.word == SUCCESS:
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
    if opcode == MARKER and frame.direction == connection.feeder:
        return None
    if opcode == SET_STATE and waiting is not None and waiting.stream is not None:
        acknowledge_state(waiting.stream, frame)
    stream = connection.by_opaque.get(frame.opaque)
    if stream is None:
        if opcode == MARKER and not frame.word and len(connection.early_acks) < _EARLY_ACKS:
            connection.early_acks.append(kept(frame))
        return None
    if connection.shares(frame.opaque):
        return None  # of which of them it is is unknown
    if opcode == MARKER:
        stream.acknowledge_marker(frame)
    if frame.word and len(stream.complaints) < _COMPLAINTS:
        stream.complaints += (Complaint(opcode, frame.word, frame.number, frame.ts_ns),)
    return stream


def acknowledge_state(stream: Stream, frame: FrameEvent) -> None:
    """Take the consumer's answer to a state that a takeover set: a producer takes any for the acknowledgement."""
    stream.state_acks += 1
    stream.state_acked_ns = frame.ts_ns
