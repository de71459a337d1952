"""DCP501-516: flow control and keep-alive."""

from dcpdump.check.evidence import SECOND, noop_interval_ns
from dcpdump.check.rule import (
    ASTRAY,
    COUNTED,
    INFO,
    NOOPS_MISSING,
    OVERDRAWN,
    OVERDUE,
    RESPONSE,
    SILENCE,
    STALLED,
    SUSPICIOUS,
    VIOLATION,
    Delayed,
    Scope,
    rule,
)
from dcpdump.check.rules.controls import control_asked
from dcpdump.streams.burst import Burst, Close
from dcpdump.streams.opcodes import BUFFER_ACK, CONTROL, NOOP
from dcpdump.streams.sight import Sight
from dcpdump.streams.state import Connection, Stream

_BEYOND = 32  #: messages into a full window that are no matter of the order in which they were captured


@rule(
    "DCP501",
    "B1",
    "Window that is no number",
    severity=INFO,
    source="dcp/producer.cc",
    off="m",
    on=(CONTROL | RESPONSE,),
    scope=Scope.CONNECTION,
    status="Einval",
)
def window(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees connection_buffer_size accepted with a value that is not a decimal number of 32 bits.

    Flow control is on from the success of that control with a number above 0; 0 turns it off.

    Usual causes: a unit in the value ("20MB").
    """
    key, value = control_asked(sight, connection)
    if sight.word or key != "connection_buffer_size" or (value.isdigit() and len(value) < 20 and int(value) < 1 << 32):
        return None
    return f"connection_buffer_size accepted with {len(value)} bytes that are no number below 2^32"


@rule(
    "DCP502",
    "B2",
    "Acknowledged by another measure",
    severity=INFO,
    source="dcp/response.h (MB-46634)",
    off="mg",
    on=(BUFFER_ACK,),
    scope=Scope.CONNECTION,
)
def measure(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees acknowledgements that add up to the bytes on the wire where prepares were sent, which producers count
    as 2 bytes more than they are.

    The 2 bytes are never given back: after enough durable writes the window is shut.

    Usual causes: a client that counts what it reads.
    """
    window = connection.window
    if not window.prepared or window.size is None or not window.complete or window.wire == window.sent:
        return None
    if window.acked + (sight.get("buffer_bytes") or 0) != window.wire:
        return None
    return f"acknowledges wire bytes: {window.sent - window.wire} bytes of {window.prepared} prepares stay"


def _all_in_window(burst: Burst, close: Close, connection: Connection, stream: Stream) -> bool:
    window = connection.window
    return not window.complete or not (window.is_blocked or window.would_fill(burst.size))


@rule(
    "DCP503",
    "B3",
    "Sent into a full window",
    severity=SUSPICIOUS,
    source="dcp/producer.cc (BufferLog)",
    off="mg",
    on=(COUNTED,),
    scope=Scope.CONNECTION,
    spares=_all_in_window,
)
def overrun(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees stream messages although as many bytes as the window holds wait for their acknowledgement. (One
    message may go over it.)

    The consumer asked for the window because it cannot hold more.

    Usual causes: a producer that counts documents only; an acknowledgement captured after what it allowed.
    """
    window = connection.window
    if window.size is None or not window.complete or window.beyond + 1 != _BEYOND:
        return None
    waiting = f"{window.outstanding:,} bytes wait for acknowledgement, the window has {window.size:,}"
    return f"{waiting}: {_BEYOND} messages more"


@rule(
    "DCP504",
    "B4",
    "Acknowledged more than was sent",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off="mg",
    on=(OVERDRAWN,),
    scope=Scope.CONNECTION,
)
def overdrawn(delayed: Delayed, connection: Connection, stream: Stream) -> str:
    """It sees acknowledgements that add up to more than the bytes that count.

    The producer logs it, and takes the window for empty: what is acknowledged from there on counts from there.

    Usual causes: counting messages that do not count (NOOP, responses); acknowledging twice.
    """
    return f"{delayed.amount:,} bytes acknowledged, {delayed.limit:,} were sent"


@rule(
    "DCP505",
    "B5",
    "Window full, and nobody acknowledges",
    severity=SUSPICIOUS,
    source="dcp/flow-control.cc",
    off="mg",
    on=(STALLED,),
    scope=Scope.CONNECTION,
)
def stall(delayed: Delayed, connection: Connection, stream: Stream) -> str:
    """It sees a window that has been full for more than a minute without an acknowledgement.

    Every stream of the connection stands still.

    Usual causes: a consumer that is stuck, or forgot to acknowledge messages that count.
    """
    window = connection.window
    waited = delayed.waited_ns / SECOND
    return f"{window.outstanding:,} of {window.size or 0:,} bytes not acknowledged for {waited:,.0f} s"


@rule(
    "DCP506",
    "B6",
    "Acknowledgement that was answered",
    severity=SUSPICIOUS,
    source="daemon/protocol/mcbp",
    on=(BUFFER_ACK | RESPONSE,),
)
def ack_answered(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees a success in answer to BUFFER_ACKNOWLEDGEMENT, which is answered only where it is refused.

    Usual causes: a producer written after the specification's page, which describes one ("unused").
    """
    return None if sight.word else "success in answer to BUFFER_ACKNOWLEDGEMENT"


@rule(
    "DCP507",
    "B7",
    "Acknowledgement without flow control",
    severity=SUSPICIOUS,
    source="dcp/producer.cc",
    off="m",
    on=(BUFFER_ACK,),
    scope=Scope.CONNECTION,
)
def pointless(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees BUFFER_ACKNOWLEDGEMENT on a connection on which no connection_buffer_size was accepted.

    The producer ignores it, and sends as fast as it can.

    Usual causes: a control that was refused or never sent.
    """
    if connection.window.size is not None or not connection.controls_known or connection.produces is False:
        return None
    return "acknowledges bytes, and flow control is off"


# -- keep-alive ---------------------------------------------------------------------------------------------


@rule(
    "DCP511",
    "N1",
    "NOOP without an answer",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off="g",
    on=(OVERDUE,),
    scope=Scope.CONNECTION,
)
def unanswered_noop(delayed: Delayed, connection: Connection, stream: Stream) -> str | None:
    """It sees NOOPs whose opaque does not come back, though the consumer answers later ones, or for half a minute.

    The producer closes the connection when nothing was heard for its idle timeout.

    Usual causes: a consumer whose reader is busy; an opaque byte-swapped in the answer.
    """
    noop = delayed.sight
    if noop.opcode != NOOP or not delayed.late:
        return None
    return f"NOOP with opaque 0x{noop.opaque:08x} was not answered in {delayed.waited_ns / SECOND:,.0f} s"


@rule(
    "DCP512",
    "N2",
    "Second NOOP before the first was answered",
    severity=SUSPICIOUS,
    source="dcp/producer.cc",
    off="g",
    on=(NOOP,),
    scope=Scope.CONNECTION,
)
def two_noops(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees a NOOP while another, sent a second or more before, waits for its answer.

    A producer has at most one under way.

    Usual causes: a producer of another make; two connections taken for one.
    """
    oldest = next(connection.exchanges.waiting((sight.direction, NOOP)), None)
    if oldest is None or sight.ts_ns is None:
        return None
    asked = oldest.sight
    if asked.number <= connection.lost_frame or sight.ts_ns - (asked.ts_ns or sight.ts_ns) < SECOND:
        return None
    return f"NOOP, though that of frame {asked.number} is not answered"


@rule(
    "DCP513",
    "N3",
    "NOOPs are missing",
    severity=SUSPICIOUS,
    source="dcp/producer.cc",
    off="mg",
    on=(NOOPS_MISSING,),
    scope=Scope.CONNECTION,
)
def no_noop(delayed: Delayed, connection: Connection, stream: Stream) -> str:
    """It sees no NOOP for more than two intervals although enable_noop was accepted and traffic flows.

    Producers send them whether or not there is other traffic; a client that waits for them disconnects.

    Usual causes: a producer whose thread is busy; an interval that was refused.
    """
    interval = noop_interval_ns(connection) or 0
    return f"no NOOP for {delayed.waited_ns / SECOND:,.0f} s, the interval is {interval / SECOND:,.0f} s"


@rule(
    "DCP514",
    "N4",
    "NOOP that nobody asked for",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off="m",
    on=(NOOP,),
    scope=Scope.CONNECTION,
)
def unasked_noop(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees NOOPs from a producer before enable_noop was accepted.

    A client that does not know them leaves them unanswered, and is disconnected.

    Usual causes: a control that was refused.
    """
    if not connection.controls_known or connection.on("enable_noop") or connection.produces is not True:
        return None
    return "NOOP, and enable_noop is not on"


@rule(
    "DCP515",
    "N5",
    "Silence beyond the idle timeout",
    severity=INFO,
    source="dcp/producer.cc, dcp/consumer.cc",
    on=(SILENCE,),
)
def silence(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees one end of a DCP connection say nothing for more than six minutes, and then go on.

    Both ends disconnect after that long without a message, unless the timeout was changed.

    Usual causes: a capture that was paused; keep-alive turned off.
    """
    before = connection.heard_ns[sight.direction]
    if before is None or sight.ts_ns is None or connection.open_sight is None:
        return None
    return f"silent for {(sight.ts_ns - before) / SECOND:,.0f} s"


@rule(
    "DCP516",
    "N6",
    "NOOP sent to a producer",
    severity=VIOLATION,
    source="dcp/producer.cc",
    on=(ASTRAY,),
)
def client_noop(sight: Sight, connection: Connection, stream: Stream) -> str | None:
    """It sees a client send DCP_NOOP to a producer, which then closes the connection.

    Only producers ask; the NOOP of other connections is opcode 0x0a.

    Usual causes: a keep-alive written for both ends.
    """
    if sight.opcode != NOOP or connection.produces is not True or sight.direction == connection.feeder:
        return None
    return "DCP_NOOP sent to a producer"


RULES = (
    window,
    measure,
    overrun,
    overdrawn,
    stall,
    ack_answered,
    pointless,
    unanswered_noop,
    two_noops,
    no_noop,
    unasked_noop,
    silence,
    client_noop,
)
