"""Missing NOOPs: of a producer that is silent it is said since when, and of none that may have sent one."""

import pytest

from dcpdump.render.conns import ConnectionTable, rows_of
from dcpdump.streams.causes import Cause
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.verdict import Judge
from tests.support.conversation import opening
from tests.support.ledgers import captured, damaged, ledger, ledger_of
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
    _, row = ConnectionTable(rows_of(kept.connections.values())).lines()
    return next(cell for cell in row.text.split("  ") if "answered" in cell).strip()


BEGUN, IN_20_S = begun(), "WAIT 20\n" + NOOP
BUSY = "STREAM vb=6\nRX snapshot-marker{start=0, end=2, flags=0x5}\nWAIT 20\n" + NOOP
BUSY += "WAIT 50\nRX mutation{vb=6, seqno:1}\nWAIT 50\nRX mutation{vb=6, seqno:2}\n"
QUIET = "nothing for 120 s; all of snapshot 0..2 came; the last NOOP came at 12:00:20.018"
CLOSED, ENDS = "FIN TX\nFIN RX\n", "10.0.7.30:40000 10.0.0.1:11210"
LOST = "-RX noop{}\nTX noop-response{success}\nTX buffer-acknowledgement{}\n"
#: What is said of the first stream.
CASES = {
    "none since one": (BEGUN + IN_20_S + alive(100),
        "stuck (nothing for 120 s; no NOOP came since 12:00:20.018, for 100 s, one is due every 20 s)", True),
    "none at all": (BEGUN + alive(100),
        "stuck (nothing for 100 s; no NOOP came since 12:00:00.014, for 100 s, one is due every 20 s)", True),
    "none for two intervals": (BEGUN + IN_20_S + alive(40),
        "quiet (nothing for 60 s; all of snapshot 0..2 came; NOOPs are answered)", False),
    "no interval, and not longer than the idle timeout": (begun(controls="") + IN_20_S + alive(340),
        "quiet (nothing for 6 m; all of snapshot 0..2 came; the last NOOP came at 12:00:20.016)", False),
    "no interval, and longer than the idle timeout": (begun(controls="") + IN_20_S + alive(380),
        "stuck (nothing for 6.67 m; no NOOP came since 12:00:20.016, for 6.33 m)", True),
    "none beside a stream that flows": (BEGUN + BUSY,
        "quiet (nothing for 120 s; all of snapshot 0..2 came; no NOOP came since 12:00:20.021, for 100 s, one is due "
        "every 20 s)", False),
    "none, and stuck in a snapshot": ((BEGUN + IN_20_S).replace("end=2", "end=3") + alive(100),
        "stuck (in the middle of snapshot 0..3, at seqno 2, for 120 s; no NOOP came since 12:00:20.018, for 100 s, "
        "one is due every 20 s)", True),
    "none, and its client gives up": (BEGUN + IN_20_S + "WAIT 380\n" + CLOSED + "WAIT 9\n" + alive(20),
        "ended (connection closed by its client at 12:06:40.020, no STREAM_END; no NOOP came since 12:00:20.018, for "
        "6.33 m, one is due every 20 s; abandoned: not requested again in 29 s)", True),
    "a client that closes a healthy connection": (BEGUN + IN_20_S + "WAIT 20\n" + CLOSED,
        "ended (connection closed by its client at 12:00:40.020, no STREAM_END)", False),
    "one waits for its answer": (BEGUN + "WAIT 20\nRX noop{}\n" + alive(100),
        "quiet (nothing for 120 s; all of snapshot 0..2 came; a NOOP waits for its answer since 12:00:20.018)", False),
    "one may be among lost bytes": (BEGUN + IN_20_S + "WAIT 20\n" + LOST + alive(100),
        "unknown (nothing for 140 s, but 24 bytes of the connection were lost)", False),
    "ports that were used again": (f"CONNECT {ENDS}\n{BEGUN}{IN_20_S}WAIT 100\n{alive(20, ENDS)}",
        "ended (connection replaced by its client at 12:02:00.020, no STREAM_END; abandoned: not requested again in "
        "20 s)", False),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said", "trouble"), CASES.values(), ids=CASES)
def test_a_producer_that_sends_no_noop_is_silent(text: str, said: str, trouble: bool) -> None:
    kept = damaged(text)
    verdict = Judge(kept).verdict(kept.streams[0])
    assert (verdict.text, verdict.trouble) == (said, trouble)


@pytest.mark.parametrize(
    ("ends", "found"),
    [("10.0.7.30:40001 10.0.0.1:11210", True), ("10.0.7.31:40001 10.0.0.1:11210", False)],
    ids=["the same hosts", "another host"],
)
def test_of_several_captures_one_says_nothing_of_hosts_that_are_not_in_it(ends: str, found: bool) -> None:
    text = f"CONNECT 10.0.7.30:40000 10.0.0.1:11210\n{begun()}WAIT 20\n{NOOP}{alive(100, ends)}"
    kept = ledger(text)
    kept.single_capture = False
    verdict = Judge(kept).verdict(kept.streams[0])
    assert (verdict.cause is Cause.NOOPS_MISSING, QUIET in verdict.why) == (found, not found)


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
