"""Captures are opened as they are needed: many of them can be read with few descriptors."""

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from dcpdump.capture import open_files
from dcpdump.capture.open_files import ReopenedFile
from tests.support.console import Printed, contents, run
from tests.support.live import PATIENCE, ROOT

REPLICA = ROOT / "samples" / "replica.pcap"
FILES, DESCRIPTORS = 50, 40


def few_descriptors(words: str) -> Printed:
    """Run ``dcpdump …`` with few descriptors."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    command = [sys.executable, "-m", "dcpdump", *words.split()]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, preexec_fn=limit, timeout=PATIENCE, check=False)
    return Printed(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    for number in range(FILES):
        (folder / f"{number:02}.pcap").write_bytes(REPLICA.read_bytes())
    return folder


@pytest.mark.parametrize("command", ["read -f line", "check"])
def test_many_captures_of_one_time_are_read_with_few_descriptors(command: str, folder: Path) -> None:
    assert few_descriptors(f"{command} {folder}") == run(f"dcpdump {command} {folder}")


def test_many_captures_are_redacted_with_few_descriptors(folder: Path, tmp_path: Path) -> None:
    for redacted, out in ((few_descriptors, "few"), (lambda words: run(f"dcpdump {words}"), "many")):
        assert redacted(f"redact {folder} -w {tmp_path}/{out} --salt x -q").code == 0
    found = contents(tmp_path / "few")
    assert (found, sorted(found)) == (contents(tmp_path / "many"), sorted(os.listdir(folder)))


def test_a_file_that_was_replaced_meanwhile_is_not_read_on(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abcdef")
    file = ReopenedFile(str(path), 1)
    assert file.read(2) == b"bc"
    file.rest()
    assert file.read(2) == b"de"
    file.rest()
    (tmp_path / "b").write_bytes(b"ABCDEF")
    os.replace(tmp_path / "b", path)
    with closing(file), pytest.raises(OSError, match="replaced"):
        file.read(2)


def test_a_file_stays_open_while_a_thread_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    slow, *others = (ReopenedFile(str(tmp_path / "a")) for _ in range(open_files._MOST + 1))
    assert slow.read(1) == b"a"
    read = os.read

    def read_after_all_others(fd: int, size: int) -> bytes:
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as pool:
            assert set(pool.map(lambda file: file.read(3), others)) == {b"abc"}
        return read(fd, size)

    monkeypatch.setattr(os, "read", read_after_all_others)
    assert slow.read(2) == b"bc"
    for file in (slow, *others):
        file.close()
