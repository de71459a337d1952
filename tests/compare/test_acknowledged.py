"""What receivers acknowledged is known of every connection, and takes little memory of those that ended long ago."""

import gc

import pytest

from dcpdump.batch.block import blocks
from dcpdump.compare.capture_rows import AckDissection
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.limits import Limits
from dcpdump.net.packet import Packet
from dcpdump.wire.encode import encode
from tests.support.hostile import short_connections
from tests.support.packets import TcpTalk

ASKED = encode("DCP_OPEN", {"flags": 1}, key=b"a")
ANSWERED = encode("DCP_OPEN", response=True)
NOOP = encode("DCP_NOOP")


def dissected(packets: list[Packet]) -> AckDissection:
    """Read packets of which few connections are kept."""
    dissection = AckDissection(Limits(connections=16))
    for block in blocks(packets, 1 << 16):
        for parts in dissection.feed_block(block):
            assert parts
    return dissection


@pytest.mark.parametrize("others", [0, 20, 1_100])
@pytest.mark.parametrize("closed", [True, False])
def test_it_is_known_also_of_a_connection_that_ended_long_ago(closed: bool, others: int) -> None:
    talk = TcpTalk().send(0, ASKED).send(1, ANSWERED).send(1, NOOP)
    if closed:
        talk.fin()  # which counts as a byte
    else:
        del talk.packets[-1]  # the last acknowledgement
        talk.rst(1)
    found = dissected([*talk, *short_connections(others)])
    bytes_of = [len(ASKED) + 1, len(ANSWERED + NOOP) + 1] if closed else [len(ASKED), len(ANSWERED)]
    assert [found.acknowledged(place) for place in (0, 1)] == bytes_of


def test_connections_that_ended_long_ago_are_not_kept() -> None:
    found = dissected(short_connections(1_600))
    gc.collect()
    kept = sum(isinstance(each, ByteStream) for each in gc.get_objects())
    assert kept <= 2 * 1_100
    assert found.acknowledged(1) == found.acknowledged(3_199) == len(ANSWERED)
