"""Reading ahead: another process reads the captures, and nobody can tell."""

import gzip
import os
import random
import signal
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dcpdump.capture import Capture, open_capture
from dcpdump.columnar import ahead
from dcpdump.columnar.ahead import blocks_ahead
from dcpdump.columnar.block import Block
from dcpdump.columnar.input import blocks_of
from tests.bench.captures import capture

SAMPLES = sorted(map(str, Path("samples").glob("*.pcap*")))


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain pcap of several blocks."""
    return capture(tmp_path_factory.mktemp("wire"), "wire", 30_000, 300)


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a helper read captures of any size."""
    monkeypatch.setattr(ahead, "LEAST_BYTES", 0)


def captures_of(*paths: str | Path, salvage: bool = False) -> list[Capture]:
    return [open_capture(str(path), salvage=salvage) for path in paths]


def told(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """It gives all that blocks say, copied while they are good."""
    return [
        {
            **{field.name: getattr(block.facts, field.name) for field in fields(block.facts)},
            "numbers": block.numbers.tolist(),
            "ts_ns": block.ts_ns.tolist(),
            "files": [block.files[number] for number in block.file.tolist()],
            "packets": list(block.packets),
            "payloads": [
                bytes(block.data[start : start + size]) if flow >= 0 else b""
                for flow, start, size in zip(block.facts.flow, block.facts.start, block.facts.size, strict=True)
            ],
        }
        for block in blocks
    ]


def plain(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """It turns arrays into lists."""
    return [
        {name: value.tolist() if hasattr(value, "tolist") else value for name, value in one.items()} for one in found
    ]


def assert_the_same(*paths: str | Path, salvage: bool = False) -> None:
    """It has the same captures read by a helper and here, and compares all that is known of them then."""
    here, there = captures_of(*paths, salvage=salvage), captures_of(*paths, salvage=salvage)
    assert plain(told(blocks_ahead(there, 2))) == plain(told(blocks_of(here)))
    for one, other in zip(here, there, strict=True):
        assert (other.damage, other.warnings, other.notes, other.drops) == (
            one.damage,
            one.warnings,
            one.notes,
            one.drops,
        )


def test_a_plain_capture_has_the_same_blocks(wire: Path) -> None:
    assert len(told(blocks_of(captures_of(wire)))) > 2
    assert_the_same(wire)


def test_captures_of_all_kinds_are_one_timeline() -> None:
    assert_the_same(*SAMPLES)


def test_a_packed_capture_has_the_same_blocks(wire: Path, tmp_path: Path) -> None:
    packed = tmp_path / "wire.pcap.gz"
    packed.write_bytes(gzip.compress(wire.read_bytes()[:6_000_000], 1))
    assert_the_same(packed)


@pytest.mark.parametrize("salvage", [False, True])
def test_what_is_wrong_with_captures_is_told_here(wire: Path, tmp_path: Path, salvage: bool) -> None:
    data = bytearray(wire.read_bytes())
    at = len(data) // 2
    data[at : at + 5000] = random.Random(5).randbytes(5000)
    broken, cut = tmp_path / "broken.pcap", tmp_path / "cut.pcap"
    broken.write_bytes(data)
    cut.write_bytes(data[: at - 7])
    assert_the_same(broken, cut, salvage=salvage)
    assert_the_same(cut, salvage=salvage)


def test_what_has_no_room_comes_all_the_same(wire: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_ROOM", ahead._DATA + 1000)
    assert_the_same(wire)


def children() -> set[int]:
    """It gives the processes that this one has made."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_helper_that_dies_is_not_missed(wire: Path, after: int) -> None:
    before = children()
    blocks = blocks_ahead(captures_of(wire), 2)
    (helper,) = children() - before
    found = [told([next(blocks)])[0] for _ in range(after)]
    os.kill(helper, signal.SIGKILL)
    found += told(blocks)
    assert plain(found) == plain(told(blocks_of(captures_of(wire))))


def test_a_helper_is_gone_when_nobody_wants_more(wire: Path) -> None:
    before = children()
    blocks = blocks_ahead(captures_of(wire), 2)
    next(blocks)
    assert children() != before
    blocks.close()  # type: ignore[attr-defined]
    assert children() == before


def test_one_process_reads_here(wire: Path) -> None:
    before = children()
    blocks = blocks_ahead(captures_of(wire), 1)
    next(blocks)
    assert children() == before


def test_where_there_may_be_no_more_processes_it_is_read_here(wire: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    open_before = len(os.listdir("/proc/self/fd"))
    blocks = blocks_ahead(captures_of(wire), 2)
    assert len(os.listdir("/proc/self/fd")) == open_before
    assert plain(told(blocks)) == plain(told(blocks_of(captures_of(wire))))


def test_signals_are_for_the_one_that_is_helped(wire: Path) -> None:
    before = children()
    blocks = blocks_ahead(captures_of(wire), 2)
    (helper,) = children() - before
    found = told([next(blocks)])
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(helper, number)
    assert plain(found + told(blocks)) == plain(told(blocks_of(captures_of(wire))))
