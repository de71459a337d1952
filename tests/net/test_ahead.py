"""Which end acknowledges bytes that were not captured by then: the order of both directions is not that of sending."""

import pytest

from dcpdump.batch.block import blocks
from dcpdump.net.event import AHEAD
from dcpdump.net.packet import Packet
from dcpdump.streams.dissection import Watching
from tests.support.check_cases import PLAIN
from tests.support.conversation import packets, said

ANSWERED = "RX noop\nTX noop-response{success}\n"


def ahead(captured: list[Packet], size: int = 1) -> list[tuple[int, int | None]]:
    """Return which directions are ahead, and when that shows. ``size``: about so many bytes are dissected at once."""
    dissection = Watching()
    dissection.watch(with_rules=False)
    for block in blocks(captured, size):
        for _ in dissection.feed_block(block):
            pass
    return [(each.direction, each.ts_ns) for each in dissection.tcp_changes if each.fault == AHEAD]


@pytest.mark.parametrize("size", [1, 10_000])
def test_a_direction_that_acknowledges_what_was_not_captured_is_ahead_and_that_is_said_once(size: int) -> None:
    captured = packets(said(PLAIN + ANSWERED * 2))
    *begun, one, answer, two, last = captured
    assert ahead(captured, size) == []
    assert ahead([*begun, one, two, answer, last], size) == [(1, two.ts_ns)]
    assert ahead([*begun, two, answer, last], size) == [(1, two.ts_ns)]


def test_an_end_that_acknowledges_a_fin_is_not_ahead() -> None:
    assert ahead(packets(said(PLAIN + "FIN TX\nFIN RX\nRX noop\n"))) == []
