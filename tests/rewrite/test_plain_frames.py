"""Plain frames are concealed without being decoded, with the same result as decoded ones."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.gather import Array
from dcpdump.net.packet import Packet
from dcpdump.record import as_json
from dcpdump.redact import Pseudonyms
from dcpdump.rewrite.concealed_frame import Concealed, Concealer, plain_frames
from dcpdump.rewrite.needed import FrameSum, frame_hashes
from dcpdump.rewrite.redaction import plain_proof_hash, positions_of, proof_hash
from dcpdump.wire.encode import encode
from tests.batch.test_twins import talk
from tests.bench.captures import capture
from tests.rewrite.test_carving import NUMBERS
from tests.support.batch_rows import files
from tests.support.packets import NOON, TcpTalk, flow
from tests.support.pieces import parts_of
from tests.support.secret_talk import disturbed
from tests.support.secret_talk import talk as secret_talk
from tests.support.strategies import damaged, pushed, sent

modest = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ANY = st.one_of(st.one_of(sent(), pushed()).map(lambda frame: frame.data), damaged())
FRAMES = st.lists(st.tuples(st.integers(0, 1), ANY), max_size=6)


def both(packets: Sequence[Packet], *, full: bool) -> tuple[list[Concealed], list[Concealed]]:
    """Return plain frames concealed as they are, and concealed as records."""
    concealer = Concealer(Pseudonyms(b"salt"), full=full)
    plain: list[Concealed] = []
    decoded: list[Concealed] = []
    for batch in parts_of(packets, show_secrets=True):
        for row, frame in enumerate(plain_frames(batch)):
            if frame is not None:
                plain.append(concealer.conceal_plain(frame))
                decoded.append(concealer.conceal(batch.record(row)))
    return plain, decoded


@modest
@given(FRAMES, st.sampled_from([40, 1448]), st.sampled_from([None, False, True]), st.booleans())
def test_frames_of_the_table_are_concealed_alike(
    frames: list[tuple[int, bytes]], segment: int, hello: bool | None, full: bool
) -> None:
    plain, decoded = both(talk(frames, segment, hello, 8), full=full)
    assert plain == decoded


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_conversations_with_losses_are_concealed_alike(seed: int, full: bool) -> None:
    packets = disturbed(secret_talk(300, 24, syn=seed % 2 == 0).packets, random.Random(seed))
    plain, decoded = both(packets[4 * seed :], full=full)
    assert plain == decoded
    assert plain


def test_nearly_all_of_replica_traffic_is_plain(tmp_path_factory: pytest.TempPathFactory) -> None:
    packets = files(str(capture(tmp_path_factory.mktemp("traffic"), "wire", 2500, 64)))
    plain, decoded = both(packets, full=False)
    assert plain == decoded
    assert len(plain) > 2000


def numbers(packets: Sequence[Packet]) -> list[tuple[int, int]]:
    """Return the proof hashes of plain frames, as they are and as records."""
    found = []
    for batch in parts_of(packets, show_secrets=True):
        for row, (place, frame) in enumerate(zip(positions_of(batch), plain_frames(batch), strict=True)):
            if frame is not None:
                record = batch.record(row)
                found.append((plain_proof_hash(place, frame, frame.data), proof_hash(place, record, frame.data)))
    return found


@modest
@given(st.integers(0, 10_000))
def test_whatever_changes_the_fingerprint_of_a_record_changes_that_of_the_plain_frame(seed: int) -> None:
    dice = random.Random(seed)
    packets = secret_talk(300, 24).packets
    changed = list(packets)
    place = dice.randrange(30, len(packets) - 8)
    data = bytearray(packets[place].data)
    data[-1 - dice.randrange(max(1, len(data) - 54))] ^= 1 << dice.randrange(8)
    changed[place] = packets[place]._replace(data=bytes(data))
    for here, there in zip(numbers(packets), numbers(changed), strict=False):
        assert (here[0] == there[0]) == (here[1] == there[1])


# -- frame hashes are equal when all that is shown of frames is, but for the numbers that a smaller capture changes


def gets() -> list[Packet]:
    """Return a client's requests on the same port, which are not DCP."""
    out = TcpTalk(segment=60)
    for number in range(12):
        out.send(0, encode("GET", key=b"\x08customer::%d" % number, opaque=number))
        out.send(1, encode("GET", response=True, value=b"{}" * number, opaque=number))
    return out.fin().packets


def shown(batch: FrameBatch, row: int) -> str:
    flat = as_json(batch.record(row), value_bytes=None)
    return repr({name: flat[name] for name in flat if name not in NUMBERS})


def readings(packets: list[Packet]) -> Iterator[Sequence[Packet]]:
    """Yield a capture, and what others might have of the same conversation: less, and not in order."""
    yield packets
    for lost in range(3, 24, 2):  # without the answer to HELLO, to OPEN …
        yield packets[:lost] + packets[lost + 2 :]
    for seed in range(6):
        yield disturbed(packets, random.Random(seed))


@pytest.mark.parametrize(
    "packets", [secret_talk(300, 24).packets, secret_talk(60, 8).packets, files("samples/replica.pcap"), gets()]
)
def test_frames_are_alike_where_what_is_shown_of_them_is(packets: list[Packet]) -> None:
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    texts: defaultdict[int, set[str]] = defaultdict(set)
    for reading in readings(packets):
        for batch in parts_of(reading):
            for row, number in enumerate(frame_hashes(batch, np.arange(len(batch)))):
                numbers[shown(batch, row)].add(number)
                texts[number].add(shown(batch, row))
    assert {len(each) for each in numbers.values()} == {len(each) for each in texts.values()} == {1}


def last_hash(frame: bytes, flags: int = 1, way: str = "10.0.0.1:50000", at_ns: int = NOON) -> int:
    """Return the hash of the frame that a server sends last on a connection that was opened with flags."""
    made = TcpTalk(flow(way), start_ns=at_ns).send(0, encode("DCP_OPEN", {"flags": flags}, key=b"x"))
    made.send(1, encode("DCP_OPEN", response=True)).send(1, frame)
    *_, batch = parts_of(made.packets)
    return int(frame_hashes(batch, np.array([len(batch) - 1]))[0])


@pytest.mark.parametrize(
    "frame",
    [encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=b"{}", datatype=1), encode("DCP_NOOP", response=True)],
    ids=["document", "answer"],
)
def test_the_same_bytes_at_another_time_or_on_another_connection_are_another_frame(frame: bytes) -> None:
    others = [last_hash(frame, way="10.0.0.1:50001"), last_hash(frame, at_ns=NOON + 1)]
    assert last_hash(frame) == last_hash(frame)
    assert len({last_hash(frame), *others}) == 3


def test_a_document_is_another_where_its_datatype_may_be_of_a_value_that_was_left_out() -> None:
    document = encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=b"{}", datatype=1)
    assert last_hash(document) != last_hash(document, flags=0x41)


def test_sums_are_equal_where_frames_are_the_same_in_any_order() -> None:
    hashes = np.array([5, -7, 1 << 62, -(1 << 63), 5], np.int64)

    def of(*some: Array) -> FrameSum:
        found = FrameSum()
        for each in some:
            found.add(each)
        return found

    assert of(hashes) == of(hashes[::-1]) == of(hashes[:2], hashes[2:])
    others = [hashes[1:], hashes[[0, 1, 2, 3, 3]], np.append(hashes, 0), np.append(hashes[:4], 6)]
    assert [each for each in others if of(each) == of(hashes)] == []
