"""How commands end where a pipe, a disk or a descriptor fails them, and when signals come."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REPLICA = Path("samples/replica.pcap")
DCPDUMP = [sys.executable, "-m", "dcpdump"]


@contextmanager
def nobody_reads() -> Iterator[int]:
    """It gives a pipe whose reader went away."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


def closed(command: str) -> "subprocess.CompletedProcess[str]":
    """It runs ``dcpdump …`` in a shell, which can close descriptors."""
    return subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m {command}"], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "words", [("read", str(REPLICA)), ("check", str(REPLICA)), ("read", "none.pcap")], ids=" ".join
)
def test_a_reader_of_standard_error_that_goes_away_ends_it_silently(words: tuple[str, ...]) -> None:
    with nobody_reads() as pipe:
        assert subprocess.run([*DCPDUMP, *words], stdout=subprocess.DEVNULL, stderr=pipe, timeout=60).returncode == 141
        assert subprocess.run([*DCPDUMP, *words], stdout=pipe, stderr=pipe, timeout=60).returncode == 141


@pytest.mark.parametrize("words", [("--help",), ("read", "--help"), ("--version",)], ids=" ".join)
def test_a_reader_of_help_that_goes_away_ends_it_silently(words: tuple[str, ...]) -> None:
    with nobody_reads() as pipe:
        done = subprocess.run([*DCPDUMP, *words], stdout=pipe, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize(("command", "code"), [(f"read {REPLICA}", 5), ("read none.pcap", 3)])
def test_notes_that_cannot_be_written_are_an_output_that_cannot_be_written(command: str, code: int) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*DCPDUMP, *command.split()], stdout=subprocess.DEVNULL, stderr=full, timeout=60)
    assert done.returncode == code


@pytest.mark.parametrize(
    "command", [f"read {REPLICA}", f"streams {REPLICA}", f"top {REPLICA}", f"explain -q {'00' * 24}", "spec"]
)
def test_without_a_standard_output_nothing_can_be_written(command: str) -> None:
    done = closed(f"dcpdump {command} >&-")
    assert (done.returncode, done.stdout, done.stderr) == (
        5,
        "",
        "dcpdump: error: cannot write: it is closed (standard output)\n",
    )


def test_without_a_standard_output_a_file_is_written_all_the_same(tmp_path: Path) -> None:
    out = tmp_path / "frames.txt"
    done = closed(f"dcpdump read {REPLICA} -q -f line -o '{out}' >&-")
    assert (done.returncode, done.stderr, len(out.read_text("utf-8").splitlines())) == (0, "", 27)


@pytest.mark.parametrize("command", ["explain", "explain -i -", "read -", "streams -"])
def test_without_a_standard_input_nothing_can_be_read(command: str) -> None:
    done = closed(f"dcpdump {command} <&-")
    assert (done.returncode, done.stdout, done.stderr.splitlines()[0]) == (
        3,
        "",
        "dcpdump: error: standard input is closed (-)",
    )


def test_who_closes_standard_error_wants_no_notes() -> None:
    done = closed(f"dcpdump read {REPLICA} -f line 2>&-")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 27)
    assert closed("dcpdump read none.pcap 2>&-").returncode == 3


@pytest.mark.parametrize("form", ["table", "grid", "line", "ndjson", "csv"])
def test_a_file_that_grows_too_large_is_told_in_every_format(form: str, tmp_path: Path) -> None:
    out = tmp_path / "frames"

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    command = [*DCPDUMP, "read", str(REPLICA), "-f", form, "-o", str(out)]
    done = subprocess.run(command, preexec_fn=limited, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (
        5,
        "",
        f"dcpdump: error: cannot write: file too large ({out})\n",
    )
    assert os.listdir(tmp_path) == []
