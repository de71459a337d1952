"""dcpdump help: pages, the help of commands; and words that real shells complete, by real keystrokes."""

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import click
import pytest

from dcpdump.cli.grouped import COMMON, GROUPS, GroupedCommand
from dcpdump.cli.help import pages, question
from dcpdump.cli.main import COMMANDS, main
from tests.support.console import refusal, run
from tests.support.live import ROOT


def test_it_lists_the_pages_with_their_questions_and_prints_each() -> None:
    listed = [line.split(maxsplit=1) for line in run("dcpdump help").out.splitlines()]
    for name, page in pages().items():
        assert ([name, question(page)] in listed, question(page)[-1]) == (True, "?")
        assert run(f"dcpdump help {name}") == (0, page, "")
    assert run("dcpdump help carve").out == run("dcpdump carve --help").out


def test_a_page_that_does_not_exist_is_a_usage_error_that_names_those_that_do() -> None:
    assert run("dcpdump help xyz") == refusal(2, "there is no page 'xyz'", f"pages are {', '.join(pages())}")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_three_examples_that_it_understands(name: str) -> None:
    group = main.make_context("dcpdump", [name])
    command = main.get_command(group, name)
    assert isinstance(command, GroupedCommand)
    assert len(command.examples) == 3
    for example in command.examples:
        words = shlex.split(next(part for part in example.split("|") if "dcpdump" in part).replace("sudo ", ""))
        assert words[:2] == ["dcpdump", name]
        command.make_context(name, words[2:], parent=group)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_is_a_screen_of_what_is_used_most(name: str) -> None:
    code, short, err = run(f"dcpdump {name} -h")
    lines = short.splitlines()
    assert (code, err, lines[-1]) == (0, "", f"All options: dcpdump {name} --help")
    assert len(lines) <= 32
    whole = " ".join(run(f"dcpdump {name} --help").out.split())
    listed = [line.split()[0].rstrip(",") for line in lines if line.startswith("  -")]
    assert [option for option in listed if option not in whole] == []


def test_the_short_help_of_the_program_lists_all_commands() -> None:
    short, whole = (run(f"dcpdump {option}").out for option in ("-h", "--help"))
    assert whole.endswith(short[short.index("Look at frames:") : short.index("\nAll options: ")])
    assert [name for name in COMMANDS if f"\n  {name} " not in short] == []


def test_the_number_of_processes_is_in_the_help_of_commands_that_use_several() -> None:
    found = [name for name in COMMANDS if "--jobs" in run(f"dcpdump {name} --help").out]
    assert found == ["read", "export", "pipeline"]


#: Options that stand in no group, with which a command does something else, or that it alone has.
ALONE = "-h --explain --list --schema --engine --master --conf --capture-id --split --watch"


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
    assert grouped | COMMON <= set(found)
    assert {option for option, has_group in found.items() if not has_group} <= set(ALONE.split())


#: Of each shell: how to start it without its owner's settings, and what makes it complete.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(_DCPDUMP_COMPLETE=bash_source dcpdump)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'autoload -U compinit; compinit -u -D; eval "$(_DCPDUMP_COMPLETE=zsh_source dcpdump)"',
    ),
    "fish": (["fish", "--no-config", "-i"], "_DCPDUMP_COMPLETE=fish_source dcpdump | source"),
}
#: What is typed before the Tab key → the arguments that the command then has.
TYPED = {
    "dcpdump roll\tx": "rollbacks x",
    "dcpdump read --opcode mutati\tx": "read --opcode mutation x",
    "dcpdump read --opcode noop,mutati\tx": "read --opcode noop,mutation x",
    "dcpdump check --select DCP40\t1 x": "check --select DCP401 x",
    "dcpdump read --status rollb\tx": "read --status rollback x",
    "dcpdump streams --sort last\tx": "streams --sort last-seqno x",
    "dcpdump spec buffer_ack\tx": "spec buffer_acknowledgement x",
    "dcpdump help filt\tx": "help filters x",
    "dcpdump read onlyfi\tx": "read onlyfile.pcap x",
    "dcpdump onlyfi\tx": "onlyfile.pcap x",
    "dcpdump read --follo\tx": "read --follow x",
}


def start(command: list[str], folder: Path, typed: str, done: str) -> str:
    """Type into a shell on a terminal of its own, and return what it shows, up to ``done``."""
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb", "PS1": "> "}
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, {**environment, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"})
    shown, until = b"", time.monotonic() + 60
    with open(terminal, "r+b", buffering=0), suppress(OSError):  # the shell has ended
        for line in typed.splitlines(keepends=True):
            os.write(terminal, line.encode())
        while done.encode() not in shown and time.monotonic() < until:
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 65_536)
    os.waitpid(child, 0)
    return shown.decode("utf-8", "replace")


def test_a_name_that_two_messages_have_is_offered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", "dcpdump read --opcode !noo")
    monkeypatch.setenv("COMP_CWORD", "3")
    monkeypatch.setenv("_DCPDUMP_COMPLETE", "bash_complete")
    printed = subprocess.run([sys.executable, "-m", "dcpdump"], cwd=ROOT, capture_output=True, text=True)
    assert printed.stdout == "plain,!noop\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its completion is not tried here")
    wrapper = tmp_path / "dcpdump"
    got = tmp_path / "got"
    wrapper.write_text(
        "#!/bin/sh\n"
        f'[ -n "$_DCPDUMP_COMPLETE" ] && exec {sys.executable} -m dcpdump "$@"\n'
        f"echo \"$*\" >> '{got}'\n"
        '[ "$1" = over ] && echo is over\n'
    )
    wrapper.chmod(0o755)
    (tmp_path / "onlyfile.pcap").write_bytes(b"")
    command, source = SHELLS[shell]
    typed = "".join(f"{line}\r" for line in (source, *TYPED, "dcpdump over", "exit"))
    shown = start(command, tmp_path, typed, "is over")
    assert got.exists(), shown
    assert got.read_text().splitlines() == [*TYPED.values(), "over"]


def test_no_command_is_imported_to_complete_its_name() -> None:
    context = click.Context(main, info_name="dcpdump")
    assert [item.value for item in main.shell_complete(context, "")] == list(COMMANDS)
    assert [(item.value, item.type) for item in main.shell_complete(context, "x")] == [("x", "file")]
