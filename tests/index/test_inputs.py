"""Frames are found again in inputs of every kind: containers, compressed, damaged, several, lossy."""

import bz2
import gzip
import lzma
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cramjam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpdump.batch.block import BlockSize, gathered
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.filter import masks
from dcpdump.batch.read_blocks import blocks_of, read_again
from dcpdump.capture.file import Capture
from dcpdump.cli.options import Selection, selection
from dcpdump.errors import CaptureError
from dcpdump.index.building import Spool
from dcpdump.index.capture_index import CaptureIndex
from dcpdump.net.limits import DEFAULT
from dcpdump.net.packet import Packet
from dcpdump.record import Record
from dcpdump.wire.encode import encode
from tests.batch.test_filter import CHOICES, OPTIONS
from tests.bench.captures import capture
from tests.index.test_frames import SAMPLES, SIZES, check_against, check_frames, check_sizes, dissected, options
from tests.support import damage
from tests.support.batch_rows import files
from tests.support.captures import Pcapng, pcap, pcapng
from tests.support.captures import records_of as records
from tests.support.packets import TcpTalk, flow
from tests.support.pieces import all_pieces
from tests.support.secret_talk import saved
from tests.support.strategies import damaged, sent


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> list[Packet]:
    """Return four connections of replica traffic."""
    return files(str(capture(tmp_path_factory.mktemp("inputs"), "wire", 150, 16)))


def sections(packets: list[Packet]) -> bytes:
    """Return a pcapng of two sections, the second in another byte order and of two interfaces."""
    half = len(packets) // 2
    big = Pcapng(big_endian=True)
    second = [big.section(), big.interface(1), big.interface(1)]
    for number, packet in enumerate(packets[half:]):
        second.append(big.packet((packet.ts_ns or 0) // 1000, packet.data, interface=number % 2))
    return pcapng(records(packets[:half])) + b"".join(second)


CONTAINERS: dict[str, Callable[[list[Packet]], bytes]] = {
    "pcap": lambda packets: pcap(records(packets)),
    "big-endian": lambda packets: pcap(records(packets), big_endian=True, nano=True),
    "pcapng": lambda packets: pcapng(records(packets)),
    "sections": sections,
    "appended": lambda packets: pcap(records(packets[:60])) + pcapng(records(packets[60:])),
    "cut": lambda packets: pcap(records(packets))[:-5],
    "pcapng-cut": lambda packets: pcapng(records(packets))[:-5],
    "garbage": lambda packets: pcap(records(packets[:60])) + b"garbage" * 9 + pcap(records(packets[60:]))[24:],
    "pcapng-garbage": lambda packets: (
        pcapng(records(packets[:60])) + b"garbage." * 9 + pcapng(records(packets[60:]))[28:]
    ),
    "gzip": lambda packets: gzip.compress(pcap(records(packets))),
    "xz": lambda packets: lzma.compress(pcapng(records(packets))),
    "bzip2": lambda packets: bz2.compress(pcap(records(packets))),
    "zstd": lambda packets: bytes(cramjam.zstd.compress(pcap(records(packets)))),
    "lz4": lambda packets: bytes(cramjam.lz4.compress(pcap(records(packets)))),
    "gzip-cut": lambda packets: gzip.compress(pcap(records(packets)))[:-2000],
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_each_frame_in_any_container_is_that_of_read(traffic: list[Packet], tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(CONTAINERS[name](traffic))
    assert check_frames([str(path)], options(4096)) > 20


@pytest.mark.parametrize("name", ["garbage", "pcapng-garbage", "cut"])
def test_what_is_salvaged_is_found_again(traffic: list[Packet], tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(CONTAINERS[name](traffic))
    without = check_frames([str(path)], options(4096))
    assert check_frames([str(path)], options(4096), salvage=True) >= without


def test_captures_that_overlap_are_one_timeline(traffic: list[Packet], tmp_path: Path) -> None:
    for part in range(3):
        saved(traffic[part::3], tmp_path / f"{part}.pcap")
    assert check_sizes([str(tmp_path / f"{part}.pcap") for part in range(3)]) > 120


def test_blocks_of_a_pcapng_that_has_packets_in_two_forms_are_read_again(tmp_path: Path) -> None:
    write, path = Pcapng(), tmp_path / "mixed.pcapng"
    texts = [b"%04d" % at * 20 for at in range(60)]
    packets = [write.packet(at, text) if at % 7 else write.old_packet(at, text) for at, text in enumerate(texts)]
    path.write_bytes(b"".join([write.section(), write.interface(1, 0, [(9, b"\x09")]), *packets]))
    found = list(blocks_of([Capture(str(path))], BlockSize(300)))
    again = [block.position and read_again(block.position) for block in found]
    assert [list(each.packets) if each else [] for each in again] == [list(block.packets) for block in found]
    assert len(found) > 5


def disturbed(packets: list[Packet], seed: int) -> list[Packet]:
    """Return packets of which some are lost, swapped, repeated or cut."""
    loss = random.Random(seed).choice([0.003, 0.03])
    return damage.disturbed(packets[3 if seed % 2 else 40 :], random.Random(seed), loss=loss, again=0.02, cut=0.005)


@pytest.mark.parametrize("seed", range(6))
def test_each_frame_amid_losses_is_that_of_read(traffic: list[Packet], tmp_path: Path, seed: int) -> None:
    path = saved(disturbed(traffic, seed), tmp_path / "lossy.pcap")
    assert check_sizes([str(path)], [SIZES[seed % 3]]) > 20


def test_memory_that_is_freed_is_freed_again(traffic: list[Packet], tmp_path: Path) -> None:
    path = saved(disturbed(traffic * 2, 3), tmp_path / "little.pcap")
    limits = replace(DEFAULT, memory=64 * 1024)
    # What is freed when depends on the blocks: those of the index have to be the same.
    dissection, batches = Dissection(limits), []
    for block in blocks_of([Capture(str(path))], BlockSize(4096)):
        batches += all_pieces(dissection.feed_block(block))
    batches += all_pieces(dissection.close_blocks())
    expected = [batch.record(row) for batch in batches for row in range(len(batch))]
    assert dissection.balance.evictions > 3
    assert check_against(expected, [str(path)], [replace(options(4096), limits=limits)]) > 50


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.one_of(sent().map(lambda each: each.data), damaged())),
        min_size=1,
        max_size=20,
    ),
    st.randoms(use_true_random=False),
    st.sampled_from(SIZES),
)
def test_each_frame_of_any_conversation_is_that_of_read(
    tmp_path_factory: pytest.TempPathFactory, messages: list[tuple[int, int, bytes]], chance: random.Random, size: int
) -> None:
    talks = [TcpTalk(flow(f"10.0.0.1:{50_000 + number}"), segment=chance.choice([40, 300])) for number in range(3)]
    for number, direction, data in messages:
        talks[number].send(direction, data)
        if chance.random() < 0.1:
            talks[number].skip(direction, chance.randrange(1, 60))
        if chance.random() < 0.1:
            talks[number].send(1 - direction, encode("DCP_NOOP", opaque=chance.randrange(4)))
    packets = [packet for talk in talks for packet in talk.packets]
    packets.sort(key=lambda packet: (packet.ts_ns or 0) + chance.randrange(3_000_000))
    path = saved(packets, tmp_path_factory.mktemp("talk") / "talk.pcap")
    check_frames([str(path)], options(size))


def test_dropping_checkpoints_changes_nothing(traffic: list[Packet], tmp_path: Path) -> None:
    path = saved(disturbed(traffic[:150], 1), tmp_path / "few.pcap")
    frames = check_frames([str(path)], options(4096))
    assert check_frames([str(path)], options(4096, memory=3000)) == frames
    assert check_frames([str(path)], options(4096, memory=1)) == frames


def test_the_spool_keeps_the_latest_blocks_whatever_their_size() -> None:
    chance, spool, kept = random.Random(1), Spool(1000), dict[int, list[Packet]]()
    for number in range(200):
        data = [chance.randbytes(chance.randrange(1, 400)) for _ in range(chance.randint(1, 4))]
        packets = [Packet(number, number, 1, each, len(each)) for each in data]
        at = spool.write(gathered(packets))
        kept[at] = packets
        for position in list(kept):
            found = spool.read(position)
            assert found is None or [*found.packets] == kept[position]
            if found is None:
                assert position != at
                del kept[position]
    spool.close()


def test_the_oldest_packets_of_a_full_spool_are_no_longer_kept(traffic: list[Packet], tmp_path: Path) -> None:
    path = tmp_path / "packets.pcap.gz"
    path.write_bytes(gzip.compress(pcap(records(traffic))))
    with CaptureIndex([Capture(str(path))], options(4096, spool_bytes=30_000)) as index:
        index.finish()
        assert index.frames > 120
        assert index.record(index.frames).number == index.frames
        with pytest.raises(LookupError, match="no longer kept"):
            index.record(1)
        assert index.columns.frames == index.frames


@pytest.mark.parametrize("change", [lambda data: data[:2000], lambda data: data[:24] + b"\0" * len(data[24:])])
def test_a_capture_that_was_changed_meanwhile_is_noticed(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "changed.pcap"
    path.write_bytes(SAMPLES[0].read_bytes())
    with CaptureIndex([Capture(str(path))], options(4096)) as index:
        index.finish()
        path.write_bytes(change(path.read_bytes()))
        with pytest.raises(CaptureError, match="changed"):
            index.record(index.frames)


def test_a_frame_that_is_not_there_is_no_frame() -> None:
    with CaptureIndex([Capture(str(SAMPLES[0]))], options(4096)) as index:
        with pytest.raises(LookupError):
            index.record(1)
        index.finish()
        assert index.record(1).number == 1
        for number in (0, index.frames + 1):
            with pytest.raises(LookupError):
                index.record(number)


# -- a filter wants the same frames of an index as of read ---------------------------------------------------

Indexed = tuple[CaptureIndex, list[Record]]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return an index of several captures and their frames."""
    paths = [str(capture(tmp_path_factory.mktemp("matching"), "wire", 1200, 64)), *map(str, SAMPLES)]
    with CaptureIndex([Capture(path) for path in paths], options(100_000)) as index:
        index.finish()
        yield index, dissected(paths)


def chosen_by(texts: dict[str, Any]) -> Selection:
    return selection(dict.fromkeys(OPTIONS) | {"problems": False} | texts)


def check(indexed: Indexed, texts: dict[str, Any], first: int = 1) -> int:
    index, records = indexed
    chosen = chosen_by(texts)
    asked = masks(chosen.texts, chosen.filter, window=chosen.window)
    found = [number for step in index.matching(asked, first) for number in step.numbers.tolist()]
    assert found == [record.number for record in records if record.number >= first and chosen.filter.accepts(record)]
    return len(found)


@pytest.mark.parametrize("texts", CHOICES, ids=str)
def test_a_filter_wants_the_frames_that_read_shows(indexed: Indexed, texts: dict[str, Any]) -> None:
    check(indexed, texts)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(CHOICES), min_size=1, max_size=3), st.integers(1, 3000))
def test_any_clauses_together_from_any_frame_on(indexed: Indexed, several: list[dict[str, Any]], first: int) -> None:
    check(indexed, {name: text for texts in several for name, text in texts.items()}, first)


def test_headers_are_answered_without_decoding(tmp_path: Path) -> None:
    path = tmp_path / "gone.pcap"
    path.write_bytes(Path(SAMPLES[0]).read_bytes())
    with CaptureIndex([Capture(str(path))], options(4096)) as index:
        index.finish()
        path.unlink()
        chosen = chosen_by({"opcode": "!noop", "kind": "request"})
        found = [each for step in index.matching(masks(chosen.texts, chosen.filter)) for each in step.numbers.tolist()]
        assert 0 < len(found) < index.frames
