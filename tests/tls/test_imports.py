"""What a capture without TLS does not pay for: modules are imported when there is something to open, and not before."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tls.test_situations import Files, twin

REPLICA = Path(__file__).parents[2] / "samples" / "replica.pcap"
#: What is known of secrets and of what became of connections: values only, of no cost.
ALWAYS = {"dcpdump.tls", "dcpdump.tls.secrets", "dcpdump.tls.sealing"}
LOADED = (
    "import sys\n"
    "from dcpdump.cli.main import outcome\n"
    "outcome(sys.argv[1:])\n"
    "names = [each for each in sys.modules if each.startswith(('dcpdump.tls', 'cryptography'))]\n"
    "print(*sorted(names), file=sys.stderr)\n"
)


def loaded(*words: object) -> set[str]:
    """Run a command, and return what it loaded of TLS and of ciphers."""
    command = [sys.executable, "-c", LOADED, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("command", ["read", "streams", "check", "stats", "conns"])
def test_a_capture_without_tls_loads_nothing_that_opens_it(command: str, tmp_path: Path) -> None:
    assert loaded(command, REPLICA, "-q") <= ALWAYS
    files = Files(tmp_path, twin())
    assert loaded(command, REPLICA, "-q", "--keylog", files.keys) <= ALWAYS


def test_tls_without_secrets_loads_no_ciphers(tmp_path: Path) -> None:
    files = Files(tmp_path, twin())
    found = loaded("read", files.capture, "-q")
    assert "dcpdump.tls.unsealer" in found
    assert not any(each.startswith("cryptography") for each in found)
    assert "cryptography" in {each.partition(".")[0] for each in loaded("read", files.capture, "--keylog", files.keys)}
