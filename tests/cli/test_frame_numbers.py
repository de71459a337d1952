"""``read --frame`` prints the frames of these numbers, as they are printed among all."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.captures import capture
from tests.support.console import run
from tests.support.diagnoses import objects

SAMPLE = "samples/client-rollback.pcap"


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """Return a capture of several blocks, and its frames as lines of ndjson."""
    path = str(capture(tmp_path_factory.mktemp("numbers"), "wire", 4000, 64))
    return path, run(f"dcpdump read {path} -f ndjson -q").out.splitlines()


def test_the_frames_are_those_of_all(traffic: tuple[str, list[str]]) -> None:
    path, lines = traffic
    found = run(f"dcpdump read {path} -f ndjson -q --frame 2,7-9,3000,3500-3502")
    assert found.out.splitlines() == [lines[number - 1] for number in (2, 7, 8, 9, 3000, 3500, 3501, 3502)]
    assert found.code == 0


@settings(max_examples=10)
@given(numbers=st.lists(st.integers(1, 4000), min_size=1, max_size=6), negated=st.booleans())
def test_any_numbers_are_found(traffic: tuple[str, list[str]], numbers: list[int], negated: bool) -> None:
    path, lines = traffic
    text = ",".join(map(str, numbers))
    found = run(f"dcpdump read {path} -f ndjson -q --frame {'!' if negated else ''}{text}").out.splitlines()
    assert found == [line for number, line in enumerate(lines, 1) if (number in numbers) is not negated]


@pytest.mark.parametrize("form", ["table", "grid", "line", "csv"])
@pytest.mark.parametrize("name", ["client-rollback", "damage", "durable"])
def test_every_format_prints_them_as_among_all(name: str, form: str) -> None:
    """They are asked for one alone, then two, then three…"""
    command = f"dcpdump read samples/{name}.pcap -f {form} -q"
    whole = run(command).out
    header = whole.partition("\n")[0] + "\n" if form == "csv" else ""
    count, first, pieces = len(objects(f"dcpdump read samples/{name}.pcap")), 1, [header]
    for size in itertools.count(1):
        pieces.append(run(f"{command} --frame {first}-{min(first + size - 1, count)}").out.removeprefix(header))
        first += size
        if first > count:
            break
    assert "".join(pieces) == whole == run(f"{command} --frame 1-{count}").out


def test_several_captures_have_one_numbering() -> None:
    every = objects("dcpdump read samples")
    assert objects(f"dcpdump read samples --frame 1,40,{len(every)}") == [every[0], every[39], every[-1]]


@pytest.mark.parametrize(
    ("clause", "wanted"), [("--opcode stream_req", [16, 17]), ("--kind response", [16]), ("--problems", [])]
)
def test_other_filters_hold_as_well(clause: str, wanted: list[int]) -> None:
    assert [row["frame"] for row in objects(f"dcpdump read {SAMPLE} {clause} --frame 16-17")] == wanted


def test_nothing_is_read_behind_the_last_one(traffic: tuple[str, list[str]], tmp_path: Path) -> None:
    path = tmp_path / "damaged.pcap"
    path.write_bytes(Path(traffic[0]).read_bytes() + b"damage" * 10)
    assert [run(f"dcpdump read {path} -f line -q --frame {numbers}").code for numbers in ("5", "5-")] == [0, 4]


def test_a_number_behind_the_last_frame_is_refused() -> None:
    found = run(f"dcpdump read {SAMPLE} -f line -q --frame 3,48-60")
    error = "dcpdump: error: --frame: there is no frame 48: the capture has 25 frames\n"
    assert (found.code, found.out[:3], found.err) == (2, "#3 ", error)
    assert run(f"dcpdump read {SAMPLE} -f line -q --frame 20-60").code == 0


def test_carve_takes_them_too(tmp_path: Path) -> None:
    piece = tmp_path / "piece.pcapng"
    assert run(f"dcpdump carve {SAMPLE} --frame 24 -w {piece} -q").code == 0
    (wanted,) = objects(f"dcpdump read {SAMPLE} --frame 24")
    assert wanted["opaque"] in [
        row["opaque"] for row in objects(f"dcpdump read {piece}") if row["name"] == wanted["name"]
    ]
