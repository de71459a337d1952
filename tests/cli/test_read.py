"""dcpdump read: inputs of every kind, and how it ends."""

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from dcpdump.wire.encode import encode
from tests.support.captures import Record, pcap
from tests.support.console import run
from tests.support.packets import TcpTalk

REPLICA = Path("samples/replica.pcap")
DCPDUMP = [sys.executable, "-m", "dcpdump"]


def shown(command: str, stdin: bytes = b"") -> list[tuple[str, int]]:
    """Return (name, offset) of the frames that a command prints."""
    return [(row["name"], row["offset"]) for row in map(json.loads, run(command, stdin).out.splitlines())]


def test_a_file_and_standard_input_give_the_same_frames() -> None:
    from_file = shown(f"dcpdump read {REPLICA} -f ndjson -q")
    assert len(from_file) == 27
    assert shown("dcpdump read - -f ndjson -q", REPLICA.read_bytes()) == from_file


def test_a_connection_continues_from_one_file_into_the_next(tmp_path: Path) -> None:
    data = REPLICA.read_bytes()
    records, at = [], 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        records.append(data[at : at + 16 + size])
        at += 16 + size
    for name, part in (("b.pcap", records[:37]), ("a.pcap", records[37:])):
        (tmp_path / name).write_bytes(data[:24] + b"".join(part))
    whole = shown(f"dcpdump read {REPLICA} -f ndjson -q")
    assert shown(f"dcpdump read {tmp_path}/a.pcap {tmp_path}/b.pcap -f ndjson -q") == whole
    assert shown(f"dcpdump read {tmp_path} -f ndjson -q") == whole
    assert shown(f"dcpdump read '{tmp_path}/*.pcap' -f ndjson -q") == whole


def test_an_answer_has_the_vbucket_of_its_own_request_where_all_have_one_opaque(tmp_path: Path) -> None:
    talk = TcpTalk()
    for vbucket in (7, 8):
        talk.send(0, encode("DCP_STREAM_REQ", vbucket=vbucket, opaque=1))
    for status, value in ((0x23, bytes(8)), (0x07, b"")):
        talk.send(1, encode("DCP_STREAM_REQ", response=True, status=status, value=value, opaque=1))
    records = [Record(packet.ts_ns or 0, packet.data, packet.wire_length) for packet in talk.fin()]
    (tmp_path / "one.pcap").write_bytes(pcap(records))
    for vbucket, answer in ((7, ("Rollback", 3, 4000)), (8, ("NotMyVbucket", 4, 4000))):
        printed = run(f"dcpdump read {tmp_path}/one.pcap --vbucket {vbucket} -f ndjson -q")
        _, row = map(json.loads, printed.out.splitlines())
        assert (row["status_name"], row["frame"], row["latency_us"]) == answer


def test_a_healthy_capture_ends_with_0_and_its_balance() -> None:
    printed = run(f"dcpdump read {REPLICA} --opcode noop -f line")
    assert (printed.code, printed.err) == (
        0,
        "2 of 27 frames shown · 60 packets · 1 connection · payload 5,188 B = 5,188 in frames\n",
    )


def test_lost_bytes_end_with_4_and_are_accounted_for() -> None:
    printed = run("dcpdump read samples/damage.pcap -f line")
    assert (printed.code, printed.err) == (
        4,
        "20 of 20 frames shown · 38 packets · 1 connection · payload 1,834 B = 1,638 in frames + 96 skipped"
        " + 100 captured twice · 1 gap, 100 B lost (lost-by-capture)\n",
    )


def test_a_capture_cut_short_shows_what_is_there_and_ends_with_4(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(REPLICA.read_bytes()[:-30])
    printed = run(f"dcpdump read {cut} -f line")
    assert printed.code == 4
    assert len(printed.out.splitlines()) == 27
    assert "is cut short" in printed.err


def test_text_with_hex_in_it_is_sent_to_explain(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text("80 57 00 05 1f 00 02 10 00 00 00 29\n")
    printed = run(f"dcpdump read {paste}")
    assert printed.code == 3
    assert "dcpdump explain" in printed.err


def test_a_capture_without_dcp_says_what_is_in_it(tmp_path: Path) -> None:
    talk = TcpTalk()
    talk.send(0, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)))
    capture = tmp_path / "tls.pcap"
    capture.write_bytes(pcap([Record(packet.ts_ns or 0, packet.data) for packet in talk.packets]))
    printed = run(f"dcpdump read {capture}")
    assert (printed.code, printed.out) == (3, "")
    assert "no DCP in the input" in printed.err
    assert "TLS on port 11210" in printed.err
    assert "11209" in printed.err.splitlines()[1]


def test_a_capture_while_nothing_was_sent_says_so(tmp_path: Path) -> None:
    talk = TcpTalk(syn=False)
    for _ in range(3):
        talk.write(1, seq=talk.seq(1) - 1).write(0, window=0)  # is the window still zero?
    capture = tmp_path / "silent.pcap"
    capture.write_bytes(pcap([Record(each.ts_ns or 0, each.data) for each in talk.packets]))
    assert run(f"dcpdump read {capture} -q") == (
        3,
        "",
        "dcpdump: error: no DCP in the input: 6 packets; 1 TCP connection; they carry no data\n"
        "hint: nothing was sent meanwhile; capture for longer, best from before the connection opens\n",
    )


@pytest.mark.parametrize("kept", [54, 60])
def test_a_capture_of_the_beginnings_of_packets_says_that_they_were_cut(kept: int, tmp_path: Path) -> None:
    talk = TcpTalk()
    talk.send(0, encode("DCP_NOOP") * 4)
    capture = tmp_path / "cut.pcap"
    capture.write_bytes(pcap([Record(each.ts_ns or 0, each.data[:kept], len(each.data)) for each in talk.packets]))
    printed = run(f"dcpdump read {capture} -q")
    assert (printed.code, printed.out) == (3, "")
    assert printed.err.splitlines() == [
        f"dcpdump: error: no DCP in the input: {len(talk.packets)} packets; 1 TCP connection; packets were cut when "
        f"they were captured: {150 - kept} B of what they carry are missing",  # of 96 behind 54 of headers
        "hint: capture TCP, whole packets: tcpdump -s 0 -w out.pcap port 11210 or port 11209",
    ]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_with_what_was_done_so_far(number: signal.Signals, code: int) -> None:
    command = [*DCPDUMP, "read", "-", "-f", "line"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write(REPLICA.read_bytes()[:3000])
        process.stdin.flush()
        first = process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == code
    assert first.startswith(b"#1 ")
    assert b"Traceback" not in errors
    assert b" shown" in errors


def test_frames_come_out_of_a_pipe_as_their_packets_come_in() -> None:
    data = REPLICA.read_bytes()
    command = [*DCPDUMP, "read", "-", "-f", "line", "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data[:1200])
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"#1 ")
        process.stdin.write(data[1200:])
        process.stdin.close()
        assert len(process.stdout.read().splitlines()) == 26


def test_time_zones_and_locales_change_nothing() -> None:
    first = None
    for environment in ({"TZ": "UTC"}, {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}):
        done = subprocess.run([*DCPDUMP, "read", str(REPLICA)], env={**os.environ, **environment}, capture_output=True)
        first = first or done.stdout
        assert done.stdout == first


def test_a_terminal_without_unicode_gets_plain_arrows() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*DCPDUMP, "read", str(REPLICA), "-c", "1"], env=environment, capture_output=True)
    assert b"10.0.1.9:50313 -> 10.0.1.1:11209" in done.stdout


def test_a_warning_names_the_file_where_there_are_several(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(REPLICA.read_bytes())
    (tmp_path / "b.pcap").write_bytes(REPLICA.read_bytes()[:900])
    found = run(f"dcpdump read {tmp_path} -f line").err.splitlines()
    assert [line for line in found if line.startswith("dcpdump: warning: ")] == [
        f"dcpdump: warning: {tmp_path}/b.pcap: record 10 (byte 802) is cut short: 91 bytes promised, 82 there; "
        "lost: 9 bytes, and any packet after it"
    ]


def test_read_need_not_be_said(tmp_path: Path) -> None:
    said = run(f"dcpdump read {REPLICA} -q -f line").out
    assert run(f"dcpdump {REPLICA} -q -f line") == (0, said, "")
    assert run("dcpdump - -q -f line", REPLICA.read_bytes()) == (0, said, "")
    missing = tmp_path / "none.pcap"
    assert run(f"dcpdump {missing}") == (3, "", f"dcpdump: error: there is no such file ({missing})\n")
