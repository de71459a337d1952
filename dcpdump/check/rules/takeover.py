"""DCP52x: how a vbucket is handed over."""

from dcpdump.check.rule import LOST, RESPONSE, START, SUSPICIOUS, VIOLATION, Event, Remark, rule
from dcpdump.check.rules.framing import name
from dcpdump.spec.names import ACTIVE, OK, PENDING, VBUCKET_STATE
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import (
    ABORT,
    ADVANCED,
    COMMIT,
    DOCUMENTS,
    MARKER,
    PREPARE,
    SET_STATE,
    STREAM_END,
    SYSTEM_EVENT,
)
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.window import OUT_OF_ORDER_NS

_DATA = frozenset({*DOCUMENTS, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, ADVANCED, MARKER})


def _spoken(state: int | None) -> str:
    return f"{state} ({VBUCKET_STATE.names.get(state or 0, 'unknown')})"


@rule("DCP521", "T1", SUSPICIOUS, on=(SET_STATE, STREAM_END, SET_STATE | RESPONSE), off=(START, LOST))
def order(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Hand-over out of order.

    Reported when a takeover comes in another order than: snapshots, each acknowledged; SET_VBUCKET_STATE(pending)
    and its reply; the rest; SET_VBUCKET_STATE(active) and its reply; STREAM_END(Ok). What comes less than 50 ms before
    the reply that it has to wait for may have been captured out of order, and is spared; what comes before that is
    unknown where packets acknowledge bytes that are captured later.

    For a moment two nodes, or neither of them, take writes for the vbucket.

    Usual causes: a producer that does not wait for replies; a hand-over that was given up.

    Source: dcp/active_stream.cc
    """
    if not stream.asked_takeover:
        return None
    if frame.response:
        return _too_soon(frame, stream)
    if frame.opcode == STREAM_END:
        if frame.get("status") == OK and stream.state != ACTIVE:
            return f"the takeover ended Ok in state {_spoken(stream.state)}"
        return None
    state = frame.get("state")
    if state == ACTIVE and stream.state != PENDING:
        return "SET_VBUCKET_STATE(active) before pending"
    if state == PENDING and stream.state is not None:
        return f"SET_VBUCKET_STATE(pending) after state {_spoken(stream.state)}"
    return None


def _too_soon(reply: FrameEvent, stream: Stream) -> Remark | None:
    """Return what was sent although it has to wait for a reply to SET_VBUCKET_STATE; None where all waited."""
    at = stream.state_acks
    if at + 1 < len(stream.states):
        early = stream.states[at + 1]
        ts_ns, frame, what = early.ts_ns, early.frame, f"SET_VBUCKET_STATE({VBUCKET_STATE.names.get(early.state)})"
    elif at + 1 == len(stream.states) and stream.end_frame is not None and stream.end_status == OK:
        ts_ns, frame, what = stream.ended_ns, stream.end_frame, "STREAM_END(Ok)"
    else:
        return None
    if ts_ns is None or reply.ts_ns is None or reply.ts_ns - ts_ns < OUT_OF_ORDER_NS:
        return None
    text = f"{what} before the reply to SET_VBUCKET_STATE({VBUCKET_STATE.names.get(stream.states[at].state)})"
    return Remark(text, frame=reply._replace(number=frame, ts_ns=ts_ns), ordered=True)


@rule("DCP522", "T2", VIOLATION, on=(SET_STATE,), off=(START,))
def no_takeover(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """State set on a stream that is no takeover.

    Reported when SET_VBUCKET_STATE comes on a stream that was requested without the takeover flag.

    The consumer would become the owner of a vbucket that has one.

    Usual causes: flags of another stream.

    Source: dcp/active_stream.cc
    """
    if stream.request is None or stream.asked_takeover:
        return None
    return "SET_VBUCKET_STATE on a stream that was not requested with takeover"


@rule("DCP523", "T3", SUSPICIOUS, on=(SET_STATE,))
def odd_state(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """State that no hand-over has.

    Reported when SET_VBUCKET_STATE has another state than pending (3) and active (1).

    A consumer takes replica (2) and dead (4) over all the same; it refuses states that do not exist with Einval.

    Usual causes: the numbers of an old prototype, where replica and pending were swapped.

    Source: dcp/active_stream.cc, daemon/mcbp_validators.cc
    """
    state = frame.get("state")
    if state is None or state in (ACTIVE, PENDING):
        return None
    status = "" if state in VBUCKET_STATE.names else "Einval"
    return Remark(f"SET_VBUCKET_STATE with state {_spoken(state)}", status=status)


@rule("DCP524", "T4", VIOLATION, on=(Event.OUTSIDE,), off=(LOST,))
def after(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Change after the hand-over.

    Reported when markers or documents come after SET_VBUCKET_STATE(active).

    The consumer owns the vbucket by then and makes seqnos itself: the two histories diverge.

    Usual causes: a source that continues to take writes.

    Source: dcp/active_stream.cc
    """
    if stream.state != ACTIVE or frame.opcode not in _DATA or stream.end_frame is not None:
        return None
    return f"{name(frame.opcode)} after SET_VBUCKET_STATE(active)"
