"""Every way into ``read`` prints the same bytes as one frame at a time: files, pipes, terminals, redacted or not."""

import gc
import gzip
import io
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dcpdump.batch.dissector import Dissection
from dcpdump.capture import stream_queue as inflow
from dcpdump.capture.file import Capture
from dcpdump.cli import frame_output as frames
from dcpdump.cli import reading
from dcpdump.cli.options import Invocation
from dcpdump.cli.reading import CaptureSource, Reading
from dcpdump.cli.sink import Sink
from tests.bench.captures import capture
from tests.support.console import run
from tests.support.frame_by_frame import frame_by_frame
from tests.support.live import PATIENCE, ROOT, fed, on_a_terminal, running
from tests.support.packets import TcpTalk, flow
from tests.support.secret_talk import saved

REPLICA = Path("samples/replica.pcap")
KINDS = ("clean", "rollback", "lossy", "late", "foreign", "pcapng", "packed", "cut", "mislabelled")
DCPDUMP = [sys.executable, "-m", "dcpdump"]


class Pieces(io.RawIOBase):
    """A pipe that returns its bytes in odd small pieces."""

    def __init__(self, data: bytes) -> None:
        self._data, self._chance = io.BytesIO(data), random.Random(1)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._data.read(min(len(buffer), self._chance.randint(1, 3000)))
        buffer[: len(piece)] = piece
        return len(piece)


@pytest.fixture(scope="module", name="captures")
def _captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return captures of every kind that ``read`` may meet."""
    folder = tmp_path_factory.mktemp("captures")
    clean = capture(folder, "wire", 140, 16)
    packets, chance = list(Capture(str(clean))), random.Random(1)
    lossy = [packet for packet in packets if chance.random() > 0.06]
    lossy[100], lossy[101] = lossy[101], lossy[100]

    tls, text = TcpTalk(flow("10.0.0.9:41001")), TcpTalk(flow("10.0.0.9:41002"))
    for number in range(20):
        tls.send(number % 2, b"\x16\x03\x01\x02\x00" + bytes(range(200)))
        text.send(0, b"get key:%d\r\n" % number)
    foreign = packets[:]
    for at, packet in enumerate([*tls.packets, *text.packets]):
        foreign.insert(3 * at, packet._replace(ts_ns=foreign[3 * at].ts_ns))
    found = {"clean": clean, "rollback": Path("samples/client-rollback.pcap")}
    for name, some in (("lossy", lossy), ("late", packets[90:]), ("foreign", foreign)):
        found[name] = saved(some, folder / f"{name}.pcap")
    found |= {name: folder / name for name in ("pcapng", "packed", "cut")}
    found["mislabelled"] = capture(folder, "mislabelled", 300, 16)
    saved(packets, found["pcapng"], pcapng=True)
    found["packed"].write_bytes(gzip.compress(clean.read_bytes(), 1))
    found["cut"].write_bytes(clean.read_bytes()[:-700])
    return found


@pytest.fixture(name="salt")
def _salt(tmp_path: Path) -> Path:
    """Return a file with a salt, with which hashes are the same in every run."""
    salt = tmp_path / "salt"
    salt.write_bytes(b"a salt for tests")
    salt.chmod(0o600)
    return salt


@pytest.mark.parametrize(
    ("form", "hidden", "kind"),
    [
        *(("table", False, kind) for kind in ("rollback", "mislabelled")),
        *(("ndjson", kind in ("rollback", "foreign", "packed"), kind) for kind in KINDS),
        *((form, False, kind) for form in ("line", "csv") for kind in ("lossy", "mislabelled")),
        *((form, True, "mislabelled") for form in ("table", "ndjson")),
    ],
)
def test_files_and_pipes_read_as_frame_by_frame(
    captures: dict[str, Path], form: str, hidden: bool, kind: str, salt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, options = captures[kind], f"-f {form}" + (f" --redact --salt-file {salt}" if hidden else "")
    data = path.read_bytes()
    assert run(f"dcpdump read {path} {options}") == frame_by_frame(f"dcpdump read {path} {options}")
    wanted = frame_by_frame(f"dcpdump read - {options}", path)
    assert wanted.out.count("\n") > 20
    assert run(f"dcpdump read - {options}", data) == wanted
    monkeypatch.setattr(inflow, "BUFFER_BYTES", 5000)
    assert run(f"dcpdump read - {options}", Pieces(data)) == wanted


@pytest.mark.parametrize("options", ["--redact --redact-level full", "--color always", "-f grid"])
def test_other_processes_write_what_is_not_in_columns_alike(
    captures: dict[str, Path], options: str, salt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LEAST_BYTES", 0)
    monkeypatch.setattr(frames, "FORK_ROWS", 1)
    command = f"dcpdump read {captures['lossy']} {options} -j 2" + f" --salt-file {salt}" * ("--redact" in options)
    assert run(command) == frame_by_frame(command)


@pytest.mark.parametrize(
    "options",
    [
        "--opcode mutation,deletion --vbucket 3-9",
        "--since +1ms --until +2ms",
        "--key '*7*' -c 30",
        "--problems -f grid",
    ],
)
def test_filters_choose_from_a_pipe_as_frame_by_frame(
    captures: dict[str, Path], options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = captures["mislabelled"]
    monkeypatch.setattr(inflow, "BUFFER_BYTES", 5000)
    wanted = frame_by_frame(f"dcpdump read - -f line {options}", path)
    assert wanted.out.count("\n") > 5
    assert run(f"dcpdump read - -f line {options}", Pieces(path.read_bytes())).out == wanted.out


@pytest.mark.parametrize(("form", "name"), [("table", "-"), ("line", "samples/damage.pcap"), ("ndjson", "-")])
def test_a_terminal_shows_in_colours_what_frame_by_frame_would(
    form: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # so that no note is folded
    path, words = Path("samples/damage.pcap"), ["read", name, "-f", form]
    wanted = frame_by_frame(f"dcpdump read {name} -f {form} --color always", path)
    found = on_a_terminal(words, 1000, path.read_bytes() if name == "-" else b"", NO_COLOR="", FORCE_COLOR="")
    assert found == (wanted.code, (wanted.out + wanted.err).splitlines())
    assert ("\x1b[" in wanted.out) is (form != "ndjson")


# -- while more may come ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["--redact", "--color always"])
def test_a_count_ends_it_though_the_pipe_stays_open(options: str) -> None:
    with fed(["read", "-", "-f", "line", "-q", "-c", "3", *options.split()], REPLICA.read_bytes()) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, len(out.splitlines())) == (0, 3)


@pytest.mark.parametrize("options", ["", "--redact"])
def test_frames_come_as_their_packets_come(options: str) -> None:
    with fed(["read", "-", "-f", "line", "-q", *options.split()], REPLICA.read_bytes()[:1200]) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"#1 ")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_a_file_that_is_still_written_is_followed(tmp_path: Path) -> None:
    path, data = tmp_path / "grows.pcap", REPLICA.read_bytes()
    path.write_bytes(data[:1200])
    command = [*DCPDUMP, "read", "--follow", str(path), "-f", "line", "--summary", "json"]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        shown = [process.stdout.readline()]
        with path.open("ab") as file:
            file.write(data[1200:])
        shown += [process.stdout.readline() for _ in range(26)]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    wanted = frame_by_frame(f"dcpdump read {REPLICA} -f line --summary json")
    assert (process.returncode, b"".join(shown).decode(), out) == (143, wanted.out, b"")
    assert err.decode() == wanted.err.replace("}\n", ', "interrupted": true}\n')


def test_what_was_lost_is_not_kept_for_as_long_as_it_is_read(captures: dict[str, Path], tmp_path: Path) -> None:
    dissection = Dissection()
    with Sink(str(tmp_path / "out")) as sink:
        taking = frames.FrameOutput(Invocation({"format": "line"}), sink)
        Reading(CaptureSource([Capture(str(captures["lossy"]))]), dissection, taking, sink).read()
    assert dissection.tally.lost.gaps > 0
    assert dissection.gaps == []


def test_a_reading_without_end_leaves_frozen_what_is_frozen() -> None:
    gc.freeze()
    assert run("dcpdump read - -q", stdin=Path("samples/replica.pcap").read_bytes()).code == 0
    assert gc.get_freeze_count() > 0
