"""Write streams as rows for people, and as objects: one for each DCP stream, with its verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

from dcpdump.render.column import ROW, TEXT, U64, Column, ColumnSet, at, of, within
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import lost, nonzero
from dcpdump.spec import MESSAGES
from dcpdump.spec.names import STREAM_FLAGS
from dcpdump.spec.statuses import ROLLBACK, STATUS
from dcpdump.streams.causes import Degree, Verdict
from dcpdump.streams.failover_logs import Lag
from dcpdump.streams.frame_event import Entry, Missed, between
from dcpdump.streams.opcode_kinds import (
    ABORT,
    ADVANCED,
    CACHED,
    COMMIT,
    DELETION,
    EXPIRATION,
    MUTATION,
    PREPARE,
    SYSTEM_EVENT,
)
from dcpdump.streams.request import Request, RequestFault, collection_names, fault_in, filter_text, scope_name
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import EvictedStreams
from dcpdump.streams.wording import client, clock, lag_text, reason_name, seqno
from dcpdump.text import counted, measured


class StreamRow(NamedTuple):
    """A stream, and what there is to say of it."""

    stream: Stream
    verdict: Verdict
    now_ns: int | None = None  #: when the input ends
    rates: str = ""  #: a line of bars: over the time of the capture
    rate: Any = None  #: the Rate at that time, where it is looked at again and again
    client: str | None = None  #: as it may be shown, where that is not known of its connection


#: How rows of each degree are shown.
KINDS: Mapping[Degree | None, LineKind] = {
    Degree.WRONG: LineKind.PROBLEM,
    Degree.NOTE: LineKind.HINT,
    Degree.UNKNOWN: LineKind.PLAIN,
    None: LineKind.PLAIN,
}

#: An entry of a failover log, and a snapshot.
ENTRY = ColumnSet[Entry](*of("vbucket_uuid=uuid seqno"))
SNAPSHOT = ColumnSet[Any](*of("start_seqno=start end_seqno=end"))
_FAULT = ColumnSet[RequestFault](*of("member value text"))

_Asked = tuple[Request, ConnectionState]  #: a stream request, and the connection that it came on
_A = Column[_Asked]


def _flags(row: _Asked) -> list[str] | None:
    return list(STREAM_FLAGS.describe(row[0].flags)) if row[0].flags else None


def _latency(row: _Asked) -> int | None:
    took = between(row[0].ts_ns, row[0].answered_ns)
    return None if took is None else took // 1000


REQUEST = ColumnSet[_Asked](
    *of("frame", "0", stored=False),
    *of("time?=ts_ns opaque flags?", "0"),
    _A("flags_names?", _flags),
    *of("start_seqno? end_seqno? vbucket_uuid? snap_start_seqno? snap_end_seqno? collections?", "0"),
    _A(
        "collection_names?",
        lambda row: collection_names(row[0].collections or (), row[1].collection_names) or None,
        stored=False,
    ),
    *of("scope?", "0"),
    _A("scope_name?", lambda row: scope_name(row[0].scope, row[1].collection_names), stored=False),
    *of("response_frame?=answer_frame", "0", stored=False),
    *of("status?", "0"),
    _A("status_name?", lambda row: None if row[0].status is None else STATUS.names.get(row[0].status)),
    *of("rollback_seqno?", "0"),
    *of("repeats??", "0", stored=False),
    _A(
        "fault?",
        lambda row: fault_in(*row),
        type=ROW,
        columns=_FAULT,
        meaning="what is wrong with the request in itself",
        stored=False,
    ),
    _A("latency_us?", _latency),
)

C = Column[StreamRow]


def _counted(key: str, opcode: int, drop_rank: int) -> C:
    """Return the column of how many messages of an opcode came."""
    count = partial(lambda opcode, row: row.stream.traffic.count(opcode), opcode)
    return C(key, count, key.rstrip("?").replace("_", " "), shown=nonzero, drop_rank=drop_rank)


def _client(row: StreamRow) -> str:
    return client(row.stream.connection) if row.client is None else row.client


def _asked(row: StreamRow) -> str:
    """Return when a stream was requested."""
    request = row.stream.request
    return clock(request.ts_ns) if request is not None and request.ts_ns is not None else "before"


def _range(row: StreamRow) -> str:
    """Return which seqnos were requested."""
    request = row.stream.request
    return "?" if request is None else f"{seqno(request.start_seqno)}..{seqno(request.end_seqno)}"


def _filter(row: StreamRow) -> str:
    """Return what of a vbucket was requested."""
    request, names = row.stream.request, row.stream.connection.collection_names
    return "" if request is None else filter_text(request, names)


def lag_columns(part: str, *, known: bool = False) -> list[Column[Any]]:
    """Return the columns of a lag; what is not known is None. ``known``: all rows have one."""
    may = "" if known else "?"
    return within(
        part,
        [
            *of(f"lag{may}=seqnos"),
            Column[Lag](f"lag_exact{may}", lambda lag: None if lag.seqnos is None else lag.exact),
            *of(f"high_seqno{may}=high high_seqno_at?=high_ns"),
            Column("high_seqno_from?", lambda lag: None if lag.opcode is None else MESSAGES[lag.opcode].name),
        ],
    )


def lost_columns(part: str, meaning: str = "") -> list[Column[Any]]:
    """Return the columns of lost bytes."""
    return within(
        part,
        [
            Column[Missed]("lost_bytes", lambda missed: missed.lost, "lost", lost, meaning=meaning),
            Column("unknown_gaps?", lambda missed: missed.unknown or None, stored=False),
        ],
    )


#: Of a stream.
LOST = "bytes that its direction lost while it was open, and that may be its own"

STREAMS = ColumnSet[
    StreamRow
](
    *of("connection=number:conn", "stream.connection"),
    C(get=_client, head="client", type=TEXT),
    *of("src=connection.src dst=connection.dst vbucket:vb stream_id??:sid", "stream"),
    *of("name?=connection.setup.name roles=connection.roles.word opaque?", "stream"),
    C(head="filter", text=_filter, drop_rank=3),
    C(head="asked", text=_asked, sort=at("stream.request.ts_ns"), drop_rank=6),
    C(head="from..to", text=_range, drop_rank=5),
    *of("verdict=text state=kind.value cause=cause.value why trouble", "verdict"),
    *of("degree?=degree.value", "verdict", stored=False),
    C("requests", lambda row: [(each, row.stream.connection) for each in row.stream.requests], columns=REQUEST),
    C("requests_omitted?", lambda row: sum((row.stream.requests.omitted or {}).values()) or None, stored=False),
    *of("opened_at?=granted_ns start_seqno?=request.start_seqno end_seqno?=request.end_seqno", "stream"),
    C(get=lambda row: row.stream.seqnos.high, head="last seqno", type=U64),
    C(
        head="lag",
        text=lambda row: lag_text(row.verdict.lag, row.now_ns),
        right=True,
        sort=at("verdict.lag.rank"),  # the worst first
    ),
    *of("snapshots?=traffic.snapshots:snapshots", "stream", shown=nonzero, drop_rank=4),
    _counted("mutations?", MUTATION, 7),
    _counted("deletions?", DELETION, 8),
    _counted("expirations?", EXPIRATION, 9),
    _counted("prepares?", PREPARE, 10),
    _counted("commits?", COMMIT, 11),
    _counted("aborts?", ABORT, 12),
    _counted("system_events?", SYSTEM_EVENT, 13),
    C("seqno_advanced?", lambda row: row.stream.traffic.count(ADVANCED)),
    C("cache_transfers?", lambda row: row.stream.traffic.count(CACHED)),
    *of("first_seqno?=seqnos.first last_seqno?=seqnos.last", "stream"),
    *lag_columns("verdict.lag"),
    *of("snapshot?", "stream", columns=SNAPSHOT),
    C(
        "rollback_seqno?",
        lambda row: next((each.rollback_seqno for each in row.stream.requests.rolled_back[-1:]), None),
    ),
    C("rollbacks?", lambda row: row.stream.requests.count(ROLLBACK) if row.stream.requests.rolled_back else None),
    *of("failover_log??", "stream", columns=ENTRY),
    C("end_status?", lambda row: row.stream.end_status if row.stream.end is not None else None),
    C("end_status_name?", lambda row: reason_name(row.stream.end_status) if row.stream.end is not None else None),
    C("ended_at?", lambda row: row.stream.ended_ns if row.stream.end is not None else row.stream.closed_ns),
    *of("last_at?=traffic.last_ns", "stream"),
    *of("bytes=traffic.size:bytes", "stream", shown=nonzero, drop_rank=2),
    *lost_columns("stream.gaps.missed", LOST),
    C(head="rate", text=lambda row: row.rates, drop_rank=1),
    C(head="verdict", text=lambda row: row.verdict.text, sort=lambda row: (row.verdict.rank, row.verdict.text)),
    kind=lambda row: KINDS[row.verdict.degree],
)


def total(
    judged: Sequence[tuple[Stream, Verdict]], evicted: EvictedStreams, connections: Sequence[ConnectionState]
) -> Line:
    """Return the number of streams by verdict, with those that were evicted, and what was lost, as one line."""
    kinds = Counter(verdict.kind.value for _, verdict in judged)
    kinds.update(evicted.kinds)
    missed = reduce(Missed.plus, (connection.missing for connection in connections), evicted.missed)
    words = [counted(kinds.total(), "stream"), counted(len(connections) + evicted.connections, "connection")]
    if kinds:
        words.insert(1, ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common()))
    rollbacks = sum(stream.requests.count(ROLLBACK) for stream, _ in judged) + evicted.rollbacks
    if rollbacks:
        words.append(counted(rollbacks, "rollback"))
    if missed.gaps:
        words.append(f"{measured(missed.lost, missed.unknown, 'B')} lost")
    if missed.skipped:
        words.append(f"{missed.skipped:,} B skipped")
    return Line(LineKind.TITLE, " · ".join(words))
