"""Disturb runs at random: limits, signals, files that grow, shrink and vanish: ``python -m tests.chaos``.

Whatever happens: a documented exit code, no traceback, nothing half-written under a final name, no leftovers but those
of a process that was killed, files for their owner alone; and what a run wrote that says that it is done is what an
undisturbed run writes.
"""

import argparse
import os
import random
import re
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.support.console import contents
from tests.support.hostile import SHAPES, in_pcap
from tests.support.live import children_of

ROOT = Path(__file__).parents[1]
COMMANDS = [
    "read CAPTURE -f ndjson -o OUT",
    "streams CAPTURE -f ndjson -o OUT",
    "check CAPTURE -f ndjson -o OUT",
    "stats CAPTURE -f ndjson -o OUT",
    "report CAPTURE -o OUT",
    "export CAPTURE -o OUT -f csv --tables frames,gaps,streams,findings",
    "redact CAPTURE -w OUT --salt x -q",
    "carve CAPTURE -w OUT --opcode noop",
    "diagnose CAPTURE -f ndjson -o OUT",
    "conns CAPTURE -f ndjson -o OUT",
    "flow CAPTURE -f ndjson -o OUT",
    "read CAPTURE --key '*' -f csv -o OUT",
    "read CAPTURE --frame 2-900 -f ndjson -o OUT",
    "read - -f line -o OUT",
    "streams - -f ndjson -o OUT",
    "diff CAPTURE CAPTURE -f ndjson -o OUT",
    "sql 'select name, count(*) from frames group by name order by name' CAPTURE -f csv -o OUT",
    "pipeline CAPTURE -o OUT --engine local --capture-id x -q",
]
#: What the pipeline makes up for the names of its files.
_DRAWN = re.compile(r"-[0-9a-f]{12}-")
SAMPLES = sorted((ROOT / "samples").glob("*.pcap"))
CODES = {0, 1, 2, 3, 4, 5, 6, 130, 141, 143}
#: Of runs that read everything they could.
DONE = {0, 1, 4}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
#: Seconds from a signal to the end of a run that are not remarked; the machine may be busy.
PATIENCE = 20.0


class Plan(NamedTuple):
    """What happens in a run. ``after``: so many times what a short run takes."""

    command: str
    shape: int
    limit: str
    signal: int
    after: float
    change: str
    to_child: bool


#: A run that nothing disturbs.
CALM = Plan(COMMANDS[1], 0, "", 0, 600, "", False)


def plan_of(dice: random.Random) -> Plan:
    """Draw a plan."""
    return Plan(
        dice.choice(COMMANDS),
        dice.randrange(len(SHAPES) + len(SAMPLES)),
        dice.choice(["", "", "files", "processes", "memory", "size"]),
        dice.choice([0, *SIGNALS]),
        dice.uniform(0.4, 1.6),
        dice.choice(["", "", "", "grows", "shrinks", "vanishes"]),
        dice.random() < 0.3,
    )


#: Megabytes of address space of a run that is to have little. DuckDB's own code crashes where it has less than 450, and
#: one time in a hundred where it has 800, when it is opened.
_LITTLE, _LITTLE_SQL = 400, 1200


def _limit(name: str, megabytes: int) -> None:
    os.umask(0o022)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background of a shell ignores it
    if name == "files":
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    elif name == "processes":
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    elif name == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    elif name == "size":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def _start(words: Sequence[str], limit: str, errors: Path, given: int) -> "subprocess.Popen[bytes]":
    with errors.open("wb") as err:
        return subprocess.Popen(
            [sys.executable, "-B", "-m", "dcpdump", *words],  # one that may not write much writes half of its bytecode
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=err,
            cwd=ROOT,
            preexec_fn=lambda: _limit(limit, _LITTLE_SQL if words[0] == "sql" else _LITTLE),
        )


def _change(capture: Path, how: str) -> None:
    if how == "grows":
        with capture.open("ab") as file:
            file.write(b"\0" * 5000)
    elif how == "shrinks":
        os.truncate(capture, capture.stat().st_size // 2)
    elif how == "vanishes":
        capture.unlink()


def named(path: Path) -> dict[str, bytes]:
    """Return the files at a path, by name, without what was made up for the names."""
    return {_DRAWN.sub("-", name): data for name, data in contents(path).items()}


def disturbed(plan: Plan, original: Path, folder: Path) -> tuple[int, float]:
    """Run a command as planned in a folder; return its exit code, and the seconds from the signal to its end."""
    capture, errors = folder / "in.pcap", folder / "errors"
    shutil.copy(original, capture)
    (folder / "out").mkdir()
    words = shlex.split(plan.command.replace("CAPTURE", str(capture)).replace("OUT", str(folder / "out" / "result")))
    cat = subprocess.Popen(["cat", str(capture)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert cat.stdout is not None
    with cat.stdout as pipe:  # the command has it then: when it ends, cat does
        process = _start(words, plan.limit, errors, pipe.fileno() if "-" in words else subprocess.DEVNULL)
    try:
        process.wait(plan.after)
    except subprocess.TimeoutExpired:
        _change(capture, plan.change)
        if plan.signal:
            children = children_of(process.pid) if plan.to_child else []
            os.kill(children[0] if children else process.pid, plan.signal)
    began = time.monotonic()
    code = process.wait(600)
    seconds = time.monotonic() - began
    cat.wait()
    return code, seconds


def faults(plan: Plan, code: int, seconds: float, folder: Path, calm: Callable[[], dict[str, bytes]]) -> list[str]:
    """Return what is wrong with a run; ``calm`` is what the same command writes where nothing disturbs it."""
    found = []
    said = (folder / "errors").read_text(errors="replace")
    killed = plan.signal == signal.SIGKILL and code == -signal.SIGKILL
    # A signal may come before Python has begun to handle signals: then the system ends the process, or Python does.
    early = plan.signal and code == -plan.signal
    if code not in CODES and not killed and not early:
        found.append(f"exit code {code}")
    if "Traceback" in said and not early and not ("KeyboardInterrupt" in said and plan.after < 1):
        found.append("a traceback")
    if "a bug in dcpdump" in said:
        found.append("a bug")
    if plan.signal in (signal.SIGINT, signal.SIGTERM) and code in (130, 143) and seconds > PATIENCE:
        found.append(f"{seconds:.1f} s from the signal to the end")
    made = sorted(os.listdir(folder / "out"))
    if not killed and [each for each in made if each != "result"]:
        found.append(f"left: {made}")
    for each in (folder / "out").rglob("*"):
        if stat.S_IMODE(each.stat().st_mode) & 0o077:
            found.append(f"mode {stat.S_IMODE(each.stat().st_mode):o} of {each.name}")
    result = folder / "out" / "result"
    if result.exists() and not plan.change and code in DONE:
        if named(result) != calm():
            found.append("it says that it is done, and wrote something else than an undisturbed run")
    elif code == 0 and not result.exists():
        found.append("it says that it is done, and wrote nothing")
    return found


def main(seed: int, minutes: float, most: int | None) -> int:
    """Disturb so many runs, or as many as there is time for, and return how many of them went wrong."""
    dice = random.Random(seed)
    until = time.monotonic() + 60 * minutes
    runs = wrong = 0
    with TemporaryDirectory() as place:
        originals = []
        for number, (shape, count) in enumerate(SHAPES.items()):
            path = Path(place, f"{number}.pcap")
            path.write_bytes(in_pcap(shape(max(50, count // 20))))
            originals.append(path)
        originals += SAMPLES
        folder, done = Path(place, "run"), Path(place, "done")  # runs have one path: what they write may have it in it

        @cache
        def calm(command: str, shape: int) -> dict[str, bytes]:
            folder.mkdir()
            disturbed(CALM._replace(command=command), originals[shape], folder)
            result = folder / "out" / "result"
            written = named(result) if result.exists() else {}
            shutil.rmtree(folder)
            return written

        began = time.monotonic()
        calm(CALM.command, CALM.shape)
        short = time.monotonic() - began
        while time.monotonic() < until if most is None else runs < most:
            plan = plan_of(dice)
            folder.mkdir()
            code, seconds = disturbed(plan._replace(after=plan.after * short), originals[plan.shape], folder)
            folder.rename(done)
            runs += 1
            for fault in faults(plan, code, seconds, done, partial(calm, plan.command, plan.shape)):
                wrong += 1
                said = (done / "errors").read_text(errors="replace").strip().splitlines()[-1:]
                print(f"seed {seed}, run {runs}: {fault}: {plan}: {said}", flush=True)
            shutil.rmtree(done)
    print(f"seed {seed}: {runs} runs, {wrong} faults")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.exit(bool(main(given.seed, given.minutes, None)))
