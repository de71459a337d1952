"""dcpdump help: pages of one question each, the help of commands, and all of it as man pages."""

import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from dcpdump.cli.grouped import EXAMPLES, GROUPS
from dcpdump.cli.help import pages, question
from dcpdump.cli.main import COMMANDS, QUESTIONS, main
from tests.support.console import refusal, run


def test_it_lists_the_pages_with_their_questions_and_prints_each() -> None:
    listed = [line.split(maxsplit=1) for line in run("dcpdump help").out.splitlines()]
    for name, page in pages().items():
        assert ([name, question(page)] in listed, question(page)[-1]) == (True, "?")
        assert run(f"dcpdump help {name}") == (0, page, "")
    assert run("dcpdump help carve").out == run("dcpdump carve --help").out


def test_a_page_that_does_not_exist_is_a_usage_error_that_names_those_that_do() -> None:
    assert run("dcpdump help xyz") == refusal(2, "there is no page 'xyz'", f"pages are {', '.join(pages())}")


def test_man_pages_are_not_written_where_a_file_is_or_below_one(tmp_path: Path) -> None:
    file = tmp_path / "man"
    file.touch()
    assert run(f"dcpdump help --man {file}") == refusal(5, f"the output is not a folder ({file})")
    below = run(f"dcpdump help --man {file}/man")
    assert (below.code, "cannot write man pages" in below.err) == (5, True)


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
    command = ["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", *map(str, sorted(tmp_path.iterdir()))]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_three_examples_that_it_understands(name: str) -> None:
    assert len(EXAMPLES[name]) == 3
    for example in EXAMPLES[name]:
        words = shlex.split(next(part for part in example.split("|") if "dcpdump" in part).replace("sudo ", ""))
        assert words[:2] == ["dcpdump", name]
        group = main.make_context("dcpdump", [name])
        command = main.get_command(group, name)
        assert command is not None
        command.make_context(name, words[2:], parent=group)


def test_every_command_stands_under_one_question() -> None:
    assert sorted(name for names in QUESTIONS.values() for name in names) == sorted(COMMANDS)


#: Options that stand in no group, with which a command does something else, or that it alone has.
ALONE = "--explain --list --schema --man --engine --master --conf --capture-id --split --watch"


def test_every_option_of_a_group_exists_and_every_option_has_a_group() -> None:
    grouped = {option for options in GROUPS.values() for option in options.split()}
    found: dict[str, bool] = {}
    root = main.make_context("dcpdump", ["read"])
    for name in COMMANDS:
        command = main.get_command(root, name)
        assert command is not None
        for param in command.params:
            if isinstance(param, click.Option):
                found |= {option: not grouped.isdisjoint(param.opts) for option in param.opts}
    assert grouped <= set(found)
    assert {option for option, has_group in found.items() if not has_group} <= set(ALONE.split())
