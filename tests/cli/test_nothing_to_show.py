"""Where there is nothing to show: what is printed says why, also of packets without the payload that was sent."""

import io
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from dcpdump.cli import stderr
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import FIN, RST, SYN
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.packets import TcpTalk, flow
from tests.support.secret_talk import saved

STOPPED = "samples/stopped.pcap"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("conns --connection 4", "no connection matches: there is 1 connection in the capture"),
        ("flow --port 80", "no connection matches: there is 1 connection in the capture"),
        ("streams --vbucket 999", "no stream matches: there are 3 streams in the capture\n0 streams · 1 connection"),
        ("rollbacks --vbucket 999", "no stream matches: there are 3 streams in the capture"),
        ("key a --vbucket 999", "no stream matches: there are 3 streams in the capture"),
        ("rollbacks", "no rollbacks in 3 stream requests"),
        ("stats --vbucket 999", "no frame matches"),
    ],
)
def test_what_matched_nothing_is_said(command: str, says: str) -> None:
    assert run(f"dcpdump {command} {STOPPED} -q") == (0, f"{says}\n", "")
    assert run(f"dcpdump {command} {STOPPED} -q -f ndjson") == (0, "", "")


@pytest.mark.parametrize("command", ["streams", "flow", "rollbacks", "key a"])
def test_other_commands_of_a_server_are_not_called_dcp(tmp_path: Path, command: str) -> None:
    talk = TcpTalk()
    for number in range(9):
        talk.send(0, encode("GET", opaque=number, key=b"a")).send(1, encode("GET", response=True, opaque=number))
    name = saved(talk.fin(), tmp_path / "kv.pcap")
    assert run(f"dcpdump {command} {name} -q").out.splitlines()[0] == "no DCP: 18 frames of other KV commands"


def test_times_of_day_may_pass_midnight() -> None:
    assert run(f"dcpdump read {STOPPED} -q --since 23:00:00 --until 01:00:00").code == 0


def test_noops_without_the_other_direction_are_not_called_unanswered(tmp_path: Path) -> None:
    talk, marker = TcpTalk(acks=False, syn=False), encode("DCP_SNAPSHOT_MARKER", {"start_seqno": 1, "end_seqno": 2})
    for number in range(3):
        talk.send(1, encode("DCP_NOOP", opaque=number) + marker)
    printed = run(f"dcpdump conns {saved(talk, tmp_path / 'half.pcap')} -q").out
    assert "3 seen, the other direction was not captured" in printed
    assert "answered" not in printed


@pytest.mark.parametrize("text", ["80", "ff"])
def test_a_frame_without_its_opcode_has_no_name(text: str) -> None:
    assert run(f"dcpdump explain {text} -q").out.splitlines()[0] == "the beginning of a header, without the opcode"


def test_lines_on_a_terminal_are_folded_between_words_but_hints_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((20, 24)))
    stderr.note("44 of 44 frames shown · 71 packets")
    stderr.note("hint: dcpdump read a-long-name.pcap --problems")
    assert terminal.getvalue().splitlines() == [
        "44 of 44 frames",
        "  shown · 71 packets",
        "hint: dcpdump read a-long-name.pcap --problems",
    ]


FILTERED = (
    "hint: a capture filter may have left them out, by flags of TCP or by length; capture all packets of a connection: "
    "tcpdump -s 0 -w out.pcap port 11210 or port 11209\n"
)
SILENT = "hint: nothing was sent meanwhile; capture for longer, best from before the connection opens\n"


def said(folder: Path, packets: Iterable[Packet], command: str = "read") -> str:
    result = run(f"dcpdump {command} {saved(packets, folder / 'capture.pcap')}")
    assert (result.code, result.out) == (3, "")
    return result.err


def talked(size: int = 226) -> TcpTalk:
    return TcpTalk().send(0, bytes(388)).send(1, bytes(size))


def with_flags(talk: TcpTalk) -> list[Packet]:
    return [each for each in talk if each.data[14 + 20 + 13] & (SYN | FIN | RST)]


def unseen(packets: int, total: str, to: str, back: str) -> str:
    return (
        f"dcpdump: error: no DCP in the input: {packets} packets; 1 TCP connection; they carry no data; "
        f"sequence numbers show that at least {total} B were sent, which are not in the capture "
        f"({to} B to port 11210, {back} B from it)\n{FILTERED}"
    )


@pytest.mark.parametrize("command", ["read", "diagnose", "conns", "streams", "stats"])
def test_packets_with_flags_alone_show_how_much_was_sent(command: str, tmp_path: Path) -> None:
    assert said(tmp_path, with_flags(talked().fin()), command) == unseen(4, "614", "388", "226")


@pytest.mark.parametrize("who", [0, 1])
def test_a_reset_shows_it_too(who: int, tmp_path: Path) -> None:
    assert said(tmp_path, with_flags(talked().rst(who))) == unseen(3, "614", "388", "226")


def test_a_reset_that_acknowledges_nothing_shows_what_its_sender_sent(tmp_path: Path) -> None:
    talk = talked().write(0, ack=0, flags=RST)
    assert said(tmp_path, with_flags(talk)) == unseen(3, "388", "388", "0")


def test_what_moved_may_be_much(tmp_path: Path) -> None:
    talk = talked().skip(1, 900_000_000).fin()
    assert said(tmp_path, with_flags(talk)) == unseen(4, "900,000,614", "388", "900,000,226")


def test_acknowledgements_alone_of_a_connection_that_was_joined_show_it(tmp_path: Path) -> None:
    talk = TcpTalk(syn=False).write(0).write(1).send(1, bytes(5_000)).write(0)
    empty = [each for each in talk.packets if len(each.data) <= 54]
    assert said(tmp_path, empty) == unseen(len(empty), "5,000", "0", "5,000")


@pytest.mark.parametrize("end", [TcpTalk.__iter__, TcpTalk.fin, TcpTalk.rst], ids=["none", "fin", "rst"])
def test_a_connection_on_which_nothing_was_sent_is_said_to_be_silent(
    end: Callable[[TcpTalk], object], tmp_path: Path
) -> None:
    talk = TcpTalk()
    end(talk)
    silent = f"{len(talk.packets)} packets; 1 TCP connection; they carry no data\n{SILENT}"
    assert said(tmp_path, talk) == f"dcpdump: error: no DCP in the input: {silent}"


def test_another_protocol_beside_is_named_too(tmp_path: Path) -> None:
    other = TcpTalk(flow("10.0.0.1:50001", "10.0.0.2:8091")).send(0, b"GET /pools HTTP/1.1\r\n\r\n").fin()
    err = said(tmp_path, [*with_flags(talked().fin()), *other.packets])
    assert "there is HTTP or memcached text on port 8091; sequence numbers show that at least 614 B were sent" in err
    assert err.endswith(FILTERED)


def test_packets_that_were_cut_are_no_filter(tmp_path: Path) -> None:
    err = said(tmp_path, [each._replace(data=each.data[:54]) for each in talked()])
    assert "packets were cut when they were captured: 614 B" in err
    assert "sequence numbers" not in err
