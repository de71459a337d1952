"""One fault is one finding: none is raised for what follows from it, nor for what could not be captured."""

import pytest

from dcpdump.net.packet import Packet
from tests.support.check_cases import NOOP, PLAIN, SASL, STREAM, WINDOW, items
from tests.support.conversation import HELLO, NOOPS, opening, packets, said
from tests.support.findings import brief, certain, found, judged
from tests.support.packets import ACK, FIN, SECOND, ethernet, flow, ipv4_tcp

TWO = PLAIN + "STREAM vb=5, opaque=0x55\nSTREAM vb=6, opaque=0x66\n"
OF_FIVE = "RX snapshot-marker{vb=5, opaque=0x55, start=0, end=9, flags=0x5}\n"
OF_SIX = "RX snapshot-marker{vb=6, opaque=0x66, start=500, end=509, flags=0x5}\n"
NINE = "RX snapshot-marker{start=0, end=9, flags=0x5}\n"


def mutation(vbucket: int, opaque: int, seqno: int) -> str:
    return f"RX mutation{{vb={vbucket}, opaque=0x{opaque:x}, seqno={seqno}, key=v{vbucket}k{seqno}}}\n"


def finished(captured: list[Packet], seconds: int) -> Packet:
    """Return the FIN that the server of the only connection sends so many seconds later."""
    ends = {}  # by the destination's port: the next number
    for packet in captured:
        ends[packet.data[36:38]] = int.from_bytes(packet.data[38:42], "big") + len(packet.data) - 54
    client, server = (50_000).to_bytes(2, "big"), (11_210).to_bytes(2, "big")
    data = ethernet(ipv4_tcp(flow("10.0.0.1:50000").reverse, ends[client], b"", flags=FIN | ACK, ack=ends[server]))
    when = max(packet.ts_ns or 0 for packet in captured) + seconds * SECOND
    return Packet(len(captured) + 1, when, 1, data, len(data), "")


BOTH_BEGUN = TWO + OF_FIVE + mutation(5, 0x55, 1) + OF_SIX + mutation(6, 0x66, 501)
CLOSED = opening(controls="send_stream_end_on_client_close_stream=true") + STREAM + NINE + items(1, 2)
CLOSED += "TX close-stream{vb=5, opaque=0x99}\nRX close-stream-response{success, opaque=0x99}\n"
TRAILING = mutation(5, 0x1005, 3)
ENDED = PLAIN + STREAM + NINE + items(1, 9) + "RX stream-end{opaque=0x1005, status=2}\n"
#: 900 bytes are acknowledged, and less was sent; then each document.
TOO_MUCH = WINDOW + STREAM + NINE.replace("9", "90") + items(1, 3) + "TX buffer-acknowledgement{buffer-bytes=900}\n"
TOO_MUCH += "".join(
    items(seqno, seqno) + f"TX buffer-acknowledgement{{buffer-bytes={len(said(items(seqno, seqno))[0].data)}}}\n"
    for seqno in range(4, 80)
)
#: What is counted of a prepare that fits no stream, too: two bytes more than it has.
PREPARE = WINDOW + "STREAM vb=5, opaque=0x55\nSTREAM vb=6, opaque=0x66\n" + OF_FIVE + mutation(5, 0x55, 1)
PREPARE += "RX prepare{vb=6, opaque=0x55, seqno=777, key=p, lvl=1}\nTX buffer-acknowledgement{buffer-bytes=%d}\n"
COUNTED = (
    sum(len(each.data) for each in said(PREPARE % 0) if each.data[:2] in (b"\x80\x56", b"\x80\x57", b"\x80\x60")) + 2
)
AT_ONCE = "TX sasl-auth{key=PLAIN, value=x}\nTX select-bucket{key=b}\nTX open{flags=0x5, key=app}\n"
AT_ONCE += "".join(f"RX {each}-response{{success}}\n" for each in ("sasl-auth", "select-bucket", "open"))
LATE = PLAIN + STREAM + NINE.replace("9", "900") + "TX close-stream{vb=5, opaque=0x99}\nWAIT 31\n" + items(1, 70)
LATE += "WAIT 10\nRX close-stream-response{success, opaque=0x99}\n" + items(71, 200)


CASES = {
    "the opaque of another stream": (
        BOTH_BEGUN + mutation(6, 0x55, 502) + mutation(5, 0x55, 2) + mutation(6, 0x66, 503),
        "DCP111 violation KeyEexists"),
    "the vbucket of another stream": (BOTH_BEGUN + mutation(6, 0x55, 2) + mutation(6, 0x66, 502) + mutation(5, 0x55, 3),
        "DCP111 violation KeyEexists"),
    "a marker before its grant": (
        PLAIN + "TX stream-request{vb=5, opaque=0x55}\n" + OF_FIVE
        + "RX stream-request-response{success, opaque=0x55, failover-log=0xfeed:0}\n" + mutation(5, 0x55, 1)
        + mutation(5, 0x55, 2), "DCP223 violation KeyEnoent"),
    "what trails in of a stream that was closed": (CLOSED + TRAILING, ""),
    "what trails in behind its end": (CLOSED + "RX stream-end{opaque=0x1005, status=1}\n" + TRAILING,
        "DCP223 violation KeyEnoent"),
    "messages behind the end of a stream": (ENDED + mutation(5, 0x1005, 2) + mutation(5, 0x1005, 77),
        "DCP223 violation KeyEnoent; DCP223 violation KeyEnoent"),
    "items of a marker that runs backwards": (
        PLAIN + STREAM + "RX snapshot-marker{start=9, end=3, flags=0x5}\n" + items(3, 5), "DCP301 violation Einval"),
    "acknowledging too much": (TOO_MUCH, "DCP504 violation"),
    "all of a prepare that fits no stream": (PREPARE % COUNTED, "DCP111 violation KeyEexists"),
    "more than that": (PREPARE % (COUNTED + 1), "DCP111 violation KeyEexists; DCP504 violation"),
    "an answer after half a minute": (LATE, "DCP107 suspicious; DCP513 info"),
    "quiet commands": (PLAIN + "TX getq{key=a}\nWAIT 31\n" + NOOP, ""),
    "all at once behind a login that is refused, and another": (
        HELLO % ("", "") + SASL % "autherror" + AT_ONCE + NOOPS + STREAM, ""),
    "silence where the capture ends": (PLAIN + "TX stream-request{vb=6, opaque=0x66}\n", ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_one_fault_is_one_finding(text: str, wanted: str) -> None:
    assert "; ".join(brief(text)) == wanted


def test_it_is_of_the_stream_whose_opaque_or_vbucket_a_message_has() -> None:
    texts = (CASES[f"the {each} of another stream"][0] for each in ("opaque", "vbucket"))
    assert [[each.vbucket for each in found(text)] for text in texts] == [[5], [5]]


# -- what was not captured ----------------------------------------------------------------------------------


def test_what_trails_in_of_a_stream_that_was_closed_before_the_capture_began_is_no_violation() -> None:
    late = "STREAM vb=5, opaque=2\n" + mutation(5, 1, 4) + mutation(5, 1, 5)
    late += "RX snapshot-marker{vb=5, opaque=2, start=0, end=9, flags=0x5}\n" + mutation(5, 2, 1) + mutation(5, 2, 4)
    captured = packets(said(PLAIN + late))
    begin = next(at for at, packet in enumerate(captured) if b"\x80\x53" in packet.data)
    assert certain(captured[begin:]) == []


def test_where_the_answer_to_open_was_not_captured_it_is_unknown_which_controls_were_accepted() -> None:
    """The capture begins with DCP_OPEN, and what the server said before the grant is not in it."""
    captured = packets(said(PLAIN + STREAM))
    begin = next(at for at, packet in enumerate(captured) if b"\x80\x50" in packet.data[54:56])
    received = [packet for packet in captured[begin:] if packet.data[34:36] == (50_000).to_bytes(2, "big")]
    assert certain([*received, captured[-1]]) == []


def test_after_a_marker_that_cannot_be_read_it_is_unknown_which_seqnos_belong_to_the_snapshot() -> None:
    unreadable = "HEX RX 8056000001000005" + "00000001" + "00001005" + "00" * 8 + "09\n"
    text = PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x5}\n" + items(1, 3) + unreadable + items(4, 6)
    assert [(each.severity.value, each.reason) for each in found(text, "DCP401")] == [
        ("unknown", "the snapshot marker of frame 17 could not be read")
    ]


def test_bytes_that_are_no_frame_though_none_was_lost_are_reported_as_such() -> None:
    text = PLAIN + STREAM + NINE + items(1, 2) + "HEX RX " + "7f" * 70 + "\n" + items(4, 6)
    assert [(each.rule.code, each.message, each.reason) for each in found(text)] == [
        ("DCP402", "the order between seqno 2 and 4 was not seen", "70 bytes were skipped before frame 16"),
        ("DCP101", "70 bytes before this frame begin with no magic of the protocol", ""),
    ]


def test_an_answer_is_not_that_of_an_earlier_request_whose_own_came_before_the_capture() -> None:
    requests = "".join(
        f"TX stream-request{{vb=5, opaque=0x55, start={at}, snap-start-seqno={at}, snap-end-seqno={at}}}\n"
        for at in (10, 4)
    )
    granted = "RX stream-request-response{success, opaque=0x55}\n"
    snapshot = "RX snapshot-marker{vb=5, opaque=0x55, start=4, end=6, flags=0x5}\n"
    handshake = 3
    captured = packets(said(requests + granted + snapshot + mutation(5, 0x55, 5) + mutation(5, 0x55, 6)))[handshake:]
    assert [each for each in brief(captured) if "violation" in each] == []


# -- up to the end of the capture ---------------------------------------------------------------------------


def test_a_noop_that_was_not_answered_until_the_connection_ended_is_reported() -> None:
    captured = packets(said(opening() + STREAM + "RX noop{opaque=0x99}\n"))
    assert judged(captured) == []
    assert [each[:2] for each in judged([*captured, finished(captured, 60)])] == [("N1", 0)]


def test_a_noop_that_is_answered_with_a_request_is_named_by_both_rules() -> None:
    noop = PLAIN + "RX noop{opaque=0x99}\n"
    captured = packets(said(noop + "TX noop{opaque=0x99}\n"))
    assert judged([*captured, finished(captured, 60)]) == [
        ("N1", 0, "NOOP with opaque 0x00000099 was not answered in 60 s: frame 12 has its opaque, and is a request "
         "(magic 0x80)"),
        ("N6", 0, "answers the NOOP of frame 11 with a request (magic 0x80), not with a response (0x81)"),
    ]  # fmt: skip
    captured = packets(said(noop + "TX noop{opaque=0x98}\n"))
    assert judged([*captured, finished(captured, 60)]) == [
        ("N1", 0, "NOOP with opaque 0x00000099 was not answered in 60 s"),
        ("N6", 0, "DCP_NOOP sent to a producer"),
    ]


def test_an_answer_with_the_opaque_of_a_request_of_another_opcode_names_that() -> None:
    asked = PLAIN + "TX stream-request{vb=5, opaque=0x99}\n"
    wrong = "RX get-failover-log-response{success, opaque=0x99}\n"
    text = "GET_FAILOVER_LOG response with opaque 0x00000099 "
    named = text + "has the opaque of STREAM_REQ of frame 11, which waits for its answer"
    others = (asked.replace("0x99", "0x98"), PLAIN + "STREAM vb=5, opaque=0x99\n")
    messages = [[each.message for each in found(begun + wrong, "DCP106")] for begun in (asked, *others)]
    assert messages == [[named], [text + "answers no request"], [text + "answers no request"]]


def test_silence_is_reported_where_the_capture_continues_without_a_connection() -> None:
    silent = PLAIN + "TX stream-request{vb=6, opaque=0x66}\n"
    both = packets(said(silent + "CONNECT\n" + PLAIN + "WAIT 90\nRX noop\n"))
    begins = len(packets(said(silent)))
    files = [each._replace(file=f"{at >= begins}.pcap") for at, each in enumerate(both)]  # one says nothing of others
    found = [[each[:2] for each in judged(some) if each[0] == "F7"] for some in (both[:begins], both, files)]
    assert found == [[], [("F7", 0)], []]
