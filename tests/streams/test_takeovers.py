"""Takeovers: what one waits for that does not continue, and what is said where the capture does not tell."""

import pytest

from dcpdump.streams.causes import Cause, Reason, VerdictKind
from dcpdump.streams.verdict import Judge
from tests.support.conversation import opening, packets, said
from tests.support.ledgers import captured, ledger, ledger_of, only, verdicts

OPEN = opening(name="replication:a->b", controls="enable_sync_writes=true, consumer_name=b")
TAKEOVER = "STREAM vb=5, flags=0x1\n"
DISK = "RX snapshot-marker{start=0, end=1, flags=0x6, layout=2.0}\nRX mutation{seqno=1}\n"
LAST = "RX snapshot-marker{start=2, end=2, flags=0xd}\nRX mutation{seqno=2}\n"
REST = "RX snapshot-marker{start=3, end=3, flags=0x9}\nRX mutation{seqno=3}\n"
MORE = REST.replace("=3", "=4")
ACKNOWLEDGED = "TX snapshot-marker-response{success, opaque=0x1005}\n"
PENDING, ACTIVE = "RX set-vbucket-state{state=3}\n", "RX set-vbucket-state{state=1}\n"
ANSWERED = "TX set-vbucket-state-response{success}\n"
ENDED = "RX stream-end{status=0}\n"
WHOLE = TAKEOVER + DISK + LAST + ACKNOWLEDGED + PENDING + ANSWERED + REST + ACKNOWLEDGED + ACTIVE + ANSWERED + ENDED
MINUTE = "WAIT 60\nRX noop{}\nTX noop-response{success}\n"
NO_ACTIVE = "active did not come: the vbucket has no active copy"


@pytest.mark.parametrize(
    ("conversation", "cause", "text"),
    [
        (
            TAKEOVER + DISK + LAST,
            Cause.SNAPSHOT_NOT_ACKNOWLEDGED,
            "stuck (waits for the acknowledgement of snapshot 2..2, for 60 s)",
        ),
        (
            TAKEOVER + DISK + LAST + REST + ACKNOWLEDGED,
            Cause.SNAPSHOT_NOT_ACKNOWLEDGED,
            "stuck (waits for the acknowledgement of snapshot 3..3, for 60 s)",
        ),
        (
            TAKEOVER + DISK + LAST + ACKNOWLEDGED,
            Cause.PENDING_NOT_SENT,
            "stuck (snapshot 2..2 is acknowledged, SET_VBUCKET_STATE(pending) did not come, for 60 s)",
        ),
        (
            TAKEOVER + DISK + LAST + ACKNOWLEDGED + PENDING,
            Cause.STATE_NOT_ANSWERED,
            "stuck (waits for the answer to SET_VBUCKET_STATE, for 60 s)",
        ),
        (
            TAKEOVER + DISK + LAST + ACKNOWLEDGED + PENDING + ANSWERED,
            Cause.ACTIVE_NOT_SENT,
            f"stuck (SET_VBUCKET_STATE(pending) was answered at 12:00:00.023, {NO_ACTIVE}, for 60 s)",
        ),
        (
            TAKEOVER + PENDING + ANSWERED,
            Cause.ACTIVE_NOT_SENT,
            f"stuck (SET_VBUCKET_STATE(pending) was answered at 12:00:00.018, {NO_ACTIVE}, for 60 s)",
        ),
        (
            TAKEOVER + DISK + PENDING + ANSWERED + REST,
            Cause.SNAPSHOT_NOT_ACKNOWLEDGED,
            "stuck (waits for the acknowledgement of snapshot 3..3, for 60 s)",
        ),
        (
            TAKEOVER + DISK + PENDING + ANSWERED + REST + ACKNOWLEDGED,
            Cause.ACTIVE_NOT_SENT,
            f"stuck (SET_VBUCKET_STATE(pending) was answered at 12:00:00.020, {NO_ACTIVE}, for 60 s)",
        ),
        (
            TAKEOVER + DISK + PENDING + ANSWERED + ACTIVE,
            Cause.STATE_NOT_ANSWERED,
            "stuck (waits for the answer to SET_VBUCKET_STATE, for 60 s)",
        ),
        (
            TAKEOVER + DISK + PENDING + ANSWERED + ACTIVE + ANSWERED,
            Cause.TAKEOVER_NOT_ENDED,
            "stuck (SET_VBUCKET_STATE(active) was answered at 12:00:00.022, no STREAM_END, for 60 s)",
        ),
    ],
)
def test_a_takeover_that_does_not_continue_is_stuck_where_it_is(conversation: str, cause: Cause, text: str) -> None:
    kept = ledger(OPEN + conversation + MINUTE)
    verdict = Judge(kept).verdict(only(kept))
    assert (verdict.kind, verdict.cause, verdict.trouble, verdict.text) == (VerdictKind.STUCK, cause, True, text)


def test_a_takeover_that_continues_is_in_no_trouble_wherever_the_capture_ends() -> None:
    every = packets(said(OPEN + WHOLE))
    for end in range(len(every) + 1):
        judge = Judge(ledger_of(every[:end]))
        assert [judge.verdict(each).trouble for each in judge.ledger.streams] in ([], [False]), f"{end} packets"


@pytest.mark.parametrize("slow", [LAST, PENDING, REST, ACTIVE])
def test_a_takeover_waits_from_the_answer_on_and_not_from_what_was_answered(slow: str) -> None:
    text = WHOLE.partition(slow)[0] + slow + "WAIT 60\n" + WHOLE.partition(slow)[2].splitlines()[0] + "\n"
    kept = ledger(OPEN + text + "WAIT 9\nRX noop{}\nTX noop-response{success}\n")
    verdict = Judge(kept).verdict(only(kept))
    assert (verdict.kind in (VerdictKind.QUIET, VerdictKind.TAKEN_OVER), verdict.trouble) == (True, False)


def test_a_takeover_without_loss_of_which_the_source_reads_from_disk_may_still_be_under_way() -> None:
    assert verdicts(OPEN + TAKEOVER + DISK + MINUTE) == [
        "quiet (nothing for 60 s; all of snapshot 0..1 came; NOOPs are answered)"
    ]


@pytest.mark.parametrize("flags", ["0x0", "0x10"])
def test_a_stream_that_is_no_takeover_owes_no_state(flags: str) -> None:
    asked = f"STREAM vb=5, flags={flags}\n"
    quiet = "quiet (nothing for 60 s; all of snapshot 2..2 came; NOOPs are answered)"
    assert verdicts(OPEN + asked + LAST + ACKNOWLEDGED + MINUTE) == [quiet]
    assert verdicts(OPEN + asked + LAST + ACKNOWLEDGED + PENDING + ANSWERED + MINUTE) == [quiet]


def test_a_takeover_that_its_consumer_closes_owes_nothing_more() -> None:
    closing = TAKEOVER + DISK + PENDING + ANSWERED + "TX close-stream{vb=5}\n"
    assert verdicts(OPEN + closing + MINUTE) == [
        "quiet (nothing for 60 s; all of snapshot 0..1 came; NOOPs are answered)"
    ]


def lossy(text: str) -> list[tuple[VerdictKind, Cause | Reason]]:
    """Return the verdicts on a conversation of which the lines behind a minus were lost."""
    judge = Judge(ledger_of(captured(OPEN + text)))
    return [(each.kind, each.cause) for each in map(judge.verdict, judge.ledger.streams)]


@pytest.mark.parametrize(
    "conversation",
    [
        TAKEOVER + DISK + LAST + ACKNOWLEDGED + "-" + PENDING + ANSWERED + REST + ACKNOWLEDGED + MINUTE,
        TAKEOVER + DISK + PENDING + "-" + ANSWERED + REST + ACKNOWLEDGED + MORE + ACKNOWLEDGED + MINUTE,
        TAKEOVER + DISK + LAST + "-" + ACKNOWLEDGED + REST + ACKNOWLEDGED + MORE + ACKNOWLEDGED + MINUTE,
        TAKEOVER + DISK + PENDING + ANSWERED + "-" + REST + "RX mutation{seqno=4}\n" + MINUTE,
        TAKEOVER + DISK + LAST + ACKNOWLEDGED + PENDING + ANSWERED + "-" + ACTIVE + MINUTE,
    ],
)
def test_of_a_takeover_of_which_bytes_were_lost_it_is_unknown_what_it_waits_for(conversation: str) -> None:
    assert lossy(conversation) == [(VerdictKind.UNKNOWN, Reason.BYTES_LOST)]


def test_a_takeover_that_came_to_its_end_is_in_no_trouble_whatever_was_lost() -> None:
    every = packets(said(OPEN + WHOLE + MINUTE * 2))
    causes = set()
    for lost in range(len(every)):
        judge = Judge(ledger_of([packet for at, packet in enumerate(every) if at != lost]))
        for stream in judge.ledger.streams:
            verdict = judge.verdict(stream)
            assert verdict.kind is not VerdictKind.STUCK, f"packet {lost + 1}: {verdict.text}"
            causes.add(verdict.cause)
    assert Cause.HANDED_OVER in causes


def test_a_takeover_of_which_bytes_were_lost_before_it_set_active_was_handed_over() -> None:
    begun = TAKEOVER + DISK + PENDING + "-" + ANSWERED + REST + ACKNOWLEDGED + ACTIVE + ANSWERED
    assert lossy(begun + MINUTE) == [(VerdictKind.TAKEN_OVER, Cause.HANDED_OVER)]


def test_a_takeover_may_be_blocked_by_flow_control() -> None:
    window = opening(name="replication:a->b", controls="connection_buffer_size=100") + TAKEOVER + DISK
    assert verdicts(window + PENDING + ANSWERED + MINUTE) == [
        "blocked by flow control (146 of 100 bytes not acknowledged since 12:00:00.017)"
    ]


UNFINISHED = "the takeover was not finished: "


@pytest.mark.parametrize(
    ("conversation", "how"),
    [
        (TAKEOVER + DISK, f"{UNFINISHED}SET_VBUCKET_STATE(pending) did not come; "),
        (TAKEOVER + DISK + PENDING, f"{UNFINISHED}SET_VBUCKET_STATE(pending) was not answered; "),
        (
            TAKEOVER + DISK + PENDING + ANSWERED,
            f"{UNFINISHED}SET_VBUCKET_STATE(pending) was answered at 12:00:00.020, active did not come; ",
        ),
        (TAKEOVER + DISK + PENDING + ANSWERED + ACTIVE, f"{UNFINISHED}SET_VBUCKET_STATE(active) was not answered; "),
        ("STREAM vb=5\n" + DISK, ""),
    ],
)
def test_a_connection_that_ends_in_a_takeover_says_how_far_that_came(conversation: str, how: str) -> None:
    kept = ledger(OPEN + conversation + "WAIT 20\nRST RX\n" + "CONNECT\n" + opening() + MINUTE)
    verdict = Judge(kept).verdict(only(kept))
    assert (verdict.kind, verdict.cause, verdict.trouble) == (VerdictKind.ENDED, Cause.RESET_BY_SERVER, True)
    begin, _, rest = verdict.why.partition("no STREAM_END; ")
    assert (begin[:32], rest) == (
        "connection reset by its server at"[:32],
        f"{how}abandoned: not asked for again in 60 s",
    )


def test_a_connection_that_ends_behind_the_hand_over_leaves_nothing_unfinished() -> None:
    done = TAKEOVER + DISK + PENDING + ANSWERED + ACTIVE + ANSWERED
    assert verdicts(OPEN + done + "WAIT 20\nRST RX\n") == ["taken over (no STREAM_END was captured)"]


def test_of_a_connection_of_which_bytes_were_lost_it_is_not_said_that_a_takeover_was_not_finished() -> None:
    kept = ledger_of(captured(OPEN + TAKEOVER + DISK + PENDING + ANSWERED + "-" + ACTIVE + "RX noop{}\nRST RX\n"))
    assert UNFINISHED not in Judge(kept).verdict(only(kept)).text
