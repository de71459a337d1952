"""dcpdump help: pages of one question each, the help of commands, and all of it as man pages."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dcpdump.cli.help import pages, question
from dcpdump.cli.main import COMMANDS
from tests.support.console import run


def test_it_lists_the_pages_with_their_questions() -> None:
    status, out, _ = run("dcpdump help")
    assert status == 0
    for name, page in pages().items():
        assert any(line.split(maxsplit=1) == [name, question(page)] for line in out.splitlines())
        assert question(page).endswith("?")


@pytest.mark.parametrize("name", pages())
def test_it_prints_a_page(name: str) -> None:
    assert run(f"dcpdump help {name}") == (0, pages()[name], "")


def test_it_prints_the_help_of_a_command() -> None:
    assert run("dcpdump help carve").out == run("dcpdump carve --help").out


def test_a_page_that_does_not_exist_is_a_usage_error_that_names_those_that_do() -> None:
    status, out, err = run("dcpdump help nonsense")
    assert (status, out) == (2, "")
    assert "there is no page 'nonsense'" in err
    assert "filters" in err


def test_it_writes_a_man_page_for_each_command_and_each_page(tmp_path: Path) -> None:
    assert run(f"dcpdump help --man {tmp_path}/man")[0] == 0
    expected = {"dcpdump.1", *(f"dcpdump-{name}.1" for name in COMMANDS), *(f"dcpdump-{name}.7" for name in pages())}
    assert {path.name for path in (tmp_path / "man").iterdir()} == expected
    page = (tmp_path / "man" / "dcpdump-read.1").read_text("utf-8")
    assert ".SH SYNOPSIS" in page
    assert ".B \\-\\-vbucket RANGES" in page


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed: nobody reads the man pages here")
def test_groff_finds_nothing_wrong_with_the_man_pages(tmp_path: Path) -> None:
    assert run(f"dcpdump help --man {tmp_path}")[0] == 0
    for path in sorted(tmp_path.iterdir()):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", str(path)], capture_output=True, check=True
        )
        assert (path.name, done.stderr) == (path.name, b"")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, _, err = run(f"dcpdump help --man {tmp_path}/file")
    assert status == 5
    assert "cannot write man pages" in err
