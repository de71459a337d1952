"""What a killed run left is removed by the next one, what a living run has not finished is not."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dcpdump.unfinished import UnfinishedFolder, remove_left, temporary_folder, unfinished_file
from tests.support.console import run
from tests.support.live import PATIENCE, ROOT

pytest.importorskip("fcntl", reason="the system has no locks")
REPLICA = ROOT / "samples" / "replica.pcap"


@pytest.fixture
def killed(tmp_path: Path) -> Callable[[str], None]:
    """Return a function that makes something unfinished in a process, which is killed then."""

    def kill(expression: str) -> None:
        code = f"from dcpdump.unfinished import *; x = {expression}; print(flush=True); input()"
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, cwd=ROOT) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)

    return kill


def test_files_and_folders_of_killed_runs_are_removed(tmp_path: Path, killed: Callable[[str], None]) -> None:
    killed(f"unfinished_file(Path({str(tmp_path / 'a.txt')!r}))")
    killed(f"UnfinishedFolder(Path({str(tmp_path / 'a.txt')!r}))")
    assert len(os.listdir(tmp_path)) == 1, "the second run removed what the first had left"
    remove_left(tmp_path / "a.txt")
    assert os.listdir(tmp_path) == []


def test_what_the_living_have_not_finished_stays(tmp_path: Path) -> None:
    fd, file = unfinished_file(tmp_path / "a")
    folder = UnfinishedFolder(tmp_path / "a")
    for name in ("a", "a.b", ".a.short.part", ".a.b.01234567.part"):
        (tmp_path / name).touch()
    before = sorted(os.listdir(tmp_path))
    remove_left(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == before
    os.close(fd)
    folder.remove()
    remove_left(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == [".a.b.01234567.part", ".a.short.part", "a", "a.b"]
    assert not file.exists()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("export CAPTURE -o DIR/out", "out"),
        ("redact CAPTURE samples/history.pcap -w DIR/out", "out"),
        ("redact CAPTURE -w DIR/out", "out"),
        ("carve CAPTURE -w DIR/out", "out"),
        ("pipeline CAPTURE -o DIR --capture-id out --engine local", "out"),
    ],
)
def test_every_command_removes_what_was_left_and_writes_for_its_owner_alone(
    command: str, name: str, tmp_path: Path, killed: Callable[[str], None]
) -> None:
    killed(f"UnfinishedFolder(Path({str(tmp_path / name)!r}))")
    before = os.umask(0)
    try:
        printed = run(f"dcpdump {command.replace('CAPTURE', str(REPLICA)).replace('DIR', str(tmp_path))} -q")
    finally:
        os.umask(before)
    assert printed.code == 0, printed.err
    assert [each for each in os.listdir(tmp_path) if each.startswith(".")] == []
    modes = {stat.S_IMODE(each.stat().st_mode) & 0o077 for each in tmp_path.rglob("*")}
    assert modes == {0}


@pytest.mark.parametrize("name", ["dcpdump-sql", "dcpdump-fetched"])
def test_what_killed_runs_left_where_the_system_keeps_it_is_removed_too(
    name: str, tmp_path: Path, killed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    killed(f"temporary_folder({name!r})")
    (left,) = os.listdir(tmp_path)
    with temporary_folder(name) as folder:
        assert os.listdir(tmp_path) == [folder.name] != [left]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.listdir(tmp_path) == []


def test_a_query_removes_what_a_killed_one_left_of_documents(
    tmp_path: Path, killed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    killed("__import__('dcpdump.sql.database').sql.database.Engine({})")
    assert len(os.listdir(tmp_path)) == 1
    assert run(f"dcpdump sql 'SELECT 1' {REPLICA}").code == 0
    assert os.listdir(tmp_path) == []


def test_a_folder_that_another_run_removes_before_it_is_locked_is_made_again(tmp_path: Path) -> None:
    made: list[str] = []

    def make() -> str:
        made.append(tempfile.mkdtemp(prefix=".a.", suffix=".part", dir=tmp_path))
        if len(made) == 1:
            remove_left(tmp_path / "a")  # as another run does that begins just now
        return made[-1]

    with UnfinishedFolder(tmp_path / "a", make) as folder:
        assert [str(folder)] == made[1:]
        assert [each.path for each in os.scandir(tmp_path)] == made[1:]
