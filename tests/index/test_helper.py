"""An index is built by another process, which ends when this one does."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest

from dcpdump.capture.file import OPEN_LIMIT, Capture
from dcpdump.errors import CaptureError
from dcpdump.index.capture_index import CaptureIndex
from tests.bench.captures import capture
from tests.index.test_frames import SAMPLES, check_frames, options
from tests.support.live import children_of

#: Index standard input, say who does it, and wait.
_WAITING = """
import os, sys, time
from dcpdump.capture.file import Capture
from dcpdump.index.capture_index import CaptureIndex
index = CaptureIndex([Capture("-")], helped=True)
while not index.frames:
    index.step(wait=1.0)
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
print(*children, flush=True)
time.sleep(600)
"""


def test_each_frame_of_several_captures_is_that_of_read(tmp_path: Path) -> None:
    traffic = str(capture(tmp_path, "wire", 200, 64))
    assert check_frames([*map(str, SAMPLES), traffic], options(30_000), helped=True) > 400


def alone(what: Callable[[str], None], path: Path) -> None:
    """Call a function in a process of its own: an index has a process only where there are no other threads."""
    process = get_context("spawn").Process(target=what, args=(str(path),))
    process.start()
    process.join()
    assert process.exitcode == 0


def close_early(path: str) -> None:
    index = CaptureIndex([Capture(path)], options(4096), helped=True)
    assert len(children_of(os.getpid())) == 1
    index.close()
    assert children_of(os.getpid()) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
def test_closing_while_it_reads_leaves_no_process(tmp_path: Path) -> None:
    alone(close_early, capture(tmp_path, "wire", 3000, 64))


def go_on_alone(path: str) -> None:
    with CaptureIndex([Capture(path)], options(4096), helped=True) as index:
        while not index.frames:
            index.step(wait=1.0)
        (helper,) = children_of(os.getpid())
        os.kill(helper, signal.SIGKILL)
        index.finish()
        assert (index.latest.complete, index.latest.failure) == (False, "the process that read the capture has ended")
        assert index.record(index.frames).number == index.frames
        assert not index.step()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
def test_what_there_is_stays_when_the_process_dies(tmp_path: Path) -> None:
    alone(go_on_alone, capture(tmp_path, "wire", 3000, 64))


def test_an_error_of_the_process_is_raised_here(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.pcap" for number in range(OPEN_LIMIT + 1)]
    for path in paths:
        path.write_bytes(SAMPLES[0].read_bytes())
    with CaptureIndex([Capture(str(path)) for path in paths], helped=True) as index:
        with pytest.raises(CaptureError, match="overlap in time") as caught:
            index.finish()
        assert caught.value.hint.startswith("mergecap")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
def test_the_process_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent:
        parent.stdin.write(SAMPLES[0].read_bytes())
        parent.stdin.flush()
        (helper,) = map(int, parent.stdout.readline().split())
        parent.kill()
        parent.wait()
        parent.stdout.read()  # ends when no process has it open any more
    assert not Path(f"/proc/{helper}/exe").exists()
