"""Workers: other processes make the bytes, and the results are the same."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from dcpdump import forked_worker
from dcpdump.cli import workers
from dcpdump.cli.workers import Workers
from dcpdump.wire.encode import encode
from tests.support.captures import Record, pcap
from tests.support.console import contents, run
from tests.support.live import PATIENCE, children_of, wait_for
from tests.support.packets import TcpTalk


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


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_come_in_the_order_of_the_things(jobs: int) -> None:
    assert made(range(20), long, jobs) == [long(number) for number in range(20)]


def test_with_one_job_all_is_done_here() -> None:
    assert made([7, 8], lambda number: b"%d" % os.getpid(), 1) == [b"%d" % os.getpid()] * 2


def test_with_more_jobs_nothing_is_done_here() -> None:
    pids = made(range(10), lambda number: b"%d" % os.getpid(), 3)
    assert len(set(pids)) == 3
    assert b"%d" % os.getpid() not in pids


@pytest.mark.parametrize("shared", [1, 3, 1000])
def test_what_is_too_large_to_share_is_made_all_the_same(shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_SHARED_BYTES", shared)
    numbers = [5, 12345, 6, 99999, 7]
    assert made(numbers, long, 2) == [long(number) for number in numbers]


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


def test_what_a_worker_dies_of_is_done_here() -> None:
    here = os.getpid()

    def make(number: int) -> bytes:
        if number % 4 == 3 and os.getpid() != here:
            raise ValueError("only in a worker")
        return long(number)

    assert made(range(20), make, 2) == [long(number) for number in range(20)]


def test_a_worker_that_dies_between_two_things_is_not_missed() -> None:
    here = os.getpid()

    def make(number: int) -> bytes:
        if os.getpid() != here:
            os._exit(0)
        return long(number)

    assert made(range(6), make, 2) == [long(number) for number in range(6)]


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


def test_workers_are_gone_when_they_are_let_go() -> None:
    for pid in set(made(range(10), lambda number: b"%d" % os.getpid(), 2)):
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


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

    pids = [int(forked_worker.ForkedWorker(wait).receive(10)) for _ in range(2)]
    forked_worker.kill_workers()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture that is large enough for more than one process, in blocks of which each is worth a worker."""
    frame = encode("DCP_MUTATION", {"rev_seqno": 1}, key=b"k", value=b"v" * 1500)
    frames = [frame[:24] + seqno.to_bytes(8, "big") + frame[32:] for seqno in range(1, 17_001)]
    talk = TcpTalk(acks=False, segment=32 * 1024).send(1, b"".join(frames))
    path = tmp_path_factory.mktemp("large") / "large.pcap"
    path.write_bytes(pcap([Record(each.ts_ns or 0, each.data) for each in talk.packets]))
    assert path.stat().st_size > forked_worker.LEAST_BYTES
    return path


@pytest.fixture(scope="module")
def calm(large: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], object]:
    """Return what gives what a command writes with one process."""

    @cache
    def written(command: str) -> object:
        out = tmp_path_factory.mktemp("calm") / "out"
        assert run(f"dcpdump {command} {large} -q --jobs 1 -o {out}").code == 0
        return contents(out)

    return written


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
@pytest.mark.parametrize("killed", [1, 2])
@pytest.mark.parametrize("command", ["export -f csv", "read -f line"])
def test_a_run_whose_workers_are_killed_writes_the_same(
    command: str, killed: int, large: Path, calm: Callable[[str], object], tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "dcpdump", *command.split(), str(large), "-q", "--jobs", "2"]
    with subprocess.Popen([*words, "-o", str(tmp_path / "killed")], stderr=subprocess.PIPE) as process:
        wait_for(lambda: len(children_of(process.pid)) == 2)
        for worker in children_of(process.pid)[:killed]:
            os.kill(worker, signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, b"")
    assert os.listdir(tmp_path) == ["killed"]
    assert contents(tmp_path / "killed") == calm(command)
