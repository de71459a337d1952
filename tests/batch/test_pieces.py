"""Pieces: what a block of packets completes is made as it is taken, and never more at a time than may be kept."""

from collections.abc import Callable, Iterator

import cramjam
import pytest

from dcpdump.arrow.other_tables import Judging
from dcpdump.batch.block import Block, blocks
from dcpdump.batch.cutting import MOST_WEIGHT
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.check.finding import Finding
from dcpdump.net.packet import Packet
from dcpdump.record import Json, as_json
from dcpdump.rewrite.packet_survey import PacketSurvey
from dcpdump.streams.dissection import Watching
from dcpdump.wire.encode import encode
from tests.support.hostile import half_of_the_segments, many_noops, reconnects, stray_segments
from tests.support.packets import TcpTalk

DOCUMENT = encode("DCP_MUTATION", {"by_seqno": 1, "rev_seqno": 1}, key=b"k", value=bytes(1000))
NOOP = encode("DCP_NOOP", opaque=3)
HELLO = encode("HELLO", {"features": list(range(1000))}, key=b"agent")
_TEXT = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
COMPRESSED = encode("DCP_MUTATION", {"by_seqno": 1, "rev_seqno": 1}, key=b"k", value=_TEXT, datatype=2)
#: Frames that 64 KiB may hold, which are cut together.
_TOGETHER = 65_536 + 1_448


def sizes(captured: list[Packet]) -> list[list[int]]:
    """Return, of each block of a capture, how many frames are in what is taken at a time."""
    dissection = Dissection()
    return [[sum(map(len, batches)) for batches in dissection.feed_block(block)] for block in blocks(captured)]


def sent(*data: bytes) -> list[Packet]:
    """Return the packets of a server that sends data."""
    talk = TcpTalk(acks=False)
    for each in data:
        talk.send(1, each)
    return talk.packets


def test_ordinary_frames_of_a_block_are_taken_at_once() -> None:
    found = sizes(sent(DOCUMENT * 8_000))
    assert [len(each) for each in found] == [1] * 5
    assert sum(map(sum, found)) == 8_000


@pytest.mark.parametrize(
    ("frame", "weight"),
    [(NOOP, 1), (HELLO, 1 + (len(HELLO) - 24) // 8), (COMPRESSED, 1 + (1 << 20) // 512)],
    ids=["tiny", "many fields", "compressed"],
)
def test_what_turns_dense_is_taken_in_pieces_from_the_first_block_on(frame: bytes, weight: int) -> None:
    count = 750_000 // len(frame)
    found = [size for each in sizes(sent(DOCUMENT * 4_000, frame * count)) for size in each]
    assert sum(found) == 4_000 + count
    assert max(found[4:]) * weight <= MOST_WEIGHT + _TOGETHER // len(frame) * weight


@pytest.mark.parametrize(("holes", "count"), [(1, 12_000), (20, 600)])
def test_what_holes_held_back_is_taken_in_pieces(holes: int, count: int) -> None:
    talk = TcpTalk(acks=False).send(1, NOOP)
    for _ in range(holes):
        talk.skip(1, len(NOOP)).send(1, NOOP * count)
    dissection, taken = Dissection(), []
    for block in blocks(talk.packets):
        taken += [sum(map(len, batches)) for batches in dissection.feed_block(block)]
    assert sum(taken) == 1
    taken += [sum(map(len, batches)) for batches in dissection.close_blocks()]
    assert sum(taken) == holes * count + 1
    assert max(taken) <= MOST_WEIGHT + _TOGETHER // len(NOOP)


def test_a_list_of_pieces_is_emptied_before_the_next_is_made() -> None:
    (block, *_) = blocks(sent(NOOP * 25_000))
    taken: list[list[FrameBatch]] = []
    for batches in Dissection().feed_block(block):
        assert not any(taken)
        taken.append(batches)
    assert len(taken) > 1


SHAPES: dict[Callable[[int], list[Packet]], int] = {
    half_of_the_segments: 600,
    many_noops: 600,
    reconnects: 30,
    stray_segments: 300,
}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_in_small_pieces_the_same_is_found(shape: Callable[[int], list[Packet]]) -> None:
    captured = shape(SHAPES[shape])
    whole, small = judged(Watching(), captured), judged(_SmallWatching(), captured)
    assert small[0] == whole[0]
    assert small[1:] == whole[1:]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_before_a_piece_is_made_it_is_known_what_its_packets_carry(shape: Callable[[int], list[Packet]]) -> None:
    survey = _SmallSurvey()
    for block in blocks(shape(SHAPES[shape])):
        for batches in survey.feed_block(block):
            known = set(carried(survey, block))
            for batch in batches:
                assert {direction.id for direction in batch.directions} <= known


class _SmallWatching(Watching):
    most = 1


class _SmallSurvey(PacketSurvey):
    most = 1


def judged(dissection: Watching, captured: list[Packet]) -> tuple[list[Json], list[tuple[Finding, int]], object]:
    """Return the frames of a capture, the findings, and the counters."""
    judging = Judging(dissection)
    records: list[Json] = []

    def take(some: Iterator[list[FrameBatch]]) -> None:
        for batches in some:
            records.extend(as_json(batch.record(row)) for batch in batches for row in range(len(batch)))
            judging.feed(batches)
            dissection.gaps.clear()

    for block in blocks(captured):
        take(dissection.feed_block(block))
    take(dissection.close_blocks())
    judging.close(captured[-1].ts_ns)
    return records, judging.fold.findings(), (dissection.tally, dissection.balance)


def carried(survey: PacketSurvey, block: Block) -> list[int]:
    """Return the directions of the packets of a block, as far as they are known."""
    file = block.files[0]
    streams: list[int] = survey.payloads.columns(file, survey.payloads.noted(file, block.numbers)).stream.tolist()
    return streams


def test_a_compressed_value_weighs_no_more_than_its_text_can_be_long() -> None:
    lying = encode("DCP_MUTATION", {"by_seqno": 1, "rev_seqno": 1}, key=b"k", value=b"\xff" * 100, datatype=2)
    found = [size for each in sizes(sent(lying * 6_000)) for size in each]
    assert sum(found) == 6_000
    assert max(found) > 1_000
