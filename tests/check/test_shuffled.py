"""Captures whose two directions are shifted against one another have no finding that the talk does not have."""

from collections import Counter

import pytest

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
from tests.support.check_cases import PLAIN
from tests.support.conversation import findings, findings_of, packets, said
from tests.support.habits import HABITS
from tests.support.healthy import HEALTHY
from tests.support.shuffling import LONG, Shift, joined, shifted, shifts

TALKS = {**HABITS, **HEALTHY, **{f"long: {name}": text for name, text in LONG.items()}}
#: What flow control is held to has an account of its own, with its own bounds.
_FLOW = {"DCP503", "DCP504"}


def judged(found: list[Finding]) -> Counter[tuple[str, Severity]]:
    """Return how often rules found what is a violation, or suspicious."""
    odd = (Severity.VIOLATION, Severity.SUSPICIOUS)
    return Counter((each.rule.code, each.severity) for each in found if each.severity in odd)


@pytest.mark.parametrize("size", [0, 1448, 60_000], ids=["a frame a packet", "segments", "large segments"])
@pytest.mark.parametrize("name", TALKS)
def test_nothing_is_found_because_one_direction_was_captured_late(name: str, size: int) -> None:
    frames = said(TALKS[name])
    captured = packets(joined(frames, size) if size else frames, 1 << 20)
    before = judged(findings_of(captured))
    for shift in shifts(8):
        new = judged(findings_of(shifted(captured, shift))) - before
        assert {code for code, _ in new} <= _FLOW, shift


TWICE = PLAIN + "RX noop{opaque=1}\nWAIT 2\nRX noop{opaque=2}\n"
ANSWER = "TX noop-response{success}\n"


def test_what_depends_on_the_order_of_both_directions_is_unknown_where_that_is_not_known() -> None:
    answered = TWICE.replace("WAIT 2\n", "WAIT 2\n" + ANSWER) + ANSWER
    late = shifted(packets(said(answered)), Shift(0, 2, steady=True, stamped=True, seed=1))
    reason = "bytes were acknowledged before they were captured: the order of both directions is not known"
    assert [(each.rule.code, each.severity, each.reason) for each in findings_of(late)] == [
        ("DCP512", Severity.UNKNOWN, reason)
    ]


def test_where_the_order_is_known_it_is_a_finding() -> None:
    assert judged(findings(TWICE)) == {("DCP512", Severity.SUSPICIOUS): 1}
    assert judged(findings(TWICE.replace("WAIT 2\n", ANSWER + "WAIT 2\n"))) == {}


def test_a_request_without_an_answer_is_found_in_a_shifted_capture_too() -> None:
    text = PLAIN + "TX get-failover-log{vb=5}\nWAIT 40\n" + "RX noop\nTX noop-response{success}\n" * 3
    late = shifted(packets(said(text)), Shift(1, 2, steady=True, stamped=True, seed=1))
    assert ("DCP107", Severity.SUSPICIOUS) in judged(findings_of(late))
