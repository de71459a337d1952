"""Rollbacks: equal ones of a consumer as one, with what explains them, and what the consumer did then."""

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import NamedTuple

from dcpdump.spec.names import FROM_LATEST, IGNORE_PURGED, STRICT_UUID
from dcpdump.spec.statuses import ROLLBACK, SUCCESS
from dcpdump.startup import dataclass
from dcpdump.streams.causes import Reason, Unknown
from dcpdump.streams.consumer import alike, same
from dcpdump.streams.explanation import Clause, Explanation, asked, doubt, explain, held
from dcpdump.streams.facts import Entry
from dcpdump.streams.failover_logs import Moment, moment
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.losses import Losses
from dcpdump.streams.request import Request
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import seqno

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


# -- resume -------------------------------------------------------------------------------------------
# What a client should have sent instead of a request that was rolled back, or has to send now.
#
# A server grants what lies within the branch of its uuid: the snapshot has to end where that branch ends, at the next
# newer entry of the failover log, or before. So the client asks from the last seqno that it shares with the server's
# history, with the uuid of the branch in which it got that, and with nothing of a snapshot that it does not have whole.


class Resume(NamedTuple):
    """The numbers of a request that would go on, and why these."""

    start: int
    snap_start: int
    snap_end: int
    uuid: int | None  #: None: it is not known
    flags: int
    purge_seqno: int | None  #: None: none is to be sent
    why: str

    @property
    def text(self) -> str:
        """Return the numbers in words."""
        uuid = "?" if self.uuid is None else f"0x{self.uuid:x}"
        words = [f"start {self.start}", f"snapshot {self.snap_start}..{self.snap_end}", f"uuid {uuid}"]
        words += [] if self.purge_seqno is None else [f"purge_seqno {self.purge_seqno}"]
        return ", ".join([*words, f"flags 0x{self.flags:x}"])


def resume(rollback: Rollback, ledger: Ledger) -> Resume | None:
    """Return what a client should have sent instead of a request that was rolled back; None where that is not known.

    The ledger is closed.
    """
    (request, stream), explanation = rollback.attempts[-1], rollback.explanation
    target, wanted = request.rollback_seqno, asked(request)
    if target is None or wanted is None:
        return None
    flags, log = request.bits, _log(rollback, ledger)
    if explanation.clause is Clause.PURGE:
        sent = held(wanted, log) if log else None
        if sent is None or sent.clause is None:
            return _without_purged(rollback, wanted.low, wanted.high)
        target, flags = sent.target or 0, flags | IGNORE_PURGED  # without the purge it would go there
    branch = received_from(request, stream, ledger)
    if branch is not None and branch != request.vbucket_uuid and _stands(request, branch, log):
        text = f"what it has up to {request.start} came from branch 0x{branch:x}"
        return Resume(request.start, request.start, request.start, branch, flags, request.purge_seqno, text)
    if not target:
        flags = request.bits & ~(FROM_LATEST | STRICT_UUID)
        return Resume(0, 0, 0, 0, flags, None, "the server shares nothing of its history: all is sent again")
    # whose own uuid is not in the failover log is sent back to 0, so to go on from there it serves too
    uuid = next((entry.uuid for entry in log if entry.seqno <= target), request.vbucket_uuid)
    text = f"the server's history is the client's up to {target}: it takes back what it has above that"
    return Resume(target, target, target, uuid, flags & ~FROM_LATEST, request.purge_seqno, text)


def _without_purged(rollback: Rollback, low: int, high: int) -> Resume:
    """Return how a client goes on that a purge of deletions has overtaken, without those deletions."""
    request, purge = rollback.attempts[-1].request, rollback.explanation.purge
    flags = request.bits | IGNORE_PURGED
    known = "" if purge is None else f" {purge.seqno}"
    text = f"flag 0x80 (ignore-purged-tombstones) does without the deletions that were purged; or purge_seqno{known} in"
    text += " the request's JSON, by a client that knows of that purge from a marker; else all is sent again from 0"
    return Resume(request.start, low, high, request.vbucket_uuid, flags, request.purge_seqno, text)


def received_from(request: Request, stream: Stream, ledger: Ledger) -> int | None:
    """Return the uuid of the branch in which a client got the seqno that it asks from; None where that is not known."""
    connection, start = stream.connection, request.start
    if not start:
        return None
    found: list[tuple[int, int]] = []
    for each in ledger.streams:
        grant, log = each.grant, each.failover_log
        if each.vbucket != stream.vbucket or grant is None or not log or grant.frame >= request.frame:
            continue
        if not (same(each.connection, connection) or alike(each.connection, connection)):
            continue
        if log[0].seqno <= start <= (each.high_seqno or 0) and grant.start < start:
            found.append((grant.frame, log[0].uuid))
    return max(found)[1] if found else None


def _stands(request: Request, uuid: int, log: Sequence[Entry]) -> bool:
    """Return whether a failover log has a request stand with another uuid, from its start and nothing above that."""
    wanted = asked(request)
    if wanted is None:
        return False
    mended = wanted._replace(uuid=uuid, low=request.start, high=request.start)
    return any(entry.uuid == uuid for entry in log) and held(mended, log).clause is None


def _log(rollback: Rollback, ledger: Ledger) -> tuple[Entry, ...]:
    """Return the failover log that the server had: the first captured after its answer, else the last before."""
    (request, stream), found = rollback.attempts[-1], rollback.explanation.log
    answered = moment(request.answered_ns, request.answer_frame or request.frame)
    before, after = ledger.logs.around(stream.connection, stream.vbucket, answered)
    logs = (each.entries for each in (after, found, before) if each is not None)
    return next((entries for entries in logs if entries), ())


def branch_of(resumed: Resume | None, request: Request) -> str:
    """Return that a client resumed with another uuid than that of what it has, in words; empty where it did not."""
    if resumed is None or resumed.uuid in (None, 0, request.vbucket_uuid) or resumed.start != request.start:
        return ""
    first = (request.rollback_seqno or 0) + 1
    asked_with = "?" if request.vbucket_uuid is None else f"0x{request.vbucket_uuid:x}"
    received = f"{first}..{seqno(request.start)} came from branch 0x{resumed.uuid:x}, the newest of the failover log"
    return f"{received}, and it resumes with {asked_with}: it should ask with 0x{resumed.uuid:x}"
