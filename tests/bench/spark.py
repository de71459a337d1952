"""Measure the pipeline on Spark beside ``export``: ``python -m tests.bench.spark [--size MB]``.

Two archives of 1.5 GB: 25 files of 16 connections, and one file of a single connection; and the first at a third of
the size, to see that time grows as bytes do. For each: ``export -j 1`` in a process of its own, then the pipeline in
one SparkContext of two cores, cold and warm, with the tables that export has, and once with all. Memory is the largest
resident set of any one process so far: of Java, or of a worker.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from dcpdump.arrow.folder import SCHEMAS
from dcpdump.spark.chain import chains
from dcpdump.spark.cluster import SparkEngine
from dcpdump.spark.filesystem import inputs
from dcpdump.spark.job import DecodingJob, run
from dcpdump.spark.launch import spark_context
from dcpdump.spark.output import CaptureOutput
from tests.bench.__main__ import measure
from tests.bench.archives import archive
from tests.support.live import children_of


def megabytes(pid: int) -> float:
    """Return the largest resident set that any process below one has had."""
    peaks = [megabytes(child) for child in children_of(pid)]
    for child in children_of(pid):
        lines = Path(f"/proc/{child}/status").read_text().splitlines()
        peaks += [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]
    return max(peaks, default=0)


def report(total: float, work: str, seconds: float, peak: float) -> None:
    print(f"{total:8,.0f} MB {work:22} {seconds:8.1f} {total / seconds:6.0f} {peak:8.0f}", flush=True)


def main() -> None:
    """Measure, and print a table."""
    options = argparse.ArgumentParser(prog="python -m tests.bench.spark", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--size", type=int, default=1500, help="megabytes of an archive")
    size = options.parse_args().size * 1_000_000
    kept = Path(tempfile.gettempdir()) / "dcpdump-bench"
    kept.mkdir(parents=True, exist_ok=True)
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors; seconds, MB/s, peak MB")
    with tempfile.TemporaryDirectory(dir=kept) as out, spark_context("local[2]") as context:
        for part, files, connections in ((size // 3, 25, 16), (size, 25, 16), (size, 1, 1)):
            paths = archive(kept, part, files, connections)
            total = sum(path.stat().st_size for path in paths) / 1e6
            folder, target = str(paths[0].parent), Path(out) / "export"
            words = ["export", folder, "-q", "-j", "1", "-o", str(target), "--tables", "frames,gaps"]
            once = measure([sys.executable, "-m", "dcpdump", *words], codes=(0, 4))
            report(total, "export -j 1", once.seconds, once.megabytes)
            shutil.rmtree(target)
            some = {"frames", "gaps", "files"}
            works = {"pipeline": some, "pipeline, again": some, "pipeline, all tables": {*SCHEMAS}}
            for work, tables in works.items():
                started = time.perf_counter()
                with CaptureOutput(str(Path(out) / "tables"), "bench") as output, SparkEngine(context) as engine:
                    begun = chains(inputs([folder]), "folder", [folder])
                    made = run(engine, DecodingJob("bench", output.folder, frozenset(tables)), begun)
                    output.publish(made.written, tables, [each.name for each in begun])
                report(total, work, time.perf_counter() - started, megabytes(os.getpid()))


if __name__ == "__main__":
    main()
