"""Clauses: by what a server sends a stream request back, and to which seqno, held against what is known of it.

In this order. A request from 0 stands, unless it insists on its uuid. One below the purge seqno goes to 0, unless it
does without purged deletions, the client knows of that very purge, or none of its collections changed since. One with
a uuid that the failover log does not have goes to 0. Else the client's snapshot has to end where the server's history
of that uuid ends, or before: at the next failover, or at the high seqno; or the client goes back to that seqno, or to
the start of its snapshot where that is lower.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from dcpdump.spec.names import FROM_LATEST, IGNORE_PURGED, STRICT_UUID
from dcpdump.streams.facts import Entry
from dcpdump.streams.failover_logs import Purge, Purged
from dcpdump.streams.request import Request


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
