"""Rollbacks: which clause sends a request back, by the failover log, the purge seqno and the request itself."""

from pathlib import Path
from typing import Any

import pytest

from dcpdump.render.rollbacks import ROLLBACKS, lines
from dcpdump.render.style import Line
from dcpdump.streams import clients, rollbacks
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.rollbacks import Resume, Rollback, WhyUnknown, find_rollbacks, resume
from tests.support.console import run
from tests.support.conversation import codes, opening, packets, said
from tests.support.diagnoses import objects as objects_of
from tests.support.diagnoses import written
from tests.support.ledgers import damaged, ledger, ledger_of

OPEN = opening()
#: A connection joined late: which bucket it is of was not captured.
LATE = "TX open{flags=0x5, key=app}\nRX open-response{success}\n"
LOG = "TX get-failover-log{vb=5}\nRX get-failover-log-response{success, failover-log=0xfeed:90|0xbeef:40|0xcafe:0}\n"
WRITTEN = "[0xfeed@90, 0xbeef@40, 0xcafe@0]"
#: A rollback without its seqno.
EMPTY = f"HEX RX 81530000000000230000000000001005{0:016x}\n"
NEWEST = "the uuid is the newest of the failover log"
FAILOVER = "a failover to 0xfeed happened at seqno 90; the client has"
MUST = "must be below the purge seqno, which was not captured"
PART = "of which the server does not have all, so it must go back to the snapshot's start,"
NONE = "nothing explains it: "
STRICT = ", which counts at 0 by flag 0x20 (strict-vbuuid)"


def explained(conversation: str | Ledger) -> list[tuple[int, str, int | None, str]]:
    """Return how often, clause, expected seqno and text of each rollback of a conversation."""
    found = []
    for each in find_rollbacks(ledger(conversation) if isinstance(conversation, str) else conversation):
        why = each.explanation
        found.append((len(each.requests), why.clause.value, why.expected, why.text))
    return found


def printed(conversation: str | Ledger) -> list[str]:
    """Return what the command prints of a conversation."""
    kept = ledger(conversation) if isinstance(conversation, str) else conversation
    return [line.text for line in _lines(kept)]


def then(conversation: str) -> list[str]:
    """Return what is printed of what the client did after each rollback."""
    return [text.partition("then: ")[2] for text in printed(conversation) if "then: " in text]


def asked(start: int, low: int, high: int | str, uuid: int, back: int, extra: str = "") -> str:
    """Write a request that is rolled back."""
    numbers = f"start-seqno={start}, snap-start-seqno={low}, snap-end-seqno={high}, vbucket-uuid={uuid}{extra}"
    return f"TX stream-request{{vb=5, {numbers}}}\nRX stream-request-response{{rollback, rollback-seqno={back}}}\n"


def log(entries: str) -> str:
    """Write a failover log that is requested."""
    return f"TX get-failover-log{{vb=5}}\nRX get-failover-log-response{{success, failover-log={entries}}}\n"


def retried(start: int, entries: str, extra: str = "") -> str:
    """Write a request that is granted, with the failover log that comes with it."""
    asks = f"TX stream-request{{vb=5, start-seqno={start}{extra}}}\n"
    return f"{asks}RX stream-request-response{{success, failover-log={entries}}}\n"


# -- clauses --------------------------------------------------------------------------------------------------


PURGING = opening(collections=True, controls="max_marker_version=2.2")


def purged(seqno: int) -> str:
    """Write a snapshot marker with a purge seqno."""
    versions = "version=2, start=0, end=200, flags=0x6, max-visible-seqno=200, high-completed-seqno=0"
    return f"RX snapshot-marker{{vb=5, {versions}, purge-seqno={seqno}, high-prepared-seqno=0}}\n"


def high(seqno: int) -> str:
    """Write the server's high seqno, which is requested."""
    return f"TX get-all-vb-seqnos{{opaque=0x77}}\nHEX RX 81480000000000000000000a00000077{0:016x}0005{seqno:016x}\n"


BEFORE = PURGING + "STREAM vb=5\n" + purged(150) + "RX stream-end{status=2}\n"
LATER = retried(0, "0xa:0") + purged(50)
BACKFILL = f"{PURGING}STREAM vb=5, opaque=9\nCONNECT\n{PURGING}{log('0xfeed:0')}{asked(129, 0, 182, 0xFEED, 0)}"
ENDS = f"CONNECT 10.0.0.1:50001 10.0.0.2:%d\n{OPEN}"
PROXY = opening(0x00) + "RX stream-request{vb=5, start-seqno=7}\n"
PROXY += "TX stream-request-response{success, failover-log=0xb:80|0xa:0}\n"
#: Conversations; the clause and the seqno that it gives, and why.
EXPLAINED = {
    "0 without a uuid": (OPEN + LOG + asked(0, 0, 0, 0, 0),
        "start None: a request from 0 is never rolled back: the server breaks the protocol"),
    "0 with another uuid, strictly": (OPEN + LOG + asked(0, 0, 0, 1, 0, ", flags=0x20"),
        f"uuid 0: uuid 0x1 is not in the failover log {WRITTEN}{STRICT}"),
    "0 with an older uuid, strictly": (OPEN + LOG + asked(0, 0, 0, 0xBEEF, 0, ", flags=0x20"),
        f"unknown None: {NONE}the client has 0, and the next failover happened at seqno 90"),
    "another uuid and no end": (OPEN + LOG + asked(4, 4, "max", 1, 0),
        f"uuid 0: uuid 0x1 is not in the failover log {WRITTEN}; also its snapshot end is 2^64-1"),
    "another uuid, to 2": (OPEN + LOG + asked(4, 4, 4, 1, 2),
        f"unknown 0: {NONE}uuid 0x1 is not in the failover log {WRITTEN}, and that gives 0, not 2"),
    "above a failover, in a snapshot": (OPEN + LOG + asked(100, 95, 110, 0xBEEF, 90),
        f"snapshot 90: {FAILOVER} 100 of the snapshot 95..110, so it must go back to 90"),
    "above a failover, in a snapshot from below it": (OPEN + LOG + asked(100, 80, 110, 0xBEEF, 80),
        f"snapshot 80: {FAILOVER} 100 of the snapshot 80..110, so it must go back to the snapshot's start, 80"),
    "above a failover, between snapshots": (OPEN + LOG + asked(100, 100, 110, 0xBEEF, 90),
        f"snapshot 90: {FAILOVER} 100, so it must go back to 90"),
    "above a failover, to elsewhere": (OPEN + LOG + asked(100, 80, 110, 0xBEEF, 40),
        f"snapshot 80: {FAILOVER} 100 of the snapshot 80..110, so it must go back to the snapshot's start, 80; but "
        "that gives 80, not 40"),
    "on an older branch, to 0": (OPEN + LOG + asked(50, 50, 50, 0xBEEF, 0),
        f"purge 0: uuid and snapshot fit the failover log, so start 50 {MUST}"),
    "on the newest branch, to the snapshot's start": (OPEN + LOG + asked(100, 90, 110, 0xFEED, 90),
        f"snapshot None: {NEWEST}; the client has 100 of the snapshot 90..110, {PART} 90"),
    "on the newest branch, to below": (OPEN + LOG + asked(100, 100, 110, 0xFEED, 97),
        f"snapshot None: {NEWEST}; the client has 100, the server has 97, so it must go back to 97"),
    "above a failover, to 0": (OPEN + LOG + asked(100, 95, 110, 0xBEEF, 0),
        f"purge 0: by the failover log alone it would go back to 90, so start 100 {MUST}"),
    "on the newest branch, to 0": (OPEN + LOG + asked(550, 550, 550, 0xFEED, 0),
        f"purge 0: {NEWEST}, so start 550 {MUST}"),
    "on the newest branch, in a snapshot from 0": (OPEN + LOG + asked(100, 0, 110, 0xFEED, 0),
        f"unknown 0: {NEWEST}; the client has 100 of the snapshot 0..110, {PART} 0; or start 100 is below the purge "
        "seqno, which was not captured"),
    "on the newest branch, in a snapshot from 0, though purges are ignored": (
        OPEN + LOG + asked(100, 0, 110, 0xFEED, 0, ", flags=0x80"),
        f"snapshot None: {NEWEST}; the client has 100 of the snapshot 0..110, {PART} 0"),
    "on the newest branch, to 0, though purges are ignored": (
        OPEN + LOG + asked(550, 550, 550, 0xFEED, 0, ", flags=0x80"), f"unknown None: {NONE}{NEWEST}"),
    "on the newest branch, to below its start": (OPEN + LOG + asked(550, 550, 550, 0xFEED, 89),
        f"unknown None: {NONE}{NEWEST}"),
    "from the latest, with an older uuid": (OPEN + LOG + asked(0, 0, 0, 0xBEEF, 90, ", flags=0x40"),
        "snapshot 90: a failover to 0xfeed happened at seqno 90; the client asks from the latest seqno with uuid "
        "0xbeef, so it must go back to 90"),
    "from the latest, with another uuid": (OPEN + LOG + asked(0, 0, 0, 1, 0, ", flags=0x40"),
        f"uuid 0: uuid 0x1 is not in the failover log {WRITTEN}"),
    "from the latest, without a uuid": (OPEN + LOG + asked(0, 0, 0, 0, 0, ", flags=0x40"),
        "start None: a request from the latest seqno without a uuid is never rolled back: the server breaks the "
        "protocol"),
    "without a log: of a seqno, to 0": (OPEN + asked(4, 4, 4, 1, 0),
        "unknown None: the failover log was not captured; the uuid is not in it, or start 4 is below the purge "
        "seqno, or the histories diverge after seqno 0"),
    "without a log: in a snapshot from 0, to 0": (OPEN + asked(4, 0, 5, 1, 0),
        "unknown None: the failover log was not captured; the uuid is not in it, or start 4 is below the purge "
        "seqno, or the producer does not have all of the snapshot 0..5"),
    "without a log: to 0, though purges are ignored": (OPEN + asked(4, 4, 4, 1, 0, ", flags=0x80"),
        "unknown None: the failover log was not captured; the uuid is not in it, or the histories diverge after "
        "seqno 0"),
    "without a log: from 0, strictly": (OPEN + asked(0, 0, 0, 1, 0, ", flags=0x20"),
        "unknown None: the failover log was not captured; the producer says that the uuid is not in it, which counts "
        "at 0 by flag 0x20 (strict-vbuuid)"),
    "without a log: in a snapshot, to its start": (OPEN + asked(4, 3, 5, 1, 3),
        "unknown None: the failover log was not captured; the producer says that it does not have all of the "
        "snapshot 3..5"),
    "without a log: from the latest": (OPEN + asked(0, 0, 0, 1, 5, ", flags=0x40"),
        "unknown None: the failover log was not captured; the producer says that the histories diverge after seqno 5"),
    "without a log: in a snapshot, to above its start": (OPEN + asked(4, 3, 5, 1, 4),
        "unknown None: the failover log was not captured; nothing explains a rollback to 4, above the snapshot's "
        "start"),
    "without its seqno": (OPEN + LOG + "TX stream-request{vb=5, start-seqno=4}\n" + EMPTY,
        "unknown None: the numbers of the request or of its answer were not captured"),
    "the oldest entry of a uuid is where its branch began": (
        OPEN + log("0xa:90|0xb:40|0xa:0") + asked(100, 100, 100, 0xA, 40),
        "snapshot 40: a failover to 0xb happened at seqno 40; the client has 100, so it must go back to 40"),
    "a purge seqno came: below it": (BEFORE + asked(100, 100, 100, 0xFEED, 0),
        "purge 0: start 100 is below the purge seqno 150: the client may miss deletions"),
    "a purge seqno came: below it, with another uuid": (BEFORE + asked(100, 100, 100, 1, 0),
        "purge 0: start 100 is below the purge seqno 150: the client may miss deletions"),
    "a purge seqno came: though purges are ignored": (BEFORE + asked(100, 100, 100, 0xFEED, 0, ", flags=0x80"),
        f"unknown None: {NONE}{NEWEST}"),
    "a purge seqno came: of a client that knows of it": (
        BEFORE + asked(100, 100, 100, 0xFEED, 0, ', value={"purge_seqno":"150"}'),
        f"purge 0: {NEWEST}, so start 100 must be below the purge seqno, which was 150 before"),
    "a purge seqno came: of collections": (BEFORE + asked(100, 100, 100, 0xFEED, 0, ', value={"collections":["8"]}'),
        f"purge 0: {NEWEST}, so start 100 must be below the purge seqno 150, and its collections changed since"),
    "a purge seqno came: of collections, with another uuid": (
        BEFORE + asked(100, 100, 100, 1, 0, ', value={"collections":["8"]}'),
        "uuid 0: uuid 0x1 is not in the failover log [0xfeed@0]"),
    "a purge seqno came later, at the start": (PURGING + log("0xa:0") + asked(50, 0, 55, 0xA, 0) + LATER,
        f"snapshot None: {NEWEST}; the client has 50 of the snapshot 0..55, {PART} 0"),
    "a purge seqno came later, above the start": (PURGING + log("0xa:0") + asked(40, 0, 45, 0xA, 0) + LATER,
        f"unknown 0: {NEWEST}; the client has 40 of the snapshot 0..45, {PART} 0; or start 40 is below the purge "
        "seqno, which was 50 later"),
    "a backfill began before": (BACKFILL,
        f"unknown 0: {NEWEST}; the client has 129 of the snapshot 0..182, {PART} 0; or start 129 is below the purge "
        "seqno, which was not captured"),
    "a backfill began later": (BACKFILL + "CONNECT\n" + PURGING + "STREAM vb=5\n" + purged(50),
        f"snapshot None: {NEWEST}; the client has 129 of the snapshot 0..182, {PART} 0"),
    "the server reported a part of the snapshot": (OPEN + LOG + high(105) + asked(100, 0, 110, 0xFEED, 0),
        f"unknown 0: {NEWEST}; the client has 100 of the snapshot 0..110, {PART} 0; or start 100 is below the purge "
        "seqno, which was not captured"),
    "the server reported all of the snapshot": (OPEN + LOG + high(110) + asked(100, 0, 110, 0xFEED, 0),
        f"purge 0: {NEWEST}, so start 100 {MUST}"),
    "the log of the grant explains what an older one does not": (
        OPEN + log("0xa:0") + "WAIT 5\n" + asked(100, 90, 120, 0xA, 80) + retried(80, "0xb:80|0xa:0"),
        "snapshot 80: a failover to 0xb happened at seqno 80; the client has 100 of the snapshot 90..120, so it "
        "must go back to 80"),
    "a failover after the rollback does not explain it": (
        OPEN + log("0xb:80|0xa:0") + asked(100, 100, 100, 0xA, 80) + "WAIT 60\n" + retried(60, "0xc:60|0xa:0"),
        "snapshot 80: a failover to 0xb happened at seqno 80; the client has 100, so it must go back to 80"),
    "the newest log up to the request counts": (
        OPEN + log("0xa:0") + log("0xb:80|0xa:0") + asked(100, 100, 100, 0xA, 80),
        "snapshot 80: a failover to 0xb happened at seqno 80; the client has 100, so it must go back to 80"),
    "a log without a uuid that a later one has is older": (
        OPEN + log("0xa:0") + asked(100, 100, 100, 0xB, 0) + retried(0, "0xb:80|0xa:0"),
        f"purge 0: {NEWEST}, so start 100 {MUST}"),
    "two logs explain it by different clauses": (
        OPEN + log("0xb:80|0xa:0") + asked(90, 0, 100, 0xB, 0) + retried(0, "0xc:60|0xa:0"),
        f"unknown 0: the failover log was [0xb@80, 0xa@0] before and [0xc@60, 0xa@0] later: by the first {NEWEST}; "
        f"the client has 90 of the snapshot 0..100, {PART} 0; by the other uuid 0xb is not in the failover log "
        "[0xc@60, 0xa@0]"),
    "a log of another connection, of the same bucket": (
        OPEN + log("0xb:80|0xa:0") + "CONNECT\n" + OPEN + asked(100, 100, 100, 0xA, 80),
        "snapshot 80: a failover to 0xb happened at seqno 80; the client has 100, so it must go back to 80"),
    "a log of another connection, of unknown buckets": (
        LATE + log("0xb:80|0xa:0") + "CONNECT\n" + LATE + asked(100, 100, 100, 0xA, 80),
        "snapshot 80: a failover to 0xb happened at seqno 80; the client has 100, so it must go back to 80"),
    "a log of another connection, of an unknown bucket": (
        LATE + log("0xb:80|0xa:0") + "CONNECT\n" + OPEN + asked(100, 100, 100, 0xA, 80),
        "unknown None: the failover log was not captured; the producer says that the histories diverge after seqno 80"),
    "a log of another connection, for an unknown bucket": (
        OPEN + log("0xb:80|0xa:0") + "CONNECT\n" + LATE + asked(100, 100, 100, 0xA, 80),
        "unknown None: the failover log was not captured; the producer says that the histories diverge after seqno 80"),
    "a log of another connection, of another bucket": (
        OPEN.replace("travel", "other") + log("0xb:80|0xa:0") + "CONNECT\n" + OPEN + asked(100, 100, 100, 0xA, 80),
        "unknown None: the failover log was not captured; the producer says that the histories diverge after seqno 80"),
    "a log of another server on its host": (ENDS % 12000 + log("0xa:0") + ENDS % 12002 + asked(100, 100, 100, 0xC, 80),
        "unknown None: the failover log was not captured; the producer says that the histories diverge after seqno 80"),
    "a log of the same server on its host": (ENDS % 12000 + log("0xa:0") + ENDS % 12000 + asked(100, 100, 100, 0xC, 80),
        f"unknown 0: {NONE}uuid 0xc is not in the failover log [0xa@0], and that gives 0, not 80"),
    "a log that a proxy relays to a consumer": (PROXY + "CONNECT\n" + OPEN + asked(100, 100, 100, 0xA, 80),
        "unknown None: the failover log was not captured; the producer says that the histories diverge after seqno 80"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), EXPLAINED.values(), ids=EXPLAINED)
def test_a_rollback_is_explained(text: str, wanted: str) -> None:
    (found,) = find_rollbacks(ledger(text))
    why = found.explanation
    assert f"{why.clause.value} {why.expected}: {why.text}" == wanted


@pytest.mark.parametrize(
    ("conversation", "cause"),
    [
        (LOG + asked(4, 4, 4, 1, 0), None),
        (LOG + asked(100, 0, 110, 0xFEED, 0), WhyUnknown.SEVERAL),
        (LOG + asked(550, 550, 550, 0xFEED, 89), WhyUnknown.NONE),
        (asked(4, 3, 5, 1, 4), WhyUnknown.NONE),
        (asked(4, 4, 4, 1, 0), WhyUnknown.LOG),
        (LOG + "TX stream-request{vb=5, start-seqno=4}\n" + EMPTY, WhyUnknown.NUMBERS),
    ],
)
def test_an_unknown_clause_has_a_code_that_says_why(conversation: str, cause: WhyUnknown | None) -> None:
    (found,) = find_rollbacks(ledger(OPEN + conversation))
    assert found.explanation.cause is cause


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PURGING + log("0xa:0") + asked(129, 0, 182, 0xA, 0) + LATER, "purge seqno: 50 (frame 19, after the rollback)"),
        (OPEN + log("0xa:0") + "WAIT 5\n" + asked(100, 90, 120, 0xA, 80) + retried(80, "0xb:80|0xa:0"),
         "failover log: [0xb@80, 0xa@0] (frame 16, after the rollback)"),
        (OPEN + log("0xa:0") + log("0xb:80|0xa:0") + asked(100, 100, 100, 0xA, 80),
         "failover log: [0xb@80, 0xa@0] (frame 14)"),
    ],
)  # fmt: skip
def test_an_explanation_names_its_evidence(text: str, line: str) -> None:
    assert f"  {line}" in printed(text)


# -- which failover log ---------------------------------------------------------------------------------------


#: Room for Ethernet, IPv4 and TCP, the header of an answer, and three entries.
THREE_ENTRIES = 14 + 20 + 20 + 24 + 3 * 16


def torn(text: str, snaplen: int = THREE_ENTRIES) -> Ledger:
    """Return the ledger of a conversation whose packets were cut."""
    cut = [each._replace(data=each.data[:snaplen], wire_length=len(each.data)) for each in packets(said(text))]
    return ledger_of(cut)


@pytest.mark.parametrize("before", ["", log("0xa5:0") + "WAIT 5\n"], ids=["", "it replaces the one before"])
def test_what_is_not_in_the_captured_part_of_a_log_may_be_in_the_rest(before: str) -> None:
    entries = "|".join(f"{0xA0 + at:#x}:{(5 - at) * 100}" for at in range(6))
    text = OPEN + before + log(entries) + asked(150, 150, 150, 0xA4, 0)
    ((_, clause, _, why),) = explained(torn(text))
    assert (clause, why.partition(";")[0]) == ("unknown", "the failover log was not captured")
    assert explained(text)[0][1] == "purge"


def test_the_logs_of_other_connections_count_once_the_server_is_known() -> None:
    kept = ledger(OPEN + log("0xb:80|0xa:0") + "CONNECT\n" + OPEN + asked(100, 100, 100, 0xA, 80))
    assert explained(kept)[0][1] == "snapshot"
    one, other = kept.connections.values()
    one.src = one.dst = other.src = other.dst = ""  # nothing tells who they are
    kept.close()
    assert explained(kept)[0][1] == "unknown"


# -- what came then -------------------------------------------------------------------------------------------


def test_equal_rollbacks_are_one_and_are_counted_over_connections_of_one_client_too() -> None:
    found = find_rollbacks(ledger(OPEN + LOG + (asked(4, 4, 9, 1, 0) + "WAIT 1\n") * 5 + "STREAM vb=5\n"))
    counts = [(len(each.requests), each.lasted_ns, each.granted is not None) for each in found]
    assert counts == [(5, 4_009_000_000, True)]
    once = OPEN + asked(4, 4, 9, 1, 0)
    assert [len(each.requests) for each in find_rollbacks(ledger("CONNECT\n".join([once] * 4)))] == [4]


ONE, TWO = ', value={"sid":1}', ', value={"sid":2}'


@pytest.mark.parametrize(
    ("later", "text"),
    [
        (retried(80, "0xfeed:0"), "granted from 80 at 12:00:00.014"),
        (retried(70, "0xfeed:0", TWO), "granted from 70 with stream id 2 at 12:00:00.014"),
        ("CONNECT\n" + OPEN + retried(80, "0xfeed:0"), "granted from 80 on connection 1 at 12:00:00.024"),
        ("CONNECT\n" + OPEN + retried(80, "0xfeed:0", ONE),
         "granted from 80 with stream id 1 on connection 1 at 12:00:00.024"),
        (asked(80, 80, 80, 1, 0), "asked again from 80 at 12:00:00.013: rolled back to 0"),
        ("TX stream-request{vb=5, start-seqno=80}\nRX stream-request-response{notmyvbucket}\n",
         "asked again from 80 at 12:00:00.013: refused with NotMyVbucket 0x07"),
        ("TX stream-request{vb=5, start-seqno=80}\n", "asked again from 80 at 12:00:00.013: no answer was captured"),
        ("WAIT 2\nTX noop\n", "the client did not ask again"),
        ("TX noop\n", "the client did not ask again before the capture ends, 1 ms later"),
        ("", "the client did not ask again before the capture ends"),
        ("WAIT 2\n" + retried(90, "0xfeed:0", TWO), "the client did not ask again"),
        ("WAIT 2\n" + retried(80, "0xfeed:0", ', end-seqno=99, value={"sid":2}'), "the client did not ask again"),
        ("WAIT 2\nCONNECT\n" + opening(name="other") + retried(80, "0xfeed:0"), "the client did not ask again"),
        ("WAIT 2\nCONNECT\n" + OPEN.replace("travel", "x") + retried(80, "0xfeed:0"), "the client did not ask again"),
    ],
)  # fmt: skip
def test_what_the_client_did_then(later: str, text: str) -> None:
    assert then(OPEN + asked(100, 100, 100, 1, 80) + later)[0] == text


def test_a_stream_with_another_filter_is_not_a_retry() -> None:
    one, other = ', value={"sid":1,"collections":["8"]}', ', value={"sid":2,"collections":["9"]}'
    text = opening(collections=True) + asked(100, 100, 100, 1, 80, one) + "WAIT 2\n"
    assert then(text + retried(80, "0xfeed:0", other)) == ["the client did not ask again"]
    assert then(text + retried(80, "0xfeed:0", one.replace(":1,", ":3,")))[0].startswith("granted from 80 with stream")


def test_a_rollback_as_an_object() -> None:
    text = PURGING + "STREAM vb=5\n" + purged(150) + "RX stream-end{status=2}\n" + asked(100, 100, 100, 1, 0)
    (found,) = map(ROLLBACKS.object, advised(ledger(text + retried(0, "0xfeed:0", TWO))))
    assert {name: found[name] for name in list(found) if name not in ("time", "name", "end_seqno", "vbucket_uuid")} == {
        "connection": 0,
        "vbucket": 5,
        "frame": 17,
        "response_frame": 18,
        "start_seqno": 100,
        "snap_start_seqno": 100,
        "snap_end_seqno": 100,
        "rollback_seqno": 0,
        "count": 1,
        "loop": False,
        "frames": [17],
        "clause": "purge",
        "why": "start 100 is below the purge seqno 150: the client may miss deletions",
        "expected_seqno": 0,
        "failover_log": [{"vbucket_uuid": "0x000000000000feed", "seqno": 0}],
        "failover_log_frame": 14,
        "purge_seqno": 150,
        "purge_seqno_frame": 15,
        "granted_start_seqno": 0,
        "granted_frame": 20,
        "granted_connection": 0,
        "resume": {
            "start_seqno": 0,
            "snap_start_seqno": 0,
            "snap_end_seqno": 0,
            "vbucket_uuid": "0x0000000000000000",
            "flags": 0,
            "why": "the server shares nothing of its history: all is sent again",
        },
    }
    (found,) = map(ROLLBACKS.object, advised(ledger(OPEN + asked(4, 4, 4, 1, 2))))
    assert (found["clause"], found["cause"]) == ("unknown", "log_not_captured")


def test_a_conversation_without_rollbacks_says_so() -> None:
    assert printed(OPEN + "STREAM vb=5\nSTREAM vb=6\n") == ["no rollbacks in 2 stream requests"]
    assert printed(OPEN + "STREAM vb=5\n") == ["no rollbacks in 1 stream request"]
    assert printed(OPEN) == ["no stream requests were captured"]
    half = "no rollbacks in 2 stream requests, 1 of them without an answer in the capture"
    assert printed(OPEN + "STREAM vb=5\nTX stream-request{vb=6}\n") == [half]


def test_after_lost_bytes_it_is_not_known_whether_the_client_asked_again() -> None:
    frames = packets(said(OPEN + asked(100, 100, 100, 1, 80) + "WAIT 2\nTX noop\nTX noop\nRX noop-response\n"))
    before, after = frames[:6] + frames[7:], frames[:-3] + frames[-2:]
    ends = [line.text for some in (before, after) for line in _lines(ledger_of(some)) if "then: " in line.text]
    assert ends == ["  then: the client did not ask again", "  then: not known: 24 bytes of the connection were lost"]


def test_where_too_many_were_rolled_back_or_granted_to_compare_all_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (clients, rollbacks):
        monkeypatch.setattr(module, "FURTHER", 2)
    others = [f"CONNECT\n{opening(name=name)}" for name in "abc"]
    once, refused = asked(100, 100, 100, 1, 80), asked(70, 70, 70, 1, 60)
    granted = "".join(each + retried(70, "0xfeed:0") for each in others)
    kept = ledger(OPEN + once + "".join(each + once for each in others) + "ON 0\n" + refused + granted)
    assert [line.text for line in _lines(kept) if line.text.startswith(("  repeated", "  then"))][:2] == [
        "  repeated: at least once in 1 ms",
        "  then: asked again from 70 at 12:00:00.049: rolled back to 60; whether it was granted then is not known: "
        "over 2 requests since may be its consumer's, not all were compared",
    ]


# -- whose answer it is ---------------------------------------------------------------------------------------

UNSURE = "it is not certain that the answer is to this request: "
OTHERS = f"{UNSURE}others with its opaque were sent before it, and not all was captured"
LOST = f"{UNSURE}bytes were lost while it waited, maybe with a later request that has its opaque"
SENT_BACK = asked(100, 95, 110, 0xBEEF, 90)
CERTAIN = (1, "snapshot", 90, f"{FAILOVER} 100 of the snapshot 95..110, so it must go back to 90")


ASKED_550, ANSWERED_550 = asked(550, 550, 550, 0xFEED, 0).splitlines(keepends=True)
ASKED_100, ANSWERED_100 = SENT_BACK.splitlines(keepends=True)
NOOP = "RX noop\nTX noop-response\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    {
        "of two requests in a late capture": (OPEN + "----\n" + LOG + ASKED_550 + SENT_BACK, (1, "unknown", None,
         OTHERS)),
        "of two requests and one lost answer": (OPEN + LOG + ASKED_550 + "-" + ANSWERED_550 + NOOP + SENT_BACK, (1,
         "unknown", None, OTHERS)),
        "a request may be lost with the answer to the one before it": (OPEN + LOG + ASKED_550 + "-" + ANSWERED_550
         + "-" + ASKED_100 + ANSWERED_100 + NOOP, (1, "unknown", None, LOST)),
        "no request can be lost": (OPEN + LOG + ASKED_100 + "-" + NOOP + ANSWERED_100, CERTAIN),
        "equal ones, of which one is certain": (OPEN + LOG + SENT_BACK + ASKED_100 + "-" + ANSWERED_100 + "-"
         + ASKED_100 + ANSWERED_100, (2, *CERTAIN[1:])),
    }.values(),
)  # fmt: skip
def test_of_requests_with_one_opaque_it_may_be_uncertain_which_was_sent_back(text: str, wanted: Any) -> None:
    kept = damaged(text)
    assert explained(kept) == [wanted]
    if wanted[3] == LOST:
        (found,) = map(ROLLBACKS.object, advised(kept))
        assert (found["clause"], found["cause"]) == ("unknown", "request_not_certain")


def _lines(kept: Ledger) -> list[Line]:
    return lines(advised(kept), kept.streams, kept.last_ns)


def advised(kept: Ledger) -> list[tuple[Rollback, Resume | None]]:
    return [(each, resume(each, kept)) for each in find_rollbacks(kept)]


# -- how to go on -------------------------------------------------------------------------------------------


OLDEST = (
    "TX stream-request{vb=9, start=900, vbucket-uuid=0xa}\nRX stream-request-response{rollback, rollback-seqno=700}\n"
    "TX stream-request{vb=9, start=700, vbucket-uuid=0xa}\n"
    "RX stream-request-response{success, failover-log=0xb:700|0xa:0}\n"
    "RX snapshot-marker{vb=9, start=700, end=900, flags=0x6}\nRX mutation{vb=9, seqno=900}\n"
    "TX close-stream{vb=9}\nRX close-stream-response{success}\n"
)


def test_a_client_that_resumes_with_the_oldest_uuid_is_told_that_of_what_it_has() -> None:
    said = printed(OPEN + OLDEST * 5)
    assert "  repeated: 5 times in 33 ms (loop)" in said
    assert (
        "  branch: 701..900 came from branch 0xb, the newest of the failover log, and it resumes with 0xa: it should "
        "ask with 0xb"
    ) in said
    assert said[-1] == (
        "  resume: start 900, snapshot 900..900, uuid 0xb, flags 0x0 (what it has up to 900 came from branch 0xb)"
    )


def test_a_client_that_has_not_received_from_another_branch_goes_back() -> None:
    assert printed(OPEN + OLDEST)[-1] == (
        "  resume: start 700, snapshot 700..700, uuid 0xb, flags 0x0 (the server's history is the client's up to 700: "
        "it takes back what it has above that)"
    )


def test_a_client_that_a_purge_overtook_may_do_without_the_deletions() -> None:
    text = PURGING + "STREAM vb=5\n" + purged(150) + "RX stream-end{status=2}\n" + asked(100, 100, 100, 0xFEED, 0)
    kept = ledger(text + retried(0, "0xfeed:0", TWO))
    ((_, advice),) = advised(kept)
    assert advice is not None
    assert (advice.start, advice.uuid, advice.flags) == (100, 0xFEED, 0x80)
    assert "purge_seqno 150" in advice.why


def test_resume_has_a_row_for_each_vbucket(tmp_path: Path) -> None:
    path = written(OPEN + OLDEST * 2 + OLDEST.replace("vb=9", "vb=7"), tmp_path / "c.pcap")
    said = run(f"dcpdump rollbacks {path} -q --resume").out.splitlines()
    assert [line.split()[:8] for line in said] == [
        ["conn", "client", "vb", "rolled", "back", "start", "snapshot", "uuid"],
        ["0", "app", "9", "12:00:00.012", "to", "700", "900", "900..900"],
        ["0", "app", "7", "12:00:00.028", "to", "700", "700", "700..700"],
    ]
    found = [row["resume"]["start_seqno"] for row in objects_of(f"dcpdump rollbacks {path} --resume")]
    assert found == [900, 700]


def test_of_a_uuid_that_counts_at_0_the_flag_is_named() -> None:
    asks = "TX stream-request{vb=5, start=0, flags=0x20, vbucket-uuid=0xa}\n"
    text = OPEN + asks + "RX stream-request-response{rollback, rollback-seqno=0}\n"
    assert printed(text)[1].endswith("that the uuid is not in it, which counts at 0 by flag 0x20 (strict-vbuuid)")
    assert printed(text + "STREAM vb=5\n")[1].startswith(
        "  why: uuid 0xa is not in the failover log [0xfeed@0], which counts at 0 by flag 0x20 (strict-vbuuid)"
    )


def test_a_grant_in_between_hides_no_loop() -> None:
    assert codes(OPEN + OLDEST * 3) == []
    assert codes(OPEN + OLDEST * 4) == ["L7"]
