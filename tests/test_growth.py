"""Every command takes work in proportion to a hostile capture, and memory within bounds.

Work is counted, not timed: lines and calls of Python, of which twice the input may add twice as many.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import pytest

from dcpdump.net.packet import Packet
from tests.support.console import run
from tests.support.hostile import (
    SHAPES,
    cache_transfers,
    calm_then_lists,
    compressed_xattrs,
    documents,
    escapes,
    half_of_the_segments,
    in_pcap,
    in_small_blocks,
    large_documents,
    large_manifest,
    noops_behind_a_hole,
    noops_without_answers,
    short_connections,
    stray_segments,
    streams_in_turn,
    tiny_frames,
)
from tests.test_bounds import steps

MIB = 1 << 20
COMMANDS = {
    "read": "read CAPTURE -f ndjson -q",
    "check": "check CAPTURE",
    "redact": "redact CAPTURE -w OUT.pcap",
}
#: The smallest of three captures, as a share of a megabyte; and of those of which much is remembered.
_SHARE, _LARGER = 128, 48
_REMEMBERED = (noops_without_answers, half_of_the_segments, stray_segments, cache_transfers)

Shape = Callable[[int], list[Packet]]


def _done(command: str, path: Path, out: Path) -> None:
    """Run a command."""
    words = COMMANDS[command].replace("CAPTURE", str(path)).replace("OUT", str(out))
    printed = run(f"dcpdump {words} --force" if command == "redact" else f"dcpdump {words}")
    assert printed.code in (0, 1, 4), printed.err


@lru_cache(maxsize=4)
def _capture(shape: Shape, count: int) -> bytes:
    """Return a capture, which several commands read."""
    return in_pcap(shape(count))


def assert_grows_in_proportion(counts: list[int]) -> None:
    """Have the work for once, twice and four times as much in proportion, what is the same for all left out."""
    once, twice, four = counts
    assert four <= 2.2 * twice, counts
    assert four - twice <= 2.6 * (twice - once), counts  # of what grows with the square it would be four times


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_twice_a_hostile_capture_adds_twice_the_work(shape: Shape, command: str, tmp_path: Path) -> None:
    counts = []
    size = SHAPES[shape] // (_LARGER if shape in _REMEMBERED else _SHARE)
    for times in (1, 2, 4):
        path = tmp_path / f"{times}.pcap"
        path.write_bytes(_capture(shape, size * times))
        if times == 1:
            _done(command, path, tmp_path / "first")  # what is made once, modules loaded too, is made now
        counts.append(steps(partial(_done, command, path, tmp_path / f"out{times}")))
    assert_grows_in_proportion(counts)


def test_many_small_blocks_of_a_pcapng_take_work_in_proportion(tmp_path: Path) -> None:
    counts = []
    for times in (1, 2, 4):
        path = tmp_path / f"{times}.pcapng"
        path.write_bytes(in_small_blocks(next(iter(SHAPES))(100 * times)))
        if times == 1:
            _done("read", path, tmp_path / "out")
        counts.append(steps(partial(_done, "read", path, tmp_path / "out")))
    assert_grows_in_proportion(counts)


#: Run a command, and print its exit code and its largest memory. It is started by a process that is small itself: what
#: a child took includes what it had of its parent before it became another program.
_MEASURING = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def assert_takes_no_more_than(mb: int, command: str, capture: bytes, tmp_path: Path) -> None:
    """Have a command read a capture in no more memory."""
    path = tmp_path / "large.pcap"
    path.write_bytes(capture)
    words = shlex.split(command.replace("CAPTURE", str(path)).replace("OUT", str(tmp_path / "out")))
    measuring = [sys.executable, "-I", "-S", "-c", _MEASURING, sys.executable, "-m", "dcpdump", *words]
    code, most = map(int, subprocess.run(measuring, capture_output=True, check=True, text=True).stdout.split())
    assert code in (0, 4)
    assert most // (1024 if sys.platform == "linux" else MIB) <= mb


def _rows(*rows: tuple[Shape, int, str, int] | None) -> list[object]:
    """Return a shape, its size, a command and the memory that it may take; behind None the rows of the nightly leg."""
    daily = rows.index(None)
    marks = dict.fromkeys(rows[daily + 1 :], pytest.mark.nightly)
    return [
        pytest.param(*each, marks=marks.get(each, ()), id=f"{each[0].__name__}-{each[2].replace(' CAPTURE', '')}")
        for each in rows
        if each
    ]


#: What the modules of a command take, and what of the capture it may hold at a time: if it held all, it would be 20 to
#: 150 MB more. Of the commands that share what bounds them one is in the daily leg.
@pytest.mark.parametrize(
    ("shape", "count", "command", "mb"),
    _rows(
        (tiny_frames, 14_000, "redact CAPTURE -w OUT", 107),
        (cache_transfers, 100_000, "report CAPTURE -o OUT", 300),
        (large_manifest, 4_000_000, "read CAPTURE -f table -q", 300),
        (escapes, 6_000_000, "export CAPTURE -o OUT", 300),
        (calm_then_lists, 150, "read CAPTURE -q", 95),
        (calm_then_lists, 250, "streams CAPTURE", 115),
        (calm_then_lists, 350, "report CAPTURE -o OUT", 180),
        (large_documents, 24, "sql 'select max(octet_length(value)) from frames where opcode = 87' CAPTURE", 250),
        (noops_behind_a_hole, 35_000, "redact CAPTURE -w OUT", 115),
        (compressed_xattrs, 75, "export CAPTURE -o OUT", 167),
        (short_connections, 10_000, "check CAPTURE --memory 16M", 102),
        (streams_in_turn, 16_000, "streams CAPTURE --memory 16M", 75),
        None,
        (tiny_frames, 14_000, "streams CAPTURE", 80),
        (tiny_frames, 14_000, "export CAPTURE -o OUT", 170),
        (cache_transfers, 100_000, "read CAPTURE -f table -q", 300),
        (cache_transfers, 100_000, "export CAPTURE -o OUT", 300),
        (large_manifest, 4_000_000, "export CAPTURE -o OUT", 300),
        (large_manifest, 4_000_000, "report CAPTURE -o OUT", 300),
        (escapes, 6_000_000, "read CAPTURE -f table -q", 300),
        (escapes, 6_000_000, "report CAPTURE -o OUT", 300),
        (calm_then_lists, 150, "export CAPTURE -o OUT", 200),
        (calm_then_lists, 150, "sql 'select * from frames' CAPTURE", 237),
        (calm_then_lists, 150, "sql 'select * from frames' CAPTURE -f ndjson", 237),
        (calm_then_lists, 150, "pipeline CAPTURE -o OUT --engine local", 195),
        (documents, 150_000, "sql 'select * from frames order by value offset 149_900' CAPTURE", 260),
        (noops_behind_a_hole, 50_000, "streams CAPTURE", 135),
        (compressed_xattrs, 75, "pipeline CAPTURE -o OUT --engine local", 165),
        (short_connections, 10_000, "report CAPTURE -o OUT --memory 16M", 180),
        (short_connections, 10_000, "pipeline CAPTURE -o OUT --engine local --memory 16M", 192),
        (streams_in_turn, 16_000, "check CAPTURE --memory 16M", 77),
        (streams_in_turn, 16_000, "export CAPTURE -o OUT --tables streams --memory 16M", 134),
    ),
)
def test_a_hostile_capture_takes_a_memory_that_is_bounded(
    shape: Shape, count: int, command: str, mb: int, tmp_path: Path
) -> None:
    assert_takes_no_more_than(mb, command, _capture(shape, count), tmp_path)
