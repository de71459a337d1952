"""What cannot be known where something was not captured: each way to a wrong statement, as a small conversation."""

from dcpdump.streams.causes import Cause, Reason, Verdict, VerdictKind
from dcpdump.streams.explanation import NoClause as Why
from dcpdump.streams.flow_state import FlowEvidence, FlowState, Standing, standing
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.rollback import rollbacks
from dcpdump.streams.situations import Situation
from dcpdump.streams.verdict import Judge
from tests.support.conversation import opening
from tests.support.ledgers import damaged

SIZE = 1000
LIMITED = opening(controls=f"connection_buffer_size={SIZE}") + "STREAM vb=5\n"
MINUTE = "WAIT 60\nRX noop{}\nTX noop-response{success}\n"
ITEMS = "RX snapshot-marker{start=0, end=9, flags=5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"
ACK = "TX buffer-acknowledgement{buffer-bytes=%d}\n"
NODE, OTHER_NODE = "10.0.0.1:11210", "10.0.0.2:11210"
BEGINS = "----\n"


def judged(kept: Ledger) -> list[Verdict]:
    judge = Judge(kept)
    return [judge.verdict(stream) for stream in kept.streams]


def kinds(text: str) -> list[tuple[VerdictKind, Cause | Reason]]:
    return [(each.kind, each.cause) for each in judged(damaged(text))]


def stands(kept: Ledger) -> Standing:
    (connection,) = kept.connections.values()
    return standing(connection, kept.last_ns)


# -- flow control -------------------------------------------------------------------------------------------


def test_where_the_window_is_not_known_a_silent_producer_may_be_blocked() -> None:
    (whole,), (late,) = judged(damaged(LIMITED + ITEMS + MINUTE)), judged(damaged(LIMITED + BEGINS + ITEMS + MINUTE))
    assert (whole.kind, whole.cause, whole.trouble) == (VerdictKind.STUCK, Cause.SNAPSHOT_INCOMPLETE, True)
    assert late._replace(lag=None) == Verdict(
        VerdictKind.UNKNOWN,
        Reason.FLOW_CONTROL,
        "in the middle of snapshot 0..9, at seqno 2, for 60 s; it may be blocked by flow control: the buffer size was "
        "not captured",
    )


def test_a_consumer_that_owes_an_acknowledgement_is_not_excused_by_flow_control() -> None:
    marker = "RX snapshot-marker{start=0, end=1, flags=8}\nRX mutation{seqno:1}\n"
    assert kinds(LIMITED + BEGINS + marker + MINUTE) == [(VerdictKind.STUCK, Cause.SNAPSHOT_NOT_ACKNOWLEDGED)]


def test_a_lost_control_may_have_asked_for_flow_control() -> None:
    begun = opening() + "%sTX control{key=connection_buffer_size, value=1000}\n%sRX control-response{success}\n"
    begun += "STREAM vb=5\n" + ITEMS
    assert stands(damaged(begun % ("-", ""))) == Standing(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    lost = opening() + "STREAM vb=5\n" + ITEMS + "-RX mutation{seqno:3}\nRX mutation{seqno:4}\n"
    assert stands(damaged(lost)) == Standing(FlowState.OFF, FlowEvidence.INFERRED)


def test_what_came_before_the_first_acknowledgement_of_a_late_capture_may_be_acknowledged() -> None:
    late = LIMITED + BEGINS + ITEMS + "-" + ACK % 150 + "RX mutation{seqno:3}\n" + ACK % 10 + "RX mutation{seqno:4}\n"
    kept = damaged(late)
    window = kept.connections[0].window
    mutation = kept.streams[0].size - 44  # of the marker
    assert (window.complete, window.outstanding, window.sent) == (False, mutation // 4, 44 + mutation)


def test_messages_that_come_behind_their_acknowledgement_are_not_outstanding() -> None:
    window = damaged(LIMITED + ITEMS).connections[0].window
    sent, time = window.outstanding, 10_000
    for ack_ns in (time, time + 5):
        window.acknowledges(sent, ack_ns)
    window.lose(100, time - 5, acks=False)
    window.sends(0x57, 60, 0, time - 5)
    window.sends_run([(0x57, 2, 120)], 0, time - 4, time - 3)
    assert (window.outstanding, window.sent) == (0, sent + 180)
    window.sends(0x57, 60, 0, time + 6)
    assert window.outstanding == 60


# -- asking again -------------------------------------------------------------------------------------------


def moved(lost: str, name: str = "app", where: str = f"10.0.0.9:40001 {OTHER_NODE}", status: str = "success") -> str:
    """Return two connections; a stream of the first ends, and is asked for on the second with what may be lost."""
    again = f"{lost}TX stream-request{{vb=5, start-seqno=2, snap-start-seqno=2, snap-end-seqno=2}}\n"
    again += f"{lost}RX stream-request-response{{{status}}}\n"
    return (
        f"CONNECT 10.0.0.9:40000 {NODE}\n{opening()}CONNECT {where}\n{opening(name=name)}ON 0\nSTREAM vb=5\n"
        f"RX snapshot-marker{{start=0, end=2, flags=5}}\nRX mutation{{seqno:2}}\nRX stream-end{{status=2}}\n"
        f"ON 1\n{again}{MINUTE}"
    )


def test_a_request_that_opens_a_stream_again_may_be_lost_on_another_connection_of_its_consumer() -> None:
    assert kinds(moved(""))[0] == (VerdictKind.ENDED, Cause.REOPENED)
    assert judged(damaged(moved("-")))[0]._replace(lag=None) == Verdict(
        VerdictKind.ENDED,
        Reason.BYTES_LOST,
        "StateChanged (2) at 12:00:00.025; whether it was reopened is unknown: 112 bytes of connection 1 were lost",
        Situation.ENDED,
    )


def test_what_another_consumer_lost_hides_no_request_of_this_one() -> None:
    assert kinds(moved("-", name="indexer"))[0] == (VerdictKind.ENDED, Reason.OTHER_NODES)
    assert kinds(moved("-", where=f"10.0.0.8:40001 {OTHER_NODE}"))[0] == (VerdictKind.ENDED, Reason.OTHER_NODES)
    same_hosts = moved("-", name="indexer", where=f"10.0.0.9:40001 {NODE}")
    assert kinds(same_hosts)[0] == (VerdictKind.ENDED, Reason.BYTES_LOST)


def test_a_loss_before_a_stream_ended_hides_no_request_for_it() -> None:
    before = moved("").replace("ON 0\n", "-RX noop{}\nRX noop{}\nTX noop-response{success}\nON 0\n")
    before = before[: before.index("ON 1")] + MINUTE
    assert kinds(before)[0] == (VerdictKind.ENDED, Cause.ABANDONED)


def test_whether_a_refused_request_was_repeated_is_not_known_after_a_loss_of_its_consumer() -> None:
    text = moved("-").replace("STREAM vb=5\n", "TX stream-request{vb=5, start=9}\nRX ANSWER\n")
    text = text[: text.index("RX snapshot")] + text[text.index("ON 1") :]
    back = text.replace("ANSWER", "stream-request-response{rollback, rollback-seqno=2}")
    (verdict, *_), (found,) = judged(damaged(back)), rollbacks(damaged(back))
    unknown = "whether it was asked for again is unknown: 112 bytes of connection 1 were lost"
    assert verdict == Verdict(VerdictKind.ROLLED_BACK, Reason.BYTES_LOST, f"to 2; {unknown}", Situation.ROLLED_BACK)
    assert found.lost is not None
    assert found.lost.reason is Reason.BYTES_LOST
    refused = judged(damaged(text.replace("ANSWER", "stream-request-response{notmyvbucket}")))[0]
    assert (refused.kind, refused.cause, refused.trouble) == (VerdictKind.REFUSED, Cause.NOT_MY_VBUCKET, False)
    assert refused.why.endswith(unknown)


HAD = "RX snapshot-marker{vb=5, start=0, end=2, flags=5}\nRX mutation{seqno:2}\n"
ENDS = "RX stream-end{vb=5, status=2}\n"


def test_a_stream_whose_end_was_lost_was_not_open_all_along() -> None:
    """A vbucket moves away and back: the connection to its first node lost the end of the first stream."""
    text = (
        f"CONNECT 10.0.0.9:40000 {NODE}\n{opening()}STREAM vb=5\n{HAD}-{ENDS}RX noop{{}}\nTX noop-response{{success}}\n"
        f"CONNECT 10.0.0.9:40001 {OTHER_NODE}\n{opening()}STREAM vb=5\n{HAD}{ENDS}ON 0\nSTREAM vb=5\n{HAD}{MINUTE}"
    )
    first, second, third = kinds(text)
    assert (first, third) == ((VerdictKind.ENDED, Cause.REPLACED), (VerdictKind.QUIET, Cause.IDLE))
    assert second == (VerdictKind.ENDED, Cause.REOPENED)


def test_the_end_of_a_stream_that_was_closed_belongs_to_it_whatever_was_lost_between() -> None:
    closed = "TX close-stream{vb=5}\nRX close-stream-response{success}\n-RX noop{}\nRX stream-end{vb=5, status=1}\n"
    assert kinds(opening() + "STREAM vb=5\n" + HAD + closed + MINUTE) == [(VerdictKind.ENDED, Cause.CLOSED)]


# -- answers ------------------------------------------------------------------------------------------------

ONE = "opaque=0xdddddddd"


def test_of_one_opaque_for_all_streams_an_answer_may_be_that_of_a_request_before_the_capture() -> None:
    asked = "".join(f"{begins}TX stream-request{{vb={vb}, {ONE}}}\n" for vb, begins in ((1, ""), (2, BEGINS)))
    answers = f"RX stream-request-response{{notmyvbucket, {ONE}}}\nRX stream-request-response{{success, {ONE}}}\n"
    (verdict,) = judged(damaged(opening() + asked + answers + MINUTE))
    assert (verdict.kind, verdict.cause) == (VerdictKind.UNKNOWN, Reason.STARTS_LATE)


def test_a_rollback_that_may_be_the_answer_to_another_request_is_not_explained() -> None:
    asked = f"TX stream-request{{vb=1, start=9, {ONE}}}\n{BEGINS}TX stream-request{{vb=2, start=9, {ONE}}}\n"
    answers = f"RX stream-request-response{{rollback, rollback-seqno=2, {ONE}}}\n" * 2
    (found,) = rollbacks(damaged(opening() + asked + answers))
    assert found.explanation.cause is Why.REQUEST


def test_an_opaque_of_its_own_says_a_requests_answer_in_any_capture() -> None:
    asked = f"TX stream-request{{vb=1, opaque=7}}\n{BEGINS}TX stream-request{{vb=2, opaque=8}}\n"
    answers = "RX stream-request-response{success, opaque=7}\nRX stream-request-response{notmyvbucket, opaque=8}\n"
    assert kinds(opening() + asked + answers + MINUTE) == [(VerdictKind.REFUSED, Cause.NOT_MY_VBUCKET)]
