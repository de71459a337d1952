"""DCP511-516: keep-alive."""

from dcpdump.check.evidence import SECOND
from dcpdump.check.rule import INFO, LOST, START, SUSPICIOUS, VIOLATION, Delayed, Event, Remark, Scope, rule
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import NOOP
from dcpdump.streams.silence import has_interval, noop_interval_ns
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream


@rule("DCP511", "N1", VIOLATION, on=(Event.OVERDUE,), off=(LOST,), scope=Scope.SINCE)
def unanswered_noop(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str | None:
    """NOOP without an answer.

    Reported when the opaque of a NOOP does not come back, though the consumer answers later ones, or for half a
    minute.

    The producer sends no other NOOP, and closes the connection when it receives nothing for its idle timeout.

    Usual causes: a consumer whose reader is busy; an opaque byte-swapped in the answer.

    Source: dcp/producer.cc
    """
    noop = delayed.frame
    if noop.opcode != NOOP or noop.direction != connection.feeder or not delayed.late or not all(connection.frames):
        return None
    text = f"NOOP with opaque 0x{noop.opaque:08x} was not answered in {delayed.waited_ns / SECOND:,.0f} s"
    waiting = connection.exchanges.by_kind.get((noop.direction, NOOP), {}).get(noop.number)
    echo = 0 if waiting is None else waiting.echo
    return f"{text}: frame {echo} has its opaque, and is a request (magic 0x80)" if echo else text


@rule("DCP512", "N2", SUSPICIOUS, on=(NOOP,), off=(LOST,), scope=Scope.SINCE)
def two_noops(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Second NOOP before the first was answered.

    Reported when a NOOP comes while another, sent a second or more before, waits for its answer. Unknown where
    packets acknowledge bytes that are captured later: the answer may be captured late.

    A producer has at most one under way.

    Usual causes: a producer of another make; two connections taken for one.

    Source: dcp/producer.cc
    """
    oldest = next(connection.exchanges.waiting((frame.direction, NOOP)), None)
    if oldest is None or oldest.doubtful or frame.ts_ns is None or not all(connection.frames):
        return None
    asked = oldest.frame
    if asked.number <= connection.lost_frame or frame.ts_ns - (asked.ts_ns or frame.ts_ns) < SECOND:
        return None
    return Remark(f"NOOP, though that of frame {asked.number} is not answered", ordered=True)


@rule("DCP513", "N3", SUSPICIOUS, on=(Event.NOOPS_MISSING,), off=(START, LOST), scope=Scope.CONNECTION)
def no_noop(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str | Remark:
    """NOOPs are missing.

    Reported when no NOOP comes for more than two intervals although enable_noop was accepted, and the producer sends
    other messages, or nothing at all up to the end of the connection or the capture. It need not come while the last
    one waits for its answer, or the consumer does not read: its TCP receive window is zero. Where no interval was
    accepted, it is the server's own, which no message says: as information then, behind two of the 20 s that servers
    have unless they are set otherwise; and of a producer that sends nothing at all only a silence beyond the idle
    timeout counts, as suspicious.

    Producers send them whether or not there is other traffic; a client that waits for them disconnects.

    Usual causes: a producer whose thread is busy; a server that hangs, or is gone; an interval that was refused.

    Source: dcp/producer.cc
    """
    text = f"no NOOP for {delayed.waited_ns / SECOND:,.0f} s"
    if has_interval(connection):
        return f"{text}, the interval is {(noop_interval_ns(connection) or 0) / SECOND:,.0f} s"
    text = f"{text}, though enable_noop was accepted; an interval was not"
    return Remark(text, INFO if delayed.late else None)


@rule("DCP514", "N4", VIOLATION, on=(NOOP,), off=(START,), scope=Scope.CONNECTION)
def unasked_noop(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """NOOP that was not asked for.

    Reported when a producer sends a NOOP before enable_noop was accepted.

    A client that does not know it leaves it unanswered, and is disconnected.

    Usual causes: a control that was refused.

    Source: dcp/producer.cc
    """
    if not connection.controls_known or connection.on("enable_noop") or connection.produces is not True:
        return None
    return "NOOP, and enable_noop is not on"


@rule("DCP515", "N5", INFO, on=(Event.SILENCE,))
def silence(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Silence beyond the idle timeout.

    Reported when one end of a DCP connection on which enable_noop was accepted sends nothing for more than six
    minutes, and then continues. (Without NOOPs a connection on which nothing changes is silent.)

    Both ends disconnect after that long without a message, unless the timeout was changed.

    Usual causes: a capture that was paused; a timeout that was raised.

    Source: dcp/producer.cc, dcp/consumer.cc
    """
    before = connection.latest_ns[frame.direction]
    if before is None or frame.ts_ns is None or not connection.on("enable_noop"):
        return None
    return f"silent for {(frame.ts_ns - before) / SECOND:,.0f} s"


@rule("DCP516", "N6", VIOLATION, on=(Event.ASTRAY,))
def client_noop(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """NOOP sent to a producer.

    Reported when a client sends DCP_NOOP to a producer, which then closes the connection.

    Only producers ask; the NOOP of other connections is opcode 0x0a. Where it has the opaque of a NOOP that waits for
    its answer, it is meant as that.

    Usual causes: a keep-alive written for both ends; an answer with the magic of a request.

    Source: dcp/producer.cc
    """
    if frame.opcode != NOOP or connection.produces is not True or frame.direction == connection.feeder:
        return None
    waiting = connection.exchanges.asked(frame)
    if waiting is None:
        return "DCP_NOOP sent to a producer"
    return f"answers the NOOP of frame {waiting.frame.number} with a request (magic 0x80), not with a response (0x81)"
