"""Rollbacks: which clause sends a request back, by the failover log, the purge seqno and the request itself."""

import pytest

from dcpdump.streams.rollback import rollbacks
from tests.conversation import opening
from tests.ledgers import ledger

OPEN = opening()
LOG = "TX get-failover-log{vb=5}\nRX get-failover-log-response{success, failover-log=0xfeed:90|0xbeef:40|0xcafe:0}\n"
WRITTEN = "[0xfeed@90, 0xbeef@40, 0xcafe@0]"


def explained(conversation: str) -> list[tuple[int, str, int | None, str]]:
    """It gives how often, clause, expected seqno and text of each rollback of a conversation."""
    found = []
    for each in rollbacks(ledger(conversation)):
        assert each.explanation is not None
        found.append((len(each.requests), each.explanation.clause, each.explanation.expected, each.explanation.text))
    return found


def asked(start: int, low: int, high: int | str, uuid: int, back: int, extra: str = "") -> str:
    """A request that is rolled back."""
    numbers = f"start-seqno={start}, snap-start-seqno={low}, snap-end-seqno={high}, vbucket-uuid={uuid}{extra}"
    return f"TX stream-request{{vb=5, {numbers}}}\nRX stream-request-response{{rollback, rollback-seqno={back}}}\n"


@pytest.mark.parametrize(
    ("request_text", "clause", "expected", "text"),
    [
        (asked(0, 0, 0, 0, 0), "start", None, "a request from 0 is never rolled back: the server breaks the protocol"),
        (asked(0, 0, 0, 1, 0, ", flags=0x20"), "uuid", 0, f"uuid 0x1 is not in the failover log {WRITTEN}"),
        (
            asked(4, 4, "max", 1, 0),
            "uuid",
            0,
            f"uuid 0x1 is not in the failover log {WRITTEN}; also its snapshot end is 2^64-1",
        ),
        (
            asked(100, 95, 110, 0xBEEF, 90),
            "snapshot",
            90,
            "the snapshot 95..110 goes beyond 90, where the branch of 0xfeed began: back to there, 90",
        ),
        (
            asked(100, 80, 110, 0xBEEF, 80),
            "snapshot",
            80,
            "the snapshot 80..110 goes beyond 90, where the branch of 0xfeed began: back to the snapshot start, 80",
        ),
        (
            asked(100, 100, 110, 0xBEEF, 90),
            "snapshot",
            90,
            "the snapshot 100..100 goes beyond 90, where the branch of 0xfeed began: back to there, 90",
        ),
        (
            asked(100, 80, 110, 0xBEEF, 40),
            "snapshot",
            80,
            "the snapshot 80..110 goes beyond 90, where the branch of 0xfeed began: back to the snapshot start, 80; "
            "but that gives 80, not 40",
        ),
        (
            asked(50, 50, 50, 0xBEEF, 0),
            "purge",
            0,
            "uuid and snapshot fit the log, so start 50 is below the purge seqno, which was not witnessed",
        ),
        (
            asked(100, 90, 110, 0xFEED, 90),
            "snapshot",
            None,
            "the uuid is the newest of the log, and the snapshot ends at 110, above the server's high seqno: "
            "back to the snapshot's start, 90",
        ),
        (
            asked(100, 100, 110, 0xFEED, 97),
            "snapshot",
            None,
            "the uuid is the newest of the log, and the snapshot ends at 100, above the server's high seqno, "
            "which is 97",
        ),
        (
            asked(100, 95, 110, 0xBEEF, 0),
            "purge",
            0,
            "start 100 is below the purge seqno, which was not witnessed: by the log alone it would go back to 90",
        ),
        (
            asked(100, 0, 110, 0xBEEF, 0),
            "snapshot",
            0,
            "the snapshot 0..110 goes beyond 90, where the branch of 0xfeed began: back to the snapshot start, 0",
        ),
        (
            asked(50, 50, 50, 0xBEEF, 0, ", flags=0x80"),
            "unknown",
            None,
            "nothing explains it: snapshot end 50 is not above 90, where the next branch begins",
        ),
        (
            asked(550, 550, 550, 0xFEED, 0),
            "purge",
            0,
            "the uuid is the newest of the log, so start 550 is below the purge seqno, which was not witnessed",
        ),
        (
            asked(550, 540, 560, 0xFEED, 0),
            "purge",
            0,
            "the uuid is the newest of the log, so start 550 is below the purge seqno, which was not witnessed",
        ),
        (
            asked(80, 0, 85, 0xFEED, 0),
            "purge",
            0,
            "the uuid is the newest of the log, so start 80 is below the purge seqno, which was not witnessed",
        ),
        (
            asked(100, 0, 110, 0xFEED, 0),
            "unknown",
            0,
            "the uuid is the newest of the log, and the snapshot ends at 110, above the server's high seqno: "
            "back to the snapshot's start, 0; or start 100 is below the purge seqno, which was not witnessed",
        ),
        (
            asked(100, 0, 110, 0xFEED, 0, ", flags=0x80"),
            "snapshot",
            None,
            "the uuid is the newest of the log, and the snapshot ends at 110, above the server's high seqno: "
            "back to the snapshot's start, 0",
        ),
        (
            asked(550, 550, 550, 0xFEED, 0, ", flags=0x80"),
            "unknown",
            None,
            "nothing explains it: the uuid is the newest",
        ),
        (asked(550, 550, 550, 0xFEED, 89), "unknown", None, "nothing explains it: the uuid is the newest"),
        (asked(100, 90, 110, 0xFEED, 95), "unknown", None, "nothing explains it: the uuid is the newest"),
    ],
)
def test_a_clause_explains_a_rollback(request_text: str, clause: str, expected: int | None, text: str) -> None:
    assert explained(OPEN + LOG + request_text) == [(1, clause, expected, text)]


@pytest.mark.parametrize(
    ("request_text", "text"),
    [
        (asked(4, 4, 4, 1, 0), "the uuid is not in it, or the start is below the purge seqno"),
        (
            asked(4, 0, 5, 1, 0),
            "the uuid is not in it, or the start is below the purge seqno, or the server has not all of the snapshot, "
            "so back to its start",
        ),
        (asked(4, 3, 5, 1, 3), "the server has not all of the snapshot, so back to its start"),
        (asked(4, 4, 4, 1, 2), "the server's branch and the client's part at 2"),
    ],
)
def test_without_the_failover_log_it_says_what_is_left(request_text: str, text: str) -> None:
    assert explained(OPEN + request_text) == [(1, "unknown", None, f"the failover log was not witnessed: {text}")]


def test_a_start_below_the_purge_seqno_of_a_marker_goes_back_to_zero() -> None:
    marker = "start=0, end=200, flags=0x6, max-visible-seqno=200, high-completed-seqno=0, purge-seqno=150"
    text = opening(collections=True, controls="max_marker_version=2.2") + "STREAM vb=5\n"
    text += f"RX snapshot-marker{{version=2, {marker}, high-prepared-seqno=0}}\nRX mutation{{seqno:200, key=#0061}}\n"
    text += "RX stream-end{status=2}\n"
    again = asked(100, 100, 100, 0xFEED, 0)
    below = "start 100 is below the purge seqno 150: tombstones are missing"
    assert explained(text + again) == [(1, "purge", 0, below)]
    ignoring = asked(100, 100, 100, 0xFEED, 0, ", flags=0x80")
    assert explained(text + ignoring)[0][3] != below


def test_equal_rollbacks_are_one_and_are_counted() -> None:
    found = rollbacks(ledger(OPEN + LOG + (asked(4, 4, 9, 1, 0) + "WAIT 1\n") * 5 + "STREAM vb=5\n"))
    assert [(len(each.requests), each.lasted_ns, each.granted is not None) for each in found] == [
        (5, 4_009_000_000, True)
    ]


def test_a_loop_goes_on_over_connections_of_one_client() -> None:
    once = OPEN + asked(4, 4, 9, 1, 0)
    assert [len(each.requests) for each in rollbacks(ledger("CONNECT\n".join([once] * 4)))] == [4]


def test_a_purge_is_told_where_the_log_begins_at_zero_too() -> None:
    log = "TX get-failover-log{vb=5}\nRX get-failover-log-response{success, failover-log=0xfeed:0}\n"
    purged = "the uuid is the newest of the log, so start 550 is below the purge seqno, which was not witnessed"
    for seen in (
        "",
        "TX get-all-vb-seqnos\nHEX RX 81480000000000000000000a00000001" + 16 * "0" + "0005" + f"{900:016x}\n",
    ):
        assert explained(OPEN + seen + log + asked(550, 550, 550, 0xFEED, 0)) == [(1, "purge", 0, purged)]
