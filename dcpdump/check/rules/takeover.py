"""DCP52x: how a vbucket is handed over."""

from dcpdump.check.rule import RESPONSE, SUSPICIOUS, VIOLATION, Event, Remark, Suspend, rule
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


@rule(
    "DCP521",
    "T1",
    "Hand-over out of order",
    severity=SUSPICIOUS,
    source="dcp/active_stream.cc",
    off=(Suspend.START, Suspend.LOST),
    on=(SET_STATE, STREAM_END, SET_STATE | RESPONSE),
)
def order(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Reported when a takeover comes in another order than: snapshots, each acknowledged; SET_VBUCKET_STATE(pending)
    and its reply; the rest; SET_VBUCKET_STATE(active) and its reply; STREAM_END(Ok). What comes less than 50 ms before
    the reply that it has to wait for may have been captured out of order, and is spared; what comes before that is
    unknown where packets acknowledge bytes that are captured later.

    For a moment two nodes, or neither of them, take writes for the vbucket.

    Usual causes: a producer that does not wait for replies; a hand-over that was given up.
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


@rule(
    "DCP522",
    "T2",
    "State set on a stream that is no takeover",
    severity=VIOLATION,
    source="dcp/active_stream.cc",
    off=(Suspend.START,),
    on=(SET_STATE,),
)
def no_takeover(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when SET_VBUCKET_STATE comes on a stream that was requested without the takeover flag.

    The consumer would become the owner of a vbucket that has one.

    Usual causes: flags of another stream.
    """
    if stream.request is None or stream.asked_takeover:
        return None
    return "SET_VBUCKET_STATE on a stream that was not requested with takeover"


@rule(
    "DCP523",
    "T3",
    "State that no hand-over has",
    severity=SUSPICIOUS,
    source="dcp/active_stream.cc, daemon/mcbp_validators.cc",
    on=(SET_STATE,),
)
def odd_state(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Reported when SET_VBUCKET_STATE has another state than pending (3) and active (1).

    A consumer takes replica (2) and dead (4) over all the same; it refuses states that do not exist with Einval.

    Usual causes: the numbers of an old prototype, where replica and pending were swapped.
    """
    state = frame.get("state")
    if state is None or state in (ACTIVE, PENDING):
        return None
    status = "" if state in VBUCKET_STATE.names else "Einval"
    return Remark(f"SET_VBUCKET_STATE with state {_spoken(state)}", status=status)


@rule(
    "DCP524",
    "T4",
    "Change after the hand-over",
    severity=VIOLATION,
    source="dcp/active_stream.cc",
    off=(Suspend.LOST,),
    on=(Event.OUTSIDE,),
)
def after(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when markers or documents come after SET_VBUCKET_STATE(active).

    The consumer owns the vbucket by then and makes seqnos itself: the two histories diverge.

    Usual causes: a source that continues to take writes.
    """
    if stream.state != ACTIVE or frame.opcode not in _DATA or stream.end_frame is not None:
        return None
    return f"{name(frame.opcode)} after SET_VBUCKET_STATE(active)"


RULES = (order, no_takeover, odd_state, after)
