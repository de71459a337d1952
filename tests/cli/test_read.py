"""dcpdump read: inputs of every kind, and how it ends."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from dcpdump.wire.encode import encode
from tests.support.console import refusal, run
from tests.support.diagnoses import objects
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

REPLICA = Path("samples/replica.pcap")


def shown(captures: str) -> list[tuple[str, int]]:
    """Return (name, offset) of the frames of captures."""
    return [(row["name"], row["offset"]) for row in objects(f"dcpdump read {captures}")]


def test_a_connection_continues_from_one_file_into_the_next(tmp_path: Path) -> None:
    data = REPLICA.read_bytes()
    records, at = [], 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        records.append(data[at : at + 16 + size])
        at += 16 + size
    for name, part in (("b.pcap", records[:37]), ("a.pcap", records[37:])):
        (tmp_path / name).write_bytes(data[:24] + b"".join(part))
    for name in (f"{tmp_path}/a.pcap {tmp_path}/b.pcap", str(tmp_path), f"'{tmp_path}/*.pcap'"):
        assert shown(name) == shown(str(REPLICA))


def test_an_answer_has_the_vbucket_of_its_own_request_where_all_have_one_opaque(tmp_path: Path) -> None:
    talk = TcpTalk()
    for vbucket in (7, 8):
        talk.send(0, encode("DCP_STREAM_REQ", vbucket=vbucket, opaque=1))
    for status, value in ((0x23, bytes(8)), (0x07, b"")):
        talk.send(1, encode("DCP_STREAM_REQ", response=True, status=status, value=value, opaque=1))
    path = saved(talk.fin(), tmp_path / "one.pcap")
    for vbucket, answer in ((7, ("Rollback", 3, 4000)), (8, ("NotMyVbucket", 4, 4000))):
        _, row = objects(f"dcpdump read {path} --vbucket {vbucket}")
        assert (row["status_name"], row["frame"], row["latency_us"]) == answer


def test_a_healthy_capture_ends_with_0_and_its_balance() -> None:
    balance = "2 of 27 frames shown · 60 packets · 1 connection · payload 5,188 B = 5,188 in frames\n"
    assert run(f"dcpdump read {REPLICA} --opcode noop -f line")[::2] == (0, balance)


def test_a_capture_cut_short_shows_what_is_there_and_ends_with_4(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(REPLICA.read_bytes()[:-30])
    printed = run(f"dcpdump read {cut} -f line")
    assert (printed.code, len(printed.out.splitlines()), "is cut short" in printed.err) == (4, 27, True)


def test_text_with_hex_in_it_is_sent_to_explain(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text("80 57 00 05 1f 00 02 10 00 00 00 29\n")
    printed = run(f"dcpdump read {paste}")
    assert (printed.code, "dcpdump explain" in printed.err) == (3, True)


def test_a_capture_without_dcp_says_what_is_in_it(tmp_path: Path) -> None:
    talk = TcpTalk().send(0, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)))
    printed = run(f"dcpdump read {saved(talk, tmp_path / 'tls.pcap')}")
    assert (printed.code, printed.out) == (3, "")
    assert [part in printed.err for part in ("no DCP in the input", "TLS on port 11210", "\nhint: ")] == [True] * 3
    assert "11209" in printed.err.splitlines()[1]


def test_a_capture_while_nothing_was_sent_says_so(tmp_path: Path) -> None:
    talk = TcpTalk(syn=False)
    for _ in range(3):
        talk.write(1, seq=talk.seq(1) - 1).write(0, window=0)  # is the window still zero?
    assert run(f"dcpdump read {saved(talk, tmp_path / 'silent.pcap')} -q") == refusal(
        3,
        "no DCP in the input: 6 packets; 1 TCP connection; they carry no data",
        "nothing was sent meanwhile; capture for longer, best from before the connection opens",
    )


@pytest.mark.parametrize("kept", [54, 60])
def test_a_capture_of_the_beginnings_of_packets_says_that_they_were_cut(kept: int, tmp_path: Path) -> None:
    talk = TcpTalk().send(0, encode("DCP_NOOP") * 4)
    path = saved([each._replace(data=each.data[:kept]) for each in talk], tmp_path / "cut.pcap")
    assert run(f"dcpdump read {path} -q") == refusal(
        3,
        f"no DCP in the input: {len(talk.packets)} packets; 1 TCP connection; packets were cut when they were "
        f"captured: {150 - kept} B of what they carry are missing",  # of 96 behind 54 of headers
        "capture TCP, whole packets: tcpdump -s 0 -w out.pcap port 11210 or port 11209",
    )


def test_time_zones_and_locales_change_nothing() -> None:
    environment = {**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}
    words = [sys.executable, "-m", "dcpdump", "read", str(REPLICA), "-q"]
    done = subprocess.run(words, env=environment, capture_output=True, check=True)
    assert done.stdout.decode() == run(f"dcpdump read {REPLICA} -q").out


def test_a_warning_names_the_file_where_there_are_several(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(REPLICA.read_bytes())
    (tmp_path / "b.pcap").write_bytes(REPLICA.read_bytes()[:900])
    found = run(f"dcpdump read {tmp_path} -f line").err.splitlines()
    assert [line for line in found if line.startswith("dcpdump: warning: ")] == [
        f"dcpdump: warning: {tmp_path}/b.pcap: record 10 (byte 802) is cut short: 91 bytes promised, 82 there; "
        "lost: 9 bytes, and any packet after it"
    ]


def test_read_need_not_be_said(tmp_path: Path) -> None:
    said = run(f"dcpdump read {REPLICA} -f line")
    assert len(said.out.splitlines()) == 27
    assert run(f"dcpdump {REPLICA} -f line") == said
    for command in ("dcpdump read - -f line", "dcpdump - -f line"):
        assert run(command, REPLICA.read_bytes()) == said
    missing = tmp_path / "none.pcap"
    assert run(f"dcpdump {missing}") == refusal(3, f"there is no such file ({missing})")
