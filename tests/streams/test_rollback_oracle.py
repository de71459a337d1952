"""Explanations of rollbacks against an independent reading of the protocol's clauses, for random servers and requests.

The oracle knows everything of the server; the explanation only what the conversation shows of it.
"""

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from dcpdump.streams.frame_event import Entry
from dcpdump.streams.request import Request
from dcpdump.streams.rollbacks import (
    Explanation,
    Resume,
    RollbackReason,
    WhyUnknown,
    Wrong,
    find_rollbacks,
    overdue,
    resume,
)
from tests.support.conversation import opening
from tests.support.ledgers import ledger

STRICT, LATEST, IGNORE = 0x20, 0x40, 0x80
OPEN = opening(collections=True, controls="max_marker_version=2.2")
STRANGER = 0x999  #: a uuid of another history

Logged = tuple[tuple[int, int], ...]
Sent = tuple[str, int]


@dataclass(frozen=True)
class Wanted:
    """A stream request."""

    start: int
    uuid: int
    low: int
    high: int
    flags: int = 0
    purge: int = 0  #: that the client knows of; 0: none
    filtered: bool = False


@dataclass(frozen=True)
class Case:
    """A request, the server as it was then, and what of it is in the capture."""

    wanted: Wanted
    before: Logged | None  #: failover logs: captured before the request
    then: Logged
    after: Logged | None  #: brought by the grant of the retry
    high: int
    high_before: int | None
    purge: int
    purge_before: int | None
    purge_after: int | None  #: of the stream that the retry opened
    collection_high: int | None


def needs_rollback(case: Case, log: Logged, purge: int) -> Sent | None:
    """Return by which clause and to which seqno a server sends a request back; None where it stands."""
    wanted = case.wanted
    start, uuid, low, high = wanted.start, wanted.uuid, wanted.low, wanted.high
    if wanted.flags & LATEST:
        start = low = high = case.high
        uuid = uuid or log[0][0]
    if wanted.flags & IGNORE:
        purge = 0
    if start == 0 and (uuid == 0 or not wanted.flags & STRICT):
        return None
    top = case.collection_high
    nothing_missed = top is not None and top <= start < purge and top <= purge
    if 0 < start < purge != wanted.purge and not nothing_missed:
        return "purge", 0
    upper, found = case.high, False
    for place in reversed(range(len(log))):
        if log[place][0] == uuid:
            found = True
            upper = log[place - 1][1] if place else case.high
            break
    if not found:
        return "uuid", 0
    if start == low:
        high = start
    if high <= upper:
        return None
    if start == high:
        low = start
    return "snapshot", upper if upper < low else low


@st.composite
def histories(draw: DrawFn) -> list[Logged]:
    """Failover logs of a vbucket, one after the other: each failover drops the branches above it."""
    logs: list[Logged] = [((1, 0),)]
    for uuid in range(2, draw(st.integers(1, 5)) + 1):
        seqno = draw(st.integers(0, 24))
        logs.append(((uuid, seqno), *(entry for entry in logs[-1] if entry[1] <= seqno)))
    return logs


@st.composite
def cases(draw: DrawFn) -> Case:
    """Return a request, what its server is like, and what is captured of that."""
    logs = draw(histories())
    at = draw(st.integers(0, len(logs) - 1))
    before, after = logs[at], logs[at]
    moved = draw(st.sampled_from(["no", "no", "before", "after"]))
    if moved == "before":
        before = logs[draw(st.integers(0, at))]
    elif moved == "after":
        after = logs[draw(st.integers(at, len(logs) - 1))]
    seen_before, seen_after = draw(st.sampled_from([(True, False), (False, True), (True, True), (False, False)]))
    if before != logs[at]:
        seen_after = True
    if after != logs[at]:
        seen_before = True
    newest = logs[at][0][1]
    high = draw(st.integers(max(1, newest), newest + 20))
    purge = draw(st.integers(0, high))
    start = draw(st.one_of(st.just(0), st.integers(0, high + 5)))
    low = draw(st.one_of(st.just(start), st.just(0), st.integers(0, start)))
    end = draw(st.one_of(st.just(start), st.integers(start, start + 10)))
    uuid = draw(st.sampled_from([0, STRANGER, *(log[0][0] for log in logs[: at + 1])]))
    flags = draw(st.sampled_from([0, 0, 0, STRICT, IGNORE, LATEST, STRICT | LATEST, STRICT | IGNORE]))
    theirs = draw(st.sampled_from([0, 0, purge, max(0, purge - 3), purge + 3]))
    filtered = draw(st.booleans())
    seen_high = draw(st.booleans()) and before == logs[at]
    return Case(
        Wanted(start, uuid, low, end, flags, theirs, filtered),
        before if seen_before else None,
        logs[at],
        after if seen_after else None,
        high,
        draw(st.integers(newest, high)) if seen_high else None,
        purge,
        draw(st.one_of(st.none(), st.integers(0, purge), st.just(purge))),
        draw(st.one_of(st.none(), st.integers(purge, purge + 10), st.just(purge))) if seen_after else None,
        draw(st.integers(0, high)) if filtered else None,
    )


def spoken(case: Case, answer: Sent) -> str:
    """Write the conversation in which a request is rolled back."""
    wanted, text = case.wanted, OPEN
    if case.purge_before:
        text += marker(case.purge_before) + "RX stream-end{vb=5, status=2}\n"
    if case.before is not None:
        text += f"TX get-failover-log{{vb=5}}\nRX get-failover-log-response{{success, {log_of(case.before)}}}\n"
    if case.high_before is not None:
        text += f"TX get-all-vb-seqnos{{opaque=0x77}}\nHEX RX 81480000000000000000000a00000077{0:016x}0005"
        text += f"{case.high_before:016x}\n"
    json = ['"collections":["8"]'] * wanted.filtered + [f'"purge_seqno":"{wanted.purge}"'] * bool(wanted.purge)
    value = f", value={{{','.join(json)}}}" if json else ""
    numbers = f"start-seqno={wanted.start}, vbucket-uuid={wanted.uuid}, snap-start-seqno={wanted.low}"
    text += f"TX stream-request{{vb=5, {numbers}, snap-end-seqno={wanted.high}, flags={wanted.flags:#x}{value}}}\n"
    text += f"RX stream-request-response{{rollback, rollback-seqno={answer[1]}}}\n"
    if case.after is not None:
        text += f"TX stream-request{{vb=5, start-seqno=0{value}}}\n"
        text += f"RX stream-request-response{{success, {log_of(case.after)}}}\n"
        text += marker(case.purge_after) if case.purge_after else ""
    return text


def request_of(wanted: Wanted) -> Request:
    request = Request(1, None, 0, wanted.flags, wanted.start, 99, wanted.uuid, wanted.low, wanted.high)
    request.purge_seqno = wanted.purge or None
    request.collections = ("8",) if wanted.filtered else None
    return request


def marker(purge: int) -> str:
    extra = f"flags=0x6, max-visible-seqno=200, high-completed-seqno=0, purge-seqno={purge}, high-prepared-seqno=0"
    return f"RX snapshot-marker{{vb=5, version=2, start=0, end=200, {extra}}}\n"


def log_of(log: Logged) -> str:
    return "failover-log=" + "|".join(f"{uuid}:{seqno}" for uuid, seqno in log)


def by_the_logs(case: Case, target: int) -> set[str]:
    """Return the clauses that the captured failover logs give for a rollback, whatever was purged."""
    given = (needs_rollback(case, log, 0) for log in (case.before, case.after) if log is not None)
    return {sent[0] for sent in given if sent is not None and sent[1] == target}


def purge_is_certain(case: Case) -> bool:
    """Return whether the capture shows that the start is below the purge seqno, and that no filter exempts it."""
    wanted, least, most = case.wanted, case.purge_before or 0, case.purge_after
    unknown_to_client = not wanted.purge or wanted.purge < least or (most is not None and wanted.purge > most)
    return wanted.start < least and unknown_to_client and not wanted.filtered


def may_be_purge(case: Case) -> bool:
    """Return whether the capture leaves it open that the start is below the purge seqno."""
    wanted, most = case.wanted, case.purge_after
    exempt = wanted.start == 0 or wanted.flags & (IGNORE | LATEST)
    return not exempt and not (most and wanted.start >= most)


def check(case: Case, truth: Sent, why: Explanation) -> None:
    """Hold an explanation against the truth."""
    clause, target = truth
    if why.clause is RollbackReason.UNKNOWN:
        assert why.cause in (WhyUnknown.LOG, WhyUnknown.SEVERAL)
        if why.cause is WhyUnknown.LOG:
            assert case.before is None
            assert case.after is None
        else:
            open_purge = target == 0 and may_be_purge(case)
            assert open_purge or case.before != case.after
    elif why.clause.value != clause:
        assert clause == "purge"
        assert not purge_is_certain(case)
        assert why.clause.value in by_the_logs(case, target)
    if why.clause.value == clause and why.expected is not None:
        assert why.expected == target
    assert why.wrong is None
    if why.log is not None:
        assert tuple(map(tuple, why.log.entries)) in (case.before, case.after)


def check_advice(case: Case, advice: Resume | None) -> None:
    """Hold what a client is told to send against the server: but for what was purged, it is granted."""
    assert advice is not None
    known = case.then in (case.before, case.after) and case.after in (None, case.then)
    if known and case.wanted.high <= case.high:  # else it may have what its server never had, and cannot know
        wanted = Wanted(advice.start, advice.uuid or 0, advice.snap_start, advice.snap_end, advice.flags)
        assert needs_rollback(replace(case, wanted=wanted), case.then, 0) is None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases())
def test_the_explanation_names_the_clause_that_the_server_went_by(case: Case) -> None:
    truth = needs_rollback(case, case.then, case.purge)
    log = [Entry(*entry) for entry in case.then]
    due = overdue(request_of(case.wanted), log, None if case.wanted.filtered else case.purge_before)
    if truth is None:
        event("stands")
        assert due is None
        return
    assert due is None or due.value == truth[0] or (truth[0] == "purge" and due.value in by_the_logs_alone(case))
    kept = ledger(spoken(case, truth))
    (found,) = find_rollbacks(kept)
    event(f"{truth[0]}: {found.explanation.clause.value}")
    check(case, truth, found.explanation)
    check_advice(case, resume(found, kept))
    assert (found.granted is not None) == (case.after is not None)


def by_the_logs_alone(case: Case) -> set[str]:
    """Return the clause that the server's own log gives, whatever was purged."""
    sent = needs_rollback(case, case.then, 0)
    return set() if sent is None else {sent[0]}


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.integers(1, 30))
def test_a_rollback_that_the_logs_do_not_give_is_wrong(case: Case, back: int) -> None:
    wanted = case.wanted
    known = {log for log in (case.before, case.after) if log is not None}
    if wanted.flags & LATEST or len(known) != 1 or None in (case.before, case.after) or wanted.start < back:
        return
    truth = needs_rollback(case, case.then, 0)
    newest = wanted.uuid == case.then[0][0]  # then the high seqno decides, which nobody knows
    (found,) = find_rollbacks(ledger(spoken(case, ("", back))))
    if not newest:
        assert (found.explanation.wrong is None) == (truth is not None and truth[1] == back)
        if truth is not None and truth[1] < back:
            assert found.explanation.wrong is Wrong.SURELY


@settings(max_examples=120, deadline=None)
@given(cases())
def test_a_grant_that_was_due_a_rollback_is_named_where_the_log_alone_says(case: Case) -> None:
    wanted = case.wanted
    truth = needs_rollback(case, case.then, 0)
    branch = any(uuid == wanted.uuid for uuid, _ in case.then[1:])
    if truth is not None and not wanted.flags & LATEST and (truth[0] == "uuid" or branch):
        assert overdue(request_of(wanted), [Entry(*entry) for entry in case.then]) is RollbackReason(truth[0])
