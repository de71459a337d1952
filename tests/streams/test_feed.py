"""Feed: what is known of connections before the input has ended."""

import pytest

from dcpdump.batch.block import blocks
from dcpdump.streams.causes import VerdictKind
from dcpdump.streams.dissection import Watching
from dcpdump.streams.feed import Feed
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.verdict import Judge
from dcpdump.wire.encode import encode
from tests.streams.test_tcp_faults import SECOND, begun, mutations
from tests.support.packets import ACK, MILLISECOND, RST, TcpTalk


class Live:
    """A ledger that is judged while packets come."""

    def __init__(self) -> None:
        self.ledger, self._dissection, self._seen = Ledger(), Watching(), 0
        self._feed = Feed(self._dissection, self.ledger)

    def at(self, talk: TcpTalk, later_ns: int = 0) -> tuple[ConnectionState, VerdictKind]:
        """Take what came since, and return the connection and the verdict on its stream so long after it."""
        for block in blocks(talk.packets[self._seen :]):
            for parts in self._dissection.feed_block(block):
                for step in self._feed.steps(parts):
                    self.ledger.feed_step(step)
        self._seen = len(talk.packets)
        self._feed.pause((talk.packets[-1].ts_ns or 0) + later_ns)
        (connection,), (stream,) = self.ledger.connections.values(), self.ledger.streams
        return connection, Judge(self.ledger).verdict(stream).kind


@pytest.mark.parametrize("direction", [0, 1])
def test_a_connection_that_was_reset_has_ended_once_nothing_follows(direction: int) -> None:
    live, talk = Live(), begun().rst(direction)
    reset_ns = talk.packets[-1].ts_ns
    connection, verdict = live.at(talk, SECOND)
    assert (connection.end.reason, verdict) == ("", VerdictKind.FLOWING)
    connection, verdict = live.at(talk, 3 * SECOND)
    assert (connection.end.reason, connection.end.by, connection.end.ts_ns) == ("rst", direction, reset_ns)
    assert verdict is VerdictKind.ENDED


def test_frames_behind_a_forged_reset_keep_a_connection_open() -> None:
    live, talk = Live(), begun().write(0, flags=RST | ACK)
    live.at(talk, SECOND)
    connection, verdict = live.at(mutations(talk.wait(1500 * MILLISECOND), 6, 9), 10 * SECOND)
    assert (connection.end.reason, verdict) == ("", VerdictKind.QUIET)


def test_the_end_that_came_first_stays() -> None:
    talk = begun().send(1, encode("DCP_NOOP", opaque=9)).fin()
    connection, _ = Live().at(talk.rst(1), 10 * SECOND)
    assert (connection.end.reason, connection.end.by) == ("fin", 0)
