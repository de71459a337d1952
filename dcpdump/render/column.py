"""Column: one column of what is printed or stored, declared once.

Text, csv, ndjson, ``--sort``, ``--schema``, the tables of ``export``, the tabs of the browser and the tables of the
report follow from it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from sys import intern
from typing import Any, Generic, TypeVar

from dcpdump.record import Json
from dcpdump.render.style import LineKind
from dcpdump.render.text_columns import Table, number
from dcpdump.startup import dataclass
from dcpdump.text import iso_time

# -- the keys of rows: what each means, in all commands -----------------------------------------------

#: A type is a word; ``[…]`` is a list of it, ``?…`` it or null, ``{…}`` any names to it. A ``row`` has columns.
INT, NUMBER, TEXT, BOOL, TIME, HEX, ANY = "int", "number", "text", "bool", "time", "hex", "any"
ROW, ROWS = "row", "[row]"
#: Numbers that are written without separators, and what tables are stored with: signed and not, by their bits.
ID, I32, U8, U16, U32, U64 = "id", "i32", "u8", "u16", "u32", "u64"
INTEGERS = (INT, ID, I32, U8, U16, U32, U64)
#: A time that is stored twice: to the microsecond, and in nanoseconds beside that.
INSTANT = "instant"

_COUNTED = """connections deletions expirations frames messages mutations packets
    rollbacks snapshots streams system_events"""
#: key → its type and its meaning
KEYS: dict[str, tuple[str, str]] = {
    **{name: (INT, f"how many {name.replace('_', ' ')}") for name in _COUNTED.split()},
    "account": (TEXT, "whether the account of flow control is whole, relative or not known"),
    "acked": (INT, "bytes that were acknowledged"),
    "acks": (INT, "acknowledgements"),
    "after_gaps": (INT, "frames before which bytes were lost or skipped"),
    "agent": (TEXT, "what the client calls itself in HELLO"),
    "authenticated": (BOOL, "the login succeeded"),
    "blocked": (BOOL, "flow control forbids the producer to send"),
    "blocked_ms": (INT, "milliseconds during which it was blocked"),
    "bucket": (TEXT, "the bucket that was selected"),
    "bucket_refused": (TEXT, "the bucket that was requested and refused"),
    "bucket_status": (INT, "the status of its refusal"),
    "buffer": (INT, "bytes that may be unacknowledged"),
    "buffer_asked": (INT, "bytes that were requested as buffer"),
    "both": (INT, "frames that both captures have"),
    "bytes": (INT, "bytes of frames"),
    "bytes_per_second": (INT, "bytes a second, over the last rate_seconds"),
    "cache_transfers": (INT, "messages of a cache transfer"),
    "captures": ("[text]", "the captures that were read"),
    "cas_a": (HEX, "the CAS in A"),
    "cas_b": (HEX, "the CAS in B"),
    "cas": (HEX, "the CAS of the header"),
    "cause": (TEXT, "the code of a verdict's cause"),
    "changed": (INT, "frames that both captures have, with other bytes"),
    "clause": (TEXT, "the clause of the server's rule that explains a rollback"),
    "client": (TEXT, "the address of the client"),
    "clock_offset_us": (INT, "microseconds by which B's clock is ahead of A's, as frames of both directions show"),
    "clock_spread_us": (INT, "it is at most so wrong: half of the way from A to B and back"),
    "code": (TEXT, "the code of a rule, a problem or a trouble"),
    "collection": (INT, "the id of the collection: of the key, or that the message names"),
    "collection_inferred": (BOOL, "whether keys have collections is inferred: HELLO was not captured"),
    "collection_name": (TEXT, "the name of the collection, scope.collection, where it was captured"),
    "collection_names": ("{text}", "names of collections, by their ids in hexadecimal, where they were captured"),
    "collections": ("[text]", "ids of the collections that are requested"),
    "command": (TEXT, "the command that shows more"),
    "complete": (BOOL, "nothing of it is missing"),
    "confidence": (TEXT, "low: found on weak evidence after bytes were lost"),
    "connection": (I32, "the number of the TCP connection, in the order first seen"),
    "context": (BOOL, "it was not chosen, but is near a frame of its connection that was"),
    "controls": (ROWS, "the controls that were set"),
    "count": (INT, "how many times"),
    "count_exact": (BOOL, "false: at least so many times, and maybe a loop"),
    "datatype": (INT, "the datatype of the header"),
    "datatype_names": ("[text]", "what the datatype says"),
    "direction": (U8, "0: sent by the end that opened the connection; 1: by the other"),
    "size": (INT, "its bytes; null of a pipe"),
    "problem": (TEXT, "what is wrong with it"),
    "dcp": (BOOL, "it carries DCP"),
    "differs": ("[text]", "what differs: opaque, cas, datatype, length, body (extras, key and value)"),
    "dst": (TEXT, "the receiver's address and port"),
    "detail": (TEXT, "the evidence in words"),
    "evidence": (TEXT, "what the state rests on"),
    "end": (TEXT, "how the connection ended: fin, rst, reused"),
    "end_seqno": (U64, "where it ends"),
    "end_status": (U32, "the reason of a stream's end"),
    "end_status_name": (TEXT, "its name"),
    "ended_at": (TIME, "when it ended"),
    "equal": (BOOL, "nothing differs"),
    "exceeded": (ROWS, "when more was sent than flow control allows"),
    "expected_seqno": (INT, "where the clause sends the client"),
    "failover_log": (ROWS, "the failover log, the newest branch first"),
    "failover_log_frame": (INT, "the frame that carried it"),
    "features": ("[text]", "what HELLO granted"),
    "features_asked": ("[text]", "what HELLO requested"),
    "fields": ("fields", "extras and structured values, by the specification's names"),
    "file": (TEXT, "the capture"),
    "first": (TIME, "when the first packet or frame came"),
    "first_seqno": (U64, "the first seqno that came"),
    "flags": (U32, "the flags of the message"),
    "flags_names": ("[text]", "what the flags say"),
    "follows": ("[text]", "what led to it, and what follows from it, in sentences"),
    "frame": (INT, "the number of the frame, in the order in which frames completed"),
    "frames_per_second": (NUMBER, "frames a second, over the last rate_seconds"),
    "framing": ("[any]", "the flexible framing extras"),
    "from": (TIME, "the begin of an interval"),
    "gap_before": (INT, "bytes lost or skipped just before it"),
    "granted_connection": (INT, "on which connection the stream was granted afterwards"),
    "granted_frame": (INT, "the frame that granted it"),
    "granted_start_seqno": (INT, "from where it was granted"),
    "high_seqno": (U64, "the server's high seqno that the lag is counted from; where lag_exact is false, at least"),
    "high_seqno_at": (TIME, "when it was known"),
    "high_seqno_from": (TEXT, "the name of the message that said it; none: documents did"),
    "hints": ("[text]", "what is odd, but not wrong"),
    "ignored": (INT, "bytes acknowledged while flow control was off"),
    "intervals": (ROWS, "when the producer was blocked"),
    "intervals_left": (INT, "how many later intervals were not kept"),
    "key": (TEXT, "a key as text, without its collection; of a control its name"),
    "key_hex": (TEXT, "the key as it was sent, in hexadecimal"),
    "kind": (TEXT, "request or response"),
    "kinds": (ROWS, "bytes by message"),
    "lag": (U64, "seqnos that the server has and the consumer was not sent; not known: left out"),
    "lag_exact": (BOOL, "it is as the server said; false: it is at least so many"),
    "last": (TIME, "when the last packet or frame came"),
    "last_at": (TIME, "when the last message came"),
    "last_seqno_a": (INT, "the last seqno in A"),
    "last_seqno_b": (INT, "the last seqno in B"),
    "last_seqno": (U64, "the last seqno that came"),
    "later_us": (INT, "how much later frames are in B by the clocks of both captures: half of them not more"),
    "latency_us": (INT, "microseconds between request and response"),
    "layout": (TEXT, "the version of the message's layout"),
    "length": (INT, "bytes of the whole frame, or of what a problem is about"),
    "loop": (BOOL, "the same request was rolled back again and again"),
    "losses": (INT, "gaps: places where bytes were lost"),
    "lost_bytes": (INT, "bytes that were sent and are not in the captures"),
    "magic": (INT, "the first byte"),
    "manifest_uid": (HEX, "the newest manifest of collections that was seen"),
    "max": (INT, "the largest"),
    "mechanism": (TEXT, "how the client logged in"),
    "message": (TEXT, "what was found, in words"),
    "moved": (INT, "frames that both captures have, in another order"),
    "mismatch": (ROW, "sums of flow control that do not agree"),
    "more": (INT, "how many findings of the kind are left out"),
    "name": (TEXT, "the name of the DCP connection, as DCP_OPEN says"),
    "name_a": (TEXT, "the name of the message in A"),
    "name_b": (TEXT, "the name of the message in B"),
    "noops": (ROW, "keep-alives"),
    "not_known": (TEXT, "why it is not known what followed"),
    "notes": (INT, "how many things are worth a look, and may be as they should be"),
    "offset": (INT, "where a frame begins in its direction, or a problem in its frame"),
    "only_a": (INT, "frames that only A has"),
    "only_b": (INT, "frames that only B has"),
    "only_in": (TEXT, "which capture has it: A or B"),
    "opaque": (U32, "the opaque"),
    "opcode": (INT, "the opcode"),
    "open_flags": (INT, "the flags of DCP_OPEN"),
    "open_flags_names": ("[text]", "what they say"),
    "open_status": (INT, "the status of its response"),
    "opened_at": (TIME, "when the stream was granted"),
    "other_connection": (INT, "the number of the connection in B"),
    "other_dst": (TEXT, "the receiver's address and port in B"),
    "other_frame": (INT, "the number of the frame in B"),
    "other_src": (TEXT, "the sender's address and port in B"),
    "outcome": (TEXT, "whether anything is wrong"),
    "outstanding": (INT, "bytes that were not acknowledged"),
    "over_time": (ROWS, "what was outstanding when"),
    "overacked": (INT, "bytes that were acknowledged and not sent, not even a little later"),
    "packet": (INT, "the number of the packet that completed the frame, in its file"),
    "payload_bytes": (INT, "bytes of TCP payload"),
    "peak": (INT, "the most that was outstanding"),
    "p50": (INT, "half are not above it"),
    "p90": (INT, "nine tenths are not above it"),
    "p99": (INT, "ninety-nine hundredths are not above it"),
    "problems": (ROWS, "what is wrong with the frame"),
    "purge_seqno": (INT, "below it deletions are forgotten"),
    "purge_seqno_frame": (INT, "the frame that said so"),
    "rank": (INT, "1 is the worst"),
    "rate_seconds": (NUMBER, "over how long rates are counted, up to now"),
    "reason": (TEXT, "why there is no verdict"),
    "request_frame": (INT, "the frame of the request"),
    "repeats": (INT, "how many equal requests with equal answers came later and are not listed"),
    "requests": (ROWS, "the stream requests, in order; of very many, the first and the latest"),
    "requests_omitted": (INT, "how many requests are neither listed nor repeats of those that are"),
    "response_frame": (INT, "the frame of the response"),
    "rev_seqno": (INT, "the revision of the document"),
    "revoked": (ROW, "the rollback by which the client had to take the change back; none: left out"),
    "role": (TEXT, "what the server is: producer or consumer"),
    "roles": (TEXT, "whether who is the server was seen, inferred, or is not known"),
    "rollback_seqno": (U64, "where the server sends the client"),
    "resume": (ROW, "what the client should have sent, to go on"),
    "rule": (TEXT, "the letter and number of a rule"),
    "rules": (ROWS, "the rules that the frame alone breaks"),
    "scope": (TEXT, "the id of the scope that is requested"),
    "scope_name": (TEXT, "its name, where that was captured"),
    "seconds": (NUMBER, "how long"),
    "sent": (INT, "how many were sent; of flow control, bytes"),
    "answered": (INT, "how many were answered"),
    "seqno": (U64, "a seqno"),
    "seqno_advanced": (INT, "messages of that name"),
    "server": (TEXT, "the address of the server"),
    "severity": (TEXT, "violation, suspicious or info; of a trouble, wrong or note"),
    "skipped_bytes": (INT, "bytes that were captured, where no frame was found to begin"),
    "snap_end_seqno": (U64, "the end of the snapshot that the client is in"),
    "snap_start_seqno": (U64, "its start"),
    "snapshot": (ROW, "the last snapshot that was announced"),
    "spec": (TEXT, "where the rule is from"),
    "src": (TEXT, "the sender's address and port; of a connection, who opened it"),
    "start_seqno": (U64, "where it starts"),
    "state": (TEXT, "what became of a stream"),
    "states": ("{int}", "how many streams are in which state"),
    "status": (U32, "the status of a response"),
    "status_name": (TEXT, "its name"),
    "stream_id": (ID, "the DCP stream id; none: left out"),
    "stream_requests": (INT, "how many streams were requested"),
    "suggestion": (ANY, "the smallest edit that makes the frame consistent"),
    "text": (TEXT, "it in words"),
    "time": (TIME, "when, in UTC"),
    "title": (TEXT, "the title of a rule"),
    "tls": (ROW, "what became of a connection of TLS; none: left out"),
    "version": (TEXT, "the version of TLS"),
    "suite": (TEXT, "its cipher suite"),
    "server_name": (TEXT, "the name of the server that the client requested"),
    "opened_bytes": (INT, "bytes of TLS that were opened"),
    "encrypted_bytes": (INT, "bytes of TLS that were not"),
    "lost_records": (INT, "records of TLS that were lost"),
    "failure": ("?row", "how its handshake failed, or which alert ended it"),
    "established": (BOOL, "the handshake was over"),
    "alert": ("?row", "the alert that ended it"),
    "sent_by": (TEXT, "who sent the alert: client, server, empty where that is not known"),
    "after": (TEXT, "the last handshake message of the other side before it"),
    "close": (TEXT, "how the connection was closed: fin, rst, empty where neither was captured"),
    "closed_by": (TEXT, "who closed it: client, server, empty where that is not known"),
    "number": ("?int", "the number of an alert; null where it is encrypted"),
    "level": (TEXT, "the level of an alert: warning, fatal"),
    "to": (TIME, "the end of an interval; none: it lasts"),
    "trouble": (BOOL, "it is certain to be wrong"),
    "troubles": (INT, "how many things are certain to be wrong"),
    "type": (TEXT, "which of the rows it is"),
    "unknown": (INT, "how many are not known"),
    "unknown_gaps": (INT, "gaps of unknown length; left out for none"),
    "unanswered": (INT, "requests without a response"),
    "value": (TEXT, "the beginning of a value, decompressed, as text"),
    "value_json": (ANY, "JSON of the control plane"),
    "value_length": (INT, "bytes of the whole value, decompressed, without xattrs"),
    "vbucket": (U16, "the vbucket; of a response that of its request, where it was captured"),
    "vbucket_uuid": (HEX, "the branch of a vbucket's history"),
    "verdict": (TEXT, "what became of a stream, in words"),
    "ways": (ROWS, "both directions of a connection"),
    "whole": (BOOL, "false: one of the captures lacks bytes of it"),
    "why": (TEXT, "the reason in words"),
    "xattrs": ("{text}", "extended attributes"),
    "xattrs_unread_hex": (TEXT, "what of damaged xattrs cannot be read, in hexadecimal"),
    "degree": (TEXT, "wrong, a note, or unknown; none: it is as it should be"),
    "prepares": (INT, "how many prepared durable writes"),
    "commits": (INT, "how many of them were committed"),
    "aborts": (INT, "how many of them were aborted"),
    "tcp_faults": (ROWS, "when an end held the other up: it did not read, or did not answer"),
    "fault": (TEXT, "how: zero-window, no-answer"),
    "member": (TEXT, "what of a request is at fault: sid, collections, flags …; value: its JSON as a whole"),
    "fault_ms": (INT, "milliseconds during which it did"),
    "received": (INT, "packets that an interface delivered"),
    "dropped_by_kernel": (INT, "packets that the kernel dropped before they were delivered"),
    "dropped_by_dcpdump": (INT, "packets that were delivered and dropped, as they came too fast"),
    "decoded": (INT, "packets that were decoded"),
    "not_looked_at": (INT, "packets that were delivered, and left when it ended"),
    "explained": (BOOL, "whether that comes to it exactly, at several acknowledgements"),
    "fills_ms": (INT, "milliseconds until it is as large as the buffer, as it grew so far"),
}

# -- the columns of rows ------------------------------------------------------------------------------

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column of rows of a kind.

    What has a ``key`` is in objects, csv and stored tables; what has a ``head`` in tables for people. ``key?``: it is
    left out of an object that has nothing there. Type and meaning are those that ``KEYS`` has, where no others are
    given.
    """

    key: str = ""
    get: Callable[[Row], Any] | None = None  #: its value: times in nanoseconds, identities as numbers; None: nothing
    head: str = ""
    text: Callable[[Row], str] | None = None  #: its cell, where that is more than its value
    shown: Callable[[Any], str] | None = None  #: how its value is written in a cell, where not as its type is
    right: bool = False  #: cells are aligned at their right, as those of numbers are but for connections
    drop_rank: int = 0  #: 1 is the first that a narrow terminal leaves out; 0: after those, the last ones first
    sort: Callable[[Row], Any] | None = None  #: what rows are sorted by, where that is not the value
    type: str = ""
    meaning: str = ""
    columns: "ColumnSet[Any] | None" = None  #: those of the row, or the rows, that its value is
    stored: bool = True  #: a column of the stored table too

    @property
    def name(self) -> str:
        """Return the name that ``--sort`` has for it; of ``client → server``, client."""
        return self.head.partition(" →")[0].replace(" ", "-")

    @property
    def cell(self) -> Callable[[Row], str]:
        """Return what writes its cells in a table for people; empty for nothing."""
        if self.text is not None:
            return self.text
        get = self.get
        assert get is not None, self.head
        if self.shown is None and self.kind in _COUNTS:
            return lambda row: number(get(row))
        shown = self.shown or str
        return lambda row: "" if (value := get(row)) is None else shown(value)

    @property
    def kind(self) -> str:
        """Return the word of its type."""
        return self.type or (KEYS[self.key.rstrip("?")][0] if self.key else "")

    @property
    def means(self) -> str:
        """Return what it means."""
        return self.meaning or KEYS[self.key.rstrip("?")][1]

    @property
    def is_right(self) -> bool:
        """Return whether cells are aligned at their right."""
        return self.right or self.kind in _NUMBERS

    @property
    def written(self) -> Callable[[Any], Any] | None:
        """Return what makes of its value what objects have; None: it stays as it is."""
        return _WRITTEN.get(self.kind) if self.columns is None else partial(self.rows, ColumnSet.object)

    def rows(self, make: "Callable[[ColumnSet[Any], Any], Json]", value: Any) -> Json | list[Json]:
        """Return what is made of the row that a value is, or of each of its rows."""
        assert self.columns is not None, self.key
        return [make(self.columns, row) for row in value] if self.kind == ROWS else make(self.columns, value)

    @property
    def order(self) -> Callable[[Row], Any] | None:
        """Return what rows are sorted by; None: they are not sorted by it."""
        return (self.sort or self.get) if self.head else None


_COUNTS = frozenset({INT, U64})
_NUMBERS = frozenset({INT, NUMBER, ID, U16, U64})
#: Types whose values are written otherwise in objects.
_WRITTEN: dict[str, Callable[[Any], Any]] = {
    TIME: iso_time,
    INSTANT: iso_time,
    HEX: "0x{:016x}".format,
}


Part = TypeVar("Part")


def at(path: str) -> Callable[[Any], Any]:
    """Return what follows a path of attributes, or of places in tuples; to None where one of them is None."""
    first, _, rest = path.partition(".")
    get = itemgetter(int(first)) if first.isdigit() else attrgetter(first)
    if not rest:
        return get
    then = at(rest)
    return lambda row: None if (found := get(row)) is None else then(found)


def of(keys: str, part: str = "", **options: Any) -> list[Column[Any]]:
    """Return columns of attributes by their keys, as ``key=path.of.it`` where that has another name.

    ``key:head``: in tables for people too; ``=path:head``: only there. ``part``: the path of what has them. They are
    empty where something on their way is None; those with ``key??`` where they are 0 or empty, too.
    """
    columns = []
    for each in keys.split():
        named, _, head = each.partition(":")
        key, _, path = named.partition("=")
        get = at(f"{part}." * bool(part) + (path or key.rstrip("?")))
        if key.endswith("??"):
            key, get = key[:-1], partial(_something, get)
        columns.append(Column[Any](key, get, head, **options))
    return columns


def _something(get: Callable[[Any], Any], row: Any) -> Any:
    return get(row) or None


def within(part: str, columns: Iterable[Column[Part]]) -> list[Column[Any]]:
    """Return columns of a part of rows as columns of the rows, empty where there is no such part."""
    found = at(part)

    def lifted(get: Callable[[Part], Any] | None, nothing: Any = None) -> Callable[[Any], Any] | None:
        return get and (lambda row: nothing if (one := found(row)) is None else get(one))

    return [replace(each, get=lifted(each.get), text=lifted(each.text, ""), sort=lifted(each.sort)) for each in columns]


def given(keys: str) -> list[Column[Json]]:
    """Return the columns of rows that are objects already, by their keys."""
    return [Column(key, partial(lambda name, row: row.get(name), key.rstrip("?"))) for key in keys.split()]


class ColumnSet(Generic[Row]):
    """The columns of rows of a kind, in the order that all outputs have.

    ``type``: of rows among others; ``kind``: how a row is shown, where some are not plain.
    """

    def __init__(self, *columns: Column[Row], type: str = "", kind: Callable[[Row], LineKind] | None = None) -> None:
        self._all, self.type, self._kind = columns, type, kind
        #: The columns of objects, by their keys.
        self.keyed: Mapping[str, Column[Row]] = {each.key.rstrip("?"): each for each in columns if each.key}
        self._written = [
            (key, get, each.written, each.kind[0] == "?")
            for key, each in self.keyed.items()
            if (get := each.get) is not None
        ]

    def __iter__(self) -> Iterator[Column[Row]]:
        return iter(self._all)

    def __getitem__(self, name: str) -> Column[Row]:
        """Return the column with a head, as ``--sort`` has it, or else with a key."""
        return next((each for each in self._all if each.name == name), None) or self.keyed[name]

    def some(self, names: str) -> list[Column[Row]]:
        """Return columns by their names, in that order."""
        return [self[name] for name in names.split()]

    @property
    def sortable(self) -> Mapping[str, Callable[[Row], Any]]:
        """Return what rows can be sorted by: the name of a column → the value, None where there is nothing."""
        return {each.name: order for each in self._all if (order := each.order) is not None}

    def object(self, row: Row) -> Json:
        """Return a row as an object, without what it has not."""
        out: Json = {"type": self.type} if self.type else {}
        for key, get, written, null in self._written:
            value = get(row)
            if value is not None:
                out[key] = value if written is None else written(value)
            elif null:
                out[key] = None
        return out

    def table(self, rows: Sequence[Row]) -> Table:
        """Return rows as a table for people."""
        shown = [each for each in self._all if each.head]
        cells = [each.cell for each in shown]
        least = sorted((each for each in shown if each.drop_rank), key=lambda each: each.drop_rank)
        return Table(
            [each.head for each in shown],
            [tuple([intern(cell(row)) for cell in cells]) for row in rows],  # of 100,000 rows most cells are equal
            [each.head for each in shown if each.is_right],
            [each.head for each in least],
            [] if self._kind is None else [self._kind(row) for row in rows],
        )
