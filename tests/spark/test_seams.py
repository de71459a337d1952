"""Any partition of the packets into splits, stitched, has exactly the rows of the whole."""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpdump.net.packet import Packet
from dcpdump.net.tcp import advance
from dcpdump.wire.encode import encode
from tests.batch.test_twins import talk
from tests.bench.captures import capture
from tests.cli.test_collections import CARTS, DROP, GET_MANIFEST, SCOPE, STREAM, document
from tests.support.batch_rows import files
from tests.support.captures import Record, pcap
from tests.support.conversation import opening, packets, said
from tests.support.packets import ACK, MILLISECOND, PSH, TcpTalk, flow, renumbered, vlan
from tests.support.splitting import cut, whole
from tests.support.strategies import damaged, sent

modest = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
COLLECTIONS = 0x12


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> list[Packet]:
    """Return four connections of replica traffic, in segments of 1,448 bytes."""
    return files(str(capture(tmp_path_factory.mktemp("traffic"), "wire", 1000, 64)))


def disturbed(packets: list[Packet], seed: int, loss: float = 0.01) -> list[Packet]:
    """Return the same packets, some of them lost, in another order, twice, or cut."""
    chance = random.Random(seed)
    out = [packet for packet in packets if chance.random() > loss]
    for at in range(len(out) - 1):
        here, there = out[at : at + 2]
        if chance.random() < 0.02:
            out[at : at + 2] = there._replace(ts_ns=here.ts_ns), here._replace(ts_ns=there.ts_ns)
        if chance.random() < 0.01:
            out[at] = out[at + 1]
        if chance.random() < 0.002:
            out[at] = out[at]._replace(data=out[at].data[:100])
    return out


def some_cuts(packets: list[Packet], seed: int, count: int) -> list[int]:
    return random.Random(seed).sample(range(1, len(packets)), min(count, len(packets) - 1))


@pytest.mark.parametrize("count", [1, 7, 60, 200])
def test_traffic_in_order_is_the_whole_in_any_splits(traffic: list[Packet], count: int) -> None:
    found = cut(traffic, some_cuts(traffic, count, count))
    assert found.rows == whole(traffic).rows
    assert found.decodes == [count + 2]  # no guess was believed that was wrong


def test_splits_in_order_need_no_second_survey(traffic: list[Packet]) -> None:
    found = cut(traffic, [len(traffic) // 3, len(traffic) // 2])
    assert (found.surveys, found.decodes) == ([3], [4])


@modest
@given(st.integers(0, 1 << 30), st.sampled_from([2, 5, 23]), st.sampled_from([0.0, 0.003, 0.03]), st.booleans())
def test_lost_repeated_and_reordered_packets_give_the_rows_of_the_whole(
    traffic: list[Packet], seed: int, count: int, loss: float, late: bool
) -> None:
    packets = disturbed(traffic[300 if late else 0 :], seed, loss)
    assert cut(packets, some_cuts(packets, seed, count)).rows == whole(packets).rows


def test_two_hundred_splits_with_losses_are_the_whole(traffic: list[Packet]) -> None:
    packets = disturbed(traffic, 5)
    assert cut(packets, some_cuts(packets, 5, 200)).rows == whole(packets).rows


def test_the_same_packets_of_two_capture_points_are_one_timeline(traffic: list[Packet]) -> None:
    here, there = disturbed(traffic, 1, 0.05), disturbed(traffic, 2, 0.05)
    moved = [packet._replace(ts_ns=(packet.ts_ns or 0) + 3000, file="there") for packet in there]
    both = sorted([*here, *moved], key=lambda packet: packet.ts_ns or 0)
    assert cut(both, some_cuts(both, 3, 20)).rows == whole(both).rows


def test_tls_and_other_traffic_between_changes_nothing(traffic: list[Packet]) -> None:
    chance = random.Random(7)
    tls = TcpTalk(flow("10.0.0.7:50007", "10.0.0.1:11207"), start_ns=traffic[0].ts_ns or 0, step_ns=20_000)
    tls.send(0, b"\x16\x03\x01" + chance.randbytes(400)).send(1, b"\x16\x03\x03" + chance.randbytes(300_000))
    http = TcpTalk(flow("10.0.0.8:50008", "10.0.0.1:8091"), start_ns=traffic[0].ts_ns or 0, step_ns=50_000, syn=False)
    for _ in range(30):
        http.send(0, b"GET /pools HTTP/1.1\r\n\r\n").send(1, b"HTTP/1.1 200 OK\r\n\r\n" + chance.randbytes(3000))
    packets = sorted([*traffic, *tls, *http], key=lambda packet: packet.ts_ns or 0)
    found = cut(packets, some_cuts(packets, 3, 12))
    assert found.rows == whole(packets).rows
    assert len(found.surveys) <= 3  # what is not memcached costs no rounds
    assert found.decodes == [14]


def documents(values: Iterable[bytes], *, segment: int = 1448, hello: bool = True, syn: bool = True) -> TcpTalk:
    """Return a connection that carries documents."""
    talk = TcpTalk(segment=segment, syn=syn, step_ns=10_000)
    if hello:
        features = {"features": [COLLECTIONS, 6]}
        talk.send(0, encode("HELLO", features, opaque=1)).send(1, encode("HELLO", features, response=True, opaque=1))
    talk.send(1, encode("DCP_SNAPSHOT_MARKER", {"start_seqno": 1, "end_seqno": 99, "snapshot_type": 1}, layout="1"))
    for seqno, value in enumerate(values, 1):
        fields = {"by_seqno": seqno, "rev_seqno": 1}
        talk.send(1, encode("DCP_MUTATION", fields, layout="1", key=b"\x08key-%d" % seqno, value=value))
        if seqno % 3 == 0:
            talk.send(0, encode("DCP_NOOP", opaque=seqno)).send(1, encode("DCP_NOOP", response=True, opaque=seqno))
    return talk


def frames(count: int, chance: random.Random) -> bytes:
    """Return frames as another connection has them."""
    return b"".join(
        encode(
            "DCP_MUTATION",
            {"by_seqno": 1_000 + number, "rev_seqno": 1},
            layout="1",
            key=b"\x08other",
            value=chance.randbytes(chance.randint(20, 300)),
            opaque=0x77,
        )
        for number in range(count)
    )


@pytest.mark.parametrize("hello", [True, False])
@pytest.mark.parametrize("segment", [1448, 16_000])
def test_documents_that_contain_dumps_of_dcp_deceive_nobody(segment: int, hello: bool) -> None:
    chance = random.Random(segment)
    packets = documents((frames(40, chance) for _ in range(12)), segment=segment, hello=hello).fin().packets
    want = whole(packets).rows
    for seed in range(4):
        assert cut(packets, some_cuts(packets, seed, 3 + 9 * seed)).rows == want


def test_documents_that_contain_captures_deceive_nobody(traffic: list[Packet]) -> None:
    inside = pcap([Record(packet.ts_ns or 0, packet.data) for packet in traffic[40:140]])
    packets = documents([inside] * 4).fin().packets
    want = whole(packets).rows
    for seed in range(3):
        assert cut(packets, some_cuts(packets, seed, 8)).rows == want


def test_a_wrong_guess_is_decoded_again_from_the_true_place() -> None:
    inside = frames(200, random.Random(1))
    talk = documents([inside, b"{}", b"{}"], syn=True)
    found = cut(talk.packets, [30, 40])
    assert found.rows == whole(talk.packets).rows
    assert len(found.surveys) > 1


def test_a_document_larger_than_a_state_keeps_is_decoded_with_its_beginning() -> None:
    values = [random.Random(9).randbytes(2_500_000), b"small", b"{}"]
    packets = documents(values, segment=32_000).fin().packets
    found = cut(packets, [50, 90, 120])
    assert found.rows == whole(packets).rows
    assert len(found.works) < 5  # some splits are read as one


@modest
@given(
    st.lists(st.tuples(st.integers(0, 1), st.one_of(sent().map(lambda frame: frame.data), damaged())), max_size=5),
    st.sampled_from([40, 1448]),
    st.sampled_from([None, False, True]),
    st.integers(0, 1 << 30),
)
def test_frames_of_the_table_and_damaged_ones_are_the_same_in_splits(
    said: list[tuple[int, bytes]], segment: int, hello: bool | None, seed: int
) -> None:
    packets = talk(said, segment, hello, 5)
    assert cut(packets, some_cuts(packets, seed, 5)).rows == whole(packets).rows


def test_keys_are_read_as_hello_of_an_earlier_split_granted() -> None:
    packets = documents([b"{}"] * 30).fin().packets
    found = cut(packets, range(9, len(packets), 7))
    assert found.rows == whole(packets).rows
    assert {row.get("collection") for row in found.frames if row["opcode"] == 0x57} == {8}
    assert not any(row.get("collection_inferred") for row in found.frames)


def test_a_response_knows_its_request_of_an_earlier_split() -> None:
    talk = TcpTalk(step_ns=MILLISECOND)
    talk.send(0, encode("DCP_NOOP", opaque=1)).send(0, encode("DCP_NOOP", opaque=2))
    middle = len(talk.packets)
    talk.send(1, encode("DCP_NOOP", response=True, opaque=1)).send(1, encode("DCP_NOOP", response=True, opaque=2))
    found = cut(talk.packets, [middle])
    assert found.rows == whole(talk.packets).rows
    assert [row.get("latency_us") for row in found.frames] == [None, None, 4000, 4000]


def test_ports_that_are_used_again_are_connections_of_their_own() -> None:
    connections = [documents([b"{}"] * 5), documents([b"[]"] * 5)]
    second = TcpTalk(isn=(90_000, 70_000)).packets
    later = renumbered([*connections[0].fin().packets, *second, *connections[1].fin().packets])
    for number in (1, 4, 11):
        cuts = range(number, len(later), 6)
        assert cut(later, cuts).rows == whole(later).rows


def test_packets_with_tags_are_stitched_too(traffic: list[Packet]) -> None:
    packets = [
        packet._replace(data=vlan(packet.data[14:], 0x8100), wire_length=len(packet.data) + 4) for packet in traffic
    ]
    found = cut(packets, some_cuts(packets, 4, 5))
    assert found.rows == whole(packets).rows
    assert found.decodes == [7]


def test_a_hole_is_given_up_in_a_split_that_has_nothing_of_its_connection() -> None:
    talk = documents([b"{}"] * 3)
    talk.skip(1, 100).write(0)  # acknowledged, never captured
    frame = encode("DCP_NOOP", opaque=9)
    talk.write(1, frame, flags=PSH | ACK)
    other = TcpTalk(flow("10.0.0.9:50009", "10.0.0.2:11210"), start_ns=(talk.packets[-1].ts_ns or 0) + MILLISECOND)
    for _ in range(4):
        other.wait(1_000_000_000).send(0, encode("DCP_NOOP", opaque=3))
    packets = renumber([*talk.packets, *other.packets])
    found = cut(packets, [len(talk.packets), len(talk.packets) + 7])
    assert found.rows == whole(packets).rows


def renumber(packets: Iterable[Packet]) -> list[Packet]:
    return [packet._replace(number=number) for number, packet in enumerate(packets, 1)]


def test_sequence_numbers_come_round_across_splits() -> None:
    isn = (advance(0, -700), advance(0, -20_000))
    talk = TcpTalk(isn=isn, step_ns=10_000)
    for seqno in range(1, 80):
        fields = {"by_seqno": seqno, "rev_seqno": 1}
        talk.send(1, encode("DCP_MUTATION", fields, layout="1", key=b"\x00k", value=bytes(900)))
        talk.send(0, encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": 900}))
    packets = talk.fin().packets
    assert cut(packets, range(5, len(packets), 17)).rows == whole(packets).rows


def test_every_packet_may_be_a_split_of_its_own() -> None:
    packets = documents([b"{}"] * 4).fin().packets
    assert cut(packets, range(len(packets))).rows == whole(packets).rows


def test_samples_are_the_same_in_splits() -> None:
    for path in sorted(Path("samples").glob("*.pcap")):
        packets = files(str(path))
        assert cut(packets, range(3, len(packets), 9)).rows == whole(packets).rows, path.name


def test_names_of_collections_are_those_of_the_whole_wherever_it_is_cut() -> None:
    """They are said on one connection and used on another, change, and end with the connection that said them."""
    begin, again = opening(collections=True), CARTS.replace("seqno:2", "seqno:4").replace("carts", "baskets")
    one, other = "CONNECT 10.0.0.9:1 10.0.0.1:11210\n", "CONNECT 10.0.0.9:2 10.0.0.1:11210\n"
    text = one + begin + GET_MANIFEST + STREAM + document(3, 9, "a") + again + document(5, 9, "b")
    text += other + begin + STREAM + document(3, 10, "c") + document(4, 9, "d")
    unnamed = begin.partition("select-bucket")[0].rpartition("\n")[0] + "\n"
    text += one + unnamed + STREAM + document(1, 9, "e") + SCOPE + CARTS + document(3, 9, "f") + "ON 1\n" + DROP
    traffic = packets(said(text + document(9, 9, "g") + "ON 2\n" + document(9, 9, "h")))
    expected = whole(traffic)
    names = {row["key"]: row.get("collection_name") for row in expected.frames if row["name"] == "DCP_MUTATION"}
    assert names == {
        b"a": "shop.carts",
        b"b": "shop.baskets",
        b"c": "shop.orders",
        b"d": "shop.baskets",
        b"e": None,
        b"f": "shop.carts",
        b"g": "shop.baskets",
        b"h": "shop.carts",
    }
    everywhere = range(1, len(traffic))
    for cuts in [everywhere, everywhere[::3], everywhere[1::5], *([at] for at in everywhere)]:
        assert cut(traffic, cuts).rows == expected.rows, cuts
