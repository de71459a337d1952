"""Takeovers: what one waits for that does not continue, and what is said where the capture does not tell."""

import pytest

from dcpdump.streams.causes import Cause, VerdictKind
from dcpdump.streams.verdict import Judge
from tests.support.conversation import opening, packets, said
from tests.support.ledgers import damaged, ledger, ledger_of, only

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

NO_TAKEOVER = "STREAM vb=5, flags=0x10\n"
DONE = TAKEOVER + DISK + PENDING + ANSWERED + ACTIVE + ANSWERED
RESET = "WAIT 20\nRST RX\nCONNECT\n" + opening() + MINUTE
BEGUN = OPEN + TAKEOVER + DISK
RESET_AT = "ended (connection reset by its server at 12:00:"
UNFINISHED = ", no STREAM_END; the takeover was not finished: SET_VBUCKET_STATE"
ABANDONED = "; abandoned: not requested again in 60 s)"
NO_ACTIVE = ", active did not come: the vbucket has no active copy, for 60 s)"
WINDOW = opening(name="replication:a->b", controls="connection_buffer_size=100")
#: What is said of a takeover, and whether it is a trouble.
CASES = {
    "snapshot 2..2 is not acknowledged": (BEGUN + LAST + MINUTE,
        "stuck (waits for the acknowledgement of snapshot 2..2, for 60 s)", True),
    "the next one is not acknowledged": (BEGUN + LAST + REST + ACKNOWLEDGED + MINUTE,
        "stuck (waits for the acknowledgement of snapshot 3..3, for 60 s)", True),
    "pending does not come": (BEGUN + LAST + ACKNOWLEDGED + MINUTE,
        "stuck (snapshot 2..2 is acknowledged, SET_VBUCKET_STATE(pending) did not come, for 60 s)", True),
    "pending is not answered": (BEGUN + LAST + ACKNOWLEDGED + PENDING + MINUTE,
        "stuck (waits for the answer to SET_VBUCKET_STATE, for 60 s)", True),
    "active does not come": (BEGUN + LAST + ACKNOWLEDGED + PENDING + ANSWERED + MINUTE,
        f"stuck (SET_VBUCKET_STATE(pending) was answered at 12:00:00.023{NO_ACTIVE}", True),
    "active does not come, of an empty vbucket": (OPEN + TAKEOVER + PENDING + ANSWERED + MINUTE,
        f"stuck (SET_VBUCKET_STATE(pending) was answered at 12:00:00.018{NO_ACTIVE}", True),
    "what comes behind pending is not acknowledged": (BEGUN + PENDING + ANSWERED + REST + MINUTE,
        "stuck (waits for the acknowledgement of snapshot 3..3, for 60 s)", True),
    "active does not come behind that": (BEGUN + PENDING + ANSWERED + REST + ACKNOWLEDGED + MINUTE,
        f"stuck (SET_VBUCKET_STATE(pending) was answered at 12:00:00.020{NO_ACTIVE}", True),
    "active is not answered": (BEGUN + PENDING + ANSWERED + ACTIVE + MINUTE,
        "stuck (waits for the answer to SET_VBUCKET_STATE, for 60 s)", True),
    "no end comes": (OPEN + DONE + MINUTE,
        "stuck (SET_VBUCKET_STATE(active) was answered at 12:00:00.022, no STREAM_END, for 60 s)", True),
    "the source may still read from disk": (BEGUN + MINUTE,
        "quiet (nothing for 60 s; all of snapshot 0..1 came; NOOPs are answered)", False),
    "no takeover": (OPEN + NO_TAKEOVER + LAST + ACKNOWLEDGED + MINUTE,
        "quiet (nothing for 60 s; all of snapshot 2..2 came; NOOPs are answered)", False),
    "no takeover, with a state": (OPEN + NO_TAKEOVER + LAST + ACKNOWLEDGED + PENDING + ANSWERED + MINUTE,
        "quiet (nothing for 60 s; all of snapshot 2..2 came; NOOPs are answered)", False),
    "its consumer closes it": (BEGUN + PENDING + ANSWERED + "TX close-stream{vb=5}\n" + MINUTE,
        "quiet (nothing for 60 s; all of snapshot 0..1 came; NOOPs are answered)", False),
    "blocked by flow control": (WINDOW + TAKEOVER + DISK + PENDING + ANSWERED + MINUTE,
        "blocked by flow control (146 of 100 bytes not acknowledged since 12:00:00.017)", True),
    "reset before pending": (BEGUN + RESET, f"{RESET_AT}20.019{UNFINISHED}(pending) did not come{ABANDONED}", True),
    "reset before pending was answered": (BEGUN + PENDING + RESET,
        f"{RESET_AT}20.020{UNFINISHED}(pending) was not answered{ABANDONED}", True),
    "reset before active": (BEGUN + PENDING + ANSWERED + RESET,
        f"{RESET_AT}20.021{UNFINISHED}(pending) was answered at 12:00:00.020, active did not come{ABANDONED}", True),
    "reset before active was answered": (BEGUN + PENDING + ANSWERED + ACTIVE + RESET,
        f"{RESET_AT}20.022{UNFINISHED}(active) was not answered{ABANDONED}", True),
    "no takeover, and reset": (OPEN + "STREAM vb=5\n" + DISK + RESET, f"{RESET_AT}20.019, no STREAM_END{ABANDONED}",
        True),
    "reset behind the hand-over": (OPEN + DONE + "WAIT 20\nRST RX\n", "taken over (no STREAM_END was captured)", False),
    "pending may be lost": (BEGUN + LAST + ACKNOWLEDGED + "-" + PENDING + ANSWERED + REST + ACKNOWLEDGED + MINUTE,
        "unknown (snapshot 3..3 is acknowledged, SET_VBUCKET_STATE(pending) did not come, for 60 s; 25 bytes of the "
        "connection were lost)", False),
    "the answer to pending may be lost": (
        BEGUN + PENDING + "-" + ANSWERED + REST + ACKNOWLEDGED + MORE + ACKNOWLEDGED + MINUTE,
        "unknown (waits for the answer to SET_VBUCKET_STATE, for 60 s; 24 bytes of the connection were lost)", False),
    "an acknowledgement may be lost": (
        BEGUN + LAST + "-" + ACKNOWLEDGED + REST + ACKNOWLEDGED + MORE + ACKNOWLEDGED + MINUTE,
        "unknown (waits for the acknowledgement of snapshot 4..4, for 60 s; 24 bytes of the connection were lost)",
        False),
    "a marker may be lost": (BEGUN + PENDING + ANSWERED + "-" + REST + "RX mutation{seqno=4}\n" + MINUTE,
        "unknown (nothing for 60 s; bytes were lost since its snapshot marker)", False),
    "active may be lost": (BEGUN + LAST + ACKNOWLEDGED + PENDING + ANSWERED + "-" + ACTIVE + MINUTE,
        "unknown (nothing for 60 s, but 25 bytes of the connection were lost)", False),
    "bytes were lost, and active was set": (
        BEGUN + PENDING + "-" + ANSWERED + REST + ACKNOWLEDGED + ACTIVE + ANSWERED + MINUTE,
        "taken over (no STREAM_END was captured)", False),
    "bytes were lost, and it was reset": (BEGUN + PENDING + ANSWERED + "-" + ACTIVE + "RX noop{}\nRST RX\n",
        f"{RESET_AT}00.023, no STREAM_END was captured; whether it was reopened is unknown: 25 bytes of the "
        "connection were lost)", False),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said", "trouble"), CASES.values(), ids=CASES)
def test_a_takeover_says_what_it_waits_for(text: str, said: str, trouble: bool) -> None:
    kept = damaged(text)
    verdict = Judge(kept).verdict(only(kept))
    assert (verdict.text, verdict.trouble) == (said, trouble)


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
