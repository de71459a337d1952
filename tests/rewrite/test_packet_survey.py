"""Packets that are noted a run at a time carry what they carry when they are noted one by one."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from dcpdump.batch.block import blocks
from dcpdump.net.packet import Packet
from dcpdump.rewrite.packet_survey import Carried, PacketSurvey
from tests.bench.captures import capture
from tests.support.batch_rows import files
from tests.support.packets import TcpTalk, flow, renumbered
from tests.support.pieces import all_pieces
from tests.support.secret_talk import disturbed, talk

SAMPLES = sorted(Path("samples").glob("*.pcap"))

Known = tuple[dict[str, list[list[int]]], dict[str, list[int]]]


def known(survey: PacketSurvey) -> Known:
    """Return what every packet carries, and which open connections."""
    payloads = survey.payloads
    payloads.close()
    columns = {file: [column.tolist() for column in payloads.columns(file)] for file in payloads.files}
    return columns, {file: numbers.tolist() for file, numbers in survey.handshakes.packets.items()}


def in_runs(packets: Iterable[Packet], size: int) -> Known:
    survey = PacketSurvey()
    for block in blocks(packets, size):
        all_pieces(survey.feed_block(block))
    all_pieces(survey.close_blocks())
    return known(survey)


def one_by_one(packets: Iterable[Packet]) -> Known:
    survey = PacketSurvey()
    for packet in packets:
        all_pieces(survey.feed_packet(packet))
    all_pieces(survey.close_blocks())
    return known(survey)


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> list[Packet]:
    """Return four connections of replica traffic, whose numbers pass 2³² on the way."""
    return files(str(capture(tmp_path_factory.mktemp("traffic"), "wire", 2500, 64)))


def same(packets: Sequence[Packet]) -> bool:
    return in_runs(packets, 1 << 18) == one_by_one(packets)


@pytest.mark.parametrize("seed", range(2))
def test_disorder_loss_and_repetition_in_large_segments_and_in_small(traffic: list[Packet], seed: int) -> None:
    for packets in (traffic[3 if seed % 2 else 500 :], talk(40, 24, syn=seed % 2 == 0).packets):
        assert same(renumbered(disturbed(packets, random.Random(seed))))


@pytest.mark.parametrize("syn", [True, False])
@pytest.mark.parametrize("gap", [70_000, 40_000_000, (1 << 32) - 1_000_000])
def test_streams_that_continue_somewhere_else(gap: int, syn: bool) -> None:
    far = TcpTalk(flow(), segment=40, syn=syn)
    other = TcpTalk(flow("10.0.0.1:50001"), segment=40)
    for _ in range(3):
        far.send(1, bytes(4000)).skip(1, gap)
        other.send(1, bytes(4000))
    assert same(renumbered(sorted([*far, *other], key=lambda each: each.ts_ns or 0)))


def test_a_packet_carries_the_bytes_behind_those_before_it_and_acknowledgements_none() -> None:
    packets = TcpTalk(flow()).send(0, b"abc").send(1, b"defgh").packets
    columns, handshakes = in_runs(packets, 1 << 20)
    (carried,) = ([Carried(*row) for row in zip(*column, strict=True)] for column in columns.values())
    assert carried == [(0, 0, 0), (1, 0, 0), (0, 0, 0), (0, 0, 3), (1, 0, 0), (1, 0, 5), (0, 0, 0)]
    assert handshakes == {"test.pcap": [1, 2, 3]}


def test_the_third_packet_of_a_handshake_is_found_in_a_run(traffic: list[Packet]) -> None:
    opening = [packet for packet in traffic if packet.data[47] & 2]
    others = [packet for packet in traffic if not packet.data[47] & 2]
    _, handshakes = in_runs(renumbered([*opening, *others]), 1 << 20)
    (numbers,) = handshakes.values()
    assert numbers[: len(opening)] == list(range(1, len(opening) + 1))
    assert len(numbers) == len(opening) * 3 // 2
