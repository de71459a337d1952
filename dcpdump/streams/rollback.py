"""Rollbacks: equal ones of a consumer as one, with what explains them, and what the consumer did then."""

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from dcpdump.streams.explanation import Explanation, explain
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.logs import Moment, moment
from dcpdump.streams.state import SUCCESS, Connection, Request, Stream


class Attempt(NamedTuple):
    """A stream request, and the stream that it is of."""

    request: Request
    stream: Stream


@dataclass(slots=True)
class Rollback:
    """A rollback, and each time that a consumer got the same one, in the order of time."""

    attempts: list[Attempt]
    explanation: Explanation
    again: Attempt | None = None  #: how the consumer asked next
    granted: Attempt | None = None  #: what was granted to it at last

    @property
    def stream(self) -> Stream:
        """The stream that was rolled back first."""
        return self.attempts[0].stream

    @property
    def last(self) -> Stream:
        """The stream that was rolled back last."""
        return self.attempts[-1].stream

    @property
    def requests(self) -> list[Request]:
        """The equal requests."""
        return [each.request for each in self.attempts]

    @property
    def first(self) -> Request:
        """The first of the equal requests."""
        return self.attempts[0].request

    @property
    def answered_ns(self) -> int | None:
        """When the last of the equal requests was answered."""
        return self.attempts[-1].request.answered_ns

    @property
    def lasted_ns(self) -> int | None:
        """From the first request to the last answer."""
        first, last = self.first.ts_ns, self.answered_ns
        return None if first is None or last is None else last - first


def rollbacks(ledger: Ledger) -> list[Rollback]:
    """Return all rollbacks of a ledger that is closed, equal ones of a consumer and vbucket as one."""
    found: dict[tuple[object, ...], list[Attempt]] = {}
    for stream in ledger.streams:
        for request in stream.rollbacks:
            found.setdefault(_same(request, stream), []).append(Attempt(request, stream))
    if not found:
        return []
    retries = _Retries(ledger)
    out = []
    for attempts in found.values():
        attempts.sort(key=_asked)
        again, granted = retries.after(attempts[-1])
        out.append(Rollback(attempts, explain(*attempts[0], ledger), again, granted))
    return out


def _same(request: Request, stream: Stream) -> tuple[object, ...]:
    """Return what equal rollbacks have in common."""
    return (
        stream.connection.server_address or stream.connection.number,
        consumer(stream.connection),
        stream.vbucket,
        stream.stream_id,
        request.start_seqno,
        request.end_seqno,
        request.vbucket_uuid,
        request.snap_start_seqno,
        request.snap_end_seqno,
        request.rollback_seqno,
    )


def consumer(connection: Connection) -> Hashable:
    """Return who receives on a connection: connections with equal answers are of one consumer."""
    return connection.bucket, connection.name or connection.client_host


def _asked(attempt: Attempt) -> Moment:
    return moment(attempt.request.ts_ns, attempt.request.frame)


class _Timeline:
    """Attempts in the order of time."""

    def __init__(self) -> None:
        self._times: list[Moment] = []
        self._attempts: list[Attempt] = []

    def add(self, attempt: Attempt) -> None:
        """Add the next one."""
        self._times.append(_asked(attempt))
        self._attempts.append(attempt)

    def after(self, when: Moment) -> Attempt | None:
        """Return the first attempt after a moment."""
        at = bisect_right(self._times, when)
        return self._attempts[at] if at < len(self._attempts) else None


class _Retries:
    """All requests of a ledger, by what they may be a retry of."""

    def __init__(self, ledger: Ledger) -> None:
        self._asked: dict[Hashable, _Timeline] = {}
        self._granted: dict[Hashable, _Timeline] = {}
        every = [Attempt(request, stream) for stream in ledger.streams for request in stream.requests]
        for attempt in sorted(every, key=_asked):
            for place in _places(attempt):
                self._asked.setdefault(place, _Timeline()).add(attempt)
                if attempt.request.status == SUCCESS:
                    self._granted.setdefault(place, _Timeline()).add(attempt)

    def after(self, last: Attempt) -> tuple[Attempt | None, Attempt | None]:
        """Return the next request for what was rolled back, and the next one that was granted."""
        request = last.request
        when = _asked(last) if request.answer_frame is None else moment(request.answered_ns, request.answer_frame)
        return _next(self._asked, last, when), _next(self._granted, last, when)


def _next(timelines: dict[Hashable, _Timeline], last: Attempt, when: Moment) -> Attempt | None:
    """Return the first attempt after a moment: on the same stream, or for the same from no higher than it may."""
    here, anywhere = (timelines[place].after(when) if place in timelines else None for place in _places(last))
    start, most = None if anywhere is None else anywhere.request.start_seqno, last.request.rollback_seqno
    if anywhere is None or start is None or most is None or start > most:
        return here
    return anywhere if here is None else min(here, anywhere, key=_asked)


def _places(attempt: Attempt) -> tuple[Hashable, Hashable]:
    """Return the stream that a request is for, and what it is for whatever the connection and the stream id."""
    request, stream = attempt
    collections = None if request.collections is None else tuple(sorted(request.collections))
    wanted = (collections, request.scope, request.end_seqno)
    here = (stream.connection.number, stream.vbucket, stream.stream_id)
    return here, (consumer(stream.connection), stream.vbucket, wanted)
