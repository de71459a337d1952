"""Segment: what the TCP header says, and what it cannot say truly. Its numbers: the wrap at 2³² is nowhere special."""

from hypothesis import given
from hypothesis import strategies as st

from dcpdump.net.endpoints import Connection, Endpoint, Flow, reverse_key
from dcpdump.net.layers import Layers
from dcpdump.net.tcp import ACK, Segment, advance, distance, parse
from tests.support.packets import FLOW, FLOW6, PSH, SYN, ethernet, ipv4_tcp, ipv6_tcp, packet, tcp

NUMBERS = st.integers(0, (1 << 32) - 1)
STEPS = st.integers(-(1 << 31), (1 << 31) - 1)
ADDRESSES = bytes((10, 0, 0, 1, 10, 0, 0, 2))
KEY = ADDRESSES + (50_000).to_bytes(2, "big") + (11_210).to_bytes(2, "big")


def read(data: bytes, missing: int = 0) -> Segment | str:
    return parse(ADDRESSES, data, 0, len(data), missing)


def test_a_segment_is_read() -> None:
    data = tcp(FLOW, 7, b"hello", flags=PSH | ACK, ack=9, window=512)
    assert read(data) == Segment(KEY, 7, 9, PSH | ACK, 512, b"hello")


def test_options_are_not_payload() -> None:
    assert read(tcp(FLOW, 7, b"hello", options=b"\x01" * 12)) == Segment(KEY, 7, 0, ACK, 65_535, b"hello")


def test_what_the_snap_length_cut_is_counted() -> None:
    assert read(tcp(FLOW, 7, b"hel"), 2) == Segment(KEY, 7, 0, ACK, 65_535, b"hel", 2)


def test_a_cut_through_the_options_leaves_no_payload_but_counts_it() -> None:
    whole = tcp(FLOW, 7, b"hello", options=b"\x01" * 12)
    assert read(whole[:24], 13) == Segment(KEY, 7, 0, ACK, 65_535, b"", 5)


def test_a_header_that_cannot_be_is_refused_with_a_reason() -> None:
    whole = bytearray(tcp(FLOW, 7, b"hello"))
    assert read(bytes(whole[:19])) == "TCP header cut short"
    whole[12] = 0x40
    assert read(bytes(whole)) == "TCP header length below 20"
    whole[12] = 0xF0
    assert read(bytes(whole)) == "TCP header longer than its packet"


def test_a_segment_knows_its_flow() -> None:
    for flow, data in ((FLOW, ipv4_tcp(FLOW, 1, flags=SYN)), (FLOW6, ipv6_tcp(FLOW6, 1, flags=SYN))):
        segment = Layers().feed(packet(ethernet(data)))
        assert isinstance(segment, Segment)
        assert segment.flow == flow
        assert segment._replace(key=reverse_key(segment.key)).flow == flow.reverse


def test_flows_and_endpoints_read_well() -> None:
    assert [str(end) for end in (*FLOW, *FLOW6)] == [
        "10.0.0.1:50000",
        "10.0.0.2:11210",
        "[fd00::1]:50000",
        "[fd00::2]:11210",
    ]
    assert Connection(0, FLOW).toward(0) == Flow(Endpoint("10.0.0.1", 50_000), Endpoint("10.0.0.2", 11_210))
    assert Connection(0, FLOW).toward(1) == FLOW.reverse


def test_the_number_after_the_last_is_zero() -> None:
    assert advance(0xFFFFFFFF, 1) == 0
    assert distance(0xFFFFFFFF, 0) == 1


@given(NUMBERS, STEPS)
def test_distance_undoes_advance(origin: int, steps: int) -> None:
    assert distance(origin, advance(origin, steps)) == steps


@given(NUMBERS, NUMBERS, NUMBERS)
def test_distances_do_not_depend_on_where_counting_starts(origin: int, seq: int, shift: int) -> None:
    assert distance(advance(origin, shift), advance(seq, shift)) == distance(origin, seq)
