"""Rollbacks: by which clause a request was sent back, what the consumer did then, and what it should ask for.

What the server knew is taken from the capture: the newest failover log of that server and bucket up to the request,
or the first one after it; bounds of the purge seqno, from snapshot markers; and the high seqnos that it reported.
The first clause that holds for certain explains a rollback; where none does, the only one that may hold.
"""

from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple

from dcpdump.spec.names import FROM_LATEST, IGNORE_PURGED, STRICT_UUID
from dcpdump.spec.statuses import ROLLBACK, SUCCESS
from dcpdump.startup import dataclass
from dcpdump.streams.causes import CARVED, Reason, Unknown
from dcpdump.streams.clients import FURTHER, Chronology, Clients, indexed, place_of
from dcpdump.streams.failover_logs import Log, Moment, Purge, Purged, moment
from dcpdump.streams.frame_event import NEVER, Entry, stream_key
from dcpdump.streams.identity import same, same_by_name, same_or_alike
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.request import Request
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import seqno, span, times

# -- clauses ------------------------------------------------------------------------------------------
# By what a server sends a stream request back, and to which seqno, held against what is known of it.
#
# In this order. A request from 0 stands, unless it insists on its uuid. One below the purge seqno goes to 0, unless it
# does without purged deletions, the client knows of that very purge, or none of its collections changed since. One with
# a uuid that the failover log does not have goes to 0. Else the client's snapshot has to end where the server's history
# of that uuid ends, or before: at the next failover, or at the high seqno; or the client goes back to that seqno, or to
# the start of its snapshot where that is lower.


class RollbackReason(Enum):
    """What sends a request back. ``START``: nothing does, a request from 0 is never rolled back."""

    START = "start"
    PURGE = "purge"
    UUID = "uuid"
    SNAPSHOT = "snapshot"
    UNKNOWN = "unknown"


class AskedStream(NamedTuple):
    """The numbers of a request that decide, as the server takes them.

    A client that has nothing of its snapshot is at the end of the one before; one that has all of it is at its end.
    """

    start: int
    uuid: int
    low: int  #: of the snapshot
    high: int
    strict: bool = False  #: the uuid has to fit at 0 too
    latest: bool = False  #: the server puts its high seqno in place of start and snapshot
    keeps: bool = False  #: it does without purged deletions
    purge_seqno: int | None = None  #: that the client knows of

    @property
    def never_rolled_back(self) -> bool:
        """Return whether it is never sent back."""
        if self.latest:
            return not self.uuid
        return self.start == 0 and not (self.strict and self.uuid)

    @property
    def by_flag(self) -> str:
        """Return in words why its uuid counts at 0; empty where it does not, or counts anyway."""
        return ", which counts at 0 by flag 0x20 (strict-vbuuid)" if self.strict and not self.start else ""

    def at(self, high_seqno: int) -> "AskedStream":
        """Return it as the server takes it when its high seqno is that."""
        return self._replace(start=high_seqno, low=high_seqno, high=high_seqno) if self.latest else self


def asked(request: Request) -> AskedStream | None:
    """Return the numbers of a request; None where one was not captured."""
    start, uuid = request.start_seqno, request.vbucket_uuid
    low, high = request.snap_start_seqno, request.snap_end_seqno
    if start is None or uuid is None or low is None or high is None:
        return None
    flags = request.bits
    if start == low:
        high = start
    elif start == high:
        low = start
    strict, latest, keeps = bool(flags & STRICT_UUID), bool(flags & FROM_LATEST), bool(flags & IGNORE_PURGED)
    return AskedStream(start, uuid, low, high, strict, latest, keeps, request.purge_seqno)


class Below(Enum):
    """Whether a request starts below the purge seqno, as far as that is known."""

    NO = 0
    MAYBE = 1
    YES = 2


def below(request: AskedStream, purged: Purged) -> Below:
    """Return whether a request starts below a purge seqno of which bounds are known."""
    least = purged.least.seqno if purged.least is not None else 0
    most = purged.most.seqno if purged.most is not None else None
    if request.start == 0 or request.latest or request.keeps or (most is not None and request.start >= most):
        return Below.NO
    if request.start >= least:
        return Below.MAYBE
    theirs = request.purge_seqno
    if theirs is None or theirs < least or (most is not None and theirs > most):
        return Below.YES
    return Below.NO if theirs == least == most else Below.MAYBE


class LogAnswer(NamedTuple):
    """What a failover log says of a request."""

    clause: RollbackReason | None  #: None: it stands, or the high seqno decides
    target: int | None = None  #: to which the clause sends back
    next: Entry | None = None  #: the failover that ended the branch of its uuid; None: it is the newest branch


def compared(request: AskedStream, log: Sequence[Entry]) -> LogAnswer:
    """Return what a failover log says of a request. Of a uuid that is there twice the older entry counts."""
    at = max((at for at, entry in enumerate(log) if entry.uuid == request.uuid), default=None)
    if at is None:
        return LogAnswer(RollbackReason.UUID, 0)
    if at == 0:
        return LogAnswer(None)
    failover = log[at - 1]
    if request.high <= failover.seqno:
        return LogAnswer(None, None, failover)
    return LogAnswer(RollbackReason.SNAPSHOT, min(request.low, failover.seqno), failover)


def beyond_the_high_seqno(request: AskedStream, target: int, least: int) -> bool:
    """Return whether a high seqno that is not below ``least`` can send a request of the newest branch to a seqno."""
    if target == request.low:
        return max(request.low, least) < request.high
    return max(1, least) <= target < request.low  # a server without a seqno has not given its uuid to anyone


def overdue(request: Request, log: Sequence[Entry], purge_seqno: int | None = None) -> RollbackReason | None:
    """Return the clause by which a request that was granted had to be rolled back; None where nothing is sure.

    ``log``: the failover log that the grant brought. ``purge_seqno``: the vbucket's at that time, or one that it had
    before, if it is known; not for streams of some collections only, whose collections may not have changed since.
    """
    wanted = asked(request)
    inside = request.snap_start <= request.start <= (request.snap_end_seqno or 0)
    if wanted is None or not log or not (inside or wanted.latest):  # else it is refused before anything is compared
        return None
    wanted = wanted.at(log[0].seqno)  # the high seqno is not below that
    if wanted.never_rolled_back or (wanted.start == 0 and not wanted.strict):
        return None
    purged = Purged(None if purge_seqno is None else Purge(0, purge_seqno), None)
    return RollbackReason.PURGE if below(wanted, purged) is Below.YES else compared(wanted, log).clause


class WhyUnknown(Enum):
    """Why no clause is named."""

    REQUEST = "request_not_certain"
    NUMBERS = "numbers_not_captured"
    LOG = "log_not_captured"
    SEVERAL = "several_clauses"
    NONE = "no_clause"


class Wrong(Enum):
    """How certain it is that a rollback goes elsewhere than the protocol says."""

    SURELY = "surely"
    PROBABLY = "probably"  #: the failover log may have been another then, or the client only gets changes again


class Explanation(NamedTuple):
    """Why a request was rolled back. ``cause``: why the clause is unknown, where it is."""

    clause: RollbackReason
    text: str
    expected: int | None = None  #: to which the clause sends back, where all that it needs was captured
    log: Log | None = None  #: the failover log that was used
    cause: WhyUnknown | None = None
    purge: Purge | None = None  #: the purge seqno that was used
    wrong: Wrong | None = None  #: it should have gone elsewhere, or nowhere


class _Case(NamedTuple):
    """A rollback, and what is known of its server."""

    request: Request
    asked: AskedStream
    target: int
    purged: Purged
    below: Below  #: whether the start is below the purge seqno


class _Fit(NamedTuple):
    """A failover log that explains a rollback, and by which clause."""

    log: Log
    clause: RollbackReason
    compared: LogAnswer


def explain(request: Request, stream: Stream, ledger: Ledger) -> Explanation:
    """Return the clause by which a request was rolled back. The ledger is closed."""
    rivals = doubt(request, stream)
    if rivals:
        text = f"it is not certain that the answer is to this request: {rivals}"
        return Explanation(RollbackReason.UNKNOWN, text, cause=WhyUnknown.REQUEST)
    wanted, target = asked(request), request.rollback_seqno
    if wanted is None or target is None:
        text = "the numbers of the request or of its answer were not captured"
        return Explanation(RollbackReason.UNKNOWN, text, cause=WhyUnknown.NUMBERS)
    logs, connection = ledger.logs, stream.connection
    when = moment(request.ts_ns, request.frame)
    answered = moment(request.answered_ns, request.answer_frame or 0)
    around = logs.around(connection, stream.vbucket, when)
    known = [log for log in around if log is not None and log.entries]
    if wanted.never_rolled_back:
        return _never(wanted, known[0] if known else None)
    purged = logs.purged(connection, stream.vbucket, when, answered)
    sure = connection.setup.has_collections is True and not request.filtered  # no filter can exempt it from that clause
    case = _Case(request, wanted, target, purged, below(wanted, purged) if target == 0 else Below.NO)
    if case.below is Below.YES and sure:
        return _purge_seqno(case, known[0] if known else None)
    if known:
        reached = logs.reached(connection, stream.vbucket, when, wanted.uuid)
        possible = _possible(known, wanted.uuid)
        fits = [fit for log in possible if (fit := _fit(case, log, reached)) is not None]
        found = _judged(case, fits, possible[0])
    else:
        found = _without_log(case)
    return found._replace(wrong=_wrong(case, known, found))


def doubt(request: Request, stream: Stream) -> str:
    """Return why an answer may be to another request than the one that it was paired with; empty where it cannot.

    Where only answers were lost, no other request was sent: the next one would have been captured.
    """
    if request.ambiguous:
        return "others with its opaque were sent before it, and not all was captured"
    requests_lost = stream.connection.sides[1 - (stream.connection.producer_direction or 0)].losses
    if request.doubtful and requests_lost:
        if stream.connection.carved:
            return CARVED
        return "bytes were lost while it waited, maybe with a later request that has its opaque"
    return ""


def written(entries: tuple[Entry, ...]) -> str:
    """Return a failover log as text, newest entry first."""
    return f"[{', '.join(f'0x{entry.uuid:x}@{entry.seqno}' for entry in entries)}]"


def _possible(known: list[Log], uuid: int) -> list[Log]:
    """Return the failover logs that the server may have had: the newest up to the request, the first one after it.

    A log that the client's uuid entered only later is older than the request.
    """
    first, last = known[0], known[-1]
    if first.entries == last.entries:
        return [first]
    entered = _has_uuid(last, uuid) and not _has_uuid(first, uuid)
    return [last] if entered else known


def _has_uuid(log: Log, uuid: int) -> bool:
    return any(entry.uuid == uuid for entry in log.entries)


# -- which clause ---------------------------------------------------------------------------------------------


def _fit(case: _Case, log: Log, reached: int) -> _Fit | None:
    """Return how a failover log explains a rollback; None where it does not."""
    least = log.entries[0].seqno
    wanted = case.asked.at(least + 1)  # one that asks from the high seqno and is sent back is beyond something
    found = compared(wanted, log.entries)
    if found.clause is not None and (
        found.target == case.target or (found.clause is RollbackReason.SNAPSHOT and case.target)
    ):
        return _Fit(log, found.clause, found)
    newest = found.clause is None and found.next is None and not wanted.latest
    if newest and beyond_the_high_seqno(wanted, case.target, max(least, reached)):
        return _Fit(log, RollbackReason.SNAPSHOT, found)
    return None


def _judged(case: _Case, fits: list[_Fit], used: Log) -> Explanation:
    """Name the clause on which all that is known agrees."""
    if not fits:
        return _by_elimination(case, used)
    exact = [fit for fit in fits if fit.compared.target == case.target]
    best = (exact or fits)[0]
    if any(fit.clause is not best.clause for fit in fits):
        text = f"the failover log was {written(fits[0].log.entries)} before and {written(fits[-1].log.entries)} later: "
        text += "by the first " + "; by the other ".join(_reason(case, fit) for fit in fits)
        return Explanation(RollbackReason.UNKNOWN, text, case.target, best.log, WhyUnknown.SEVERAL)
    text = _reason(case, best)
    if best.compared.clause is None and case.below is not Below.NO:
        text += f"; or {_below(case, 'is')}{_odd(case.request)}"
        return Explanation(RollbackReason.UNKNOWN, text, case.target, best.log, WhyUnknown.SEVERAL)
    text += _odd(case.request)
    if best.compared.target not in (None, case.target):
        text += f"; but that gives {best.compared.target}, not {case.target}"
    excluded = case.purged.most if best.compared.clause is None and case.target == 0 else None
    return Explanation(best.clause, text, best.compared.target, best.log, purge=excluded)


def _by_elimination(case: _Case, log: Log) -> Explanation:
    """Name the purge clause where the log alone would let the request stand, or send it elsewhere."""
    found = compared(case.asked.at(log.entries[0].seqno + 1), log.entries)
    if case.below is not Below.NO:
        text = f"{_fitting(found)}, so {_below(case, 'must be')}{_odd(case.request)}"
        return Explanation(RollbackReason.PURGE, text, 0, log, purge=case.purged.least or case.purged.most)
    if found.target is not None:
        reason = _reason(case, _Fit(log, RollbackReason.UNKNOWN, found))
        why = f"{reason}, and that gives {found.target}, not {case.target}"
    elif found.next is not None:
        why = f"the client has {_has(case.asked)}, and the next failover happened at seqno {found.next.seqno}"
    else:
        why = "the uuid is the newest of the failover log"
    return Explanation(
        RollbackReason.UNKNOWN, f"nothing explains it: {why}{_odd(case.request)}", found.target, log, WhyUnknown.NONE
    )


def _wrong(case: _Case, known: list[Log], found: Explanation) -> Wrong | None:
    """Return whether a rollback goes elsewhere than the protocol says, as far as the failover log is known.

    No log sends a client back to above the start of its snapshot. Else the log has to be known; it was the same all
    the time where it was captured before the request and after it. Who goes back too far only gets changes again.
    """
    wanted, target, expected = case.asked, case.target, found.expected
    if target > wanted.low and not wanted.latest:
        return Wrong.SURELY
    if not known or any(log.entries != known[0].entries for log in known):
        return None
    same = len(known) > 1
    if expected is not None and target > expected:
        return Wrong.SURELY if same else Wrong.PROBABLY
    agrees = found.cause is not WhyUnknown.NONE and expected in (None, target)
    return Wrong.PROBABLY if same and not agrees else None


def _never(wanted: AskedStream, log: Log | None) -> Explanation:
    what = "the latest seqno without a uuid" if wanted.latest else "0"
    text = f"a request from {what} is never rolled back: the server breaks the protocol"
    return Explanation(RollbackReason.START, text, None, log, wrong=Wrong.SURELY)


def _purge_seqno(case: _Case, log: Log | None) -> Explanation:
    least = case.purged.least
    text = f"start {case.asked.start} is below the purge seqno {least.seqno if least else '?'}: "
    return Explanation(RollbackReason.PURGE, text + "the client may miss deletions", 0, log, purge=least)


def _without_log(case: _Case) -> Explanation:
    wanted, target = case.asked, case.target
    text = "the failover log was not captured; "
    if wanted.latest or 0 < target < wanted.low:
        text += f"the producer says that the histories diverge after seqno {target}"
    elif target == 0:
        reasons = [f"the uuid is not in it{wanted.by_flag}"]
        if case.below is not Below.NO:
            reasons.append(_below(case, "is", known=False))
        if wanted.low == 0 < wanted.high:
            reasons.append(f"the producer does not have all of the snapshot {_snapshot(wanted)}")
        elif wanted.low:
            reasons.append("the histories diverge after seqno 0")
        text += f"the producer says that {reasons[0]}" if len(reasons) == 1 else ", or ".join(reasons)
    elif target == wanted.low:
        text += f"the producer says that it does not have all of the snapshot {_snapshot(wanted)}"
    else:
        text += f"nothing explains a rollback to {target}, above the snapshot's start"
        return Explanation(RollbackReason.UNKNOWN, text + _odd(case.request), None, None, WhyUnknown.NONE)
    return Explanation(RollbackReason.UNKNOWN, text + _odd(case.request), None, None, WhyUnknown.LOG)


# -- in words -------------------------------------------------------------------------------------------------


def _reason(case: _Case, fit: _Fit) -> str:
    """Say how a failover log sends a request back."""
    wanted, entries, failover = case.asked, fit.log.entries, fit.compared.next
    if fit.compared.clause is RollbackReason.UUID:
        return f"uuid 0x{wanted.uuid:x} is not in the failover log {written(entries)}{wanted.by_flag}"
    if failover is None:
        if case.target == wanted.low:
            text = f"the client has {_has(wanted)}, of which the server does not have all, so it must go back to"
            return f"the uuid is the newest of the failover log; {text} the snapshot's start, {case.target}"
        text = f"the client has {_has(wanted)}, the server has {case.target}, so it must go back to {case.target}"
        return f"the uuid is the newest of the failover log; {text}"
    text = f"a failover to 0x{failover.uuid:x} happened at seqno {failover.seqno}; "
    if wanted.latest:
        text += f"the client asks from the latest seqno with uuid 0x{wanted.uuid:x}, so it must go back to"
    else:
        text += f"the client has {_has(wanted)}, so it must go back to"
    at = fit.compared.target
    return f"{text} {at}" if at == failover.seqno else f"{text} the snapshot's start, {at}"


def _has(wanted: AskedStream) -> str:
    inside = wanted.low < wanted.high
    return f"{wanted.start}" + (f" of the snapshot {_snapshot(wanted)}" if inside else "")


def _snapshot(wanted: AskedStream) -> str:
    return f"{wanted.low}..{seqno(wanted.high)}"


def _fitting(found: LogAnswer) -> str:
    """Say what the failover log alone would do."""
    if found.target is not None:
        return f"by the failover log alone it would go back to {found.target}"
    return "uuid and snapshot fit the failover log" if found.next else "the uuid is the newest of the failover log"


def _below(case: _Case, verb: str, *, known: bool = True) -> str:
    """Say that a request starts below the purge seqno, and what is known of that."""
    least, most = case.purged
    text = f"start {case.asked.start} {verb} below the purge seqno"
    if case.below is Below.YES and least is not None:
        return f"{text} {least.seqno}" + ", and its collections changed since" * case.request.filtered
    bounds = [f"{least.seqno} before"] if least is not None else []
    bounds += [f"{most.seqno} later"] if most is not None else []
    if bounds:
        return f"{text}, which was {' and '.join(bounds)}"
    return f"{text}, which was not captured" if known else text


def _odd(request: Request) -> str:
    """Say what is odd about a request in itself."""
    low, start, high = request.snap_start_seqno, request.start_seqno, request.snap_end_seqno
    if high == NEVER:
        return "; also its snapshot end is 2^64-1"
    if low is not None and start is not None and high is not None and not low <= start <= high:
        return f"; also its start {start} is outside its snapshot {low}..{high}"
    return ""


# -- equal rollbacks of a consumer as one, and how it asked next --------------------------------------

#: As many equal rollbacks make a loop, and one more, whatever was granted in between.
LOOP = 3


class Attempt(NamedTuple):
    """A stream request, and the stream that it is of."""

    request: Request
    stream: Stream


@dataclass(slots=True)
class Rollback:
    """A rollback, and each time that a consumer got the same one, in the order of time.

    Of a consumer that goes on asking with a uuid by which it is sent back, all are the same one: it asks from further
    on each time, as it was granted what follows in between.
    """

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
        return _count(self.attempts)

    @property
    def is_loop(self) -> bool:
        """Return whether client and server repeat it without an end."""
        return self.count > LOOP

    @property
    def often(self) -> str:
        """Return how often it was, and for how long, in words."""
        return f"{'at least ' * self.least}{times(self.count)} in {span(self.lasted_ns)}"

    @property
    def asked_again(self) -> str:
        """Return what was requested each time, in words."""
        starts = sorted({each.start for each in self.requests})
        if len(starts) == 1:
            return f"from {seqno(self.first.start_seqno)}"
        return f"with uuid 0x{self.first.vbucket_uuid or 0:x}, from {starts[0]} to {starts[-1]},"

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


def _count(attempts: Iterable[Attempt]) -> int:
    return sum(1 + each.request.repeats for each in attempts)


def find_rollbacks(ledger: Ledger) -> list[Rollback]:
    """Return all rollbacks of a ledger that is closed, equal ones of a consumer and vbucket as one."""
    found: list[list[Attempt]] = []
    by_numbers: dict[Hashable, list[list[Attempt]]] = {}
    crowded: set[Hashable] = set()
    for stream in ledger.streams:
        for request in stream.requests.rolled_back:
            attempt = Attempt(request, stream)
            numbers = _same(attempt)
            groups = by_numbers.setdefault(numbers, [])
            theirs = (each for each in groups[-FURTHER:] if same(each[0].stream.connection, stream.connection))
            equal = next(theirs, None)
            if equal is None:
                if len(groups) >= FURTHER:
                    crowded.add(numbers)
                equal = []
                groups.append(equal)
                found.append(equal)
            equal.append(attempt)
    if not found:
        return []
    every = [Attempt(request, stream) for stream in ledger.streams for request in stream.requests]
    requests, grants = _Attempts(every), _Attempts(each for each in every if each.request.status == SUCCESS)
    clients, omitted, out = Clients(ledger), _omitted(ledger), []
    # by the first of equal ones whose request is certain, if any is
    clearest = [min(attempts, key=lambda each: bool(doubt(*each))) for attempts in found]
    for attempts, explanation in _joined(
        [(each, explain(*one, ledger)) for each, one in zip(found, clearest, strict=True)]
    ):
        attempts.sort(key=_asked)
        last = attempts[-1]
        (again, more), (granted, more_granted) = requests.after(last), grants.after(last)
        lost = None if again is not None else clients.lost_since(last.stream.connection, last.request.answered_ns)
        key, target = _vbucket_key(last.stream), last.request.rollback_seqno
        behind = max(omitted.get((key, target), 0), omitted.get((key, None), 0))
        if behind > last.request.frame or (again is not None and again.request.after_omitted):
            again, granted = None, None if behind > last.request.frame else granted
            lost = Unknown(Reason.TOO_MANY, "of the many requests since not all were kept")
        elif lost is None and granted is None and (more if again is None else more_granted):
            text = f"over {FURTHER} requests since may be its consumer's, not all were compared"
            lost = Unknown(Reason.TOO_MANY, text)
        least = bool(behind) or _same(last) in crowded
        out.append(Rollback(attempts, explanation, again, granted, lost, least))
    return out


#: Clauses that send a client back whenever it asks with the same uuid.
_OF_UUIDS = (RollbackReason.SNAPSHOT, RollbackReason.UUID)
_Explained = tuple[list[Attempt], Explanation]


def _joined(found: list[_Explained]) -> list[_Explained]:
    """Return equal rollbacks, and those of one consumer, uuid and seqno as one where together they are a loop.

    The reason has to be a uuid or a snapshot, as long as streams were granted in between; of a stream that was not, it
    need not be known.
    """
    chains: dict[Hashable, list[_Explained]] = {}
    for each in found:
        (attempts, explanation), (request, stream) = each, each[0][0]
        ungranted = None if explanation.clause in _OF_UUIDS else stream
        if ungranted and _count(attempts) > LOOP:
            continue  # a loop of its own
        key = _vbucket_key(stream), request.vbucket_uuid, request.rollback_seqno, ungranted
        chains.setdefault(key, []).append(each)
    gone: set[int] = set()
    for chain in chains.values():
        (first, _), mine = chain[0], chain[0][0][0].stream.connection
        others = [each for each, _ in chain[1:] if same(each[0].stream.connection, mine)]
        if others and sum(map(_count, (first, *others))) > LOOP:
            gone.update(map(id, others))
            first += [attempt for group in others for attempt in group]
    return [each for each in found if id(each[0]) not in gone]


def begins_loop(request: Request, target: int | None, stream: Stream) -> bool:
    """Return whether one more rollback of a request, to a seqno, is the first that makes a loop on its connection."""
    count, equal = 0, (*request.numbers, target)
    at: Stream | None = stream
    while at is not None and count <= LOOP:
        for each in reversed(at.requests.rolled_back):
            if each.rollback != equal:
                return count == LOOP
            count += 1 + each.repeats
        at = at.before
    return count == LOOP


def _omitted(ledger: Ledger) -> dict[Hashable, int]:
    """Return where rollbacks were counted alone, by place and seqno, and the last request behind them; None: any."""
    out: dict[Hashable, int] = {}
    for stream in ledger.streams:
        targets = [target for status, target in stream.requests.omitted or () if status == ROLLBACK]
        behind = max((each.frame for each in stream.requests if each.after_omitted), default=0) if targets else 0
        for target in targets:
            out[_vbucket_key(stream), target] = max(out.get((_vbucket_key(stream), target), 0), behind)
    return out


def _vbucket_key(stream: Stream) -> Hashable:
    return stream.connection.server_address or stream.connection.number, stream.vbucket, stream.stream_id


def _same(attempt: Attempt) -> Hashable:
    """Return the key of equal rollbacks, the same for any consumer."""
    return _vbucket_key(attempt.stream), attempt.request.rollback


def _asked(attempt: Attempt) -> Moment:
    return moment(attempt.request.ts_ns, attempt.request.frame)


class _Attempts:
    """Requests in the order of time, by what they may be a retry of."""

    def __init__(self, attempts: Iterable[Attempt]) -> None:
        known = indexed(attempts, _retry_keys)
        self._known = {key: Chronology((_asked(each), each) for each in group) for key, group in known.items()}

    def after(self, last: Attempt) -> tuple[Attempt | None, bool]:
        """Return the first one after another: on its stream, or for the same from no higher than where it was sent.

        The second result is whether more follow than are looked through.
        """
        request, connection, most = last.request, last.stream.connection, last.request.rollback_seqno
        when = moment(request.answered_ns, request.answer_frame or 0)
        here, anywhere = (self._known.get(key, Chronology()) for key in _retry_keys(last))
        lower = (each for each in anywhere.after(when) if None not in (most, each.request.start_seqno))
        retries = (each for each in lower if each.request.start <= (most or 0))
        retries = (each for each in retries if same(each.stream.connection, connection))
        found = min([*here.after(when)[:1], *islice(retries, 1)], key=_asked, default=None)
        return found, here.has_more_after(when) or anywhere.has_more_after(when)


def _retry_keys(attempt: Attempt) -> tuple[Hashable, Hashable]:
    """Return the key of a request's stream, and the key without connection and stream id."""
    request, stream = attempt
    collections = None if request.collections is None else tuple(sorted(request.collections))
    return place_of(stream.connection, stream), (stream.vbucket, collections, request.scope, request.end_seqno)


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
    """Return what a client should have sent instead of a request that was rolled back; None where that is not known."""
    (request, stream), explanation = rollback.attempts[-1], rollback.explanation
    target, wanted = request.rollback_seqno, asked(request)
    if target is None or wanted is None:
        return None
    flags, log = request.bits, _log(rollback, ledger)
    if explanation.clause is RollbackReason.PURGE:
        sent = compared(wanted, log) if log else None
        if sent is None or sent.clause is None:
            return _without_purged(rollback, wanted.low, wanted.high)
        target, flags = sent.target or 0, flags | IGNORE_PURGED  # without the purge it would go there
    branch = received_from(request, stream, ledger)
    if branch is not None and branch != request.vbucket_uuid and _is_granted_with(request, branch, log):
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
        if not same_or_alike(each.connection, connection):
            continue
        if log[0].seqno <= start <= (each.seqnos.high or 0) and grant.start < start:
            found.append((grant.frame, log[0].uuid))
    return max(found)[1] if found else None


def _is_granted_with(request: Request, uuid: int, log: Sequence[Entry]) -> bool:
    """Return whether a failover log has a request stand with another uuid, from its start and nothing above that."""
    wanted, start = asked(request), request.start
    return wanted is not None and compared(wanted._replace(uuid=uuid, low=start, high=start), log).clause is None


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


# -- revocations --------------------------------------------------------------------------------------
# Which changes a client had to take back, as the server's history goes on without them.


class Revocations:
    """The rollbacks to another history of a ledger that is closed, by vbucket and stream id."""

    def __init__(self, ledger: Ledger) -> None:
        found = [
            Attempt(each, stream)
            for stream in ledger.streams  # nothing comes between equal rollbacks of one
            for each in {each.rollback: each for each in reversed(stream.requests.rolled_back)}.values()
            if _is_of_history(each, stream, ledger)
        ]
        found.sort(key=lambda each: each.request.answer_frame or 0)
        self._rollbacks = indexed(found, lambda each: (stream_key(each.stream.vbucket, each.stream.stream_id),))

    def of(self, stream: Stream, frame: int, seqno: int) -> Request | None:
        """Return the request whose rollback revoked what a frame of a stream brought; None where none did.

        The client asked for what follows after it, and was sent back to before it. One that was granted from there
        all the same, by an older uuid, has kept it.
        """
        for request, other in self._rollbacks.get(stream_key(stream.vbucket, stream.stream_id), ()):
            later = (request.answer_frame or 0) > frame
            if not later or not (request.rollback_seqno or 0) < seqno <= request.start:
                continue
            granted = other.grant
            kept = granted is not None and granted.start >= seqno
            if not kept and same_by_name(stream.connection, other.connection):
                return request
        return None


def _is_of_history(request: Request, stream: Stream, ledger: Ledger) -> bool:
    """Return whether a client was sent back as the server's history is another, and not for purges alone.

    Those go to 0; to above that only another history sends a client.
    """
    found = explain(request, stream, ledger)
    if found.clause is RollbackReason.UNKNOWN:
        return bool(request.rollback_seqno) and found.cause is not WhyUnknown.REQUEST
    return found.clause in _OF_UUIDS
