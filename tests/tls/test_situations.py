"""What is said of TLS, and the exit code, in each situation a user may meet."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from dcpdump.capture import open_capture
from dcpdump.net.endpoints import Flow
from dcpdump.wire.encode import encode
from tests.support.captures import Pcapng, Record, pcap
from tests.support.console import Printed, run
from tests.support.packets import ACK, FLOW, SYN, ethernet, flow, ipv4_tcp
from tests.support.traces import traces
from tests.tls.encoder import CLIENT, SERVER, Script, made
from tests.tls.twins import Twin, seal

REPLICA = Path(__file__).parents[2] / "samples" / "replica.pcap"
DSB = 10


def twin(version: int = 0x0304, suite: int = 0x1301, sample: str = "replica") -> Twin:
    return seal(open_capture(str(REPLICA.with_name(f"{sample}.pcap"))), version=version, suite=suite)


class Files:
    """A capture and a key log in a folder of a test."""

    def __init__(self, folder: Path, made_: Twin, keylog: bytes | None = None) -> None:
        self.capture, self.keys = folder / "tls.pcap", folder / "keys.log"
        self.capture.write_bytes(made_.pcap)
        self.keys.write_bytes(made_.keylog if keylog is None else keylog)
        self.keys.chmod(0o600)

    def read(self, more: str = "", command: str = "read") -> Printed:
        return run(f"dcpdump {command} {self.capture} --keylog {self.keys} {more}")


def without_syn(made_: Twin, first: int) -> Twin:
    """Leave out the first packets: the capture began later."""
    return Twin(made_.packets[first:], made_.keylog)


def of(script: Script, there: Flow = FLOW) -> Twin:
    """Make a capture of the flights of a script, which begins with its connection."""
    ends = (there, there.reverse)
    seqs = [1_000, 5_000]
    out = [Record(0, ethernet(ipv4_tcp(ends[0], 999, flags=SYN)))]
    out.append(Record(1, ethernet(ipv4_tcp(ends[1], 4_999, flags=SYN | ACK, ack=1_000))))
    for number, (way, data) in enumerate(script.flights):
        for at in range(0, len(data), 1_400):
            piece = data[at : at + 1_400]
            segment = ipv4_tcp(ends[way], seqs[way], piece, flags=ACK, ack=seqs[1 - way])
            out.append(Record(1_000 * number, ethernet(segment)))
            seqs[way] += len(piece)
    return Twin(out, script.keylog)


def test_with_all_secrets_the_balance_says_what_is_of_tls(tmp_path: Path) -> None:
    result = Files(tmp_path, twin()).read("-f line")
    assert result.code == 0
    assert result.err.startswith("27 of 27 frames shown · ")
    assert result.err.endswith(" = 5,188 in frames + 2,153 of TLS around frames\n")


def test_the_environment_names_a_key_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path, twin())
    monkeypatch.setenv("DCPDUMP_KEYLOG", str(files.keys))
    assert run(f"dcpdump read {files.capture} -f line").code == 0


def test_several_key_logs_add_up(tmp_path: Path) -> None:
    files = Files(tmp_path, twin(), b"")
    lines = twin().keylog.splitlines(keepends=True)
    (tmp_path / "more.log").write_bytes(b"".join(lines[:2]))
    files.keys.write_bytes(b"".join(lines[2:]))
    assert files.read(f"--keylog {tmp_path / 'more.log'} -q").code == 0


def test_without_secrets_it_is_named_with_what_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSLKEYLOGFILE", raising=False)
    files = Files(tmp_path, twin())
    result = run(f"dcpdump read {files.capture}")
    assert result.code == 3
    assert result.err == (
        "dcpdump: error: no DCP in the input: 39 packets; 1 TCP connection; "
        "TLS 1.3 on port 11209 (server name cb.example), 7,196 B encrypted\n"
        "hint: --keylog FILE with the key log of the client or the server, "
        "or capture an unencrypted port: 11210, or 11209 between nodes\n"
    )


def test_where_a_process_writes_its_secrets_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", "/tmp/keys")
    result = run(f"dcpdump read {Files(tmp_path, twin()).capture}")
    assert 'hint: --keylog "$SSLKEYLOGFILE", or capture' in result.err


@pytest.mark.parametrize(("version", "suite", "name"), [(0x0304, 0x1301, "TLS 1.3"), (0x0303, 0xC02F, "TLS 1.2")])
def test_secrets_of_others_are_said_to_be_of_others(tmp_path: Path, version: int, suite: int, name: str) -> None:
    other = Script(version, suite, "other")
    other.handshake()
    result = Files(tmp_path, twin(version, suite), other.keylog).read()
    assert result.code == 3
    assert f"{name} on port 11209 (server name cb.example), " in result.err
    assert " B encrypted: no secret of it in 1 key log (1 connection)\n" in result.err


def test_secrets_that_do_not_fit_are_said_not_to(tmp_path: Path) -> None:
    made_ = twin()
    wrong = b"".join(
        each[: 1 + each.rindex(b" ")] + made("wrong").hex().encode() + b"\n" for each in made_.keylog.splitlines()
    )
    result = Files(tmp_path, made_, wrong).read()
    assert result.code == 3
    assert ": its secrets do not fit (4 records tried)\n" in result.err


def test_the_secret_of_one_direction_opens_that(tmp_path: Path) -> None:
    made_ = twin()
    keylog = b"".join(each for each in made_.keylog.splitlines(keepends=True) if each.startswith(b"SERVER"))
    result = Files(tmp_path, made_, keylog).read("-f line")
    assert result.code == 0
    assert "B stay encrypted: no secret of the client's direction\n" in result.err


def test_a_joined_connection_of_tls_1_3_is_recognised(tmp_path: Path) -> None:
    result = Files(tmp_path, without_syn(twin(), 20)).read("-f line")
    assert result.code == 0
    assert "TLS 1.3 joined after its handshake: recognised at record " in result.err


def test_a_joined_connection_of_tls_1_2_cannot_be_opened(tmp_path: Path) -> None:
    result = Files(tmp_path, without_syn(twin(0x0303, 0xC02F), 20)).read()
    assert result.code == 3
    assert ": joined after its handshake it cannot be opened: capture from before it connects\n" in result.err
    assert "hint: capture from before the connection opens, or capture an unencrypted port" in result.err


def test_tls_that_began_before_the_capture_is_named_without_secrets(tmp_path: Path) -> None:
    for version, suite in ((0x0304, 0x1301), (0x0303, 0xC013)):
        files = Files(tmp_path, without_syn(twin(version, suite), 20))
        result = run(f"dcpdump read {files.capture}")
        assert result.code == 3
        assert "; TLS" in result.err
        assert " B encrypted\n" in result.err


def test_lost_records_are_damage(tmp_path: Path) -> None:
    made_ = twin()
    at = next(n for n, record in enumerate(made_.packets) if len(record.data) > 1_000 and n > 10)
    result = Files(tmp_path, Twin([*made_.packets[:at], *made_.packets[at + 1 :]], made_.keylog)).read("-f line")
    assert result.code == 4
    assert "B lost (" in result.err


def test_a_connection_that_both_captures_have_is_joined_late_in_the_second_too(tmp_path: Path) -> None:
    files, late = Files(tmp_path, twin()), tmp_path / "late.pcap"
    late.write_bytes(without_syn(twin(), 20).pcap)
    results = [
        files.read(f"{late} -q --frames 0", "diff"),
        run(f"dcpdump diff {late} {files.capture} --keylog {files.keys} -q --frames 0"),
    ]
    assert [each.out.splitlines()[-1] for each in results] == [
        "frames: 13 in both, 14 only in A · 1 connection in both",
        "frames: 13 in both, 14 only in B · 1 connection in both",
    ]


SUITES = [(0x0304, 0x1301), (0x0303, 0xC02F), (0x0303, 0xC014)]


def noops(version: int, suite: int) -> Twin:
    """Make a connection of twelve frames, each in a packet of its own: the last twelve."""
    script = Script(version, suite)
    script.handshake()
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
    script = Script(0x0303, 0xC014)
    script.handshake()
    values = {"by_seqno": 1, "rev_seqno": 1}
    frame = encode("DCP_MUTATION", values, layout="1", key=b"k", value=made("value", size=2_000))
    script.say(SERVER, frame, 500)
    for opaque in range(4):
        script.say(SERVER, encode("DCP_NOOP", opaque=opaque))
    whole = of(script)
    lacking = [*whole.packets[:-7], *whole.packets[-2:]]
    assert [row["cause"] for row in compared(tmp_path, whole, lacking)] == ["lost", "lost"]


def test_a_cipher_that_is_not_opened_is_named(tmp_path: Path) -> None:
    script = Script(0x0303, 0xC02F)
    script.suite = 0x0005
    script.client_hello()
    script.server_hello(session=b"s" * 32)
    for way in (CLIENT, SERVER):
        script.plain(way, 20, b"\1")
        script.plain(way, 22, made("finished", size=40))
        script.plain(way, 23, made("text", size=400))
    script.log("CLIENT_RANDOM", made("master", size=48))
    result = Files(tmp_path, of(script)).read()
    assert result.code == 3
    assert "TLS 1.2 on port 11210 (server name cb.example), 900 B encrypted: RC4 is not opened\n" in result.err


def test_another_protocol_inside_is_named(tmp_path: Path) -> None:
    script = Script()
    script.handshake()
    script.say(CLIENT, b"GET /pools HTTP/1.1\r\nHost: cb\r\n\r\n")
    script.say(SERVER, b"HTTP/1.1 200 OK\r\n\r\n")
    result = Files(tmp_path, of(script)).read()
    assert result.code == 3
    assert "; HTTP or memcached text inside TLS on port 11210\n" in result.err


def test_a_key_log_that_cannot_be_read_is_an_error_of_usage(tmp_path: Path) -> None:
    files = Files(tmp_path, twin())
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


def test_a_key_log_that_others_may_read_is_noted_once(tmp_path: Path) -> None:
    files = Files(tmp_path, twin())
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
    first, second = Script(name="first"), Script(name="second")
    for script in (first, second):
        script.handshake()
        script.say(SERVER, made("text", size=300))
    *begun, last = of(first).packets
    packets = [*begun, *of(second, flow("10.0.0.1:50001")).packets, last]
    other = Script(name="other")
    other.handshake()
    result = Files(tmp_path, Twin(packets, other.keylog)).read()
    notes = [line for line in result.err.splitlines() if line.startswith("dcpdump: note: connection ")]
    assert [line.split()[3] for line in notes] == ["0", "1"]


def test_eight_connections_have_a_line_and_the_others_a_count(tmp_path: Path) -> None:
    packets: list[Record] = []
    for number in range(11):
        script = Script(name=f"c{number}")
        script.handshake()
        script.say(SERVER, made("text", size=300))
        other = flow(f"10.0.0.1:{50_000 + number}")
        packets += [
            Record(each.ts_ns, each.data.replace(struct.pack(">H", 50_000), struct.pack(">H", other.src.port)))
            for each in of(script).packets
        ]
    clear = [Record(packet.ts_ns or 0, packet.data) for packet in open_capture(str(REPLICA))]
    wrong = Script(name="wrong")
    wrong.handshake()
    result = Files(tmp_path, Twin([*packets, *clear], wrong.keylog)).read("-f line")
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
            for secret in secrets:
                assert secret.hex() not in (result.out + result.err).lower()
                assert traces(result.out + result.err, [secret], window=8) == set()
    files.read(f"-o {tmp_path / 'tables'} -f csv", "export")
    files.read(f"-w {tmp_path / 'carved.pcapng'}", "carve")
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path != files.keys]
    for data in written:
        for secret in secrets:
            assert secret not in data
            assert secret.hex().encode() not in data


def carved(files: Files, out: Path, more: str = "") -> Printed:
    return files.read(f"--opcode stream_end -w {out} {more}", "carve")


def test_carve_keeps_the_secrets_that_the_input_carried(tmp_path: Path) -> None:
    made_, write = twin(), Pcapng()
    packets = [write.packet(each.ts_ns // 1_000, each.data) for each in made_.packets]
    other = Script(name="other")
    other.handshake()
    path, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    secrets = dsb(write, made_.keylog + other.keylog)
    path.write_bytes(write.section() + write.interface() + b"".join([*packets, secrets]))
    result = run(f"dcpdump carve {path} --opcode stream_end -w {out}")
    assert result.code == 0
    assert f"dcpdump: note: {out} carries the secrets of its TLS connections: it opens itself\n" in result.err
    assert oct(os.stat(out).st_mode & 0o777) == "0o600"
    assert other.random.hex().encode() not in out.read_bytes()
    assert run(f"dcpdump read {out} --opcode stream_end -f line").out.count("stream-end") == 1


def test_carve_writes_the_secrets_of_a_key_log_only_when_it_is_asked_to(tmp_path: Path) -> None:
    files = Files(tmp_path, twin(0x0303, 0xC02F))
    bare, whole = tmp_path / "bare.pcapng", tmp_path / "whole.pcapng"
    result = carved(files, bare)
    assert "dcpdump: note: reading it needs the same key log\n" in result.err
    assert run(f"dcpdump read {bare}").code == 3
    assert run(f"dcpdump read {bare} --keylog {files.keys} --opcode stream_end -f line").out.count("stream-end") == 1
    assert "it opens itself" in carved(files, whole, "--with-secrets").err
    assert run(f"dcpdump read {whole} --opcode stream_end -f line").out.count("stream-end") == 1


def resumed() -> Twin:
    """Make two connections of one session, of which the key log has the first alone."""
    first, second = Script(0x0303, 0xC02F, "first"), Script(0x0303, 0xC02F, "second")
    first.handshake12()
    second.handshake12(resumed=first, ticket=True, line=False)
    for script in (first, second):
        script.say(CLIENT, encode("DCP_NOOP", opaque=1))
        script.say(SERVER, encode("DCP_NOOP", response=True, opaque=1))
    packets = of(first).packets + of(second, flow("10.0.0.1:50001")).packets
    return Twin(packets, first.keylog)


def test_a_resumed_connection_that_is_carved_with_its_secrets_opens_itself(tmp_path: Path) -> None:
    files, out = Files(tmp_path, resumed()), tmp_path / "out.pcapng"
    result = files.read(f"--connection 1 --with-secrets -w {out}", "carve")
    assert (result.code, result.err.splitlines()) == (
        0,
        [
            f"{out}: 2 of 4 frames · 11 of 25 packets",
            f"dcpdump: note: {out} carries the secrets of its TLS connections: it opens itself",
        ],
    )
    assert run(f"dcpdump read {out} -f line -q").out.count("noop") == 2


def test_of_a_resumed_connection_that_is_carved_without_its_secrets_it_is_said_what_it_needs(tmp_path: Path) -> None:
    files, out = Files(tmp_path, resumed()), tmp_path / "out.pcapng"
    result = files.read(f"--connection 1 -w {out}", "carve")
    assert result.code == 4
    assert result.err.splitlines()[-1] == (
        "dcpdump: note: reading it needs the same key log and the connection whose session was resumed: "
        "--with-secrets writes what opens it alone"
    )
    assert files.read(f"-w {out} --force", "carve").err.endswith("reading it needs the same key log\n")


def test_redact_does_not_conceal_inside_tls(tmp_path: Path) -> None:
    result = Files(tmp_path, twin()).read(f"-w {tmp_path / 'out.pcapng'}", "redact")
    assert result.code == 2
    assert "redact cannot conceal inside TLS; read --redact and export --redact can" in result.err


def test_redact_offers_no_key_log_where_there_is_nothing_but_tls(tmp_path: Path) -> None:
    result = run(f"dcpdump redact {Files(tmp_path, twin()).capture} -w {tmp_path / 'out.pcapng'}")
    assert result.code == 3
    assert result.err.endswith("hint: redact cannot conceal inside TLS; read --redact and export --redact can\n")


def test_redacted_output_conceals_what_was_inside_tls(tmp_path: Path) -> None:
    files = Files(tmp_path, twin())
    result = files.read("-f ndjson --redact -q")
    keys = {json.loads(each).get("key") for each in result.out.splitlines()}
    assert "hello" not in keys


def test_the_pipeline_opens_tls_on_this_machine_only(tmp_path: Path) -> None:
    files = Files(tmp_path, twin())
    result = files.read(f"-o {tmp_path / 'tables'} --capture-id one", "pipeline")
    assert result.code == 0
    assert "27 of 27 frames" in result.err
    for more in ("--engine spark", "--watch", "--master local[2]"):
        refused = files.read(f"-o {tmp_path / 'tables'} {more}", "pipeline")
        assert refused.code == 2
        assert "TLS is opened on this machine only, not on Spark: --engine local" in refused.err


def test_without_the_library_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpdump.cli.key_logs.find_spec", lambda name: None)
    files = Files(tmp_path, twin())
    result = files.read()
    assert result.code == 2
    assert result.err == "dcpdump: error: reading TLS needs cryptography\nhint: pip install 'cryptography>=42'\n"


def test_the_commands_that_diagnose_offers_have_the_key_log(tmp_path: Path) -> None:
    files = Files(tmp_path, twin())
    result = files.read("-q", "diagnose")
    assert f"dcpdump streams {files.capture} --connection 0 --cause not-reopened-yet" in result.out
    assert f" --keylog {files.keys}\n" in result.out


def test_connections_have_their_version_and_cipher(tmp_path: Path) -> None:
    files = Files(tmp_path, twin(0x0303, 0xCCA8))
    table = files.read("-q", "conns").out.splitlines()
    assert "tls" in table[0].split()
    assert "  1.2 ChaCha20-Poly1305  " in table[1]
    (row,) = (json.loads(line) for line in files.read("-q -f ndjson", "conns").out.splitlines())
    assert (row["tls"]["version"], row["tls"]["suite"]) == ("TLS 1.2", "ChaCha20-Poly1305")
    assert "tls" not in run(f"dcpdump conns {REPLICA} -q").out.splitlines()[0]


def test_a_library_user_gives_a_key_log(tmp_path: Path) -> None:
    from dcpdump import read

    files = Files(tmp_path, twin())
    assert sum(1 for _ in read(str(files.capture), keylog=str(files.keys))) == 27
