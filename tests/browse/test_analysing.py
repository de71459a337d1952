"""The process that makes streams and findings while frames are browsed."""

import subprocess
import sys

import pytest

from tests.support.live import ROOT

#: Begins an analysis that never ends, kills the process that makes it, and prints what is said then.
_KILLED = """
import os, signal, sys, time
from dcpdump.browse.analysing import Analysing
from tests.support.live import children_of

def analyse(report):
    report(0.5)
    signal.pause()

analysing = Analysing(analyse)
(child,) = children_of(os.getpid())
if sys.argv[1] == "working":
    analysing.begin(final=True)
    while not analysing.progress:
        analysing.poll()
os.kill(child, signal.SIGKILL)
analysing.begin(final=True)
while analysing.working:
    analysing.poll()
print(analysing.result, analysing.failure, children_of(os.getpid()), sep="|")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
@pytest.mark.parametrize("when", ["waiting", "working"])
def test_an_analysis_whose_process_is_killed_says_so(when: str) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, when], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.stdout, done.stderr) == ("None|the process that reads all frames has ended|[]\n", "")
