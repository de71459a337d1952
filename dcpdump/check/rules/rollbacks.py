"""DCP225-227, DCP238, DCP241: rollbacks, what is made of them, and that they are sent where they are due."""

from dcpdump.check.rule import LOST, RESPONSE, START, SUSPICIOUS, VIOLATION, Delayed, Event, Remark, Scope, rule
from dcpdump.check.rules.requests import awaited
from dcpdump.spec.statuses import ROLLBACK
from dcpdump.streams.explanation import Clause, Wrong, overdue
from dcpdump.streams.facts import Entry
from dcpdump.streams.frame_event import FrameEvent, failover_log, stream_key
from dcpdump.streams.opcode_kinds import STREAM_REQ
from dcpdump.streams.requests import request_of
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

_LOOP = 3


@rule("DCP225", "L5", VIOLATION, on=(STREAM_REQ | RESPONSE,))
def rollback_value(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Rollback without a usable seqno.

    Reported when a Rollback answer is without a seqno of 8 bytes, or has one above what was requested.

    A server's consumer closes the connection. An application that obeys would skip changes.

    Usual causes: a proxy that answers in a server's place.

    Source: failover-table.cc, dcp/consumer.cc
    """
    if frame.word != ROLLBACK:
        return None
    if frame.value_length != 8:
        return f"the rollback's value has {frame.value_length} bytes, not 8"
    request, seqno = awaited(frame, connection), frame.get("rollback_seqno")
    if request is None or seqno is None or not request.begins_below(seqno):
        return None
    return f"rollback to {seqno}, above the requested start {request.start}"


@rule("DCP226", "L6", SUSPICIOUS, on=(STREAM_REQ,), off=(START,), scope=Scope.CONNECTION)
def disobeyed(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Rollback that was not obeyed.

    Reported when a stream request, after Rollback to r, starts above r again with the same vbucket uuid.

    The server will say Rollback again. (Servers themselves try an older uuid first.)

    Usual causes: a client that rolls back in memory but requests from its stored checkpoint.

    Source: dcp/consumer.cc
    """
    back = connection.rolled_back.get(stream_key(frame.word, request_of(frame).stream_id))
    if back is None or back.obeyed:
        return None
    before = back.request
    seqno = -1 if before.rollback_seqno is None else before.rollback_seqno
    start, uuid = frame.get("start_seqno"), frame.get("vbucket_uuid")
    if start is None or start <= seqno or uuid != before.vbucket_uuid:
        return None
    if any(each.frame.word == frame.word for each in connection.asked_for(STREAM_REQ)):
        return None  # it may have obeyed by that, and this one comes after its answer
    return f"asks from {start} again, though it was told {seqno}"


@rule("DCP227", "L7", SUSPICIOUS, on=(STREAM_REQ | RESPONSE,))
def loop(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Rollback loop.

    Reported when the same Rollback is answered to the same request more than three times, whatever was granted in
    between.

    Client and server repeat this without an end.

    Usual causes: a uuid that is not in the failover log, kept in a checkpoint; a snapshot end of 2^64-1.
    """
    waiting, request = connection.exchanges.asked(frame), awaited(frame, connection)
    if frame.word != ROLLBACK or waiting is None or request is None:
        return None
    back = connection.rolled_back.get(stream_key(waiting.frame.word, request.stream_id))
    seqno = frame.get("rollback_seqno")
    if back is None or back.request.rollback_seqno != seqno or back.request.start_seqno != request.start_seqno:
        return None
    return f"rolled back to {seqno} for the {back.times + 1}th time" if back.times == _LOOP else None


@rule("DCP238", "L18", VIOLATION, on=(STREAM_REQ | RESPONSE,), off=(START, LOST), status="Rollback")
def due(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream granted although a rollback was due.

    Reported when a stream is granted although, by the failover log that comes with the grant, the client has what
    the server has not: its vbucket uuid is not in the log, or its snapshot goes beyond the end of that uuid's branch.

    A conforming server answers Rollback. The client keeps changes that were lost in a failover, and the two histories
    differ from then on.

    Usual causes: a proxy that answers in a server's place; a server that lost its failover log.

    Source: failover-table.cc
    """
    request = awaited(frame, connection)
    if frame.word or request is None or frame.record is None:
        return None
    log = [Entry(*each) for each in failover_log(frame)]
    clause = overdue(request, log)
    if clause is Clause.UUID:
        return f"granted from {request.start}, and uuid 0x{request.vbucket_uuid or 0:x} is not in the failover log"
    if clause is Clause.SNAPSHOT:
        snapshot = f"{request.snap_start}..{request.snap_end_seqno}"
        return f"granted, and the snapshot {snapshot} goes beyond the branch of uuid 0x{request.vbucket_uuid or 0:x}"
    return None


@rule("DCP241", "L21", VIOLATION, on=(Event.SENT_BACK,))
def misdirected(delayed: Delayed, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Rollback to another seqno than was due.

    Reported when a Rollback goes to another seqno than the failover log gives, as "dcpdump rollbacks" explains it,
    or when none is due: for a request from 0. Of equal ones of a stream, the first.

    It is a violation where the client keeps changes that the server does not vouch for: above the start of its
    snapshot, whatever the log, or above where its branch ends by a log that was captured before the request and after
    it. It is suspicious where the log was captured only once, or the client goes back further than it has to.

    Usual causes: a server that takes a failover's seqno although the client is in the middle of a snapshot; a proxy
    that answers in a server's place.

    Source: failover-table.cc
    """
    found = delayed.explanation
    if found is None or found.wrong is None:
        return None
    severity = VIOLATION if found.wrong is Wrong.SURELY else SUSPICIOUS
    return Remark(f"rollback to {delayed.amount}: {found.text}", severity)
