"""Flow control and keep-alive: what is judged in late captures, and what the order of capture explains."""

import pytest

from tests.streams.test_flow_state import MINUTE, slow_consumer
from tests.support.check_cases import MEMORY, PLAIN, STREAM, WINDOW, items
from tests.support.conversation import NOOPS, findings, findings_of, packets, said

FLOWING = WINDOW + STREAM + "RX snapshot-marker{start=0, end=90, flags=0x5}\n"


EVERY_20_S = "CONTROL set_noop_interval=20\n"


def brief(text: str, begin: int = 0) -> list[tuple[str, str, str]]:
    """Return rule, severity and message of what is found in a conversation, captured from a packet on."""
    found = findings_of(packets(said(text))[begin:])
    return [(each.rule.code, each.severity.value, each.message) for each in found]


def test_an_acknowledgement_while_flow_control_is_off_is_found_and_counts_for_nothing() -> None:
    off = FLOWING + items(1, 3) + "CONTROL connection_buffer_size=0\nTX buffer-acknowledgement{buffer-bytes=44}\n"
    assert brief(off) == [("DCP507", "suspicious", "acknowledges bytes, and flow control is off")]


def test_an_acknowledgement_captured_before_the_success_that_it_follows_is_not_found() -> None:
    text = PLAIN + "TX control{key=connection_buffer_size, value=1000, opaque=0x77}\n"
    text += "TX buffer-acknowledgement{buffer-bytes=0}\nRX control-response{success, opaque=0x77}\n"
    assert brief(text) == []


def test_a_producer_that_continues_slowly_in_a_full_window_is_found_as_flow_finds_it() -> None:
    full = FLOWING + items(1, 17) + "WAIT 1\n" + items(18, 18)
    assert brief(full) == []
    assert brief(full + "WAIT 1\n" + items(19, 19)) == [
        ("DCP503", "suspicious", "1,079 bytes wait for acknowledgement, the window has 1,000: 2 messages more")
    ]


def test_a_producer_that_was_blocked_before_is_found_blocked_in_a_late_capture() -> None:
    text = slow_consumer() + MINUTE + MINUTE
    late = [each for each in brief(text, 30) if each[0] == "DCP505"]
    assert [(code, severity) for code, severity, _ in late] == [("DCP505", "suspicious")]
    assert late[0][2].startswith("relative, inferred: at least ")
    assert [each for each in brief(slow_consumer(), 30) if each[0] == "DCP505"] == []


def test_a_noop_that_was_not_answered_is_found_in_a_late_capture() -> None:
    text = PLAIN + STREAM + MEMORY + "RX mutation{seqno=1}\nTX get-failover-log{vb=5}\nRX noop{opaque=0x99}\nWAIT 70\n"
    text += "RX mutation{seqno=2}\n"
    at = len(packets(said(text))) - 5
    assert [each[:2] for each in brief(text, at) if each[0] == "DCP511"] == [("DCP511", "violation")]


@pytest.mark.parametrize("direction", [0, 1])
def test_where_one_direction_was_not_captured_nothing_is_said_of_noops(direction: int) -> None:
    text = PLAIN + STREAM + MEMORY + "RX noop{opaque=0x99}\nTX noop-response{success}\nWAIT 70\n"
    text += "RX noop{opaque=0x9a}\nTX noop-response{success}\n"
    captured = packets(said(text))
    client = captured[0].data[26:30]
    half = [packet for packet in captured if (packet.data[26:30] == client) is (direction == 0)]
    assert [each for each in findings_of(half) if each.rule.code in ("DCP511", "DCP512", "DCP513")] == []


def test_a_noop_whose_answer_may_be_among_lost_bytes_is_not_judged() -> None:
    text = PLAIN + STREAM + MEMORY + "RX noop{opaque=0x99}\nTX noop-response{success}\nWAIT 40\n"
    captured = packets(said(text + "TX get-failover-log{vb=5}\n"))
    torn = captured[:-2] + captured[-1:]
    assert [each for each in findings_of(torn) if each.rule.code == "DCP511" and not each.reason] == []


@pytest.mark.parametrize(
    ("controls", "seconds", "found"),
    [("", 50, False), ("", 380, True), (EVERY_20_S, 39, False), (EVERY_20_S, 50, True)],
)
def test_noops_are_missing_of_a_producer_that_sends_nothing_at_all(controls: str, seconds: int, found: bool) -> None:
    text = (
        PLAIN + controls + STREAM + MEMORY + "RX mutation{seqno=1}\n" + f"WAIT {seconds}\nTX get-failover-log{{vb=5}}\n"
    )
    assert ("DCP513" in [each[0] for each in brief(text)]) is found


def test_missing_noops_are_found_once_up_to_the_end_of_the_connection() -> None:
    text = PLAIN + EVERY_20_S + STREAM + "WAIT 380\nFIN TX\nFIN RX\n"
    assert [each for each in brief(text) if each[0] == "DCP513"] == [
        ("DCP513", "suspicious", "no NOOP for 380 s, the interval is 20 s")
    ]


@pytest.mark.parametrize(
    ("controls", "severity", "text"),
    [
        (EVERY_20_S, "suspicious", "no NOOP for 50 s, the interval is 20 s"),
        ("", "info", "no NOOP for 50 s, though enable_noop was accepted; an interval was not"),
    ],
)
def test_an_interval_is_named_only_where_one_was_accepted(controls: str, severity: str, text: str) -> None:
    sent = PLAIN + controls + STREAM + MEMORY + "WAIT 50\nRX mutation{seqno=1}\n"
    assert [each for each in brief(sent) if each[0] == "DCP513"] == [("DCP513", severity, text)]


def test_a_silence_is_odd_only_where_noops_are_on() -> None:
    text = STREAM + MEMORY + "WAIT 400\nRX mutation{seqno=1}\n"
    assert [each for each in brief(PLAIN + text) if each[0] == "DCP515"] == [("DCP515", "info", "silent for 400 s")]
    refused = NOOPS.replace("CONTROL enable_noop=true", "TX control{key=enable_noop, value=true}")
    refused += "RX control-response{einval}\n"
    for controls in ("", refused):
        assert [each for each in brief(PLAIN.replace(NOOPS, controls) + text) if each[0] == "DCP515"] == []


def test_a_noop_captured_before_the_control_that_allows_for_it_is_not_found() -> None:
    asked = "TX control{key=enable_noop, value=true, opaque=0}\n"
    granted, noop = "RX control-response{success, opaque=0}\n", "RX noop{opaque=0x99}\n"
    first = "TX control{key=set_noop_interval, value=1, opaque=0}\n"
    without = PLAIN.replace(NOOPS, "")
    for order in (
        granted + noop + asked,
        granted + asked + noop,
        first + granted + granted + noop + asked,
        granted + granted + noop + asked + first,
    ):
        assert "DCP514" not in [each.rule.code for each in findings(without + order)]


TOO_MUCH = "TX buffer-acknowledgement{buffer-bytes=271}\n"


@pytest.mark.parametrize(
    ("rest", "sent"),
    [
        ("", 215),
        ("WAIT 3600\n" + items(4, 80), 215),
        (items(4, 4) + "WAIT 3600\n" + items(5, 80), 215 + 57),
        ("RX noop{opaque=0x99}\nTX noop-response{success}\n" * 70 + items(4, 80), 215),
        ("WAIT 0.048\n" + items(4, 4), 215 + 57),
        ("WAIT 0.05\n" + items(4, 4), 215),
        ("WAIT 5\nCONTROL connection_buffer_size=0\n", 215),
    ],
)
def test_acknowledging_too_much_is_found_whatever_is_sent_much_later(rest: str, sent: int) -> None:
    found = [each for each in brief(FLOWING + items(1, 3) + TOO_MUCH + rest) if each[0] == "DCP504"]
    over = [("DCP504", "violation", f"271 bytes acknowledged, {sent} were sent")]
    assert found == (over if sent < 271 else [])


def test_what_was_acknowledged_too_much_before_bytes_were_lost_is_not_judged() -> None:
    captured = packets(said(FLOWING + items(1, 3) + TOO_MUCH + "WAIT 5\n" + items(4, 80)))
    del captured[-70]
    assert [each for each in findings_of(captured) if each.rule.code == "DCP504" and not each.reason] == []


def test_each_acknowledgement_of_too_much_is_found_once() -> None:
    text = FLOWING + items(1, 3) + TOO_MUCH + "WAIT 5\n" + items(4, 4)
    text += "TX buffer-acknowledgement{buffer-bytes=60}\nTX buffer-acknowledgement{buffer-bytes=1}\nWAIT 5\n"
    assert [each[2] for each in brief(text + items(5, 80)) if each[0] == "DCP504"] == [
        "271 bytes acknowledged, 215 were sent",
        "276 bytes acknowledged, 272 were sent",
    ]
