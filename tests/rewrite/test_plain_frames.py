"""Plain frames are concealed without being decoded, with the same result as decoded ones."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpdump.net.packet import Packet
from dcpdump.pseudonymize import Pseudonyms
from dcpdump.rewrite.concealed_frame import Concealed, Concealer, plain_frames
from dcpdump.rewrite.redaction import places_of, plain_proof_hash, proof_hash
from tests.batch.test_twins import talk
from tests.bench.captures import capture
from tests.support.batch_rows import files
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
    for part in parts_of(packets, show_secrets=True):
        for row, frame in enumerate(plain_frames(part)):
            if frame is not None:
                plain.append(concealer.conceal_plain(frame))
                decoded.append(concealer.conceal(part.record(row)))
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
    for part in parts_of(packets, show_secrets=True):
        for row, (place, frame) in enumerate(zip(places_of(part), plain_frames(part), strict=True)):
            if frame is not None:
                record = part.record(row)
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
