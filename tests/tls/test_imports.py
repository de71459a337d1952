"""What a capture without TLS does not pay for: modules are imported when there is something to open, and not before."""

import json
import subprocess
import sys
from pathlib import Path

from tests.tls.twins import REPLICA, Files, twin

#: What is known of secrets and of what became of connections: values only, of no cost.
ALWAYS = {"dcpdump.tls", "dcpdump.tls.secrets", "dcpdump.tls.outcome"}
#: Runs commands in turn, and says after each what is loaded of TLS and of ciphers.
LOADED = """
import json, sys
from dcpdump.cli.main import outcome
for words in json.loads(sys.argv[1]):
    outcome(words)
    names = [each for each in sys.modules if each.startswith(("dcpdump.tls", "cryptography"))]
    print("\\n", *sorted(names), file=sys.stderr)
"""


def test_only_tls_loads_what_opens_it_and_only_secrets_load_ciphers(tmp_path: Path) -> None:
    files = Files(tmp_path, twin())
    keys = ["--keylog", str(files.keys)]
    clear = [[command, str(REPLICA), "-q"] for command in ("read", "streams", "check", "stats", "conns")]
    clear += [[*words, *keys] for words in clear]
    sealed = ["read", str(files.capture), "-q"]
    words = json.dumps([*clear, sealed, [*sealed, *keys]])
    done = subprocess.run([sys.executable, "-c", LOADED, words], capture_output=True, text=True, check=True)
    *before, without, with_secrets = (set(line.split()) for line in done.stderr.splitlines() if line.startswith(" "))
    assert len(before) == len(clear)
    assert set().union(*before) <= ALWAYS
    assert "dcpdump.tls.unsealer" in without
    assert not any(each.startswith("cryptography") for each in without)
    assert "cryptography" in with_secrets
