"""DCP501-516: flow control and keep-alive."""

from dcpdump.check.course import Course, kept
from dcpdump.check.dialogue import BUFFER_ACK, CONTROL, NOOP, SECOND, Dialogue
from dcpdump.check.rule import (
    ASTRAY,
    COUNTED,
    INFO,
    RESPONSE,
    SILENCE,
    SUSPICIOUS,
    TICK,
    VIOLATION,
    Remark,
    Scope,
    rule,
)
from dcpdump.streams.burst import Burst, Close
from dcpdump.streams.sight import Sight

_GRACE = 64  #: frames of a connection in which the two directions may be captured out of order
_STALL = 60 * SECOND
_NOOP_INTERVAL = 20 * SECOND  #: where no set_noop_interval was accepted


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
def window(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees connection_buffer_size accepted with a value that is not a decimal number of 32 bits.

    Flow control is on from the success of that control with a number above 0; 0 turns it off.

    Usual causes: a unit in the value ("20MB").
    """
    key, value = dialogue.controls_asked.get(sight.opaque, (b"", b""))
    if sight.word or key != b"connection_buffer_size" or (value.isdigit() and len(value) < 20 and int(value) < 1 << 32):
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
def measure(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees acknowledgements that add up to the bytes on the wire where prepares were sent, which producers count
    as 2 bytes more than they are.

    The 2 bytes are never given back: after enough durable writes the window is shut.

    Usual causes: a client that counts what it reads.
    """
    if not dialogue.prepared or dialogue.window is None or dialogue.wire == dialogue.counted:
        return None
    if dialogue.acked + (sight.get("buffer_bytes") or 0) != dialogue.wire:
        return None
    return f"acknowledges wire bytes: {dialogue.counted - dialogue.wire} bytes of {dialogue.prepared} prepares stay"


def _all_in_window(burst: Burst, close: Close, dialogue: Dialogue, course: Course) -> bool:
    room = dialogue.window is not None and dialogue.counted + burst.size - dialogue.acked < dialogue.window
    return room and not dialogue.overrun


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
def overrun(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees stream messages although as many bytes as the window holds wait for their acknowledgement. (One
    message may go over it.)

    The consumer asked for the window because it cannot hold more.

    Usual causes: a producer that counts documents only; an acknowledgement captured after what it allowed.
    """
    size = dialogue.window
    if size is None:
        return None
    waiting = dialogue.counted - dialogue.acked
    if waiting < size:
        dialogue.overrun = 0
        return None
    dialogue.overrun += 1
    if dialogue.overrun != _GRACE // 2:
        return None
    return f"{waiting:,} bytes wait for acknowledgement, the window has {size:,}: {dialogue.overrun} messages more"


@rule(
    "DCP504",
    "B4",
    "Acknowledged more than was sent",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off="mg",
    on=(BUFFER_ACK, TICK),
    scope=Scope.CONNECTION,
)
def overdrawn(sight: Sight, dialogue: Dialogue, course: Course) -> list[Remark]:
    """It sees acknowledgements that add up to more than the bytes that count.

    The producer logs it, and takes the window for empty: what is acknowledged from there on counts from there.

    Usual causes: counting messages that do not count (NOOP, responses); acknowledging twice.
    """
    found: list[Remark] = []
    if dialogue.window is None or dialogue.late:
        return found
    spoken = sum(dialogue.spoken)
    if sight.opcode == BUFFER_ACK and not sight.response and not dialogue.ended and sight.number > dialogue.acked_frame:
        total = dialogue.acked + (sight.get("buffer_bytes") or 0)
        if total > dialogue.counted and len(dialogue.overdrawn) < 1024:
            dialogue.overdrawn.append((kept(sight), total, dialogue.counted, spoken + _GRACE))
        dialogue.acked_frame = sight.number
    while dialogue.overdrawn and (dialogue.ended or spoken >= dialogue.overdrawn[0][3]):
        ack, total, counted, _ = dialogue.overdrawn.pop(0)
        if total > dialogue.counted:
            found.append(Remark(f"{total:,} bytes acknowledged, {dialogue.counted:,} were sent", sight=ack))
            excess = total - counted
            dialogue.acked -= excess
            dialogue.overdrawn = [
                (each, to - excess, of, due) for each, to, of, due in dialogue.overdrawn if to - excess > of
            ]
    return found


@rule(
    "DCP505",
    "B5",
    "Window full, and nobody acknowledges",
    severity=SUSPICIOUS,
    source="dcp/flow-control.cc",
    off="mg",
    on=(TICK,),
    scope=Scope.CONNECTION,
)
def stall(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees a window that has been full for more than a minute without an acknowledgement.

    Every stream of the connection stands still.

    Usual causes: a consumer that is stuck, or forgot to acknowledge messages that count.
    """
    if dialogue.window is None or dialogue.ts_ns is None or dialogue.counted - dialogue.acked < dialogue.window:
        return None
    since = max(dialogue.acked_at or 0, dialogue.counted_at or 0)
    if not since or dialogue.ts_ns - since <= _STALL or dialogue.stalled == since:
        return None
    dialogue.stalled = since
    waited = (dialogue.ts_ns - since) / SECOND
    return f"{dialogue.counted - dialogue.acked:,} of {dialogue.window:,} bytes not acknowledged for {waited:,.0f} s"


@rule(
    "DCP506",
    "B6",
    "Acknowledgement that was answered",
    severity=SUSPICIOUS,
    source="daemon/protocol/mcbp",
    on=(BUFFER_ACK | RESPONSE,),
)
def ack_answered(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
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
def pointless(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees BUFFER_ACKNOWLEDGEMENT on a connection on which no connection_buffer_size was accepted.

    The producer ignores it, and sends as fast as it can.

    Usual causes: a control that was refused or never sent.
    """
    if dialogue.window is not None or not dialogue.controls_known or dialogue.produces is False:
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
    on=(TICK, NOOP, NOOP | RESPONSE),
    scope=Scope.CONNECTION,
)
def unanswered_noop(sight: Sight, dialogue: Dialogue, course: Course) -> list[Remark]:
    """It sees NOOPs whose opaque does not come back, though the consumer answers later ones, or for half a minute.

    The producer closes the connection when nothing was heard for its idle timeout.

    Usual causes: a consumer whose reader is busy; an opaque byte-swapped in the answer.
    """
    found: list[Remark] = []
    if not dialogue.noops or dialogue.ts_ns is None or dialogue.source is None:
        return found
    heard = dialogue.spoken[1 - dialogue.source]
    for opaque, (asked, before) in list(dialogue.noops.items()):
        if sight.response and sight.opcode == NOOP and sight.opaque == opaque:
            continue
        waited = dialogue.ts_ns - (asked.ts_ns or dialogue.ts_ns)
        later = dialogue.noop_answered > asked.number and waited >= SECOND
        spoke = dialogue.ended or heard - before >= _GRACE // 8
        if later or (waited >= 30 * SECOND and spoke):
            del dialogue.noops[opaque]
            found.append(Remark(f"NOOP with opaque 0x{opaque:08x} was not answered in {waited / SECOND:,.0f} s",
                                sight=asked))  # fmt: skip
    return found


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
def two_noops(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees a NOOP while another, sent a second or more before, waits for its answer.

    A producer has at most one under way.

    Usual causes: a producer of another make; two connections taken for one.
    """
    for asked, _ in dialogue.noops.values():
        if sight.ts_ns is not None and sight.ts_ns - (asked.ts_ns or sight.ts_ns) >= SECOND:
            return f"NOOP, though that of frame {asked.number} is not answered"
    return None


@rule(
    "DCP513",
    "N3",
    "NOOPs are missing",
    severity=SUSPICIOUS,
    source="dcp/producer.cc",
    off="mg",
    on=(TICK,),
    scope=Scope.CONNECTION,
)
def no_noop(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees no NOOP for more than two intervals although enable_noop was accepted and traffic flows.

    Producers send them whether or not there is other traffic; a client that waits for them disconnects.

    Usual causes: a producer whose thread is busy; an interval that was refused.
    """
    heard_ns = dialogue.heard_ns
    if not dialogue.on(b"enable_noop") or heard_ns is None or dialogue.enabled_noop_at is None:
        return None
    text = dialogue.controls.get(b"set_noop_interval", b"")
    try:
        interval = int(float(text) * SECOND) if text else _NOOP_INTERVAL
    except (ValueError, OverflowError):
        return None
    since = max(dialogue.noop_at or 0, dialogue.enabled_noop_at, dialogue.missed_noop_at)
    if heard_ns - since <= 2 * interval + SECOND:
        return None
    dialogue.missed_noop_at = heard_ns
    return f"no NOOP for {(heard_ns - since) / SECOND:,.0f} s, the interval is {interval / SECOND:,.0f} s"


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
def unasked_noop(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees NOOPs from a producer before enable_noop was accepted.

    A client that does not know them leaves them unanswered, and is disconnected.

    Usual causes: a control that was refused.
    """
    if not dialogue.controls_known or dialogue.on(b"enable_noop") or dialogue.produces is not True:
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
def silence(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees one end of a DCP connection say nothing for more than six minutes, and then go on.

    Both ends disconnect after that long without a message, unless the timeout was changed.

    Usual causes: a capture that was paused; keep-alive turned off.
    """
    before = dialogue.last_ts[sight.direction]
    if before is None or sight.ts_ns is None or dialogue.opened is None:
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
def client_noop(sight: Sight, dialogue: Dialogue, course: Course) -> str | None:
    """It sees a client send DCP_NOOP to a producer, which then closes the connection.

    Only producers ask; the NOOP of other connections is opcode 0x0a.

    Usual causes: a keep-alive written for both ends.
    """
    if sight.opcode != NOOP or dialogue.produces is not True or sight.direction == dialogue.source:
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
