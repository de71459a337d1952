"""DCP221-241: stream requests, what is answered to them, and what is made of the answer."""

from dcpdump.check.rule import INFO, RESPONSE, SUSPICIOUS, VIOLATION, Delayed, Event, Remark, Scope, Suspend, rule
from dcpdump.spec.names import FROM_LATEST
from dcpdump.spec.statuses import ROLLBACK
from dcpdump.streams.clause import Clause, overdue
from dcpdump.streams.explanation import Wrong
from dcpdump.streams.facts import Entry
from dcpdump.streams.frame_event import FrameEvent, failover_log
from dcpdump.streams.opcode_kinds import ADD_STREAM, FAILOVER_LOG, FAILOVER_LOG_OLD, STREAM_REQ
from dcpdump.streams.request import Request
from dcpdump.streams.requests import request_of
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

_LOOP = 3


def awaited(frame: FrameEvent, connection: ConnectionState) -> Request | None:
    """Return the stream request that an answer is for; None where it was not captured."""
    waiting = connection.exchanges.asked(frame)
    return None if waiting is None else waiting.request


@rule(
    "DCP221",
    "L1",
    "Stream request whose range is out of order",
    severity=VIOLATION,
    source="dcp/producer.cc",
    on=(STREAM_REQ,),
    status="Erange",
)
def request_range(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when a request is without snapshot start <= start <= snapshot end, or with start > end.

    The server answers Erange. (With the flag from-latest it sets the numbers itself; a notifier has no end.)

    Usual causes: a checkpoint that stored seqno and snapshot at different times; 2^64-1 used as "I do not know".
    """
    if frame.shape.version != "1" or connection.notifies:
        return None
    flags, _, start, end, _, snap_start, snap_end = (number or 0 for number in frame.fields)
    if flags & FROM_LATEST:
        return None
    if not snap_start <= start <= snap_end:
        return f"start seqno {start} is outside its snapshot {snap_start}..{snap_end}"
    return f"start seqno {start} is above end seqno {end}" if start > end else None


@rule(
    "DCP222",
    "L2",
    "Second live stream of a vbucket",
    severity=VIOLATION,
    source="dcp/producer.cc",
    off=(Suspend.START, Suspend.LOST),
    on=(STREAM_REQ | RESPONSE,),
    status="KeyEexists",
)
def second_stream(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when a stream is granted for a vbucket (and stream id) whose stream is open on the same connection.

    A conforming server answers KeyEexists. With two streams every change arrives twice.

    Usual causes: a client that lost track of a stream; a server that forgot one.
    """
    request = awaited(frame, connection)
    if frame.word or request is None:
        return None
    other = request.still_open
    if other is None or not other.live or other.closed or other.doubtful:
        return None
    return f"granted, though the stream with opaque 0x{other.opaque or 0:08x} is open"


@rule(
    "DCP224",
    "L4",
    "Failover log that is empty or out of order",
    severity=VIOLATION,
    source="failover-table.cc, dcp/consumer.cc",
    on=(STREAM_REQ | RESPONSE, FAILOVER_LOG | RESPONSE, FAILOVER_LOG_OLD | RESPONSE),
)
def history(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Reported when a failover log is without an entry, has entries that are not 16 bytes or of uuid 0, or
    (suspicious) is not newest first with seqnos that never rise.

    A consumer that cannot read the log closes the connection; one that reads it wrongly resumes wrongly.

    Usual causes: a server that has just lost its history.
    """
    if frame.word or frame.record is None:
        return None
    size = frame.value_length
    if not size:
        return "the failover log is empty"
    if size % 16:
        return f"the failover log has {size} bytes, not a multiple of 16"
    entries = list(failover_log(frame))
    if any(uuid == 0 for uuid, _ in entries):
        return "the failover log has an entry with uuid 0"
    seqnos = [seqno for _, seqno in entries]
    if seqnos != sorted(seqnos, reverse=True):
        return Remark(f"the failover log is not newest first: {', '.join(map(str, seqnos))}", SUSPICIOUS)
    return None


@rule(
    "DCP225",
    "L5",
    "Rollback without a usable seqno",
    severity=VIOLATION,
    source="failover-table.cc, dcp/consumer.cc",
    on=(STREAM_REQ | RESPONSE,),
)
def rollback_value(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when a Rollback answer is without a seqno of 8 bytes, or has one above what was requested.

    A server's consumer closes the connection. An application that obeys would skip changes.

    Usual causes: a proxy that answers in a server's place.
    """
    if frame.word != ROLLBACK:
        return None
    if frame.value_length != 8:
        return f"the rollback's value has {frame.value_length} bytes, not 8"
    request, seqno = awaited(frame, connection), frame.get("rollback_seqno")
    if request is None or seqno is None or not request.begins_below(seqno):
        return None
    return f"rollback to {seqno}, above the requested start {request.start}"


@rule(
    "DCP226",
    "L6",
    "Rollback that was not obeyed",
    severity=SUSPICIOUS,
    source="dcp/consumer.cc",
    off=(Suspend.START,),
    on=(STREAM_REQ,),
    scope=Scope.CONNECTION,
)
def disobeyed(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when a stream request, after Rollback to r, starts above r again with the same vbucket uuid.

    The server will say Rollback again. (Servers themselves try an older uuid first.)

    Usual causes: a client that rolls back in memory but requests from its stored checkpoint.
    """
    before, _ = connection.rolled_back.get(frame.word << 16 | request_of(frame).stream_id, (None, 0))
    if before is None:
        return None
    seqno = -1 if before.rollback_seqno is None else before.rollback_seqno
    start, uuid = frame.get("start_seqno"), frame.get("vbucket_uuid")
    if start is None or start <= seqno or uuid != before.vbucket_uuid:
        return None
    if any(each.frame.word == frame.word for each in connection.asked_for(STREAM_REQ)):
        return None  # it may have obeyed by that, and this one comes after its answer
    return f"requests from {start} again after Rollback to {seqno}"


@rule(
    "DCP227",
    "L7",
    "Rollback loop",
    severity=SUSPICIOUS,
    source="",
    on=(STREAM_REQ | RESPONSE,),
)
def loop(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when the same Rollback is answered to the same request more than three times in a row.

    Client and server repeat this without an end.

    Usual causes: a uuid that is not in the failover log, kept in a checkpoint; a snapshot end of 2^64-1.
    """
    waiting, request = connection.exchanges.asked(frame), awaited(frame, connection)
    if frame.word != ROLLBACK or waiting is None or request is None:
        return None
    before, times = connection.rolled_back.get(waiting.frame.word << 16 | request.stream_id, (None, 0))
    seqno = frame.get("rollback_seqno")
    if before is None or before.rollback_seqno != seqno or before.start_seqno != request.start_seqno:
        return None
    return f"rolled back to {seqno} for the {times + 1}th time in a row" if times == _LOOP else None


@rule(
    "DCP228",
    "L8",
    "ADD_STREAM answered with another stream",
    severity=SUSPICIOUS,
    source="dcp/consumer.cc",
    off=(Suspend.START,),
    on=(ADD_STREAM | RESPONSE,),
    scope=Scope.CONNECTION,
)
def added(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when the opaque of an ADD_STREAM answer (in network order) is that of no stream request on the
    connection, in either byte order.

    The consumer that asked does not know which stream it got. (The two legs may be on different connections of a
    proxy; then there is no stream request here to compare with.)

    Usual causes: an opaque swapped twice.
    """
    opaque = frame.get("stream_opaque")
    if frame.word or not opaque or not connection.by_opaque or connection.produces is not False:
        return None
    swapped = int.from_bytes(opaque.to_bytes(4, "big"), "little")
    if {opaque, swapped} & connection.by_opaque.keys():
        return None
    return f"ADD_STREAM response names opaque 0x{opaque:08x}, which no stream has"


@rule(
    "DCP230",
    "L10",
    "Opaque of another live stream",
    severity=SUSPICIOUS,
    source="dcp/consumer.cc",
    on=(STREAM_REQ,),
)
def shared_opaque(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Reported when a stream is requested with the opaque of a live stream of another vbucket. As information, and
    once, where all streams of the connection have one opaque: some clients do so on purpose.

    Answers and messages of the two can then only be distinguished by vbucket, and answers have none.

    Usual causes: a constant opaque; a counter of 8 or 16 bits that wrapped.
    """
    other = connection.by_opaque.get(frame.opaque)
    if other is None or not other.live or other.closed or other.vbucket == frame.word or not other.begin_captured:
        return None
    text = f"opaque 0x{frame.opaque:08x} is that of the stream of vbucket {other.vbucket}"
    if len(connection.by_opaque) > 1:
        return text
    return Remark(text, INFO) if connection.stream_requests == 1 else None


@rule(
    "DCP237",
    "L17",
    "Stream granted whose request had to be refused",
    severity=VIOLATION,
    source="collections/vbucket_filter.cc, dcp/producer.cc",
    off=(Suspend.START, Suspend.LOST),
    on=(STREAM_REQ | RESPONSE,),
)
def unfit(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Reported when a stream is granted although the JSON of its request is not an object, names both a scope and
    collections, has no key that is known, a value of the wrong type, the stream id 0 or one above 65535. As
    information, as servers before 7.1 grant it: a stream of some collections on a connection with
    enable_sync_writes.

    The client gets other documents than it asked for: a conforming server refuses with Einval, DcpStreamIdInvalid
    or NotSupported.

    Usual causes: a server of another make; a proxy that leaves the value out.
    """
    request = awaited(frame, connection)
    if frame.word or request is None or not request.has_json or connection.has_collections is False:
        return None
    if request.fault is not None:
        return Remark(f"stream granted, though {request.fault.text}", status=request.fault.status)
    if request.collections is not None and connection.controls_known and connection.on("enable_sync_writes"):
        return Remark("stream of some collections granted, and enable_sync_writes is on", INFO, "NotSupported")
    return None


@rule(
    "DCP238",
    "L18",
    "Stream granted although a rollback was due",
    severity=VIOLATION,
    source="failover-table.cc",
    off=(Suspend.START, Suspend.LOST),
    on=(STREAM_REQ | RESPONSE,),
    status="Rollback",
)
def due(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when a stream is granted although, by the failover log that comes with the grant, the client has what
    the server has not: its vbucket uuid is not in the log, or its snapshot goes beyond the end of that uuid's branch.

    A conforming server answers Rollback. The client keeps changes that were lost in a failover, and the two histories
    differ from then on.

    Usual causes: a proxy that answers in a server's place; a server that lost its failover log.
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


@rule(
    "DCP241",
    "L21",
    "Rollback to another seqno than was due",
    severity=VIOLATION,
    source="failover-table.cc",
    on=(Event.SENT_BACK,),
)
def misdirected(delayed: Delayed, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Reported when a Rollback goes to another seqno than the failover log gives, as "dcpdump rollbacks" explains it,
    or when none is due: for a request from 0. Of equal ones of a stream, the first.

    It is a violation where the client keeps changes that the server does not vouch for: above the start of its
    snapshot, whatever the log, or above where its branch ends by a log that was captured before the request and after
    it. It is suspicious where the log was captured only once, or the client goes back further than it has to.

    Usual causes: a server that takes a failover's seqno although the client is in the middle of a snapshot; a proxy
    that answers in a server's place.
    """
    found = delayed.explanation
    if found is None or found.wrong is None:
        return None
    severity = VIOLATION if found.wrong is Wrong.SURELY else SUSPICIOUS
    return Remark(f"rollback to {delayed.amount}: {found.text}", severity)


RULES = (
    request_range,
    second_stream,
    history,
    rollback_value,
    disobeyed,
    loop,
    added,
    shared_opaque,
    unfit,
    due,
    misdirected,
)
