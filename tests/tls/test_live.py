"""Reading TLS while the key log grows: what waited for its secrets is shown as soon as these are there."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.live import Network, ended, running, stopped, wait_for

FRAMES = 27


@pytest.fixture(name="folder", params=["open to others", "of root alone"])
def _folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield a folder that can be entered, or can not, once rights were dropped."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755 if request.param == "open to others" else 0o700)
        yield folder


class Live:
    """A capture of TLS, whose key log gets what its test has it get."""

    def __init__(self, sniff: "subprocess.Popen[str]", talker: "subprocess.Popen[str]", folder: Path) -> None:
        self.sniff, self.keys, self._talker, self._secrets = sniff, folder / "keys.log", talker, folder / "all.log"
        self._at = 0

    def talk(self) -> bytes:
        """Have a connection made, wait until all its packets were decoded, and return its secrets."""
        assert self._talker.stdin is not None
        assert self._talker.stdout is not None
        before = self.decoded()
        self._talker.stdin.write("once more\n")
        self._talker.stdin.flush()
        assert self._talker.stdout.readline() == "said\n"
        wait_for(lambda: self.decoded() >= before + FRAMES)
        found = self._secrets.read_bytes()[self._at :]
        self._at += len(found)
        return found

    def decoded(self) -> int:
        """Return how many packets were decoded so far."""
        assert self.sniff.stderr is not None
        self.sniff.send_signal(signal.SIGUSR1)
        line = self.sniff.stderr.readline()
        assert "decoded " in line, line
        return int(line.rpartition("decoded ")[2].split()[0].replace(",", ""))

    def frames(self) -> list[str]:
        """Return the names of the next frames that are shown."""
        assert self.sniff.stdout is not None
        return [self.sniff.stdout.readline().split("{")[0].split()[-1] for _ in range(FRAMES)]


@contextmanager
def live(net: Network, folder: Path) -> Iterator[Live]:
    """Sniff during the block, with a key log in which there is nothing yet."""
    keys = folder / "keys.log"
    keys.touch(0o600)
    talker = net.start(sys.executable, "-m", "tests.tls.tls_talk", str(folder / "all.log"), stdin=subprocess.PIPE)
    with ended(talker), net.sniff("-i", "lo", "-f", "line", "--keylog", str(keys)) as sniff:
        assert talker.stdout is not None
        assert talker.stdout.readline() == "ready\n"
        yield Live(sniff, talker, folder)


def test_what_waited_is_shown_when_its_secrets_come_though_nothing_else_is_sent(net: Network, folder: Path) -> None:
    with live(net, folder) as here:
        secrets = here.talk()
        with here.keys.open("ab", buffering=0) as log:
            log.write(secrets[: len(secrets) // 2])
            log.write(secrets[len(secrets) // 2 :])
        first = here.frames()
        assert (first[0], first[-1]) == ("hello", "stream-end")
        with here.keys.open("ab", buffering=0) as log:
            log.write(here.talk())
        assert here.frames() == first
        code, out, err = stopped(here.sniff, signal.SIGINT)
    assert (code, out) == (0, "")
    assert f"{2 * FRAMES} of {2 * FRAMES} frames shown" in err
    assert "stay encrypted" not in err


def test_a_capture_from_a_pipe_is_opened_with_secrets_that_come_later(tmp_path: Path) -> None:
    clear = Path("samples/replica.pcap").read_bytes()
    sealed = Path("tests/tls/captures/go-1.3.pcap").read_bytes()[24:]  # behind the file header, which is the same
    keys = tmp_path / "keys.log"
    keys.touch(0o600)
    command = [sys.executable, "-m", "dcpdump", "read", "-", "-f", "line", "--keylog", str(keys)]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(clear + sealed)
        process.stdin.flush()
        assert [process.stdout.readline().split()[0] for _ in range(27)] == [b"#%d" % number for number in range(1, 28)]
        keys.write_bytes(Path("tests/tls/captures/go-1.3.keys").read_bytes())
        assert process.stdout.readline().split()[3:5] == [b"TX", b"hello{features=XATTR|SNAPPY|JSON,"]
        process.stdin.close()
        assert len(process.stdout.read().splitlines()) == 53
        assert b"81 of 81 frames shown" in process.stderr.read()
    assert process.returncode == 0
