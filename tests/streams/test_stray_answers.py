"""Answers for which no request came: they settle something while it may still come, and nothing from then on."""

import pytest

from dcpdump.streams.window import GRACE
from tests.support.conversation import findings, opening, packets, said
from tests.support.ledgers import captured, ledger, ledger_of, only, verdicts

OPEN = opening(name="replication:a->b", controls="enable_sync_writes=true, consumer_name=b")
TAKEOVER = "STREAM vb=5, flags=0x1\nRX snapshot-marker{start=2, end=2, flags=0xd}\nRX mutation{seqno=2}\n"
TAKEOVER += "TX snapshot-marker-response{success, opaque=0x1005}\n"
NOOPS = "RX noop{}\nTX noop-response{success}\n"
MINUTE = "WAIT 60\n" + NOOPS
CLOSED = "RX close-stream-response{success, opaque=0x77}\n"
CLOSE = "TX close-stream{vb=5, opaque=0x77}\n"
STUCK = "stuck (snapshot 2..2 is acknowledged, SET_VBUCKET_STATE(pending) did not come, for 60"


@pytest.mark.parametrize("frames", [0, GRACE // 2])
def test_a_stray_answer_to_close_stream_closes_no_stream(frames: int) -> None:
    for text in (TAKEOVER + CLOSED + NOOPS * frames, CLOSED + NOOPS * frames + TAKEOVER):
        (verdict,) = verdicts(OPEN + text + MINUTE)
        assert verdict.startswith(STUCK)


def test_an_answer_that_was_captured_a_few_packets_before_its_request_closes_the_stream() -> None:
    kept = ledger(OPEN + TAKEOVER + CLOSED + NOOPS * 3 + CLOSE + MINUTE)
    assert (only(kept).closed, only(kept).closing) == (True, True)


def test_while_its_request_may_still_come_every_stream_may_be_closed() -> None:
    ended = CLOSED + NOOPS * 5 + "RX stream-end{status=1}\n"
    later = CLOSED + NOOPS * GRACE + "RX stream-end{status=1}\n"
    began = OPEN.replace("consumer_name=b", "send_stream_end_on_client_close_stream=true") + "STREAM vb=5\n"
    assert [each.rule.id for each in findings(began + ended) if not each.reason] == ["F6"]
    assert [each.rule.id for each in findings(began + later) if not each.reason] == ["F6", "L12"]


@pytest.mark.parametrize(
    ("text", "closing"),
    [
        (OPEN + "STREAM vb=5\n----\nRX snapshot-marker{vb=5, start=2, end=2, flags=0xd}\n" + CLOSED, True),
        (OPEN + "----\nSTREAM vb=5\nRX snapshot-marker{start=2, end=2, flags=0xd}\n" + CLOSED, False),
        (OPEN + "STREAM vb=5\n-TX close-stream{vb=5, opaque=0x77}\n" + CLOSED, True),
        (OPEN + "STREAM vb=5\n-" + NOOPS.replace("\n", "\n-", 1) + CLOSED + "STREAM vb=6\n" + NOOPS, None),
    ],
    ids=["of a request before the capture", "of a stream that began in it", "of a lost request", "before a stream"],
)
def test_the_request_of_an_answer_may_be_missing(text: str, closing: bool | None) -> None:
    kept = ledger_of(captured(text + NOOPS * GRACE))
    found = {each.vbucket: each.closing for each in kept.streams}
    assert found == ({5: True, 6: False} if closing is None else {5: closing})


def test_a_stray_answer_to_a_control_leaves_the_controls_known() -> None:
    stray, request = "RX control-response{success, opaque=0x77}\n", "TX control{key=x, value=y, opaque=0x77}\n"
    began = opening() + "STREAM vb=5\nRX snapshot-marker{start=1, end=3, flags=0x5}\n"
    prepare = "RX prepare{seqno=1}\n"

    def found(text: str) -> list[str]:
        return [each.rule.id for each in findings(text) if each.rule.id == "D1"]

    assert found(began + prepare) == ["D1"]
    assert found(began + stray + NOOPS * GRACE + prepare) == ["D1"]
    assert found(began + stray + NOOPS + prepare) == []  # its request may be that of enable_sync_writes
    assert found(began + stray + NOOPS + request + prepare) == ["D1"]


def test_an_answer_waits_for_longer_than_many_frames_of_one_moment() -> None:
    items = "".join(f"RX mutation{{seqno={seqno}}}\n" for seqno in range(1, 4 * GRACE))
    grant = "RX stream-request-response{success, opaque=0x1005}\nRX snapshot-marker{start=0, end=999, flags=0x6}\n"
    captured_late = said(opening() + grant + items + "TX stream-request{vb=5, opaque=0x1005}\n")
    begun = captured_late[-1].ts_ns - 4 * GRACE * 1_000_000
    for apart_ns, granted in ((10_000, True), (1_000_000, False)):
        for at, frame in enumerate(captured_late[-4 * GRACE :]):
            frame.ts_ns = begun + at * apart_ns
        assert [each.granted for each in ledger_of(packets(captured_late)).streams if each.requests] == [granted]


def test_a_close_whose_answer_was_captured_early_closes_the_stream_that_was_there_then() -> None:
    text = opening(controls="send_stream_end_on_client_close_stream=true") + "STREAM vb=5, opaque=0x11\n"
    text += "RX snapshot-marker{start=0, end=1, flags=0x6}\nRX mutation{seqno=1}\n"
    text += CLOSED + "RX stream-end{status=1, opaque=0x11}\n"
    text += "RX stream-request-response{success, opaque=0x22}\n"
    text += "RX snapshot-marker{start=1, end=2, flags=0x6, opaque=0x22}\n"
    text += CLOSE + "TX stream-request{vb=5, start=1, opaque=0x22}\nRX mutation{seqno=2, opaque=0x22}\n"
    first, second = ledger(text).streams
    assert (first.closed, first.end is not None) == (True, True)
    assert (second.closed, second.closing, second.granted, second.seqnos.last) == (False, False, True, 2)


def test_a_close_whose_answer_was_captured_early_waits_for_no_other() -> None:
    kept = ledger(OPEN + "STREAM vb=5\nRX close-stream-response{keyenoent, opaque=0x77}\n" + CLOSE)
    assert (only(kept).close_asked, only(kept).closing) == (False, False)
