"""Missing NOOPs: of a producer that is silent it is said since when, and of none that may have sent one."""

import pytest

from dcpdump.render.conns import ConnectionTable
from dcpdump.streams.causes import Cause, VerdictKind
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.verdict import Judge
from tests.support.conversation import opening
from tests.support.ledgers import captured, damaged, ledger, ledger_of, verdicts
from tests.test_bounds import steps

STREAM = "STREAM vb=5\nRX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"
NOOP = "RX noop{}\nTX noop-response{success}\n"
EVERY_20_S = "set_noop_interval=20"


def begun(name: str = "app", controls: str = EVERY_20_S) -> str:
    return opening(name=name, controls=controls) + STREAM


def alive(seconds: int, ends: str = "") -> str:
    """Return another connection whose producer sends its NOOPs for so long."""
    return f"CONNECT {ends}\n" + begun("alive") + f"WAIT 20\n{NOOP}" * (seconds // 20)


def noops(kept: Ledger) -> str:
    """Return what ``conns`` says of the NOOPs of the first connection."""
    _, row = ConnectionTable(list(kept.connections.values())).lines()
    return next(cell for cell in row.text.split("  ") if "answered" in cell).strip()


def first(kept: Ledger) -> tuple[VerdictKind, object, str, bool]:
    """Return the verdict on the first stream."""
    found = Judge(kept).verdict(kept.streams[0])
    return found.kind, found.cause, found.why, found.trouble


MISSING = "no NOOP came since 12:00:20.018, for 100 s, one is due every 20 s"
QUIET = "nothing for 120 s; all of snapshot 0..2 came; the last NOOP came at 12:00:20.018"


def test_a_producer_that_sends_nothing_and_no_noop_is_silent() -> None:
    assert first(ledger(begun() + "WAIT 20\n" + NOOP + alive(100))) == (
        VerdictKind.STUCK,
        Cause.NOOPS_MISSING,
        f"nothing for 120 s; {MISSING}",
        True,
    )


def test_a_producer_that_never_sent_a_noop_is_silent_since_they_were_due() -> None:
    assert first(ledger(begun() + alive(100)))[2] == (
        "nothing for 100 s; no NOOP came since 12:00:00.010, for 100 s, one is due every 20 s"
    )


def test_two_intervals_may_pass_without_a_noop() -> None:
    assert first(ledger(begun() + "WAIT 20\n" + NOOP + alive(40)))[:2] == (VerdictKind.QUIET, Cause.IDLE)


@pytest.mark.parametrize(("seconds", "kind"), [(340, VerdictKind.QUIET), (380, VerdictKind.STUCK)])
def test_where_no_interval_was_accepted_only_the_idle_timeout_counts(seconds: int, kind: VerdictKind) -> None:
    found = first(ledger(begun(controls="") + "WAIT 20\n" + NOOP + alive(seconds)))
    assert (found[0], "one is due" in found[2]) == (kind, False)


def test_noops_that_a_stream_which_is_quiet_does_not_get_are_named() -> None:
    busy = "STREAM vb=6\nRX snapshot-marker{start=0, end=2, flags=0x5}\nWAIT 20\n" + NOOP
    busy += "WAIT 50\nRX mutation{vb=6, seqno:1}\nWAIT 50\nRX mutation{vb=6, seqno:2}\n"
    assert first(ledger(begun() + busy)) == (
        VerdictKind.QUIET,
        Cause.IDLE,
        "nothing for 120 s; all of snapshot 0..2 came; no NOOP came since 12:00:20.021, for 100 s, "
        "one is due every 20 s",
        False,
    )


def test_a_stream_that_is_stuck_says_that_its_producer_is_silent() -> None:
    torn = (begun() + "WAIT 20\n" + NOOP).replace("end=2", "end=3")
    assert first(ledger(torn + alive(100)))[1:3] == (
        Cause.SNAPSHOT_INCOMPLETE,
        f"in the middle of snapshot 0..3, at seqno 2, for 120 s; {MISSING}",
    )


def test_a_client_that_gives_up_on_a_silent_producer_is_in_trouble() -> None:
    assert first(ledger(begun() + "WAIT 20\n" + NOOP + "WAIT 380\nFIN TX\nFIN RX\nWAIT 9\n" + alive(20))) == (
        VerdictKind.ENDED,
        Cause.CLOSED_BY_CLIENT,
        "connection closed by its client at 12:06:40.020, no STREAM_END; no NOOP came since 12:00:20.018, "
        "for 6.33 m, one is due every 20 s; abandoned: not asked for again in 29 s",
        True,
    )


def test_a_client_that_closes_a_healthy_connection_is_in_no_trouble() -> None:
    assert verdicts(begun() + "WAIT 20\n" + NOOP + "WAIT 20\nFIN TX\nFIN RX\n") == [
        "ended (connection closed by its client at 12:00:40.020, no STREAM_END)"
    ]


def test_a_producer_that_waits_for_the_answer_to_its_noop_owes_no_other() -> None:
    assert first(ledger(begun() + "WAIT 20\nRX noop{}\n" + alive(100)))[:3] == (
        VerdictKind.QUIET,
        Cause.IDLE,
        "nothing for 120 s; all of snapshot 0..2 came; a NOOP waits for its answer since 12:00:20.018",
    )


def test_noops_that_may_be_among_lost_bytes_are_not_missing() -> None:
    lost = (
        begun() + "WAIT 20\n" + NOOP + "WAIT 20\n-RX noop{}\nTX noop-response{success}\nTX buffer-acknowledgement{}\n"
    )
    assert first(damaged(lost + alive(100)))[1] is not Cause.NOOPS_MISSING


def test_a_connection_whose_ports_were_used_again_ended_at_a_time_that_is_not_known() -> None:
    ends = "10.0.7.30:40000 10.0.0.1:11210"
    text = f"CONNECT {ends}\n{begun()}WAIT 20\n{NOOP}WAIT 100\n{alive(20, ends)}"
    assert first(ledger(text))[1] is not Cause.NOOPS_MISSING


@pytest.mark.parametrize(
    ("ends", "found"),
    [("10.0.7.30:40001 10.0.0.1:11210", True), ("10.0.7.31:40001 10.0.0.1:11210", False)],
    ids=["the same hosts", "another host"],
)
def test_of_several_captures_one_says_nothing_of_hosts_that_are_not_in_it(ends: str, found: bool) -> None:
    text = f"CONNECT 10.0.7.30:40000 10.0.0.1:11210\n{begun()}WAIT 20\n{NOOP}{alive(100, ends)}"
    kept = ledger(text)
    kept.alone = False
    verdict = first(kept)
    assert (verdict[1] is Cause.NOOPS_MISSING, QUIET in verdict[2]) == (found, not found)


ASKED = "WAIT 20\nRX noop{opaque=%d}\n"
ANSWERED = "TX noop-response{success, opaque=%d}\n"


@pytest.mark.parametrize(
    ("said", "waits"),
    [
        (ASKED % 1 + ASKED % 2, "0 of 2 answered, 2 wait, the first since 12:00:20.013"),
        (ASKED % 1 + ASKED % 2 + ANSWERED % 1, "1 of 2 answered in 20 s, one waits since 12:00:40.014"),
        (ASKED % 1 + ASKED % 2 + ANSWERED % 2, "1 of 2 answered in 1 ms, one waits since 12:00:20.013"),
        (ASKED % 1 + ASKED % 2 + ANSWERED % 1 + ANSWERED % 2, "2 of 2 answered in 2 ms..20 s"),
        (ASKED % 7 + ASKED % 7 + ANSWERED % 7, "1 of 2 answered in 20 s, one waits since 12:00:40.014"),
    ],
    ids=["both", "the second", "the first", "none", "the second of one opaque"],
)
def test_of_noops_without_an_answer_the_first_says_how_long_one_waits(said: str, waits: str) -> None:
    assert noops(ledger(opening() + "STREAM vb=5\n" + said)) == waits


def test_a_noop_whose_answer_may_be_among_lost_bytes_does_not_wait_longer_than_the_next() -> None:
    lost = "-" + ANSWERED % 1 + "TX buffer-acknowledgement{}\n" + ASKED % 2
    kept = damaged(opening() + "STREAM vb=5\n" + ASKED % 1 + lost)
    assert noops(kept) == "0 of 2 answered, one waits since 12:00:40.016"


def test_noops_that_lost_bytes_make_doubtful_take_no_time_of_those_behind_them() -> None:
    lost = "-RX mutation{seqno:3}\nRX mutation{seqno:4}\n"

    def work(doubtful: int, pairs: int) -> int:
        asked = "".join(ASKED % number for number in range(1, doubtful + 1))
        after = "".join(f"{ASKED % number}{ANSWERED % number}" for number in range(1_001, pairs + 1_001))
        some = captured(begun() + asked + lost + after)
        return steps(lambda: ledger_of(some))

    few, many = (work(doubtful, 50) - work(doubtful, 0) for doubtful in (10, 100))
    assert many <= 1.1 * few
