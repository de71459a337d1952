"""One fault is one finding: none is raised for what follows from it, nor for what could not be captured."""

from dcpdump.batch.block import blocks
from dcpdump.check.checking import Judging
from dcpdump.net.packet import Packet
from dcpdump.streams.watching import Watching
from tests.support.check_cases import PLAIN, STREAM, WINDOW, items
from tests.support.conversation import findings, findings_of, opening, packets, said
from tests.support.packets import ACK, FIN, ethernet, flow, ipv4_tcp

TWO = PLAIN + "STREAM vb=5, opaque=0x55\nSTREAM vb=6, opaque=0x66\n"
OF_FIVE = "RX snapshot-marker{vb=5, opaque=0x55, start=0, end=9, flags=0x5}\n"
OF_SIX = "RX snapshot-marker{vb=6, opaque=0x66, start=500, end=509, flags=0x5}\n"
SECOND = 1_000_000_000


def reported(text: str) -> list[tuple[str, str, int | None, int]]:
    """Return what is found in a conversation: rule, severity, vbucket and frame."""
    return [(each.rule.id, each.severity.value, each.vbucket, each.frame) for each in findings(text)]


def mutation(vbucket: int, opaque: int, seqno: int) -> str:
    return f"RX mutation{{vb={vbucket}, opaque=0x{opaque:x}, seqno={seqno}, key=v{vbucket}k{seqno}}}\n"


def judged(captured: list[Packet]) -> list[tuple[str, int, str]]:
    """Return what is found in captured packets to the end of the capture: rule, connection and sentence."""
    dissection = Watching()
    judging = Judging(dissection)
    for block in blocks(captured):
        judging.meet(block)
        for parts in dissection.feed_block(block):
            judging.feed(parts)
            dissection.gaps.clear()
    for parts in dissection.close_blocks():
        judging.feed(parts)
    judging.close(captured[-1].ts_ns)
    return [(each.rule.id, each.connection, each.message) for each, _ in judging.fold.findings()]


def finished(captured: list[Packet], seconds: int) -> Packet:
    """Return the FIN that the server of the only connection sends so many seconds later."""
    ends = {}  # by the destination's port: the next number
    for packet in captured:
        ends[packet.data[36:38]] = int.from_bytes(packet.data[38:42], "big") + len(packet.data) - 54
    client, server = (50_000).to_bytes(2, "big"), (11_210).to_bytes(2, "big")
    data = ethernet(ipv4_tcp(flow("10.0.0.1:50000").reverse, ends[client], b"", flags=FIN | ACK, ack=ends[server]))
    when = max(packet.ts_ns or 0 for packet in captured) + seconds * SECOND
    return Packet(len(captured) + 1, when, 1, data, len(data), "")


def test_a_message_with_the_opaque_of_another_stream_leaves_that_stream_alone() -> None:
    text = TWO + OF_FIVE + mutation(5, 0x55, 1) + OF_SIX + mutation(6, 0x66, 501)
    text += mutation(6, 0x55, 502) + mutation(5, 0x55, 2) + mutation(6, 0x66, 503)
    assert [each[:3] for each in reported(text)] == [("F11", "violation", 5)]


def test_a_message_with_the_vbucket_of_another_stream_leaves_that_stream_alone() -> None:
    text = TWO + OF_FIVE + mutation(5, 0x55, 1) + OF_SIX + mutation(6, 0x66, 501)
    text += mutation(6, 0x55, 2) + mutation(6, 0x66, 502) + mutation(5, 0x55, 3)
    assert [each[:3] for each in reported(text)] == [("F11", "violation", 5)]


def test_what_trails_in_of_a_stream_that_was_closed_before_the_capture_began_is_no_violation() -> None:
    late = "STREAM vb=5, opaque=2\n" + mutation(5, 1, 4) + mutation(5, 1, 5)
    late += "RX snapshot-marker{vb=5, opaque=2, start=0, end=9, flags=0x5}\n" + mutation(5, 2, 1) + mutation(5, 2, 4)
    captured = packets(said(PLAIN + late))
    begin = next(at for at, packet in enumerate(captured) if b"\x80\x53" in packet.data)
    assert [each for each in findings_of(captured[begin:]) if not each.reason] == []


def test_where_the_answer_to_open_was_not_captured_it_is_unknown_which_controls_were_accepted() -> None:
    """The capture begins with DCP_OPEN, and what the server said before the grant is not in it."""
    captured = packets(said(PLAIN + STREAM))
    begin = next(at for at, packet in enumerate(captured) if b"\x80\x50" in packet.data[54:56])
    received = [packet for packet in captured[begin:] if packet.data[34:36] == (50_000).to_bytes(2, "big")]
    assert [each for each in findings_of([*received, captured[-1]]) if not each.reason] == []


def test_after_a_marker_that_cannot_be_read_it_is_unknown_which_seqnos_belong_to_the_snapshot() -> None:
    unreadable = "HEX RX 8056000001000005" + "00000001" + "00001005" + "00" * 8 + "09\n"
    text = PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x5}\n" + items(1, 3) + unreadable + items(4, 6)
    found = [each for each in findings(text) if each.rule.id == "S11"]
    assert [(each.severity.value, each.reason) for each in found] == [
        ("unknown", "the snapshot marker of frame 17 could not be read")
    ]


def test_a_marker_before_its_grant_is_reported_once() -> None:
    text = PLAIN + "TX stream-request{vb=5, opaque=0x55}\n" + OF_FIVE
    text += "RX stream-request-response{success, opaque=0x55, failover-log=0xfeed:0}\n"
    text += mutation(5, 0x55, 1) + mutation(5, 0x55, 2)
    assert [each[0] for each in reported(text)] == ["L3"]


def test_messages_after_the_end_of_a_stream_that_was_closed_are_reported() -> None:
    text = opening(controls="send_stream_end_on_client_close_stream=true") + STREAM
    text += "RX snapshot-marker{start=0, end=9, flags=0x5}\n" + items(1, 2)
    text += "TX close-stream{vb=5, opaque=0x99}\nRX close-stream-response{success, opaque=0x99}\n"
    trailing = mutation(5, 0x1005, 3)
    assert reported(text + trailing) == []
    assert [each[0] for each in reported(text + "RX stream-end{opaque=0x1005, status=1}\n" + trailing)] == ["L3"]


def test_messages_behind_the_end_of_a_stream_are_reported_as_that_alone() -> None:
    text = PLAIN + STREAM + "RX snapshot-marker{start=0, end=9, flags=0x5}\n" + items(1, 9)
    text += "RX stream-end{opaque=0x1005, status=2}\n"
    assert [each[0] for each in reported(text + mutation(5, 0x1005, 2) + mutation(5, 0x1005, 77))] == ["L3", "L3"]


def test_items_of_a_marker_that_runs_backwards_are_not_reported_as_well() -> None:
    text = PLAIN + STREAM + "RX snapshot-marker{start=9, end=3, flags=0x5}\n" + items(3, 5)
    assert [each[0] for each in reported(text) if each[0] in ("S1", "S11")] == ["S1"]


def test_acknowledging_too_much_once_is_one_violation() -> None:
    text = WINDOW + STREAM + "RX snapshot-marker{start=0, end=90, flags=0x5}\n" + items(1, 3)
    text += "TX buffer-acknowledgement{buffer-bytes=900}\n"
    for seqno in range(4, 80):
        text += items(seqno, seqno) + f"TX buffer-acknowledgement{{buffer-bytes={len(_mutation(seqno))}}}\n"
    assert [each[0] for each in reported(text)] == ["B4"]


def test_a_prepare_that_fits_no_stream_still_counts_two_bytes_more_for_flow_control() -> None:
    text = WINDOW + "STREAM vb=5, opaque=0x55\nSTREAM vb=6, opaque=0x66\n" + OF_FIVE + mutation(5, 0x55, 1)
    text += "RX prepare{vb=6, opaque=0x55, seqno=777, key=p, lvl=1}\n"
    counted = sum(len(each.data) for each in said(text) if each.data[:2] in (b"\x80\x56", b"\x80\x57", b"\x80\x60")) + 2
    acknowledged = f"TX buffer-acknowledgement{{buffer-bytes={counted}}}\n"
    assert "B4" not in [each[0] for each in reported(text + acknowledged)]
    assert "B4" in [each[0] for each in reported(text + acknowledged.replace(str(counted), str(counted + 1)))]


def _mutation(seqno: int) -> bytes:
    *_, last = said(PLAIN + STREAM + items(seqno, seqno))
    return last.data


def test_an_answer_after_half_a_minute_is_one_all_the_same() -> None:
    text = PLAIN + STREAM + "RX snapshot-marker{start=0, end=900, flags=0x5}\n"
    text += "TX close-stream{vb=5, opaque=0x99}\nWAIT 31\n" + items(1, 70)
    late = text + "WAIT 10\nRX close-stream-response{success, opaque=0x99}\n" + items(71, 200)
    assert [each[0] for each in reported(late) if each[0] in ("F6", "F7", "L12")] == ["F7"]


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
    assert [each.message for each in findings(asked + wrong) if each.rule.id == "F6"] == [named]
    for other in (asked.replace("0x99", "0x98"), PLAIN + "STREAM vb=5, opaque=0x99\n"):
        assert [each.message for each in findings(other + wrong) if each.rule.id == "F6"] == [
            text + "answers no request"
        ]


def test_silence_is_reported_where_the_capture_continues_without_a_connection() -> None:
    silent = packets(said(PLAIN + "TX stream-request{vb=6, opaque=0x66}\n"))
    both = packets(said(PLAIN + "TX stream-request{vb=6, opaque=0x66}\nCONNECT\n" + PLAIN + "WAIT 90\nRX noop\n"))
    assert judged(silent) == []
    assert [each[:2] for each in judged(both) if each[0] == "F7"] == [("F7", 0)]


def test_of_several_captures_the_end_of_one_says_nothing_of_what_is_in_the_others() -> None:
    silent = PLAIN + "TX stream-request{vb=6, opaque=0x66}\n"
    both = packets(said(silent + "CONNECT\n" + PLAIN + "WAIT 90\nRX noop\n"))
    begins = len(packets(said(silent)))
    files = [each._replace(file=f"{at >= begins}.pcap") for at, each in enumerate(both)]
    assert [each for each in judged(files) if each[0] == "F7"] == []


def test_bytes_that_are_no_frame_though_none_was_lost_are_reported_as_such() -> None:
    garbled = "HEX RX " + "7f" * 70 + "\n"
    text = PLAIN + STREAM + "RX snapshot-marker{start=0, end=9, flags=0x5}\n" + items(1, 2) + garbled + items(4, 6)
    assert [(each.rule.id, each.message, each.reason) for each in findings(text)] == [
        ("S12", "the order between seqno 2 and 4 was not seen", "70 bytes were skipped before frame 16"),
        ("F1", "70 bytes before this frame begin with no magic of the protocol", ""),
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
    assert [each for each in findings_of(captured) if each.severity.value == "violation"] == []
