"""DCP502-507: flow control."""

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.rule import INFO, LOST, RESPONSE, START, SUSPICIOUS, VIOLATION, Delayed, Event, Remark, Scope, rule
from dcpdump.streams.flow import flow_status, why_blocked
from dcpdump.streams.frame_event import DocumentRun, FrameEvent
from dcpdump.streams.opcode_kinds import BUFFER_ACK, CONTROL
from dcpdump.streams.phases import FlowEvent, allows
from dcpdump.streams.state import SECOND, ConnectionState
from dcpdump.streams.stream import Stream

_SIZE = "connection_buffer_size"


@rule("DCP502", "B2", INFO, on=(BUFFER_ACK,), off=(START, LOST), scope=Scope.CONNECTION)
def measure(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Acknowledged by another measure.

    Reported when acknowledgements add up to the bytes on the wire where prepares were sent, which producers count
    as 2 bytes more than they are.

    The 2 bytes are never acknowledged: after enough durable writes the window stays full.

    Usual causes: a client that counts what it reads.

    Source: dcp/response.h (MB-46634)
    """
    window = connection.window
    if not window.prepared or window.size is None or not window.complete or window.wire == window.sent:
        return None
    if window.acked + (frame.get("buffer_bytes") or 0) != window.wire:
        return None
    return f"acknowledges wire bytes: {window.sent - window.wire:,} bytes of {window.prepared:,} prepares stay"


def _all_in_window(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool:
    window = connection.window
    return not window.complete or not (window.is_blocked or window.needs_each(run.size))


@rule(
    "DCP503",
    "B3",
    SUSPICIOUS,
    on=(Event.COUNTED,),
    off=(START, LOST),
    scope=Scope.CONNECTION,
    can_skip_run=_all_in_window,
)
def overrun(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Flow-control buffer exceeded.

    Reported when messages of streams continue, more of them and for longer than the order of capture explains,
    although as many bytes as the window holds wait for their acknowledgement. (One message may go over it.)

    The consumer asked for the window because it cannot hold more.

    Usual causes: a producer that counts documents only; an acknowledgement captured after what it allowed.

    Source: dcp/producer.cc (BufferLog)
    """
    window = connection.window
    if window.size is None or not window.complete or not window.becomes_exceeded(frame.ts_ns):
        return None
    waiting = f"{window.outstanding:,} bytes wait for acknowledgement, the window has {window.size:,}"
    return f"{waiting}: {window.beyond + 1} messages more"


@rule("DCP504", "B4", VIOLATION, on=(Event.OVERDRAWN,), off=(START, LOST), scope=Scope.CONNECTION)
def overdrawn(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str:
    """Acknowledged more than was sent.

    Reported when acknowledgements add up to more than the bytes that count, those included that are captured up to
    50 ms later (where frames have no times, the next 64 messages): an acknowledgement may be captured before the
    messages that it acknowledges. What is sent later still does not make up for it.

    The producer logs it, and treats the window as empty: what is acknowledged from there on counts from there.
    Acknowledgements while flow control is off do not count.

    Usual causes: counting messages that do not count (NOOP, responses); acknowledging twice.

    Source: dcp/producer.cc
    """
    return f"{delayed.amount:,} bytes acknowledged, {delayed.limit:,} were sent"


@rule("DCP505", "B5", SUSPICIOUS, on=(Event.STALLED,), off=(START, LOST), scope=Scope.CONNECTION)
def stall(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str | Remark:
    """Window full, and no acknowledgement comes.

    Reported when a window has been full for more than a minute without an acknowledgement, though the producer
    reads: its TCP receive window was not zero. Where a capture begins late or lost bytes, what is outstanding is
    relative: then it is reported if the producer is silent at a level at which it waited for acknowledgements before.

    No stream of the connection makes progress.

    Usual causes: a consumer that is stuck, or forgot to acknowledge messages that count.

    Source: dcp/flow-control.cc
    """
    window = connection.window
    waited = delayed.waited_ns / SECOND
    if connection.doubtful:
        why = why_blocked(window, flow_status(connection, connection.now_ns))
        return Remark(f"relative, {why}: for {waited:,.0f} s", SUSPICIOUS, scope=Scope.FRAME)
    return f"{window.outstanding:,} of {window.size or 0:,} bytes not acknowledged for {waited:,.0f} s"


@rule("DCP506", "B6", SUSPICIOUS, on=(BUFFER_ACK | RESPONSE,))
def ack_answered(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Acknowledgement that was answered.

    Reported when a success answers BUFFER_ACKNOWLEDGEMENT, which is answered only where it is refused.

    Usual causes: a producer written after the specification's page, which describes one ("unused").

    Source: daemon/protocol/mcbp
    """
    return None if frame.word else "success in answer to BUFFER_ACKNOWLEDGEMENT"


@rule("DCP507", "B7", SUSPICIOUS, on=(BUFFER_ACK,), off=(START,), scope=Scope.CONNECTION)
def pointless(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Acknowledgement without flow control.

    Reported when a BUFFER_ACKNOWLEDGEMENT comes on a connection on which no connection_buffer_size was accepted, or
    behind one of 0.

    The producer ignores it, and sends as fast as it can.

    Usual causes: a control that was refused or never sent.

    Source: dcp/producer.cc
    """
    on = allows(connection.window.phase, FlowEvent.ACK)
    if on or not connection.controls_known or connection.setup.produces is False:
        return None
    if any(waiting.key == _SIZE for waiting in connection.asked_for(CONTROL)):
        return None  # its success may be captured a little later
    return "acknowledges bytes, and flow control is off"
