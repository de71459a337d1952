"""Input: captures in blocks have the packets of the timeline, whatever the blocks were read from."""

import gzip
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.batch import read_blocks as intake
from dcpdump.batch.block import Block
from dcpdump.batch.read_blocks import blocks_of
from dcpdump.capture import open_capture, timeline
from dcpdump.capture.source import bytes_read
from dcpdump.cli.input_options import InputOptions
from tests.support.captures import Record, pcap

Reported = list[tuple[str, int, int | None, bytes]]


def in_turn(paths: list[Path]) -> Reported:
    """Return the packets of the timeline, one by one."""
    packets = timeline([open_capture(str(path)) for path in paths])
    return [(packet.file, packet.number, packet.ts_ns, bytes(packet.data)) for packet in packets]


def in_blocks(paths: list[Path]) -> Reported:
    """Return the packets that blocks have."""
    return [each for block in blocks_of([open_capture(str(path)) for path in paths]) for each in reported(block)]


def reported(block: Block) -> Iterator[tuple[str, int, int | None, bytes]]:
    for row, packet in enumerate(block.packets):
        yield block.files[block.file[row]], int(block.numbers[row]), int(block.ts_ns[row]), bytes(packet.data)


def records(*times: int) -> list[Record]:
    return [Record(1_700_000_000_000_000_000 + 1000 * time, b"%04d" % time * 16) for time in times]


def files(folder: Path, *captures: list[Record]) -> list[Path]:
    """Return captures as files, named in their order."""
    paths = [folder / f"{number:02d}.pcap" for number in range(len(captures))]
    for path, packets in zip(paths, captures, strict=True):
        path.write_bytes(pcap(packets))
    return paths


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many captures were merged packet by packet, each time."""
    counts: list[int] = []

    def counted(captures: list[object], **options: int) -> object:
        counts.append(len(captures))
        return timeline(captures, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(intake, "timeline", counted)
    return counts


def test_files_that_follow_one_another_are_read_in_turn(tmp_path: Path, merged: list[int]) -> None:
    paths = files(tmp_path, records(1, 2, 3), records(3, 4), records(5))
    found = in_blocks(list(reversed(paths)))
    assert merged == []
    assert found == in_turn(paths)


def test_from_where_files_overlap_they_are_merged(tmp_path: Path, merged: list[int]) -> None:
    paths = files(tmp_path, records(1, 2), records(3, 7), records(6, 8), records(9))
    found = in_blocks(paths)
    assert merged == [3]
    assert found == in_turn(paths)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_file_that_is_not_plain_is_read_by_its_own_reader(tmp_path: Path, at: int) -> None:
    paths = files(tmp_path, records(1, 2), records(3, 4), records(5, 6))
    packed = paths[at].with_suffix(".pcap.gz")
    packed.write_bytes(gzip.compress(paths[at].read_bytes()))
    paths[at] = packed
    assert in_blocks(paths) == in_turn(paths)


def test_of_a_file_that_is_cut_short_the_last_record_alone_is_read_by_its_own_reader(tmp_path: Path) -> None:
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap([Record(1_700_000_000_000_000_000, bytes(200_000))] * 10)[:-5])
    capture = open_capture(str(path))
    before = bytes_read()
    assert [len(packet.data) for block in blocks_of([capture]) for packet in block.packets] == [200_000] * 9 + [199_995]
    assert bytes_read() - before < 1_000_000
    assert [(each.record, each.where) for each in capture.damage] == [(10, 24 + 9 * 200_016)]


def test_a_file_that_is_cut_short_hands_on_to_the_next(tmp_path: Path, merged: list[int]) -> None:
    paths = files(tmp_path, records(1, 2), records(3, 4), records(5, 6))
    paths[1].write_bytes(paths[1].read_bytes()[:-5])
    captures = [open_capture(str(path)) for path in paths]
    found = [each for block in blocks_of(captures) for each in reported(block)]
    assert [number for _, number, _, _ in found] == [1, 2, 1, 2, 1, 2]
    assert [bool(capture.damage) for capture in captures] == [False, True, False]
    assert merged == []


@pytest.mark.parametrize("deleted", [[0], [1], [0, 1, 2]])
def test_a_file_that_is_deleted_before_its_turn_is_damage_and_the_others_are_read(
    tmp_path: Path, deleted: list[int]
) -> None:
    paths = files(tmp_path, records(1, 2), records(3, 4), records(5, 6))
    captures = [open_capture(str(path)) for path in paths]
    for at in deleted:
        paths[at].unlink()
    found = [each for block in blocks_of(captures) for each in reported(block)]
    assert found == in_turn([path for path in paths if path.exists()])
    gone = ["this capture is not what it was: there is no such file; lost: all of it"]
    assert [[str(each) for each in capture.damage] for capture in captures] == [
        gone * (at in deleted) for at in range(3)
    ]


def test_a_file_that_is_deleted_before_it_is_opened_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, gone = files(tmp_path, records(1), records(2))
    gone.unlink()
    assert [capture.name for capture in InputOptions().open([str(gone), str(path)])] == [str(path)]
    assert capsys.readouterr().err == f"dcpdump: note: {gone}: it was deleted before it was read\n"


@given(st.lists(st.lists(st.integers(0, 40), max_size=6), min_size=1, max_size=5))
def test_any_captures_give_the_packets_of_the_timeline(times: list[list[int]]) -> None:
    with TemporaryDirectory() as folder:
        paths = files(Path(folder), *(records(*each) for each in times))
        found = in_blocks(paths)
        assert found == in_turn(paths)
        assert all(a != b for a, b in pairwise(sorted(found)))
