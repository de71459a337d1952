"""Reasons of verdicts: what has to come next of a stream, why it was refused, what its requests came to."""

from collections import Counter
from typing import NamedTuple

from dcpdump.spec import find
from dcpdump.spec.names import (
    ACKNOWLEDGE,
    ACTIVE,
    CACHE_TRANSFER,
    DISK_ONLY,
    FROM_LATEST,
    IGNORE_PURGED,
    INCLUDE_XATTRS,
    PENDING,
    STREAM_FLAGS,
    STRICT_UUID,
    TO_LATEST,
    VBUCKET_STATE,
)
from dcpdump.spec.statuses import (
    EACCESS,
    EINVAL,
    ENOMEM,
    ERANGE,
    ETMPFAIL,
    KEY_EEXISTS,
    KEY_ENOENT,
    NOT_MY_VBUCKET,
    NOT_SUPPORTED,
    OPAQUE_NO_MATCH,
    ROLLBACK,
    STREAM_ID_INVALID,
    STREAM_NOT_FOUND,
    SUCCESS,
    UNKNOWN_COLLECTION,
    UNKNOWN_SCOPE,
)
from dcpdump.startup import lazy_pattern
from dcpdump.streams.causes import Cause, Due
from dcpdump.streams.failover_logs import High
from dcpdump.streams.frame_event import NEVER
from dcpdump.streams.knowledge import Reason, Unknown, lost_since
from dcpdump.streams.opcode_kinds import ABORT, CACHED, COMMIT, MARKER, SET_STATE, STREAM_END
from dcpdump.streams.request import Request, RequestFault, collection_texts, flags_fault, number_of, scope_text
from dcpdump.streams.silence import could_not_send_until
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import OTHER_STATUS, ErrorReply, OpenPrepare, Snapshot, Stream
from dcpdump.streams.wording import clock, seqno, shortened, status, times
from dcpdump.text import counted
from dcpdump.wire.collection_names import Names

# -- takeovers: what comes next, whether one was finished, and how far one came that was not ----------


def next_of_takeover(stream: Stream, by_ns: int | None) -> Due | None:
    """Return what has to come next of a takeover of which nothing waits for an answer, if that is due by a time."""
    since_ns, snapshot = _quiet_since(stream), stream.snapshot
    if since_ns is None or by_ns is None or since_ns > by_ns or stream.closing:
        return None
    if stream.request is not None and not stream.asked_takeover:
        return None
    answered = f"was answered at {clock(stream.acks.states_ns)}"
    if stream.state == ACTIVE:
        text = f"SET_VBUCKET_STATE(active) {answered}, no STREAM_END"
        return Due(Cause.TAKEOVER_NOT_ENDED, text, since_ns=since_ns)
    if stream.state == PENDING:  # with the answer the source gives the vbucket up
        text = f"SET_VBUCKET_STATE(pending) {answered}, active did not come: the vbucket has no active copy"
        return Due(Cause.ACTIVE_NOT_SENT, text, since_ns=since_ns)
    if stream.states or snapshot is None or not snapshot.flags & ACKNOWLEDGE or not stream.begin_captured:
        return None  # before the snapshots that are to be acknowledged, the source may have to read from its disk
    text = f"snapshot {snapshot.start}..{snapshot.end} is acknowledged, SET_VBUCKET_STATE(pending) did not come"
    return Due(Cause.PENDING_NOT_SENT, text, lost_since(stream.connection, stream.granted_ns), since_ns)


def is_handed_over(stream: Stream, by_ns: int | None) -> bool:
    """Return whether the vbucket is active at the consumer, as far as was captured, and STREAM_END is not overdue.

    ``by_ns``: it is, if all else was there by then.
    """
    connection = stream.connection
    if not stream.asked_takeover or stream.state != ACTIVE:
        return False
    if lost_since(connection, stream.granted_ns) is not None:
        return True
    if connection.end.ts_ns is not None:
        return not unfinished(stream)
    since_ns = _quiet_since(stream)
    return since_ns is None or by_ns is None or since_ns > by_ns


def unfinished(stream: Stream) -> str:
    """Return how far the takeover of a stream came that is over, in words; empty where it is none, was finished, or
    that is not known.
    """
    unanswered = stream.acks.states < len(stream.states)
    if not stream.takeover or lost_since(stream.connection, stream.granted_ns) is not None:
        return ""
    if stream.state == ACTIVE and not unanswered:
        return ""
    if unanswered:
        how = f"SET_VBUCKET_STATE({VBUCKET_STATE.names.get(stream.state or 0, 'unknown')}) was not answered"
    elif stream.state == PENDING:
        how = f"SET_VBUCKET_STATE(pending) was answered at {clock(stream.acks.states_ns)}, active did not come"
    else:
        how = "SET_VBUCKET_STATE(pending) did not come"
    return f"the takeover was not finished: {how}"


def _quiet_since(stream: Stream) -> int | None:
    """Return when the latest message of a stream came, or the latest answer that its producer waits for."""
    acked_ns = None if stream.snapshot is None else stream.snapshot.acked_ns
    times = (stream.traffic.last_ns, stream.acks.states_ns, acked_ns)
    return max((each for each in times if each is not None), default=None)


# -- undecided prepares: durable writes of which a COMMIT or ABORT should have come -------------------

#: The longest timeout that a client can ask for: then the active copy aborts. Only a write that it took over from
#: another, or found on its disk, may have none.
_LONGEST_TIMEOUT_NS = 65_534 * 1_000_000


class Undecided(NamedTuple):
    """Prepares that are neither committed nor aborted for longer than a client can wait."""

    first: OpenPrepare
    since_ns: int  #: when that came
    text: str


def undecided(stream: Stream, by_ns: int | None) -> Undecided | None:
    """Return prepares of a stream of which the outcome should have come by a time.

    None where there is none, or that is not known: bytes are missing, another node decides, or the producer was held
    up, behind which it may still come.
    """
    connection, prepares = stream.connection, stream.prepares
    if not prepares.open or by_ns is None or stream.doubtful or stream.filtered or stream.takeover:
        return None
    if stream.closing or stream.next is not None:
        return None
    before_ns = by_ns - _LONGEST_TIMEOUT_NS
    if could_not_send_until(connection, by_ns) > before_ns:
        return None
    late = prepares.due(before_ns)
    if not late:
        return None
    first = min(late)
    since_ns = first.due_ns or 0
    more = f" and of {counted(len(late) - 1, 'later one')}" if len(late) > 1 else ""
    text = f"no COMMIT or ABORT of PREPARE seqno {first.seqno}{more}{_acknowledged(stream, first)}"
    return Undecided(first, since_ns, f"{text} since {clock(since_ns)}")


def outcome_due(stream: Stream, by_ns: int | None) -> Due | None:
    """Return that the outcome of a durable write is due, if it should have come by a time."""
    found = undecided(stream, by_ns)
    return None if found is None else Due(Cause.PREPARE_UNDECIDED, found.text, since_ns=found.since_ns)


def _acknowledged(stream: Stream, prepare: OpenPrepare) -> str:
    """Return whether the consumer has acknowledged a prepare, in words; empty where it need not."""
    if not stream.connection.setup.sync_replication:
        return ""
    acked = stream.acks.seqno is not None and stream.acks.seqno >= prepare.seqno
    return f", which its consumer {'acknowledged' if acked else 'did not acknowledge'},"


# -- what is due of a stream that is silent: the message, or the answer, that has to come next --------

#: What a producer owes, unless flow control holds it back.
BY_PRODUCER = (
    Cause.SNAPSHOT_INCOMPLETE,
    Cause.ADVANCED_NOT_SENT,
    Cause.END_NOT_SENT,
    Cause.PENDING_NOT_SENT,
    Cause.ACTIVE_NOT_SENT,
    Cause.TAKEOVER_NOT_ENDED,
    Cause.PREPARE_UNDECIDED,
    Cause.BEHIND_SERVER,
)
#: What comes when it is the stream's turn.
IN_TURN = (Cause.SNAPSHOT_INCOMPLETE, Cause.ADVANCED_NOT_SENT, Cause.END_NOT_SENT, Cause.BEHIND_SERVER)
#: From 7.6 on, users without that privilege get no changes of system collections, nor SEQNO_ADVANCED in their place.
_LEFT_OUT = Unknown(
    Reason.SYSTEM_COLLECTIONS, "what did not come may be of system collections, which not every user gets"
)


def due(stream: Stream, high: High | None, by_ns: int | None) -> Due | None:
    """Return what has to come next of a stream, if anything must.

    ``high``: the vbucket's high seqno that the server reported last; ``by_ns``: what was due by then should have come
    by now.
    """
    request, snapshot, last = stream.request, stream.snapshot, stream.seqnos.high
    if stream.oso:
        return Due(Cause.SNAPSHOT_INCOMPLETE, "in the middle of an out-of-order snapshot")
    if stream.states and stream.acks.states < len(stream.states):
        lost = lost_since(stream.connection, stream.states[0].ts_ns)
        return Due(Cause.STATE_NOT_ANSWERED, "waits for the answer to SET_VBUCKET_STATE", lost)
    ended = _end_reached(stream)
    if ended is not None:
        return ended
    if snapshot is None or not stream.ordered:
        return None if stream.traffic.snapshots or stream.doubtful else next_of_takeover(stream, by_ns)
    if snapshot.items == 0 or last is None or last < snapshot.end:
        return _rest_of(stream, snapshot)
    if snapshot.flags & ACKNOWLEDGE and (not snapshot.acked or stream.acks.due or stream.acks.omitted > 0):
        why = f"waits for the acknowledgement of snapshot {snapshot.start}..{snapshot.end}"
        # what acknowledged an earlier one may have been lost
        lost = lost_since(stream.connection, stream.granted_ns) if snapshot.acked else None
        return Due(Cause.SNAPSHOT_NOT_ACKNOWLEDGED, why, lost)
    takeover = next_of_takeover(stream, by_ns)
    if takeover is not None:
        return takeover
    unfiltered = stream.connection.setup.has_collections and not (request and request.filtered)
    behind = _behind(stream, last, high, by_ns) if high is not None and unfiltered else None
    if behind is not None and behind.unknown_because is None:
        return behind  # the outcome of a durable write may be among what is not sent
    return outcome_due(stream, by_ns) or behind


def _end_reached(stream: Stream) -> Due | None:
    """Return that the end of a stream was reached, if it was: there is nothing left to send but STREAM_END."""
    request, last = stream.request, stream.seqnos.high
    end = request.fixed_end if request is not None else None
    if request is None or end is None or not stream.begin_captured:
        return None
    if last is not None:
        return Due(Cause.END_NOT_SENT, f"end seqno {end} is reached, no STREAM_END") if last >= end else None
    waits = request.bits & (CACHE_TRANSFER | FROM_LATEST) or stream.connection.setup.notifies
    if waits or request.start < end:
        return None
    return Due(Cause.END_NOT_SENT, f"end seqno {end} is not above the start, {request.start}, and no STREAM_END came")


def _rest_of(stream: Stream, snapshot: Snapshot) -> Due | None:
    """Return that the rest of a snapshot is due, unless it may have been left out by a filter."""
    last = stream.seqnos.high
    if stream.end_may_be_filtered:
        return None
    here = "nothing of it came" if not snapshot.items else f"at seqno {last}"
    why = f"in the middle of snapshot {snapshot.start}..{snapshot.end}, {here}"
    if not stream.filtered or not stream.connection.setup.advances:
        return Due(Cause.SNAPSHOT_INCOMPLETE, why)
    why += f": SEQNO_ADVANCED to {snapshot.end} is missing, or items of what it is filtered to"
    return Due(Cause.ADVANCED_NOT_SENT, why)


def _behind(stream: Stream, last: int, high: High, by_ns: int | None) -> Due | None:
    """Return that the server had more for long, if it had."""
    ts_ns = high.ts_ns
    later = ts_ns is not None and stream.traffic.last_ns is not None and ts_ns >= stream.traffic.last_ns
    if last >= high.seqno or not later or by_ns is None or ts_ns is None or ts_ns > by_ns:
        return None
    text = f"at seqno {last}, the server's high seqno is {high.seqno} since {clock(ts_ns)}"
    return Due(Cause.BEHIND_SERVER, text, None if stream.connection.setup.between_nodes else _LEFT_OUT)


# -- refusals, and what requests came to --------------------------------------------------------------

_MOST_IDS = 8  #: ids of collections that are listed
#: The ids of collections that a server names in what it says of an error.
_NAMED = lazy_pattern(r"(?i)\bcollection\W{0,3}(?:id\W{1,3})?((?:0x)?[0-9a-f]+)\b")
#: What a status means, where it needs no look at the connection.
_PLAIN = {
    NOT_MY_VBUCKET: "the vbucket is not on this server, or not in a state that may be streamed",
    EACCESS: "the user may not stream this",
    ETMPFAIL: "the vbucket is still receiving its first disk snapshot",
    ENOMEM: "the server has no memory for it",
}
_CAUSES = {
    KEY_EEXISTS: Cause.STILL_OPEN,
    EINVAL: Cause.INVALID_REQUEST,
    NOT_MY_VBUCKET: Cause.NOT_MY_VBUCKET,
    ERANGE: Cause.OUT_OF_RANGE,
    EACCESS: Cause.NO_ACCESS,
    ENOMEM: Cause.NO_MEMORY,
    NOT_SUPPORTED: Cause.NOT_SUPPORTED,
    ETMPFAIL: Cause.TEMPORARY_FAILURE,
    UNKNOWN_COLLECTION: Cause.UNKNOWN_COLLECTION,
    UNKNOWN_SCOPE: Cause.UNKNOWN_SCOPE,
    STREAM_ID_INVALID: Cause.STREAM_ID,
}


def refusal(status: int | None) -> Cause:
    """Return the code of a refusal."""
    return _CAUSES.get(status or 0, Cause.OTHER_STATUS)


def explained(request: Request, stream: Stream) -> str:
    """Return the probable cause in words, and what the server itself said."""
    found = _words(request, stream)
    return f"{found} (server: {request.said})" if request.said else found


def fault_of(stream: Stream) -> str:
    """Return which member of the last request of a stream was at fault, in a few words; empty where none was."""
    request = stream.requests[-1] if stream.requests else None
    if request is None or request.status in (None, SUCCESS, ROLLBACK):
        return ""
    fault = fault_in(request, stream.connection)
    if fault is not None:
        return fault.brief
    unknown = request.status in (UNKNOWN_COLLECTION, UNKNOWN_SCOPE)
    return _unknown(request, stream.connection.collection_names) if unknown else ""


def fault_in(request: Request, connection: ConnectionState) -> RequestFault | None:
    """Return what is wrong with a request that was refused because of itself, as far as that shows."""
    if request.status == STREAM_ID_INVALID:
        return request.fault if request.fault is not None and request.fault.member == "sid" else None
    if request.status != EINVAL:
        return None
    if request.has_json and connection.setup.has_collections is False:
        return RequestFault("value", "", "needs collections, which HELLO did not grant")
    if request.datatype:
        return RequestFault("datatype", f"0x{request.datatype:02x}", "is not 0")
    return flags_fault(request.bits) or request.fault


def _words(request: Request, stream: Stream) -> str:
    fault = fault_in(request, stream.connection)
    if fault is not None:
        return fault.text
    match refusal(request.status):
        case Cause.OUT_OF_RANGE:
            return _out_of_range(request)
        case Cause.STILL_OPEN:
            return _still_open(request, stream)
        case Cause.INVALID_REQUEST:
            return _nothing_invalid(request)
        case Cause.NOT_SUPPORTED:
            return _not_supported(request, stream)
        case Cause.STREAM_ID:
            return _stream_id(stream)
        case Cause.UNKNOWN_COLLECTION | Cause.UNKNOWN_SCOPE:
            return _unknown(request, stream.connection.collection_names)
    return _PLAIN.get(request.status or 0, "the server's reason is not in the protocol")


def _unknown(request: Request, names: Names | None) -> str:
    """Return which collections or scope the server does not know: the one that it names, else those asked for."""
    if request.status == UNKNOWN_SCOPE:
        return f"unknown scope {scope_text(shortened(request.scope or ''), names)}".rstrip()
    asked = request.collections or ()
    if not request.readable:
        return "unknown collection: its JSON is not known"
    if not asked:
        return "unknown collection: the default one was dropped, if it asked for no other"
    said = {number_of(each) for each in _NAMED.findall(request.said)}
    named = [each for each in asked if number_of(each) in said]
    texts = collection_texts([shortened(each) for each in (named or asked)[:_MOST_IDS]], names)
    more = len(named or asked) - len(texts)
    listed = ", ".join(texts) + (f" and {more:,} more" if more else "")
    return f"unknown collection {listed}" if len(named or asked) == 1 else f"unknown collection among {listed}"


def _still_open(request: Request, stream: Stream) -> str:
    """Return which stream the server may mean that is open already."""
    open_one = request.still_open
    if open_one is not None:
        since = clock(open_one.granted_ns or open_one.traffic.first_ns)
        continues = open_one.alive and stream.connection.end.ts_ns is None
        now = "it continues" if continues else "no close was seen before"
        return f"the stream exists already: open on this connection since {since}; {now}"
    before = stream.before
    ended_ns = None if before is None else before.ended_ns or before.closed_ns
    known = (
        "none was captured" if ended_ns is None else f"the previous one that was captured ended at {clock(ended_ns)}"
    )
    return f"the server says that this connection has a stream of the vbucket open; {known}"


def _out_of_range(request: Request) -> str:
    """Return which order of numbers a request breaks; if none, what is left.

    By flags, a server puts numbers of its own in place of start and end.
    """
    start, end, flags = request.start_seqno, request.end_seqno, request.bits
    low, high = request.snap_start_seqno, request.snap_end_seqno
    if start is None or end is None or low is None or high is None:
        return "its numbers were not captured"
    begins = f"start {start}"
    if flags & FROM_LATEST:
        begins = "the server's high seqno, where a from-latest stream begins,"
        if end != NEVER or not flags & (DISK_ONLY | TO_LATEST):
            return f"{begins} is above end {seqno(end)}"
    elif not low <= start <= high:
        where = f"{seqno(low)}..{seqno(high)}"
        return f"seqno {start} is outside snapshot {where} (needs snapshot start <= start <= snapshot end)"
    elif start > end:
        return f"{begins} is above end {seqno(end)}"
    if flags & DISK_ONLY:
        return f"{begins} is above the last seqno on disk, where a disk-only stream ends"
    if flags & TO_LATEST:
        return f"{begins} is above the highest seqno of what it asks for, where a to-latest stream ends"
    return f"{begins} is above the server's high seqno: the client is ahead of the server"


def _nothing_invalid(request: Request) -> str:
    """Return what is left where nothing in a request that was captured is at fault."""
    if request.flags is None:
        return "its flags were not captured"
    if request.has_json and not request.readable:
        return "its JSON is not known"
    newer = request.flags & (STRICT_UUID | FROM_LATEST | IGNORE_PURGED | CACHE_TRANSFER)
    older = f", unless the server is too old for {' and '.join(STREAM_FLAGS.describe(newer))}" if newer else ""
    return f"nothing in the request explains it{older}"


def _not_supported(request: Request, stream: Stream) -> str:
    connection = stream.connection
    needed = connection.setup.has_collections or (connection.setup.flags or 0) & INCLUDE_XATTRS
    if needed and connection.begun and connection.setup.accepted("enable_noop") != "true":
        return "enable_noop was not accepted before, which xattrs and collections need"
    if request.filtered and connection.setup.accepted("enable_sync_writes") == "true":
        return "a collection filter and sync writes exclude each other"
    possible = []
    if connection.setup.accepted("enable_noop") != "true":
        possible.append("enable_noop is missing")
    if request.filtered and not (connection.begun and "enable_sync_writes" not in connection.setup.controls):
        possible.append("a collection filter meets sync writes")
    return ", or ".join(possible) or "enable_noop was accepted, and no collection filter meets sync writes"


def _stream_id(stream: Stream) -> str:
    enabled = stream.connection.setup.accepted("enable_stream_id") == "true"
    if stream.stream_id and stream.connection.begun and not enabled:
        return "it has a stream id, and enable_stream_id was not accepted"
    if not stream.stream_id and enabled:
        return "enable_stream_id was accepted, and it has no stream id"
    return "the stream id is missing, not allowed, or 0"


def earlier(stream: Stream) -> str:
    """Return what requests came to before the one that was granted."""
    words = []
    answered = [request for request in stream.requests if not request.ambiguous]
    counts = Counter[tuple[int | None, int | None]]()
    for each in answered:
        counts[each.status, each.rollback_seqno] += 1 + each.repeats
    counts.update(stream.requests.omitted or {})
    for target, count in [(target, count) for (code, target), count in counts.items() if code == ROLLBACK]:
        words.append(f"rolled back to {seqno(target)} before" + (f", {times(count)}" if count > 1 else ""))
    refused = dict.fromkeys(code for code, _ in counts if code not in (None, SUCCESS, ROLLBACK, OTHER_STATUS))
    words += [f"refused before: {status(code)}" for code in refused]
    return "; ".join(words)


def reached(stream: Stream, request: Request) -> str:
    """Return how far a stream came that ended Ok, in words, and of how much where that is known."""
    start, end, last = request.start_seqno, request.fixed_end, stream.seqnos.high
    if stream.connection.setup.notifies:
        return f": there is more than seqno {seqno(start)}"
    if request.end_seqno == NEVER:
        return ""
    if last is not None:
        return f", seqno {last} reached" if end is None else f", seqno {last} of {end} reached"
    if start is None or end is None or end > start:
        return ""
    return f" after 0 items: end seqno {seqno(end)} is not above the start, {seqno(start)}"


# -- refused messages ---------------------------------------------------------------------------------
# Errors that a consumer answers to messages of a stream, and for which a producer disconnects.

#: A producer disconnects at once; what came long before its disconnect explains nothing.
_SOON_NS = 60 * 1_000_000_000
_TOLERATED = frozenset({NOT_MY_VBUCKET, STREAM_NOT_FOUND, OPAQUE_NO_MATCH})
#: Any answer to these is taken for the acknowledgement.
_ACKNOWLEDGED = frozenset({MARKER, SET_STATE})


def why_disconnected(connection: ConnectionState) -> str:
    """Return which error of its consumer a producer disconnected for, in words; empty where none explains it."""
    ended_ns = connection.end.ts_ns
    if ended_ns is None or connection.end.by != connection.producer_direction or not connection.ended_surely:
        return ""
    found = [
        (reply.ts_ns, stream, reply)
        for stream in connection.streams
        for reply in stream.error_replies
        if reply.ts_ns is not None and 0 <= ended_ns - reply.ts_ns <= _SOON_NS and _disconnects(connection, reply)
    ]
    return _words_of_reply(*min(found, key=lambda each: each[0])[1:]) if found else ""


def _disconnects(connection: ConnectionState, reply: ErrorReply) -> bool:
    """Return whether a producer disconnects for an error."""
    opcode, code = reply.opcode, reply.status
    if opcode in _ACKNOWLEDGED or code in _TOLERATED or (opcode == CACHED and code == ENOMEM):
        return False
    if opcode == STREAM_END and code == KEY_ENOENT:
        return False
    if code == KEY_EEXISTS or (code == KEY_ENOENT and opcode not in (COMMIT, ABORT)):
        return connection.setup.on("v7_dcp_status_codes")
    return True


def _words_of_reply(stream: Stream, reply: ErrorReply) -> str:
    message = f"{find(reply.opcode).name.removeprefix('DCP_')} of vb {stream.vbucket}"
    when = clock(reply.ts_ns)
    return f"its consumer answered {message} with {status(reply.status)} at {when}, for which a producer disconnects"
