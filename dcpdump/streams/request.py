"""A stream request, and what was answered."""

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dcpdump.escape import safe
from dcpdump.spec.header import MOST_STREAM_ID
from dcpdump.spec.names import (
    ACTIVE_ONLY,
    CACHE_TRANSFER,
    DISK_ONLY,
    FROM_LATEST,
    SNAPPY,
    STREAM_FLAGS,
    TAKEOVER,
    TO_LATEST,
)
from dcpdump.startup import dataclass, lazy_pattern
from dcpdump.streams.wording import printable, shortened
from dcpdump.text import nearest
from dcpdump.wire.collection_names import Names
from dcpdump.wire.json_text import NotParsed, json_complaint, parse_json

if TYPE_CHECKING:
    from dcpdump.streams.frame_event import Entry
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
    still_open: "Stream | None" = None  #: the stream of the same place that was open when this one was asked for
    ambiguous: bool = False  #: something was not captured: its answer may be that of another with its opaque
    doubtful: bool = False  #: bytes were lost while it waited
    torn: bool = False  #: when it was answered, the beginning of its connection was missing, or bytes since
    repeats: int = 0  #: equal ones of its stream, with equal answers, that are not kept
    after_omitted: bool = False  #: those between the one before it and it are not kept

    @property
    def filtered(self) -> bool:
        """Whether only some collections were asked for, or that could not be read."""
        return self.collections is not None or self.scope is not None or not self.readable

    @property
    def likeness(self) -> Hashable:
        """Return what requests and their answers have in common that differ in nothing but their times."""
        more = self.collections, self.scope, self.purge_seqno, self.fault, self.datatype
        return self.rollback, more, self.status, self.ambiguous, self.doubtful, self.torn

    @property
    def numbers(self) -> tuple[int | None, ...]:
        """Return the numbers that decide what is answered: start and end, snapshot, uuid, flags."""
        snapshot = self.snap_start_seqno, self.snap_end_seqno
        return self.start_seqno, self.end_seqno, *snapshot, self.vbucket_uuid, self.flags

    @property
    def rollback(self) -> tuple[int | None, ...]:
        """Return what equal rollbacks have in common: what was asked for, and to where it was sent back."""
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

    @property
    def purpose(self) -> tuple[tuple[str, ...] | None, str | None]:
        """Return which documents it asks for."""
        return self.collections, self.scope


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
