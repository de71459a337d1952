"""Durable writes that a replica acknowledges late: how late, and each wait once."""

import pytest

from tests.support.conversation import findings, findings_of, opening, packets, said
from tests.test_bounds import steps

OPEN = opening(name="replication:n1", controls="enable_sync_writes=true, consumer_name=n2")
TWO = "RX snapshot-marker{start=1, end=3, flags=0x5}\nRX prepare{seqno=1, key=a}\nRX prepare{seqno=2, key=b}\n"
ACKED, NOOP = "TX seqno-acknowledged{prepared-seqno=%d}\n", "RX noop\nTX noop-response{success}\n"
ENDED = "RX stream-end{status=2}\n"


@pytest.mark.parametrize(
    ("conversation", "messages"),
    [
        (TWO + "WAIT 9\n" + ACKED % 2 + "WAIT 60\n" + NOOP, []),
        (TWO + "WAIT 12\n" + ACKED % 2 + "WAIT 60\n" + NOOP, ["PREPARE seqno 1 was acknowledged after 12 s"]),
        (TWO + "WAIT 12\n" + ACKED % 1 + "WAIT 60\n" + ACKED % 2, ["PREPARE seqno 1 was acknowledged after 12 s"]),
        (TWO + "WAIT 60\n" + NOOP * 70 + "WAIT 60\n" + NOOP, ["PREPARE seqno 1 was not acknowledged in 120 s"]),
        (TWO + "WAIT 12\n" + ENDED + "WAIT 60\n" + NOOP, ["PREPARE seqno 1 was not acknowledged in 12 s"]),
    ],
)
def test_an_acknowledgement_that_comes_late_says_how_late(conversation: str, messages: list[str]) -> None:
    found = findings(OPEN + "STREAM vb=5\n" + conversation)
    assert [each.message for each in found if each.rule.id == "D8"] == messages


def test_however_many_wait_each_takes_a_few_steps() -> None:
    def work(count: int) -> int:
        marker = f"RX snapshot-marker{{start=1, end={count}, flags=0x5}}\n"
        sent = "".join(f"RX prepare{{seqno={seqno}, key=k{seqno}}}\n" for seqno in range(1, count + 1))
        captured = packets(said(OPEN + "STREAM vb=5\n" + marker + sent + "WAIT 12\n" + acknowledged(count)))
        return steps(lambda: findings_of(captured))

    def acknowledged(count: int) -> str:
        return "".join(ACKED % seqno for seqno in range(1, count + 1))

    once, twice, four = map(work, (150, 300, 600))
    assert four - twice <= 2.2 * (twice - once)
