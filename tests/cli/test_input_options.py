"""Options that say how captures are read mean the same in every command that reads some."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dcpdump.capture import open_capture
from tests.support.captures import pcapng
from tests.support.console import contents, run
from tests.support.diagnoses import objects
from tests.support.secret_talk import saved

REPLICA = Path("samples/replica.pcap")
READERS = ("read", "stats", "streams", "conns", "rollbacks", "flow", "key '*'", "check", "top --once")


def damaged(tmp_path: Path) -> Path:
    """Write a capture with garbage behind its third record."""
    data, at = REPLICA.read_bytes(), 24
    for _ in range(3):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data[:at] + b"\xff" * 333 + data[at:])
    return path


def frames(err: str) -> str:
    """Return how many frames a summary counts."""
    return err.split(" frames")[0].split()[-1]


@pytest.mark.parametrize("command", READERS)
def test_salvage_reads_on_behind_garbage(command: str, tmp_path: Path) -> None:
    path = damaged(tmp_path)
    without, salvaged = (run(f"dcpdump {command} {path}{option}") for option in ("", " --salvage"))
    assert (without.code in (3, 4), "--salvage" in without.err) == (True, True)
    assert (salvaged.code, "333" in salvaged.err) == (4, True)
    assert frames(salvaged.err) == frames(run(f"dcpdump {command} {REPLICA}").err)


def test_salvage_carves_what_stands_behind_garbage(tmp_path: Path) -> None:
    path, out = damaged(tmp_path), tmp_path / "out.pcapng"
    assert run(f"dcpdump carve {path} --salvage --opcode mutation -w {out}").code == 4
    found, wanted = (len(objects(f"dcpdump read {name} --opcode mutation")) for name in (out, REPLICA))
    assert found == wanted > 0


def test_salvage_redacts_what_stands_behind_garbage(tmp_path: Path) -> None:
    path, out, whole = damaged(tmp_path), tmp_path / "out.pcap", tmp_path / "whole.pcap"
    what = "says it is 4,294,967,295 bytes long, and none over 16,777,216 is believed"
    fault = f"dcpdump: warning: record 4 (byte 234) {what}"
    refused = run(f"dcpdump redact {path} -w {out}")
    hint = "; lost: everything from here on; --salvage looks for the next record"
    assert (refused.code, refused.err.splitlines()[0]) == (3, fault + hint)
    salvaged = run(f"dcpdump redact {path} -w {out} --salvage --salt x")
    lost, *proved = salvaged.err.splitlines()
    assert (salvaged.code, lost) == (4, f"{fault}; lost: 333 bytes were skipped")
    assert proved == run(f"dcpdump redact {REPLICA} -w {whole} --salt x").err.replace("whole", "out").splitlines()
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("command", READERS)
def test_memory_bounds_what_waits(command: str) -> None:
    assert run(f"dcpdump {command} {REPLICA} --memory 1M").code == run(f"dcpdump {command} {REPLICA}").code
    assert run(f"dcpdump {command} {REPLICA} --memory 63k").err.startswith(
        "dcpdump: error: Invalid value for '--memory': '63k' is too little: 64k is the least\n"
    )


def test_salvage_redacts_what_stands_behind_garbage_before_the_first_packet(tmp_path: Path) -> None:
    whole, hurt = (tmp_path / name for name in ("whole", "hurt"))
    head, all_of_it = pcapng([]), saved(open_capture(str(REPLICA)), whole, pcapng=True).read_bytes()
    assert all_of_it.startswith(head)
    hurt.write_bytes(head + b"garbage." * 9 + all_of_it[len(head) :])
    for path in (whole, hurt):
        run(f"dcpdump redact {path} -w {path}.pcapng --salvage --salt x")
    assert (tmp_path / "hurt.pcapng").read_bytes() == (tmp_path / "whole.pcapng").read_bytes()


@pytest.mark.parametrize(
    "command",
    [*READERS, "diagnose", "diff samples/replica.pcap", "carve -w OUT", "redact --salt x -w OUT", "report -o OUT"],
)
def test_how_many_processes_may_be_used_is_taken_by_every_command(command: str, tmp_path: Path) -> None:
    def done(options: str) -> tuple[object, dict[str, bytes]]:
        out = tmp_path / f"out{options}"
        printed = run(f"dcpdump {command.replace('OUT', shlex.quote(str(out)))} {REPLICA}{options}")
        names = printed._replace(err=printed.err.replace(str(out), "OUT"))
        return names, contents(out) if out.exists() else {}

    assert done(" --jobs 3") == done("")


@pytest.mark.parametrize("command", ["pipeline --engine local -o OUT", "sql 'select count(*) from frames'"])
def test_how_many_processes_may_be_used_is_taken_where_tables_are_made(command: str, tmp_path: Path) -> None:
    plain, one = (run(f"dcpdump {command.replace('OUT', str(tmp_path))} {REPLICA} {more}") for more in ("", "-j 1"))
    assert (one, one.code) == (plain, 0)


def test_a_capture_that_grows_is_followed(tmp_path: Path) -> None:
    path, data = tmp_path / "grows.pcap", REPLICA.read_bytes()
    path.write_bytes(data[:1200])
    words = [sys.executable, "-m", "dcpdump", "top", "--follow", str(path), "-f", "ndjson", "--interval", "0.1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())["frames"]]
        with path.open("ab") as file:
            file.write(data[1200:])
        while seen[-1] < 26:
            seen.append(json.loads(process.stdout.readline())["frames"])
        process.terminate()
        process.communicate(timeout=60)
    assert seen[0] < 26
    assert process.returncode == 143
