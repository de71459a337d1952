"""Rollbacks: equal ones of a consumer as one, with what explains them, and what the consumer did then."""

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import NamedTuple

from dcpdump.quick_dataclass import dataclass
from dcpdump.spec.statuses import ROLLBACK, SUCCESS
from dcpdump.streams.causes import Reason, Unknown
from dcpdump.streams.consumer import same
from dcpdump.streams.explanation import Explanation, doubt, explain
from dcpdump.streams.failover_logs import Moment, moment
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.losses import Losses
from dcpdump.streams.request import Request
from dcpdump.streams.stream import Stream

#: So many requests after a rollback are looked through for one of the same consumer.
_FURTHER = 100


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
    lost: Unknown | None = None  #: why it is not known how it asked next; or, where it did, what was granted
    least: bool = False  #: there may be more equal ones: not all requests were kept, or compared

    @property
    def stream(self) -> Stream:
        """Return the stream that was rolled back first."""
        return self.attempts[0].stream

    @property
    def requests(self) -> list[Request]:
        """Return the equal requests, of very many the first and the latest."""
        return [each.request for each in self.attempts]

    @property
    def count(self) -> int:
        """Return how many equal requests there were."""
        return sum(1 + each.repeats for each in self.requests)

    @property
    def first(self) -> Request:
        """Return the first of the equal requests."""
        return self.attempts[0].request

    @property
    def answered_ns(self) -> int | None:
        """Return when the last of the equal requests was answered."""
        return self.attempts[-1].request.answered_ns

    @property
    def lasted_ns(self) -> int | None:
        """Return the time from the first request to the last answer."""
        first, last = self.first.ts_ns, self.answered_ns
        return None if first is None or last is None else last - first


def rollbacks(ledger: Ledger) -> list[Rollback]:
    """Return all rollbacks of a ledger that is closed, equal ones of a consumer and vbucket as one."""
    found: list[list[Attempt]] = []
    by_numbers: dict[Hashable, list[list[Attempt]]] = {}
    crowded: set[Hashable] = set()
    for stream in ledger.streams:
        for request in stream.rollbacks:
            attempt = Attempt(request, stream)
            numbers = _same(attempt)
            groups = by_numbers.setdefault(numbers, [])
            theirs = (each for each in groups[-_FURTHER:] if same(each[0].stream.connection, stream.connection))
            equal = next(theirs, None)
            if equal is None:
                if len(groups) >= _FURTHER:
                    crowded.add(numbers)
                equal = []
                groups.append(equal)
                found.append(equal)
            equal.append(attempt)
    if not found:
        return []
    retries, losses = _Retries(ledger), Losses(ledger.connections.values(), ledger.evicted_lost_ns)
    omitted, out = _omitted(ledger), []
    for attempts in found:
        attempts.sort(key=_asked)
        again, granted = retries.after(attempts[-1])
        clearest, last = min(attempts, key=lambda each: bool(doubt(*each))), attempts[-1]
        lost = None if again is not None else losses.since(last.stream.connection, last.request.answered_ns)
        place, target = _place(last.stream), last.request.rollback_seqno
        behind = max(omitted.get((place, target), 0), omitted.get((place, None), 0))
        if behind > last.request.frame or (again is not None and again.request.after_omitted):
            again, granted = None, None if behind > last.request.frame else granted
            lost = Unknown(Reason.TOO_MANY, "of the many requests since not all were kept")
        elif lost is None and granted is None and retries.has_more(attempts[-1], granted=again is not None):
            text = f"over {_FURTHER} requests since may be its consumer's, not all were compared"
            lost = Unknown(Reason.TOO_MANY, text)
        least = bool(behind) or _same(last) in crowded
        out.append(Rollback(attempts, explain(*clearest, ledger), again, granted, lost, least))
    return out


def _omitted(ledger: Ledger) -> dict[Hashable, int]:
    """Return where rollbacks were counted alone, by place and seqno, and the last request behind them; None: any."""
    out: dict[Hashable, int] = {}
    for stream in ledger.streams:
        targets = [target for status, target in stream.omitted or () if status == ROLLBACK]
        behind = max((each.frame for each in stream.requests if each.after_omitted), default=0) if targets else 0
        for target in targets:
            out[_place(stream), target] = max(out.get((_place(stream), target), 0), behind)
    return out


def _place(stream: Stream) -> Hashable:
    return stream.connection.server_address or stream.connection.number, stream.vbucket, stream.stream_id


def _same(attempt: Attempt) -> Hashable:
    """Return what equal rollbacks have in common, whoever the consumer is."""
    request, stream = attempt
    return (
        _place(stream),
        request.start_seqno,
        request.end_seqno,
        request.vbucket_uuid,
        request.snap_start_seqno,
        request.snap_end_seqno,
        request.rollback_seqno,
    )


def _asked(attempt: Attempt) -> Moment:
    return moment(attempt.request.ts_ns, attempt.request.frame)


def _over(attempt: Attempt) -> Moment:
    """Return when an attempt was answered, or else asked."""
    request = attempt.request
    return _asked(attempt) if request.answer_frame is None else moment(request.answered_ns, request.answer_frame)


class _Timeline:
    """Attempts in the order of time."""

    def __init__(self) -> None:
        self._times: list[Moment] = []
        self._attempts: list[Attempt] = []

    def add(self, attempt: Attempt) -> None:
        """Add the next one."""
        self._times.append(_asked(attempt))
        self._attempts.append(attempt)

    def after(self, when: Moment) -> Sequence[Attempt]:
        """Return the first attempts after a moment."""
        at = bisect_right(self._times, when)
        return self._attempts[at : at + _FURTHER]

    def has_more_after(self, when: Moment) -> bool:
        """Return whether there are more than ``after`` gives."""
        return len(self._times) - bisect_right(self._times, when) > _FURTHER


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
        return _next(self._asked, last, _over(last)), _next(self._granted, last, _over(last))

    def has_more(self, last: Attempt, *, granted: bool) -> bool:
        """Return whether more requests follow, or more that were granted, than are looked through."""
        found = self._granted if granted else self._asked
        return any(found[place].has_more_after(_over(last)) for place in _places(last) if place in found)


def _next(timelines: dict[Hashable, _Timeline], last: Attempt, when: Moment) -> Attempt | None:
    """Return the first attempt after a moment: on the same stream, or for the same from no higher than it may."""
    here, anywhere = (timelines[place].after(when) if place in timelines else () for place in _places(last))
    retries = (each for each in anywhere if _obeys(each, last) and same(each.stream.connection, last.stream.connection))
    return min([*here[:1], *islice(retries, 1)], key=_asked, default=None)


def _obeys(attempt: Attempt, last: Attempt) -> bool:
    """Return whether a request starts where a rollback sent the last one back to, or below."""
    start, most = attempt.request.start_seqno, last.request.rollback_seqno
    return start is not None and most is not None and start <= most


def _places(attempt: Attempt) -> tuple[Hashable, Hashable]:
    """Return the stream that a request is for, and what it is for whatever the connection and the stream id."""
    request, stream = attempt
    collections = None if request.collections is None else tuple(sorted(request.collections))
    here = (stream.connection.number, stream.vbucket, stream.stream_id)
    return here, (stream.vbucket, collections, request.scope, request.end_seqno)
