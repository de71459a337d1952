"""What is said of TLS, and the exit code, in each situation a user may meet."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

import dcpdump
from dcpdump.capture.file import Capture
from dcpdump.wire.encode import encode
from tests.support.captures import Pcapng, Record, pcap
from tests.support.console import refusal, run
from tests.support.packets import flow
from tests.support.traces import traces
from tests.tls.encoder import CLIENT, SERVER, Script, connected, made
from tests.tls.twins import REPLICA, Files, Twin, of, twin, without_syn

DSB = 10


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> Files:
    """Make a sample in TLS, with its key log."""
    return Files(tmp_path, twin())


def test_with_all_secrets_the_balance_says_what_is_of_tls(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    result = files.read("-f line")
    assert result.code == 0
    assert result.err.startswith("27 of 27 frames shown · ")
    assert result.err.endswith(" = 5,188 in frames + 2,153 of TLS around frames\n")
    assert sum(1 for _ in dcpdump.read(str(files.capture), keylog=str(files.keys))) == 27
    monkeypatch.setenv("DCPDUMP_KEYLOG", str(files.keys))
    assert run(f"dcpdump read {files.capture} -f line") == result


def test_several_key_logs_add_up(tmp_path: Path) -> None:
    files = Files(tmp_path, twin(), b"")
    lines = twin().keylog.splitlines(keepends=True)
    (tmp_path / "more.log").write_bytes(b"".join(lines[:2]))
    files.keys.write_bytes(b"".join(lines[2:]))
    assert files.read(f"--keylog {tmp_path / 'more.log'} -q").code == 0


def test_a_connection_that_both_captures_have_is_joined_late_in_the_second_too(files: Files, tmp_path: Path) -> None:
    late = tmp_path / "late.pcap"
    late.write_bytes(without_syn(twin(), 20).pcap)
    one = files.read(f"{late} -q --frames 0", "diff")
    other = run(f"dcpdump diff {late} {files.capture} --keylog {files.keys} -q --frames 0")
    for result, lacks in ((one, "A"), (other, "B")):
        assert result.out.splitlines()[-1] == f"frames: 13 in both, 14 only in {lacks} · 1 connection in both"


SUITES = [(0x0304, 0x1301), (0x0303, 0xC02F), (0x0303, 0xC014)]


def noops(version: int, suite: int) -> Twin:
    """Make a connection of twelve frames, each in a packet of its own: the last twelve."""
    script = connected(version, suite)
    for opaque in range(6):
        script.say(CLIENT, encode("DCP_NOOP", opaque=opaque))
        script.say(SERVER, encode("DCP_NOOP", response=True, opaque=opaque))
    return of(script)


def compared(folder: Path, whole: Twin, lacking: list[Record]) -> list[dict[str, Any]]:
    """Return the frames that a capture of the same connection lacks, as ``diff`` says."""
    other = folder / "other.pcap"
    other.write_bytes(pcap(lacking))
    result = Files(folder, whole).read(f"{other} -f ndjson -q", "diff")
    return [row for row in map(json.loads, result.out.splitlines()) if row["type"] == "frame"]


@pytest.mark.parametrize(("version", "suite"), SUITES)
@pytest.mark.parametrize("lost", [-12, -8])
def test_lost_records_are_damage_whatever_is_known_of_them(version: int, suite: int, lost: int, tmp_path: Path) -> None:
    whole = noops(version, suite)
    lacking = [*whole.packets[:lost], *whole.packets[lost + 1 :]]
    assert [row["cause"] for row in compared(tmp_path, whole, lacking)] == ["lost"]
    result = Files(tmp_path, Twin(lacking, whole.keylog)).read("-f line")
    assert (result.code, len(result.out.splitlines())) == (4, 11)


def test_what_is_lost_behind_a_frame_that_was_cut_was_not_left_out(tmp_path: Path) -> None:
    script = connected(0x0303, 0xC014)
    values = {"by_seqno": 1, "rev_seqno": 1}
    frame = encode("DCP_MUTATION", values, layout="1", key=b"k", value=made("value", size=2_000))
    script.say(SERVER, frame, 500)
    for opaque in range(4):
        script.say(SERVER, encode("DCP_NOOP", opaque=opaque))
    whole = of(script)
    lacking = [*whole.packets[:-7], *whole.packets[-2:]]
    assert [row["cause"] for row in compared(tmp_path, whole, lacking)] == ["lost", "lost"]


def test_a_key_log_that_cannot_be_read_is_an_error_of_usage(files: Files) -> None:
    files.keys.unlink()
    result = files.read()
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("dcpdump: error: the key log cannot be read: no such file or directory (")


@pytest.mark.parametrize(
    "command", ["read {0}/tls.pcap", "read {0}", "diff {0} {0}", "sql 'select count(*) from frames' {0}"]
)
def test_a_key_log_without_secrets_is_said_to_have_none(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    files = Files(tmp_path, twin(), b"# nothing\nthis\nis\nno log\n")
    files.capture.rename(folder / files.capture.name)
    result = run(f"dcpdump {command.format(folder)} --keylog {files.keys}")
    assert result.code == 3
    assert f"dcpdump: note: {tmp_path / 'keys.log'} holds no TLS secret (3 lines not understood)\n" in result.err


def test_a_key_log_that_others_may_read_is_noted_once(files: Files) -> None:
    files.keys.chmod(0o644)
    note = f"dcpdump: note: {files.keys} is readable by others (mode 0644); it opens these connections\n"
    assert files.read().err.count(note) == 1
    assert note not in files.read("-q").err


@pytest.mark.parametrize("command", ["read -", "diff - samples/replica.pcap", "sql 'select 1' -"])
def test_standard_input_is_one_thing_only(command: str) -> None:
    result = run(f"dcpdump {command} --keylog -")
    assert result.code == 2
    assert "standard input can be the capture or one key log, not both" in result.err


def test_connections_that_stay_closed_are_named_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    scripts = [connected(name=name).say(SERVER, made("text", size=300)) for name in ("first", "second")]
    *begun, last = of(scripts[0]).packets
    packets = [*begun, *of(scripts[1], flow("10.0.0.1:50001")).packets, last]
    result = Files(tmp_path, Twin(packets, connected(name="other").keylog)).read()
    notes = [line for line in result.err.splitlines() if line.startswith("dcpdump: note: connection ")]
    assert [line.split()[3] for line in notes] == ["0", "1"]


def test_eight_connections_have_a_line_and_the_others_a_count(tmp_path: Path) -> None:
    packets: list[Record] = []
    for number in range(11):
        packets += of(connected(name=f"c{number}"), flow(f"10.0.0.1:{50_000 + number}")).packets
    clear = [Record(packet.ts_ns or 0, packet.data) for packet in Capture(str(REPLICA))]
    result = Files(tmp_path, Twin([*packets, *clear], connected(name="wrong").keylog)).read("-f line")
    assert result.code == 0
    assert result.err.count("B stay encrypted: no secret of it in 1 key log (1 connection)\n") == 8
    assert "dcpdump: note: and 3 connections like these\n" in result.err


def dsb(write: Pcapng, text: bytes, kind: int = 0x544C534B) -> bytes:
    return write.block(DSB, struct.pack(write.order + "II", kind, len(text)) + text)


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("place", ["before", "between", "behind", "in pieces"])
@pytest.mark.parametrize("piped", [False, True])
def test_secrets_inside_a_pcapng_open_it(tmp_path: Path, big_endian: bool, place: str, piped: bool) -> None:
    made_, write = twin(), Pcapng(big_endian)
    packets = [write.packet(each.ts_ns // 1_000, each.data) for each in made_.packets]
    lines = made_.keylog.splitlines(keepends=True)
    blocks = {
        "before": [dsb(write, made_.keylog), *packets],
        "between": [*packets[:25], dsb(write, made_.keylog), *packets[25:]],
        "behind": [*packets, dsb(write, b""), dsb(write, b"wireguard", 0x57474B4C), dsb(write, made_.keylog)],
        "in pieces": [dsb(write, b"".join(lines[:1])), *packets, dsb(write, b"".join(lines[1:]))],
    }[place]
    path = tmp_path / "tls.pcapng"
    path.write_bytes(write.section() + write.interface() + b"".join(blocks))
    command = "dcpdump read -f line -" if piped else f"dcpdump read -f line {path}"
    result = run(command, path.read_bytes() if piped else b"")
    assert result.code == 0
    assert result.err.startswith("27 of 27 frames shown · ")


def test_no_secret_is_in_anything_that_is_printed_or_written(tmp_path: Path) -> None:
    made_ = twin()
    files = Files(tmp_path, made_)
    secrets = [bytes.fromhex(each.split()[2].decode()) for each in made_.keylog.splitlines()]
    for command in ("read", "streams", "check", "conns", "stats", "flow"):
        for form in ("ndjson", "text" if command != "read" else "table"):
            result = files.read(f"-f {form}", command)
            assert traces(result.out + result.err, secrets, window=8) == set()
    files.read(f"-o {tmp_path / 'tables'} -f csv", "export")
    files.read(f"-w {tmp_path / 'carved.pcapng'}", "carve")
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path != files.keys]
    assert len(written) > 2
    assert not [each for each in secrets for data in written if each in data or each.hex().encode() in data]


def ends_in(path: Path, more: str = "") -> int:
    """Return how many streams end in a capture."""
    return run(f"dcpdump read {path} --opcode stream_end -f line {more}").out.count("stream-end")


def test_carve_keeps_the_secrets_that_the_input_carried(tmp_path: Path) -> None:
    made_, write = twin(), Pcapng()
    packets = [write.packet(each.ts_ns // 1_000, each.data) for each in made_.packets]
    other = connected(name="other")
    path, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    secrets = dsb(write, made_.keylog + other.keylog)
    path.write_bytes(write.section() + write.interface() + b"".join([*packets, secrets]))
    result = run(f"dcpdump carve {path} --opcode stream_end -w {out}")
    assert result.code == 0
    assert f"dcpdump: note: {out} carries the secrets of its TLS connections: it opens itself\n" in result.err
    assert oct(os.stat(out).st_mode & 0o777) == "0o600"
    assert other.random.hex().encode() not in out.read_bytes()
    assert ends_in(out) == 1


def test_carve_writes_the_secrets_of_a_key_log_only_when_it_is_asked_to(tmp_path: Path) -> None:
    files = Files(tmp_path, twin(0x0303, 0xC02F))
    bare, whole = tmp_path / "bare.pcapng", tmp_path / "whole.pcapng"
    carve = "--opcode stream_end -w"
    assert "dcpdump: note: reading it needs the same key log\n" in files.read(f"{carve} {bare}", "carve").err
    assert run(f"dcpdump read {bare}").code == 3
    assert ends_in(bare, f"--keylog {files.keys}") == 1
    assert "it opens itself" in files.read(f"{carve} {whole} --with-secrets", "carve").err
    assert ends_in(whole) == 1


def resumed() -> Twin:
    """Make two connections of one session, of which the key log has the first alone."""
    first = connected(0x0303, 0xC02F, "first")
    second = Script(0x0303, 0xC02F, "second").handshake12(resumed=first, ticket=True, line=False)
    for script in (first, second):
        script.say(CLIENT, encode("DCP_NOOP", opaque=1))
        script.say(SERVER, encode("DCP_NOOP", response=True, opaque=1))
    packets = of(first).packets + of(second, flow("10.0.0.1:50001")).packets
    return Twin(packets, first.keylog)


def test_a_resumed_connection_that_is_carved_opens_itself_or_it_is_said_what_it_needs(tmp_path: Path) -> None:
    files, out = Files(tmp_path, resumed()), tmp_path / "out.pcapng"
    result = files.read(f"--connection 1 --with-secrets -w {out}", "carve")
    carries = f"dcpdump: note: {out} carries the secrets of its TLS connections: it opens itself\n"
    assert result == (0, "", f"{out}: 2 of 4 frames · 11 of 25 packets\n{carries}")
    assert run(f"dcpdump read {out} -f line -q").out.count("noop") == 2
    without = files.read(f"--connection 1 -w {out} --force", "carve")
    needs = "the same key log and the connection whose session was resumed: --with-secrets writes what opens it alone"
    assert (without.code, without.err.splitlines()[-1]) == (4, f"dcpdump: note: reading it needs {needs}")
    assert files.read(f"-w {out} --force", "carve").err.endswith("reading it needs the same key log\n")


def test_redact_does_not_conceal_inside_tls(tmp_path: Path) -> None:
    files, instead = Files(tmp_path, twin()), "redact cannot conceal inside TLS; read --redact and export --redact can"
    result = files.read(f"-w {tmp_path / 'out.pcapng'}", "redact")
    assert result.code == 2
    assert instead in result.err
    closed = run(f"dcpdump redact {files.capture} -w {tmp_path / 'out.pcapng'}")
    assert closed.code == 3
    assert closed.err.endswith(f"hint: {instead}\n")  # and no key log


def test_redacted_output_conceals_what_was_inside_tls(files: Files) -> None:
    result = files.read("-f ndjson --redact -q")
    keys = {json.loads(each).get("key") for each in result.out.splitlines()}
    assert "hello" not in keys


def test_the_pipeline_opens_tls_and_a_watch_does_not(files: Files, tmp_path: Path) -> None:
    result = files.read(f"-o {tmp_path / 'tables'} --capture-id one --split 4k", "pipeline")
    assert result.code == 0
    assert "27 of 27 frames" in result.err
    assert len(list((tmp_path / "tables/frames").rglob("*.parquet"))) > 1
    refused = files.read(f"-o {tmp_path / 'tables'} --watch", "pipeline")
    assert refused.code == 2
    assert "--watch opens no TLS" in refused.err


def test_without_the_library_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpdump.cli.options.find_spec", lambda name: None)
    files = Files(tmp_path, twin())
    assert files.read() == refusal(2, "reading TLS needs cryptography", "pip install 'cryptography>=42'")


def test_the_commands_that_diagnose_offers_have_the_key_log(files: Files) -> None:
    result = files.read("-q", "diagnose")
    assert f"dcpdump streams {files.capture} --connection 0 --cause not-reopened-yet" in result.out
    assert f" --keylog {files.keys}\n" in result.out
