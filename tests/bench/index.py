"""Measure the index of a capture: how long it takes, what it weighs, and how soon any frame and filter is answered.

    python -m tests.bench.index CAPTURE

Times are of the processor. The whole is compared with ``dcpdump stats``, which reads the same frames once.
"""

import argparse
import gc
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from dcpdump.batch.filter import Masks, masks
from dcpdump.capture import open_capture
from dcpdump.filter import FrameFilter, clauses
from dcpdump.index.capture_index import CaptureIndex
from tests.bench.__main__ import measure

_JUMPS = 60


def cpu(of: int = RUSAGE_SELF) -> float:
    """Return the seconds of processor that this process, or its children, took so far."""
    usage = getrusage(of)
    return usage.ru_utime + usage.ru_stime


def report(what: str, value: str) -> None:
    print(f"{what:44} {value}", flush=True)


def built(path: str, *, helped: bool) -> None:
    """Index a capture in one of both ways, and report what that took."""
    before, children, begun = cpu(), cpu(RUSAGE_CHILDREN), time.perf_counter()
    with CaptureIndex([open_capture(path)], helped=helped) as index:
        while not index.frames:
            index.step(wait=1.0)
        first = time.perf_counter() - begun
        index.finish()
        wall = time.perf_counter() - begun
        frames = index.frames
    mine, theirs = cpu() - before, cpu(RUSAGE_CHILDREN) - children
    way = "helped" if helped else "alone"
    report(f"{way}: first frames, seconds to wait", f"{first:.2f}")
    report(f"{way}: CPU here / of the helper", f"{mine:.2f} / {theirs:.2f} s ({frames:,} frames, {wall:.1f} s wall)")


def asked(index: CaptureIndex, wanted: Masks) -> tuple[float, float, int]:
    """Return the seconds until a filter's first hit and until its end, and how many hits there were."""
    before, first, found = cpu(), 0.0, 0
    for step in index.matching(wanted):
        if len(step.numbers) and not found:
            first = cpu() - before
        found += len(step.numbers)
    return first, cpu() - before, found


def filter_of(name: str, text: str, parse: Callable[[str], clauses.Clause]) -> Masks:
    return masks({name: text}, FrameFilter((parse(text),)))


def resident() -> float:
    """Return the megabytes that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Measure everything."""
    options = argparse.ArgumentParser(prog="python -m tests.bench.index", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("capture")
    path = options.parse_args().capture
    gc.disable()
    for helped in (True, False):
        built(path, helped=helped)
    counted = measure([sys.executable, "-m", "dcpdump", "stats", path, "-q"])
    report("dcpdump stats: CPU", f"{counted.cpu:.2f} s")
    before = resident()
    with CaptureIndex([open_capture(path)], helped=True) as index:
        index.finish()
        report("memory of the user's process", f"{before:.0f} MB before, {resident():.0f} MB with an index")
        chance, took = random.Random(1), []
        for _ in range(_JUMPS):
            begun = cpu()
            index.record(chance.randint(1, index.frames))
            took.append(cpu() - begun)
        report("any frame: median / worst CPU", f"{statistics.median(took) * 1e3:.0f} / {max(took) * 1e3:.0f} ms")
        for name, text, parse in (
            ("opcode", "stream_req", clauses.by_opcode),
            ("vbucket", "77", clauses.by_vbucket),
            ("status", "!success", clauses.by_status),
            ("key", "*0077*", clauses.by_key),
        ):
            first, whole, found = asked(index, filter_of(name, text, parse))
            report(f"--{name} {text}", f"{whole:.2f} s, the first after {first:.2f} s ({found:,} frames)")


if __name__ == "__main__":
    main()
