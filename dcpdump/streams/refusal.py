"""Why a stream request was refused, as far as status, request and connection show; and what requests came to."""

from collections import Counter

from dcpdump.spec import find
from dcpdump.spec.names import (
    CACHE_TRANSFER,
    DISK_ONLY,
    FROM_LATEST,
    IGNORE_PURGED,
    INCLUDE_XATTRS,
    STREAM_FLAGS,
    STRICT_UUID,
    TO_LATEST,
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
from dcpdump.streams.causes import Cause
from dcpdump.streams.facts import NEVER, ErrorReply
from dcpdump.streams.opcode_kinds import ABORT, CACHED, COMMIT, MARKER, SET_STATE, STREAM_END
from dcpdump.streams.request import Request, RequestFault, collection_texts, flags_fault, number_of, scope_text
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import OTHER_STATUS, Stream
from dcpdump.streams.wording import clock, seqno, shortened, status, times
from dcpdump.wire.collection_names import Names

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
