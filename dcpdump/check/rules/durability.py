"""DCP41x, DCP52x: durable writes, and how a vbucket is handed over."""

from dcpdump.check.rule import INFO, RESPONSE, SUSPICIOUS, VIOLATION, Delayed, Event, Remark, Scope, Suspend, rule
from dcpdump.check.rules.frames import name
from dcpdump.spec.names import ACTIVE, DISK, OK, PENDING, VBUCKET_STATE
from dcpdump.streams import opcode_kinds as kinds
from dcpdump.streams.flow import FlowState, flow_status
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.learning import last_message
from dcpdump.streams.phases import ClosingEvent, DurableEvent, Takeover, TakeoverEvent, allows
from dcpdump.streams.silence import undecided
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.window import OUT_OF_ORDER_NS
from dcpdump.streams.wording import span

# -- durable writes -----------------------------------------------------------------------------------

#: A message may take so long to arrive.
_ARRIVES_NS = 10 * 10**9
#: Flow control holds a producer back, or may.
_MAY_HOLD = (FlowState.BLOCKED, FlowState.UNKNOWN)


@rule("DCP411", "D1", VIOLATION, kinds.PREPARE, kinds.COMMIT, kinds.ABORT, scope=Scope.CONNECTION)
def uninvited(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Durable writes that were not requested.

    Reported when PREPARE, COMMIT or ABORT comes on a connection on which enable_sync_writes was not accepted.

    A client that does not know them takes a prepare for a document that is there.

    Usual causes: a control that was refused, and whose refusal was overlooked.
    Source: dcp/active_stream.cc
    """
    if not connection.controls_known or connection.setup.on("enable_sync_writes") or connection.setup.produces is False:
        return None
    return f"{name(frame.opcode)}, and enable_sync_writes is not on"


@rule("DCP412", "D2", VIOLATION, kinds.COMMIT, kinds.ABORT)
def prepared_first(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Decided before it was prepared.

    Reported when the prepared seqno of a COMMIT or ABORT is not below its own (0: suspicious).

    No consumer compares the two: a server looks for the prepare by its key, and fails if its seqno is another.

    Usual causes: the two fields swapped.
    Source: memcached/protocol_binary.h
    """
    prepared, seqno = frame.get("prepared_seqno"), frame.seqno
    if prepared is None or seqno is None or 0 < prepared < seqno:
        return None
    if not prepared and frame.opcode == kinds.ABORT:
        return None
    return Remark(f"{name(frame.opcode)} seqno {seqno} of prepared seqno {prepared}", None if prepared else SUSPICIOUS)


@rule("DCP413", "D3", SUSPICIOUS, kinds.COMMIT, kinds.ABORT, scope=Scope.STREAM, off=(Suspend.FILTER, Suspend.REPLICA))
def orphan(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """COMMIT or ABORT without PREPARE.

    Reported when the key of a COMMIT or ABORT has no open PREPARE with that seqno on this stream. (In disk snapshots
    prepares are de-duplicated, and a stream that resumed has those before its start.) It is a violation where the key
    has an open one of another seqno.

    Where the key has none, a replica answers KeyEnoent to a COMMIT and Einval to an ABORT; where it has another, the
    replica fails.

    Usual causes: a prepare that was lost; a decision sent twice.
    Source: dcp/passive_stream.cc
    """
    prepared = frame.get("prepared_seqno")
    if prepared is None or stream.request is None or prepared <= stream.request.start:
        return None
    if stream.marker is not None and stream.marker.flags & DISK:
        return None
    there, decides = stream.prepares.open.get(frame.key), DurableEvent[name(frame.opcode)]
    may_come = allows(stream.prepares.phase(frame.key), decides)
    if (there is not None and there.seqno == prepared) or (not may_come and stream.prepares.missed):
        return None
    text = f"{name(frame.opcode)} of prepared seqno {prepared}"
    if there is not None:
        return Remark(f"{text}: open is that of seqno {there.seqno} for this key", VIOLATION)
    status = "KeyEnoent" if frame.opcode == kinds.COMMIT else "Einval"
    return Remark(f"{text}: none is open for this key", status=status)


@rule("DCP414", "D4", INFO, Event.STREAM_DONE, scope=Scope.STREAM, off=(Suspend.FILTER,))
def left_undecided(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """PREPARE never resolved.

    Reported when a stream ends while prepares are neither committed nor aborted. Also, as suspicious, when one is
    so on an open stream, at the end of the capture or of the connection, for longer than the longest timeout of a
    client, 65.5 s, and ten seconds. (Not of those in disk snapshots, in takeovers and of dropped collections.)

    Where the stream ended, their outcome comes with the next one of the vbucket, or on its new owner. Where it is open,
    the active copy aborts what is not acknowledged in time; but it does not abort a write that it took over from
    another node, or found on its disk when it started: that waits until enough replicas have it.

    Usual causes: a hand-over in the middle of a durable write; a replica that does not answer, or is not there.
    Source: dcp/passive_stream.cc
    """
    if not stream.prepares.open:
        return None
    if stream.end is None:
        return _open_for_long(connection, stream)
    seqnos = sorted(prepare.seqno for prepare in stream.prepares.open.values())
    shown = ", ".join(map(str, seqnos[:3])) + (" …" if len(seqnos) > 3 else "")
    least = "at least " * stream.prepares.missed
    return f"{least}{len(seqnos)} open prepare{'s' if len(seqnos) > 1 else ''} (seqno {shown}) when the stream ended"


def _open_for_long(connection: ConnectionState, stream: Stream) -> Remark | None:
    """Return that a prepare is open for long, unless flow control holds the producer back, or may."""
    until_ns = connection.now_ns if connection.end.ts_ns is None else connection.end.ts_ns
    found = None if until_ns is None else undecided(stream, until_ns - _ARRIVES_NS)
    if found is None or until_ns is None or flow_status(connection, until_ns).state in _MAY_HOLD:
        return None
    at = last_message(stream)._replace(number=found.frame, ts_ns=found.since_ns)
    return Remark(f"{found.text}, for {span(until_ns - (found.since_ns or 0))}", SUSPICIOUS, frame=at)


@rule("DCP415", "D5", SUSPICIOUS, kinds.PREPARE, off=(Suspend.HISTORY,))
def prepared_twice(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Second prepare of a key.

    Reported when a PREPARE comes for a key whose last one is not decided. (Disk snapshots may leave out what
    decided it.)

    A key has one durable write under way; the next waits with SyncWriteInProgress.

    Usual causes: a commit that was lost.
    Source: dcp/passive_stream.cc
    """
    may_come = allows(stream.prepares.phase(frame.key), DurableEvent.PREPARE)
    if may_come or (stream.marker is not None and stream.marker.flags & DISK):
        return None
    there = stream.prepares.open[frame.key]
    return f"PREPARE seqno {frame.seqno}, though that of seqno {there.seqno} is not decided"


@rule("DCP416", "D6", VIOLATION, kinds.SEQNO_ACK, Event.AHEAD, scope=Scope.CONNECTION)
def too_far(event: FrameEvent | Delayed, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Acknowledged seqno that cannot be.

    Reported when a SEQNO_ACKNOWLEDGED comes on a connection without consumer_name and enable_sync_writes, which is
    refused with Einval; and when its seqno is below the one before, or above everything that was sent on the stream:
    on either the producer closes the connection. (The same seqno again is tolerated.)

    Usual causes: acknowledging a snapshot's end before it came; the seqno of another vbucket.
    Source: dcp/producer.cc, dcp/active_stream.cc
    """
    if isinstance(event, Delayed):
        if connection.controls_known and not connection.setup.sync_replication and connection.setup.produces:
            return Remark("SEQNO_ACKNOWLEDGED without consumer_name and enable_sync_writes", status="Einval")
        if stream.known and not stream.doubtful and event.amount > event.limit:
            return f"acknowledges seqno {event.amount}, sent were those up to {event.limit}"
        return None
    seqno = event.get("prepared_seqno")
    if stream.acks.seqno is None or seqno is None or seqno >= stream.acks.seqno:
        return None
    return f"acknowledges seqno {seqno} after {stream.acks.seqno}"


@rule("DCP418", "D8", INFO, Event.LAGGING)
def lagging(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str:
    """Durable write not acknowledged for long.

    Reported when the replica acknowledges a prepare only after ten seconds or more, or has not at the end of the
    stream or of the capture. Of those that wait at one time, the oldest is.

    Those that ask for persistence are acknowledged only when they are on disk, so that acknowledgements lag;
    after some time the server answers the client of the write that its outcome is not known.

    Usual causes: a slow disk of the replica.
    Source: dcp/passive_stream.cc
    """
    how = "was acknowledged after" if delayed.proven else "was not acknowledged in"
    return f"PREPARE seqno {delayed.amount} {how} {span(delayed.waited_ns)}"


# -- how a vbucket is handed over ---------------------------------------------------------------------


def _spoken(state: int | None) -> str:
    return f"{state} ({VBUCKET_STATE.names.get(state or 0, 'unknown')})"


@rule("DCP521", "T1", SUSPICIOUS, kinds.SET_STATE, kinds.STREAM_END, kinds.SET_STATE | RESPONSE, scope=Scope.STREAM)
def order(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Takeover steps out of order.

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
    if frame.opcode == kinds.STREAM_END:
        if frame.get("status") == OK and not allows(stream.takeover_phase, TakeoverEvent.END_OK):
            return f"the takeover ended Ok in state {_spoken(stream.state)}"
        return None
    state, phase = frame.get("state"), stream.takeover_phase
    if state == ACTIVE and not allows(phase, TakeoverEvent.SET_ACTIVE):
        return "SET_VBUCKET_STATE(active) before pending"
    if state == PENDING and not allows(phase, TakeoverEvent.SET_PENDING):
        return f"SET_VBUCKET_STATE(pending) after state {_spoken(stream.state)}"
    return None


def _too_soon(reply: FrameEvent, stream: Stream) -> Remark | None:
    """Return what was sent although it has to wait for a reply to SET_VBUCKET_STATE; None where all waited."""
    at = stream.acks.states
    if at + 1 < len(stream.states):
        early = stream.states[at + 1]
        ts_ns, frame, what = early.ts_ns, early.frame, f"SET_VBUCKET_STATE({VBUCKET_STATE.names.get(early.state)})"
    elif at + 1 == len(stream.states) and stream.end is not None and stream.end_status == OK:
        ts_ns, frame, what = stream.end.ts_ns, stream.end.frame, "STREAM_END(Ok)"
    else:
        return None
    if ts_ns is None or reply.ts_ns is None or reply.ts_ns - ts_ns < OUT_OF_ORDER_NS:
        return None
    text = f"{what} before the reply to SET_VBUCKET_STATE({VBUCKET_STATE.names.get(stream.states[at].state)})"
    return Remark(text, frame=reply._replace(number=frame, ts_ns=ts_ns), ordered=True)


@rule("DCP522", "T2", VIOLATION, kinds.SET_STATE, scope=Scope.STREAM)
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


@rule("DCP523", "T3", SUSPICIOUS, kinds.SET_STATE)
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


@rule("DCP524", "T4", VIOLATION, Event.OUTSIDE, scope=Scope.STREAM)
def after(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Change after the hand-over.

    Reported when markers or documents come after SET_VBUCKET_STATE(active).

    The consumer owns the vbucket by then and makes seqnos itself: the two histories diverge.

    Usual causes: a source that continues to take writes.
    Source: dcp/active_stream.cc
    """
    handed = stream.takeover_phase is Takeover.ACTIVE and allows(stream.closing_phase, ClosingEvent.MESSAGE)
    if not handed or frame.opcode not in (*kinds.SEQUENCED, kinds.MARKER):
        return None
    return f"{name(frame.opcode)} after SET_VBUCKET_STATE(active)"
