"""How commands end where a pipe, a disk or a descriptor fails them, and when signals come, in whatever state."""

import fcntl
import gzip
import os
import pty
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from dcpdump.cli.main import outcome
from dcpdump.cli.signals import repeat
from dcpdump.processes import signals_held
from tests.bench.captures import capture
from tests.support.console import printed, refusal, run
from tests.support.live import (
    PATIENCE,
    ROOT,
    at_import,
    children_of,
    fed,
    on_a_terminal,
    running,
    shown_on,
    wait_for,
    wait_until_idle,
    waiting_in,
)

REPLICA = Path("samples/replica.pcap")
DCPDUMP = [sys.executable, "-m", "dcpdump"]


@contextmanager
def nobody_reads() -> Iterator[int]:
    """Provide a pipe whose reader has closed it."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    ("command", "unread"),
    [
        (f"read {REPLICA}", "stdout"),
        (f"check {REPLICA}", "stdout stderr"),
        ("read none.pcap", "stderr"),
        ("read --help", "stdout"),
    ],
)
def test_a_reader_that_goes_away_ends_it_silently(command: str, unread: str) -> None:
    pipes: dict[str, int] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with nobody_reads() as pipe:
        pipes |= dict.fromkeys(unread.split(), pipe)
        done = subprocess.run([*DCPDUMP, *command.split()], timeout=PATIENCE, check=False, **pipes)  # type: ignore[call-overload]
    assert (done.returncode, done.stderr or b"") == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize(("command", "code"), [(f"read {REPLICA}", 5), ("read none.pcap", 3)])
def test_notes_that_cannot_be_written_are_an_output_that_cannot_be_written(command: str, code: int) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*DCPDUMP, *command.split()], stdout=subprocess.DEVNULL, stderr=full, timeout=PATIENCE)
    assert done.returncode == code


CLOSED = "cannot write: it is closed (standard output)"


@pytest.mark.parametrize(
    "command",
    [
        *(f"{name} {REPLICA}" for name in ("read", "streams", "top")),
        *(f"explain -q {'00' * 24}", "spec", "--help", "--version", "read --help"),
        *("read --schema", "sql --schema", "sniff -D"),
    ],
)
def test_without_a_standard_output_nothing_can_be_written(command: str) -> None:
    def closed() -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", None)  # as Python has it where it is closed
            return outcome(command.split())

    assert printed(closed) == refusal(5, CLOSED)


def test_without_a_stream_of_its_own_it_does_what_can_be_done(tmp_path: Path) -> None:
    def closed(words: str) -> tuple[int, int, str]:
        command = ["sh", "-c", f"'{sys.executable}' -m dcpdump {words}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.returncode, len(done.stdout.splitlines()), done.stderr

    assert closed(f"read {REPLICA} >&-") == (5, 0, f"dcpdump: error: {CLOSED}\n")
    assert closed(f"read {REPLICA} -q -f line -o '{tmp_path}/frames' >&-") == (0, 0, "")
    assert len((tmp_path / "frames").read_text("utf-8").splitlines()) == 27
    code, lines, err = closed("explain <&-")
    assert (code, lines, err.splitlines()[0]) == (3, 0, "dcpdump: error: standard input is closed (-)")
    assert closed(f"read {REPLICA} -f line 2>&-") == (0, 27, "")  # who closes it wants no notes


INTERRUPTED, TERMINATED, HUNG_UP = (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)


@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        ("streams", *INTERRUPTED),
        ("check -f sarif", *TERMINATED),
        ("stats -f ndjson", *HUNG_UP),
        ("conns", *TERMINATED),
        ("flow", *INTERRUPTED),
        ("rollbacks", *INTERRUPTED),
        ("key '*'", *TERMINATED),
        ("top --once", *INTERRUPTED),
    ],
)
def test_a_signal_ends_an_analysis_with_what_was_found_so_far(command: str, number: int, code: int) -> None:
    data = Path("samples/rollback-loop.pcap").read_bytes()
    whole = run(f"dcpdump {command} -", data)
    with fed([*shlex.split(command), "-"], data) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out.decode(), err.decode()) == (code, whole.out, f"interrupted · {whole.err}")


#: Runs the program, after a library has made of a signal whatever it does.
_WHILE_IT_STARTS = """
import signal, sys
from contextlib import suppress
from dcpdump.cli.main import outcome
from dcpdump.cli.signals import raise_at_signals
raise_at_signals()
with suppress(BaseException):
    signal.raise_signal(int(sys.argv[1]))
{and_then}
sys.exit(outcome(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("command", "number", "code", "and_then"),
    [
        ("read samples/replica.pcap -q", *TERMINATED, ""),
        ("export samples/replica.pcap -o none", *INTERRUPTED, "sys.modules['dcpdump.arrow.schema'] = None"),
    ],
    ids=["read", "it made an import error of it"],
)
def test_a_signal_that_a_library_dropped_ends_a_run_all_the_same(
    command: str, number: int, code: int, and_then: str
) -> None:
    words = [sys.executable, "-c", _WHILE_IT_STARTS.format(and_then=and_then), str(int(number)), *command.split()]
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


def test_who_interrupts_before_there_is_a_frame_is_not_answered_that_there_is_none() -> None:
    with fed(["streams", "-"], REPLICA.read_bytes()[:24]) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    reported = "interrupted · 0 frames read · 0 packets · 0 connections · 0 B of payload\n"
    assert (process.returncode, out, err.decode()) == (130, b"", reported)


def test_read_says_that_it_was_interrupted_for_people_and_for_programs() -> None:
    reported = "interrupted · 27 of 27 frames shown · 60 packets · 1 connection · 5,188 B of payload, all decoded\n"
    for summary, wanted in (("text", reported), ("json", '"interrupted": true}\n')):
        with fed(["read", "-", "-f", "line", "--summary", summary], REPLICA.read_bytes()) as process:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, len(out.splitlines()), err.decode()[-len(wanted) :]) == (143, 27, wanted)


def test_a_file_that_is_interrupted_in_the_middle_is_reported_as_far_as_it_was_read(large: Path) -> None:
    code, out, err = interrupted(["stats", str(large)], large)
    reported = err.removeprefix("interrupted · ").partition(" frames read · ")[0]
    assert (code, reported) == (130, out.partition(" frames, ")[0])
    assert 0 < int(reported.replace(",", "")) < 60_000


def test_what_was_found_in_a_part_of_a_file_is_not_written_to_a_file(large: Path, tmp_path: Path) -> None:
    result = tmp_path / "result"
    code, out, err = interrupted(["stats", str(large), "-o", str(result)], large)
    note = f"dcpdump: note: nothing was written to {result}\ninterrupted · "
    assert (code, out, err.startswith(note), os.listdir(tmp_path)) == (130, "", True, [])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    packed = folder / "large.pcap.gz"
    packed.write_bytes(gzip.compress(capture(folder, "wire", 60_000).read_bytes(), 1))
    return packed


@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        ("export -q -o", *INTERRUPTED),
        ("redact -w", *TERMINATED),
        ("carve --opcode mutation -w", *HUNG_UP),
        ("pipeline -q -o", *INTERRUPTED),
    ],
)
def test_what_writes_files_says_that_nothing_is_left_of_them(
    command: str, number: int, code: int, large: Path, tmp_path: Path
) -> None:
    name, *options = command.split()
    ended = interrupted([name, str(large), *options, str(tmp_path / "out")], large, number)
    assert ended == (code, "", f"interrupted · nothing was written to {tmp_path}/out\n")
    assert os.listdir(tmp_path) == []


def test_carve_says_that_standard_output_has_only_a_part(large: Path) -> None:
    reader, writer = os.pipe()
    words = [*DCPDUMP, "carve", str(large), "-w", "-"]
    with running(words, stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        wait_for(lambda: waiting_in(reader) > 0)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    os.close(reader)
    assert (process.returncode, err.decode()) == (143, "interrupted · only a part was written to standard output\n")


def interrupted(words: list[str], packed: Path, number: int = signal.SIGINT) -> tuple[int, str, str]:
    """Run ``dcpdump …`` until it has read a third of a file, and interrupt it."""
    with running([*DCPDUMP, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for(lambda: _read_of(process.pid, packed) > packed.stat().st_size // 3)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out.decode(), err.decode()


def _read_of(pid: int, path: Path) -> int:
    """Return how much of a file a process has read. It opens and closes it several times."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if os.path.realpath(link) == str(path):
                return int(Path(f"/proc/{pid}/fdinfo/{link.name}").read_text().split()[1])
    return 0


def test_a_second_signal_ends_it_while_its_result_waits_for_a_reader() -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    words = ["check", "-f", "sarif", "-"]
    with os.fdopen(reader), os.fdopen(writer, "w"), fed(words, REPLICA.read_bytes(), stdout=writer) as process:
        process.send_signal(signal.SIGINT)
        wait_until_idle(process.pid)
        assert waiting_in(reader)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, b"")


def test_on_a_terminal_the_result_of_an_interrupted_run_begins_on_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # so that nothing has to fit
    data, reported = REPLICA.read_bytes(), run("dcpdump flow -", REPLICA.read_bytes())
    ours, theirs = pty.openpty()
    with fed(["flow", "-", "--color", "never"], data, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        process.send_signal(signal.SIGINT)
        assert shown_on(ours).replace("\r\n", "\n") == f"\n{reported.out}interrupted · {reported.err}"
        assert process.wait(PATIENCE) == 130


@pytest.mark.parametrize("command", ["check", "flow"])
def test_on_a_terminal_the_summary_comes_after_what_was_found(command: str) -> None:
    words = [command, "samples/rollback-loop.pcap"]
    code, shown = on_a_terminal(words, 1000)  # so that nothing has to fit
    found = run(f"dcpdump {' '.join(words)}")
    lines = [line for line in shown if not line.startswith("each finding: --all")]
    assert (code, lines) == (found.code, [*found.out.splitlines(), *found.err.splitlines()])


@pytest.mark.parametrize(
    "error", ["MemoryError", 'ImportError("libnumbers.so.1: failed to map segment from shared object")']
)
def test_too_little_memory_is_said_and_is_no_bug(error: str) -> None:
    done = at_import("numpy", f"raise {error}", "stats", str(REPLICA))
    hint = "ulimit -v, or the limit of the container, says how much there may be"
    assert (done.returncode, done.stdout, done.stderr) == refusal(5, "not enough memory", hint)


_NOTHING_READ = "interrupted · 0 frames read · 0 packets · 0 connections · 0 B of payload\n"


def signalled_at_import(module: str, number: int, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run ``dcpdump …``, which is sent a signal when it begins to import a module."""
    return at_import(module, f"os.kill(os.getpid(), {int(number)})", *words)


@pytest.mark.parametrize(
    ("module", "number", "code"),
    [
        ("dcpdump.cli.main", *INTERRUPTED),
        ("dcpdump.cli.stats", *HUNG_UP),
        ("numpy", *TERMINATED),
    ],
)
def test_a_signal_ends_a_run_that_is_still_starting(module: str, number: int, code: int) -> None:
    done = signalled_at_import(module, number, "stats", "samples/replica.pcap", "-f", "ndjson")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr in ("", _NOTHING_READ)  # reading may just have begun, when all is imported


#: Runs the program, which is sent a signal when a native module makes an enumeration while it is imported.
_SIGNALLED_AT_ENUMERATION = """
import enum, os, sys

made = type(enum.Enum).__call__.__code__

def signal_at(frame, event, _):
    if event == "call" and frame.f_code is made and frame.f_back.f_code.co_name == "_call_with_frames_removed":
        sys.setprofile(None)
        os.kill(os.getpid(), int(number))

number = sys.argv.pop(1)
sys.setprofile(signal_at)
from dcpdump.__main__ import start
start()
"""


def test_a_signal_ends_a_run_in_the_middle_of_what_a_native_module_does_to_be_imported() -> None:
    words = [str(int(signal.SIGTERM)), "sql", "select count(*) from frames", "samples/replica.pcap"]
    command = [sys.executable, "-c", _SIGNALLED_AT_ENUMERATION, *words]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, b"", b"")


#: Runs as the program something else that is sent a signal.
_INTERRUPTED = """
import os, signal, sys
from dcpdump.cli import main, signals

class Importing:
    def find_spec(self, name, path=None, target=None):
        if name == "interrupted":
            os.kill(os.getpid(), signal.SIGINT)

class Freed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        [number for number in range(1000)]

def outcome(words):
    try:
        {does}
    except KeyboardInterrupt:
        return 130
    return 0

sys.meta_path.insert(0, Importing())
main.outcome = outcome
main.run()
"""


@pytest.mark.parametrize(
    "does",
    [
        pytest.param('exec("os.kill(os.getpid(), signal.SIGINT)")', id="in code made from text, as of dataclasses"),
        pytest.param("Freed(); signals.raise_again()", id="while an object is freed, where exceptions are dropped"),
        pytest.param("import interrupted", id="at the last import of a run"),
    ],
)
def test_the_exit_code_is_that_of_the_contract_wherever_the_signal_came(does: str, tmp_path: Path) -> None:
    (tmp_path / "run_interrupted.py").write_text(_INTERRUPTED.format(does=does))
    (tmp_path / "interrupted.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-m", "run_interrupted"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_ctrl_c_ends_what_is_done_or_about_to_be_done_and_nothing_else() -> None:
    done = []

    def do() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("went on")

    def fail() -> None:
        raise ValueError("in vain")

    def interrupted() -> None:
        done.append("interrupted")
        if len(done) == 1:
            signal.raise_signal(signal.SIGINT)
            done.append("went on")

    before = signal.getsignal(signal.SIGINT)
    repeat(lambda: done.append("done") if done else do(), interrupted)
    with pytest.raises(ValueError, match="in vain"):
        repeat(fail, interrupted)
    assert (done, signal.getsignal(signal.SIGINT)) == (["interrupted", "interrupted", "done"], before)


@pytest.mark.parametrize(
    ("module", "command", "number", "code"),
    [
        ("pyarrow.parquet", "export", *INTERRUPTED),
        ("dcpdump.spark.local", "pipeline --engine local", *TERMINATED),
        ("pyarrow.csv", "export -f csv", *HUNG_UP),
    ],
)
def test_nothing_is_left_of_a_folder_that_was_just_made(
    module: str, command: str, number: int, code: int, tmp_path: Path
) -> None:
    words = (*command.split(), "samples/replica.pcap", "-q", "-o", str(tmp_path / "out"))
    done = signalled_at_import(module, number, *words)
    assert (done.returncode, done.stdout, os.listdir(tmp_path)) == (code, "", [])
    assert done.stderr in ("", f"interrupted · nothing was written to {tmp_path / 'out'}\n")


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return a signal that is raised as an interrupt while the test lasts."""
    before = signal.signal(request.param, signal.default_int_handler)
    yield request.param
    signal.signal(request.param, before)


def test_a_signal_comes_when_what_must_be_done_whole_is_done(number: int) -> None:
    done = []

    def do() -> None:
        with signals_held():
            signal.raise_signal(number)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        do()
    assert (done, signal.getsignal(number)) == (["all of it"], signal.default_int_handler)


def test_a_signal_that_is_ignored_stays_ignored(number: int) -> None:
    signal.signal(number, signal.SIG_IGN)
    with signals_held():
        signal.raise_signal(number)
    assert signal.getsignal(number) == signal.SIG_IGN


@contextmanager
def paged() -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command on a terminal, during the block, whose pager never ends and which waits for it."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "DCPDUMP_PAGER": "sleep 600", "TERM": "xterm"}
    words = [sys.executable, "-m", "dcpdump", "streams", "samples/replica.pcap"]
    with running(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        try:
            wait_for(lambda: len(children_of(process.pid)) == 1)
            wait_until_idle(process.pid)
            yield process
        finally:
            process.kill()
            os.close(ours)


def test_a_run_that_is_terminated_ends_its_pager_first() -> None:
    with paged() as process:
        (pager,) = children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
        assert not Path(f"/proc/{pager}").exists()


def test_ctrl_c_is_for_the_pager_however_often() -> None:
    with paged() as process:
        (pager,) = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        wait_until_idle(process.pid)
        assert children_of(process.pid) == [pager]
        os.kill(pager, signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_a_terminal_that_is_closed_leaves_nothing_unfinished(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = ["read", "-", "-o", str(tmp_path / "out")]
    data = Path("samples/replica.pcap").read_bytes()[:3000]
    with fed(words, data, stdout=theirs, stderr=theirs, preexec_fn=partial(_control, theirs)) as process:
        os.close(theirs)
        wait_for(lambda: len(os.listdir(tmp_path)) == 1)
        os.close(ours)
        assert (process.wait(PATIENCE), os.listdir(tmp_path)) == (129, [])


def test_an_analysis_whose_terminal_is_closed_writes_the_file_that_it_was_to_write(tmp_path: Path) -> None:
    data, out = Path("samples/replica.pcap").read_bytes(), tmp_path / "streams.txt"
    ours, theirs = pty.openpty()
    with fed(["streams", "-", "-o", str(out)], data, stderr=theirs, preexec_fn=partial(_control, theirs)) as process:
        os.close(theirs)
        os.close(ours)
        process.send_signal(signal.SIGHUP)  # as the shell does, beside the system
        assert process.wait(PATIENCE) == 129
    assert out.read_text("utf-8") == run("dcpdump streams -", data).out


def test_a_terminal_that_is_closed_does_not_end_what_was_started_with_nohup() -> None:
    data = Path("samples/replica.pcap").read_bytes()
    with fed(["streams", "-"], data, preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)) as process:
        process.send_signal(signal.SIGHUP)
        wait_until_idle(process.pid)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out.decode()) == (143, run("dcpdump streams -", data).out)


def _control(terminal: int) -> None:
    """Have a terminal be that of this process, which then learns when it is closed."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
