"""Words are completed in real shells, by real keystrokes: a shell that is not installed is skipped, and says so."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import click
import pytest

from dcpdump.cli.main import COMMANDS, main
from tests.support.live import ROOT

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
