"""DCP221-242: stream requests, and what is answered to them. Rollbacks are in a module of their own."""

from dcpdump.check.finding import quoted
from dcpdump.check.rule import INFO, LOST, RESPONSE, START, SUSPICIOUS, VIOLATION, Delayed, Event, Remark, Scope, rule
from dcpdump.spec.names import FROM_LATEST
from dcpdump.streams.frame_event import FrameEvent, failover_log
from dcpdump.streams.opcode_kinds import ADD_STREAM, FAILOVER_LOG, FAILOVER_LOG_OLD, STREAM_REQ
from dcpdump.streams.request import Request
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream


def awaited(frame: FrameEvent, connection: ConnectionState) -> Request | None:
    """Return the stream request that an answer is for; None where it was not captured."""
    waiting = connection.exchanges.asked(frame)
    return None if waiting is None else waiting.request


@rule("DCP221", "L1", VIOLATION, on=(STREAM_REQ,), status="Erange")
def request_range(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Stream request whose range is out of order.

    Reported when a request is without snapshot start <= start <= snapshot end, or with start > end.

    The server answers Erange. (With the flag from-latest it sets the numbers itself; a notifier has no end.)

    Usual causes: a checkpoint that stored seqno and snapshot at different times; 2^64-1 used as "I do not know".

    Source: dcp/producer.cc
    """
    if frame.shape.version != "1" or connection.notifies:
        return None
    flags, _, start, end, _, snap_start, snap_end = (number or 0 for number in frame.fields)
    if flags & FROM_LATEST:
        return None
    if not snap_start <= start <= snap_end:
        return f"start seqno {start} is outside its snapshot {snap_start}..{snap_end}"
    return f"start seqno {start} is above end seqno {end}" if start > end else None


@rule("DCP222", "L2", VIOLATION, on=(STREAM_REQ | RESPONSE,), off=(START, LOST), status="KeyEexists")
def second_stream(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Second live stream of a vbucket.

    Reported when a stream is granted for a vbucket (and stream id) whose stream is open on the same connection.

    A conforming server answers KeyEexists. With two streams every change arrives twice.

    Usual causes: a client that lost track of a stream; a server that forgot one.

    Source: dcp/producer.cc
    """
    request = awaited(frame, connection)
    if frame.word or request is None:
        return None
    other = request.still_open
    if other is None or not other.live or other.closed or other.doubtful:
        return None
    return f"granted, though the stream with opaque 0x{other.opaque or 0:08x} is open"


@rule("DCP224", "L4", VIOLATION, on=(STREAM_REQ | RESPONSE, FAILOVER_LOG | RESPONSE, FAILOVER_LOG_OLD | RESPONSE))
def history(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Failover log that is empty or out of order.

    Reported when a failover log is without an entry, has entries that are not 16 bytes or of uuid 0, or
    (suspicious) is not newest first with seqnos that never rise.

    A consumer that cannot read the log closes the connection; one that reads it wrongly resumes wrongly.

    Usual causes: a server that has just lost its history.

    Source: failover-table.cc, dcp/consumer.cc
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


@rule("DCP228", "L8", SUSPICIOUS, on=(ADD_STREAM | RESPONSE,), off=(START,), scope=Scope.CONNECTION)
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
    if frame.word or not opaque or not connection.by_opaque or connection.produces is not False:
        return None
    swapped = int.from_bytes(opaque.to_bytes(4, "big"), "little")
    if {opaque, swapped} & connection.by_opaque.keys():
        return None
    return f"ADD_STREAM response names opaque 0x{opaque:08x}, which no stream has"


@rule("DCP230", "L10", SUSPICIOUS, on=(STREAM_REQ,))
def shared_opaque(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Opaque of another live stream.

    Reported when a stream is requested with the opaque of a live stream of another vbucket. As information, and
    once, where all streams of the connection have one opaque: some clients do so on purpose.

    Answers and messages of the two can then only be distinguished by vbucket, and answers have none.

    Usual causes: a constant opaque; a counter of 8 or 16 bits that wrapped.

    Source: dcp/consumer.cc
    """
    other = connection.by_opaque.get(frame.opaque)
    if other is None or not other.live or other.closed or other.vbucket == frame.word or not other.begin_captured:
        return None
    text = f"opaque 0x{frame.opaque:08x} is that of the stream of vbucket {other.vbucket}"
    if len(connection.by_opaque) > 1:
        return text
    return Remark(text, INFO) if connection.stream_requests == 1 else None


@rule("DCP237", "L17", VIOLATION, on=(STREAM_REQ | RESPONSE,), off=(START, LOST))
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
    if frame.word or request is None or not request.has_json or connection.has_collections is False:
        return None
    if request.fault is not None and request.fault.status:
        fault = request.fault
        value = f"{quoted(fault.value)} " if fault.value else ""
        return Remark(f"stream granted, though {fault.member} {value}{fault.wrong}", status=fault.status)
    if request.collections is not None and connection.controls_known and connection.on("enable_sync_writes"):
        return Remark("stream of some collections granted, and enable_sync_writes is on", INFO, "NotSupported")
    return None


@rule("DCP242", "L22", SUSPICIOUS, on=(Event.SKIPPED_CHANGES,))
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
