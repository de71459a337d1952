"""The batch pipe returns the rows of the pipe for one frame: of samples, of generated traffic, of noise, of loss."""

import random
from pathlib import Path

import cramjam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpdump.net.limits import Limits
from dcpdump.net.packet import Packet
from dcpdump.wire.encode import encode
from tests.bench.captures import capture
from tests.support.batch_rows import columnar, columnar_counts, files, scalar, scalar_counts
from tests.support.damage import disturbed
from tests.support.packets import TcpTalk, flow
from tests.support.strategies import damaged, pushed, sent

SAMPLES = sorted(Path("samples").glob("*.pcap"))
modest = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
COLLECTIONS = 0x12


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> list[Packet]:
    """Return four connections of replica traffic, in segments of 1,448 bytes."""
    return files(str(capture(tmp_path_factory.mktemp("traffic"), "wire", 1400, 64)))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> list[Packet]:
    """Return more of it, of which much is lost before it ends."""
    return files(str(capture(tmp_path_factory.mktemp("long"), "wire", 4000, 64)))


@pytest.mark.parametrize("size", [1 << 20, 3000])
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_have_the_same_rows(path: Path, size: int) -> None:
    packets = files(str(path))
    assert columnar(packets, size=size) == scalar(packets)


@pytest.mark.parametrize("value_bytes", [0, 3, None])
def test_values_are_cut_alike(traffic: list[Packet], value_bytes: int | None) -> None:
    packets = traffic[600:900]
    assert columnar(packets, value_bytes=value_bytes) == scalar(packets, value_bytes=value_bytes)


@pytest.mark.parametrize("seed", range(6))
def test_disorder_loss_and_repetition_give_the_same_rows(traffic: list[Packet], seed: int) -> None:
    chance = random.Random(seed)
    loss = chance.choice([0.003, 0.03])
    packets = disturbed(traffic[3 if seed % 2 else 500 :], chance, loss=loss, again=0.01, cut=0.002)
    assert columnar(packets, size=chance.choice([50_000, 1 << 20])) == scalar(packets)


@pytest.mark.parametrize("seed", range(2, 5))
def test_answers_to_requests_of_one_opaque_have_the_same_rows(seed: int) -> None:
    chance = random.Random(seed)
    talk = TcpTalk(segment=600, step_ns=2_000_000_000)
    talk.send(0, encode("DCP_OPEN", key=b"c")).send(1, encode("DCP_OPEN", response=True))
    names: list[str | int] = ["DCP_STREAM_REQ", "DCP_CONTROL", 0x00, 0x11]
    waiting: list[tuple[str | int, int]] = []
    for seqno in range(1, 250):
        name, opaque = chance.choice(names), chance.choice([1, 1, 1, seqno])
        said = encode(name, key=b"" if name == "DCP_STREAM_REQ" else b"k", opaque=opaque, vbucket=seqno)
        if chance.random() < 0.03:
            talk.send(1, encode(name, response=True, opaque=opaque)).send(0, said)  # captured out of order
            continue
        talk.send(0, said)
        waiting.append((name, opaque))
        if chance.random() < 0.5:
            fields = {"by_seqno": seqno, "rev_seqno": 1}
            talk.send(1, encode("DCP_MUTATION", fields, layout="1", key=b"k", value=bytes(70), opaque=9) * 20)
        if chance.random() < 0.02:
            talk.skip(chance.choice([0, 1]), 300)
        while waiting and chance.random() < 0.6:
            name, opaque = waiting.pop(0)
            talk.send(1, encode(name, response=True, opaque=opaque))
    packets = talk.fin().packets
    rows = scalar(packets)
    assert columnar(packets, size=chance.choice([20_000, 1 << 20])) == rows
    assert len({row["request_frame"] for row in rows if row.get("request_frame")}) > 60


@pytest.mark.parametrize("loss", [0.002, 0.01])
def test_holes_that_are_given_up_amid_other_connections_give_the_same_rows(long: list[Packet], loss: float) -> None:
    packets = disturbed(long, random.Random(loss), loss=loss, swap=0.01)
    assert columnar(packets) == scalar(packets)
    assert columnar_counts(packets) == scalar_counts(packets)
    assert scalar_counts(packets)[0].lost.gaps > 0


@pytest.mark.parametrize(
    "limits",
    [
        Limits(patience_bytes=0),
        Limits(patience_bytes=20_000),
        Limits(patience_ns=1_000_000, late_ns=100_000),
        Limits(pending_bytes=30_000),
        Limits(pending_segments=7),
    ],
    ids=["at-once", "20-kB", "1-ms", "30-kB-wait", "7-segments-wait"],
)
@pytest.mark.parametrize("acks", [True, False])
def test_whatever_a_hole_is_given_up_for_the_rows_are_the_same(long: list[Packet], limits: Limits, acks: bool) -> None:
    chance = random.Random(str(limits))
    half = long[: len(long) // 2]
    packets = [packet for packet in half if chance.random() > 0.01 and (acks or len(packet.data) > 66)]
    assert columnar(packets, limits=limits) == scalar(packets, limits=limits)
    counts = columnar_counts(packets, limits=limits)
    assert counts == scalar_counts(packets, limits=limits)
    assert counts[0].lost.gaps > 0


@pytest.mark.parametrize("first", range(500, 540, 10))
def test_the_first_packets_of_a_capture_that_joined_late_may_be_in_two_blocks(
    traffic: list[Packet], first: int
) -> None:
    packets = traffic[first : first + 60]
    assert columnar(packets, size=sum(len(packet.data) for packet in packets[:20])) == scalar(packets)


def test_bytes_that_are_no_frame_in_the_middle_of_a_run_give_the_same_rows(traffic: list[Packet]) -> None:
    chance = random.Random(1)
    packets = list(traffic)
    for at in chance.sample(range(400, len(packets)), 12):
        data = bytearray(packets[at].data)
        if len(data) > 200:
            place = chance.randrange(60, len(data) - 8)
            data[place : place + 8] = chance.randbytes(8)
        packets[at] = packets[at]._replace(data=bytes(data))
    assert columnar(packets, size=200_000) == scalar(packets)


def test_packets_without_a_time_have_the_same_rows(traffic: list[Packet]) -> None:
    packets = [packet._replace(ts_ns=None) for packet in traffic[:700]]
    assert columnar(packets) == scalar(packets)


@pytest.mark.parametrize("value_bytes", [0, 3, None])
def test_values_that_are_not_what_they_claim_have_the_same_rows(tmp_path: Path, value_bytes: int | None) -> None:
    packets = files(str(capture(tmp_path, "mislabelled", 700, 64)))
    rows = columnar(packets, value_bytes=value_bytes)
    assert rows == scalar(packets, value_bytes=value_bytes)
    assert sum("problems" in row for row in rows) > 300


def test_a_prepare_has_the_same_row_whatever_number_says_that_it_deletes() -> None:
    given = ({"by_seqno": at, "deleted": at, "durability_level": 1} for at in (0, 1, 2, 255))
    packets = talk([(1, encode("DCP_PREPARE", each, key=b"\x08k")) for each in given], 1448, True, 1)
    rows = columnar(packets)
    assert rows == scalar(packets)
    named = [row["fields"].get("deleted_name") for row in rows if row["name"] == "DCP_PREPARE"]
    assert named == ["alive", "deleted", "deleted", "deleted"]


@pytest.mark.parametrize("flags", [5, 0x45])
@pytest.mark.parametrize("hello", [True, False])
def test_what_is_wrong_with_a_value_is_a_hint_where_values_are_left_out(flags: int, hello: bool) -> None:
    xattrs = bytes([0, 0, 0, 9, 0, 0, 0, 5]) + b"_a\x00{\x00"
    packed = bytes(cramjam.snappy.compress_raw(b"{1}"))
    inside = bytes([0, 0, 0, 14, 0, 0, 0, 5]) + b"_a\x001\x00" + bytes([0, 0, 0, 9]) + b"\xff{}"
    again = bytes(cramjam.snappy.compress_raw(inside))
    values = (b"{", b'{"a":1}', b"", b"\xff", xattrs, xattrs + b"{", xattrs[:9], packed, inside, again)
    opening = [(0, encode("DCP_OPEN", {"flags": flags}, key=b"replication", opaque=2))]
    frames = [
        (1, encode("DCP_MUTATION", {"by_seqno": 1}, layout="1", key=key, value=value, datatype=datatype))
        for key in (b"\x08key", b"\x80")  # the collection id of the other key does not end
        for value in values
        for datatype in range(8)
    ]
    packets = talk(opening + frames, 1448, hello, 1)
    rows = columnar(packets)
    assert rows == scalar(packets)
    assert sum("hints" in row for row in rows) == (0 if flags == 5 else 114)


def talk(frames: list[tuple[int, bytes]], segment: int, hello: bool | None, copies: int) -> list[Packet]:
    """Return a connection whose frames come again and again, so that runs are long enough to be taken at once."""
    writer = TcpTalk(flow("10.0.0.9:50001", "10.0.0.1:11210"), segment=segment, syn=hello is not None)
    if hello is not None:
        features = {"features": [COLLECTIONS] if hello else [6]}
        writer.send(0, encode("HELLO", features, opaque=1)).send(1, encode("HELLO", features, response=True, opaque=1))
    for _ in range(copies):
        for side in (0, 1):
            writer.send(side, b"".join(data for direction, data in frames if direction == side))
    return writer.fin().packets


@modest
@given(
    st.lists(st.tuples(st.integers(0, 1), st.one_of(sent(), pushed()).map(lambda frame: frame.data)), max_size=6),
    st.sampled_from([7, 60, 1448]),
    st.sampled_from([None, False, True]),
)
def test_frames_of_the_table_have_the_same_rows(frames: list[tuple[int, bytes]], segment: int, hello: bool) -> None:
    packets = talk(frames, segment, hello, 12)
    assert columnar(packets) == scalar(packets)


@modest
@given(
    st.lists(st.tuples(st.integers(0, 1), st.one_of(sent().map(lambda frame: frame.data), damaged())), max_size=5),
    st.sampled_from([40, 1448]),
    st.sampled_from([None, False, True]),
)
def test_damaged_frames_have_the_same_rows(frames: list[tuple[int, bytes]], segment: int, hello: bool) -> None:
    packets = talk(frames, segment, hello, 8)
    assert columnar(packets) == scalar(packets)
