"""Flow control and keep-alive: what is judged in late captures, and what the order of capture explains."""

import pytest

from tests.streams.test_flow_state import MINUTE, late, slow_consumer
from tests.support.check_cases import MEMORY, OF_ONE, PLAIN, STREAM, WINDOW, items
from tests.support.conversation import NOOPS, packets, said
from tests.support.findings import certain
from tests.support.ledgers import captured

BEGUN, FLOWING = PLAIN + STREAM + MEMORY, WINDOW + STREAM + "RX snapshot-marker{start=0, end=90, flags=0x5}\n"
EVERY_20_S = "CONTROL set_noop_interval=20\n"
OFF, ACKED = "CONTROL connection_buffer_size=0\n", "TX buffer-acknowledgement{buffer-bytes=%d}\n"
ASKED = "TX control{key=connection_buffer_size, value=1000, opaque=0x77}\n"
ALLOWED = "RX control-response{success, opaque=0x77}\n"
FULL = FLOWING + items(1, 17) + "WAIT 1\n" + items(18, 18)
TOO_MUCH = FLOWING + items(1, 3) + ACKED % 271
NOOP, PAIR = "RX noop{opaque=0x99}\n", "RX noop{opaque=0x99}\nTX noop-response{success}\n"
SILENT = STREAM + MEMORY + "WAIT 400\nRX mutation{seqno=1}\n"
REFUSED = NOOPS.replace("CONTROL enable_noop=true", "TX control{key=enable_noop, value=true}")
REFUSED += "RX control-response{einval}\n"
LATE_NOOP = BEGUN + "RX mutation{seqno=1}\n----\nTX get-failover-log{vb=5}\n" + NOOP + "WAIT 70\n"
NEXT = "RX mutation{vb=5, opaque=0x1005, seqno=%d}\n"
ASKS, GRANTS = "TX control{key=enable_noop, value=true, opaque=0}\n", "RX control-response{success, opaque=0}\n"
FIRST = "TX control{key=set_noop_interval, value=1, opaque=0}\n"
WITHOUT = PLAIN.replace(NOOPS, "")
#: Conversations, and what is found in what was captured.
CASES = {
    "an acknowledgement while it is off": (FLOWING + items(1, 3) + OFF + ACKED % 44,
        "DCP507 suspicious: acknowledges bytes, and flow control is off"),
    "one captured before the success that it follows": (PLAIN + ASKED + ACKED % 0 + ALLOWED, ""),
    "a message in a full window": (FULL, ""),
    "another, as flow finds it": (FULL + "WAIT 1\n" + items(19, 19),
        "DCP503 suspicious: 1,079 bytes wait for acknowledgement, the window has 1,000: 2 messages more"),
    "blocked where it was blocked before, late": (late(slow_consumer() + MINUTE + MINUTE),
        "DCP505 suspicious: relative, inferred: at least 464 bytes not acknowledged since 12:00:05.122, and it "
        "waited for acknowledgements at this level before; the buffer size was not captured: for 120 s"),
    "blocked for a moment, late": (late(slow_consumer()), ""),
    "a NOOP that was not answered, late": (LATE_NOOP + NEXT % 2,
        "DCP511 violation: NOOP with opaque 0x00000099 was not answered in 70 s"),
    "a NOOP that was not answered before another connection took the name": (
        OF_ONE + BEGUN + NOOP + "WAIT 2\n" + OF_ONE.replace("50001", "50009") + BEGUN + MINUTE + PAIR,
        "DCP206 info: the name is that of connection 0, which the server closes now"),
    "NOOPs, up to the idle timeout": (BEGUN + "RX mutation{seqno=1}\nWAIT 50\nTX get-failover-log{vb=5}\n", ""),
    "NOOPs, beyond it": (BEGUN + "RX mutation{seqno=1}\nWAIT 380\nTX get-failover-log{vb=5}\n",
        "DCP515 info: silent for 380 s; DCP513 suspicious: no NOOP for 380 s: enable_noop was accepted, but "
        "no interval"),
    "NOOPs, up to two intervals": (
        PLAIN + EVERY_20_S + STREAM + MEMORY + "RX mutation{seqno=1}\nWAIT 39\nTX get-failover-log{vb=5}\n", ""),
    "NOOPs up to the end of the connection": (PLAIN + EVERY_20_S + STREAM + "WAIT 380\nFIN TX\nFIN RX\n",
        "DCP513 suspicious: no NOOP for 380 s, the interval is 20 s"),
    "NOOPs without a stream": (PLAIN + EVERY_20_S + "WAIT 300\nCONTROL set_priority=high\n", ""),
    "NOOPs where an interval was accepted": (PLAIN + EVERY_20_S + STREAM + MEMORY + "WAIT 50\nRX mutation{seqno=1}\n",
        "DCP513 suspicious: no NOOP for 50 s, the interval is 20 s"),
    "NOOPs where none was": (BEGUN + "WAIT 50\nRX mutation{seqno=1}\n",
        "DCP513 info: no NOOP for 50 s: enable_noop was accepted, but no interval"),
    "a silence": (PLAIN + SILENT,
        "DCP515 info: silent for 400 s; DCP513 info: no NOOP for 400 s: enable_noop was accepted, but "
        "no interval"),
    "a silence without NOOPs": (WITHOUT + SILENT,
        "DCP209 violation: stream granted on a connection with xattrs and without enable_noop (NotSupported)"),
    "a silence where NOOPs were refused": (PLAIN.replace(NOOPS, REFUSED) + SILENT,
        "DCP209 violation: stream granted on a connection with xattrs and without enable_noop (NotSupported)"),
    "a NOOP between the grant and its request": (WITHOUT + GRANTS + NOOP + ASKS, ""),
    "a NOOP behind both": (WITHOUT + GRANTS + ASKS + NOOP, ""),
    "a NOOP before the second of two requests": (WITHOUT + FIRST + GRANTS * 2 + NOOP + ASKS, ""),
    "a NOOP before both": (WITHOUT + GRANTS * 2 + NOOP + ASKS + FIRST, ""),
    "too much": (TOO_MUCH, "DCP504 violation: 271 bytes acknowledged, 215 were sent"),
    "too much, and much is sent later": (TOO_MUCH + "WAIT 3600\n" + items(4, 80),
        "DCP515 info: silent for 3,600 s; DCP513 info: no NOOP for 3,600 s: enable_noop was accepted, but "
        "no interval; DCP504 violation: 271 bytes acknowledged, 215 were sent; DCP503 suspicious: 2,836 bytes "
        "wait for acknowledgement, the window has 1,000: 32 messages more"),
    "too much, of which a part comes": (TOO_MUCH + items(4, 4) + "WAIT 3600\n" + items(5, 80),
        "DCP515 info: silent for 3,600 s; DCP513 info: no NOOP for 3,600 s: enable_noop was accepted, but "
        "no interval; DCP503 suspicious: 2,838 bytes wait for acknowledgement, the window has 1,000: 32 "
        "messages more"),
    "too much, and many frames later": (TOO_MUCH + PAIR * 70 + items(4, 80),
        "DCP504 violation: 271 bytes acknowledged, 215 were sent; DCP503 suspicious: 2,836 bytes wait for "
        "acknowledgement, the window has 1,000: 32 messages more"),
    "too much, and it comes in time": (TOO_MUCH + "WAIT 0.048\n" + items(4, 4), ""),
    "too much, and it comes too late": (TOO_MUCH + "WAIT 0.05\n" + items(4, 4),
        "DCP504 violation: 271 bytes acknowledged, 215 were sent"),
    "too much, and then it is off": (TOO_MUCH + "WAIT 5\n" + OFF,
        "DCP504 violation: 271 bytes acknowledged, 215 were sent"),
    "too much, and bytes were lost": (TOO_MUCH + "WAIT 5\n" + items(4, 10) + "-" + items(11, 80), ""),
    "too much, twice": (TOO_MUCH + "WAIT 5\n" + items(4, 4) + ACKED % 60 + ACKED % 1 + "WAIT 5\n" + items(5, 80),
        "DCP504 violation: 271 bytes acknowledged, 215 were sent; DCP504 violation: 276 bytes acknowledged, 272 "
        "were sent; DCP503 suspicious: 2,837 bytes wait for acknowledgement, the window has 1,000: 32 messages more"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_flow_control_and_keep_alive_are_judged(text: str, wanted: str) -> None:
    assert "; ".join(certain(captured(text))) == wanted


@pytest.mark.parametrize("direction", [0, 1])
def test_where_one_direction_was_not_captured_nothing_is_said_of_noops(direction: int) -> None:
    every = packets(said(BEGUN + PAIR + "WAIT 70\n" + PAIR.replace("99", "9a")))
    client = every[0].data[26:30]
    half = [packet for packet in every if (packet.data[26:30] == client) is (direction == 0)]
    assert certain(half, "DCP511", "DCP512", "DCP513") == []
