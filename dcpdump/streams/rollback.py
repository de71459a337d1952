"""Rollbacks explained: which clause of the protocol sends a stream request back, and to where.

A server lets a request stand, or rolls it back, by these clauses, in this order: a request from 0 stands; one
below the purge seqno goes to 0; one with a uuid that the failover log does not have goes to 0; else the
snapshot has to end before the next entry of the log began, or before the high seqno, or it goes back.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from dcpdump.streams.facts import Entry
from dcpdump.streams.ledger import Ledger, Log
from dcpdump.streams.spoken import seqno
from dcpdump.streams.state import IGNORE_PURGED, NEVER, STRICT_UUID, Request, Stream


class Explanation(NamedTuple):
    """Why a request was rolled back. ``clause``: which one explains it, ``unknown`` where more than one may."""

    clause: str  #: start, purge, uuid, snapshot, unknown
    text: str
    expected: int | None = None  #: what the clause gives, where all that it needs was witnessed
    log: Log | None = None


@dataclass(slots=True)
class Rollback:
    """A rollback, and how often a client got the same one. ``stream``: on which it came first."""

    stream: Stream
    requests: list[Request] = field(default_factory=list)
    explanation: Explanation | None = None
    granted: Request | None = None  #: the request that was granted at last

    @property
    def first(self) -> Request:
        """The first of the equal requests."""
        return self.requests[0]

    @property
    def lasted_ns(self) -> int | None:
        """From the first request to the last answer."""
        first, last = self.first.ts_ns, self.requests[-1].answered_ns
        return None if first is None or last is None else last - first


def rollbacks(ledger: Ledger) -> list[Rollback]:
    """It gives all rollbacks of a ledger, equal ones of a stream as one."""
    found: dict[tuple[object, ...], Rollback] = {}
    for stream in ledger.streams:
        connection = stream.connection
        client = connection.name or connection.client_host
        for request in stream.rollbacks:
            same = (
                connection.server_host,
                client,
                stream.vbucket,
                stream.stream_id,
                request.start_seqno,
                request.end_seqno,
                request.vbucket_uuid,
                request.snap_start_seqno,
                request.snap_end_seqno,
                request.rollback_seqno,
            )
            rollback = found.get(same)
            if rollback is None:
                rollback = found[same] = Rollback(stream, explanation=explain(request, stream, ledger))
            rollback.requests.append(request)
            rollback.granted = stream.requests[-1] if stream.granted else None
    return list(found.values())


def explain(request: Request, stream: Stream, ledger: Ledger) -> Explanation:
    """It finds the clause by which a request was rolled back."""
    start, uuid, target = request.start_seqno, request.vbucket_uuid, request.rollback_seqno
    if start is None or uuid is None or target is None:
        return Explanation("unknown", "its numbers were not witnessed")
    log = ledger.log_of(stream, request.frame)
    strict = (request.flags or 0) & STRICT_UUID
    if start == 0 and not (strict and uuid):
        return Explanation("start", "a request from 0 is never rolled back: the server breaks the protocol", None, log)
    purge = _purge(request, stream, ledger)
    if purge is not None and target == 0 and start < purge:
        return Explanation("purge", f"start {start} is below the purge seqno {purge}: tombstones are missing", 0, log)
    if log is None:
        return Explanation("unknown", _without_log(request, target), None, None)
    at = next((at for at, entry in enumerate(log.entries) if entry.uuid == uuid), None)
    if at is None:
        text = f"uuid 0x{uuid:x} is not in the failover log {written(log.entries)}"
        return Explanation("uuid", text + _odd(request) + _disagrees(target, 0), 0, log)
    return _snapshot(request, target, log, at)


def written(entries: tuple[Entry, ...]) -> str:
    """It writes a failover log, newest first."""
    return f"[{', '.join(f'0x{entry.uuid:x}@{entry.seqno}' for entry in entries)}]"


def _snapshot(request: Request, target: int, log: Log, at: int) -> Explanation:
    """The uuid is known: what the server has of that branch has to hold the whole snapshot."""
    start, low, high = request.start_seqno or 0, request.snap_start_seqno or 0, request.snap_end_seqno or 0
    low, high = (start if start == high else low), (start if start == low else high)
    purged = target == 0 and not (request.flags or 0) & IGNORE_PURGED
    below = f"start {start} is below the purge seqno, which was not witnessed"
    if not at:
        return _newest(request, low, high, target, log, below if purged else "")
    newer = log.entries[at - 1]
    if high <= newer.seqno:
        if purged:
            return Explanation("purge", f"uuid and snapshot fit the log, so {below}", 0, log)
        text = f"nothing explains it: snapshot end {seqno(high)} is not above {newer.seqno}"
        return Explanation("unknown", f"{text}, where the next branch begins", None, log)
    expected = min(low, newer.seqno)
    text = f"the snapshot {low}..{seqno(high)} goes beyond {newer.seqno}, where the branch of 0x{newer.uuid:x} began"
    text += f": back to {'the snapshot start' if expected == low else 'there'}, {expected}"
    if purged and expected:
        return Explanation("purge", f"{below}: by the log alone it would go back to {expected}", 0, log)
    return Explanation("snapshot", text + _odd(request) + _disagrees(target, expected), expected, log)


def _newest(request: Request, low: int, high: int, target: int, log: Log, below: str) -> Explanation:
    """The uuid is that of the newest branch, which goes on to the high seqno. ``below``: it may be the purge seqno."""
    newest, least = "the uuid is the newest of the log", log.entries[0].seqno
    fits = least < high and (target == low or least <= target < low)
    if below and not (fits and target == low):  # a server with a high seqno of 0 has not given this uuid to anybody
        return Explanation("purge", f"{newest}, so {below}{_odd(request)}", 0, log)
    if not fits:
        return Explanation("unknown", f"nothing explains it: the uuid is the newest{_odd(request)}", None, log)
    text = f"{newest}, and the snapshot ends at {seqno(high)}, above the server's high seqno"
    text += f": back to the snapshot's start, {low}" if target == low else f", which is {target}"
    if below:
        return Explanation("unknown", f"{text}; or {below}{_odd(request)}", 0, log)
    return Explanation("snapshot", text + _odd(request), None, log)


def _without_log(request: Request, target: int) -> str:
    if target == 0:
        text = "the failover log was not witnessed: the uuid is not in it, or the start is below the purge seqno"
        if request.snap_start_seqno == 0 and request.snap_end_seqno != request.start_seqno:
            text += ", or the server has not all of the snapshot, so back to its start"
    elif target == request.snap_start_seqno:
        text = "the failover log was not witnessed: the server has not all of the snapshot, so back to its start"
    else:
        text = f"the failover log was not witnessed: the server's branch and the client's part at {target}"
    return text + _odd(request)


def _odd(request: Request) -> str:
    """It tells what is odd about a request in itself."""
    low, start, high = request.snap_start_seqno, request.start_seqno, request.snap_end_seqno
    if high == NEVER:
        return "; also its snapshot end is 2^64-1"
    if low is not None and start is not None and high is not None and not low <= start <= high:
        return f"; also its start {start} is outside its snapshot {low}..{high}"
    return ""


def _disagrees(target: int, expected: int) -> str:
    return "" if target == expected else f"; but that gives {expected}, not {target}"


def _purge(request: Request, stream: Stream, ledger: Ledger) -> int | None:
    """It gives the purge seqno that markers told for the vbucket, unless the request is exempt from it."""
    if (request.flags or 0) & IGNORE_PURGED:
        return None
    server, bucket = stream.connection.server_host, stream.connection.bucket
    told = [
        other.purge_seqno
        for other in ledger.streams
        if other.vbucket == stream.vbucket
        and other.purge_seqno is not None
        and other.connection.server_host == server
        and other.connection.bucket == bucket
    ]
    highest = max(told, default=None)
    return None if highest is None or request.purge_seqno == highest else highest
