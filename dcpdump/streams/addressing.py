"""Places: to which stream of its connection a message belongs, by vbucket, stream id and opaque."""

from typing import NamedTuple

from dcpdump.spec.names import CLOSED
from dcpdump.spec.statuses import SUCCESS
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import MARKER, OSO, STREAM_END, STREAM_REQ
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream


class StreamAddress(NamedTuple):
    """Where a message of a stream belongs."""

    stream: Stream | None  #: None: to none that is known
    begins: bool = False  #: it is the first that was captured of its stream
    stray: Stream | None = None  #: its opaque, vbucket and stream id are not those of one stream: whose opaque it has
    outside: bool = False  #: it is in no snapshot of its stream, or past the stream's end


def simply(connection: ConnectionState, frame: FrameEvent) -> Stream | None:
    """Return the stream that a message simply continues; None where that is not obvious."""
    stream = connection.current.get(frame.word << 16 | frame.stream_id)
    if (
        stream is None
        or not stream.in_order
        or stream.opaque != frame.opaque
        or stream.losses != connection.losses[frame.direction]
    ):
        return None
    return stream


def find_place(connection: ConnectionState, frame: FrameEvent) -> StreamAddress:
    """Find the stream of a message that is not simply the next of one."""
    opaque, losses = frame.opaque, connection.losses[frame.direction]
    known = connection.current.get(frame.word << 16 | frame.stream_id)
    other = connection.by_opaque.get(opaque)
    if other is not None and (other.vbucket, other.stream_id) == (frame.word, frame.stream_id):
        if known is None or known.opaque != opaque or (known.waits and other.closed and other.end_frame is None):
            known = other  # of a stream that was closed and asked for again, messages may trail in
    elif other is not None and other.vbucket == frame.word and known is None and _may_have(other, frame):
        known = other
    if known is not None and known.is_sending and known.opaque in (None, opaque):
        request = known.request
        unsure = known.losses != losses or (request is not None and request.ambiguous)
        if known.ended and unsure and not _answers_close(known, frame):
            return StreamAddress(None, True)  # its request, or the answer, may be among what was lost
        if known.closing and _granted_early(connection, frame):
            return StreamAddress(None, True)  # it was requested again, which is captured a little later
        outside = not known.in_order and (frame.opcode not in (MARKER, OSO) or not known.live)
        return StreamAddress(known, outside=outside)
    if connection.exchanges.early(1 - frame.direction, STREAM_REQ, opaque) is not None:
        return StreamAddress(None, True)  # it was granted, and its request is captured a little later
    stray = other or connection.no_stream
    if other is not None and connection.doubtful:  # streams whose requests were not captured may have one opaque
        connection.share(opaque)
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


def _answers_close(stream: Stream, frame: FrameEvent) -> bool:
    """Return whether a message is the STREAM_END that a closed stream still owes to its consumer."""
    return frame.opcode == STREAM_END and stream.end_frame is None and frame.get("status") == CLOSED


def _granted_early(connection: ConnectionState, frame: FrameEvent) -> bool:
    """Return whether the grant of a stream with the opaque of a message waits for its request."""
    waiting = connection.exchanges.all_early(1 - frame.direction, STREAM_REQ, frame.opaque)
    return any(early.answer.word == SUCCESS for early in waiting)


def _may_have(stream: Stream, frame: FrameEvent) -> bool:
    """Return whether a stream may have the stream id of a message: its request's could not be read."""
    request = stream.request
    if stream.items or request is None or request.readable:
        return stream.doubtful
    stream.stream_id = frame.stream_id
    stream.connection.current[frame.word << 16 | frame.stream_id] = stream
    return True
