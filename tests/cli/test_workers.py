"""Workers make the same bytes, also where processes, threads or descriptors are few; or it is said what is lacking."""

import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from dcpdump import processes
from dcpdump.capture import source
from dcpdump.capture.source import FileSource
from dcpdump.processes import LEAST_BYTES, ForkedWorker, Workers, kill_workers
from dcpdump.wire.encode import encode
from tests.support.console import Printed, contents, refusal, run
from tests.support.live import PATIENCE, ROOT, children_of, needs, running, wait_for
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved


def made(things: Iterable[int], make: Callable[[int], bytes], jobs: int) -> list[bytes]:
    """Have bytes made of numbers, and return copies of all results."""
    team: Workers[int] = Workers(jobs, make, lambda number: [b"%d" % number], lambda text: int(bytes(text)))

    def results() -> Iterator[bytes | memoryview]:
        for thing in things:
            yield from team.put(thing)
        yield from team.finish()

    try:
        return [bytes(result) for result in results()]
    finally:
        team.close()


def long(number: int) -> bytes:
    return b"%d" % number * 100_000


@pytest.mark.parametrize(("jobs", "shared"), [(1, 1000), (2, 1), (2, 3), (2, 1000), (3, 1 << 22)])
def test_results_come_in_the_order_of_the_things_also_where_they_are_too_large_to_share(
    jobs: int, shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_SHARED_BYTES", shared)
    numbers = [*range(20), 12345, 6, 99999, 7]
    assert made(numbers, long, jobs) == [long(number) for number in numbers]


def test_with_one_job_all_is_done_here_and_with_more_nothing_by_workers_that_are_let_go() -> None:
    def pid(_: int) -> bytes:
        return b"%d" % os.getpid()

    assert made([7, 8], pid, 1) == [pid(0)] * 2
    pids = set(made(range(10), pid, 3))
    assert (len(pids), pid(0) in pids) == (3, False)
    for each in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(each), 0)


def test_what_is_made_here_does_not_wait_for_what_is_made_elsewhere() -> None:
    until, ready = os.pipe()
    here = os.getpid()

    def make(number: int) -> bytes:
        if os.getpid() != here:
            os.read(until, 1)
        return b"%d" % number

    team: Workers[int] = Workers(2, make, lambda number: [b"%d" % number], lambda text: int(bytes(text)))
    try:
        assert [bytes(each) for each in team.put_here(1)] == [b"1"]
        assert list(team.put(2)) == list(team.put_here(3)) == list(team.put(4)) == []
        os.write(ready, b"..")
        assert [bytes(each) for each in team.finish()] == [b"2", b"3", b"4"]
    finally:
        team.close()
        os.close(until)
        os.close(ready)


@pytest.mark.parametrize("dies", [ValueError, SystemExit, lambda _: os._exit(0)], ids=["error", "exit", "at once"])
def test_what_a_worker_dies_of_is_done_here(dies: Callable[[str], object]) -> None:
    here = os.getpid()

    def make(number: int) -> bytes:
        if number % 4 == 3 and os.getpid() != here and isinstance(error := dies("only in a worker"), BaseException):
            raise error
        return long(number)

    assert made(range(20), make, 2) == [long(number) for number in range(20)]


def test_an_error_that_is_not_the_worker_s_is_raised() -> None:
    def make(number: int) -> bytes:
        raise ValueError("everywhere")

    with pytest.raises(ValueError, match="everywhere"):
        made([1], make, 2)


@pytest.mark.parametrize("allowed", [0, 1])
def test_as_many_workers_as_there_may_be_will_do(allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fork, made_so_far = os.fork, list[int]()

    def few() -> int:
        if len(made_so_far) == allowed:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        made_so_far.append(1)
        return fork()

    monkeypatch.setattr(os, "fork", few)
    assert made(range(20), long, 3) == [long(number) for number in range(20)]
    assert len(made_so_far) == allowed


def test_an_interrupt_while_a_result_is_waited_for_leaves_no_worker(tmp_path: Path) -> None:
    def interrupt(number: int) -> bytes:
        (tmp_path / str(os.getpid())).touch()
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()
        return b""

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            made([1], interrupt, 2)
    finally:
        signal.signal(signal.SIGINT, before)
    (pid,) = os.listdir(tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_all_workers_can_be_killed_at_once() -> None:
    def wait(orders: int, results: int) -> None:
        os.write(results, b"%10d" % os.getpid())
        signal.pause()

    pids = [int(ForkedWorker(wait).receive(10)) for _ in range(2)]
    kill_workers()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture that is large enough for more than one process, in blocks of which each is worth a worker."""
    frame = encode("DCP_MUTATION", {"rev_seqno": 1}, key=b"k", value=b"v" * 1500)
    frames = [frame[:24] + seqno.to_bytes(8, "big") + frame[32:] for seqno in range(1, 17_001)]
    talk = TcpTalk(acks=False, segment=32 * 1024).send(1, b"".join(frames))
    path = saved(talk, tmp_path_factory.mktemp("large") / "large.pcap")
    assert path.stat().st_size > LEAST_BYTES
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
@pytest.mark.parametrize("killed", [1, 2])
def test_a_run_whose_workers_are_killed_writes_the_same(killed: int, large: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dcpdump", "read", "-f", "line", str(large), "-q", "--jobs", "2"]
    with running([*words, "-o", str(tmp_path / "killed")], stderr=subprocess.PIPE) as process:
        wait_for(lambda: len(children_of(process.pid)) == 2)
        for worker in children_of(process.pid)[:killed]:
            os.kill(worker, signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err, os.listdir(tmp_path)) == (0, b"", ["killed"])
    assert run(f"dcpdump read -f line {large} -q --jobs 1 -o {tmp_path}/calm").code == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "calm")


HISTORY = ROOT / "samples" / "history.pcap"
#: What a user may do who has no right but to read our files, wherever they are, and to capture.
_FEW = "-all,+dac_override,+net_raw"


def few_processes(allowed: int, *words: str, stdin: bytes = b"") -> Printed:
    """Run ``dcpdump …`` as a user who may have so many processes: root is not bound by a limit."""
    needs("prlimit", "setpriv")
    user = f"{100_000 + os.getpid()}"  # who has no other processes
    sets = (f"--{name}={_FEW}" for name in ("inh-caps", "ambient-caps", "bounding-set"))
    become = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups", *sets) if os.geteuid() == 0 else ()
    command = (*become, "prlimit", f"--nproc={allowed}", sys.executable, "-m", "dcpdump", *words)
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=ROOT, timeout=PATIENCE, check=False)
    return Printed(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        *((f"{name} CAPTURE", 1) for name in ("read", "check")),
        ("redact CAPTURE -w /dev/null", 1),
        *((f"{name} -", 1) for name in ("read", "top --once")),
        *(("check -", allowed) for allowed in (1, 2, 3)),
    ],
)
def test_a_command_comes_to_the_same_with_few_processes(words: str, allowed: int) -> None:
    command = [str(HISTORY) if word == "CAPTURE" else word for word in words.split()]
    stdin = HISTORY.read_bytes() if "-" in command else b""
    assert few_processes(allowed, *command, stdin=stdin) == run(shlex.join(["dcpdump", *command]), stdin)


@pytest.mark.parametrize(("command", "allowed"), [("export -f csv", 1), ("export -f csv", 3), ("pipeline", 1)])
def test_tables_are_written_with_few_processes(tmp_path: Path, command: str, allowed: int) -> None:
    few_processes(allowed, *command.split(), str(HISTORY), "-o", str(tmp_path / "few"), "-q")
    run(f"dcpdump {command} {HISTORY} -o {tmp_path}/many -q")
    assert _files(tmp_path / "few") == _files(tmp_path / "many") != []


def _files(folder: Path) -> list[tuple[str, int]]:
    """Return the folder and the size of each file: names are drawn anew in each run."""
    files = (each for each in folder.rglob("*") if each.is_file())
    return sorted((str(each.parent.relative_to(folder)), each.stat().st_size) for each in files)


@pytest.mark.skipif(os.geteuid() != 0, reason="no right to capture")
@pytest.mark.parametrize("words", ["sniff -w /dev/null --force", "top --once"])
def test_a_capture_that_no_thread_can_take_is_refused(words: str) -> None:
    reported = few_processes(1, *words.split(), "-i", "lo")
    hint = "ulimit -u, or the limit of the container, says how many there may be"
    assert reported == refusal(6, "cannot capture: no thread may be started here (lo)", hint)


REPLICA = ROOT / "samples" / "replica.pcap"
FILES, DESCRIPTORS = 50, 40


def few_descriptors(words: str) -> Printed:
    """Run ``dcpdump …`` with few descriptors."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    command = [sys.executable, "-m", "dcpdump", *words.split()]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, preexec_fn=limit, timeout=PATIENCE, check=False)
    return Printed(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    for number in range(FILES):
        (folder / f"{number:02}.pcap").write_bytes(REPLICA.read_bytes())
    return folder


@pytest.mark.parametrize("command", ["read -f line", "check"])
def test_many_captures_of_one_time_are_read_with_few_descriptors(command: str, folder: Path) -> None:
    assert few_descriptors(f"{command} {folder}") == run(f"dcpdump {command} {folder}")


def test_many_captures_are_redacted_with_few_descriptors(folder: Path, tmp_path: Path) -> None:
    for redacted, out in ((few_descriptors, "few"), (lambda words: run(f"dcpdump {words}"), "many")):
        assert redacted(f"redact {folder} -w {tmp_path}/{out} --salt x -q").code == 0
    found = contents(tmp_path / "few")
    assert (found, sorted(found)) == (contents(tmp_path / "many"), sorted(os.listdir(folder)))


def test_a_file_that_was_replaced_meanwhile_is_not_read_on(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abcdef")
    file = FileSource(str(path), 1)
    assert file.read(2) == b"bc"
    file.rest()
    assert file.read(2) == b"de"
    file.rest()
    (tmp_path / "b").write_bytes(b"ABCDEF")
    os.replace(tmp_path / "b", path)
    with closing(file), pytest.raises(OSError, match="replaced"):
        file.read(2)


def test_a_file_stays_open_while_a_thread_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    slow, *others = (FileSource(str(tmp_path / "a")) for _ in range(source._MOST + 1))
    assert slow.read(1) == b"a"
    read = os.read

    def read_after_all_others(fd: int, size: int) -> bytes:
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as pool:
            assert set(pool.map(lambda file: file.read(3), others)) == {b"abc"}
        return read(fd, size)

    monkeypatch.setattr(os, "read", read_after_all_others)
    assert slow.read(2) == b"bc"
    for file in (slow, *others):
        file.close()
