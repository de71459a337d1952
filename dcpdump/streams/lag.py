"""Lag: how many seqnos of those that the server is known to have had were not sent to a consumer yet.

The server's high seqno of a vbucket is known exactly where the server said it: in answers to GET_ALL_VB_SEQNOS,
OBSERVE_SEQNO and STAT, on any connection to the same server and bucket. All else shows only what it has at least:
snapshot markers, the failover log, what other consumers were sent. What was said before a failover, or before the
client was rolled back, is of no use: the server may have had more then than it has now.
"""

from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.spec.names import DISK_ONLY, TO_LATEST
from dcpdump.streams.failover_logs import EITHER, VISIBLE, WHOLE, High, Moment, moment, shared_place
from dcpdump.streams.opcode_kinds import MARKER, STREAM_REQ
from dcpdump.streams.request import NEVER

if TYPE_CHECKING:
    from dcpdump.streams.ledger import Ledger
    from dcpdump.streams.stream import Stream

_seqno = attrgetter("seqno")
#: Server and bucket, vbucket, uuid of the branch, and what seqnos are of.
_Place = tuple[tuple[str, str], int, int | None, int]


class Lag(NamedTuple):
    """How far a consumer is behind, and the high seqno by which that is known."""

    seqnos: int | None = None  #: None: not known
    exact: bool = False  #: False: at least so many
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

    def of(self, stream: "Stream") -> Lag | None:
        """Return how far the consumer of a stream is behind; None where it was never opened, or another follows it."""
        if not stream.is_sending or stream.replaced or stream.next is not None:
            return None
        wanted, position = _wanted(stream), stream.position
        reports = self._reports(stream, wanted)
        ceilings = [each for each in reports if _is_ceiling(each, stream, wanted)]
        said = Lag(None, False, *_known(ceilings[-1])) if ceilings else Lag()
        if position is None:
            return said
        if position >= wanted.end:
            return said._replace(seqnos=0, exact=True)
        floor = max(self._floors(stream, wanted, reports), key=_seqno, default=_Known(0, None, None))
        least = max(floor.seqno, position)
        exact = [each for each in ceilings if _is_floor(each, stream, wanted)]
        if exact and exact[-1].seqno >= least:
            high = exact[-1]
            return Lag(min(high.seqno, wanted.end) - position, True, *_known(high))
        if ceilings and ceilings[-1].seqno == least == position:
            return said._replace(seqnos=0, exact=True)
        return Lag(min(least, wanted.end) - position, False, *floor) if least > position else said

    def _reports(self, stream: "Stream", wanted: _Wanted) -> Sequence[High]:
        """Return the high seqnos that the server reported and that hold, oldest first."""
        connection = stream.connection
        since, until, alone = self._voided(stream), _over_ns(stream), self._shared(connection) is None
        return [
            each
            for each in self._logs.highs(connection, stream.vbucket, wanted.what)
            if moment(each.ts_ns, each.frame) > since
            and (until is None or (each.ts_ns or 0) <= until)
            and (not alone or each.connection == connection.number)
        ]

    def _voided(self, stream: "Stream") -> Moment:
        """Return when the vbucket came to be on another branch, or its client on an earlier one, as far as is known."""
        until, since, before = _over_ns(stream), (0, 0), None
        for log in self._logs.logs(stream.connection, stream.vbucket):
            if log.entries and (until is None or (log.ts_ns or 0) <= until):
                if before not in (None, log.entries[0].uuid):
                    since = moment(log.ts_ns, log.frame)
                before = log.entries[0].uuid
        for request in stream.rollbacks:
            since = max(since, moment(request.answered_ns, request.answer_frame or 0))
        return since

    def _floors(self, stream: "Stream", wanted: _Wanted, reports: Sequence[High]) -> Iterator[_Known]:
        """Yield what a stream is to bring at least, as far as its connection and others show."""
        if stream.marker is not None and not stream.end_may_be_filtered:
            yield _Known(stream.marker.end, stream.marker.ts_ns, MARKER)
        if stream.failover_log and wanted.what == WHOLE and not wanted.part:
            yield _Known(max(each.seqno for each in stream.failover_log), stream.granted_ns, STREAM_REQ)
        for each in reports:
            if _is_floor(each, stream, wanted):
                yield _Known(each.seqno, each.ts_ns, each.opcode)
        shared = self._shared(stream.connection)
        if shared is not None and not wanted.part and wanted.what != EITHER and _over_ns(stream) is None:
            other = self._reached.get((shared, stream.vbucket, _branch(stream), wanted.what))
            if other is not None:
                yield other

    @cached_property
    def _reached(self) -> dict[_Place, _Known]:
        """Return what the consumers of vbuckets were sent at most, by branch."""
        out: dict[_Place, _Known] = {}
        for stream in self._ledger.streams:
            shared = self._shared(stream.connection)
            if shared is None or not stream.is_sending:
                continue
            for what in {WHOLE, _wanted(stream).what} - {EITHER}:
                place = shared, stream.vbucket, _branch(stream), what
                known = _sent(stream, what)
                if known is not None and (place not in out or out[place].seqno < known.seqno):
                    out[place] = known
        return out


def _sent(stream: "Stream", what: int) -> _Known | None:
    """Return the highest seqno that a stream brought or announced of something."""
    marker, high = stream.marker, stream.high_seqno
    if marker is not None and marker.end >= (high or 0) and (what == WHOLE or not stream.end_may_be_filtered):
        return _Known(marker.end, marker.ts_ns, MARKER)
    return None if high is None else _Known(high, stream.last_item_ns, None)


def _wanted(stream: "Stream") -> _Wanted:
    """Return what a stream is to bring.

    Without collections and with durable writes it brings more than others without collections are told of.
    """
    connection, request = stream.connection, stream.request
    has = connection.has_collections
    what = WHOLE if has else VISIBLE if has is False and not connection.on("enable_sync_writes") else EITHER
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


def _known(high: High) -> _Known:
    return _Known(high.seqno, high.ts_ns, high.opcode)


def _branch(stream: "Stream") -> int | None:
    return stream.failover_log[0].uuid if stream.failover_log else None


def _over_ns(stream: "Stream") -> int | None:
    """Return when a stream ended, or its connection did; None where it is open."""
    return stream.ended_ns if stream.end_frame is not None else stream.connection.ended_ns
