"""Rollbacks explained: by which clause a stream request was sent back.

What the server knew is taken from the capture: the newest failover log of that server and bucket up to the request,
or the first one after it; bounds of the purge seqno, from snapshot markers; and the high seqnos that it reported.
The first clause that holds for certain explains a rollback; where none does, the only one that may hold.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from dcpdump.spec.names import FROM_LATEST, IGNORE_PURGED, STRICT_UUID
from dcpdump.streams.facts import NEVER, Entry
from dcpdump.streams.failover_logs import Log, Purge, Purged, moment
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.request import Request
from dcpdump.streams.state import CARVED
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import seqno

# -- clauses ------------------------------------------------------------------------------------------
# By what a server sends a stream request back, and to which seqno, held against what is known of it.
#
# In this order. A request from 0 stands, unless it insists on its uuid. One below the purge seqno goes to 0, unless it
# does without purged deletions, the client knows of that very purge, or none of its collections changed since. One with
# a uuid that the failover log does not have goes to 0. Else the client's snapshot has to end where the server's history
# of that uuid ends, or before: at the next failover, or at the high seqno; or the client goes back to that seqno, or to
# the start of its snapshot where that is lower.


class Clause(Enum):
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
    def stands(self) -> bool:
        """Return whether it is never sent back."""
        if self.latest:
            return not self.uuid
        return self.start == 0 and not (self.strict and self.uuid)

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


class Judged(NamedTuple):
    """A request held against a failover log."""

    clause: Clause | None  #: None: it stands, or the high seqno decides
    target: int | None = None  #: to which the clause sends back
    next: Entry | None = None  #: the failover that ended the branch of its uuid; None: it is the newest branch


def held(request: AskedStream, log: Sequence[Entry]) -> Judged:
    """Return what a failover log says of a request, whose uuid counts where it stands last: it came first there."""
    at = max((at for at, entry in enumerate(log) if entry.uuid == request.uuid), default=None)
    if at is None:
        return Judged(Clause.UUID, 0)
    if at == 0:
        return Judged(None)
    failover = log[at - 1]
    if request.high <= failover.seqno:
        return Judged(None, None, failover)
    return Judged(Clause.SNAPSHOT, min(request.low, failover.seqno), failover)


def beyond_the_high_seqno(request: AskedStream, target: int, least: int) -> bool:
    """Return whether a high seqno that is not below ``least`` can send a request of the newest branch to a seqno."""
    if target == request.low:
        return max(request.low, least) < request.high
    return max(1, least) <= target < request.low  # a server without a seqno has not given its uuid to anyone


def overdue(request: Request, log: Sequence[Entry], purge_seqno: int | None = None) -> Clause | None:
    """Return the clause by which a request that was granted had to be rolled back; None where nothing is sure.

    ``log``: the failover log that the grant brought. ``purge_seqno``: the vbucket's at that time, or one that it had
    before, if it is known; not for streams of some collections only, whose collections may not have changed since.
    """
    wanted = asked(request)
    if wanted is None or not log or not _in_range(request):
        return None
    wanted = wanted.at(log[0].seqno)  # the high seqno is not below that
    if wanted.stands or (wanted.start == 0 and not wanted.strict):
        return None
    purged = Purged(None if purge_seqno is None else Purge(0, purge_seqno), None)
    return Clause.PURGE if below(wanted, purged) is Below.YES else held(wanted, log).clause


def _in_range(request: Request) -> bool:
    """Return whether a request's start is in its snapshot; one that is not is refused before anything is compared."""
    return request.snap_start <= request.start <= (request.snap_end_seqno or 0) or bool(request.bits & FROM_LATEST)


class NoClause(Enum):
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

    clause: Clause
    text: str
    expected: int | None = None  #: to which the clause sends back, where all that it needs was captured
    log: Log | None = None  #: the failover log that was used
    cause: NoClause | None = None
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
    """A failover log that explains a rollback."""

    log: Log
    clause: Clause
    held: Judged


def explain(request: Request, stream: Stream, ledger: Ledger) -> Explanation:
    """Return the clause by which a request was rolled back. The ledger is closed."""
    rivals = doubt(request, stream)
    if rivals:
        text = f"it is not certain that the answer is to this request: {rivals}"
        return Explanation(Clause.UNKNOWN, text, cause=NoClause.REQUEST)
    wanted, target = asked(request), request.rollback_seqno
    if wanted is None or target is None:
        text = "the numbers of the request or of its answer were not captured"
        return Explanation(Clause.UNKNOWN, text, cause=NoClause.NUMBERS)
    logs, connection = ledger.logs, stream.connection
    when = moment(request.ts_ns, request.frame)
    answered = when if request.answer_frame is None else moment(request.answered_ns, request.answer_frame)
    around = logs.around(connection, stream.vbucket, when)
    known = [log for log in around if log is not None and log.entries]
    if wanted.stands:
        return _never(wanted, known[0] if known else None)
    purged = logs.purged(connection, stream.vbucket, when, answered)
    sure = connection.has_collections is True and not request.filtered  # no filter can exempt it from that clause
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
    requests_lost = stream.connection.losses[1 - (stream.connection.feeder or 0)]
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
    found = held(wanted, log.entries)
    if found.clause is not None and (found.target == case.target or (found.clause is Clause.SNAPSHOT and case.target)):
        return _Fit(log, found.clause, found)
    newest = found.clause is None and found.next is None and not wanted.latest
    if newest and beyond_the_high_seqno(wanted, case.target, max(least, reached)):
        return _Fit(log, Clause.SNAPSHOT, found)
    return None


def _judged(case: _Case, fits: list[_Fit], used: Log) -> Explanation:
    """Name the clause on which all that is known agrees."""
    if not fits:
        return _by_elimination(case, used)
    exact = [fit for fit in fits if fit.held.target == case.target]
    best = (exact or fits)[0]
    if any(fit.clause is not best.clause for fit in fits):
        text = f"the failover log was {written(fits[0].log.entries)} before and {written(fits[-1].log.entries)} later: "
        text += "by the first " + "; by the other ".join(_reason(case, fit) for fit in fits)
        return Explanation(Clause.UNKNOWN, text, case.target, best.log, NoClause.SEVERAL)
    text = _reason(case, best)
    if best.held.clause is None and case.below is not Below.NO:
        text += f"; or {_below(case, 'is')}{_odd(case.request)}"
        return Explanation(Clause.UNKNOWN, text, case.target, best.log, NoClause.SEVERAL)
    text += _odd(case.request) + _disagrees(case, best)
    excluded = case.purged.most if best.held.clause is None and case.target == 0 else None
    return Explanation(best.clause, text, best.held.target, best.log, purge=excluded)


def _by_elimination(case: _Case, log: Log) -> Explanation:
    """Name the purge clause where the log alone would let the request stand, or send it elsewhere."""
    found = held(case.asked.at(log.entries[0].seqno + 1), log.entries)
    if case.below is not Below.NO:
        text = f"{_fitting(found)}, so {_below(case, 'must be')}{_odd(case.request)}"
        return Explanation(Clause.PURGE, text, 0, log, purge=case.purged.least or case.purged.most)
    if found.target is not None:
        why = f"{_reason(case, _Fit(log, Clause.UNKNOWN, found))}, and that gives {found.target}, not {case.target}"
    elif found.next is not None:
        why = f"the client has {_has(case.asked)}, and the next failover happened at seqno {found.next.seqno}"
    else:
        why = "the uuid is the newest of the failover log"
    return Explanation(
        Clause.UNKNOWN, f"nothing explains it: {why}{_odd(case.request)}", found.target, log, NoClause.NONE
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
    agrees = found.cause is not NoClause.NONE and expected in (None, target)
    return Wrong.PROBABLY if same and not agrees else None


def _never(wanted: AskedStream, log: Log | None) -> Explanation:
    what = "the latest seqno without a uuid" if wanted.latest else "0"
    text = f"a request from {what} is never rolled back: the server breaks the protocol"
    return Explanation(Clause.START, text, None, log, wrong=Wrong.SURELY)


def _purge_seqno(case: _Case, log: Log | None) -> Explanation:
    least = case.purged.least
    text = f"start {case.asked.start} is below the purge seqno {least.seqno if least else '?'}: "
    return Explanation(Clause.PURGE, text + "the client may miss deletions", 0, log, purge=least)


def _without_log(case: _Case) -> Explanation:
    wanted, target = case.asked, case.target
    text = "the failover log was not captured; "
    if wanted.latest or 0 < target < wanted.low:
        text += f"the producer says that the histories diverge after seqno {target}"
    elif target == 0:
        reasons = ["the uuid is not in it"]
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
        return Explanation(Clause.UNKNOWN, text + _odd(case.request), None, None, NoClause.NONE)
    return Explanation(Clause.UNKNOWN, text + _odd(case.request), None, None, NoClause.LOG)


# -- in words -------------------------------------------------------------------------------------------------


def _reason(case: _Case, fit: _Fit) -> str:
    """Say how a failover log sends a request back."""
    wanted, entries, failover = case.asked, fit.log.entries, fit.held.next
    if fit.held.clause is Clause.UUID:
        strict = ", which counts at 0 by flag 0x20 (strict-vbuuid)" if wanted.strict and not wanted.start else ""
        return f"uuid 0x{wanted.uuid:x} is not in the failover log {written(entries)}{strict}"
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
    at = fit.held.target
    return f"{text} {at}" if at == failover.seqno else f"{text} the snapshot's start, {at}"


def _has(wanted: AskedStream) -> str:
    inside = wanted.low < wanted.high
    return f"{wanted.start}" + (f" of the snapshot {_snapshot(wanted)}" if inside else "")


def _snapshot(wanted: AskedStream) -> str:
    return f"{wanted.low}..{seqno(wanted.high)}"


def _fitting(found: Judged) -> str:
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


def _disagrees(case: _Case, fit: _Fit) -> str:
    expected = fit.held.target
    return "" if expected is None or case.target == expected else f"; but that gives {expected}, not {case.target}"


def _odd(request: Request) -> str:
    """Say what is odd about a request in itself."""
    low, start, high = request.snap_start_seqno, request.start_seqno, request.snap_end_seqno
    if high == NEVER:
        return "; also its snapshot end is 2^64-1"
    if low is not None and start is not None and high is not None and not low <= start <= high:
        return f"; also its start {start} is outside its snapshot {low}..{high}"
    return ""
