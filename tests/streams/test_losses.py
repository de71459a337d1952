"""What cannot be known where something was not captured: each way to a wrong statement, as a small conversation."""

import random

import pytest

from dcpdump.streams.causes import Cause, Reason
from dcpdump.streams.flow import FlowEvidence, FlowState, FlowStatus, flow_status
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.rollbacks import WhyUnknown as Why
from dcpdump.streams.rollbacks import find_rollbacks
from dcpdump.streams.verdict import Judge
from tests.support.conversation import opening
from tests.support.damage import WAYS
from tests.support.ledgers import captured, damaged, judged, ledger_of

SIZE = 1000
LIMITED = opening(controls=f"connection_buffer_size={SIZE}") + "STREAM vb=5\n"
MINUTE = "WAIT 60\nRX noop{}\nTX noop-response{success}\n"
ITEMS = "RX snapshot-marker{start=0, end=9, flags=5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"
ACK = "TX buffer-acknowledgement{buffer-bytes=%d}\n"
NODE, OTHER_NODE = "10.0.0.1:11210", "10.0.0.2:11210"
BEGINS = "----\n"
OWED = "RX snapshot-marker{start=0, end=1, flags=8}\nRX mutation{seqno:1}\n"


def stands(kept: Ledger) -> FlowStatus:
    (connection,) = kept.connections.values()
    return flow_status(connection, kept.last_ns)


# -- flow control -------------------------------------------------------------------------------------------


def test_a_lost_control_may_have_asked_for_flow_control() -> None:
    begun = opening() + "%sTX control{key=connection_buffer_size, value=1000}\n%sRX control-response{success}\n"
    begun += "STREAM vb=5\n" + ITEMS
    assert stands(damaged(begun % ("-", ""))) == FlowStatus(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    lost = opening() + "STREAM vb=5\n" + ITEMS + "-RX mutation{seqno:3}\nRX mutation{seqno:4}\n"
    assert stands(damaged(lost)) == FlowStatus(FlowState.OFF, FlowEvidence.INFERRED)


def test_what_came_before_the_first_acknowledgement_of_a_late_capture_may_be_acknowledged() -> None:
    late = LIMITED + BEGINS + ITEMS + "-" + ACK % 150 + "RX mutation{seqno:3}\n" + ACK % 10 + "RX mutation{seqno:4}\n"
    kept = damaged(late)
    window = kept.connections[0].window
    mutation = kept.streams[0].traffic.size - 44  # of the marker
    assert (window.complete, window.outstanding, window.counted.sent) == (False, mutation // 4, 44 + mutation)


def test_messages_that_come_behind_their_acknowledgement_are_not_outstanding() -> None:
    window = damaged(LIMITED + ITEMS).connections[0].window
    sent, time = window.outstanding, 10_000
    for ack_ns in (time, time + 5):
        window.acknowledges(sent, ack_ns)
    window.lose(100, time - 5, acks=False)
    window.sends(0x57, 60, 0, time - 5)
    window.sends_run([(0x57, 2, 120)], 0, time - 4, time - 3)
    assert (window.outstanding, window.counted.sent) == (0, sent + 180)
    window.sends(0x57, 60, 0, time + 6)
    assert window.outstanding == 60


# -- asking again -------------------------------------------------------------------------------------------


def moved(lost: str, name: str = "app", where: str = f"10.0.0.9:40001 {OTHER_NODE}", status: str = "success") -> str:
    """Return two connections; a stream of the first ends, and is requested on the second with what may be lost."""
    again = f"{lost}TX stream-request{{vb=5, start-seqno=2, snap-start-seqno=2, snap-end-seqno=2}}\n"
    again += f"{lost}RX stream-request-response{{{status}}}\n"
    return (
        f"CONNECT 10.0.0.9:40000 {NODE}\n{opening()}CONNECT {where}\n{opening(name=name)}ON 0\nSTREAM vb=5\n"
        f"RX snapshot-marker{{start=0, end=2, flags=5}}\nRX mutation{{seqno:2}}\nRX stream-end{{status=2}}\n"
        f"ON 1\n{again}{MINUTE}"
    )


HAD = "RX snapshot-marker{vb=5, start=0, end=2, flags=5}\nRX mutation{seqno:2}\n"
ENDS, ASKED = "RX stream-end{vb=5, status=2}\n", "TX stream-request{vb=5, start=9}\nRX %s\n"
BEFORE = moved("").replace("ON 0\n", "-RX noop{}\nRX noop{}\nTX noop-response{success}\nON 0\n")
REFUSED = moved("-").replace("STREAM vb=5\n", ASKED)
REFUSED = REFUSED[: REFUSED.index("RX snapshot")] + REFUSED[REFUSED.index("ON 1") :]
#: A vbucket moves away and back: the connection to its first node lost the end of the first stream.
BACK = f"CONNECT 10.0.0.9:40000 {NODE}\n{opening()}STREAM vb=5\n{HAD}-{ENDS}RX noop{{}}\nTX noop-response{{success}}\n"
BACK += f"CONNECT 10.0.0.9:40001 {OTHER_NODE}\n{opening()}STREAM vb=5\n{HAD}{ENDS}ON 0\nSTREAM vb=5\n{HAD}{MINUTE}"
CLOSED = "TX close-stream{vb=5}\nRX close-stream-response{success}\n-RX noop{}\nRX stream-end{vb=5, status=1}\n"
ONE, GRANTED, ELSEWHERE = (
    "opaque=0xdddddddd",
    "stream-request-response{success%s}",
    "stream-request-response{notmyvbucket%s}",
)
TWO_OF_ONE = f"TX stream-request{{vb=1, {ONE}}}\n{BEGINS}TX stream-request{{vb=2, {ONE}}}\n"
OF_ONE = f"RX {ELSEWHERE % f', {ONE}'}\nRX {GRANTED % f', {ONE}'}\n"
TWO_OF_OWN = f"TX stream-request{{vb=1, opaque=7}}\n{BEGINS}TX stream-request{{vb=2, opaque=8}}\n"
OF_OWN = f"RX {GRANTED % ', opaque=7'}\nRX {ELSEWHERE % ', opaque=8'}\n"
#: What is said of the first stream that is named, of those in the capture.
CASES = {
    "silent in a snapshot": (LIMITED + ITEMS + MINUTE, 0,
        "wrong: stuck (in the middle of snapshot 0..9, at seqno 2, for 60 s)"),
    "silent, and the window is not known": (LIMITED + BEGINS + ITEMS + MINUTE, 0,
        "unknown: unknown (in the middle of snapshot 0..9, at seqno 2, for 60 s; it may be blocked by flow control: "
        "the buffer size was not captured)"),
    "silent, and the consumer owes an acknowledgement": (LIMITED + BEGINS + OWED + MINUTE, 0,
        "wrong: stuck (waits for the acknowledgement of snapshot 0..1, for 60 s)"),
    "reopened on another connection": (moved(""), 0,
        "ended (StateChanged (2) at 12:00:00.025; reopened on connection 1 at 12:00:00.026)"),
    "a request on another connection may be lost": (moved("-"), 0,
        "unknown: ended (StateChanged (2) at 12:00:00.025; whether it was reopened is unknown: 112 bytes of "
        "connection 1 were lost)"),
    "another consumer lost something": (moved("-", name="indexer"), 0,
        "unknown: ended (StateChanged (2) at 12:00:00.025; not requested again here in 60 s: another node may know, "
        "and this capture has no connection of its client to one)"),
    "a consumer of that name on another host lost something": (moved("-", where=f"10.0.0.8:40001 {OTHER_NODE}"), 0,
        "unknown: ended (StateChanged (2) at 12:00:00.025; whether it was reopened is unknown: 112 bytes of "
        "connection 1 were lost)"),
    "one between the same hosts lost something": (moved("-", name="indexer", where=f"10.0.0.9:40001 {NODE}"), 0,
        "unknown: ended (StateChanged (2) at 12:00:00.025; whether it was reopened is unknown: 112 bytes of "
        "connection 1 were lost)"),
    "something was lost before it ended": (BEFORE[: BEFORE.index("ON 1")] + MINUTE, 0,
        "wrong: ended (StateChanged (2) at 12:00:00.028; abandoned: not requested again in 60 s)"),
    "rolled back, and the next request may be lost": (REFUSED % "stream-request-response{rollback, rollback-seqno=2}",
        0,
        "unknown: rolled back (to 2; whether it was requested again is unknown: 112 bytes of connection 1 were lost)"),
    "refused, and the next request may be lost": (REFUSED % ELSEWHERE % "", 0,
        "unknown: refused (NotMyVbucket 0x07: the vbucket is not on this server, or not in a state that may be "
        "streamed; whether it was requested again is unknown: 112 bytes of connection 1 were lost)"),
    "the end of the first may be lost": (BACK, 0,
        "ended (another was granted in its place; no STREAM_END was captured; reopened)"),
    "and the second was not open all along": (BACK, 1,
        "ended (StateChanged (2) at 12:00:00.032; reopened on connection 0 at 12:00:00.033)"),
    "nor is the third the first": (BACK, 2, "quiet (nothing for 60 s; all of snapshot 0..2 came; NOOPs are answered)"),
    "the end of one that was closed": (opening() + "STREAM vb=5\n" + HAD + CLOSED + MINUTE, 0,
        "ended (Closed (1) at 12:00:00.018)"),
    "an answer may be that of a request before the capture": (opening() + TWO_OF_ONE + OF_ONE + MINUTE, 0,
        "unknown: unknown (the capture starts late: which answer is its own, if one was captured, is unknown)"),
    "an answer with an opaque of its own": (opening() + TWO_OF_OWN + OF_OWN + MINUTE, 0,
        "unknown: refused (NotMyVbucket 0x07: the vbucket is not on this server, or not in a state that may be "
        "streamed; not requested again here: another node may know, and this capture has no connection of its "
        "client to one)"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "number", "said"), CASES.values(), ids=CASES)
def test_what_may_be_lost_is_not_known(text: str, number: int, said: str) -> None:
    assert judged(text)[number] == said


def test_a_rollback_that_may_be_lost_or_the_answer_to_another_request_has_no_reason() -> None:
    (lost,) = find_rollbacks(damaged(CASES["rolled back, and the next request may be lost"][0]))
    assert lost.lost is not None
    assert lost.lost.reason is Reason.BYTES_LOST
    asked = f"TX stream-request{{vb=1, start=9, {ONE}}}\n{BEGINS}TX stream-request{{vb=2, start=9, {ONE}}}\n"
    answers = f"RX stream-request-response{{rollback, rollback-seqno=2, {ONE}}}\n" * 2
    (found,) = find_rollbacks(damaged(opening() + asked + answers))
    assert found.explanation.cause is Why.REQUEST


def test_no_retry_waits_for_an_answer_that_the_one_before_it_was_given() -> None:
    refused = "WAIT 3\nTX stream-request{vb=5, start=6}\nRX stream-request-response{etmpfail}\n"
    granted = "STREAM vb=5, start=6\nRX snapshot-marker{start=7, end=8, flags=0x5}\nRX mutation{seqno:7}\n"
    whole = captured(opening() + refused * 20 + granted + "RX mutation{seqno:8}\n" + MINUTE)
    for seed in range(40):
        judge = Judge(ledger_of(WAYS["shifted and lossy"](whole, random.Random(seed))))
        waits = [judge.verdict(stream) for stream in judge.ledger.streams]
        assert [each.why for each in waits if each.trouble and each.cause is Cause.NOT_ANSWERED] == []
