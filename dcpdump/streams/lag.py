"""Lag: how many seqnos of those that the server is known to have had were not sent to a consumer yet.

The server's high seqno of a vbucket is known exactly where the server said it: in answers to GET_ALL_VB_SEQNOS,
OBSERVE_SEQNO and STAT, on any connection to the same server and bucket. All else shows only what it has at least:
snapshot markers, the failover log, what other consumers were sent. What was said before a failover, or before the
client was rolled back, is of no use: the server may have had more then than it has now.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import chain, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.spec.names import DISK_ONLY, TO_LATEST
from dcpdump.spec.statuses import ROLLBACK
from dcpdump.streams.facts import NEVER
from dcpdump.streams.failover_logs import EITHER, VISIBLE, WHOLE, High, Log, Moment, moment, shared_place
from dcpdump.streams.opcode_kinds import MARKER, STREAM_REQ

if TYPE_CHECKING:
    from dcpdump.streams.ledger import Ledger
    from dcpdump.streams.stream import Stream

_seqno = attrgetter("seqno")
#: Of a vbucket's reported seqnos, the latest that are looked at.
_LOOKED_AT = 64
#: Server and bucket, vbucket, uuid of the branch, and what seqnos are of.
_Place = tuple[tuple[str, str], int, int | None, int]


class Lag(NamedTuple):
    """How far a consumer is behind, and the high seqno by which that is known."""

    seqnos: int | None = None  #: None: not known
    exact: bool = False  #: False: ``seqnos`` is the least that it can be
    high: int | None = None  #: what the server had; where that is not exact, at least
    high_ns: int | None = None  #: when that was said
    opcode: int | None = None  #: by which message; None: by documents

    @property
    def rank(self) -> int | None:
        """Return what lags are sorted by, the worst first; None where it is not known."""
        return None if self.seqnos is None else -self.seqnos


class _Known(NamedTuple):
    """A seqno that a vbucket has reached."""

    seqno: int
    ts_ns: int | None
    opcode: int | None


class _Wanted(NamedTuple):
    """What a stream is to bring."""

    what: int  #: of a collection, by its number; WHOLE, VISIBLE or EITHER
    part: bool  #: it may bring less than all of that
    end: int  #: it ends there; NEVER: it does not


class Lags:
    """The lags of the streams of a ledger that is closed. Each question costs a few steps."""

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger, self._logs = ledger, ledger.logs
        self._shared = cache(shared_place)
        self._changes: dict[int, list[Moment]] = {}  #: of branches, by identity of a vbucket's logs

    def of(self, stream: "Stream") -> Lag | None:
        """Return how far the consumer of a stream is behind; None where it was never opened, or another follows it."""
        if not stream.is_sending or stream.replaced or stream.next is not None:
            return None
        wanted, position = _wanted(stream), stream.position
        ceiling, floor, exact = self._reported(stream, wanted)
        said = Lag() if ceiling is None else Lag(None, False, *_known(ceiling))
        if position is None:
            return said
        if position >= wanted.end:
            return said._replace(seqnos=0, exact=True)
        bound = max(self._floors(stream, wanted, floor), key=_seqno, default=_Known(0, None, None))
        least = max(bound.seqno, position)
        if exact is not None and (exact.seqno >= least or (least == position and _is_passed(exact, stream))):
            return Lag(max(0, min(exact.seqno, wanted.end) - position), True, *_known(exact))
        if ceiling is not None and ceiling.seqno == least == position:
            return said._replace(seqnos=0, exact=True)
        return Lag(min(least, wanted.end) - position, False, *bound) if least > position else said

    def _reported(self, stream: "Stream", wanted: _Wanted) -> tuple[High | None, High | None, High | None]:
        """Return the latest high seqnos that the server reported: below which the stream is to stay, to bring, both."""
        ceiling = floor = None
        for high in self._holding(stream, wanted):
            is_ceiling, is_floor = _is_ceiling(high, stream, wanted), _is_floor(high, stream, wanted)
            if is_ceiling:
                ceiling = ceiling or high
            if is_floor:
                floor = floor or high
            if is_ceiling and is_floor:
                return ceiling, floor, high
        return ceiling, floor, None

    def _holding(self, stream: "Stream", wanted: _Wanted) -> Iterator[High]:
        """Yield the high seqnos that the server reported and that hold, that of a collection, then the latest first."""
        connection = stream.connection
        since, until, alone = self._voided(stream), _over_ns(stream), self._shared(connection) is None
        highs = self._logs.highs(connection, stream.vbucket)
        at = len(highs) if until is None else bisect_right(highs, until, key=_time)
        one = self._logs.collection_high(connection, stream.vbucket, wanted.what)
        several = (highs[place] for place in range(at - 1, max(-1, at - 1 - _LOOKED_AT), -1))
        for high in several if one is None else chain((one,), several):
            if moment(high.ts_ns, high.frame) <= since:
                continue
            if (until is None or _time(high) <= until) and (not alone or high.connection == connection.number):
                yield high

    def _voided(self, stream: "Stream") -> Moment:
        """Return when the vbucket came to be on another branch, or its client on an earlier one, as far as is known."""
        logs, since = self._logs.logs(stream.connection, stream.vbucket), (0, 0)
        if len(logs) > 1:
            changes = self._changes.get(id(logs))
            if changes is None:
                changes = self._changes[id(logs)] = _changes(logs)
            until = _over_ns(stream)
            at = len(changes) if until is None else bisect_right(changes, (until, NEVER))
            since = changes[at - 1] if at else since
        for request in stream.requests if len(stream.requests) > 1 else ():
            if request.status == ROLLBACK:
                since = max(since, moment(request.answered_ns, request.answer_frame or 0))
            if request.after_omitted:  # one of those before it may have been rolled back
                since = max(since, moment(request.ts_ns, request.frame))
        return since

    def _floors(self, stream: "Stream", wanted: _Wanted, reported: High | None) -> Iterator[_Known]:
        """Yield what a stream is to bring at least, as far as its connection and others show."""
        if stream.marker is not None and not stream.end_may_be_filtered:
            yield _Known(stream.marker.end, stream.marker.ts_ns, MARKER)
        if stream.failover_log and wanted.what == WHOLE and not wanted.part:
            yield _Known(max(each.seqno for each in stream.failover_log), stream.granted_ns, STREAM_REQ)
        if reported is not None:
            yield _known(reported)
        shared = self._shared(stream.connection)
        if shared is not None and not wanted.part and wanted.what != EITHER and _over_ns(stream) is None:
            other = self._reached.get((shared, stream.vbucket, _branch(stream), wanted.what))
            if other is not None:
                yield other

    @cached_property
    def _reached(self) -> dict[_Place, _Known]:
        """Return what the consumers of vbuckets were sent at most, by branch."""
        out: dict[_Place, _Known] = {}
        streams = self._ledger.streams
        several = Counter(stream.vbucket for stream in streams)
        for stream in streams:
            shared = self._shared(stream.connection) if several[stream.vbucket] > 1 else None
            if shared is None or not stream.is_sending:
                continue
            for what in {WHOLE, _wanted(stream).what} - {EITHER}:
                place = shared, stream.vbucket, _branch(stream), what
                known = _sent(stream, what)
                if known is not None and (place not in out or out[place].seqno < known.seqno):
                    out[place] = known
        return out


def _changes(logs: Sequence[Log]) -> list[Moment]:
    """Return when failover logs began to have another newest branch."""
    known = [log for log in logs if log.entries]
    changed = (log for before, log in pairwise(known) if before.entries[0].uuid != log.entries[0].uuid)
    return [moment(log.ts_ns, log.frame) for log in changed]


def _sent(stream: "Stream", what: int) -> _Known | None:
    """Return the highest seqno that a stream brought or announced of something."""
    marker, high = stream.marker, stream.seqnos.high
    if marker is not None and marker.end >= (high or 0) and (what == WHOLE or not stream.end_may_be_filtered):
        return _Known(marker.end, marker.ts_ns, MARKER)
    return None if high is None else _Known(high, stream.seqnos.last_ns, None)


def _wanted(stream: "Stream") -> _Wanted:
    """Return what a stream is to bring.

    With durable writes but without collections, it brings more than the server's answers to such a client count.
    """
    connection, request = stream.connection, stream.request
    has = connection.setup.has_collections
    what = WHOLE if has else VISIBLE if has is False and not connection.setup.on("enable_sync_writes") else EITHER
    if request is None or request.flags is None:
        return _Wanted(what, True, NEVER)
    end = request.fixed_end
    part = bool(request.flags & (DISK_ONLY | TO_LATEST))
    if request.filtered:
        single = _single(request.collections) if has and request.scope is None and request.readable else None
        what, part = (what, True) if single is None else (single, part)
    return _Wanted(what, part, NEVER if end is None else end)


def _single(collections: tuple[str, ...] | None) -> int | None:
    """Return the number of the only collection of a filter; None where there are more, or it is none."""
    try:
        return int(collections[0], 16) if collections is not None and len(collections) == 1 else None
    except ValueError:
        return None


def _is_same(high: High, stream: "Stream", wanted: _Wanted) -> bool:
    return high.what == wanted.what and (wanted.what != EITHER or high.connection == stream.connection.number)


def _is_ceiling(high: High, stream: "Stream", wanted: _Wanted) -> bool:
    """Return whether a stream was to bring nothing above a high seqno when that was reported."""
    return high.what == WHOLE or _is_same(high, stream, wanted)


def _is_floor(high: High, stream: "Stream", wanted: _Wanted) -> bool:
    """Return whether a stream was to bring all up to a high seqno."""
    return not wanted.part and (wanted.what == WHOLE or _is_same(high, stream, wanted))


def _is_passed(high: High, stream: "Stream") -> bool:
    """Return whether a stream was beyond the last change of its collection when that was reported."""
    return high.what >= 0 and _time(high) >= (stream.seqnos.last_ns or 0)


def _time(high: High) -> int:
    return high.ts_ns or 0


def _known(high: High) -> _Known:
    return _Known(high.seqno, high.ts_ns, high.opcode)


def _branch(stream: "Stream") -> int | None:
    return stream.failover_log[0].uuid if stream.failover_log else None


def _over_ns(stream: "Stream") -> int | None:
    """Return when a stream ended, or its connection did; None where it is open."""
    return stream.ended_ns if stream.end is not None else stream.connection.end.ts_ns
