"""DCP221-242: streams: how they are requested, granted, rolled back and ended, and which messages belong to them."""

from dcpdump.check.finding import quoted
from dcpdump.check.rule import INFO, RESPONSE, SUSPICIOUS, VIOLATION, Delayed, Event, Remark, Scope, Suspend, rule
from dcpdump.check.rules.frames import awaited, name, unmatched, without_stream
from dcpdump.spec.names import CACHE_TRANSFER, FROM_LATEST, STREAM_END_STATUS
from dcpdump.spec.statuses import ROLLBACK
from dcpdump.streams import opcode_kinds as kinds
from dcpdump.streams.frame_event import FrameEvent, between, failover_log, stream_key
from dcpdump.streams.identity import host, host_of
from dcpdump.streams.learning import request_of
from dcpdump.streams.phases import ClosingEvent, Phase, PhaseEvent, allows
from dcpdump.streams.rollbacks import LOOP, RollbackReason, Wrong, begins_loop, overdue
from dcpdump.streams.state import SECOND, ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import clock

# -- stream requests, and what is answered to them ----------------------------------------------------


@rule("DCP221", "L1", VIOLATION, kinds.STREAM_REQ, status="Erange")
def request_range(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream request whose range is out of order.

    Reported when a request is without snapshot start <= start <= snapshot end, or with start > end.

    The server answers Erange. (With the flag from-latest it sets the numbers itself; a notifier has no end.)

    Usual causes: a checkpoint that stored seqno and snapshot at different times; 2^64-1 used as "I do not know".
    Source: dcp/producer.cc
    """
    if frame.shape.version != "1" or connection.setup.notifies:
        return None
    flags, _, start, end, _, snap_start, snap_end = (number or 0 for number in frame.fields)
    if flags & FROM_LATEST:
        return None
    if not snap_start <= start <= snap_end:
        return f"start seqno {start} is outside its snapshot {snap_start}..{snap_end}"
    return f"start seqno {start} is above end seqno {end}" if start > end else None


@rule("DCP222", "L2", VIOLATION, kinds.STREAM_REQ | RESPONSE, scope=Scope.STREAM, status="KeyEexists")
def second_stream(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Second live stream of a vbucket.

    Reported when a stream is granted for a vbucket (and stream id) whose stream is open on the same connection.

    A conforming server answers KeyEexists. With two streams every change arrives twice.

    Usual causes: a client that lost track of a stream; a server that forgot one.
    Source: dcp/producer.cc
    """
    request = awaited(frame, connection)
    if frame.status or request is None:
        return None
    other = request.still_open
    if other is None or not other.live or other.closed or other.doubtful:
        return None
    return f"granted, though the stream with opaque 0x{other.opaque or 0:08x} is open"


_WITH_LOGS = [each | RESPONSE for each in (kinds.STREAM_REQ, kinds.FAILOVER_LOG, kinds.FAILOVER_LOG_OLD)]


@rule("DCP224", "L4", VIOLATION, *_WITH_LOGS)
def history(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Failover log that is empty or out of order.

    Reported when a failover log is without an entry, has entries that are not 16 bytes or of uuid 0, or
    (suspicious) is not newest first with seqnos that never rise.

    A consumer that cannot read the log closes the connection; one that reads it wrongly resumes wrongly.

    Usual causes: a server that has just lost its history.
    Source: failover-table.cc, dcp/consumer.cc
    """
    if frame.status or frame.record is None:
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


@rule("DCP228", "L8", SUSPICIOUS, kinds.ADD_STREAM | RESPONSE, scope=Scope.CONNECTION)
def added(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """ADD_STREAM answered with another stream.

    Reported when the opaque of an ADD_STREAM answer (in network order) is that of no stream request on the
    connection, in either byte order.

    The consumer that asked does not know which stream it got. (The two legs may be on different connections of a
    proxy; then there is no stream request here to compare with.)

    Usual causes: an opaque swapped twice.
    Source: dcp/consumer.cc
    """
    opaque = frame.get("stream_opaque")
    if frame.status or not opaque or not connection.lookup.by_opaque or connection.setup.produces is not False:
        return None
    swapped = int.from_bytes(opaque.to_bytes(4, "big"), "little")
    if {opaque, swapped} & connection.lookup.by_opaque.keys():
        return None
    return f"ADD_STREAM response names opaque 0x{opaque:08x}, which no stream has"


@rule("DCP230", "L10", SUSPICIOUS, kinds.STREAM_REQ)
def shared_opaque(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Opaque of another live stream.

    Reported when a stream is requested with the opaque of a live stream of another vbucket. As information, and
    once, where all streams of the connection have one opaque: some clients do so on purpose.

    Answers and messages of the two can then only be distinguished by vbucket, and answers have none.

    Usual causes: a constant opaque; a counter of 8 or 16 bits that wrapped.
    Source: dcp/consumer.cc
    """
    other = connection.lookup.by_opaque.get(frame.opaque)
    if other is None or not other.live or other.closed or other.vbucket == frame.vbucket or not other.begin_captured:
        return None
    text = f"opaque 0x{frame.opaque:08x} is that of the stream of vbucket {other.vbucket}"
    if len(connection.lookup.by_opaque) > 1:
        return text
    return Remark(text, INFO) if connection.lookup.requests == 1 else None


@rule("DCP237", "L17", VIOLATION, kinds.STREAM_REQ | RESPONSE, scope=Scope.STREAM)
def unfit(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Stream granted whose request had to be refused.

    Reported when a stream is granted although the JSON of its request is not an object, names both a scope and
    collections, has no key that is known, a value of the wrong type, an id that is not hexadecimal, or the stream id
    0. Not what only some servers refuse: members that newer ones know, a uid, a stream id above 65535. As
    information, as servers before 7.1 grant it: a stream of some collections on a connection with
    enable_sync_writes.

    The client gets other documents than it asked for: a conforming server refuses with Einval, DcpStreamIdInvalid
    or NotSupported.

    Usual causes: a server of another make; a proxy that leaves the value out.
    Source: collections/vbucket_filter.cc, dcp/producer.cc
    """
    request = awaited(frame, connection)
    if frame.status or request is None or not request.has_json or connection.setup.has_collections is False:
        return None
    if request.fault is not None and request.fault.status:
        fault = request.fault
        value = f"{quoted(fault.value)} " if fault.value else ""
        return Remark(f"stream granted, though {fault.member} {value}{fault.wrong}", status=fault.status)
    if request.collections is not None and connection.controls_known and connection.setup.on("enable_sync_writes"):
        return Remark("stream of some collections granted, and enable_sync_writes is on", INFO, "NotSupported")
    return None


@rule("DCP242", "L22", SUSPICIOUS, Event.SKIPPED_CHANGES)
def resumed_beyond(delayed: Delayed, connection: ConnectionState, stream: Stream) -> str | None:
    """Resumed beyond what was received.

    Reported when a client that lost a stream asks again, at once and for the same history, from a seqno above all
    that it has received, and that is granted: what lies in between is never sent to it. A client may have saved an
    older seqno than it has received, and never a later one.

    All streams of the vbucket that may be of this client are captured from their beginning, without loss. The ends of
    snapshots count as received. Not judged: streams of some collections only, takeovers, streams that the client
    closed or that finished, one asked for more than 10 s later, those of a vbucket with more than 128 streams, and one
    from a seqno that a server reported as its high seqno, or that is in the failover log: the client may want what
    comes from now on.

    Usual causes: a checkpoint of another client, vbucket or cluster; one that is saved before its changes are
    processed, or from the snapshot's end of another stream; a checkpoint that somebody edited.
    """
    return None if delayed.skip is None else delayed.skip.text


# -- rollbacks, what is made of them, and that they are sent where they are due -----------------------


@rule("DCP225", "L5", VIOLATION, kinds.STREAM_REQ | RESPONSE)
def rollback_value(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Rollback without a usable seqno.

    Reported when a Rollback answer is without a seqno of 8 bytes, or has one above what was requested.

    A server's consumer closes the connection. An application that obeys would skip changes.

    Usual causes: a proxy that answers in a server's place.
    Source: failover-table.cc, dcp/consumer.cc
    """
    if frame.status != ROLLBACK:
        return None
    if frame.value_length != 8:
        return f"the rollback's value has {frame.value_length} bytes, not 8"
    request, seqno = awaited(frame, connection), frame.get("rollback_seqno")
    if request is None or seqno is None or not request.begins_below(seqno):
        return None
    return f"rollback to {seqno}, above the requested start {request.start}"


@rule("DCP226", "L6", SUSPICIOUS, kinds.STREAM_REQ, scope=Scope.CONNECTION)
def disobeyed(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Rollback that was not obeyed.

    Reported when a stream request, after Rollback to r, starts above r again with the same vbucket uuid, and no other
    flags or purge seqno, by which it may be granted.

    The server will say Rollback again. (Servers themselves try an older uuid first.)

    Usual causes: a client that rolls back in memory but requests from its stored checkpoint.
    Source: dcp/consumer.cc
    """
    now = connection.lookup.current.get(stream_key(frame.vbucket, request_of(frame).stream_id))
    if now is None or now.granted or not now.requests.rolled_back:
        return None
    before, again = now.requests.rolled_back[-1], request_of(frame)
    seqno = -1 if before.rollback_seqno is None else before.rollback_seqno
    start, uuid = frame.get("start_seqno"), frame.get("vbucket_uuid")
    if start is None or start <= seqno or uuid != before.vbucket_uuid:
        return None
    if (again.bits, again.purge_seqno) != (before.bits, before.purge_seqno):
        return None
    if any(each.frame.vbucket == frame.vbucket for each in connection.asked_for(kinds.STREAM_REQ)):
        return None  # it may have obeyed by that, and this one comes after its answer
    return f"asks from {start} again, though it was told {seqno}"


@rule("DCP227", "L7", SUSPICIOUS, kinds.STREAM_REQ | RESPONSE)
def loop(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Rollback loop.

    Reported when the same Rollback is answered to the same request more than three times, also with grants in between.

    Client and server repeat this without an end.

    Usual causes: a uuid that is not in the failover log, kept in a checkpoint; a snapshot end of 2^64-1.
    """
    waiting, seqno = connection.exchanges.asked(frame), frame.get("rollback_seqno")
    if frame.status != ROLLBACK or waiting is None or waiting.request is None or waiting.stream is None:
        return None
    again = begins_loop(waiting.request, seqno, waiting.stream)
    return f"rolled back to {seqno} for the {LOOP + 1}th time" if again else None


@rule("DCP238", "L18", VIOLATION, kinds.STREAM_REQ | RESPONSE, scope=Scope.STREAM, status="Rollback")
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
    if frame.status or request is None or frame.record is None:
        return None
    log = list(failover_log(frame))
    clause = overdue(request, log)
    if clause is RollbackReason.UUID:
        return f"granted from {request.start}, and uuid 0x{request.vbucket_uuid or 0:x} is not in the failover log"
    if clause is RollbackReason.SNAPSHOT:
        snapshot = f"{request.snap_start}..{request.snap_end_seqno}"
        return f"granted, and the snapshot {snapshot} goes beyond the branch of uuid 0x{request.vbucket_uuid or 0:x}"
    return None


@rule("DCP241", "L21", VIOLATION, Event.WRONG_ROLLBACK)
def misdirected(delayed: Delayed, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Rollback to another seqno than was due.

    Reported when a Rollback goes to another seqno than the failover log gives, as "dcpdump rollbacks" explains it,
    or when none is due: for a request from 0. Of equal ones of a stream, the first.

    It is a violation where the client keeps changes that the server does not vouch for: above the start of its
    snapshot, by any log, or above where its branch ends by a log that was captured before the request and after it. It
    is suspicious where the log was captured only once, or the client goes back further than it has to.

    Usual causes: a server that takes a failover's seqno although the client is in the middle of a snapshot; a proxy
    that answers in a server's place.
    Source: failover-table.cc
    """
    found = delayed.explanation
    if found is None or found.wrong is None:
        return None
    severity = VIOLATION if found.wrong is Wrong.SURELY else SUSPICIOUS
    return Remark(f"rollback to {delayed.amount}: {found.text}", severity)


# -- streams that were granted: what belongs to them, and how they begin ------------------------------


def _out_of_range(frame: FrameEvent) -> str:
    """Return what a consumer answers to a change that is in no snapshot: of some it does not compare the range."""
    return "Erange" if frame.opcode in kinds.WITH_VALUES else "UnknownCommand" if frame.opcode == kinds.ADVANCED else ""


def _is_outside(frame: FrameEvent, stream: Stream) -> bool:
    """Return whether a frame is a change of a stream that is in no snapshot: not ended, and not handed over."""
    out = stream.phase is not Phase.HANDED_OVER and not allows(stream.phase, PhaseEvent.ITEM)
    return out and frame.opcode in (*kinds.SEQUENCED, kinds.FLUSH) and stream.end is None


@rule("DCP223", "L3", VIOLATION, Event.OUTSIDE, Event.STRAY, scope=Scope.STREAM)
def not_open(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Message of a stream that is not open.

    Reported when a message comes for a vbucket without a granted stream, or after STREAM_END. (After CLOSE_STREAM
    messages that were queued may still arrive, but not behind the STREAM_END that may follow.)

    A conforming consumer answers KeyEnoent, or DcpStreamNotFound with v7_dcp_status_codes.

    Usual causes: a stream request that was refused; a producer that continues to send after it ended the stream.
    Source: dcp/producer.cc, dcp/active_stream.cc
    """
    may_come = allows(stream.closing_phase, ClosingEvent.MESSAGE)
    if stream.end is not None and not may_come and stream.vbucket == frame.vbucket:
        text = f"{name(frame.opcode)} after the stream ended in frame {stream.end.frame}"
        return Remark(text, status=without_stream(connection))
    if stream.known or (connection.doubtful and any(connection.asked_for(kinds.STREAM_REQ))):
        return None
    known = connection.stream_of(frame)
    if known is not None and (known.granted or not known.requests):
        return None
    return Remark(f"{name(frame.opcode)} of a stream that was not granted", status=without_stream(connection))


@rule("DCP229", "L9", VIOLATION, Event.STRAY, kinds.SEQNO_ACK, scope=Scope.STREAM)
def opaque(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Opaque is not that of the stream.

    Reported when a message of a stream does not carry the opaque of its stream request.

    The opaque distinguishes a stream from the one before it on the same vbucket. A conforming consumer answers
    KeyEexists, or OpaqueNoMatch with v7_dcp_status_codes; it ignores such a STREAM_END, and a producer such a
    SEQNO_ACKNOWLEDGED.

    Usual causes: messages of an earlier stream that were still queued; an opaque counted up for each message.
    Source: dcp/active_stream.cc, dcp/consumer.cc
    """
    if frame.opcode == kinds.SEQNO_ACK:
        wrong = stream.known and stream.opaque != frame.opaque and stream.live
        known: Stream | None = stream if wrong else None
    else:
        if frame.opaque in connection.lookup.by_opaque:
            return None
        known = connection.stream_of(frame)
    if known is None or known.doubtful:
        return None
    status = "" if frame.opcode == kinds.SEQNO_ACK else unmatched(frame, connection)
    text = f"{name(frame.opcode)} has opaque 0x{frame.opaque:08x}, its stream has 0x{known.opaque or 0:08x}"
    return Remark(text, status=status)


@rule("DCP234", "L14", VIOLATION, Event.OUTSIDE, scope=Scope.STREAM)
def beginning(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Stream that does not begin with a marker.

    Reported when the first message of a stream is neither a snapshot marker, OSO start, cache transfer nor
    STREAM_END.

    Without a marker the consumer does not know which seqnos belong together, and refuses a document with Erange.

    Usual causes: a marker lost by a proxy; a producer that resumes in the middle.
    Source: dcp/active_stream.cc, dcp/cache_transfer_stream.cc
    """
    if stream.seqnos.high is not None or not _is_outside(frame, stream) or stream.oso_ended:
        return None
    return Remark(f"the stream begins with {name(frame.opcode)}", status=_out_of_range(frame))


@rule("DCP235", "L15", VIOLATION, Event.OUTSIDE, scope=Scope.STREAM)
def outside(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Change outside any snapshot.

    Reported when a document, an event or a durable write comes in a stream that has had no marker, or after the
    end of an out-of-order snapshot.

    There is no range that it could belong to. A server's consumer answers Erange to documents and prepares; of
    commits, aborts and events it does not compare the range.

    Usual causes: as for a stream that does not begin with a marker.
    Source: dcp/passive_stream.cc
    """
    if not _is_outside(frame, stream):
        return None
    if stream.oso_ended:
        text = f"{name(frame.opcode)} after the end of an out-of-order snapshot, and before a marker"
        return Remark(text, status=_out_of_range(frame))
    if stream.seqnos.high is None:
        return None
    return Remark(f"{name(frame.opcode)} before any marker", status=_out_of_range(frame))


@rule("DCP236", "L16", VIOLATION, kinds.CACHED, kinds.CACHED_END, kinds.MARKER, scope=Scope.STREAM)
def cache(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Cache transfer out of place.

    Reported when a cache transfer comes on a stream that was not requested with that flag, after the first marker
    or after its own end, when a document of it has a seqno above the stream's start, and when a marker comes before
    its end.

    A server's consumer does not check this: it keeps documents that it must not have yet.

    Usual causes: a producer that begins the stream before the transfer is done.
    Source: dcp/cache_transfer_stream.cc
    """
    request = stream.request
    if request is None:
        return None
    if frame.opcode == kinds.MARKER:
        in_it = request.bits & CACHE_TRANSFER and stream.phase is Phase.CACHE_TRANSFER
        early = in_it and stream.traffic.count(kinds.CACHED)
        return "snapshot marker before the cache transfer ended" if early else None
    if not request.bits & CACHE_TRANSFER:
        return f"{name(frame.opcode)} on a stream that was not requested with cache-transfer"
    if not allows(stream.phase, PhaseEvent.CACHED):
        return f"{name(frame.opcode)} after the cache transfer was over"
    if frame.opcode == kinds.CACHED_END and request.end <= request.start:
        return "CACHE_TRANSFER_END on a stream that does not go on"
    if frame.record is not None and frame.opcode == kinds.CACHED:
        for field in frame.record.frame.fields:
            if field.field.name == "by_seqno" and isinstance(field.value, int) and field.value > request.start:
                return f"seqno {field.value} in a cache transfer up to {request.start}"
    return None


#: For so long two servers stream a vbucket that moves.
_BOTH_NS = 10 * SECOND
#: Addresses of whatever machine is at hand.
_LOOPBACK = ("127.0.0.1", "[::1]")


@rule("DCP240", "L20", SUSPICIOUS, kinds.MARKER)
def two_owners(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Two servers stream one vbucket.

    Reported when changes of a vbucket are announced ten seconds after another server granted a stream of it, which is
    open still: of the same bucket and history, as their failover logs have a uuid in common.

    At most one server is active for a vbucket. When it moves, the last changes of the old one are on their way for a
    moment. (Streams between nodes are not judged: replicas may have replicas; nor is a server on a loopback address,
    or on the host of the other's client: it may be a proxy.)

    Usual causes: a client that streams from a replica; a failover of a server that still runs.
    Source: dcp/producer.cc
    """
    other = connection.memory.producing.get((connection.setup.bucket or "", frame.vbucket))
    if other is None or not other.live or other.closed or other.connection is connection:
        return None
    lasted_ns = between(other.granted_ns, frame.ts_ns)
    if lasted_ns is None or lasted_ns < _BOTH_NS:
        return None
    mine, theirs = connection, other.connection
    if mine.setup.between_nodes or theirs.setup.between_nodes or not theirs.is_used(frame.ts_ns):
        return None
    logs = (stream.failover_log or (), other.failover_log or ())
    if not set.intersection(*({each.uuid for each in log} for log in logs)):
        return None
    here, there = mine.server_address, theirs.server_address
    if here is None or there is None or host_of(here) in (host_of(there), host(theirs), *_LOOPBACK):
        return None
    if host_of(there) in (host(mine), *_LOOPBACK):
        return None
    return f"{there} streams this vbucket too, on connection {theirs.number}, since {clock(other.granted_ns)}"


# -- how streams end ----------------------------------------------------------------------------------

_OK, _CLOSED, _STATE, _DISCONNECTED, _SLOW, _BACKFILL, _ROLLBACK, _EMPTY, _PRIVILEGES = range(9)


@rule("DCP231", "L11", SUSPICIOUS, kinds.STREAM_END, scope=Scope.STREAM, off=(Suspend.FILTER,))
def early_end(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """Stream ended Ok before its end.

    Reported when a stream ends with Ok although the requested end seqno was not reached, and nothing else explains
    it: the flags disk-only, to-latest, takeover, cache-transfer, a start at or above the end, or a client without
    collections, to which what comes last may not be sent. As information only but between nodes, where it got more than
    it misses, as that may be in a system collection, which not every user gets (from 7.6 on).

    The client treats it as complete, and misses what it did not get.

    Usual causes: a bug of the producer.
    Source: dcp/active_stream.cc
    """
    request = stream.request
    if request is None or frame.get("status") != _OK:
        return None
    if request.fixed_end is None or request.bits & CACHE_TRANSFER or request.start >= request.end:
        return None
    if stream.seqnos.reached >= request.end or stream.filtered_silently:
        return None
    text = f"ended Ok at seqno {stream.seqnos.floor or request.start}, requested up to {request.end}"
    most = 2 * stream.seqnos.reached > request.start + request.end
    return Remark(text, INFO if most and not connection.setup.between_nodes else None)


@rule("DCP232", "L12", SUSPICIOUS, kinds.STREAM_END, scope=Scope.STREAM)
def odd_end(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream ended for a reason that does not fit.

    Reported when STREAM_END(Closed) comes unasked, and of reasons 3 and 6, which servers do not send, and 7 and 8
    (collections dropped, access lost) on a connection without collections.

    Usual causes: another implementation of DCP; a proxy.
    Source: dcp/active_stream.cc
    """
    reason = frame.get("status")
    if reason == _CLOSED:
        if stream.closing or allows(stream.closing_phase, ClosingEvent.END_CLOSED):
            if connection.controls_known and not connection.setup.on("send_stream_end_on_client_close_stream"):
                return "ended as Closed, though send_stream_end_on_client_close_stream is not on"
            return None
        return "ended as Closed, and no CLOSE_STREAM was sent"
    if reason in (_DISCONNECTED, _ROLLBACK):
        return f"ended with reason {reason} ({STREAM_END_STATUS.names[reason]}), which servers do not send"
    if reason in (_EMPTY, _PRIVILEGES) and connection.setup.has_collections is False:
        return f"ended with reason {reason} ({STREAM_END_STATUS.names[reason]}) on a connection without collections"
    return None


@rule("DCP239", "L19", VIOLATION, kinds.CLOSE_STREAM | RESPONSE, scope=Scope.CONNECTION, status="KeyEnoent")
def closed_twice(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """CLOSE_STREAM of no stream that succeeds.

    Reported when a producer answers Success to CLOSE_STREAM, and the vbucket has no stream of that stream id on the
    connection, or it has ended.

    A conforming producer answers KeyEnoent (or DcpStreamIdInvalid where only the stream id is wrong).

    Usual causes: a proxy that answers in a server's place.
    Source: dcp/producer.cc
    """
    waiting = connection.exchanges.asked(frame)
    if frame.status or waiting is None or connection.setup.produces is not True:
        return None
    known = connection.stream_of(waiting.frame)
    if known is None or not known.is_sending:
        return "CLOSE_STREAM answered with Success, and there is no such stream"
    if known.closed:
        return "CLOSE_STREAM answered with Success, and the stream was closed before"
    if known.end is None or known.end_status == _CLOSED:
        return None
    return f"CLOSE_STREAM answered with Success, and the stream ended in frame {known.end.frame}"
