"""Measure dcpdump beside tshark, in pairs, in one run, on the same files.

    python -m tests.bench [--large] [--repeat N] [WORK …]

makes the captures (about 150 MB each; kept in a folder among the temporary ones), runs each piece of work with both
programs in turn, and prints a table: seconds, frames and megabytes a second, peak memory, and how many times as long
tshark takes. ``--large`` adds a capture ten times as long, to see that memory does not grow. Without tshark only
dcpdump is measured, as of the lossy capture, which takes tshark minutes.
"""

import argparse
import compileall
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import dcpdump
from tests.bench.captures import LOSSY, SEGMENTS, capture

FRAMES = 400_000

#: What tshark knows of the columns that ``export`` writes.
_FIELDS = (
    "frame.number frame.time_epoch tcp.stream ip.src tcp.srcport ip.dst tcp.dstport couchbase.magic couchbase.opcode "
    "couchbase.key.length couchbase.extras.length couchbase.datatype couchbase.vbucket couchbase.status "
    "couchbase.total_bodylength couchbase.opaque couchbase.cas couchbase.extras.by_seqno couchbase.extras.rev_seqno "
    "couchbase.extras.flags couchbase.extras.expiration couchbase.extras.lock_time couchbase.extras.nmeta "
    "couchbase.extras.nru couchbase.extras.start_seqno couchbase.extras.end_seqno couchbase.extras.vbucket_uuid "
    "couchbase.dcp.failover_log couchbase.key couchbase.value"
)
_STREAM_FIELDS = "couchbase.opcode couchbase.vbucket couchbase.extras.by_seqno"
_ONE = "'couchbase.opcode == 0x57 && couchbase.vbucket == 77'"


class Work(NamedTuple):
    """One piece of work: the arguments of each program. ``{}`` is the capture, ``{out}`` a place to write to."""

    name: str
    ours: str
    theirs: str


def _fields_of(fields: str) -> str:
    return " -e ".join(("-r {} -T fields", *fields.split()))


WORKS: tuple[Work, ...] = (
    Work("table", "read {} -q --color never", "-r {} -V -O couchbase"),
    Work("json", "read {} -q -f ndjson", "-r {} -T json -J couchbase"),
    Work("one", "read {} -q --opcode mutation --vbucket 77 -f line", f"-r {{}} -Y {_ONE} -T fields -e couchbase.key"),
    Work("streams", "streams {} -q", _fields_of(_STREAM_FIELDS)),
    Work("check", "check {} -q --fail-on never", "-r {} -V -O couchbase"),
    Work("export", "export {} -q -o {out} --force --tables frames,gaps", _fields_of(_FIELDS)),
)


class Measured(NamedTuple):
    """What a run took."""

    seconds: float
    cpu: float
    megabytes: float  #: the peak


def measure(command: Sequence[str], codes: Sequence[int] = (0,)) -> Measured:
    """Run a command, and discard its output. ``codes``: the exit codes that it may have."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def compare(work: Work, path: Path, frames: int, out: Path, repeat: int, tshark: str | None) -> str:
    """Run a piece of work with both programs in turn, and return a row of the table."""
    ours, theirs = ([word.format(path, out=out) for word in shlex.split(line)] for line in (work.ours, work.theirs))
    kind = path.name.partition("-")[0]
    codes = (0, 4) if kind == LOSSY else (0,)
    mine: list[Measured] = []
    peer: list[Measured] = []
    for _ in range(repeat):
        mine.append(measure([sys.executable, "-m", "dcpdump", *ours], codes))
        if tshark:
            peer.append(measure([tshark, *theirs]))
    best, size = min(mine), path.stat().st_size / 1e6
    row = (
        f"{work.name:20} {kind:11} {best.seconds:8.2f} {frames / best.seconds:11,.0f} "
        f"{size / best.seconds:7.0f} {best.megabytes:7.0f}"
    )
    if peer:
        other = min(peer)
        row += f" {other.seconds:9.2f} {other.megabytes:8.0f} {other.seconds / best.seconds:7.1f}"
        row += f" {other.cpu / best.cpu:7.1f}"
    return row


def main() -> None:
    """Measure what was requested."""
    options = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("works", nargs="*", metavar="WORK", help=", ".join(dict.fromkeys(w.name for w in WORKS)))
    options.add_argument("--large", action="store_true", help="another wire capture of ten times as many frames")
    options.add_argument("--repeat", type=int, default=1, help="runs of each, of which the best counts")
    given = options.parse_args()
    works = [work for work in WORKS if not given.works or any(work.name.startswith(name) for name in given.works)]
    folder = Path(tempfile.gettempdir()) / "dcpdump-bench"
    folder.mkdir(parents=True, exist_ok=True)
    runs = [(kind, FRAMES) for kind in SEGMENTS] + ([("wire", 10 * FRAMES)] if given.large else [])
    tshark = shutil.which("tshark")
    # What pip does when it installs; a checkout whose Python keeps no bytecode would be compiled in every run.
    compileall.compile_dir(Path(dcpdump.__file__).parent, quiet=1)
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors, tshark: {tshark or 'not installed'}")
    print(
        f"{'work':20} {'capture':11} {'seconds':>8} {'frames/s':>11} {'MB/s':>7} {'peak MB':>7} "
        f"{'tshark s':>9} {'its MB':>8} {'ratio':>7} {'of CPU':>7}"
    )
    with tempfile.TemporaryDirectory(dir=folder) as out:
        for kind, count in runs:
            path = capture(folder, kind, count)
            for work in works:
                peer = None if kind == LOSSY else tshark
                print(compare(work, path, count, Path(out) / "tables", given.repeat, peer), flush=True)


if __name__ == "__main__":
    main()
