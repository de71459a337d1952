"""A stream request: what it asks for, what is wrong with it, what was answered, and why it was refused."""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dcpdump.escape import safe
from dcpdump.spec.header import MOST_STREAM_ID
from dcpdump.spec.names import (
    ACTIVE_ONLY,
    CACHE_TRANSFER,
    DISK_ONLY,
    FROM_LATEST,
    IGNORE_PURGED,
    INCLUDE_XATTRS,
    SNAPPY,
    STREAM_FLAGS,
    STRICT_UUID,
    TAKEOVER,
    TO_LATEST,
)
from dcpdump.spec.statuses import (
    EACCESS,
    EINVAL,
    ENOMEM,
    ERANGE,
    ETMPFAIL,
    KEY_EEXISTS,
    NOT_MY_VBUCKET,
    NOT_SUPPORTED,
    ROLLBACK,
    STREAM_ID_INVALID,
    SUCCESS,
    TEMPORARY,
    UNKNOWN_COLLECTION,
    UNKNOWN_SCOPE,
)
from dcpdump.startup import dataclass, lazy_pattern
from dcpdump.streams.causes import Cause
from dcpdump.streams.frame_event import NEVER
from dcpdump.streams.wording import clock, printable, seqno, shortened, status, times
from dcpdump.text import nearest
from dcpdump.wire.collection_names import Names
from dcpdump.wire.json_text import NotParsed, json_complaint, parse_json

if TYPE_CHECKING:
    from dcpdump.streams.frame_event import Entry
    from dcpdump.streams.state import ConnectionState
    from dcpdump.streams.stream import Stream


@dataclass(slots=True)
class Request:
    """A stream request, and what was answered."""

    frame: int
    ts_ns: int | None
    opaque: int
    flags: int | None
    start_seqno: int | None
    end_seqno: int | None
    vbucket_uuid: int | None
    snap_start_seqno: int | None
    snap_end_seqno: int | None
    stream_id: int = 0
    collections: tuple[str, ...] | None = None  #: the filter
    scope: str | None = None
    purge_seqno: int | None = None
    has_json: bool = False
    readable: bool = True  #: its JSON, if it has any, could be read
    fault: "RequestFault | None" = None  #: what is wrong with its JSON
    datatype: int = 0
    status: int | None = None  #: None: no answer was captured
    answer_frame: int | None = None
    answered_ns: int | None = None
    rollback_seqno: int | None = None
    failover_log: "tuple[Entry, ...] | None" = None
    said: str = ""  #: what the server said about an error, with its reference
    still_open: "Stream | None" = None  #: the stream of the same place that was open when this one was requested
    ambiguous: bool = False  #: something was not captured: its answer may be that of another with its opaque
    doubtful: bool = False  #: bytes were lost while it waited
    after_gap: bool = False  #: when it was answered, the beginning of its connection was missing, or bytes since
    repeats: int = 0  #: equal ones of its stream, with equal answers, that are not kept
    after_omitted: bool = False  #: those between the one before it and it are not kept

    @property
    def filtered(self) -> bool:
        """Whether only some collections were requested, or that could not be read."""
        return self.collections is not None or self.scope is not None or not self.readable

    @property
    def likeness(self) -> Hashable:
        """Return what requests and their answers have in common that differ in nothing but their times."""
        more = self.collections, self.scope, self.purge_seqno, self.fault, self.datatype
        return self.rollback, more, self.status, self.ambiguous, self.doubtful, self.after_gap

    @property
    def numbers(self) -> tuple[int | None, ...]:
        """Return the numbers that decide what is answered: start and end, snapshot, uuid, flags."""
        snapshot = self.snap_start_seqno, self.snap_end_seqno
        return self.start_seqno, self.end_seqno, *snapshot, self.vbucket_uuid, self.flags

    @property
    def rollback(self) -> tuple[int | None, ...]:
        """Return what equal rollbacks have in common: what was requested, and to where it was sent back."""
        return *self.numbers, self.rollback_seqno

    @property
    def snap_start(self) -> int:
        """The start of the snapshot that the client is in; 0 where it was lost."""
        return self.snap_start_seqno or 0

    @property
    def bits(self) -> int:
        """The flags; 0 where they were lost."""
        return self.flags or 0

    @property
    def start(self) -> int:
        """The start seqno; 0 where it was lost."""
        return self.start_seqno or 0

    @property
    def end(self) -> int:
        """The end seqno; 0 where it was lost."""
        return self.end_seqno or 0

    @property
    def fixed_end(self) -> int | None:
        """The seqno at which the stream ends; None where the server puts another in its place, or where it was lost."""
        moved = self.flags is None or self.flags & (TAKEOVER | DISK_ONLY | TO_LATEST)
        return None if moved else self.end_seqno

    def begins_below(self, seqno: int) -> bool:
        """Return whether a seqno is above its start; no where the server puts another in its place, or it was lost."""
        return self.start_seqno is not None and seqno > self.start_seqno and not self.bits & FROM_LATEST


#: How many requests of a stream are kept; of more, some are forgotten.
_MOST_REQUESTS = 256
#: What stands for the statuses of requests that were refused in too many ways to count each.
_OTHER_STATUS = -1
#: Then these are kept: so many first and latest ones, and of those in between the first and the last of equal ones, up
#: to so many different ones.
_FIRST, _LATEST, _DIFFERENT = 16, 64, 24


class Requests(list[Request]):
    """The requests of a stream; if there are very many, not all."""

    __slots__ = ("most", "omitted")

    def __init__(self, requests: Iterable[Request] = ()) -> None:
        super().__init__(requests)
        #: by status and rollback seqno: how many requests are neither kept nor among the repeats of one that is
        self.omitted: dict[tuple[int | None, int | None], int] = {}
        self.most = _MOST_REQUESTS  #: of more, not all are kept

    def count(self, *statuses: int | None) -> int:  # type: ignore[override]
        """Return how many there were, kept or not; of some statuses those alone, None: not answered."""
        there = sum(1 + each.repeats for each in self if not statuses or each.status in statuses)
        return there + sum(n for (status, _), n in self.omitted.items() if not statuses or status in statuses)

    @property
    def rolled_back(self) -> list[Request]:
        """The requests that were answered with a rollback, of those that are kept."""
        return [request for request in self if request.status == ROLLBACK]

    def forget_some(self, waiting: set[int]) -> None:
        """Forget requests in the middle: of equal ones all but the first and the last, and of very different ones.

        Those that wait for their answers (``waiting``: their identities) are kept, and between two of them the first
        and the last of equal ones.
        """
        middle, waits, gone = self[_FIRST:-_LATEST], 0, set[int]()
        alike: dict[Hashable, list[Request]] = {}
        for each in middle:
            waits += id(each) in waiting
            alike.setdefault((waits, each.likeness), []).append(each)
        for number, (first, *others) in enumerate(alike.values()):
            if number < _DIFFERENT or id(first) in waiting:
                first.repeats += sum(1 + each.repeats for each in others[:-1])
                gone.update(map(id, others[:-1]))
            else:
                gone.update(map(id, (first, *others)))
                self._omit(first, sum(1 + each.repeats for each in (first, *others)))
        kept, omitted = self[:_FIRST], False
        for each in self[_FIRST:]:
            if id(each) in gone:
                omitted = True
            else:
                each.after_omitted |= omitted
                omitted = False
                kept.append(each)
        self[:] = kept
        self.most = max(_MOST_REQUESTS, 2 * len(kept))

    def _omit(self, request: Request, count: int) -> None:
        """Count equal requests none of which is kept."""
        answer = request.status, request.rollback_seqno
        if answer not in self.omitted and len(self.omitted) >= _DIFFERENT:
            answer = request.status if request.status in (None, ROLLBACK) else _OTHER_STATUS, None
        self.omitted[answer] = self.omitted.get(answer, 0) + count


# -- faults: what is wrong with a request in itself ---------------------------------------------------

_ABOVE = 1 << 64  #: what numbers and seqnos are below
_HEX = frozenset("0123456789abcdefABCDEF")
_DECIMAL = lazy_pattern(r"\s*[-+]?([0-9]+)")  # as the server's library reads it: what follows is left out
_EINVAL = "Einval"


class RequestFault(NamedTuple):
    """A member of a stream request that is not as it should be."""

    member: str
    value: str  #: as it was sent, safe to show, not longer than a few words
    wrong: str  #: what is wrong with it, as a sentence goes on
    right: str = ""  #: what it should be, or who accepts it
    status: str = ""  #: with which every server refuses it; empty where one may accept it

    @property
    def brief(self) -> str:
        """Return what is wrong, in a few words."""
        return f"{self.member}: {self.value} {self.wrong}" if self.value else f"{self.member}: {self.wrong}"

    @property
    def text(self) -> str:
        """Return what is wrong, and what it should be."""
        return f"{self.brief}; {self.right}" if self.right else self.brief


def json_fault(value: bytes, datatype: int, document: Any) -> RequestFault | None:
    """Return what is wrong with the JSON of a stream request.

    ``document``: it, parsed; None where that failed. Of a value that is compressed, or too much to be parsed, nothing
    is known.
    """
    if document is None:
        if datatype & SNAPPY:
            return None
        try:
            parse_json(value)
        except NotParsed:
            return None
        except ValueError as error:
            complaint = json_complaint(error, value)
            where = complaint if "byte" in complaint else f"{complaint}, at byte {len(value)}"
            shown = shortened(safe(value[:99]))
            return RequestFault("value", shown, f"is no JSON: {where}", status=_EINVAL)
    found = None
    for fault in _faults(document):
        if fault.status:
            return fault
        found = found or fault
    return found


def flags_fault(flags: int) -> RequestFault | None:
    """Return which flags of a stream request a server refuses."""
    unknown, removed = max(STREAM_FLAGS.unknown(flags), 0), flags & STREAM_FLAGS.old
    if unknown:
        return RequestFault("flags", f"0x{unknown:x}", "is no known flag")
    if removed:
        return RequestFault("flags", _flags(removed), "was removed in 5.0")
    others = flags & ~(CACHE_TRANSFER | TAKEOVER | ACTIVE_ONLY)
    if flags & CACHE_TRANSFER and others:
        return RequestFault("flags", _flags(CACHE_TRANSFER), f"excludes {_flags(others)}")
    return None


def _flags(bits: int) -> str:
    return f"0x{bits:x} ({', '.join(STREAM_FLAGS.describe(bits))})"


# -- members of the JSON --------------------------------------------------------------------------------------


def _faults(document: Any) -> Iterator[RequestFault]:
    """Yield what is wrong with the JSON, in the order in which servers look."""
    if not isinstance(document, dict):
        yield _fault("value", document, "is no JSON object")
        return
    present = document.keys() & _MEMBERS.keys()
    for member, check in _MEMBERS.items():
        if member not in present:
            continue
        if member == "scope" and "collections" in present:
            yield _fault(member, document[member], "excludes collections", "a stream is of one or the other")
        for fault in check(member, document[member]):
            # a server that does not know the member looks at the others alone
            yield fault._replace(status="") if member in _NEWER and len(present) > 1 else fault
    if not present:
        near = [each for key in list(document)[:8] for each in nearest(key.lower(), _MEMBERS, 1)]
        known = f"known are {', '.join(_MEMBERS)}" + (f", and near is {near[0]}" if near else "")
        yield _fault("value", document, "has no known key", known)


def _fault(member: str, value: Any, wrong: str, right: str = "", status: str = _EINVAL) -> RequestFault:
    shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return RequestFault(member, shortened(printable(shown)), wrong, right, status)


_Check = Callable[[str, Any], Iterator[RequestFault]]


def _boolean(member: str, value: Any) -> Iterator[RequestFault]:
    if not isinstance(value, bool):
        yield _fault(member, value, "is not a boolean")


def _unsigned(member: str, value: Any) -> Iterator[RequestFault]:
    if type(value) is not int or not 0 <= value < _ABOVE:  # True is an int too
        yield _fault(member, value, "is not an unsigned number")


def _stream_id(member: str, value: Any) -> Iterator[RequestFault]:
    """Check a stream id. Of a number that is too large servers take the low 16 bits."""
    wrong = f"is not a number from 1 to {MOST_STREAM_ID}"
    if type(value) is not int or not 0 <= value < _ABOVE:
        yield _fault(member, value, wrong)
    elif not value & MOST_STREAM_ID:
        yield _fault(member, value, wrong, status="DcpStreamIdInvalid")
    elif value > MOST_STREAM_ID:
        yield _fault(member, value, wrong, f"a server may take it for {value & MOST_STREAM_ID}", status="")


def _manifest(member: str, value: Any) -> Iterator[RequestFault]:
    wrong = _not_hexadecimal(value, 16)
    if wrong:
        yield _fault(member, value, wrong, "servers before 7.0 refuse that, later ones ignore it", status="")


def _identifier(reserved: range) -> _Check:
    """Return a check of the id of a collection or a scope."""

    def check(member: str, value: Any) -> Iterator[RequestFault]:
        wrong = _not_hexadecimal(value, 8)
        if wrong:
            yield _fault(member, value, wrong, "an id is a string of 1 to 8 hexadecimal digits")
        elif int(value, 16) in reserved:
            yield _fault(member, value, "is reserved for the server")

    return check


def _not_hexadecimal(value: Any, most: int) -> str:
    """Return why a value is not a string of hexadecimal digits, as the server reads them; empty where it is."""
    if not isinstance(value, str):
        return "is not a string"
    if value[:2] in ("0x", "0X"):
        return f"has {value[:2]}"
    if not value or not _HEX.issuperset(value):
        return "is not hexadecimal" if value else "is empty"
    return f"has {len(value)} digits" if len(value) > most else ""


_collection, _scope = _identifier(range(2, 8)), _identifier(range(1, 8))


def _collections(member: str, value: Any) -> Iterator[RequestFault]:
    if not isinstance(value, list):
        yield _fault(member, value, "is not a list")
        return
    if not value:
        yield _fault(member, value, "is empty", "a server may accept that, and end the stream", status="")
    known: set[int] = set()
    for each in value:
        wrong = next(_collection(member, each), None)
        if wrong is not None:
            yield wrong
        elif int(each, 16) in known:
            yield _fault(member, each, "is there twice", "servers before 7.6 accept that", status="")
        else:
            known.add(int(each, 16))


def _purge_seqno(member: str, value: Any) -> Iterator[RequestFault]:
    if not isinstance(value, str):
        yield _fault(member, value, "is not a string", "it is a decimal number in quotes")
        return
    digits = _DECIMAL.match(value)
    if digits is None:
        yield _fault(member, value, "is not a decimal number")
    elif len(digits[1].lstrip("0")) > 20 or int(digits[1]) >= _ABOVE:
        yield _fault(member, value, "is above 2^64-1", status="")  # a server may close the connection at that


def _cache_transfer(member: str, value: Any) -> Iterator[RequestFault]:
    if not isinstance(value, dict):
        yield _fault(member, value, "is not an object")
        return
    for name, check in _SETTINGS.items():
        if name in value:
            yield from check(f"{member}.{name}", value[name])


_SETTINGS: dict[str, _Check] = {"free_memory": _unsigned, "all_keys": _boolean}
#: The known members, in the order in which servers look at them.
_MEMBERS: dict[str, _Check] = {
    "sid": _stream_id,
    "uid": _manifest,
    "scope": _scope,
    "collections": _collections,
    "purge_seqno": _purge_seqno,
    "cts": _cache_transfer,
}
#: Those that older servers, which have collections, do not know.
_NEWER = frozenset({"purge_seqno", "cts"})


# -- filters: the collections or the scope that it asks for, in words ---------------------------------


def filter_text(request: Request, names: Names | None) -> str:
    """Return the collections or the scope that a request asks for."""
    if request.scope is not None:
        return f"scope {scope_text(request.scope, names)}"
    return ", ".join(collection_texts(request.collections or (), names))


def scope_text(scope: str, names: Names | None) -> str:
    """Return the id of a scope, as a request has it, with its name."""
    return _called(scope, scope_name(scope, names))


def collection_texts(collections: Sequence[str], names: Names | None) -> list[str]:
    """Return ids of collections, as a request has them, with their names."""
    known = collection_names(collections, names)
    return [_called(each, known.get(each)) for each in collections]


def collection_names(collections: Sequence[str], names: Names | None) -> dict[str, str]:
    """Return the names of collections, by the text that a request has for their ids."""
    ids = {text: number_of(text) for text in collections}
    found = {text: names.path(number) for text, number in ids.items() if names is not None and number is not None}
    return {text: path for text, path in found.items() if path}


def scope_name(scope: str | None, names: Names | None) -> str | None:
    """Return the name of a scope."""
    number = number_of(scope)
    return None if names is None or number is None else names.scope(number)


def number_of(text: str | None) -> int | None:
    """Return the id of a collection or scope, which requests have as hexadecimal text."""
    try:
        return None if text is None else int(text, 16)
    except ValueError:
        return None


def _called(number: str, name: str | None) -> str:
    text = number if number_of(number) is None else f"0x{number.removeprefix('0x')}"
    return f"{text} {name}" if name else text


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
    **dict.fromkeys(TEMPORARY, Cause.TEMPORARY_FAILURE),
    UNKNOWN_COLLECTION: Cause.UNKNOWN_COLLECTION,
    UNKNOWN_SCOPE: Cause.UNKNOWN_SCOPE,
    STREAM_ID_INVALID: Cause.STREAM_ID,
}


def refusal(status: int | None) -> Cause:
    """Return the code of a refusal."""
    return _CAUSES.get(status or 0, Cause.OTHER_STATUS)


def explained(request: Request, stream: "Stream") -> str:
    """Return the probable cause in words, and what the server itself said."""
    found = _words(request, stream)
    return f"{found} (server: {request.said})" if request.said else found


def fault_of(stream: "Stream") -> str:
    """Return which member of the last request of a stream was at fault, in a few words; empty where none was."""
    request = stream.requests[-1] if stream.requests else None
    if request is None or request.status in (None, SUCCESS, ROLLBACK):
        return ""
    fault = fault_in(request, stream.connection)
    if fault is not None:
        return fault.brief
    unknown = request.status in (UNKNOWN_COLLECTION, UNKNOWN_SCOPE)
    return _unknown(request, stream.connection.collection_names) if unknown else ""


def fault_in(request: Request, connection: "ConnectionState") -> RequestFault | None:
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


def _words(request: Request, stream: "Stream") -> str:
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
            return _without_stream_id(stream)
        case Cause.UNKNOWN_COLLECTION | Cause.UNKNOWN_SCOPE:
            return _unknown(request, stream.connection.collection_names)
    return _PLAIN.get(request.status or 0, "the server's reason is not in the protocol")


def _unknown(request: Request, names: Names | None) -> str:
    """Return which collections or scope the server does not know: the one that it names, else those requested."""
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


def _still_open(request: Request, stream: "Stream") -> str:
    """Return which stream the server may mean that is open already."""
    open_one = request.still_open
    if open_one is not None:
        since = clock(open_one.granted_ns or open_one.traffic.first_ns)
        continues = open_one.alive and stream.connection.end.ts_ns is None
        now = "it continues" if continues else "no close was seen before"
        return f"the stream exists already: open on this connection since {since}; {now}"
    before = stream.before
    ended_ns = None if before is None else before.ended_ns or before.closed_ns
    known = "none was captured"
    if ended_ns is not None:
        known = f"the previous one that was captured ended at {clock(ended_ns)}"
    return f"the server says that this connection has a stream of the vbucket open; {known}"


def _out_of_range(request: Request) -> str:
    """Return in which way the numbers of a request are out of order; if in none, the remaining causes.

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
    """Return the remaining causes, where no captured part of a request is at fault."""
    if request.flags is None:
        return "its flags were not captured"
    if request.has_json and not request.readable:
        return "its JSON is not known"
    newer = request.flags & (STRICT_UUID | FROM_LATEST | IGNORE_PURGED | CACHE_TRANSFER)
    older = f", unless the server is too old for {' and '.join(STREAM_FLAGS.describe(newer))}" if newer else ""
    return f"nothing in the request explains it{older}"


def _not_supported(request: Request, stream: "Stream") -> str:
    connection = stream.connection
    needed = connection.setup.has_collections or (connection.setup.flags or 0) & INCLUDE_XATTRS
    if needed and connection.controls_known and not connection.setup.on("enable_noop"):
        return "enable_noop was not accepted before, which xattrs and collections need"
    if request.filtered and connection.setup.on("enable_sync_writes"):
        return "a collection filter and sync writes exclude each other"
    possible = []
    if not connection.setup.on("enable_noop"):
        possible.append("enable_noop is missing")
    if request.filtered and not (connection.controls_known and "enable_sync_writes" not in connection.setup.controls):
        possible.append("a collection filter meets sync writes")
    return ", or ".join(possible) or "enable_noop was accepted, and no collection filter meets sync writes"


def _without_stream_id(stream: "Stream") -> str:
    enabled = stream.connection.setup.on("enable_stream_id")
    if stream.stream_id and stream.connection.controls_known and not enabled:
        return "it has a stream id, and enable_stream_id was not accepted"
    if not stream.stream_id and enabled:
        return "enable_stream_id was accepted, and it has no stream id"
    return "the stream id is missing, not allowed, or 0"


def earlier(stream: "Stream") -> str:
    """Return how the requests before the granted one were answered, in words."""
    words = []
    answered = [request for request in stream.requests if not request.ambiguous]
    counts = Counter[tuple[int | None, int | None]]()
    for each in answered:
        counts[each.status, each.rollback_seqno] += 1 + each.repeats
    counts.update(stream.requests.omitted or {})
    for target, count in [(target, count) for (code, target), count in counts.items() if code == ROLLBACK]:
        words.append(f"rolled back to {seqno(target)} before" + (f", {times(count)}" if count > 1 else ""))
    refused = dict.fromkeys(code for code, _ in counts if code not in (None, SUCCESS, ROLLBACK, _OTHER_STATUS))
    words += [f"refused before: {status(code)}" for code in refused]
    return "; ".join(words)


def reached(stream: "Stream", request: Request) -> str:
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
