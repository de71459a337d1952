"""Privileges, on a network of its own: once the interface is open, no thread of any process of a capture has any."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.live import PATIENCE, Network, ended, network, stopped, wait_for

#: Who may have called sudo.
SOMEBODY = 4321


class Rights(NamedTuple):
    """The kernel's status of the privileges of a thread."""

    uids: frozenset[int]
    capabilities: frozenset[int]  #: inheritable, permitted, effective, ambient
    no_new: str


@pytest.fixture(scope="module", name="net")
def _net() -> Iterator[Network]:
    with network() as inside, inside.producer():
        yield inside


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    """Yield a folder that everybody may write to, in a folder that others may enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def environment(caller: int | None = None, **more: str) -> dict[str, str]:
    """Return an environment as sudo of ``caller`` makes it, or root's own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_") and "THREADS" not in name}
    sudo = {} if caller is None else {"SUDO_UID": f"{caller}", "SUDO_GID": f"{caller}"}
    return {**own, **sudo, **more}


def threads(session: int) -> list[Rights]:
    """Return the rights of all threads of all processes that a program started, its own first."""
    found = []
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            if int((process / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                found += [_rights(task) for task in (process / "task").iterdir()]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return found


def _rights(task: Path) -> Rights:
    lines = (task / "status").read_text().splitlines()
    reported = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return Rights(
        frozenset(map(int, reported["Uid"].split())),
        frozenset(int(reported[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")),
        reported["NoNewPrivs"].strip(),
    )


def has_decoded(process: "subprocess.Popen[str]") -> bool:
    """Ask a capture for its counters, and return whether it has decoded anything."""
    process.send_signal(signal.SIGUSR1)
    assert process.stderr is not None
    return not process.stderr.readline().endswith("decoded 0\n")


COMMANDS = {
    "sniff": "sniff -f ndjson",
    "sniff -o": "sniff -f ndjson -o out",
    "sniff -w -o": "sniff -f ndjson -j 4 -w out -o more",
    "top": "top -f ndjson",
    "top -o": "top -f ndjson -o out",
    "stats": "stats -f csv",
    "streams -o": "streams -f csv -o out",
}


#: Of each caller a command that writes and one that does not; threads are requested, or not.
CALLS = [
    pytest.param(command, caller, {"OPENBLAS_NUM_THREADS": "4"} if threads else {}, id=f"{command}-{name}")
    for command, name, caller, threads in (
        ("sniff", "root", None, True),
        ("sniff -o", "somebody's sudo", SOMEBODY, True),
        ("sniff -w -o", "root", None, True),
        ("top", "somebody's sudo", SOMEBODY, False),
        ("top -o", "root", None, False),
        ("stats", "root", None, False),
        ("streams -o", "somebody's sudo", SOMEBODY, False),
    )
]


@pytest.mark.parametrize(("command", "caller", "threaded"), CALLS)
def test_no_thread_of_a_capture_has_a_right_and_files_belong_to_who_asked(
    net: Network, folder: Path, command: str, caller: int | None, threaded: dict[str, str]
) -> None:
    files = {name: str(folder / name) for name in ("out", "more")}
    words = [files.get(word, word) for word in COMMANDS[command].split()]
    with net.capture(*words, "-i", "lo", env=environment(caller, **threaded)) as capture:
        client = net.talk("client", "--documents", "20", "--vbuckets", "2")
        assert client.communicate(timeout=PATIENCE)[0] == "40 documents of 2 vbuckets\n"
        wait_for(lambda: has_decoded(capture))
        rights = threads(capture.pid)
        code, _, err = stopped(capture, signal.SIGINT)
    assert code == 0, err
    writes = sum(word in files.values() for word in words)
    uid = caller or (0 if writes else 65534)  # who but root may write what root wants written
    assert len(rights) > 1  # one that reads the interface, and one that decodes
    assert set(rights) == {Rights(frozenset({uid}), frozenset({0}), "1")}
    assert [each.stat().st_uid for each in folder.iterdir()] == [uid] * writes


_WITH_A_THREAD = """
import sys, threading
import dcpdump.cli.sniff, dcpdump.cli.top
threading.Thread(target=threading.Event().wait, daemon=True).start()
from dcpdump.cli.main import run
run(sys.argv[1:])
"""


@pytest.mark.parametrize(("command", "caller"), [("sniff -o", SOMEBODY), ("top", None)])
def test_where_a_thread_keeps_a_right_nothing_is_captured(
    net: Network, folder: Path, command: str, caller: int | None
) -> None:
    words = [str(folder / word) if word == "out" else word for word in COMMANDS[command].split()]
    threaded = net.start(sys.executable, "-c", _WITH_A_THREAD, *words, "-i", "lo", env=environment(caller))
    with ended(threaded) as process:
        out, err = process.communicate(timeout=PATIENCE)
    error, *hints = err.splitlines()
    assert (process.returncode, out, hints) == (6, "", ["hint: dumpcap -w - | dcpdump read -"])
    assert error.startswith("dcpdump: error: the rights to capture could not be given up: thread ")
    assert list(folder.iterdir()) == []
