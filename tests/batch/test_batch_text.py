"""Many frames at a time are written as one by one."""

from pathlib import Path

import pytest

from dcpdump.capture.file import Capture
from dcpdump.cli import frame_output as frames
from dcpdump.cli import reading
from tests.bench.captures import capture as made
from tests.support.captures import Pcapng
from tests.support.console import Printed, run
from tests.support.frame_by_frame import frame_by_frame

SAMPLES = sorted(Path("samples").glob("*.pcap"))
FORMATS = ("table", "grid", "line", "ndjson", "csv")


def both(capture: Path, options: str) -> tuple[Printed, Printed]:
    """Return what a command prints, and what it would print if it took one frame at a time."""
    command = f"dcpdump read {capture} {options}"
    return run(command), frame_by_frame(command)


@pytest.mark.parametrize("capture", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("form", FORMATS)
def test_a_file_at_once_reads_as_frame_by_frame(capture: Path, form: str) -> None:
    at_once, one_by_one = both(capture, f"-f {form}")
    assert at_once == one_by_one


@pytest.fixture(scope="module")
def mislabelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture in which no value that is marked JSON is JSON."""
    return made(tmp_path_factory.mktemp("mislabelled"), "mislabelled", 400, 64)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("options", ["--value-bytes 0", "--problems --collection 8"])
def test_values_that_are_not_what_they_claim_read_as_frame_by_frame(mislabelled: Path, form: str, options: str) -> None:
    at_once, one_by_one = both(mislabelled, f"-f {form} {options}")
    assert at_once == one_by_one
    assert "the body is marked JSON but is not" in at_once.out


def test_times_count_from_the_first_packet_that_has_one(tmp_path: Path) -> None:
    packets = list(Capture("samples/replica.pcap"))
    write = Pcapng()
    blocks = [write.section(), write.interface(options=[(9, b"\x09")])]
    blocks += [write.simple_packet(packet.data) for packet in packets[:3]]
    blocks += [write.packet(packet.ts_ns or 0, packet.data) for packet in packets[3:]]
    path = tmp_path / "a.pcapng"
    path.write_bytes(b"".join(blocks))
    at_once, one_by_one = both(path, "-f line --since +5ms")
    assert at_once == one_by_one
    assert 0 < at_once.out.count("\n") < both(path, "-f line")[0].out.count("\n")


def test_other_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = run("dcpdump read samples -f ndjson")
    monkeypatch.setattr(reading, "LEAST_BYTES", 0)
    monkeypatch.setattr(frames, "FORK_ROWS", 1)
    assert run("dcpdump read samples -f ndjson -j 3") == alone
    assert run("dcpdump read samples -f ndjson -j 1") == alone
