"""Resume: what a client should have sent instead of a request that was rolled back, or has to send now.

A server grants what lies within the branch of its uuid: the snapshot has to end where that branch ends, at the next
newer entry of the failover log, or before. So the client asks from the last seqno that it shares with the server's
history, with the uuid of the branch in which it got that, and with nothing of a snapshot that it does not have whole.
"""

from collections.abc import Sequence
from typing import NamedTuple

from dcpdump.spec.names import FROM_LATEST, IGNORE_PURGED, STRICT_UUID
from dcpdump.streams.clause import Clause, asked, held
from dcpdump.streams.consumer import alike, same
from dcpdump.streams.facts import Entry
from dcpdump.streams.failover_logs import moment
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.request import Request
from dcpdump.streams.rollback import Rollback
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import seqno


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
