"""Measure the pipeline on Spark beside ``export``: ``python -m tests.bench.spark [--size MB] [--folder DIR]``.

Two archives of 1.5 GB: 25 files of 16 connections, and one file of a single connection; and the first at a third of
the size, to see that time grows as bytes do. For each: ``export -j 1`` in a process of its own, then the pipeline in
one session of two cores, cold and warm, with the tables that export has, and once with all. Memory is the largest
resident set of Java and of any one worker; what goes between tasks is what is sent to them and what they answer.
"""

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dcpdump.spark.input import inputs
from dcpdump.spark.job import TaskOptions, run
from dcpdump.spark.launch import session
from dcpdump.spark.output import TABLES, CaptureOutput
from dcpdump.spark.row_options import Options
from tests.bench.__main__ import measure
from tests.bench.archives import archive
from tests.bench.browse import below

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Tree:
    """The processes below this one, sampled again and again."""

    java: int = 0  #: bytes, at most
    worker: int = 0
    cpu: dict[int, float] = field(default_factory=dict)  #: by process
    _done: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Sample until stopped."""
        while not self._done.wait(0.1):
            for process in below(os.getpid()):
                self._look(process)

    def stop(self) -> None:
        """Stop sampling."""
        self._done.set()

    def _look(self, process: int) -> None:
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
            resident = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
        except (OSError, IndexError):  # it ended meanwhile
            return
        name, _, rest = stat.rpartition(") ")
        words = rest.split()
        self.cpu[process] = (int(words[11]) + int(words[12])) / _TICKS
        if name.endswith("(java"):
            self.java = max(self.java, resident)
        else:
            self.worker = max(self.worker, resident)


@contextmanager
def watched() -> Iterator[Tree]:
    """Sample the processes below this one as long as the block runs."""
    tree = Tree()
    thread = threading.Thread(target=tree.watch, daemon=True)
    thread.start()
    try:
        yield tree
    finally:
        tree.stop()
        thread.join()


def main() -> None:
    """Measure, and print a table."""
    options = argparse.ArgumentParser(prog="python -m tests.bench.spark", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--size", type=int, default=1500, help="megabytes of an archive")
    options.add_argument("--folder", type=Path, help="where archives are kept")
    given = options.parse_args()
    folder = given.folder or Path(tempfile.gettempdir()) / "dcpdump-bench"
    folder.mkdir(parents=True, exist_ok=True)
    size = given.size * 1_000_000
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors")
    heads = ("MB/s", 6), ("CPU s", 7), ("Java MB", 8), ("worker MB", 10), ("between kB", 10), ("of input", 9)
    print(f"{'archive':26} {'work':22} {'seconds':>8}", *(f"{head:>{width}}" for head, width in heads))
    plan = [("25 files, 16 connections", size // 3, 25, 16), ("25 files, 16 connections", size, 25, 16)]
    plan.append(("one file, one connection", size, 1, 1))
    with tempfile.TemporaryDirectory(dir=folder) as out, watched() as tree, session("local[2]") as spark:
        for name, bytes_, files, connections in plan:
            paths = archive(folder, bytes_, files, connections)
            total = sum(path.stat().st_size for path in paths)
            head = f"{name} {total / 1e6:,.0f}"
            target = Path(out) / "export"
            words = ["export", str(paths[0].parent), "-q", "-j", "1", "-o", str(target), "--tables", "frames,gaps"]
            once = measure([sys.executable, "-m", "dcpdump", *words], codes=(0, 4))
            shutil.rmtree(target)
            print(
                f"{head:26} {'export -j 1':22} {once.seconds:8.1f} {total / 1e6 / once.seconds:6.0f} {once.cpu:7.1f} "
                f"{'':8} {once.megabytes:10.0f}",
                flush=True,
            )
            works = {"pipeline": TABLES[:2], "pipeline, again": TABLES[:2], "pipeline, all tables": TABLES}
            for work, tables in works.items():
                tree.java = tree.worker = 0
                before, begun = sum(tree.cpu.values()), time.perf_counter()
                with CaptureOutput(str(Path(out) / "tables"), "bench") as shelf:
                    job = TaskOptions(Options(), shelf.folder, frozenset((*tables, "files")))
                    outcome = run(spark, inputs([str(paths[0].parent)]), job)
                    shelf.publish(outcome.written, (*tables, "files"))
                seconds = time.perf_counter() - begun
                time.sleep(0.3)
                print(
                    f"{head:26} {work:22} {seconds:8.1f} {total / 1e6 / seconds:6.0f} "
                    f"{sum(tree.cpu.values()) - before:7.1f} {tree.java / 1e6:8.0f} {tree.worker / 1e6:10.0f} "
                    f"{outcome.moved / 1e3:10,.0f} {outcome.moved / total:9.4%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
