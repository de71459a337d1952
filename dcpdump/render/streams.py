"""Write streams as rows for people, and as objects: one for each DCP stream, with its verdict."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

from dcpdump.record import Json
from dcpdump.render.column import TEXT, U64, Column, ColumnSet, nonzero, of
from dcpdump.render.objects import without_none
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import lost
from dcpdump.spec import MESSAGES
from dcpdump.spec.names import STREAM_FLAGS
from dcpdump.spec.statuses import ROLLBACK, STATUS
from dcpdump.streams.causes import Degree, Verdict
from dcpdump.streams.eviction import EvictedStreams
from dcpdump.streams.failover_logs import Lag
from dcpdump.streams.frame_event import Entry, Missed
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
from dcpdump.streams.request import Request, collection_names, fault_in, filter_text, scope_name
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import client, clock, lag_text, reason_name, seqno
from dcpdump.text import counted, iso_time, measured


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

C = Column[StreamRow]


def _counted(key: str, opcode: int, place: int) -> C:
    """Return the column of how many messages of an opcode came."""
    count = partial(lambda opcode, row: row.stream.traffic.count(opcode), opcode)
    return C(
        key,
        count,
        key.rstrip("?").replace("_", " "),
        nonzero(count),
        drop_rank=place,
    )


def _client(row: StreamRow) -> str:
    return client(row.stream.connection) if row.client is None else row.client


def _stream(row: StreamRow) -> Stream:
    return row.stream


def _connection(row: StreamRow) -> ConnectionState:
    return row.stream.connection


def _snapshots(row: StreamRow) -> int | None:
    return row.stream.traffic.snapshots


def _bytes(row: StreamRow) -> int:
    return row.stream.traffic.size


def _asked(row: StreamRow) -> str:
    """Return when a stream was asked for."""
    request = row.stream.request
    return clock(request.ts_ns) if request is not None and request.ts_ns is not None else "before"


def _range(row: StreamRow) -> str:
    """Return which seqnos were asked for."""
    request = row.stream.request
    return "?" if request is None else f"{seqno(request.start_seqno)}..{seqno(request.end_seqno)}"


def _filter(row: StreamRow) -> str:
    """Return what of a vbucket was asked for."""
    request, names = row.stream.request, row.stream.connection.collection_names
    return "" if request is None else filter_text(request, names)


def of_request(name: str) -> Callable[[StreamRow], Any]:
    """Return what gets a field of the latest request for a stream."""
    return lambda row: None if row.stream.request is None else getattr(row.stream.request, name)


def lag_columns(lag_of: Callable[[Any], Lag | None], *, known: bool = False) -> tuple[Column[Any], ...]:
    """Return the columns of a lag; what is not known is None. ``known``: all rows have one."""
    may = "" if known else "?"

    return (
        *of(lag_of, f"lag{may}=seqnos"),
        Column(f"lag_exact{may}", lambda row: None if not (lag := lag_of(row)) or lag.seqnos is None else lag.exact),
        *of(lag_of, f"high_seqno{may}=high high_seqno_at?=high_ns"),
        Column(
            "high_seqno_from?",
            lambda row: None if not (lag := lag_of(row)) or lag.opcode is None else MESSAGES[lag.opcode].name,
        ),
    )


def lost_columns(missed_of: Callable[[Any], Missed], meaning: str = "") -> tuple[Column[Any], ...]:
    """Return the columns of lost bytes."""
    return (
        Column(
            "lost_bytes",
            lambda row: missed_of(row).lost,
            "lost",
            lambda row: lost(missed_of(row)),
            meaning=meaning,
        ),
        Column("unknown_gaps?", lambda row: missed_of(row).unknown or None, stored=False),
    )


#: Of a stream.
LOST = "bytes that its direction lost while it was open, and that may be its own"

STREAMS = ColumnSet[
    StreamRow
](
    C("connection", lambda row: row.stream.connection.number, "conn"),
    C(get=_client, head="client", type=TEXT),
    *of(_connection, "src dst"),
    C("vbucket", lambda row: row.stream.vbucket, "vb"),
    C("stream_id?", lambda row: row.stream.stream_id or None, "sid"),
    *of(_connection, "name?=setup.name roles=roles.word"),
    *of(_stream, "opaque?"),
    C(head="filter", text=_filter, drop_rank=3),
    C(head="asked", text=_asked, sort=of_request("ts_ns"), drop_rank=6),
    C(head="from..to", text=_range, drop_rank=5),
    *of(lambda row: row.verdict, "verdict=text state=kind.value cause=cause.value why trouble"),
    C("degree?", lambda row: None if row.verdict.degree is None else row.verdict.degree.value, stored=False),
    C("requests", lambda row: [_request(each, row.stream.connection) for each in row.stream.requests]),
    C("requests_omitted?", lambda row: sum((row.stream.requests.omitted or {}).values()) or None, stored=False),
    *of(_stream, "opened_at?=granted_ns"),
    *of(lambda row: row.stream.request, "start_seqno? end_seqno?"),
    C(get=lambda row: row.stream.seqnos.high, head="last seqno", type=U64),
    C(
        head="lag",
        text=lambda row: lag_text(row.verdict.lag, row.now_ns),
        right=True,
        sort=lambda row: None if row.verdict.lag is None else row.verdict.lag.rank,  # the worst first
    ),
    C("snapshots?", _snapshots, "snapshots", nonzero(_snapshots), drop_rank=4),
    _counted("mutations?", MUTATION, 7),
    _counted("deletions?", DELETION, 8),
    _counted("expirations?", EXPIRATION, 9),
    _counted("prepares?", PREPARE, 10),
    _counted("commits?", COMMIT, 11),
    _counted("aborts?", ABORT, 12),
    _counted("system_events?", SYSTEM_EVENT, 13),
    C("seqno_advanced?", lambda row: row.stream.traffic.count(ADVANCED)),
    C("cache_transfers?", lambda row: row.stream.traffic.count(CACHED)),
    *of(_stream, "first_seqno?=seqnos.first last_seqno?=seqnos.last"),
    *lag_columns(lambda row: row.verdict.lag),
    C("snapshot?", lambda row: _snapshot(row.stream)),
    C(
        "rollback_seqno?",
        lambda row: next((each.rollback_seqno for each in row.stream.requests.rolled_back[-1:]), None),
    ),
    C("rollbacks?", lambda row: row.stream.requests.count(ROLLBACK) if row.stream.requests.rolled_back else None),
    C("failover_log?", lambda row: failover_log(row.stream.failover_log)),
    C("end_status?", lambda row: row.stream.end_status if row.stream.end is not None else None),
    C("end_status_name?", lambda row: reason_name(row.stream.end_status) if row.stream.end is not None else None),
    C("ended_at?", lambda row: row.stream.ended_ns if row.stream.end is not None else row.stream.closed_ns),
    *of(_stream, "last_at?=traffic.last_ns"),
    C("bytes", _bytes, "bytes", nonzero(_bytes), drop_rank=2),
    *lost_columns(lambda row: row.stream.gaps.missed, LOST),
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


def failover_log(entries: Iterable[Entry] | None) -> list[Json] | None:
    """Return a failover log as objects; None where it has no entry."""
    return [{"vbucket_uuid": f"0x{each.uuid:016x}", "seqno": each.seqno} for each in entries or ()] or None


def _snapshot(stream: Stream) -> Json | None:
    found = stream.snapshot
    return None if found is None else {"start_seqno": found.start, "end_seqno": found.end}


def _request(request: Request, connection: ConnectionState) -> Json:
    names, fault = connection.collection_names, fault_in(request, connection)
    out: Json = {
        "frame": request.frame,
        "time": _time(request.ts_ns),
        "opaque": request.opaque,
        "flags": request.flags,
        "flags_names": list(STREAM_FLAGS.describe(request.flags)) if request.flags else None,
        "start_seqno": request.start_seqno,
        "end_seqno": request.end_seqno,
        "vbucket_uuid": None if request.vbucket_uuid is None else f"0x{request.vbucket_uuid:016x}",
        "snap_start_seqno": request.snap_start_seqno,
        "snap_end_seqno": request.snap_end_seqno,
        "collections": None if request.collections is None else list(request.collections),
        "collection_names": collection_names(request.collections or (), names) or None,
        "scope": request.scope,
        "scope_name": scope_name(request.scope, names),
        "response_frame": request.answer_frame,
        "status": request.status,
        "status_name": None if request.status is None else STATUS.names.get(request.status),
        "rollback_seqno": request.rollback_seqno,
        "repeats": request.repeats or None,
        "fault": None if fault is None else {"member": fault.member, "value": fault.value, "text": fault.text},
    }
    if request.ts_ns is not None and request.answered_ns is not None and request.answered_ns >= request.ts_ns:
        out["latency_us"] = (request.answered_ns - request.ts_ns) // 1000
    return without_none(out)


def _time(ts_ns: int | None) -> str | None:
    return None if ts_ns is None else iso_time(ts_ns)
