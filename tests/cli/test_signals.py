"""Signals that end a run, in whatever state it is: while it starts, reads, waits for others and closes."""

import signal
import subprocess
import sys

import pytest

#: Runs the program, which is sent a signal when it begins to import a module.
_SIGNALLED_AT_IMPORT = """
import os, sys

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), int(number))

module, number = sys.argv[1:3]
del sys.argv[1:3]
sys.meta_path.insert(0, Signalling())
from dcpdump.__main__ import start
start()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("module", ["dcpdump.cli.main", "click", "dcpdump.cli.stats", "dcpdump.batch.block", "numpy"])
def test_a_signal_ends_a_run_that_is_still_starting(module: str, number: int, code: int) -> None:
    words = [module, str(number), "stats", "samples/replica.pcap", "-f", "ndjson"]
    done = subprocess.run([sys.executable, "-c", _SIGNALLED_AT_IMPORT, *words], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (code, b"", b"")
