"""Write streams as rows for people, and as objects: one for each DCP stream, with its verdict."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from sys import intern
from typing import Any

from dcpdump.record import Json
from dcpdump.render.ndjson import without_none
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Table, lost, lost_keys, number
from dcpdump.spec import MESSAGES
from dcpdump.spec.names import STREAM_FLAGS
from dcpdump.spec.statuses import ROLLBACK, STATUS
from dcpdump.streams.causes import Degree, Verdict
from dcpdump.streams.eviction import EvictedStreams
from dcpdump.streams.frame_event import Missed
from dcpdump.streams.lag import Lag
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
from dcpdump.streams.refusal import fault_in
from dcpdump.streams.request import Request, collection_names, filter_text, scope_name
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import client, clock, lag_text, reason_name, seqno
from dcpdump.text import counted, iso_time, measured

Judged = tuple[Stream, Verdict]

_KINDS = {
    "mutations": MUTATION,
    "deletions": DELETION,
    "expirations": EXPIRATION,
    "prepares": PREPARE,
    "commits": COMMIT,
    "aborts": ABORT,
    "system_events": SYSTEM_EVENT,
}
#: Their columns.
_COUNTED = tuple(name.replace("_", " ") for name in _KINDS)
_HEADS = (
    "conn",
    "client",
    "vb",
    "sid",
    "filter",
    "asked",
    "from..to",
    "last seqno",
    "lag",
    "snapshots",
    *_COUNTED,
    "bytes",
    "lost",
    "rate",
    "verdict",
)
#: What a narrow terminal has no room for, the least first.
_LEAST = ("rate", "bytes", "filter", "snapshots", "from..to", "asked", *_COUNTED)
_RIGHT = ("vb", "sid", "last seqno", "lag", "snapshots", *_COUNTED, "bytes", "lost")


#: How rows of each degree are shown.
KINDS: Mapping[Degree | None, LineKind] = {
    Degree.WRONG: LineKind.PROBLEM,
    Degree.NOTE: LineKind.HINT,
    Degree.UNKNOWN: LineKind.PLAIN,
    None: LineKind.PLAIN,
}

#: What streams can be sorted by; None where there is nothing.
COLUMNS: Mapping[str, Callable[[Judged], Any]] = {
    "conn": lambda each: each[0].connection.number,
    "client": lambda each: client(each[0].connection),
    "vb": lambda each: each[0].vbucket,
    "sid": lambda each: each[0].stream_id or None,
    "asked": lambda each: None if each[0].request is None else each[0].request.ts_ns,
    "last-seqno": lambda each: each[0].seqnos.high,
    "lag": lambda each: None if each[1].lag is None else each[1].lag.rank,  # the worst first
    "snapshots": lambda each: each[0].traffic.snapshots,
    **{
        name.replace("_", "-"): partial(lambda opcode, each: each[0].count(opcode), opcode)
        for name, opcode in _KINDS.items()
    },
    "bytes": lambda each: each[0].traffic.size,
    "lost": lambda each: each[0].gaps.missed.lost,
    "verdict": lambda each: (each[1].rank, each[1].text),
}


def table(judged: Sequence[Judged], now_ns: int | None, rates: Mapping[Stream, str] | None = None) -> Table:
    """Return a table of streams. ``now_ns``: when the input ends."""
    rows = []
    for stream, verdict in judged:
        request = stream.request
        cells = (
            str(stream.connection.number),
            client(stream.connection),
            str(stream.vbucket),
            str(stream.stream_id or ""),
            "" if request is None else filter_text(request, stream.connection.collection_names),
            clock(request.ts_ns) if request is not None and request.ts_ns is not None else "before",
            f"{seqno(request.start_seqno)}..{seqno(request.end_seqno)}" if request is not None else "?",
            number(stream.seqnos.high),
            lag_text(verdict.lag, now_ns),
            number(stream.traffic.snapshots or None),
            *(number(stream.traffic.count(opcode) or None) for opcode in _KINDS.values()),
            number(stream.traffic.size or None),
            lost(stream.gaps.missed),
            (rates or {}).get(stream, ""),
            verdict.text,
        )
        rows.append(tuple(map(intern, cells)))  # of 100,000 streams most cells are equal
    kinds = [KINDS[verdict.degree] for _, verdict in judged]
    return Table(_HEADS, rows, _RIGHT, _LEAST, kinds)


def total(judged: Sequence[Judged], evicted: EvictedStreams, connections: Sequence[ConnectionState]) -> Line:
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


def lag_object(lag: Lag | None) -> Json:
    """Return a lag as keys of an object; what is not known is None."""
    lag = lag or Lag()
    return {
        "lag": lag.seqnos,
        "lag_exact": None if lag.seqnos is None else lag.exact,
        "high_seqno": lag.high,
        "high_seqno_at": _time(lag.high_ns),
        "high_seqno_from": None if lag.opcode is None else MESSAGES[lag.opcode].name,
    }


def as_object(stream: Stream, verdict: Verdict) -> Json:
    """Return a stream as one object. What was not captured is left out."""
    request, connection = stream.request, stream.connection
    out: Json = {
        "connection": connection.number,
        "src": connection.src,
        "dst": connection.dst,
        "vbucket": stream.vbucket,
        "stream_id": stream.stream_id or None,
        "name": connection.setup.name,
        "roles": connection.roles.word,
        "opaque": stream.opaque,
        "verdict": verdict.text,
        "state": verdict.kind.value,
        "cause": verdict.cause.value,
        "why": verdict.why,
        "trouble": verdict.trouble,
        "degree": None if verdict.degree is None else verdict.degree.value,
        "requests": [_request(each, connection) for each in stream.requests],
        "requests_omitted": sum((stream.requests.omitted or {}).values()) or None,
        "opened_at": _time(stream.granted_ns),
    }
    if request is not None:
        out |= {"start_seqno": request.start_seqno, "end_seqno": request.end_seqno}
    out["snapshots"] = stream.traffic.snapshots
    out |= {name: stream.traffic.count(opcode) for name, opcode in _KINDS.items()}
    out |= {"seqno_advanced": stream.traffic.count(ADVANCED), "cache_transfers": stream.traffic.count(CACHED)}
    out |= {"first_seqno": stream.seqnos.first, "last_seqno": stream.seqnos.last, **lag_object(verdict.lag)}
    if stream.snapshot is not None:
        out["snapshot"] = {"start_seqno": stream.snapshot.start, "end_seqno": stream.snapshot.end}
    if rollbacks := stream.requests.rolled_back:
        out |= {"rollback_seqno": rollbacks[-1].rollback_seqno, "rollbacks": stream.requests.count(ROLLBACK)}
    if stream.failover_log:
        out["failover_log"] = [
            {"vbucket_uuid": f"0x{each.uuid:016x}", "seqno": each.seqno} for each in stream.failover_log
        ]
    if stream.end is not None:
        out |= {"end_status": stream.end_status, "end_status_name": reason_name(stream.end_status)}
    out["ended_at"] = _time(stream.ended_ns if stream.end is not None else stream.closed_ns)
    out["last_at"] = _time(stream.traffic.last_ns)
    out |= {"bytes": stream.traffic.size, **lost_keys(stream.gaps.missed)}
    return without_none(out)


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
