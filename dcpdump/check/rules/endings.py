"""DCP231-239: how streams end."""

from dcpdump.check.rule import FILTER, INFO, LOST, RESPONSE, START, SUSPICIOUS, VIOLATION, Remark, Scope, rule
from dcpdump.spec.names import CACHE_TRANSFER, STREAM_END_STATUS
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import CLOSE_STREAM, STREAM_END
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

_OK, _CLOSED, _STATE, _DISCONNECTED, _SLOW, _BACKFILL, _ROLLBACK, _EMPTY, _PRIVILEGES = range(9)


@rule("DCP231", "L11", SUSPICIOUS, on=(STREAM_END,), off=(START, LOST, FILTER))
def early_end(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Stream ended Ok before its end.

    Reported when a stream ends with Ok although the requested end seqno was not reached, and nothing else explains
    it: the flags disk-only, to-latest, takeover, cache-transfer, a start at or above the end, or a client without
    collections, to which what comes last may not be sent. As information only but between nodes, as it may be in a
    system collection, which not every user gets (from 7.6 on).

    The client treats it as complete, and misses what it did not get.

    Usual causes: a bug of the producer.

    Source: dcp/active_stream.cc
    """
    request = stream.request
    if request is None or frame.get("status") != _OK:
        return None
    if request.fixed_end is None or request.bits & CACHE_TRANSFER or request.start >= request.end:
        return None
    if stream.reached >= request.end or stream.filtered_silently:
        return None
    text = f"ended Ok at seqno {stream.last or request.start}, requested up to {request.end}"
    return Remark(text, None if connection.between_nodes else INFO)


@rule("DCP232", "L12", SUSPICIOUS, on=(STREAM_END,), off=(START,))
def odd_end(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream ended for a reason that does not fit.

    Reported when STREAM_END(Closed) comes unasked, and of reasons 3 and 6, which servers do not send, and 7 and 8
    (collections dropped, access lost) on a connection without collections.

    Usual causes: another implementation of DCP; a proxy.

    Source: dcp/active_stream.cc
    """
    reason = frame.get("status")
    if reason == _CLOSED:
        if stream.closed or stream.closing:
            if connection.controls_known and not connection.on("send_stream_end_on_client_close_stream"):
                return "ended as Closed, though send_stream_end_on_client_close_stream is not on"
            return None
        return "ended as Closed, and no CLOSE_STREAM was sent"
    if reason in (_DISCONNECTED, _ROLLBACK):
        return f"ended with reason {reason} ({STREAM_END_STATUS.names[reason]}), which servers do not send"
    if reason in (_EMPTY, _PRIVILEGES) and connection.has_collections is False:
        return f"ended with reason {reason} ({STREAM_END_STATUS.names[reason]}) on a connection without collections"
    return None


@rule(
    "DCP239",
    "L19",
    VIOLATION,
    on=(CLOSE_STREAM | RESPONSE,),
    off=(START, LOST),
    scope=Scope.CONNECTION,
    status="KeyEnoent",
)
def closed_twice(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """CLOSE_STREAM of no stream that succeeds.

    Reported when a producer answers Success to CLOSE_STREAM, and the vbucket has no stream of that stream id on the
    connection, or it has ended.

    A conforming producer answers KeyEnoent (or DcpStreamIdInvalid where only the stream id is wrong).

    Usual causes: a proxy that answers in a server's place.

    Source: dcp/producer.cc
    """
    waiting = connection.exchanges.asked(frame)
    if frame.word or waiting is None or connection.produces is not True:
        return None
    known = connection.stream_of(waiting.frame)
    if known is None or not known.is_sending:
        return "CLOSE_STREAM answered with Success, and there is no such stream"
    if known.closed:
        return "CLOSE_STREAM answered with Success, and the stream was closed before"
    if known.end_frame is None or known.end_status == _CLOSED:
        return None
    return f"CLOSE_STREAM answered with Success, and the stream ended in frame {known.end_frame}"
