"""``read --frame`` prints the frames of these numbers, as they are printed among all."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.captures import capture
from tests.support.captures import Record, pcap
from tests.support.console import run
from tests.support.packets import TcpTalk

SAMPLE = "samples/client-rollback.pcap"
SAMPLES = sorted(map(str, Path("samples").glob("*.pcap")))


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


@settings(max_examples=20, deadline=None)
@given(numbers=st.lists(st.integers(1, 4000), min_size=1, max_size=6), negated=st.booleans())
def test_any_numbers_are_found(traffic: tuple[str, list[str]], numbers: list[int], negated: bool) -> None:
    path, lines = traffic
    text = ",".join(map(str, numbers))
    found = run(f"dcpdump read {path} -f ndjson -q --frame {'!' if negated else ''}{text}").out.splitlines()
    assert found == [line for number, line in enumerate(lines, 1) if (number in numbers) is not negated]


@pytest.mark.parametrize("form", ["table", "grid", "line", "csv"])
@pytest.mark.parametrize("path", SAMPLES)
def test_every_format_prints_them_as_among_all(path: str, form: str) -> None:
    count = len(run(f"dcpdump read {path} -f ndjson -q").out.splitlines())
    whole = run(f"dcpdump read {path} -f {form} -q").out
    assert run(f"dcpdump read {path} -f {form} -q --frame 1-{count}").out == whole
    pieces = [run(f"dcpdump read {path} -f {form} -q --frame {numbers}").out for numbers in _longer_each_time(count)]
    assert all(piece.removeprefix(_header(whole, form)) in whole for piece in pieces)
    assert "".join(piece.removeprefix(_header(whole, form)) for piece in pieces) == whole.removeprefix(
        _header(whole, form)
    )


def _longer_each_time(count: int) -> Iterator[str]:
    """Yield the numbers up to a count: one alone, then two, then three…"""
    first, size = 1, 1
    while first <= count:
        yield f"{first}-{min(first + size - 1, count)}"
        first, size = first + size, size + 1


def _header(text: str, form: str) -> str:
    return text.partition("\n")[0] + "\n" if form == "csv" else ""


def test_each_frame_is_found_by_its_number_alone_where_some_come_behind_losses() -> None:
    command = "dcpdump read samples/damage.pcap -f line -q"
    lines = run(command).out.splitlines(keepends=True)
    assert [run(f"{command} --frame {number}").out for number in range(1, len(lines) + 1)] == lines


def test_several_captures_have_one_numbering() -> None:
    every = [json.loads(line) for line in run(f"dcpdump read {' '.join(SAMPLES)} -f ndjson -q").out.splitlines()]
    last = len(every)
    found = run(f"dcpdump read {' '.join(SAMPLES)} -f ndjson -q --frame 1,40,{last}").out.splitlines()
    assert [json.loads(line) for line in found] == [every[0], every[39], every[-1]]


def test_other_filters_hold_as_well() -> None:
    command = f"dcpdump read {SAMPLE} -f ndjson -q"
    chosen = [json.loads(line)["frame"] for line in run(f"{command} --opcode stream_req").out.splitlines()]
    assert chosen == [15, 16, 17, 18]
    for clause, wanted in (("--opcode stream_req", [16, 17]), ("--kind response", [16]), ("--problems", [])):
        found = run(f"{command} {clause} --frame 16-17").out.splitlines()
        assert [json.loads(line)["frame"] for line in found] == wanted


def test_nothing_is_read_behind_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "damaged.pcap"
    whole = capture(tmp_path, "wire", 4000, 64).read_bytes()
    path.write_bytes(whole + b"damage" * 10)
    assert run(f"dcpdump read {path} -f line -q --frame 5").code == 0
    assert run(f"dcpdump read {path} -f line -q --frame 5-").code == 4


def test_a_number_behind_the_last_frame_is_refused() -> None:
    found = run(f"dcpdump read {SAMPLE} -f line -q --frame 3,48-60")
    assert (found.code, found.err) == (2, "dcpdump: error: --frame: there is no frame 48: the capture has 25 frames\n")
    assert found.out.startswith("#3 ")
    assert run(f"dcpdump read {SAMPLE} -f line -q --frame 20-60").code == 0


def test_a_capture_without_frames_says_so(tmp_path: Path) -> None:
    talk = TcpTalk().send(0, b"GET / HTTP/1.1\r\n\r\n").fin()
    path = tmp_path / "http.pcap"
    path.write_bytes(pcap([Record(packet.ts_ns or 0, packet.data) for packet in talk.packets]))
    found = run(f"dcpdump read {path} --frame 3")
    assert (found.code, found.err) == (3, run(f"dcpdump read {path}").err)


def test_carve_takes_them_too(tmp_path: Path) -> None:
    piece = tmp_path / "piece.pcapng"
    assert run(f"dcpdump carve {SAMPLE} --frame 24 -w {piece} -q").code == 0
    wanted = json.loads(run(f"dcpdump read {SAMPLE} --frame 24 -f ndjson -q").out)
    carved = [json.loads(line) for line in run(f"dcpdump read {piece} -f ndjson -q").out.splitlines()]
    assert wanted["opaque"] in [each["opaque"] for each in carved if each["name"] == wanted["name"]]
